"""Native functions that record stores: translated code calls them if it does not record a store inline."""

from __future__ import annotations

import ctypes
from typing import Final

from softcard.engine.riscv.code_stores.layout import (
    CELL,
    CELL_BITS,
    DISTANCE,
    HALFWORDS,
    NUMBERS,
    SITES,
    HartRow,
    NumberRow,
    SiteRow,
    Stores,
)
from softcard.ir.native import U16, U64, inlined, native

NUMBER_BYTES: Final = ctypes.sizeof(NumberRow)
SITE_BYTES: Final = ctypes.sizeof(SiteRow)
GROUP: Final = 4
"""The number of cells whose store numbers are written at once."""


@native
def ready(row: HartRow, pc: int) -> int:
    """Return the store number of the instruction at `pc`, repeated for four halfwords; 0 if no number is free."""
    stores = Stores.from_address(row.stores)
    key, site = stores.interval | pc, SiteRow.from_address(row.sites + (pc >> 1 & SITES - 1) * SITE_BYTES)
    if site.key != key:
        if stores.next >= NUMBERS:
            return 0
        made = NumberRow.from_address(stores.numbers + stores.next * NUMBER_BYTES)
        made.key, made.hart = key, row.hart
        site.key, site.halfwords = key, stores.next * HALFWORDS
        stores.next += 1
    return site.halfwords


@inlined
def split_cell(place: int, host: int) -> int:
    """Move the store number of the cell that contains `host` from the table into shadow memory; return 0.

    Shadow memory has one number per halfword. `place` is the address of the cell's table row. Nothing happens
    if that row holds 0."""
    whole = U16[place]
    if whole:
        U16[place] = 0
        halfwords, shadow = whole * HALFWORDS, (host & -CELL) + DISTANCE
        for at in range(shadow, shadow + CELL, 8):
            U64[at] = halfwords
    return 0


@inlined
def paint(stores: Stores, halfwords: int, first: int, last: int) -> int:
    """Record a store to the halfwords from `first` to `last` (excluded), which lie in one cell; return 0.

    `halfwords` is the store number, repeated for four halfwords. It is written to shadow memory, unless the
    table holds it for the whole cell already."""
    place = stores.cells + ((first >> CELL_BITS & stores.cell_mask) << 1)
    if U16[place] == halfwords & 0xFFFF:
        return 0
    split_cell(place, first)
    at, end = first + DISTANCE, last + DISTANCE
    while at < end and at & 7:
        U16[at] = halfwords & 0xFFFF
        at += 2
    while at + 8 <= end:
        U64[at] = halfwords
        at += 8
    while at < end:
        U16[at] = halfwords & 0xFFFF
        at += 2
    return 0


@native
def span(row: HartRow, halfwords: int, first: int, last: int) -> int:
    """Record a store to the bytes from host address `first` to `last` (excluded); return 0.

    `halfwords` is the store number, repeated for four halfwords. Whole cells are recorded in the table, others
    in shadow memory."""
    if first >= last:
        return 0
    stores = Stores.from_address(row.stores)
    at, end = first & ~1, last + 1 & ~1
    if at & CELL - 1:
        cell_end = (at | CELL - 1) + 1
        if end <= cell_end:
            paint(stores, halfwords, at, end)
            return 0
        paint(stores, halfwords, at, cell_end)
        at = cell_end
    whole = end & -CELL
    while at < whole:
        cell = at >> CELL_BITS & stores.cell_mask
        place, count = stores.cells + (cell << 1), whole - at >> CELL_BITS
        if cell & GROUP - 1 or count < GROUP:
            U16[place] = halfwords & 0xFFFF
            at += CELL
            continue
        room = stores.cell_mask + 1 - cell
        if room < count:
            count = room
        groups = count >> 2
        for group in range(groups):
            U64[place + (group << 3)] = halfwords
        at += groups << 2 + CELL_BITS
    if at < end:
        paint(stores, halfwords, at, end)
    return 0


@native
def move(row: HartRow, pc: int, halfwords: int, first: int, last: int) -> int:
    """Record a finished run of adjacent stores, and return the store number of the instruction at `pc`.

    The run covers the bytes from `first` to `last` (excluded) and has the store number `halfwords`. The instruction at
    `pc` begins the next run; the result is 0 if no store number is free.
    """
    span(row, halfwords, first, last)
    return ready(row, pc)


@native
def split(row: HartRow, first: int, last: int) -> int:
    """Move the store numbers of the cells from `first` to `last` (excluded) from the table into shadow memory.

    Afterwards each halfword of these cells has its own store number.
    """
    stores = Stores.from_address(row.stores)
    at = first & -CELL
    while at < last:
        split_cell(stores.cells + ((at >> CELL_BITS & stores.cell_mask) << 1), at)
        at += CELL
    return 0


@native
def note(row: HartRow, pc: int, host: int, size: int) -> int:
    """Record that the instruction at `pc` stores `size` bytes at host address `host`; return 0.

    Return 1 without recording anything if no store number is free.
    """
    halfwords = ready(row, pc)
    if halfwords == 0:
        return 1
    span(row, halfwords, host, host + size)
    return 0
