"""Memory as it was before waves store to it, page by page, for when they must not have: compiled."""

from __future__ import annotations

from typing import Final

from understudy.core.space import PAGE_BITS as SMALL_BITS
from understudy.engine.gcn.memory import ADDEND, ADDRESS_BITS, COLUMNS, ENTRIES, GIB_BITS, START, STORES
from understudy.engine.gcn.races.codes import PAGE_BITS, SAVED, SAVES_AT, SAVING, SIZE_AT, Saves
from understudy.ir.native import A64, U8, U64, copy, inlined, lowest_bit, native

USED: Final = 8 * SAVES_AT["used"]
PAGE: Final = 1 << PAGE_BITS
SMALL: Final = 1 << SMALL_BITS
"""Bytes of a page, and of one of the page table."""


@native
def keep(saves: int, what: int, addresses: int, mask: int) -> int:
    """Keep the pages that lanes store to next, as they are now; 1 where there is no room."""
    size, known = what >> SIZE_AT, ~0
    while mask:
        lane = lowest_bit(mask)
        mask &= mask - 1
        address = U64.at(addresses)[lane]
        page, last = address >> PAGE_BITS, address + size - 1 >> PAGE_BITS
        if page != known and keep_page(saves, page):
            return 1
        if last != page and keep_page(saves, last):
            return 1
        known = page
    return 0


@native
def keep_page(saves: int, page: int) -> int:
    """Keep a page, unless it is; 1 where there is no room."""
    if page >> ADDRESS_BITS - PAGE_BITS:
        return 0
    here = Saves.from_address(saves)
    state = here.states + 8 * page
    if A64.load(state) == SAVED:
        return 0
    if A64.compare_exchange(state, 0, SAVING) == 0:
        number = A64.add(saves + USED, 1)
        if number >= here.most:
            A64.store(state, 0)
            return 1
        U64.at(here.pages)[number] = page
        for each in range(here.count):
            keep_runs(U64.at(here.tables)[each], page, here.room + ((number * here.count + each) << PAGE_BITS))
        A64.store(state, SAVED)
    while A64.load(state) == SAVING:
        number = 0
    return A64.load(state) != SAVED


@inlined
def run_of(table: int, address: int) -> int:
    """Host address of the row of the page table for one of its pages; 0 where nothing can be stored to there."""
    rows = U64.at(table)[address >> GIB_BITS]
    row = rows + (address >> SMALL_BITS & ENTRIES - 1) * (8 * COLUMNS) if rows else 0
    return row if row and U64.at(row)[STORES] else 0


@inlined
def begin_of(row: int, address: int) -> int:
    """Where what can be stored to begins, of the page at an address."""
    return max(U64.at(row)[START], address)


@inlined
def end_of(row: int, address: int) -> int:
    """Where it ends."""
    return min(U64.at(row)[START] + U64.at(row)[STORES], address + SMALL)


@native
def keep_runs(table: int, page: int, room: int) -> None:
    """Copy what can be stored to of a page, as a memory has it."""
    for address in range(page << PAGE_BITS, page + 1 << PAGE_BITS, SMALL):
        row = run_of(table, address)
        if row:
            start = begin_of(row, address)
            copy(room + (start & PAGE - 1), start + U64.at(row)[ADDEND], end_of(row, address) - start)


@native
def put_back(table: int, page: int, room: int, flags: int) -> None:
    """Have those bytes of a page that have a flag be what they were."""
    for address in range(page << PAGE_BITS, page + 1 << PAGE_BITS, SMALL):
        row = run_of(table, address)
        if row:
            for at in range(begin_of(row, address), end_of(row, address)):
                if U8[flags + (at & PAGE - 1)]:
                    U8[at + U64.at(row)[ADDEND]] = U8[room + (at & PAGE - 1)]
