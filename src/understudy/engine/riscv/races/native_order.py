"""The clocks of harts, compiled: what fences, atomics and barriers order."""

from __future__ import annotations

from typing import Final

from understudy.engine.riscv.races.codes import (
    EVENT_BYTES,
    HINT_BYTES,
    HINTS,
    LIMIT,
    NEVER,
    NO_CLOCKS,
    NO_EVENTS,
    ROW_BYTES,
    SLOT_AT,
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
    """The row of an event."""
    return race.events + (code >> SLOT_AT + race.slot_bits) * EVENT_BYTES


@inlined
def clock_bytes(race: Race) -> int:
    """Of one clock."""
    return 16 * race.harts


@native
def refresh(row: HartRow) -> None:
    """Whether accesses in line need no more than a look at cells."""
    race = Race.from_address(row.race)
    needs = row.fenced | row.pending | row.is_moving | race.keeps | race.full
    if row.last:
        needs = needs | EventRow.from_address(event_at(race, row.last)).synchronizes
    row.quick = NEVER if needs else row.stamp
    row.floor = race.floor


@native
def next_tick(row: HartRow) -> None:
    """What the hart does next belongs to another tick."""
    race = Race.from_address(row.race)
    race.stamp += 1
    row.tick += 1
    row.stamp = race.stamp


@native
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
    row.released = new_clock(race, row.known)
    if not race.full:
        U64.at(row.released)[row.slot] = row.tick
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
        join(race, row.known, row.acquiring)
        fill(row.acquiring, 0, clock_bytes(race))
        row.is_acquiring = 0


@native
def settle(row: HartRow) -> None:
    """The last load of a hart is none that acquires."""
    if row.last:
        EventRow.from_address(event_at(Race.from_address(row.race), row.last)).synchronizes = 0
        row.last = 0


@native
def fence(row: HartRow, word: int, is_tso: int) -> int:
    """A fence: of loads before it, of stores behind it."""
    race = Race.from_address(row.race)
    if word & R_PRED_R_SUCC == R_PRED_R_SUCC or is_tso:
        if row.last:
            event = EventRow.from_address(event_at(race, row.last))
            event.synchronizes = 1
            for number in range(HINTS):
                hint = Hint.from_address(row.hints + number * HINT_BYTES)
                if hint.code == row.last:
                    hint.stamp = 0
            row.last, row.pending = 0, 0
        acquire(row)
    if word & W_PRED_W_SUCC == W_PRED_W_SUCC or is_tso:
        release(row)
        row.fenced = 1
    refresh(row)
    return 0


@native
def is_before(row: HartRow, race: Race, code: int) -> int:
    """Whether an event came before what a hart does now."""
    slot = slot_of(race, code)
    if slot == row.slot:
        return 1
    return U64.at(row.known)[slot] >= EventRow.from_address(event_at(race, code)).tick


@native
def begin_group(race: Race) -> int:
    """Whatever harts did so far is over."""
    race.floor, race.clock_free, race.moving_count = race.next, race.clocks, 0
    for slot in range(race.harts):
        row = HartRow.from_address(race.rows + slot * ROW_BYTES)
        fill(row.known, 0, clock_bytes(race))
        fill(row.acquiring, 0, clock_bytes(race))
        row.released, row.tick, row.is_acquiring = race.nothing, 0, 0
        row.last, row.pending, row.fenced, row.is_moving = 0, 0, 0, 0
        next_tick(row)
        refresh(row)
    return race.next >= LIMIT >> 1


@native
def barrier(race: Race) -> None:
    """All harts have come to a barrier, and go on: each knows what all did, so that it is over."""
    if not race.keeps:
        race.floor, race.clock_free = race.next, race.clocks
    whole = HartRow.from_address(race.rows)
    for slot in range(race.harts):
        row = HartRow.from_address(race.rows + slot * ROW_BYTES)
        settle(row)
        row.pending = 0
        release(row)
    for slot in range(race.harts):
        row = HartRow.from_address(race.rows + slot * ROW_BYTES)
        join(race, whole.known, row.released)
    for slot in range(race.harts):
        row = HartRow.from_address(race.rows + slot * ROW_BYTES)
        join(race, row.known, whole.known)
        refresh(row)


@native
def new_event(row: HartRow, race: Race, pc: int, what: int, synchronizes: int) -> int:
    """The code of a new event of a hart."""
    code = race.next | row.own
    if race.next + race.step >= LIMIT:
        race.full = NO_EVENTS
    else:
        race.next += race.step
    event = EventRow.from_address(event_at(race, code))
    event.pc, event.tick, event.what, event.synchronizes = pc, row.tick, what, synchronizes
    event.clock = row.released
    return code
