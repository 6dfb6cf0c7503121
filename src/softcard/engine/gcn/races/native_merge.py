"""Compiled functions of speculative launches: the merge of shadow memories, and saved pages that undo the launch.

The merged shadow memories hold the accesses of different work-groups. The result is as if the work-groups had run in
the order of their wave numbers, whichever threads ran them. The merge fails if accesses of two work-groups conflict in
either order, or if the records do not determine which load was the last."""

from __future__ import annotations

import ctypes
from typing import Final

from softcard.core.space import PAGE_BITS as SMALL_BITS
from softcard.engine.gcn.memory import ADDEND, ADDRESS_BITS, COLUMNS, ENTRIES, GIB_BITS, START, STORES
from softcard.engine.gcn.races.layout import (
    ALSO_LOADED,
    BLOCK_BITS,
    BLOCKS,
    EPOCH_AT,
    EPOCHS,
    GLOBAL,
    LDS,
    LEAST,
    LINE_BITS,
    LINE_LANES,
    LINES,
    LOADED,
    PAGE_BITS,
    ROWS,
    SAVED,
    SAVES_AT,
    SAVING,
    SIZE_AT,
    STORED,
    UID_AT,
    UPDATED,
    Race,
    Saves,
)
from softcard.engine.gcn.races.native_cells import (
    block_at,
    line_at,
    page_address,
    page_key,
    page_of,
    part,
    record_at,
    slot_of_page,
    write,
)
from softcard.ir.native import A64, U8, U64, copy, inlined, layout, lowest_bit, native

LOCAL_BYTES: Final = 1 << 16
"""The maximum size of a work-group's LDS, in bytes."""


@layout
class Merge(ctypes.Structure):
    """The parameters of a merge of two shadow memories; the result is stored in the first of them, `into`.

    Shadow memories and buffers are represented by host addresses."""

    into: int
    other: int
    watermark: int
    """The happens-before watermark: records below it happened before the accesses being merged."""
    group_bits: int
    """The base-2 logarithm of the count of wave numbers that are reserved for each work-group."""
    has_barriers: int
    writes: int
    """True to merge; False only to check for conflicts."""
    mine: int
    theirs: int
    """The buffer for the records of the second shadow memory, one word per kind of record.

    `mine` is the buffer for those of the first shadow memory.
    """


@inlined
def stands_alone(words: int) -> int:
    """Return 1 if all cells of a line are empty or access records, so that none refers to finer cells."""
    row, parts = U64.at(words), 0
    for number in range(ROWS):
        parts = parts | (row[number] - 1 < LEAST - 1)
    return 1 - parts


@inlined
def is_touched(words: int) -> int:
    """Return 0 if all cells of a line are empty, else another number."""
    row = U64.at(words)
    return row[STORED] | row[UPDATED] | row[LOADED] | row[ALSO_LOADED]


@inlined
def last_of(job: Merge, first: int, also: int) -> int:
    """Return the load that a cell would have recorded last, of the loads in its two words `first` and `also`.

    Return 0 if this is unknown. Of loads by one work-group, it is the load of the last wave, unless a barrier
    lies between the two loads; see `native_check.later`."""
    is_one = (first ^ also) >> UID_AT + job.group_bits == 0
    is_behind = (also >> EPOCH_AT & EPOCHS - 1) < (first >> EPOCH_AT & EPOCHS - 1)
    found = first if (also == 0) | (is_one & (first > also)) else also
    return 0 if (also != 0) & is_one & is_behind & job.has_barriers else found


@native
def conflict(job: Merge, own: int, theirs: int) -> int:
    """Return 1 if the records of the same bytes in two shadow memories conflict.

    `own` and `theirs` are the host addresses of the records, one word per kind of record.
    """
    mine, other, watermark = U64.at(own), U64.at(theirs), job.watermark
    if mine[STORED] >= watermark or mine[UPDATED] >= watermark or other[UPDATED]:
        return 1
    first = mine[LOADED]
    if first < watermark and mine[ALSO_LOADED] < watermark:
        return 0
    if other[STORED]:
        return 1
    if other[LOADED] == 0:
        return 0
    also = mine[ALSO_LOADED] if mine[ALSO_LOADED] >= watermark else 0
    if max(other[LOADED], other[ALSO_LOADED]) > max(first, also):
        return (other[LOADED] > first) & (last_of(job, other[LOADED], other[ALSO_LOADED]) == 0)
    return (other[LOADED] < first) & (last_of(job, first, also) == 0)


@native
def join(job: Merge, own: int, theirs: int) -> None:
    """Merge the records at `theirs` into the records at `own`.

    Both are records of the same bytes, in two shadow memories. The caller has checked that they do not conflict.
    """
    mine, other = U64.at(own), U64.at(theirs)
    if other[STORED]:
        for number in range(ROWS):
            mine[number] = other[number]
    elif other[LOADED]:
        first, also = mine[LOADED], mine[ALSO_LOADED]
        if first < job.watermark:
            mine[LOADED] = other[LOADED]
            if other[ALSO_LOADED]:
                mine[ALSO_LOADED] = other[ALSO_LOADED]
            return
        mine[LOADED] = min(first, other[LOADED])
        last = last_of(job, first, also if also >= job.watermark else 0)
        if max(other[LOADED], other[ALSO_LOADED]) > max(first, also):
            last = last_of(job, other[LOADED], other[ALSO_LOADED])
            if other[LOADED] < first:
                last = other[ALSO_LOADED]
        elif first < other[LOADED]:
            last = also
        mine[ALSO_LOADED] = last


@inlined
def merge_records(job: Merge, own: int, theirs: int) -> int:
    """Return 1 if the records at `own` and `theirs` conflict; otherwise merge them if `job.writes`."""
    if conflict(job, own, theirs):
        return 1
    if job.writes:
        join(job, own, theirs)
    return 0


@inlined
def read_dword(line: int, dword: int, records: int) -> int:
    """Write the words of a dword's cells to `records`, one per kind of record; return flags.

    Flag 1 is set if any cell is in use, flag 2 if any cell has byte cells.
    """
    found = 0
    for number in range(ROWS):
        record = part(U64.at(line)[number], dword)
        U64.at(records)[number] = record
        found = found | (record != 0) | (record - 1 < LEAST - 1) << 1
    return found


@native
def read_byte(page: int, address: int, records: int) -> int:
    """Write the records of a byte to `records`, one word per kind of record; return 1 if it has any."""
    found = 0
    for number in range(ROWS):
        U64.at(records)[number] = record_at(page, address, number)
        found = found | (U64.at(records)[number] != 0)
    return found


@native
def merge_bytes(job: Merge, own: int, theirs: int, address: int) -> int:
    """Merge a dword whose bytes have separate cells; return 1 if records conflict."""
    into = Race.from_address(job.into)
    for byte in range(4):
        if read_byte(theirs, address + byte, job.theirs):
            read_byte(own, address + byte, job.mine)
            if merge_records(job, job.mine, job.theirs):
                return 1
            for number in range(ROWS if job.writes else 0):
                if record_at(own, address + byte, number) != U64.at(job.mine)[number]:
                    write(into, own, address + byte, 0, number, U64.at(job.mine)[number])
    return 0


@native
def merge_dwords(job: Merge, own: int, theirs: int, address: int) -> int:
    """Merge a line whose dwords have separate cells; return 1 if records conflict."""
    into, mine, other = Race.from_address(job.into), job.mine, job.theirs
    line, lines = line_at(own, address, 0), line_at(theirs, address, 0)
    for dword in range(LINE_LANES):
        at, there = address + 4 * dword, read_dword(lines, dword, other)
        if there:
            if (there | read_dword(line, dword, mine)) & 2:
                if merge_bytes(job, own, theirs, at):
                    return 1
            elif merge_records(job, mine, other):
                return 1
            else:
                for number in range(ROWS if job.writes else 0):
                    if part(U64.at(line)[number], dword) != U64.at(mine)[number]:
                        write(into, own, at, 1, number, U64.at(mine)[number])
    return 0


@native
def merge_page(job: Merge, own: int, theirs: int, address: int) -> int:
    """Merge a page, given its cells in both shadow memories; return 1 if records conflict."""
    for line in range(LINES + 1):
        mine, other = own + line * (8 * ROWS), theirs + line * (8 * ROWS)
        if is_touched(other):
            if stands_alone(mine) & stands_alone(other):
                if merge_records(job, mine, other):
                    return 1
            elif merge_dwords(job, own, theirs, address + (line << LINE_BITS)):
                return 1
    return 0


@native
def merge(job: Merge) -> int:
    """Merge the records of global memory; return 1 if records conflict.

    Records of LDS are not merged, since they are not needed after their work-group's end.
    """
    into, other = Race.from_address(job.into), Race.from_address(job.other)
    for number in range(other.page_count):
        key = U64.at(other.page_keys)[number]
        address = page_address(key)
        if key == page_key(address, GLOBAL):
            own, theirs = page_of(into, address, GLOBAL), page_of(other, address, GLOBAL)
            if not own or merge_page(job, own, theirs, address):
                return 1
            for block in range(BLOCKS if job.writes else 0):
                at = block_at(own, block << BLOCK_BITS)
                U64[at] = max(U64[at], U64[block_at(theirs, block << BLOCK_BITS)])
    return into.full != 0


@native
def forget_line(words: int) -> None:
    """Clear a line's records. Cells of dwords and bytes stay allocated."""
    for number in range(ROWS):
        line = U64.at(words)[number]
        if line >= LEAST:
            U64.at(words)[number] = 0
        elif line:
            for dword in range(LINE_LANES):
                cell = U64[line + 8 * dword]
                if cell >= LEAST:
                    U64[line + 8 * dword] = 0
                elif cell:
                    for byte in range(4):
                        U64[cell + 8 * byte] = 0


@native
def forget(race: Race) -> None:
    """Clear the records of all pages."""
    for number in range(race.page_count):
        page = U64[slot_of_page(race, U64.at(race.page_keys)[number]) + 8]
        for block in range(BLOCKS):
            U64[block_at(page, block << BLOCK_BITS)] = 0
        for line in range(LINES + 1):
            if is_touched(page + line * (8 * ROWS)):
                forget_line(page + line * (8 * ROWS))


@native
def forget_local(race: Race) -> None:
    """Clear all records of LDS."""
    page = U64[slot_of_page(race, page_key(0, LDS)) + 8]
    for line in range(LOCAL_BYTES >> LINE_BITS if page else 0):
        if is_touched(page + line * (8 * ROWS)):
            forget_line(page + line * (8 * ROWS))


# ---- saved pages -----------------------------------------------------------------------------------------------------
# The contents of guest memory are saved, page by page, before waves store to it. They undo a speculative launch.


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
