"""The compiled check of a hart's access against earlier accesses, for translated code and for Python.

It changes nothing if the access may race, since Python must then report the race. So it first tests all bytes that the
access touches, and only then records the access.
"""

from __future__ import annotations

from typing import Final

from softcard.engine.races.tables import find_row, first_row, site_key
from softcard.engine.riscv.races.layout import (
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
    NO_PAGES,
    NO_SITES,
    PAGE_SLOTS,
    PENDING,
    READ,
    RELEASES,
    SIZE_AT,
    SPLIT_AT,
    SUSPECT_BYTES,
    WAITS,
    WRITE,
    Cache,
    Entry,
    EventRow,
    HartRow,
    MovingRow,
    Race,
    RamRow,
    SuspectRow,
)
from softcard.engine.riscv.races.native_order import (
    acquire,
    byte_record,
    cache_key,
    cache_of,
    drop_last_load,
    event_at,
    is_before,
    join,
    new_clock,
    new_event,
    planes_met,
    put,
    ram_of,
    refresh,
    release,
    slot_of,
)
from softcard.ir.native import U32, U64, inlined, native

PAGE_BITS: Final = 12
RELEASED: Final = 4
"""The bit in an event's key, next to the kind of access, that is set for a store that publishes a release."""
LARGEST: Final = 8
"""The maximum number of bytes of an access that is checked inline."""


# ---- events --------------------------------------------------------------------------------------------------------
@inlined
def entry_of(row: HartRow, pc: int, kind: int) -> int:
    """Return the address of the `Entry` with the last event of an instruction; make an empty entry if necessary.

    `kind` includes `RELEASED` for a store that publishes a release.
    """
    key = site_key(pc, kind, KEY_BITS)
    at = find_row(row.entries, key, first_row(key, ENTRIES - 1), ENTRIES - 1, ENTRY_BYTES)
    if U64[at] == 0:
        U64[at] = key
        row.entry_count += 1
        if row.entry_count > ENTRIES >> 1:
            Race.from_address(row.race).full = NO_SITES
    return at


@inlined
def is_flag(row: HartRow, what: int) -> int:
    """Return 1 if an access is a flag: a store directly after a releasing fence. Such a store publishes the release.

    `what` is the kind and size of the access."""
    return row.fenced & (what & KIND == WRITE)


@inlined
def is_release(what: int) -> int:
    """Return 1 if an access with the kind `what` is an atomic one with release semantics."""
    return (what & RELEASES != 0) & (what & KIND != READ)


@inlined
def place_of_event(row: HartRow, pc: int, what: int) -> int:
    """Return the address of the `Entry` that holds the event of the current access of the instruction at `pc`.

    `what` is the kind and size of the access."""
    return entry_of(row, pc, what & KIND | is_flag(row, what) * RELEASED)


@inlined
def event_of(row: HartRow, at: int, what: int) -> int:
    """Return the access record of the event that the current access belongs to; 0 if the event does not exist yet.

    An event groups the accesses of one instruction in one epoch of a hart. `at` is the address of the
    instruction's `Entry`, and `what` has the kind of the access."""
    entry = Entry.from_address(at)
    return entry.record if entry.epoch_id == row.epoch_id and not is_release(what) else 0


@inlined
def open_event(row: HartRow, at: int, pc: int, what: int) -> int:
    """Return the access record of the event that the current access belongs to; create the event if necessary.

    An event groups the accesses of one instruction in one epoch of a hart. `at` is the address of the
    instruction's `Entry`, and `what` has the kind of the access."""
    race, entry = Race.from_address(row.race), Entry.from_address(at)
    if is_release(what):
        release(row)
    if entry.epoch_id != row.epoch_id:
        is_atomic = what & IS_ATOMIC != 0
        entry.record = new_event(row, race, pc, what, is_flag(row, what) | is_atomic, is_atomic)
        entry.epoch_id = row.epoch_id
    return entry.record


# ---- judging -------------------------------------------------------------------------------------------------------
@native
def against(row: HartRow, race: Race, record: int, synchronizes: int, waits: int) -> int:
    """Check an access against the earlier event with the access record `record`.

    Return `LEAVE` if they race, `FINE` if they do not, and `waits` if the hart's next instruction may decide
    that. `synchronizes` is 1 if the access synchronises."""
    if is_before(row, race, record):
        return FINE
    if not EventRow.from_address(event_at(race, record)).synchronizes:
        return LEAVE
    return FINE if synchronizes else waits


@native
def worst(row: HartRow, race: Race, word: int, mask: int, synchronizes: int, waits: int) -> int:
    """Check an access against the events in one shadow word; return the most severe result.

    `against` gives the result for one event, `FINE` if they do not race; a greater number is more severe. `mask` has a
    bit for each byte that the access touches.
    """
    if word >> SPLIT_AT == 0:
        return against(row, race, word & ~BYTES, synchronizes, waits) if word & mask else FINE
    found = FINE
    for byte in range(4):
        record = byte_record(race, word, byte)
        if mask >> byte & 1 and record >= race.watermark:
            found = max(found, against(row, race, record, synchronizes, waits))
    return found


@native
def meets(row: HartRow, race: Race, kind: int, host: int, size: int) -> int:
    """Return 1 if an access conflicts with a DMA transfer that does not happen before the hart's next access.

    Otherwise return 0, and set `row.is_moving` to 1 if there is any such transfer, else to 0."""
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
    """Return 1 if the DMA transfer of `moving` happened before the hart's next access."""
    number = moving.finisher
    return (number != 0) & (U64.at(row.known)[race.harts + (number - 1 if number else 0)] >= moving.number)


@inlined
def check_bytes(row: HartRow, race: Race, ram: RamRow, what: int, host: int, size: int, synchronizes: int) -> int:
    """Check an access against earlier ones; return `FINE`, `WAITS`, or `LEAVE` if Python must check it.

    `WAITS` states that the hart's next instruction decides whether the access races. `what` is the kind and
    size of the access."""
    kind, end, cell, found = what & KIND, host + size, (host & ~3) + ram.delta, FINE
    waits = WAITS if kind == READ and what & IS_ATOMIC == 0 else LEAVE
    while host < end:
        mask = mask_of(host, end)
        for layer in range(planes_met(kind == READ, race.harts)):
            word = U32[cell + layer * ram.stride]
            if word >= race.watermark and layer != row.slot + 1:
                found = max(found, worst(row, race, word, mask, synchronizes, LEAVE if layer else waits))
        if found == LEAVE:
            return LEAVE
        host, cell = (host | 3) + 1, cell + 4
    return found


@inlined
def mask_of(host: int, end: int) -> int:
    """Return the mask of the bytes, in the dword of `host`, that an access from `host` up to `end` covers."""
    return (BYTES << (host & 3)) & (BYTES >> ((host | 3) + 1 - end if end < (host | 3) + 1 else 0)) & BYTES


@native
def suspect(row: HartRow, first: int, second: int, address: int, size: int) -> int:
    """Record a possible race of the hart's last load as pending; return 1 if the table of these is full, else 0.

    A fence after the load would make it an acquire, so the next instruction decides. `first` and `second` are
    the access records of the two events."""
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
def suspect_all(row: HartRow, race: Race, ram: RamRow, host: int, address: int, size: int, record: int) -> None:
    """Record as pending the possible races of a load with all unordered stores to its bytes.

    `record` is the access record of the load.
    """
    end, cell, last, start = host + size, (host & ~3) + ram.delta, 0, host
    while host < end:
        other = byte_record(race, U32[cell], host & 3)
        if other >= race.watermark and other != last and not is_before(row, race, other):
            earlier = start
            while earlier < host and byte_record(race, U32[(earlier & ~3) + ram.delta], earlier & 3) != other:
                earlier += 1
            if earlier == host:
                suspect(row, other, record, address, size)
        last, host = other, host + 1
        cell = (host & ~3) + ram.delta


# ---- entering ------------------------------------------------------------------------------------------------------
@inlined
def take(row: HartRow, race: Race, record: int) -> None:
    """Let the hart's next fence acquire the clock that the event with the access record `record` has published.

    It is called for a load of a value that the event has stored."""
    if record >= race.watermark and slot_of(race, record) != row.slot:
        clock = EventRow.from_address(event_at(race, record)).clock
        if clock != race.nothing:
            join(race, row.acquiring, clock)
            row.is_acquiring = 1


@native
def take_parts(row: HartRow, race: Race, word: int, mask: int) -> None:
    """Call `take` for the bytes in `mask` of a split shadow word, each with its own record."""
    for byte in range(4):
        if mask >> byte & 1:
            take(row, race, byte_record(race, word, byte))


@inlined
def take_word(row: HartRow, race: Race, word: int, mask: int) -> None:
    """Call `take` for the bytes in `mask` of a shadow word."""
    if word >> SPLIT_AT:
        take_parts(row, race, word, mask)
    elif word & mask:
        take(row, race, word & ~BYTES)


@inlined
def hand_on(row: HartRow, race: Race, event: EventRow, record: int) -> None:
    """Continue a release sequence at an atomic access, which belongs to `event`.

    Add the clock that an earlier atomic access at the address has published to the clock of `event`. `record`
    is the access record of the earlier access."""
    if record >= race.watermark:
        before = EventRow.from_address(event_at(race, record))
        clock = before.clock
        if before.what & KIND == ATOMIC and clock != event.clock and clock != row.earlier and clock != race.nothing:
            made = new_clock(race, event.clock)
            if join(race, made, clock):
                event.clock = made
            elif made != event.clock:
                race.clock_free = made


@native
def hand_on_parts(row: HartRow, race: Race, event: EventRow, word: int, mask: int) -> None:
    """Call `hand_on` for the bytes in `mask` of a split shadow word, each with its own record."""
    for byte in range(4):
        if mask >> byte & 1:
            hand_on(row, race, event, byte_record(race, word, byte))


@inlined
def hand_on_word(row: HartRow, race: Race, event: EventRow, word: int, mask: int) -> None:
    """Call `hand_on` for the bytes in `mask` of a shadow word."""
    if word >> SPLIT_AT:
        hand_on_parts(row, race, event, word, mask)
    elif word & mask:
        hand_on(row, race, event, word & ~BYTES)


@native
def note_page(race: Race, host: int) -> None:
    """Add the page of the byte at `host` to the set of accessed pages."""
    key = host >> PAGE_BITS
    at = find_row(race.pages, key, first_row(key, PAGE_SLOTS - 1), PAGE_SLOTS - 1, 8)
    if U64[at] == 0:
        if race.page_count >= PAGE_SLOTS >> 1:
            race.full = NO_PAGES
        else:
            U64[at] = key
            race.page_count += 1


@inlined
def enter(row: HartRow, race: Race, ram: RamRow, what: int, host: int, size: int, record: int) -> None:
    """Record an access in shadow memory, and update the hart's state for it.

    `record` is the access record of the event that the access belongs to. `what` is the kind and size of the
    access."""
    kind, start, end = what & KIND, host, host + size
    if row.last != record or kind != READ:
        drop_last_load(row)
    row.last = record if kind == READ and what & IS_ATOMIC == 0 else 0
    row.fenced = 0
    if race.remembers:
        note_page(race, host)
        note_page(race, host + size - 1)
    cell = (host & ~3) + ram.delta
    while host < end and kind != WRITE:
        if U32[cell] >= race.watermark:
            take_word(row, race, U32[cell], mask_of(host, end))
        host, cell = (host | 3) + 1, cell + 4
    if what & ACQUIRES:
        acquire(row)
    host, cell = start, (start & ~3) + ram.delta
    while host < end:
        mask = mask_of(host, end)
        if kind == READ:
            put(race, cell + (row.slot + 1) * ram.stride, mask, record)
        else:
            if kind == ATOMIC and U32[cell] >= race.watermark:
                hand_on_word(row, race, EventRow.from_address(event_at(race, record)), U32[cell], mask)
            put(race, cell, mask, record)
            for slot in range(race.harts):
                if U32[cell + (slot + 1) * ram.stride] >= race.watermark:
                    put(race, cell + (slot + 1) * ram.stride, mask, 0)
        host, cell = (host | 3) + 1, cell + 4


# ---- for Python ----------------------------------------------------------------------------------------------------
@native
def known_event(row: HartRow, pc: int, what: int) -> int:
    """Return the access record of the event that the current access of the instruction at `pc` belongs to.

    Return 0 if that event does not exist yet. An event groups the accesses of one instruction in one epoch of a
    hart."""
    return event_of(row, place_of_event(row, pc, what), what)


@native
def made_event(row: HartRow, pc: int, what: int) -> int:
    """Return the access record of the event that the current access of the instruction at `pc` belongs to.

    Create the event if necessary. An event groups the accesses of one instruction in one epoch of a hart."""
    return open_event(row, place_of_event(row, pc, what), pc, what)


@native
def make_known(row: HartRow, what: int, host: int, size: int, record: int) -> None:
    """Record an access in shadow memory, as part of the event with the access record `record`."""
    race = Race.from_address(row.race)
    enter(row, race, RamRow.from_address(ram_of(race, host)), what, host, size, record)
    refresh(row)


# ---- translated code -----------------------------------------------------------------------------------------------
@native
def attempt(row: HartRow, pc: int, what: int, host: int, size: int, address: int) -> int:
    """Check an access of `size` bytes, and record it if the check succeeds.

    Return the access record of the event that the access belongs to. If Python must check the access, record
    nothing and return 0. The access may consist of several adjacent elements."""
    race, kind = Race.from_address(row.race), what & KIND
    at = ram_of(race, host)
    if race.full or at == 0:
        return 0
    ram, place = RamRow.from_address(at), place_of_event(row, pc, what)
    record = event_of(row, place, what)
    synchronizes = is_flag(row, what) | (what & IS_ATOMIC != 0)
    if record:
        synchronizes = EventRow.from_address(event_at(race, record)).synchronizes
    if row.pending and (kind != READ or record == 0 or record != row.last):
        return 0
    if row.is_moving and meets(row, race, kind, host, size):
        return 0
    found = check_bytes(row, race, ram, what, host, size, synchronizes)
    if found and (found == LEAVE or size != what >> SIZE_AT or row.pending + size > PENDING):
        return 0
    record = open_event(row, place, pc, what)
    if found:
        suspect_all(row, race, ram, host, address, size, record)
    enter(row, race, ram, what, host, size, record)
    refresh(row)
    return record


@native
def check(row: HartRow, pc: int, what: int, host: int, address: int) -> int:
    """Check and record the next access of a hart; return 0.

    Return 1, with nothing changed, if Python must check the access. `what` is the kind and size of the access; `host`
    and `address` are its address in this process and for the hart.
    """
    race = Race.from_address(row.race)
    events = race.next
    record = attempt(row, pc, what, host, what >> SIZE_AT, address)
    if record == 0:
        return LEAVE
    if race.next == events or not row.is_moving:  # the event is not new, or the search for its memory is quick
        fill_cache(row, pc, what, host, record)
    return FINE


@native
def check_many(row: HartRow, pc: int, what: int, host: int, address: int, size: int) -> int:
    """Check and record the next accesses, to adjacent elements of `size` bytes in all; return 0.

    Return 1, with nothing changed, if Python must check the accesses.
    """
    if is_flag(row, what):  # only the first element publishes the release
        return LEAVE
    race = Race.from_address(row.race)
    events = race.next
    record = attempt(row, pc, what, host, size, address)
    if record == 0:
        return LEAVE
    if race.next == events:
        fill_cache(row, pc, what, host, record)
    return FINE


@native
def fill_cache(row: HartRow, pc: int, what: int, host: int, record: int) -> None:
    """Fill the inline cache entry of an instruction's access, so that its next access can be checked inline.

    The entry is used as long as no DMA transfer is under way.
    """
    race, kind = Race.from_address(row.race), what & KIND
    ram = RamRow.from_address(ram_of(race, host))
    low, high = ram.low, ram.low + ram.span
    if race.remembers or (what & IS_ATOMIC == 0 and EventRow.from_address(event_at(race, record)).synchronizes):
        return
    for number in range(race.moving_count if row.is_moving else 0):
        moving = MovingRow.from_address(race.moving + number * MOVING_BYTES)
        if (kind != READ or moving.writes) and not is_over(row, race, moving):
            if moving.end <= host:
                low = max(low, moving.end)
            else:
                high = min(high, moving.start)
    cache = Cache.from_address(cache_of(row, pc))
    cache.key, cache.epoch_id, cache.record, cache.entry = (
        cache_key(pc, what),
        row.armed,
        record,
        entry_of(row, pc, kind),
    )
    cache.low, cache.span = low, high - low - LARGEST if high > low + LARGEST else 0
    cache.stores, cache.loads, cache.stride = ram.delta, ram.delta + (row.slot + 1) * ram.stride, ram.stride
