"""Fast-path checks of the shadow cells of one load.

They are valid only if only barriers order the wave with other waves. They return 1, to request the full
check, if the memory was accessed by atomics, if cells are not allocated, or if accesses may race.
`emit_race_cells` also inlines `check_one_dword` in translated code."""

from __future__ import annotations

from softcard.engine.gcn.races.layout import (
    ALSO_LOADED,
    EPOCH_AT,
    EPOCHS,
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
    UPDATED,
    Group,
    Race,
    WaveRow,
)
from softcard.engine.gcn.races.native_cells import block_at, page_of
from softcard.engine.gcn.races.native_order import is_past, is_quiet
from softcard.ir.native import U64, inlined, lowest_bit, native
from softcard.isa.gcn.state import LDS_SIZE


@inlined
def highest(record: int, before: int, bound: int) -> int:
    """Return the access record that a cell keeps after a load: `record` (this load) or `before` (the recorded load).

    The recorded load stays if its epoch is after `bound` and its record is the larger one. This is
    `native_check.later` for launches in which only barriers order waves."""
    return before if (before > record) & (before >> EPOCH_AT & EPOCHS - 1 > bound) else record


@inlined
def check_one_dword(
    quiet: int,
    cells: int,
    address: int,
    record: int,
    watermark: int,
    epoch_bits: int,
    bound: int,
    group_start: int,
    group_span: int,
) -> int:
    """Check a load of one dword; return 1 if it needs the full check.

    `cells` is the host address of the cells of the dword's page. `quiet` is nonzero if all stores to this memory
    are known to have happened before the load; see `native_order.is_quiet`."""
    row = U64.at(cells + (address >> LINE_BITS & LINES) * (8 * ROWS))
    at = 8 * (address >> 2 & LINE_LANES - 1)
    if not quiet:
        stored = row[STORED]
        if stored and stored < LEAST:
            stored = U64[stored + at]
        if row[UPDATED] or (stored and stored < LEAST):
            return LEAVE
        if not is_past(stored, watermark, epoch_bits, bound, group_start, group_span):
            return LEAVE
    cell, also = row[LOADED] + at, row[ALSO_LOADED] + at
    if cell - 8 * LINE_LANES >= LEAST - 8 * LINE_LANES:
        return LEAVE
    loaded = U64[cell]
    is_over = is_past(loaded, watermark, epoch_bits, bound, group_start, group_span)
    if also - 8 * LINE_LANES < LEAST - 8 * LINE_LANES:  # a conditional move: the branch would be unpredictable
        cell = cell if is_over else also
        loaded = U64[cell]
    elif not is_over:
        return LEAVE
    if loaded - 1 < LEAST - 1:
        return LEAVE
    U64[cell] = highest(record, loaded, bound)
    return FINE


@inlined
def check_one_byte(
    quiet: int,
    cells: int,
    address: int,
    record: int,
    watermark: int,
    epoch_bits: int,
    bound: int,
    group_start: int,
    group_span: int,
) -> int:
    """Check a load of one byte; return 1 if it needs the full check. See `check_one_dword`."""
    row = U64.at(cells + (address >> LINE_BITS & LINES) * (8 * ROWS))
    at, byte = 8 * (address >> 2 & LINE_LANES - 1), 8 * (address & 3)
    if not quiet:
        stored = row[STORED]
        if stored and stored < LEAST:
            stored = U64[stored + at]
            if stored and stored < LEAST:
                stored = U64[stored + byte]
        if row[UPDATED] or not is_past(stored, watermark, epoch_bits, bound, group_start, group_span):
            return LEAVE
    cell, also = row[LOADED], row[ALSO_LOADED]
    if cell - 1 >= LEAST - 1:
        return LEAVE
    cell = U64[cell + at]
    if cell - 1 >= LEAST - 1:
        return LEAVE
    is_over = is_past(U64[cell + byte], watermark, epoch_bits, bound, group_start, group_span)
    if also - 1 < LEAST - 1:
        also = U64[also + at]
    if also - 1 < LEAST - 1:  # a conditional move: the branch would be unpredictable
        cell = cell if is_over else also
    elif not is_over:
        return LEAVE
    U64[cell + byte] = highest(record, U64[cell + byte], bound)
    return FINE


@native
def load_lanes(wave: WaveRow, words: int, what: int, record: int, addresses: int, mask: int) -> int:
    """Check loads of dwords or bytes from any addresses; return the mask of lanes that need the full check.

    `words` is the host address of the wave's state words; `record` is the access record for lane 0 of the addresses.
    """
    group = Group.from_address(wave.group)
    race, space, size, at = Race.from_address(group.race), what >> SPACE_AT & 3, what >> SIZE_AT, U64.at(addresses)
    if what & KIND != LOAD or (size != 4 and size != 1) or not wave.is_alone:
        return mask
    watermark, epoch_bits, bound, group_start = wave.global_watermark, wave.epoch_bits, wave.bound, wave.group_start
    span, other, others, left, known, cells = wave.group_span, group.low, group.high - group.low, 0, ~0, 0
    quiet = 0
    if space == LDS:
        quiet = is_quiet(wave, group)
        watermark, other = group_start, U64.at(words)[LDS_SIZE] - size + 1
        others = ~other  # all that lies beyond
    while mask:
        lane = lowest_bit(mask)
        mask &= mask - 1
        address = at[lane]
        if address - other < others:  # no other wave sees this memory
            continue
        if address >> PAGE_BITS != known:
            known, cells = address >> PAGE_BITS, page_of(race, address, space)
        bit, mine, status = 1 << lane, record + (lane << LANE_AT), LEAVE
        if cells and address & size - 1 == 0:
            if space != LDS:
                quiet = U64[block_at(cells, address)] < watermark
            if size == 4:
                status = check_one_dword(quiet, cells, address, mine, watermark, epoch_bits, bound, group_start, span)
            else:
                status = check_one_byte(quiet, cells, address, mine, watermark, epoch_bits, bound, group_start, span)
        left = left | (bit if status else 0)
    return left
