"""Compiled functions that save the contents of guest memory, page by page, before waves store to it.

The saved contents are needed to undo a speculative launch."""

from __future__ import annotations

from typing import Final

from softcard.core.space import PAGE_BITS as SMALL_BITS
from softcard.engine.gcn.memory import ADDEND, ADDRESS_BITS, COLUMNS, ENTRIES, GIB_BITS, START, STORES
from softcard.engine.gcn.races.layout import PAGE_BITS, SAVED, SAVES_AT, SAVING, SIZE_AT, Saves
from softcard.ir.native import A64, U8, U64, copy, inlined, lowest_bit, native

USED: Final = 8 * SAVES_AT["used"]
PAGE: Final = 1 << PAGE_BITS
SMALL: Final = 1 << SMALL_BITS
"""The size in bytes of a page of the page table. A saved page is larger: it has `PAGE` bytes."""


@native
def save_pages(saves: int, what: int, addresses: int, mask: int) -> int:
    """Save the pages that lanes are about to store to; return 1 if the memory for saved pages is full."""
    size, known = what >> SIZE_AT, ~0
    while mask:
        lane = lowest_bit(mask)
        mask &= mask - 1
        address = U64.at(addresses)[lane]
        page, last = address >> PAGE_BITS, address + size - 1 >> PAGE_BITS
        if page != known and save_page(saves, page):
            return 1
        if last != page and save_page(saves, last):
            return 1
        known = page
    return 0


@native
def save_page(saves: int, page: int) -> int:
    """Save a page unless it is saved already; return 1 if the memory for saved pages is full."""
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
            save_runs(U64.at(here.tables)[each], page, here.room + ((number * here.count + each) << PAGE_BITS))
        A64.store(state, SAVED)
    while A64.load(state) == SAVING:
        number = 0
    return A64.load(state) != SAVED


@inlined
def run_of(table: int, address: int) -> int:
    """Return the host address of the page table row of an address; 0 if its page is not writable."""
    rows = U64.at(table)[address >> GIB_BITS]
    row = rows + (address >> SMALL_BITS & ENTRIES - 1) * (8 * COLUMNS) if rows else 0
    return row if row and U64.at(row)[STORES] else 0


@inlined
def begin_of(row: int, address: int) -> int:
    """Return the first writable address in the page of `address`; `row` is its row in the page table."""
    return max(U64.at(row)[START], address)


@inlined
def end_of(row: int, address: int) -> int:
    """Return the end of the writable addresses in the page of `address`; `row` is its row in the page table."""
    return min(U64.at(row)[START] + U64.at(row)[STORES], address + SMALL)


@native
def save_runs(table: int, page: int, room: int) -> None:
    """Copy the writable bytes of a saved page from guest memory to host address `room`."""
    for address in range(page << PAGE_BITS, page + 1 << PAGE_BITS, SMALL):
        row = run_of(table, address)
        if row:
            start = begin_of(row, address)
            copy(room + (start & PAGE - 1), start + U64.at(row)[ADDEND], end_of(row, address) - start)


@native
def put_back(table: int, page: int, room: int, flags: int) -> None:
    """Restore bytes of a saved page from their copy at host address `room`.

    Only the bytes whose byte in `flags` is nonzero are restored.
    """
    for address in range(page << PAGE_BITS, page + 1 << PAGE_BITS, SMALL):
        row = run_of(table, address)
        if row:
            for at in range(begin_of(row, address), end_of(row, address)):
                if U8[flags + (at & PAGE - 1)]:
                    U8[at + U64.at(row)[ADDEND]] = U8[room + (at & PAGE - 1)]
