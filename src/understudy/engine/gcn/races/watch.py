"""The check `races` of a device: each access of a byte is held against those before it that nothing orders.

What orders two accesses: the wave that does both; a barrier of the work-group; a release that the later one's wave, or
one before it, has acquired; packets that wait for each other. Waves of one launch run as ever, so that nothing but what
is said to order them does: no finding depends on who happened to be first.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from understudy.core.checks import RACES
from understudy.core.errors import BeyondModel
from understudy.core.findings import Finding, FindingLog
from understudy.engine.clocks import Clock, join
from understudy.engine.gcn.races.cells import (
    ALSO_LOADED,
    LANE_BITS,
    LOADED,
    STORED,
    UPDATED,
    Cells,
    Flags,
    Numbers,
    Places,
)
from understudy.engine.gcn.races.clocks import GroupClock, Launch, WaveClock
from understudy.isa.gcn.asm.printer import text
from understudy.isa.gcn.insn import Insn

if TYPE_CHECKING:
    from understudy.engine.gcn.memory import GpuMemory

EVENTS: Final = (1 << 32 - LANE_BITS) - 1
"""Accesses that cells have numbers for."""
FEW: Final = 4
"""Words of an atomic or load whose releases are looked through at once."""
LOAD: Final = "read"
STORE: Final = "write"
ATOMIC: Final = "atomic"
AGAINST: Final = {
    LOAD: (STORED, UPDATED),
    STORE: (STORED, UPDATED, LOADED, ALSO_LOADED),
    ATOMIC: (STORED, LOADED, ALSO_LOADED),
}
"""The cells that may be in the way of an access."""
WAVES: Final = "waves of a work-group"
GROUPS: Final = "work-groups"
KERNELS: Final = "kernels"
SUGGESTION: Final = {
    WAVES: "a barrier between them, or atomics",
    GROUPS: "a release and an acquire between them, atomics, or a kernel for each",
    KERNELS: "the barrier bit, or a wait for the first one's completion signal",
}
"""By whose accesses they are."""


@dataclass(slots=True, eq=False)
class Event:
    """Accesses of one instruction by a wave, in one tick.

    `is_coherent`: a load past the caches (glc). `is_single`: of one lane. `clock`: what it releases.
    """

    wave: WaveClock
    tick: int
    insn: Insn
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


Site = tuple[object, ...]
"""Kind, whose accesses, address space, and for both instructions the place and the words."""


class RaceWatch:
    """Looks at the launches of one memory. `equal_stores`: stores that leave it as it is are told of, too."""

    def __init__(self, memory: GpuMemory, log: FindingLog, equal_stores: bool = False) -> None:
        self.equal_stores = equal_stores
        self.memory = memory
        self.log = log
        self.group = GroupClock(1)
        self.launch = Launch(0)
        self._cells: dict[str, Cells] = {"global": Cells(), "gds": Cells()}
        self._launches: list[Launch] = []
        self._events: list[Event | None] = [None]
        self._known: dict[tuple[object, ...], int] = {}
        self._atomics: dict[str, dict[int, dict[int, int]]] = defaultdict(dict)
        """What atomics have released, by space and address."""
        self._uid = 0
        self._told: dict[Site, Finding] = {}
        self._behind: dict[int, int] = {}
        """By queue: the launch from which on, backwards, all are over before its next ones."""
        self._own: dict[int, int] = {}
        """Likewise those of the queue itself."""

    # ---- launches ------------------------------------------------------------------------------------------------
    def begin(self, queue: int = 0, packet: int = 0, seen: Mapping[int, int] | None = None) -> None:
        """A kernel runs next, by a packet of a queue; `seen`: packets that each queue has been given by now.

        Without `seen` whatever runs later comes after it.
        """
        self.launch = Launch(self.launch.number + 1, queue, packet, {} if seen is None else dict(seen))
        if all(self._before(each) for each in self._launches):
            self.forget()
        self._launches.append(self.launch)

    def wait(self, queue: int, *, for_all: bool) -> None:
        """A packet of a queue has waited for those before it: of the queue, or `for_all` that anyone may wait for."""
        (self._behind if for_all else self._own)[queue] = self.launch.number

    def _before(self, launch: Launch) -> bool:
        """Whether one is over before the present one by rule. What was not submitted then may have been waited for."""
        queue = self.launch.queue
        if launch is self.launch:
            return False
        if launch.seen.get(queue, 0) <= self.launch.packet or self._behind.get(queue, 0) >= launch.number:
            return True
        return launch.queue == queue and self._own.get(queue, 0) >= launch.number

    def forget(self) -> None:
        """Whatever ran so far is over before what runs next."""
        for cells in self._cells.values():
            cells.clear()
        self._launches.clear()
        self._events = [None]
        self._known.clear()
        self._atomics.clear()
        self._behind.clear()
        self._own.clear()

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
            found = self.group.waves[address] = WaveClock(self._uid, number, group, self.launch)
        return found

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
    ) -> None:
        """Accesses of `size` bytes at each address, by those lanes (None: by the wave itself).

        `same` says of each address whether a store leaves memory there as it is.
        """
        is_coherent = access == LOAD and bool(insn.get("glc"))
        stores = access == ATOMIC or (access == STORE and space == "global")
        releases = stores and wave.stores(is_ordered=space == "LDS")
        number = self._event(wave, insn, access, is_coherent, len(addresses) == 1)
        event = self._events[number]
        assert event is not None
        if releases:
            event.clock = wave.released_with(event.tick)
        own = np.zeros(len(addresses), np.int64) if lanes is None else lanes
        mine = (number << LANE_BITS | own).astype(np.uint32)
        if access == ATOMIC or is_coherent:
            self._acquire(event, space, addresses)
        is_scalar = lanes is None
        flat = (addresses[:, None] + np.arange(size)).reshape(-1)
        owner, every = np.repeat(np.arange(len(addresses)), size), np.repeat(mine, size)
        for cells, at, chosen in self._cells[space].parts(flat):
            who, marks = owner[chosen], every[chosen]
            told = np.zeros(len(at), np.bool_)
            for row in AGAINST[access]:
                told |= self._against(event, cells[row][at], space, who, addresses, size, own, same, is_scalar, told)
            if access == LOAD:
                first = cells[LOADED][at]
                free = self._free(event, first)
                cells[LOADED][at[free]] = marks[free]
                others = ~free & (first >> LANE_BITS != number)
                cells[ALSO_LOADED][at[others]] = marks[others]
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
            event = Event(wave, wave.tick, insn, access, is_coherent, is_single, wave.released())
            self._events.append(event)
        return number

    def _acquire(self, event: Event, space: str, addresses: Places) -> None:
        """What the words that are read have released; atomics hand it on with their own."""
        stores = np.concatenate([cells[STORED][at] for cells, at, _ in self._cells[space].parts(addresses)])
        events = [self._events[number] for number in np.unique(stores >> LANE_BITS).tolist()]
        clocks: list[Clock] = [each.clock for each in events if each is not None]
        places, atomics = np.unique(addresses).tolist(), self._atomics[space]
        clocks += [atomics[place] for place in places if place in atomics]
        wave = event.wave
        if event.access == ATOMIC:
            for place in places:
                join(atomics.setdefault(place, {}), event.clock)
            if not _returns(event.insn):
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
            return self._before(before.wave.launch)
        return event.wave.knows(before.wave.uid, before.tick)

    def _against(
        self,
        event: Event,
        cells: Numbers,
        space: str,
        who: Places,
        addresses: Places,
        size: int,
        lanes: Places,
        same: Callable[[], Flags] | None,
        is_scalar: bool,
        told: Flags,
    ) -> Flags:
        """Tell of the bytes whose cells name somebody whom nothing orders before the event; which they are."""
        bad = np.zeros(len(cells), np.bool_)
        if not cells.any():
            return bad
        numbers = cells >> LANE_BITS
        for number in np.unique(numbers).tolist():
            other = self._events[number]
            if other is None or other is event or self._ordered(other, event) or event.allows(other, space):
                continue
            here = (numbers == number) & ~told
            if event.access == other.access == STORE and same is not None and not self.equal_stores and here.any():
                here &= ~same()[who]
            if not here.any():
                continue
            bad |= here
            items, first = np.unique(who[here], return_index=True)
            lane = int(cells[here][first[0]]) & (1 << LANE_BITS) - 1
            whose = () if is_scalar else tuple(lanes[items].tolist())
            self._tell(event, other, space, int(addresses[items[0]]), size, whose, lane, len(items))
        return bad

    # ---- telling -------------------------------------------------------------------------------------------------
    def _tell(
        self,
        event: Event,
        other: Event,
        space: str,
        address: int,
        size: int,
        lanes: tuple[int, ...],
        lane: int,
        count: int,
    ) -> None:
        kind = f"{other.access}-{event.access}"
        party = other.wave
        is_one = party.launch is event.wave.launch
        between = KERNELS if not is_one else WAVES if party.group == event.wave.group else GROUPS
        places = (each for insn in (other.insn, event.insn) for each in (insn.pc, insn.words))
        site = (kind, between, space, *places)
        known = self._told.get(site)
        if known is not None:
            self.log.note(replace(known, count=count))
            return
        where = Finding(
            RACES, kind, "", pc=other.insn.pc, insn=text(other.insn), lanes=() if _is_scalar(other.insn) else (lane,),
            unit=f"wave {party.wave}", group=",".join(map(str, party.group)),
        )  # fmt: skip
        for namer in self.log.namers:
            namer(where)
        what = f"offset {address:#x} of LDS" if space == "LDS" else f"{address:#x}{self._name(space, address)}"
        message = f"{event.access} of {size} bytes at {what} and a {other.access} of the same by {between} in no order"
        allocation = None
        if space == "global" and self.memory.guard is not None:
            below, _ = self.memory.guard.allocations.around(address)
            allocation = below if below is not None and address < below.end else None
        finding = Finding(
            RACES, kind, message, access=event.access, space=space, address=address, size=size, pc=event.insn.pc,
            insn=text(event.insn), lanes=lanes, unit=f"wave {event.wave.wave}",
            group=",".join(map(str, event.wave.group)), other=where.place, suggestion=SUGGESTION[between],
            allocation=allocation, count=count,
        )  # fmt: skip
        self._told[site] = replace(finding)
        self.log.note(finding)

    def _name(self, space: str, address: int) -> str:
        if space != "global":
            return f" of {space.upper()}"
        found = self.memory.find(address)
        return "" if found is None else f" in {found.name}"


def _returns(insn: Insn) -> bool:
    """Whether an atomic tells its wave what was there: one that does not cannot acquire."""
    return bool(insn.get("glc")) or "_rtn" in insn.op.name


def _is_scalar(insn: Insn) -> bool:
    return insn.op.name.startswith("s_")
