"""What most accesses need of `native_look`, to stand in translated code itself: it keeps its registers meanwhile.

A hint knows the cells of the page that an access met last, and the number of its site; there is one only while barriers
are all that the wave knows of other waves, and its launch is the only one.
"""

from __future__ import annotations

from understudy.engine.gcn.races.codes import (
    ALSO_LOADED,
    FINE,
    LANE_AT,
    LEAST,
    LEAVE,
    LINE_BITS,
    LINE_LANES,
    LINES,
    LOADED,
    PAGE_BITS,
    ROWS,
    SITE_AT,
    STORED,
    UPDATED,
    Hint,
    Slot,
    WaveRow,
)
from understudy.engine.gcn.races.native_order import is_over
from understudy.ir.native import U64, inlined


@inlined
def is_past(wave: WaveRow, code: int, floor: int) -> int:
    """Whether an access came before what a wave does now; `floor`: all below it did. 0 for what is no code."""
    return (code >= LEAST) & is_over(wave, code, floor)


@inlined
def known(hint: Hint, key: int, address: int) -> int:
    """Whether a hint is about an access and the page of an address."""
    return (hint.key == key) & (hint.page == address >> PAGE_BITS)


@inlined
def stamped(wave: WaveRow, hint: Hint, first: int) -> int:
    """The code of an access by the lanes from `first` on, in the present tick."""
    return wave.stamp + hint.site + (first << LANE_AT)


@inlined
def highest(code: int, before: int) -> int:
    """The code of the higher lane, of accesses by one instruction; see `native_look.later`."""
    return max(code, before) if before >> SITE_AT == code >> SITE_AT else code


@inlined
def load_line(wave: WaveRow, hint: Hint, key: int, first: int, address: int, is_local: int) -> int:
    """A chunk loads a line, dword by dword; 1 where that is to be looked at closer."""
    if not known(hint, key, address):
        return LEAVE
    row, floor = U64.at(hint.cells + (address >> LINE_BITS & LINES) * (8 * ROWS)), wave.global_floor
    if is_local:
        floor = wave.group_floor
    stored, loaded = row[STORED], row[LOADED]
    if row[UPDATED] or (stored and not is_past(wave, stored, floor)):
        return LEAVE
    code = stamped(wave, hint, first)
    if loaded == 0 or is_past(wave, loaded, floor):
        row[LOADED] = highest(code, loaded)
        return FINE
    also = row[ALSO_LOADED]
    if loaded < LEAST or (also and also < LEAST):
        return LEAVE
    row[ALSO_LOADED] = highest(code, also)
    return FINE


@inlined
def store_line(
    wave: WaveRow, hint: Hint, key: int, first: int, address: int, is_local: int, slot: Slot, bit: int
) -> int:
    """A chunk stores a line, dword by dword; 1 where that is to be looked at closer.

    Elsewhere than in LDS the access goes on in its slot, the one of `bit`.
    """
    if not known(hint, key, address) or wave.clash_count:
        return LEAVE
    row, floor, code = U64.at(hint.cells + (address >> LINE_BITS & LINES) * (8 * ROWS)), wave.global_floor, 0
    if is_local:
        floor, code = wave.group_floor, stamped(wave, hint, first)
    else:
        if not wave.open & bit:
            return LEAVE
        code = slot.code + (first << LANE_AT)
    stored, loaded, also = row[STORED], row[LOADED], row[ALSO_LOADED]
    if row[UPDATED] or (stored and not is_past(wave, stored, floor)):
        return LEAVE
    if (loaded and not is_past(wave, loaded, floor)) or (also and not is_past(wave, also, floor)):
        return LEAVE
    row[LOADED], row[ALSO_LOADED], row[STORED] = 0, 0, code
    return FINE


@inlined
def load_dword(wave: WaveRow, hint: Hint, key: int, first: int, address: int, is_local: int) -> int:
    """All lanes of a chunk load one dword; 1 where that is to be looked at closer."""
    if not known(hint, key, address):
        return LEAVE
    row, floor = U64.at(hint.cells + (address >> LINE_BITS & LINES) * (8 * ROWS)), wave.global_floor
    if is_local:
        floor = wave.group_floor
    at = 8 * (address >> 2 & LINE_LANES - 1)
    stored, cell = row[STORED], row[LOADED]
    if stored and stored < LEAST:
        stored = U64[stored + at]
    if row[UPDATED] or (stored and not is_past(wave, stored, floor)) or cell == 0 or cell >= LEAST:
        return LEAVE
    code, loaded = stamped(wave, hint, first + LINE_LANES - 1), U64[cell + at]
    if loaded == 0 or is_past(wave, loaded, floor):
        U64[cell + at] = highest(code, loaded)
        return FINE
    cell = row[ALSO_LOADED]
    if loaded < LEAST or cell == 0 or cell >= LEAST:
        return LEAVE
    also = U64[cell + at]
    if also and also < LEAST:
        return LEAVE
    U64[cell + at] = highest(code, also)
    return FINE
