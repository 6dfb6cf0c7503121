"""Who touched each byte last, compiled: cells of lines, dwords and bytes."""

from __future__ import annotations

from typing import Final

from understudy.engine.gcn.races.codes import (
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
    Race,
)
from understudy.ir.native import U64, inlined, native

MIX: Final = 0x9E37_79B9_7F4A_7C15
PAGE_SHIFT: Final = 65 - PAGES.bit_length()
SPACE_TAG: Final = 60
"""From here on in the number of a page: its space."""


@native
def site_of(race: Race, pc: int, kind: int) -> int:
    """The number of an instruction's accesses of a kind."""
    key = pc << 2 | kind | 1 << 63
    slots = U64.at(race.site_slots)
    at = (key * MIX) >> 40 & SITE_SLOTS - 1
    while slots[2 * at] != 0:
        if slots[2 * at] == key:
            return slots[2 * at + 1]
        at = at + 1 & SITE_SLOTS - 1
    number = race.site_count
    if number >= SITES:
        race.full = NO_SITES
        return 0
    race.site_count = number + 1
    slots[2 * at], slots[2 * at + 1] = key, number
    U64.at(race.sites)[number] = key
    return number


@inlined
def page_key(address: int, space: int) -> int:
    """What a page of memory is found by."""
    return (address >> PAGE_BITS | space << SPACE_TAG) + 1


@inlined
def slot_of_page(race: Race, key: int) -> int:
    """Where in the table the cells of a page are, or would be."""
    slots = U64.at(race.pages)
    at = (key * MIX) >> PAGE_SHIFT
    while slots[2 * at] != 0 and slots[2 * at] != key:
        at = at + 1 & PAGES - 1
    return at


@inlined
def page_address(key: int) -> int:
    """Where the page of a key begins, in its space."""
    return (key - 1 & (1 << SPACE_TAG) - 1) << PAGE_BITS


@native
def page_of(race: Race, address: int, space: int) -> int:
    """The cells of a page of memory; 0 where there is no room for more."""
    at = slot_of_page(race, page_key(address, space))
    slots = U64.at(race.pages)
    if slots[2 * at + 1]:
        return slots[2 * at + 1]
    if race.page_count >= PAGES >> 1:
        race.full = NO_PAGES
        return 0
    made = cells(race, PAGE_HEAD + PAGE_BYTES)
    if made:
        made += PAGE_HEAD
        U64.at(race.page_keys)[race.page_count] = page_key(address, space)
        race.page_count += 1
        slots[2 * at], slots[2 * at + 1] = page_key(address, space), made
    return made


@inlined
def block_at(page: int, address: int) -> int:
    """Where the code is of the access that was the last one to store to a block of memory, or an atomic; 0: none.

    If it is below the floor, so are all of the block: floors rise above all that there is.
    """
    return page - PAGE_HEAD + 8 * (address >> BLOCK_BITS & BLOCKS - 1)


@native
def codes_of(race: Race, address: int, size: int, row: int, codes: int) -> int:
    """Who has touched each byte of global memory: in `codes`; how many bytes that is said of.

    They end with a page; 0 where nobody has touched any of it.
    """
    end = min(address + size, (address >> PAGE_BITS) + 1 << PAGE_BITS)
    page = U64.at(race.pages)[2 * slot_of_page(race, page_key(address, GLOBAL)) + 1]
    if not page:
        return 0
    for byte in range(end - address):
        U64.at(codes)[byte] = code_at(page, address + byte, row)
    return end - address


@native
def cells(race: Race, size: int) -> int:
    """Room for cells, all nobody's."""
    made = race.free
    if made + size > race.end:
        race.full = NO_CELLS
        return 0
    race.free = made + size
    return made


@inlined
def line_at(page: int, address: int, row: int) -> int:
    """The cell of a line."""
    return page + ((address >> LINE_BITS & LINES) * ROWS + row) * 8


@inlined
def part(line: int, dword: int) -> int:
    """The code of a dword, or where those of its bytes are, by the cell of its line."""
    return 0 if line == 0 else line + (dword << LANE_AT) if line >= LEAST else U64[line + 8 * dword]


@native
def code_at(page: int, address: int, row: int) -> int:
    """The code of a byte."""
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
    """Whether a dword's bytes have cells of their own."""
    for row in range(ROWS):
        found = U64[line_at(page, address, row)]
        if found != 0 and found < LEAST:
            found = U64[found + 8 * (address >> 2 & LINE_LANES - 1)]
            if found != 0 and found < LEAST:
                return 1
    return 0


@native
def dword_at(race: Race, page: int, address: int, row: int) -> int:
    """The cell of a dword, of its own; 0 where there is no room.

    Those of a line's two loads are made together, the second ones behind the first: who has one finds the other.
    """
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
    """Whether a cell says where those of the parts are."""
    return word - 1 < LEAST - 1


@inlined
def expand_line(line: int, made: int) -> None:
    """Have a line's cell say that those of its dwords are there."""
    found = U64[line]
    if found:
        for dword in range(LINE_LANES):
            U64[made + 8 * dword] = found + (dword << LANE_AT)
    U64[line] = made


@inlined
def expand_dword(cell: int, made: int) -> None:
    """Have a dword's cell say that those of its bytes are there."""
    for byte in range(4):
        U64[made + 8 * byte] = U64[cell]
    U64[cell] = made


@native
def write(race: Race, page: int, address: int, is_whole: int, row: int, code: int) -> None:
    """Have a dword's cell, or a byte's, hold a code."""
    if code == 0 and U64[line_at(page, address, row)] == 0:
        return
    cell = dword_at(race, page, address, row)
    if not cell:
        return
    if is_whole:
        U64[cell] = code
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
    U64[U64[cell] + 8 * (address & 3)] = code
