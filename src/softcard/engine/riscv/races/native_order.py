"""The compiled vector clocks of harts: the order that fences, atomics and barriers establish."""

from __future__ import annotations

from typing import Final

from softcard.engine.races.clocks import cells_met, is_ordered
from softcard.engine.riscv.races.layout import (
    BYTES,
    CACHE_BYTES,
    CACHES,
    EVENT_BYTES,
    IS_ATOMIC,
    KEY_BITS,
    KIND,
    LIMIT,
    NEVER,
    NO_CLOCKS,
    NO_EVENTS,
    NO_SPLITS,
    RAM_BYTES,
    ROW_BYTES,
    SLOT_AT,
    SPLIT,
    SPLIT_AT,
    SPLIT_BYTES,
    SPLITS,
    Cache,
    EventRow,
    HartRow,
    Race,
    RamRow,
)
from softcard.ir.native import U32, U64, copy, fill, inlined, native

# ---- shadow words ----------------------------------------------------------------------------------------------------
# Compiled access to shadow memory: its words, and the table rows for dwords whose bytes have different records.


@inlined
def ram_of(race: Race, host: int) -> int:
    """Return the address of the `RamRow` of the memory that contains the byte at `host`; 0 without such a memory."""
    for number in range(race.ram_count):
        ram = RamRow.from_address(race.rams + number * RAM_BYTES)
        if host - ram.low < ram.span:
            return race.rams + number * RAM_BYTES
    return 0


@inlined
def parts_of(race: Race, word: int) -> int:
    """Return the address of the four byte records to which a split shadow word refers."""
    return race.splits + (word & SPLIT - 1) * SPLIT_BYTES


@native
def byte_record(race: Race, word: int, byte: int) -> int:
    """Return the access record of byte number `byte` of a dword, given the dword's shadow word."""
    if word >> SPLIT_AT:
        return U32[parts_of(race, word) + 4 * byte]
    return word & ~BYTES if word >> byte & 1 else 0


@native
def put_apart(race: Race, cell: int, mask: int, record: int) -> None:
    """Set the access record of some bytes of a dword, which `mask` selects; record 0 clears it.

    `mask` must not select all four bytes. `cell` is the address of the dword's shadow word."""
    word = U32[cell]
    if word >> SPLIT_AT == 0:
        remembered = word & BYTES & ~mask
        if word < race.watermark or remembered == 0:
            U32[cell] = record | mask if record else 0
            return
        if record == 0:
            U32[cell] = word & ~BYTES | remembered
            return
        if word & ~BYTES == record:
            U32[cell] = word | mask
            return
        if race.split_count >= SPLITS:
            race.full = NO_SPLITS
            return
        made = SPLIT | race.split_count
        race.split_count += 1
        for byte in range(4):
            U32[parts_of(race, made) + 4 * byte] = word & ~BYTES if word >> byte & 1 else 0
        U32[cell], word = made, made
    for byte in range(4):
        if mask >> byte & 1:
            U32[parts_of(race, word) + 4 * byte] = record


@inlined
def put(race: Race, cell: int, mask: int, record: int) -> None:
    """Set the access record of the bytes of a dword that are in `mask`; record 0 clears it.

    `cell` is the address of the dword's shadow word.
    """
    if mask == BYTES:
        U32[cell] = record | BYTES if record else 0
    else:
        put_apart(race, cell, mask, record)


@inlined
def planes_met(is_load: int, harts: int) -> int:
    """Return the number of planes (arrays of access records in shadow memory) that a new access conflicts with.

    `is_load` is 1 if the new access is a load. The planes are counted from that of the stores; those of each
    hart's loads follow it."""
    return cells_met(is_load, 1, harts + 1)


@inlined
def slot_of(race: Race, record: int) -> int:
    """Return the number of the hart in an access record."""
    return (record & race.slot_mask) >> SLOT_AT


# ---- order -----------------------------------------------------------------------------------------------------------


R_PRED_R_SUCC: Final = 1 << 25 | 1 << 21
W_PRED_W_SUCC: Final = 1 << 24 | 1 << 20
"""The fence bits PW and SW, which together mean a release; `R_PRED_R_SUCC`: PR and SR, which mean an acquire."""


@inlined
def event_at(race: Race, record: int) -> int:
    """Return the address of the `EventRow` of an event; rows are numbered from the watermark on."""
    return race.events + (record - race.watermark >> (race.number_at & 63)) * EVENT_BYTES


@inlined
def clock_bytes(race: Race) -> int:
    """Return the size of one clock in bytes."""
    return 16 * race.harts


@inlined
def refresh(row: HartRow) -> None:
    """Update `row.fast_id`, which inline checks compare with `epoch_id` in the inline cache entry.

    It equals `row.armed` if an inline test of shadow memory suffices for the hart's accesses. Otherwise it is
    `NEVER`, which equals no `epoch_id`."""
    race = Race.from_address(row.race)
    needs = row.fenced | row.pending | race.remembers | race.full
    if row.last:
        needs = needs | EventRow.from_address(event_at(race, row.last)).synchronizes
    row.fast_id = NEVER if needs else row.armed


@native
def bind(row: HartRow) -> None:
    """Compute the bounds of access records (`row.bounds`) from the hart's clock."""
    race = Race.from_address(row.race)
    bounds, atomics, known = U64.at(row.bounds), U64.at(row.bounds + (race.atomic >> SLOT_AT - 3)), U64.at(row.known)
    for slot in range(race.harts):
        bounds[slot], atomics[slot] = known[slot], race.watermark
    row.watermark = race.watermark


@inlined
def next_epoch(row: HartRow) -> None:
    """Begin a new epoch of the hart."""
    race = Race.from_address(row.race)
    race.epoch_id += 1
    row.epoch_id, row.armed = race.epoch_id, race.epoch_id


@inlined
def new_clock(race: Race, like: int) -> int:
    """Return the address of a new clock with the contents of clock `like`; return `like` if memory is exhausted."""
    made, size = race.clock_free, clock_bytes(race)
    if made + size > race.clock_end:
        race.full = NO_CLOCKS
        return like
    race.clock_free = made + size
    copy(made, like, size)
    return made


@native
def release(row: HartRow) -> None:
    """Publish the hart's clock with its later stores, and begin a new epoch."""
    race = Race.from_address(row.race)
    row.earlier = row.released
    row.released = new_clock(race, row.known)
    if not race.full:
        U64.at(row.released)[row.slot] = race.next
    next_epoch(row)


@native
def join(race: Race, clock: int, other: int) -> int:
    """Join clock `other` into clock `clock`, both given by address; return 1 if that changed `clock`."""
    mine, theirs, is_new = U64.at(clock), U64.at(other), 0
    for number in range(2 * race.harts):
        if mine[number] < theirs[number]:
            mine[number], is_new = theirs[number], 1
    return is_new


@native
def acquire(row: HartRow) -> None:
    """Join into the hart's clock the clocks that its loads have read since the last fence."""
    if row.is_acquiring:
        race = Race.from_address(row.race)
        if join(race, row.known, row.acquiring):
            bind(row)
        fill(row.acquiring, 0, clock_bytes(race))
        row.is_acquiring = 0


@inlined
def drop_last_load(row: HartRow) -> None:
    """Drop the state of the hart's last load, which can no longer become an acquire."""
    if row.last:
        EventRow.from_address(event_at(Race.from_address(row.race), row.last)).synchronizes = 0
        row.last = 0


@native
def forget_suspects(row: HartRow) -> None:
    """Drop the pending races of the hart's last load without reporting them."""
    if row.pending:
        row.pending = 0
        row.generation += 1


@inlined
def cache_of(row: HartRow, pc: int) -> int:
    """Return the address of the inline cache entry of the instruction at `pc`."""
    return row.caches + (pc >> 1 & CACHES - 1) * CACHE_BYTES


@inlined
def cache_key(pc: int, what: int) -> int:
    """Return the key by which an inline cache entry is recognised: the pc and the kind of access."""
    return pc << KEY_BITS | what & (KIND | IS_ATOMIC)


@native
def fence(row: HartRow, word: int, is_tso: int) -> int:
    """Apply the order of a fence: loads before it acquire, and stores after it release. Return 0.

    `word` is the encoding of the fence instruction.
    """
    race = Race.from_address(row.race)
    if word & R_PRED_R_SUCC == R_PRED_R_SUCC or is_tso:
        if row.last:
            event = EventRow.from_address(event_at(race, row.last))
            event.synchronizes = 1
            cache = Cache.from_address(cache_of(row, event.pc))
            if cache.record == row.last:
                cache.epoch_id = 0
            row.last = 0
            forget_suspects(row)
        acquire(row)
    if word & W_PRED_W_SUCC == W_PRED_W_SUCC or is_tso:
        release(row)
        row.fenced = 1
    refresh(row)
    return 0


@inlined
def is_before(row: HartRow, race: Race, record: int) -> int:
    """Return 1 if the event of an access record happened before the hart's next access."""
    is_known = record < U64.at(row.known)[slot_of(race, record)]
    return is_ordered(record, race.watermark, row.own, race.slot_mask, is_known)


@native
def begin_group(race: Race) -> None:
    """Begin a group of kernel instances: all accesses of harts so far count as ordered before those of the group."""
    race.watermark, race.clock_free, race.moving_count = race.next, race.clocks, 0
    for slot in range(race.harts):
        row = HartRow.from_address(race.rows + slot * ROW_BYTES)
        for number in range(race.harts):
            U64.at(row.known)[number] = race.watermark
            U64.at(row.known)[race.harts + number] = 0
        fill(row.acquiring, 0, clock_bytes(race))
        row.released, row.earlier, row.is_acquiring = race.nothing, race.nothing, 0
        row.last, row.fenced, row.is_moving = 0, 0, 0
        forget_suspects(row)
        next_epoch(row)
        bind(row)
        refresh(row)


@native
def begin_next_group(race: Race) -> int:
    """Begin a group of kernel instances; return 0.

    Return 1, with nothing changed, if Python must begin the group."""
    if race.remembers or race.moving_count or race.full or race.next >= LIMIT >> 1:
        return 1
    for slot in range(race.harts):
        row = HartRow.from_address(race.rows + slot * ROW_BYTES)
        if row.pending:
            return 1
    begin_group(race)
    return 0


@native
def barrier(race: Race) -> None:
    """Handle a barrier that all harts have reached: order all events before it before all later ones."""
    whole = HartRow.from_address(race.rows)
    for slot in range(race.harts):
        row = HartRow.from_address(race.rows + slot * ROW_BYTES)
        drop_last_load(row)
        forget_suspects(row)
    if not race.remembers:
        race.watermark, race.clock_free = race.next, race.clocks
    for slot in range(race.harts):
        row = HartRow.from_address(race.rows + slot * ROW_BYTES)
        release(row)
        row.earlier = race.nothing  # the memory of its old clock may be reused
    for slot in range(race.harts):
        row = HartRow.from_address(race.rows + slot * ROW_BYTES)
        join(race, whole.known, row.released)
    for slot in range(race.harts):
        row = HartRow.from_address(race.rows + slot * ROW_BYTES)
        join(race, row.known, whole.known)
        bind(row)
        refresh(row)


@inlined
def new_event(row: HartRow, race: Race, pc: int, what: int, synchronizes: int, is_atomic: int) -> int:
    """Create an event, that is, a group of accesses of the hart by one instruction in one epoch.

    Return the access record of the event. `what` is the kind and size of the access."""
    record = race.next | row.own | (race.atomic if is_atomic else 0)
    if race.next + race.step >= LIMIT:
        race.full = NO_EVENTS
    else:
        race.next += race.step
    event = EventRow.from_address(event_at(race, record))
    event.pc, event.what, event.synchronizes, event.clock = pc, what, synchronizes, row.released
    return record
