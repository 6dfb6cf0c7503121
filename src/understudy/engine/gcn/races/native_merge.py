"""Who touched each byte, as two tables know it of waves of other work-groups: made one, compiled.

Numbers of waves say in which order groups are thought to have run, whoever ran them. Where groups race, whatever that
order is, that is said; likewise where codes cannot say which load would have been the last one.
"""

from __future__ import annotations

import ctypes

from understudy.engine.gcn.races.codes import (
    ALSO_LOADED,
    BLOCK_BITS,
    BLOCKS,
    GLOBAL,
    LEAST,
    LINE_BITS,
    LINE_LANES,
    LINES,
    LOADED,
    ROWS,
    STORED,
    TICK_AT,
    TICKS,
    UID_AT,
    UPDATED,
    Race,
)
from understudy.engine.gcn.races.native_cells import (
    block_at,
    code_at,
    line_at,
    page_address,
    page_key,
    page_of,
    part,
    slot_of_page,
    write,
)
from understudy.ir.native import U64, inlined, layout, native


@layout
class Merge(ctypes.Structure):
    """Two tables, by host address, that are to be one: `into` becomes it."""

    into: int
    other: int
    floor: int
    """What lies below is over."""
    group_bits: int
    """Each group has so many numbers of waves, two to this power."""
    has_barriers: int
    writes: int
    """Whether they are made one, not only looked at."""
    mine: int
    theirs: int
    """Room for codes by row."""


@inlined
def stands_alone(words: int) -> int:
    """Whether the cells of a line, one for each row, are codes or nobody's."""
    row, parts = U64.at(words), 0
    for number in range(ROWS):
        parts = parts | (row[number] - 1 < LEAST - 1)
    return 1 - parts


@inlined
def is_touched(words: int) -> int:
    """Whether the cells of a line are anybody's."""
    row = U64.at(words)
    return row[STORED] | row[UPDATED] | row[LOADED] | row[ALSO_LOADED]


@inlined
def last_of(job: Merge, first: int, also: int) -> int:
    """The load that cells would know if others had been there before; 0 where that is not to be told.

    Of one group it is that of the last wave, unless there was a barrier between the two: see `native_look.later`.
    """
    is_one = (first ^ also) >> UID_AT + job.group_bits == 0
    is_behind = (also >> TICK_AT & TICKS - 1) < (first >> TICK_AT & TICKS - 1)
    found = first if (also == 0) | (is_one & (first > also)) else also
    return 0 if (also != 0) & is_one & is_behind & job.has_barriers else found


@native
def clash(job: Merge, own: int, theirs: int) -> int:
    """Whether what two tables say of the same bytes cannot stand side by side: codes, by row."""
    mine, other, floor = U64.at(own), U64.at(theirs), job.floor
    if mine[STORED] >= floor or mine[UPDATED] >= floor or other[UPDATED]:
        return 1
    first = mine[LOADED]
    if first < floor and mine[ALSO_LOADED] < floor:
        return 0
    if other[STORED]:
        return 1
    if other[LOADED] == 0:
        return 0
    also = mine[ALSO_LOADED] if mine[ALSO_LOADED] >= floor else 0
    if max(other[LOADED], other[ALSO_LOADED]) > max(first, also):
        return (other[LOADED] > first) & (last_of(job, other[LOADED], other[ALSO_LOADED]) == 0)
    return (other[LOADED] < first) & (last_of(job, first, also) == 0)


@native
def join(job: Merge, own: int, theirs: int) -> None:
    """Make one of what two tables say of the same bytes, which is no clash: `own` becomes it."""
    mine, other = U64.at(own), U64.at(theirs)
    if other[STORED]:
        for number in range(ROWS):
            mine[number] = other[number]
    elif other[LOADED]:
        first, also = mine[LOADED], mine[ALSO_LOADED]
        if first < job.floor:
            mine[LOADED] = other[LOADED]
            if other[ALSO_LOADED]:
                mine[ALSO_LOADED] = other[ALSO_LOADED]
            return
        mine[LOADED] = min(first, other[LOADED])
        last = last_of(job, first, also if also >= job.floor else 0)
        if max(other[LOADED], other[ALSO_LOADED]) > max(first, also):
            last = last_of(job, other[LOADED], other[ALSO_LOADED])
            if other[LOADED] < first:
                last = other[ALSO_LOADED]
        elif first < other[LOADED]:
            last = also
        mine[ALSO_LOADED] = last


@inlined
def merge_codes(job: Merge, own: int, theirs: int) -> int:
    """Whether it is a clash; else make them one, if they are to be."""
    if clash(job, own, theirs):
        return 1
    if job.writes:
        join(job, own, theirs)
    return 0


@inlined
def read_dword(line: int, dword: int, codes: int) -> int:
    """What the cells of a dword hold, by row: in `codes`; whether that is any code, and (2) any place of its bytes'."""
    found = 0
    for number in range(ROWS):
        code = part(U64.at(line)[number], dword)
        U64.at(codes)[number] = code
        found = found | (code != 0) | (code - 1 < LEAST - 1) << 1
    return found


@native
def read_byte(page: int, address: int, codes: int) -> int:
    """The same of a byte: whether that is any code."""
    found = 0
    for number in range(ROWS):
        U64.at(codes)[number] = code_at(page, address, number)
        found = found | (U64.at(codes)[number] != 0)
    return found


@native
def merge_bytes(job: Merge, own: int, theirs: int, address: int) -> int:
    """Whether two tables clash, of a dword whose bytes have cells of their own; else make them one."""
    into = Race.from_address(job.into)
    for byte in range(4):
        if read_byte(theirs, address + byte, job.theirs):
            read_byte(own, address + byte, job.mine)
            if merge_codes(job, job.mine, job.theirs):
                return 1
            for number in range(ROWS if job.writes else 0):
                if code_at(own, address + byte, number) != U64.at(job.mine)[number]:
                    write(into, own, address + byte, 0, number, U64.at(job.mine)[number])
    return 0


@native
def merge_dwords(job: Merge, own: int, theirs: int, address: int) -> int:
    """The same of a line of which dwords have cells of their own."""
    into, mine, other = Race.from_address(job.into), job.mine, job.theirs
    line, lines = line_at(own, address, 0), line_at(theirs, address, 0)
    for dword in range(LINE_LANES):
        at, there = address + 4 * dword, read_dword(lines, dword, other)
        if there:
            if (there | read_dword(line, dword, mine)) & 2:
                if merge_bytes(job, own, theirs, at):
                    return 1
            elif merge_codes(job, mine, other):
                return 1
            else:
                for number in range(ROWS if job.writes else 0):
                    if part(U64.at(line)[number], dword) != U64.at(mine)[number]:
                        write(into, own, at, 1, number, U64.at(mine)[number])
    return 0


@native
def merge_page(job: Merge, own: int, theirs: int, address: int) -> int:
    """The same of a page, by its cells in both."""
    for line in range(LINES + 1):
        mine, other = own + line * (8 * ROWS), theirs + line * (8 * ROWS)
        if is_touched(other):
            if stands_alone(mine) & stands_alone(other):
                if merge_codes(job, mine, other):
                    return 1
            elif merge_dwords(job, own, theirs, address + (line << LINE_BITS)):
                return 1
    return 0


@native
def merge(job: Merge) -> int:
    """The same of all memory. What is said of LDS matters to nobody."""
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
    """Have nobody touched a line. Cells of dwords and bytes stay, for the next time."""
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
    """The same of all that tables tell of."""
    for number in range(race.page_count):
        page = U64.at(race.pages)[2 * slot_of_page(race, U64.at(race.page_keys)[number]) + 1]
        for block in range(BLOCKS):
            U64[block_at(page, block << BLOCK_BITS)] = 0
        for line in range(LINES + 1):
            if is_touched(page + line * (8 * ROWS)):
                forget_line(page + line * (8 * ROWS))
