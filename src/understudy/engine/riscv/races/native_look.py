"""What holds an access of a hart against those before it, compiled: for translated code, and where Python looks at one.

It does nothing where the access may race: that is for Python to tell. So it looks at all that the access meets first.
"""

from __future__ import annotations

from typing import Final

from understudy.engine.riscv.races.codes import (
    ACQUIRES,
    ATOMIC,
    BYTES,
    ENTRIES,
    ENTRY_BYTES,
    FINE,
    HINT_BYTES,
    HINTS,
    IS_ATOMIC,
    KIND,
    LEAVE,
    MOVING_BYTES,
    NO_SITES,
    READ,
    RELEASES,
    SIZE_AT,
    SPLIT_AT,
    WRITE,
    Entry,
    EventRow,
    HartRow,
    Hint,
    MovingRow,
    Race,
    RamRow,
)
from understudy.engine.riscv.races.native_cells import byte_code, put, ram_of, slot_of
from understudy.engine.riscv.races.native_order import (
    acquire,
    event_at,
    is_before,
    join,
    new_clock,
    new_event,
    refresh,
    release,
    settle,
)
from understudy.ir.native import U32, U64, inlined, native

MIX: Final = 0x9E37_79B9_7F4A_7C15
PAGE_BITS: Final = 12
PAGE_SLOTS: Final = 1 << 16
RELEASED: Final = 4
"""Of an entry's key, beside the kind: the store of a flag."""
KEY_BITS: Final = 3


# ---- events --------------------------------------------------------------------------------------------------------
@native
def entry_of(row: HartRow, pc: int, kind: int) -> int:
    """Where the last event of an instruction is kept; `kind` has `RELEASED` for stores that release."""
    key = pc << KEY_BITS | kind | 1 << 63
    number = (key * MIX) >> 40 & ENTRIES - 1
    at = row.entries + number * ENTRY_BYTES
    while U64[at] != key and U64[at] != 0:
        number = number + 1 & ENTRIES - 1
        at = row.entries + number * ENTRY_BYTES
    if U64[at] == 0:
        U64[at] = key
        row.entry_count += 1
        if row.entry_count > ENTRIES >> 1:
            Race.from_address(row.race).full = NO_SITES
    return at


@inlined
def is_flag(row: HartRow, what: int) -> int:
    """Whether an access is the store behind a fence."""
    return row.fenced & (what & KIND == WRITE)


@native
def event_of(row: HartRow, pc: int, what: int) -> int:
    """The event that an access belongs to if it is made now; 0 for one that there is not yet."""
    if what & RELEASES and what & KIND != READ:
        return 0
    entry = Entry.from_address(entry_of(row, pc, what & KIND | is_flag(row, what) * RELEASED))
    return entry.code if entry.stamp == row.stamp else 0


@native
def open_event(row: HartRow, pc: int, what: int) -> int:
    """The same, and make it."""
    race = Race.from_address(row.race)
    if what & RELEASES and what & KIND != READ:
        release(row)
    flag = is_flag(row, what)
    entry = Entry.from_address(entry_of(row, pc, what & KIND | flag * RELEASED))
    if entry.stamp != row.stamp:
        entry.code = new_event(row, race, pc, what, flag | (what & IS_ATOMIC != 0))
        entry.stamp = row.stamp
    return entry.code


# ---- judging -------------------------------------------------------------------------------------------------------
@native
def allows(row: HartRow, race: Race, code: int, synchronizes: int) -> int:
    """Whether an earlier access of the same byte is none to tell of."""
    return is_before(row, race, code) | (synchronizes & EventRow.from_address(event_at(race, code)).synchronizes)


@native
def stands(row: HartRow, race: Race, word: int, mask: int, synchronizes: int) -> int:
    """Whether all that a plane's word says of some bytes is none to tell of."""
    if word >> SPLIT_AT == 0:
        if word < race.floor or word & mask == 0:
            return 1
        return allows(row, race, word & ~BYTES, synchronizes)
    for byte in range(4):
        code = byte_code(race, word, byte)
        if mask >> byte & 1 and code >= race.floor and not allows(row, race, code, synchronizes):
            return 0
    return 1


@native
def meets(row: HartRow, race: Race, kind: int, host: int, size: int) -> int:
    """Whether an access meets a transfer that its hart has not waited for."""
    unknown = 0
    for number in range(race.moving_count):
        moving = MovingRow.from_address(race.moving + number * MOVING_BYTES)
        if moving.finisher and U64.at(row.known)[race.harts + moving.finisher - 1] >= moving.number:
            continue
        unknown = 1
        if (kind != READ or moving.writes) and moving.start < host + size and host < moving.end:
            return 1
    row.is_moving = unknown
    refresh(row)
    return 0


@native
def judge(row: HartRow, pc: int, what: int, host: int, size: int) -> int:
    """Hold an access against those before it: whether Python has to look."""
    race, kind = Race.from_address(row.race), what & KIND
    at = ram_of(race, host)
    if race.full or at == 0:
        return LEAVE
    event = event_of(row, pc, what)
    if row.pending and (kind != READ or event == 0 or event != row.last):
        return LEAVE
    if row.is_moving and meets(row, race, kind, host, size):
        return LEAVE
    ram, synchronizes = RamRow.from_address(at), is_flag(row, what) | (what & IS_ATOMIC != 0)
    if event:
        synchronizes = EventRow.from_address(event_at(race, event)).synchronizes
    end, cell = host + size, (host & ~3) + ram.delta
    while host < end:
        mask = mask_of(host, end)
        if not stands(row, race, U32[cell], mask, synchronizes):
            return LEAVE
        if kind != READ:
            for slot in range(race.harts):
                if slot != row.slot:
                    word = U32[cell + (slot + 1) * ram.stride]
                    if word >= race.floor and not stands(row, race, word, mask, synchronizes):
                        return LEAVE
        host, cell = (host | 3) + 1, cell + 4
    return FINE


@inlined
def mask_of(host: int, end: int) -> int:
    """Which bytes of the dword at `host` an access has that goes on up to `end`."""
    return (BYTES << (host & 3)) & (BYTES >> ((host | 3) + 1 - end if end < (host | 3) + 1 else 0)) & BYTES


# ---- entering ------------------------------------------------------------------------------------------------------
@native
def take(row: HartRow, race: Race, word: int, mask: int) -> None:
    """Whoever reads what was stored there may acquire what came before that."""
    for byte in range(4):
        code = byte_code(race, word, byte)
        if mask >> byte & 1 and code >= race.floor and slot_of(race, code) != row.slot:
            join(race, row.acquiring, EventRow.from_address(event_at(race, code)).clock)
            row.is_acquiring = 1


@native
def hand_on(race: Race, event: EventRow, word: int, mask: int) -> None:
    """An atomic access releases what the one before it at its place did."""
    for byte in range(4):
        code = byte_code(race, word, byte)
        if mask >> byte & 1 and code >= race.floor:
            before = EventRow.from_address(event_at(race, code))
            if before.what & KIND == ATOMIC and before.clock != event.clock:
                made = new_clock(race, event.clock)
                if join(race, made, before.clock):
                    event.clock = made
                else:
                    race.clock_free = made


@native
def note_page(race: Race, host: int) -> None:
    """Remember that a page was touched."""
    key = host >> PAGE_BITS
    at = (key * MIX) >> 40 & PAGE_SLOTS - 1
    while U64.at(race.pages)[at] != 0:
        if U64.at(race.pages)[at] == key:
            return
        at = at + 1 & PAGE_SLOTS - 1
    U64.at(race.pages)[at] = key
    race.page_count += 1


@native
def enter(row: HartRow, what: int, host: int, size: int, code: int) -> None:
    """Have cells know of an access of an event."""
    race, kind, start = Race.from_address(row.race), what & KIND, host
    ram, event = RamRow.from_address(ram_of(race, host)), EventRow.from_address(event_at(race, code))
    if row.last != code or kind != READ:
        settle(row)
    row.last = code if kind == READ and what & IS_ATOMIC == 0 else 0
    row.fenced = 0
    if race.keeps:
        note_page(race, host)
        note_page(race, host + size - 1)
    end, first = host + size, (host & ~3) + ram.delta
    cell = first
    while host < end and kind != WRITE:
        if U32[cell] >= race.floor:
            take(row, race, U32[cell], mask_of(host, end))
        host, cell = (host | 3) + 1, cell + 4
    if what & ACQUIRES and what & IS_ATOMIC:
        acquire(row)
    host, cell = start, first
    while host < end:
        mask = mask_of(host, end)
        if kind == READ:
            put(race, cell + (row.slot + 1) * ram.stride, mask, code)
        else:
            if kind == ATOMIC and U32[cell] >= race.floor:
                hand_on(race, event, U32[cell], mask)
            put(race, cell, mask, code)
            for slot in range(race.harts):
                if U32[cell + (slot + 1) * ram.stride] >= race.floor:
                    put(race, cell + (slot + 1) * ram.stride, mask, 0)
        host, cell = (host | 3) + 1, cell + 4
    refresh(row)


# ---- translated code -----------------------------------------------------------------------------------------------
@native
def look(row: HartRow, pc: int, what: int, host: int) -> int:
    """A hart accesses memory next; 1 where Python has to look, and nothing has been done."""
    size = what >> SIZE_AT
    if judge(row, pc, what, host, size):
        return LEAVE
    code = open_event(row, pc, what)
    enter(row, what, host, size, code)
    give_hint(row, pc, what, host, code)
    return FINE


@native
def look_many(row: HartRow, pc: int, what: int, host: int, size: int) -> int:
    """The same of bytes side by side, element by element."""
    if row.fenced and what & KIND == WRITE:  # the first element is the flag
        return LEAVE
    if judge(row, pc, what, host, size):
        return LEAVE
    code = open_event(row, pc, what)
    enter(row, what, host, size, code)
    return FINE


@native
def give_hint(row: HartRow, pc: int, what: int, host: int, code: int) -> None:
    """Let the next such access be looked at in line, where nothing but cells is to be looked at then."""
    race = Race.from_address(row.race)
    event = EventRow.from_address(event_at(race, code))
    if event.synchronizes or race.keeps:
        return
    hint = Hint.from_address(row.hints + (pc >> 1 & HINTS - 1) * HINT_BYTES)
    ram = RamRow.from_address(ram_of(race, host))
    hint.key, hint.stamp, hint.code = pc, row.stamp, code
    hint.low, hint.span, hint.stores, hint.stride = ram.low, ram.span, ram.delta, ram.stride
    hint.loads = ram.delta + (row.slot + 1) * ram.stride
