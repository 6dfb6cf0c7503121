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
    IS_ATOMIC,
    KEY_BITS,
    KIND,
    LEAVE,
    MOVING_BYTES,
    NO_SITES,
    PENDING,
    READ,
    RELEASES,
    SIZE_AT,
    SPLIT_AT,
    SUSPECT_BYTES,
    WAITS,
    WRITE,
    Entry,
    EventRow,
    HartRow,
    Hint,
    MovingRow,
    Race,
    RamRow,
    SuspectRow,
)
from understudy.engine.riscv.races.native_cells import byte_code, put, ram_of, slot_of
from understudy.engine.riscv.races.native_order import (
    acquire,
    event_at,
    hint_key,
    hint_of,
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
LARGEST: Final = 8
"""Bytes of an access that is looked at in line."""


# ---- events --------------------------------------------------------------------------------------------------------
@inlined
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


@inlined
def is_release(what: int) -> int:
    """Whether it is an atomic one that releases first."""
    return (what & RELEASES != 0) & (what & KIND != READ)


@inlined
def place_of_event(row: HartRow, pc: int, what: int) -> int:
    """Where the event of an access is kept if it is made now."""
    return entry_of(row, pc, what & KIND | is_flag(row, what) * RELEASED)


@inlined
def event_of(row: HartRow, at: int, what: int) -> int:
    """The event that an access belongs to; 0 for one that there is not yet."""
    entry = Entry.from_address(at)
    return entry.code if entry.stamp == row.stamp and not is_release(what) else 0


@inlined
def open_event(row: HartRow, at: int, pc: int, what: int) -> int:
    """The same, and make it."""
    race, entry = Race.from_address(row.race), Entry.from_address(at)
    if is_release(what):
        release(row)
    if entry.stamp != row.stamp:
        is_atomic = what & IS_ATOMIC != 0
        entry.code = new_event(row, race, pc, what, is_flag(row, what) | is_atomic, is_atomic)
        entry.stamp = row.stamp
    return entry.code


# ---- judging -------------------------------------------------------------------------------------------------------
@native
def against(row: HartRow, race: Race, code: int, synchronizes: int, waits: int) -> int:
    """Whether an earlier access of the same byte is one to tell of, or may be one: `WAITS`, for loads that do."""
    if is_before(row, race, code):
        return FINE
    if not EventRow.from_address(event_at(race, code)).synchronizes:
        return LEAVE
    return FINE if synchronizes else waits


@native
def held(row: HartRow, race: Race, word: int, mask: int, synchronizes: int, waits: int) -> int:
    """The same of all that a plane's word says of some bytes, `LEAVE` above `WAITS`."""
    if word >> SPLIT_AT == 0:
        return against(row, race, word & ~BYTES, synchronizes, waits) if word & mask else FINE
    found = FINE
    for byte in range(4):
        code = byte_code(race, word, byte)
        if mask >> byte & 1 and code >= race.floor:
            found = max(found, against(row, race, code, synchronizes, waits))
    return found


@native
def meets(row: HartRow, race: Race, kind: int, host: int, size: int) -> int:
    """Whether an access meets a transfer that its hart has not waited for."""
    unknown = 0
    for number in range(race.moving_count):
        moving = MovingRow.from_address(race.moving + number * MOVING_BYTES)
        if is_over(row, race, moving):
            continue
        unknown = 1
        if (kind != READ or moving.writes) and moving.start < host + size and host < moving.end:
            return 1
    row.is_moving = unknown
    return 0


@inlined
def is_over(row: HartRow, race: Race, moving: MovingRow) -> int:
    """Whether a hart knows that a transfer came before what it does now."""
    number = moving.finisher
    return (number != 0) & (U64.at(row.known)[race.harts + (number - 1 if number else 0)] >= moving.number)


@inlined
def judge(row: HartRow, race: Race, ram: RamRow, what: int, host: int, size: int, synchronizes: int) -> int:
    """Hold an access against those before it: whether Python has to look, or it `WAITS`."""
    kind, end, cell, found = what & KIND, host + size, (host & ~3) + ram.delta, FINE
    waits = WAITS if kind == READ and what & IS_ATOMIC == 0 else LEAVE
    while host < end:
        mask, word = mask_of(host, end), U32[cell]
        if word >= race.floor:
            found = max(found, held(row, race, word, mask, synchronizes, waits))
        if kind != READ:
            for slot in range(race.harts):
                word = U32[cell + (slot + 1) * ram.stride]
                if word >= race.floor and slot != row.slot:
                    found = max(found, held(row, race, word, mask, synchronizes, LEAVE))
        if found == LEAVE:
            return LEAVE
        host, cell = (host | 3) + 1, cell + 4
    return found


@inlined
def mask_of(host: int, end: int) -> int:
    """Which bytes of the dword at `host` an access has that goes on up to `end`."""
    return (BYTES << (host & 3)) & (BYTES >> ((host | 3) + 1 - end if end < (host | 3) + 1 else 0)) & BYTES


@native
def suspect(row: HartRow, first: int, second: int, address: int, size: int) -> int:
    """Have two accesses wait for whether a fence follows the last load of a hart; 1 where there is no room."""
    for number in range(row.pending):
        known = SuspectRow.from_address(row.suspects + number * SUSPECT_BYTES)
        if known.first == first and known.second == second and known.address == address:
            known.count += 1
            return FINE
    if row.pending >= PENDING:
        return LEAVE
    made = SuspectRow.from_address(row.suspects + row.pending * SUSPECT_BYTES)
    made.first, made.second, made.address, made.size, made.count = first, second, address, size, 1
    row.pending += 1
    return FINE


@native
def suspect_all(row: HartRow, race: Race, ram: RamRow, host: int, address: int, size: int, code: int) -> None:
    """The same of a load, and of each store that it met."""
    end, cell, last, start = host + size, (host & ~3) + ram.delta, 0, host
    while host < end:
        other = byte_code(race, U32[cell], host & 3)
        if other >= race.floor and other != last and not is_before(row, race, other):
            earlier = start
            while earlier < host and byte_code(race, U32[(earlier & ~3) + ram.delta], earlier & 3) != other:
                earlier += 1
            if earlier == host:
                suspect(row, other, code, address, size)
        last, host = other, host + 1
        cell = (host & ~3) + ram.delta


# ---- entering ------------------------------------------------------------------------------------------------------
@inlined
def take(row: HartRow, race: Race, code: int) -> None:
    """Whoever reads what an event stored may acquire what came before that."""
    if code >= race.floor and slot_of(race, code) != row.slot:
        clock = EventRow.from_address(event_at(race, code)).clock
        if clock != race.nothing:
            join(race, row.acquiring, clock)
            row.is_acquiring = 1


@native
def take_parts(row: HartRow, race: Race, word: int, mask: int) -> None:
    """The same of bytes with codes of their own."""
    for byte in range(4):
        if mask >> byte & 1:
            take(row, race, byte_code(race, word, byte))


@inlined
def take_word(row: HartRow, race: Race, word: int, mask: int) -> None:
    """The same of all that a word says of some bytes."""
    if word >> SPLIT_AT:
        take_parts(row, race, word, mask)
    elif word & mask:
        take(row, race, word & ~BYTES)


@inlined
def hand_on(row: HartRow, race: Race, event: EventRow, code: int) -> None:
    """An atomic access of a hart releases what the one before it at its place did."""
    if code >= race.floor:
        before = EventRow.from_address(event_at(race, code))
        clock = before.clock
        if before.what & KIND == ATOMIC and clock != event.clock and clock != row.earlier and clock != race.nothing:
            made = new_clock(race, event.clock)
            if join(race, made, clock):
                event.clock = made
            elif made != event.clock:
                race.clock_free = made


@native
def hand_on_parts(row: HartRow, race: Race, event: EventRow, word: int, mask: int) -> None:
    """The same of bytes with codes of their own."""
    for byte in range(4):
        if mask >> byte & 1:
            hand_on(row, race, event, byte_code(race, word, byte))


@inlined
def hand_on_word(row: HartRow, race: Race, event: EventRow, word: int, mask: int) -> None:
    """The same of all that a word says of some bytes."""
    if word >> SPLIT_AT:
        hand_on_parts(row, race, event, word, mask)
    elif word & mask:
        hand_on(row, race, event, word & ~BYTES)


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


@inlined
def enter(row: HartRow, race: Race, ram: RamRow, what: int, host: int, size: int, code: int) -> None:
    """Have cells know of an access of an event."""
    kind, start, end = what & KIND, host, host + size
    if row.last != code or kind != READ:
        settle(row)
    row.last = code if kind == READ and what & IS_ATOMIC == 0 else 0
    row.fenced = 0
    if race.keeps:
        note_page(race, host)
        note_page(race, host + size - 1)
    cell = (host & ~3) + ram.delta
    while host < end and kind != WRITE:
        if U32[cell] >= race.floor:
            take_word(row, race, U32[cell], mask_of(host, end))
        host, cell = (host | 3) + 1, cell + 4
    if what & ACQUIRES:
        acquire(row)
    host, cell = start, (start & ~3) + ram.delta
    while host < end:
        mask = mask_of(host, end)
        if kind == READ:
            put(race, cell + (row.slot + 1) * ram.stride, mask, code)
        else:
            if kind == ATOMIC and U32[cell] >= race.floor:
                hand_on_word(row, race, EventRow.from_address(event_at(race, code)), U32[cell], mask)
            put(race, cell, mask, code)
            for slot in range(race.harts):
                if U32[cell + (slot + 1) * ram.stride] >= race.floor:
                    put(race, cell + (slot + 1) * ram.stride, mask, 0)
        host, cell = (host | 3) + 1, cell + 4


# ---- for Python ----------------------------------------------------------------------------------------------------
@native
def known_event(row: HartRow, pc: int, what: int) -> int:
    """The event that an access belongs to; 0 for one that there is not yet."""
    return event_of(row, place_of_event(row, pc, what), what)


@native
def made_event(row: HartRow, pc: int, what: int) -> int:
    """The same, and make it."""
    return open_event(row, place_of_event(row, pc, what), pc, what)


@native
def make_known(row: HartRow, what: int, host: int, size: int, code: int) -> None:
    """Have cells know of an access of an event."""
    race = Race.from_address(row.race)
    enter(row, race, RamRow.from_address(ram_of(race, host)), what, host, size, code)
    refresh(row)


# ---- translated code -----------------------------------------------------------------------------------------------
@native
def attempt(row: HartRow, pc: int, what: int, host: int, size: int, address: int) -> int:
    """An access of `size` bytes, element by element, is next; 0 where Python has to look, else its event."""
    race, kind = Race.from_address(row.race), what & KIND
    at = ram_of(race, host)
    if race.full or at == 0:
        return 0
    ram, place = RamRow.from_address(at), place_of_event(row, pc, what)
    code = event_of(row, place, what)
    synchronizes = is_flag(row, what) | (what & IS_ATOMIC != 0)
    if code:
        synchronizes = EventRow.from_address(event_at(race, code)).synchronizes
    if row.pending and (kind != READ or code == 0 or code != row.last):
        return 0
    if row.is_moving and meets(row, race, kind, host, size):
        return 0
    found = judge(row, race, ram, what, host, size, synchronizes)
    if found and (found == LEAVE or size != what >> SIZE_AT or row.pending + size > PENDING):
        return 0
    code = open_event(row, place, pc, what)
    if found:
        suspect_all(row, race, ram, host, address, size, code)
    enter(row, race, ram, what, host, size, code)
    refresh(row)
    return code


@native
def look(row: HartRow, pc: int, what: int, host: int, address: int) -> int:
    """A hart accesses memory next; 1 where Python has to look, and nothing has been done."""
    race = Race.from_address(row.race)
    events = race.next
    code = attempt(row, pc, what, host, what >> SIZE_AT, address)
    if code == 0:
        return LEAVE
    if race.next == events or not row.is_moving:  # it will be met again, or looking for its memory is quick
        give_hint(row, pc, what, host, code)
    return FINE


@native
def look_many(row: HartRow, pc: int, what: int, host: int, address: int, size: int) -> int:
    """The same of bytes side by side, element by element."""
    if is_flag(row, what):  # that is the first element alone
        return LEAVE
    race = Race.from_address(row.race)
    events = race.next
    code = attempt(row, pc, what, host, size, address)
    if code == 0:
        return LEAVE
    if race.next == events:
        give_hint(row, pc, what, host, code)
    return FINE


@native
def give_hint(row: HartRow, pc: int, what: int, host: int, code: int) -> None:
    """Let the next such access be looked at in line, where nothing but cells is to be looked at then: as far as there
    are no transfers."""
    race, kind = Race.from_address(row.race), what & KIND
    ram = RamRow.from_address(ram_of(race, host))
    low, high = ram.low, ram.low + ram.span
    if race.keeps or (what & IS_ATOMIC == 0 and EventRow.from_address(event_at(race, code)).synchronizes):
        return
    for number in range(race.moving_count if row.is_moving else 0):
        moving = MovingRow.from_address(race.moving + number * MOVING_BYTES)
        if (kind != READ or moving.writes) and not is_over(row, race, moving):
            if moving.end <= host:
                low = max(low, moving.end)
            else:
                high = min(high, moving.start)
    hint = Hint.from_address(hint_of(row, pc))
    hint.key, hint.stamp, hint.code, hint.entry = hint_key(pc, what), row.armed, code, entry_of(row, pc, kind)
    hint.low, hint.span = low, high - low - LARGEST if high > low + LARGEST else 0
    hint.stores, hint.loads, hint.stride = ram.delta, ram.delta + (row.slot + 1) * ram.stride, ram.stride
