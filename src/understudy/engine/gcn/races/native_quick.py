"""Looks at the cells of one load, where barriers are all that a wave knows of others: `clock` words of its `WaveRow`.

They give up where anything else has to be known: where atomics were made, cells are missing, or accesses race. One
stands in translated code itself (`jit.emit_race_cells`).
"""

from __future__ import annotations

from understudy.engine.gcn.races.codes import (
    ALSO_LOADED,
    FINE,
    KIND,
    LANE_AT,
    LDS,
    LEAST,
    LEAVE,
    LINE_BITS,
    LINE_LANES,
    LINES,
    LOAD,
    LOADED,
    PAGE_BITS,
    ROWS,
    SIZE_AT,
    SPACE_AT,
    STORED,
    TICK_AT,
    TICKS,
    UPDATED,
    Group,
    Race,
    WaveRow,
)
from understudy.engine.gcn.races.native_cells import block_at, page_of
from understudy.engine.gcn.races.native_order import is_past, is_quiet
from understudy.ir.native import U64, inlined, lowest_bit, native
from understudy.isa.gcn.state import LDS_SIZE


@inlined
def highest(code: int, before: int, bound: int) -> int:
    """The same as `native_look.later`, where barriers are all that a wave knows of others."""
    return before if (before > code) & (before >> TICK_AT & TICKS - 1 > bound) else code


@inlined
def quick_dword(
    quiet: int,
    cells: int,
    address: int,
    code: int,
    floor: int,
    stamp: int,
    bound: int,
    group_floor: int,
    group_span: int,
) -> int:
    """A load of one dword of a page with these cells; 1 where that is to be looked at closer.

    `quiet`: nobody has stored there but before what the wave does now; see `native_order.is_quiet`.
    """
    row = U64.at(cells + (address >> LINE_BITS & LINES) * (8 * ROWS))
    at = 8 * (address >> 2 & LINE_LANES - 1)
    if not quiet:
        stored = row[STORED]
        if stored and stored < LEAST:
            stored = U64[stored + at]
        if row[UPDATED] or (stored and stored < LEAST):
            return LEAVE
        if not is_past(stored, floor, stamp, bound, group_floor, group_span):
            return LEAVE
    cell, also = row[LOADED] + at, row[ALSO_LOADED] + at
    if cell - 8 * LINE_LANES >= LEAST - 8 * LINE_LANES:
        return LEAVE
    loaded = U64[cell]
    is_over = is_past(loaded, floor, stamp, bound, group_floor, group_span)
    if also - 8 * LINE_LANES < LEAST - 8 * LINE_LANES:  # which of the two it is, no processor would guess
        cell = cell if is_over else also
        loaded = U64[cell]
    elif not is_over:
        return LEAVE
    if loaded - 1 < LEAST - 1:
        return LEAVE
    U64[cell] = highest(code, loaded, bound)
    return FINE


@inlined
def quick_byte(
    quiet: int,
    cells: int,
    address: int,
    code: int,
    floor: int,
    stamp: int,
    bound: int,
    group_floor: int,
    group_span: int,
) -> int:
    """The same of a byte."""
    row = U64.at(cells + (address >> LINE_BITS & LINES) * (8 * ROWS))
    at, byte = 8 * (address >> 2 & LINE_LANES - 1), 8 * (address & 3)
    if not quiet:
        stored = row[STORED]
        if stored and stored < LEAST:
            stored = U64[stored + at]
            if stored and stored < LEAST:
                stored = U64[stored + byte]
        if row[UPDATED] or not is_past(stored, floor, stamp, bound, group_floor, group_span):
            return LEAVE
    cell, also = row[LOADED], row[ALSO_LOADED]
    if cell - 1 >= LEAST - 1:
        return LEAVE
    cell = U64[cell + at]
    if cell - 1 >= LEAST - 1:
        return LEAVE
    is_over = is_past(U64[cell + byte], floor, stamp, bound, group_floor, group_span)
    if also - 1 < LEAST - 1:
        also = U64[also + at]
    if also - 1 < LEAST - 1:  # which of the two it is, no processor would guess
        cell = cell if is_over else also
    elif not is_over:
        return LEAVE
    U64[cell + byte] = highest(code, U64[cell + byte], bound)
    return FINE


@native
def load_lanes(wave: WaveRow, words: int, what: int, code: int, addresses: int, mask: int) -> int:
    """Lanes load dwords or bytes from anywhere; those that have to be looked at closer.

    `words`: the wave's own, `code` is that of lane 0 of the addresses.
    """
    group = Group.from_address(wave.group)
    race, space, size, at = Race.from_address(group.race), what >> SPACE_AT & 3, what >> SIZE_AT, U64.at(addresses)
    if what & KIND != LOAD or (size != 4 and size != 1) or not wave.is_alone:
        return mask
    floor, stamp, bound, group_floor = wave.global_floor, wave.stamp, wave.bound, wave.group_floor
    span, other, others, left, known, cells = wave.group_span, group.low, group.high - group.low, 0, ~0, 0
    quiet = 0
    if space == LDS:
        quiet = is_quiet(wave, group)
        floor, other = group_floor, U64.at(words)[LDS_SIZE] - size + 1
        others = ~other  # all that lies beyond
    while mask:
        lane = lowest_bit(mask)
        mask &= mask - 1
        address = at[lane]
        if address - other < others:  # nobody else sees what is there
            continue
        if address >> PAGE_BITS != known:
            known, cells = address >> PAGE_BITS, page_of(race, address, space)
        bit, mine, status = 1 << lane, code + (lane << LANE_AT), LEAVE
        if cells and address & size - 1 == 0:
            if space != LDS:
                quiet = U64[block_at(cells, address)] < floor
            if size == 4:
                status = quick_dword(quiet, cells, address, mine, floor, stamp, bound, group_floor, span)
            else:
                status = quick_byte(quiet, cells, address, mine, floor, stamp, bound, group_floor, span)
        left = left | (bit if status else 0)
    return left
