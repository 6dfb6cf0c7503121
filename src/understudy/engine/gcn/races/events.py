"""Accesses by the reference engine, held against those before them: each is an event, and cells know who was last."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np

from understudy.core.checks import RACES
from understudy.core.errors import BeyondModel
from understudy.engine.clocks import Clock, join
from understudy.engine.gcn.races.cells import (
    ALSO_LOADED,
    LANE_BITS,
    LANE_MASK,
    LOADED,
    STORED,
    UPDATED,
    Cells,
    Flags,
    Numbers,
    Places,
)
from understudy.engine.gcn.races.clocks import GroupClock, WaveClock
from understudy.engine.gcn.races.launches import Launches
from understudy.engine.gcn.races.telling import (
    ATOMIC,
    GROUPS,
    KERNELS,
    LOAD,
    STORE,
    WAVES,
    Met,
    Party,
    Telling,
    is_scalar,
)
from understudy.engine.gcn.races.touched import PIECE, Touched
from understudy.isa.gcn.insn import Insn

EVENTS: Final = (1 << 32 - LANE_BITS) - 1
"""Accesses that cells have numbers for."""
SITES: Final = 1 << 32
"""More than there are instructions that access memory."""
FEW: Final = 4
"""Words of an atomic or load whose releases are looked through at once."""
AGAINST: Final = {
    LOAD: (STORED, UPDATED),
    STORE: (STORED, UPDATED, LOADED, ALSO_LOADED),
    ATOMIC: (STORED, LOADED, ALSO_LOADED),
}
"""The cells that may be in the way of an access."""


@dataclass(slots=True, eq=False)
class Event:
    """Accesses of one instruction by a wave, in one tick. `site`: its number, as instructions came to access memory.

    `is_coherent`: a load past the caches (glc). `is_single`: of the only lane. `clock`: what it releases.
    """

    wave: WaveClock
    tick: int
    insn: Insn
    site: int
    access: str
    is_coherent: bool
    is_single: bool
    clock: Clock

    def allows(self, other: Event, space: str) -> bool:
        """Whether the two are atomic in the sense of memory models, as far as machine code shows it."""
        kinds = {self.access, other.access}
        if kinds == {ATOMIC}:
            return True
        if LOAD in kinds:
            load = self if self.access == LOAD else other
            return load.is_coherent and space == "global"
        if ATOMIC in kinds:
            store = self if self.access == STORE else other
            return store.is_single and space == "global"
        return False

    @property
    def may_be_atomic(self) -> bool:
        """Whether it is an atomic access of global memory in that sense, as far as machine code shows it."""
        return self.access == ATOMIC or self.is_coherent or (self.access == STORE and self.is_single)


class EventJudge:
    """Looks at the accesses of waves. `equal_stores`: stores that leave memory as it is are told of, too."""

    def __init__(self, launches: Launches, telling: Telling, *, equal_stores: bool) -> None:
        self.launches = launches
        self.telling = telling
        self.equal_stores = equal_stores
        self.group = GroupClock(1)
        self._cells: dict[str, Cells] = {"global": Cells(), "gds": Cells()}
        self._events: list[Event | None] = [None]
        self._known: dict[tuple[object, ...], int] = {}
        self._sites: dict[tuple[int, str], int] = {}
        self._atomics: dict[str, dict[int, dict[int, int]]] = defaultdict(dict)
        """What atomics have released, by space and address."""
        self._uid = 0

    def begin(self) -> None:
        """A launch runs next."""

    def forget(self) -> None:
        """Whatever ran so far is over before what runs next. Cells stay where the host has not waited for it."""
        self._atomics.clear()
        if self.launches.unseen:
            return
        for cells in self._cells.values():
            cells.clear()
        self._events = [None]
        self._known.clear()

    def begin_group(self) -> None:
        """A work-group's waves are next."""
        self.group = GroupClock(self._uid + 1)
        self._cells["LDS"] = Cells()
        self._atomics["LDS"].clear()

    def wave(self, address: int, number: int, group: tuple[int, int, int]) -> WaveClock:
        """The clock of the wave whose block lies at `address`."""
        found = self.group.waves.get(address)
        if found is None:
            self._uid += 1
            found = self.group.waves[address] = WaveClock(self._uid, number, group, self.launches.present)
        return found

    def leave(self, wave: WaveClock) -> None:
        """The barriers that a wave has come to are open."""
        self.group.leave(wave)

    def arrive(self, wave: WaveClock) -> None:
        """A wave has come to a barrier."""
        self.group.arrive(wave)

    def end(self, wave: WaveClock) -> None:
        """A wave has ended."""
        self.group.end(wave)

    def waited(self, wave: WaveClock) -> None:
        """A wave has waited for its stores."""
        wave.is_waited = True

    def acquire(self, wave: WaveClock) -> None:
        """A wave has invalidated its cache."""
        wave.acquire()

    # ---- accesses ------------------------------------------------------------------------------------------------
    def look(
        self,
        wave: WaveClock,
        insn: Insn,
        access: str,
        space: str,
        addresses: Places,
        size: int,
        lanes: Places | None,
        same: Callable[[], Flags] | None = None,
        *,
        is_single: bool = True,
    ) -> None:
        """Accesses of `size` bytes at each address, by those lanes (None: by the wave itself).

        `same` says of each address whether a store leaves memory there as it is; `is_single`: EXEC has one lane.
        """
        is_coherent = access == LOAD and bool(insn.get("glc"))
        stores = access == ATOMIC or (access == STORE and space == "global")
        releases = stores and wave.stores(is_ordered=space == "LDS")
        number = self._event(wave, insn, access, is_coherent, is_single)
        event = self._events[number]
        assert event is not None
        if releases:
            event.clock = wave.released_with(event.tick)
        own = np.zeros(len(addresses), np.int64) if lanes is None else lanes
        mine = (number << LANE_BITS | own).astype(np.uint32)
        if access == ATOMIC or is_coherent:
            self._acquire(event, space, addresses)
        flat = (addresses[:, None] + np.arange(size)).reshape(-1)
        owner, every = np.repeat(np.arange(len(addresses)), size), np.repeat(mine, size)
        others = self._in_the_way(event, space, flat, owner, same)
        if others.any():
            self._tell(event, others, space, addresses, size, owner, lanes)
        for cells, at, chosen in self._cells[space].parts(flat):
            marks = every[chosen]
            if access == LOAD:
                first = cells[LOADED][at]
                free = self._free(event, first)
                for row, some in ((LOADED, free), (ALSO_LOADED, ~free)):
                    cells[row][at[some]] = self._last(event, cells[row][at[some]], marks[some])
            elif access == ATOMIC:
                cells[UPDATED][at] = marks
            else:
                cells[:, at] = 0
                cells[STORED][at] = marks

    def _event(self, wave: WaveClock, insn: Insn, access: str, is_coherent: bool, is_single: bool) -> int:
        key = (wave.uid, wave.version, insn.pc, access, is_single)
        number = self._known.get(key)
        if number is None:
            number = self._known[key] = len(self._events)
            if number > EVENTS:
                raise BeyondModel(f"check {RACES!r} of launches with more than {EVENTS} accesses by wave and place")
            site = self._sites.setdefault((insn.pc, access), len(self._sites))
            event = Event(wave, wave.tick, insn, site, access, is_coherent, is_single, wave.released())
            self._events.append(event)
        return number

    def _last(self, event: Event, known: Numbers, marks: Numbers) -> Numbers:
        """Which loads cells know of then: see `native_look.later`."""
        found, numbers = marks.copy(), known >> LANE_BITS
        for number in np.unique(numbers).tolist():
            other = self._events[number]
            if other is None:
                continue
            stays = numbers == number
            if other.wave is event.wave and other.tick == event.tick:
                if other.site == event.site:
                    stays &= known & LANE_MASK > marks & LANE_MASK
                is_last = other.site >= event.site
            else:
                is_one = other.wave.launch is event.wave.launch and other.wave.group == event.wave.group
                is_last = is_one and other.wave.wave > event.wave.wave and not self._ordered(other, event)
            if is_last:
                found[stays] = known[stays]
        return found

    def _acquire(self, event: Event, space: str, addresses: Places) -> None:
        """What the words that are read have released; atomics hand it on with their own."""
        stores = np.concatenate([cells[STORED][at] for cells, at, _ in self._cells[space].parts(addresses)])
        events = [self._events[number] for number in np.unique(stores >> LANE_BITS).tolist()]
        is_over = self.launches.is_over
        clocks: list[Clock] = [each.clock for each in events if each is not None and not is_over(each.wave.launch)]
        places, atomics = np.unique(addresses).tolist(), self._atomics[space]
        clocks += [atomics[place] for place in places if place in atomics]
        wave = event.wave
        if event.access == ATOMIC:
            for place in places:
                join(atomics.setdefault(place, {}), event.clock)
            if not returns(event.insn):
                return
        wave.acquiring.update((id(clock), clock) for clock in clocks)
        if space == "LDS" or len(places) <= FEW:  # the caches are the work-group's own: nothing is to be invalidated
            for clock in clocks:
                wave.learn(self.group.own(clock))

    def _free(self, event: Event, cells: Numbers) -> Flags:
        """Where nobody is whom the event does not know of."""
        free = np.ones(len(cells), np.bool_)
        if not cells.any():
            return free
        numbers = cells >> LANE_BITS
        for number in np.unique(numbers).tolist():
            other = self._events[number]
            if other is not None and not self._ordered(other, event):
                free[numbers == number] = False
        return free

    def _ordered(self, before: Event, event: Event) -> bool:
        if before.wave.launch is not event.wave.launch:
            return self.launches.is_before(before.wave.launch)
        return event.wave.knows(before.wave.uid, before.tick)

    def _in_the_way(
        self, event: Event, space: str, flat: Places, owner: Places, same: Callable[[], Flags] | None
    ) -> Numbers:
        """For each byte, what the first cell says that names somebody whom nothing orders before the event; or 0."""
        found = np.zeros(len(flat), np.uint32)
        for cells, at, chosen in self._cells[space].parts(flat):
            there = found[chosen]
            for row in AGAINST[event.access]:
                codes = cells[row][at]
                if codes.any():
                    who = owner[chosen]
                    for number in np.unique(codes >> LANE_BITS).tolist():
                        other = self._events[number]
                        if other is None or other is event or self._ordered(other, event) or event.allows(other, space):
                            continue
                        here = (codes >> LANE_BITS == number) & (there == 0)
                        if event.access == other.access == STORE and same is not None and not self.equal_stores:
                            here &= ~same()[who] if here.any() else here
                        there = np.where(here, codes, there)
            found[chosen] = there
        return found

    def _tell(
        self,
        event: Event,
        others: Numbers,
        space: str,
        addresses: Places,
        size: int,
        owner: Places,
        lanes: Places | None,
    ) -> None:
        """Tell of each other event, in the order of the bytes."""
        numbers = others >> LANE_BITS
        every, first = np.unique(numbers, return_index=True)
        for number in every[np.argsort(first)].tolist():
            other = self._events[number]
            if other is None:
                continue
            items, at = np.unique(owner[numbers == number], return_index=True)
            lane = int(others[numbers == number][at[0]]) & LANE_MASK
            is_one = other.wave.launch is event.wave.launch
            between = KERNELS if not is_one else WAVES if other.wave.group == event.wave.group else GROUPS
            self.telling.tell(
                _party(event, () if lanes is None else tuple(lanes[items].tolist())),
                _party(other, () if is_scalar(other.insn) else (lane,)),
                between, space, int(addresses[items[0]]), size, len(items),
            )  # fmt: skip

    # ---- the host ------------------------------------------------------------------------------------------------
    def met(self, access: str, address: int, size: int) -> list[Met]:
        """What launches that the host has not waited for have done to bytes that it accesses, in their order."""
        touched, unseen = Touched(), self.launches.unseen
        for start in range(address, address + size, PIECE):
            addresses = np.arange(start, min(start + PIECE, address + size))
            for cells, at, chosen in self._cells["global"].parts(addresses):
                for row in AGAINST[LOAD if access == LOAD else STORE]:
                    codes = cells[row][at].astype(np.int64)
                    for number in np.unique(codes >> LANE_BITS).tolist():
                        event = self._events[number]
                        if event is not None and event.wave.launch.number in unseen:
                            places = np.flatnonzero(codes >> LANE_BITS == number)
                            key = event.wave.launch.number * SITES + event.site
                            keys = np.full(len(places), key)
                            touched.add(row, keys, addresses[chosen][places], codes[places])
            touched.end_piece()
        made = []
        for key, first in touched.found.items():
            event = self._events[first.code >> LANE_BITS]
            assert event is not None
            party = _party(event, () if is_scalar(event.insn) else (first.code & LANE_MASK,))
            made.append(Met(party, key // SITES, first.address, first.size, event.may_be_atomic))
        return sorted(made, key=Met.order)


def _party(event: Event, lanes: tuple[int, ...]) -> Party:
    return Party(event.insn, event.access, event.wave.wave, event.wave.group, lanes)


def returns(insn: Insn) -> bool:
    """Whether an atomic tells its wave what was there: one that does not cannot acquire."""
    return bool(insn.get("glc")) or "_rtn" in insn.op.name
