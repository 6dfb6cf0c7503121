"""The compiled access to shadow memory: shadow cells of lines, dwords and bytes."""

from __future__ import annotations

from typing import Final

from softcard.engine.gcn.races.layout import (
    ALSO_LOADED,
    BLOCK_BITS,
    BLOCKS,
    DWORD_ALSO,
    GLOBAL,
    LANE_AT,
    LEAST,
    LINE_ALSO,
    LINE_BITS,
    LINE_LANES,
    LINES,
    LOADED,
    NO_CELLS,
    NO_PAGES,
    NO_SITES,
    PAGE_BITS,
    PAGE_BYTES,
    PAGE_HEAD,
    PAGES,
    ROWS,
    SITE_SLOTS,
    SITES,
    SPACE_AT,
    Race,
)
from softcard.engine.races.tables import MIX, find_row, first_row, site_key
from softcard.ir.native import U64, inlined, native

PAIR: Final = 16
"""The size in bytes of a row that consists of a key and a word."""
PAGE_SHIFT: Final = 65 - PAGES.bit_length()
SPACE_TAG: Final = 60
"""The bit position of the address space in a shadow page's key."""


@native
def site_of(race: Race, pc: int, kind: int) -> int:
    """Return the site number of a pair of an instruction's pc and a kind of access; allocate one if needed."""
    key = site_key(pc, kind, SPACE_AT)
    at = find_row(race.site_slots, key, first_row(key, SITE_SLOTS - 1), SITE_SLOTS - 1, PAIR)
    if U64[at]:
        return U64[at + 8]
    number = race.site_count
    if number >= SITES:
        race.full = NO_SITES
        return 0
    race.site_count = number + 1
    U64[at], U64[at + 8] = key, number
    U64.at(race.sites)[number] = key
    return number


@inlined
def page_key(address: int, space: int) -> int:
    """Return the hash key of the shadow page of an address."""
    return (address >> PAGE_BITS | space << SPACE_TAG) + 1


@inlined
def slot_of_page(race: Race, key: int) -> int:
    """Return the host address of a shadow page's row in the hash table, also for a page not yet allocated."""
    return find_row(race.pages, key, (key * MIX) >> PAGE_SHIFT, PAGES - 1, PAIR)


@inlined
def page_address(key: int) -> int:
    """Return the address, in its address space, of the first byte that a shadow page covers."""
    return (key - 1 & (1 << SPACE_TAG) - 1) << PAGE_BITS


@native
def page_of(race: Race, address: int, space: int) -> int:
    """Return the host address of the shadow cells of an address's page, or 0 if no memory for cells is left.

    The cells are allocated if necessary.
    """
    at = slot_of_page(race, page_key(address, space))
    if U64[at + 8]:
        return U64[at + 8]
    if race.page_count >= PAGES >> 1:
        race.full = NO_PAGES
        return 0
    made = cells(race, PAGE_HEAD + PAGE_BYTES)
    if made:
        made += PAGE_HEAD
        U64.at(race.page_keys)[race.page_count] = page_key(address, space)
        race.page_count += 1
        U64[at], U64[at + 8] = page_key(address, space), made
    return made


@inlined
def block_at(page: int, address: int) -> int:
    """Return the host address of the word that holds the latest record of a write to the block at `address`.

    A write is a store or an atomic; a block is a part of a shadow page. The word is 0 if no byte of the block was
    stored to. If the record in it is below the happens-before watermark, so are all such records of the block,
    because the watermark always rises above all existing records."""
    return page - PAGE_HEAD + 8 * block_of(address)


@inlined
def block_of(address: int) -> int:
    """Return the number, in its shadow page, of the block of an address."""
    return address >> BLOCK_BITS & BLOCKS - 1


@native
def records_of(race: Race, address: int, size: int, row: int, records: int) -> int:
    """Write the access records of kind `row` of the `size` bytes of global memory at `address` to `records`.

    Stop at the end of the page. `row` is a kind of record in shadow cells, such as `STORED`. Return the number
    of bytes; 0 if no byte of the page was accessed."""
    end = min(address + size, (address >> PAGE_BITS) + 1 << PAGE_BITS)
    page = U64[slot_of_page(race, page_key(address, GLOBAL)) + 8]
    if not page:
        return 0
    for byte in range(end - address):
        U64.at(records)[byte] = record_at(page, address + byte, row)
    return end - address


@native
def cells(race: Race, size: int) -> int:
    """Allocate `size` bytes of empty cells; return their host address, or 0 if no memory is left."""
    made = race.free
    if made + size > race.end:
        race.full = NO_CELLS
        return 0
    race.free = made + size
    return made


@inlined
def line_at(page: int, address: int, row: int) -> int:
    """Return the host address of the cell word of kind `row` (such as `STORED`) for an address's line."""
    return page + ((address >> LINE_BITS & LINES) * ROWS + row) * 8


@inlined
def part(line: int, dword: int) -> int:
    """Return the access record of a dword, given the word `line` of its line's cell.

    If the dword has byte cells, return their host address instead."""
    return 0 if line == 0 else line + (dword << LANE_AT) if line >= LEAST else U64[line + 8 * dword]


@native
def record_at(page: int, address: int, row: int) -> int:
    """Return the access record of kind `row` (such as `STORED`) of a byte."""
    found = U64[line_at(page, address, row)]
    if found == 0:
        return 0
    dword = address >> 2 & LINE_LANES - 1
    if found >= LEAST:
        return found + (dword << LANE_AT)
    found = U64[found + 8 * dword]
    if found == 0 or found >= LEAST:
        return found
    return U64[found + 8 * (address & 3)]


@native
def has_bytes(page: int, address: int) -> int:
    """Return 1 if the dword at `address` has separate cells for its bytes."""
    for row in range(ROWS):
        found = U64[line_at(page, address, row)]
        if found != 0 and found < LEAST:
            found = U64[found + 8 * (address >> 2 & LINE_LANES - 1)]
            if found != 0 and found < LEAST:
                return 1
    return 0


@native
def dword_at(race: Race, page: int, address: int, row: int) -> int:
    """Return the host address of the word of kind `row` of the dword's own cell; 0 if no memory for cells is left.

    The cell is allocated if necessary. The cells for the two recorded loads are allocated together; those of the
    second load follow those of the first."""
    line = line_at(page, address, row)
    if not is_pointer(U64[line]):
        is_load = row >= LOADED
        made = cells(race, 8 * LINE_LANES << is_load)
        if not made:
            return 0
        line = line_at(page, address, LOADED if is_load else row)
        expand_line(line, made)
        if is_load:
            expand_line(line + 8, made + LINE_ALSO)
    return U64[line_at(page, address, row)] + 8 * (address >> 2 & LINE_LANES - 1)


@inlined
def is_pointer(word: int) -> int:
    """Return 1 if the word of a cell is the host address of finer cells."""
    return word - 1 < LEAST - 1


@inlined
def expand_line(line: int, made: int) -> None:
    """Replace the cell of a line by cells of its dwords at host address `made`."""
    found = U64[line]
    if found:
        for dword in range(LINE_LANES):
            U64[made + 8 * dword] = found + (dword << LANE_AT)
    U64[line] = made


@inlined
def expand_dword(cell: int, made: int) -> None:
    """Replace the cell of a dword by cells of its bytes, at host address `made`."""
    for byte in range(4):
        U64[made + 8 * byte] = U64[cell]
    U64[cell] = made


@native
def write(race: Race, page: int, address: int, is_whole: int, row: int, record: int) -> None:
    """Write an access record of kind `row` to the cell of a dword (`is_whole` is 1) or of a byte (0)."""
    if record == 0 and U64[line_at(page, address, row)] == 0:
        return
    cell = dword_at(race, page, address, row)
    if not cell:
        return
    if is_whole:
        U64[cell] = record
        return
    if not is_pointer(U64[cell]):
        made = cells(race, DWORD_ALSO << (row >= LOADED))
        if not made:
            return
        if row < LOADED:
            expand_dword(cell, made)
        else:
            first = cell - (LINE_ALSO if row == ALSO_LOADED else 0)
            expand_dword(first, made)
            expand_dword(first + LINE_ALSO, made + DWORD_ALSO)
    U64[U64[cell] + 8 * (address & 3)] = record
