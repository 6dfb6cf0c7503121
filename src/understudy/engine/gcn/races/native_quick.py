"""A look at the cells of one dword, to stand in translated code itself (`jit.emit_race_cells`)."""

from __future__ import annotations

from understudy.engine.gcn.races.codes import (
    ALSO_LOADED,
    FINE,
    LEAST,
    LEAVE,
    LINE_BITS,
    LINE_LANES,
    LINES,
    LOADED,
    ROWS,
    SITE_AT,
    STORED,
    TICK_AT,
    TICKS,
    UID_AT,
    UPDATED,
)
from understudy.ir.native import U64, inlined


@inlined
def is_past(code: int, floor: int, stamp: int, bound: int, group_floor: int, group_span: int) -> int:
    """Whether an access came before what a wave does now, by what its `codes.WaveRow` says; see `native_order.is_over`.

    What is no code counts as that.
    """
    in_group = (code - group_floor < group_span) & (code >> TICK_AT & TICKS - 1 <= bound)
    return (code < floor) | ((code ^ stamp) < 1 << UID_AT) | in_group


@inlined
def highest(code: int, before: int) -> int:
    """The code of the higher lane, of accesses by one instruction; see `native_look.later`."""
    return before if before - code <= ~code & (1 << SITE_AT) - 1 else code


@inlined
def load_dword(
    cells: int, address: int, code: int, floor: int, stamp: int, bound: int, group_floor: int, group_span: int
) -> int:
    """All lanes of a chunk load one dword of a page with these cells; 1 where that is to be looked at closer."""
    row = U64.at(cells + (address >> LINE_BITS & LINES) * (8 * ROWS))
    at = 8 * (address >> 2 & LINE_LANES - 1)
    stored, cell = row[STORED], row[LOADED]
    if stored and stored < LEAST:
        stored = U64[stored + at]
    if row[UPDATED] or (stored and stored < LEAST) or cell - 1 >= LEAST - 1:
        return LEAVE
    loaded = U64[cell + at]
    if loaded and loaded < LEAST:
        return LEAVE
    if not is_past(stored, floor, stamp, bound, group_floor, group_span):
        return LEAVE
    if not is_past(loaded, floor, stamp, bound, group_floor, group_span):
        cell = row[ALSO_LOADED]
        if cell - 1 >= LEAST - 1:
            return LEAVE
        loaded = U64[cell + at]
        if loaded and loaded < LEAST:
            return LEAVE
    U64[cell + at] = highest(code, loaded)
    return FINE
