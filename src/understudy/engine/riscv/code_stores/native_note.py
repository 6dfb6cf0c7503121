"""Noting stores, compiled: what translated code calls where it does not note them in line."""

from __future__ import annotations

import ctypes
from typing import Final

from understudy.engine.riscv.code_stores.codes import (
    CELL,
    CELL_BITS,
    DISTANCE,
    NUMBERS,
    PARCELS,
    SITES,
    HartRow,
    NumberRow,
    SiteRow,
    Stores,
)
from understudy.ir.native import U16, U64, inlined, native

NUMBER_BYTES: Final = ctypes.sizeof(NumberRow)
SITE_BYTES: Final = ctypes.sizeof(SiteRow)
GROUP: Final = 4
"""Cells whose numbers are written at once."""


@native
def ready(row: HartRow, pc: int) -> int:
    """The number of an instruction, in four parcels; 0 where there is none left."""
    stores = Stores.from_address(row.stores)
    key, site = stores.stretch | pc, SiteRow.from_address(row.sites + (pc >> 1 & SITES - 1) * SITE_BYTES)
    if site.key != key:
        if stores.next >= NUMBERS:
            return 0
        made = NumberRow.from_address(stores.numbers + stores.next * NUMBER_BYTES)
        made.key, made.hart = key, row.hart
        site.key, site.parcels = key, stores.next * PARCELS
        stores.next += 1
    return site.parcels


@inlined
def split_cell(place: int, host: int) -> int:
    """The parcels of a cell, whose number is at a place, have their own from now on: that of the cell."""
    whole = U16[place]
    if whole:
        U16[place] = 0
        parcels, plane = whole * PARCELS, (host & -CELL) + DISTANCE
        for at in range(plane, plane + CELL, 8):
            U64[at] = parcels
    return 0


@inlined
def paint(stores: Stores, parcels: int, first: int, last: int) -> int:
    """Parcels of one cell have been stored."""
    place = stores.cells + ((first >> CELL_BITS & stores.cell_mask) << 1)
    if U16[place] == parcels & 0xFFFF:
        return 0
    split_cell(place, first)
    at, end = first + DISTANCE, last + DISTANCE
    while at < end and at & 7:
        U16[at] = parcels & 0xFFFF
        at += 2
    while at + 8 <= end:
        U64[at] = parcels
        at += 8
    while at < end:
        U16[at] = parcels & 0xFFFF
        at += 2
    return 0


@native
def span(row: HartRow, parcels: int, first: int, last: int) -> int:
    """Bytes of this process have been stored by the instruction of a number."""
    if first >= last:
        return 0
    stores = Stores.from_address(row.stores)
    at, end = first & ~1, last + 1 & ~1
    if at & CELL - 1:
        behind = (at | CELL - 1) + 1
        if end <= behind:
            paint(stores, parcels, at, end)
            return 0
        paint(stores, parcels, at, behind)
        at = behind
    whole = end & -CELL
    while at < whole:
        cell = at >> CELL_BITS & stores.cell_mask
        place, count = stores.cells + (cell << 1), whole - at >> CELL_BITS
        if cell & GROUP - 1 or count < GROUP:
            U16[place] = parcels & 0xFFFF
            at += CELL
            continue
        room = stores.cell_mask + 1 - cell
        if room < count:
            count = room
        groups = count >> 2
        for group in range(groups):
            U64[place + (group << 3)] = parcels
        at += groups << 2 + CELL_BITS
    if at < end:
        paint(stores, parcels, at, end)
    return 0


@native
def move(row: HartRow, pc: int, parcels: int, first: int, last: int) -> int:
    """The same, before another run begins: the number of the instruction that makes it; 0 where there is none left."""
    span(row, parcels, first, last)
    return ready(row, pc)


@native
def split(row: HartRow, first: int, last: int) -> int:
    """Parcels of the cells of these bytes have their own numbers from now on."""
    stores = Stores.from_address(row.stores)
    at = first & -CELL
    while at < last:
        split_cell(stores.cells + ((at >> CELL_BITS & stores.cell_mask) << 1), at)
        at += CELL
    return 0


@native
def note(row: HartRow, pc: int, host: int, size: int) -> int:
    """Bytes of this process are stored by an instruction; 1 where that has no number, and nothing was done."""
    parcels = ready(row, pc)
    if parcels == 0:
        return 1
    span(row, parcels, host, host + size)
    return 0
