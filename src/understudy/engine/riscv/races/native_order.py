"""The clocks of harts, compiled: what fences, atomics and barriers order."""

from __future__ import annotations

from typing import Final

from understudy.engine.riscv.races.codes import (
    EVENT_BYTES,
    HINT_BYTES,
    HINTS,
    IS_ATOMIC,
    KEY_BITS,
    KIND,
    LIMIT,
    NEVER,
    NO_CLOCKS,
    NO_EVENTS,
    ROW_BYTES,
    SLOT_AT,
    SPLIT,
    EventRow,
    HartRow,
    Hint,
    Race,
)
from understudy.engine.riscv.races.native_cells import slot_of
from understudy.ir.native import U64, copy, fill, inlined, native

R_PRED_R_SUCC: Final = 1 << 25 | 1 << 21
W_PRED_W_SUCC: Final = 1 << 24 | 1 << 20
"""Bits of a fence that acquires, and of one that releases."""


@inlined
def event_at(race: Race, code: int) -> int:
    """The row of an event that is not over: rows are counted from the floor on."""
    return race.events + (code - race.floor >> (race.number_at & 63)) * EVENT_BYTES


@inlined
def clock_bytes(race: Race) -> int:
    """Of one clock."""
    return 16 * race.harts


@inlined
def refresh(row: HartRow) -> None:
    """Whether accesses in line need no more than a look at cells."""
    race = Race.from_address(row.race)
    needs = row.fenced | row.pending | race.keeps | race.full
    if row.last:
        needs = needs | EventRow.from_address(event_at(race, row.last)).synchronizes
    row.quick = NEVER if needs else row.armed


@native
def bind(row: HartRow) -> None:
    """Have the bounds of a hart say what its clock says."""
    race = Race.from_address(row.race)
    bounds, atomics, known = U64.at(row.bounds), U64.at(row.bounds + (race.atomic >> SLOT_AT - 3)), U64.at(row.known)
    for slot in range(race.harts):
        bounds[slot], atomics[slot] = known[slot], race.floor
    bounds[row.slot], atomics[row.slot] = SPLIT, SPLIT
    row.floor = race.floor


@inlined
def next_tick(row: HartRow) -> None:
    """What the hart does next belongs to another tick."""
    race = Race.from_address(row.race)
    race.stamp += 1
    row.stamp, row.armed = race.stamp, race.stamp


@inlined
def new_clock(race: Race, like: int) -> int:
    """A copy of a clock."""
    made, size = race.clock_free, clock_bytes(race)
    if made + size > race.clock_end:
        race.full = NO_CLOCKS
        return like
    race.clock_free = made + size
    copy(made, like, size)
    return made


@native
def release(row: HartRow) -> None:
    """What the hart has done so far comes before whoever acquires from its stores from now on."""
    race = Race.from_address(row.race)
    row.earlier = row.released
    row.released = new_clock(race, row.known)
    if not race.full:
        U64.at(row.released)[row.slot] = race.next
    next_tick(row)


@native
def join(race: Race, clock: int, other: int) -> int:
    """Have a clock say what another one says, too; whether that is new."""
    mine, theirs, is_new = U64.at(clock), U64.at(other), 0
    for number in range(2 * race.harts):
        if mine[number] < theirs[number]:
            mine[number], is_new = theirs[number], 1
    return is_new


@native
def acquire(row: HartRow) -> None:
    """What the hart has read of others' releases comes before what it does from now on."""
    if row.is_acquiring:
        race = Race.from_address(row.race)
        if join(race, row.known, row.acquiring):
            bind(row)
        fill(row.acquiring, 0, clock_bytes(race))
        row.is_acquiring = 0


@inlined
def settle(row: HartRow) -> None:
    """The last load of a hart is none that acquires."""
    if row.last:
        EventRow.from_address(event_at(Race.from_address(row.race), row.last)).synchronizes = 0
        row.last = 0


@native
def forget_suspects(row: HartRow) -> None:
    """What waited for the last load of a hart does so no more."""
    if row.pending:
        row.pending = 0
        row.generation += 1


@inlined
def hint_of(row: HartRow, pc: int) -> int:
    """Where the hint of an instruction is."""
    return row.hints + (pc >> 1 & HINTS - 1) * HINT_BYTES


@inlined
def hint_key(pc: int, what: int) -> int:
    """What tells the hint of an access from those of others."""
    return pc << KEY_BITS | what & (KIND | IS_ATOMIC)


@native
def fence(row: HartRow, word: int, is_tso: int) -> int:
    """A fence: of loads before it, of stores behind it."""
    race = Race.from_address(row.race)
    if word & R_PRED_R_SUCC == R_PRED_R_SUCC or is_tso:
        if row.last:
            event = EventRow.from_address(event_at(race, row.last))
            event.synchronizes = 1
            hint = Hint.from_address(hint_of(row, event.pc))
            if hint.code == row.last:
                hint.stamp = 0
            row.last = 0
            forget_suspects(row)
        acquire(row)
    if word & W_PRED_W_SUCC == W_PRED_W_SUCC or is_tso:
        release(row)
        row.fenced = 1
    refresh(row)
    return 0


@inlined
def is_before(row: HartRow, race: Race, code: int) -> int:
    """Whether an event came before what a hart does now."""
    slot = slot_of(race, code)
    return (slot == row.slot) | (code < U64.at(row.known)[slot])


@native
def begin_group(race: Race) -> None:
    """Whatever harts did so far is over."""
    race.floor, race.clock_free, race.moving_count = race.next, race.clocks, 0
    for slot in range(race.harts):
        row = HartRow.from_address(race.rows + slot * ROW_BYTES)
        for number in range(race.harts):
            U64.at(row.known)[number] = race.floor
            U64.at(row.known)[race.harts + number] = 0
        fill(row.acquiring, 0, clock_bytes(race))
        row.released, row.earlier, row.is_acquiring = race.nothing, race.nothing, 0
        row.last, row.fenced, row.is_moving = 0, 0, 0
        forget_suspects(row)
        next_tick(row)
        bind(row)
        refresh(row)


@native
def begin_next_group(race: Race) -> int:
    """The same, without Python, where it has nothing to tell of and nothing to look for; else 1."""
    if race.keeps or race.moving_count or race.full or race.next >= LIMIT >> 1:
        return 1
    for slot in range(race.harts):
        row = HartRow.from_address(race.rows + slot * ROW_BYTES)
        if row.pending:
            return 1
    begin_group(race)
    return 0


@native
def barrier(race: Race) -> None:
    """All harts have come to a barrier, and go on: each knows what all did, so that it is over."""
    whole = HartRow.from_address(race.rows)
    for slot in range(race.harts):
        row = HartRow.from_address(race.rows + slot * ROW_BYTES)
        settle(row)
        forget_suspects(row)
    if not race.keeps:
        race.floor, race.clock_free = race.next, race.clocks
    for slot in range(race.harts):
        row = HartRow.from_address(race.rows + slot * ROW_BYTES)
        release(row)
        row.earlier = race.nothing  # that one's place may become another's
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
    """The code of a new event of a hart."""
    code = race.next | row.own | (race.atomic if is_atomic else 0)
    if race.next + race.step >= LIMIT:
        race.full = NO_EVENTS
    else:
        race.next += race.step
    event = EventRow.from_address(event_at(race, code))
    event.pc, event.what, event.synchronizes, event.clock = pc, what, synchronizes, row.released
    return code
