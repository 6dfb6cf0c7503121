"""The race detector of the reference engine, which compares accesses with the shadow cells of earlier accesses."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt

from softcard.core.errors import Registers
from softcard.core.findings import Capture
from softcard.engine.gcn.hooks import ATOMIC, LOAD, STORE
from softcard.engine.gcn.launches import Launch, Launches
from softcard.engine.gcn.races.clocks import GroupClock, LaunchClocks, ReleasedClocks, WaveClock, WriteBacks
from softcard.engine.gcn.races.reporter import (
    GROUPS,
    KERNELS,
    WAS_DEFERRED,
    WAVES,
    WORD_BYTES,
    WORD_REACH,
    HostConflict,
    RacingAccess,
    Reporter,
    is_scalar,
)
from softcard.engine.gcn.races.value_flow import DEFERRED, ESCAPING, Flow, ValueFlows
from softcard.engine.races.clocks import Clock
from softcard.engine.races.findings import PIECE, FirstAccesses
from softcard.engine.races.tables import over_limit
from softcard.isa.gcn.coherence import is_coherent_load, is_group_load, is_scoped_store, stores_through
from softcard.isa.gcn.insn import Insn

# ---- shadow cells ----------------------------------------------------------------------------------------------------
# The shadow memory of the reference engine's race detector. For each byte it records the last store, and, since that
# store, one atomic and two loads. Two loads are needed because a later store by the wave that made one of them can race
# only with the other. A cell holds the number of an event, with the lane in its low bits; 0 means that no access was
# recorded.


PAGE_BITS: Final = 12
LANE_BITS: Final = 6
LANE_MASK: Final = (1 << LANE_BITS) - 1
STORED: Final = 0
LOADED: Final = 1
ALSO_LOADED: Final = 2
UPDATED: Final = 3
ROWS: Final = 4

Numbers = npt.NDArray[np.uint32]
Flags = npt.NDArray[np.bool_]
Places = npt.NDArray[np.uint64]
"""The type of an array of addresses. A wave may access any 64-bit address."""
Indices = npt.NDArray[np.int64]
"""The type of an array of positions in another array, or of lane numbers."""

_IN_PAGE: Final = np.uint64((1 << PAGE_BITS) - 1)


class Cells:
    """The shadow cells of one address space; a page of them is allocated on its first use."""

    def __init__(self) -> None:
        self._pages: dict[int, npt.NDArray[np.uint32]] = {}

    def clear(self) -> None:
        """Clear all cells. Later accesses are therefore not compared with earlier ones."""
        self._pages.clear()

    def parts(self, addresses: Places) -> Iterator[tuple[npt.NDArray[np.uint32], Places, slice | Indices]]:
        """Split addresses by shadow page; yield each page's cells, offsets in the page, and indices.

        The cells are an array with a row for each kind of recorded access. The indices are the positions in
        `addresses`.
        """
        pages, places = addresses >> np.uint64(PAGE_BITS), addresses & _IN_PAGE
        low, high = int(pages.min()), int(pages.max())
        if low == high:
            yield self._page(low), places, slice(None)
            return
        for page in np.unique(pages).tolist():
            chosen = np.flatnonzero(pages == page)
            yield self._page(page), places[chosen], chosen

    def _page(self, number: int) -> npt.NDArray[np.uint32]:
        found = self._pages.get(number)
        if found is None:
            found = self._pages[number] = np.zeros((ROWS, 1 << PAGE_BITS), np.uint32)
        return found


# ---- events ----------------------------------------------------------------------------------------------------------


EVENTS: Final = (1 << 32 - LANE_BITS) - 1
"""The maximum number of events that the event number in a shadow cell can distinguish."""
SITES: Final = 1 << 32
"""An upper bound of the number of instructions that access memory."""
FEW: Final = 4
"""The maximum size, in words, of a global access that acquires without a cache invalidation."""
AGAINST: Final = {
    LOAD: (STORED, UPDATED),
    STORE: (STORED, UPDATED, LOADED, ALSO_LOADED),
    ATOMIC: (STORED, LOADED, ALSO_LOADED),
}
"""The kinds of recorded accesses that can conflict with an access, by the kind of that access."""


@dataclass(slots=True, eq=False)
class Event:
    """The accesses of one instruction by a wave in one epoch.

    `site` is the number of the instruction: instructions are numbered when they first access memory.
    `is_coherent` is True for a load that bypasses the caches (glc), `is_in_group` for a load that is coherent within
    its work-group only. `is_single` is True if only one lane is active.
    `clock` is the clock that the event releases to its work-group, `published` the one that it releases to others, and
    `released` the one that it releases to packets: without the stores that the wave had not waited for."""

    wave: WaveClock
    epoch: int
    insn: Insn
    site: int
    access: str
    is_coherent: bool
    is_in_group: bool
    is_single: bool
    clock: Clock
    published: Clock
    released: Clock

    def allows(self, other: Event, space: str) -> bool:
        """Return True if the accesses of both events may be atomic in the source code; then they do not race.

        A coherent load, and a store by a single lane, may be atomic in the source, because compilers use the same
        instructions for atomic and for plain accesses."""
        kinds = {self.access, other.access}
        if kinds == {ATOMIC}:
            return True
        if LOAD in kinds:
            load = self if self.access == LOAD else other
            is_own = self.wave.launch is other.wave.launch and self.wave.group == other.wave.group
            return (load.is_coherent or (load.is_in_group and is_own)) and space == "global"
        if ATOMIC in kinds:
            store = self if self.access == STORE else other
            return store.is_single and space == "global"
        return False

    @property
    def may_be_atomic(self) -> bool:
        """True if the event may be an atomic access of global memory in the source."""
        return self.access == ATOMIC or self.is_coherent or (self.access == STORE and self.is_single)


@dataclass(slots=True, eq=False)
class Race:
    """A race of one lane's access with the earlier access of an event.

    `serial` is the number of the access, `other_lane` the lane of the earlier one."""

    serial: int
    event: Event
    other: Event
    other_lane: int
    lane: int
    address: int
    space: str
    size: int
    registers: Registers | None = None
    """The registers before the instruction, if the race is the first deferred one of its key."""

    def kept(self, lane: int | None) -> Registers | None:
        """Return the registers that were kept when the race was deferred; `lane` is the lane of the race."""
        return self.registers

    @property
    def between(self) -> str:
        """The innermost scope that contains both accesses."""
        one, other = self.event.wave, self.other.wave
        return KERNELS if other.launch is not one.launch else WAVES if other.group == one.group else GROUPS

    @property
    def key(self) -> tuple[object, ...]:
        """The pair of instructions that race, with the scope, the space and the size of the race."""
        return self.event.site, self.other.site, self.between, self.space, self.size


@dataclass(slots=True, eq=False)
class Deferred:
    """The deferred races of one load instruction of a wave with one other instruction, by lane: see `value_flow`.

    `serial` is the number of the access that raced first."""

    serial: int
    flow: Flow
    lanes: dict[int, Race] = field(default_factory=dict)


def _defer(wave: WaveClock, race: Race, flow: Flow) -> bool:
    """Defer the race of a load until the wave uses the value; return False if the wave has too many deferred races."""
    known = wave.deferred.get(race.key)
    if known is None:
        if len(wave.deferred) >= DEFERRED:
            return False
        known = wave.deferred[race.key] = Deferred(race.serial, flow)
    race.serial = known.serial
    known.lanes.setdefault(race.lane, race)
    return True


def _take_deferred(wave: WaveClock, pc: int, lanes: set[int]) -> list[Race]:
    """Remove and return the deferred races whose values the instruction at `pc` uses when `lanes` execute it."""
    found = list[Race]()
    for each in wave.deferred.values():
        crosses = each.flow.stores.get(pc)
        if crosses is not None:
            found += [each.lanes.pop(lane) for lane in sorted(each.lanes) if crosses or lane in lanes]
    if not any(each.lanes for each in wave.deferred.values()):
        wave.deferred.clear()
    return found


class EventDetector:
    """The race detector for waves on the reference engine.

    With `equal_stores`, conflicting stores that leave memory unchanged are reported as races as well. `flows` are the
    flows of the running kernel's loads.
    """

    def __init__(self, launches: Launches, reporter: Reporter, flows: ValueFlows, *, equal_stores: bool) -> None:
        self.launches = launches
        self.reporter = reporter
        self.flows = flows
        self.equal_stores = equal_stores
        self.group = GroupClock(1)
        self._cells: dict[str, Cells] = {"global": Cells(), "gds": Cells()}
        self._events: list[Event | None] = [None]
        self._known: dict[tuple[object, ...], int] = {}
        self._sites: dict[tuple[int, str], int] = {}
        self._serial = 0
        """The number of accesses so far."""
        self.capture: Capture | None = None
        """A function that returns the registers before the present instruction; the observer of the waves sets it."""
        self._kept: set[tuple[object, ...]] = set()
        """The keys of deferred races of which one has registers."""
        self._atomics = ReleasedClocks()
        """The clocks that atomics of the present work-group have released to it, of waves of the work-group only."""
        self._published = ReleasedClocks()
        """The clocks that atomics have released to other work-groups."""
        self._write_backs = WriteBacks()
        self._uid = 0
        self._firsts: list[int] = []
        self._launches: list[Launch] = []
        """The launches, in order; `_firsts` has the number of the first wave of each launch."""
        self.clocks = LaunchClocks(launches, self._launch_of)

    @property
    def is_full(self) -> bool:
        """True if all event numbers are used. A launch that needs another number fails."""
        return len(self._events) > EVENTS

    def forget(self) -> None:
        """Forget all accesses, since they happened before everything that runs next.

        Keep shadow cells of launches that the host has not waited for.
        """
        self._atomics.clear()
        self._published.clear()
        self._write_backs.forget()
        self._firsts.clear()
        self._launches.clear()
        self.clocks.forget()
        if self.launches.unseen and not self.is_full:
            return
        for cells in self._cells.values():
            cells.clear()
        self._events = [None]
        self._known.clear()

    def paused(self) -> Callable[[], None]:
        """Save the detector's state of the current work-group; return the function that restores it.

        This is used if a work-group is interrupted while another kernel runs. The caller calls the returned function
        when the work-group continues."""
        group, cells = self.group, self._cells.get("LDS")
        restored = self._atomics.restorer(), self._published.restorer("LDS")

        def go_on() -> None:
            self.group = group
            if cells is not None:
                self._cells["LDS"] = cells
            for restore in restored:
                restore()

        return go_on

    def begin_group(self) -> None:
        """Begin a work-group, with new shadow cells for LDS."""
        self.group = GroupClock(self._uid + 1)
        self._cells["LDS"] = Cells()
        self._atomics.clear()
        self._published.clear("LDS")

    def wave(self, address: int, number: int, group: tuple[int, int, int]) -> WaveClock:
        """Return the clock of the wave whose state is at host address `address`."""
        found = self.group.waves.get(address)
        if found is None:
            self._uid += 1
            present = self.launches.present
            if not self._launches or self._launches[-1] is not present:
                self._firsts.append(self._uid)
                self._launches.append(present)
            found = self.group.waves[address] = WaveClock(self._uid, number, group, present)
            found.known.update(self.clocks.first(present))
        return found

    def _launch_of(self, uid: int) -> Launch:
        return self._launches[bisect_right(self._firsts, uid) - 1]

    def leave(self, wave: WaveClock) -> None:
        """Let a wave pass the barriers that it has reached."""
        self.group.leave(wave)

    def arrive(self, wave: WaveClock) -> None:
        """Record that a wave reached a barrier."""
        self.group.arrive(wave)

    def end(self, wave: WaveClock) -> None:
        """Record that a wave ended."""
        self.group.end(wave)

    def waited(self, wave: WaveClock) -> None:
        """Record that a wave has waited for its stores."""
        wave.is_waited = True

    def acquire(self, wave: WaveClock) -> None:
        """Record that a wave invalidated its cache."""
        self.clocks.relied_on(wave.acquiring.values())
        wave.acquire()

    def write_back(self, wave: WaveClock) -> None:
        """Record that a wave has begun to write its second-level cache back."""
        covered = {**self.group.own(wave.known), wave.uid: wave.epoch}
        self._write_backs.add(wave.uid, wave.epoch, covered)
        wave.wrote_back()

    def read_by_packet(self, queue: int, index: int, address: int, size: int) -> int:
        """Record that a packet has read these bytes; see `LaunchClocks.read_by_packet`."""
        places: Places = np.arange(address, address + size, dtype=np.uint64)
        clocks = [each.released for each in self._stores_at("global", places)]
        clocks += self._published.at("global", places.tolist())
        return self.clocks.read_by_packet(queue, index, clocks)

    # ---- accesses ------------------------------------------------------------------------------------------------
    def check_access(
        self,
        wave: WaveClock,
        insn: Insn,
        access: str,
        space: str,
        addresses: Places,
        size: int,
        lanes: Indices | None,
        same: Callable[[], Flags] | None = None,
        *,
        is_single: bool = True,
    ) -> None:
        """Check accesses of `size` bytes at each address, and record them.

        `lanes` are the lanes that make the accesses; None if the wave as a whole makes them. `same()` returns, for
        each address, a flag that is true if the store leaves memory unchanged. `is_single` is True if only one lane
        is active."""
        self._serial += 1
        is_coherent = access == LOAD and is_coherent_load(insn)
        stores = access == ATOMIC or (access == STORE and space == "global")
        releases = stores and wave.stores(is_ordered=space == "LDS")
        number = self._event(wave, insn, access, is_coherent, is_single)
        event = self._events[number]
        assert event is not None
        if releases:
            event.clock = event.published = event.released = wave.released_with(event.epoch)
        if stores and space != "LDS" and insn.target.has_xccs:
            self._publish(event, space, is_plain=access == STORE and not stores_through(insn))
        if stores and space == "global" and not releases and (access == ATOMIC or is_scoped_store(insn)):
            event.clock = wave.ordered_with(event.epoch)
        own = np.zeros(len(addresses), np.int64) if lanes is None else lanes
        mine = (number << LANE_BITS | own).astype(np.uint32)
        if access == ATOMIC or is_coherent or event.is_in_group:
            self._acquire(event, space, addresses)
        offsets: Places = np.arange(size, dtype=np.uint64)
        flat: Places = (addresses[:, None] + offsets).reshape(-1)
        owner, every = np.repeat(np.arange(len(addresses)), size), np.repeat(mine, size)
        if access != LOAD and wave.deferred:
            self._report(_take_deferred(wave, insn.pc, set(own.tolist())))
        others = self._first_conflict(event, space, flat, owner, same)
        if others.any():
            races = self._races(event, others, space, addresses, size, owner, own)
            flow = self.flows.of(insn.pc) if access == LOAD else ESCAPING
            counting = [race for race in races if flow.escapes or not self._defer_with_registers(wave, race, flow)]
            self._report(counting, self.capture)
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
            if self.is_full:
                raise over_limit("launches", f"{EVENTS} different accesses (counted by wave and pc)")
            number = self._known[key] = len(self._events)
            site = self._sites.setdefault((insn.pc, access), len(self._sites))
            clock = wave.released()
            is_in_group = access == LOAD and is_group_load(insn)
            flags = is_coherent, is_in_group, is_single
            event = Event(wave, wave.epoch, insn, site, access, *flags, clock, clock, clock)
            self._events.append(event)
        return number

    def _publish(self, event: Event, space: str, *, is_plain: bool) -> None:
        """Set the clock that a store or an atomic releases to other work-groups.

        `is_plain` is True for a store that needs a write-back."""
        wave = event.wave
        stored = None if is_plain else wave.stored
        clock = event.published if event.published is event.clock else wave.released()
        event.published = self._write_backs.visible(wave.uid, clock, self.group.own(clock), stored)
        if is_plain and space == "global":
            wave.stored = event.epoch

    def _last(self, event: Event, known: Numbers, marks: Numbers) -> Numbers:
        """Return, for each shadow cell, the load that it will hold when the load `event` has been recorded.

        `known` are the loads that the cells hold now. `marks` are the words for `event`, in the same form.
        `native_check.later` describes the choice between the two."""
        found, numbers = marks.copy(), known >> LANE_BITS
        for number in np.unique(numbers).tolist():
            other = self._events[number]
            if other is None:
                continue
            stays = numbers == number
            if other.wave is event.wave and other.epoch == event.epoch:
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
        """Join the clocks released by the stores and atomics whose values an access has read.

        An atomic also adds the clock of its wave to the clocks that are released to the word."""
        wave, places = event.wave, np.unique(addresses).tolist()
        published, own = (
            self._released_at(space, addresses) if event.access == LOAD or returns(event.insn) else ([], [])
        )
        if event.access == ATOMIC:
            to_own = self.group.own(event.clock)
            for place in places:
                self._atomics.join(space, place, to_own)
                self._published.join(space, place, event.published)
            if not returns(event.insn):
                return
        if not event.is_in_group:
            wave.reads(published)
            if space == "global":
                self.launches.present.has_acquired = True
            if space != "LDS":
                self.clocks.acquired(published)
        if space == "LDS" or event.is_in_group or len(places) <= FEW:  # the caches are the work-group's own
            for clock in own:
                wave.learn(clock)
        else:
            wave.reads(own)

    def _released_at(self, space: str, addresses: Places) -> tuple[list[Clock], list[Clock]]:
        """Return the clocks that the last stores and atomics to these addresses have released.

        The first list has the clocks for other work-groups; the second one has what waves of the present work-group
        have released to it."""
        found = self._stores_at(space, addresses)
        places = np.unique(addresses).tolist()
        published = [each.published for each in found]
        own = [self.group.own(each.clock) for each in found if each.wave.uid >= self.group.first]
        published += self._published.at(space, places)
        own += self._atomics.at(space, places)
        return published, own

    def _stores_at(self, space: str, addresses: Places) -> list[Event]:
        """Return the last stores to these addresses, without those of launches that have ended."""
        stores = np.concatenate([cells[STORED][at] for cells, at, _ in self._cells[space].parts(addresses)])
        events = [self._events[number] for number in np.unique(stores >> LANE_BITS).tolist()]
        return [each for each in events if each is not None and not self.launches.is_over(each.wave.launch)]

    def _free(self, event: Event, cells: Numbers) -> Flags:
        """Return a mask of the cells that are empty, or whose recorded access happened before `event`."""
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
        if before.wave.launch is not event.wave.launch and self.launches.is_before(before.wave.launch):
            return True
        return event.wave.knows(before.wave.uid, before.epoch)

    def _first_conflict(
        self, event: Event, space: str, flat: Places, owner: Indices, same: Callable[[], Flags] | None
    ) -> Numbers:
        """Return, for each byte, the first recorded access that races with the event, or 0.

        An access races with the event if it conflicts with it and did not happen before it."""
        found = np.zeros(len(flat), np.uint32)
        for cells, at, chosen in self._cells[space].parts(flat):
            there = found[chosen]
            for row in AGAINST[event.access]:
                records = cells[row][at]
                if records.any():
                    who = owner[chosen]
                    for number in np.unique(records >> LANE_BITS).tolist():
                        other = self._events[number]
                        if other is None or other is event or self._ordered(other, event) or event.allows(other, space):
                            continue
                        here = (records >> LANE_BITS == number) & (there == 0)
                        if event.access == other.access == STORE and same is not None and not self.equal_stores:
                            here &= ~same()[who] if here.any() else here
                        there = np.where(here, records, there)
            found[chosen] = there
        boxes = self.reporter.mailboxes
        if space == "global" and boxes and found.any():
            found[(flat >= boxes.start) & (flat < boxes.stop)] = 0
        return found

    def _races(
        self,
        event: Event,
        others: Numbers,
        space: str,
        addresses: Places,
        size: int,
        owner: Indices,
        lanes: Indices,
    ) -> list[Race]:
        """Return the races of the event, one for each lane and each event in `others`, in the order of the bytes.

        `addresses`, `lanes` and `size` (for each address) describe the present access. `owner` has, for each byte,
        the index of its address."""
        numbers, made = others >> LANE_BITS, list[Race]()
        every, first = np.unique(numbers, return_index=True)
        for number in every[np.argsort(first)].tolist():
            other = self._events[number]
            if other is None:
                continue
            items, at = np.unique(owner[numbers == number], return_index=True)
            records = others[numbers == number][at]
            for item, record in zip(items.tolist(), records.tolist(), strict=True):
                place = int(lanes[item]), int(addresses[item])
                made.append(Race(self._serial, event, other, record & LANE_MASK, *place, space, size))
        return made

    def _defer_with_registers(self, wave: WaveClock, race: Race, flow: Flow) -> bool:
        """Defer the race of a load, as `_defer` does; keep the registers of the first one for the report."""
        if not _defer(wave, race, flow):
            return False
        if self.capture is not None and race.key not in self._kept:
            self._kept.add(race.key)
            race.registers = self.capture(None if is_scalar(race.event.insn) else race.lane)
        return True

    def _report(self, races: Sequence[Race], capture: Capture | None = None) -> None:
        """Report races; report the races of one access with one event together.

        `capture` returns the registers before the instruction; it is None for races that were deferred."""
        found: dict[tuple[int, int], list[Race]] = {}
        for race in races:
            found.setdefault((race.serial, id(race.other)), []).append(race)
        for some in found.values():
            first = some[0]
            lanes = () if is_scalar(first.event.insn) else tuple(race.lane for race in some)
            self.reporter.report(
                _racing_access(first.event, lanes),
                _racing_access(first.other, () if is_scalar(first.other.insn) else (first.other_lane,)),
                first.between, first.space, first.address, first.size, len(some),
                capture if first.registers is None else first.kept, WAS_DEFERRED,
            )  # fmt: skip

    # ---- the host ------------------------------------------------------------------------------------------------
    def host_conflicts(self, access: str, address: int, size: int) -> list[HostConflict]:
        """Return the kernel accesses that conflict with an access by the host, sorted by `HostConflict.order`.

        Only launches that the host has not waited for are considered."""
        touched, unseen = FirstAccesses(), self.launches.unseen
        for start in range(address, address + size, PIECE):
            addresses = np.arange(start, min(start + PIECE, address + size), dtype=np.uint64)
            for cells, at, chosen in self._cells["global"].parts(addresses):
                for row in AGAINST[LOAD if access == LOAD else STORE]:
                    records = cells[row][at].astype(np.int64)
                    for number in np.unique(records >> LANE_BITS).tolist():
                        event = self._events[number]
                        if event is not None and event.wave.launch.number in unseen:
                            places = np.flatnonzero(records >> LANE_BITS == number)
                            key = event.wave.launch.number * SITES + event.site
                            keys = np.full(len(places), key)
                            touched.add(row, keys, addresses[chosen][places].astype(np.int64), records[places])
            touched.end_piece()
        made = []
        for key, first in touched.found.items():
            event = self._events[first.record >> LANE_BITS]
            assert event is not None
            racing_access = _racing_access(event, () if is_scalar(event.insn) else (first.record & LANE_MASK,))
            is_word = event.access == STORE and self._is_word(event, first.address)
            place = first.address, first.size
            made.append(HostConflict(racing_access, key // SITES, *place, event.may_be_atomic, is_word))
        return sorted(made, key=HostConflict.order)

    def _is_word(self, event: Event, address: int) -> bool:
        """Return True if the instruction of a store has stored to no other word near `address`, in its launch."""
        word = address & -WORD_BYTES
        around = np.arange(max(word - WORD_REACH, 0), word + WORD_REACH, dtype=np.uint64)
        others = around[(around < word) | (around >= word + WORD_BYTES)]
        found = {
            int(each) for cells, at, _ in self._cells["global"].parts(others) for each in np.unique(cells[STORED][at])
        }
        events = [self._events[each >> LANE_BITS] for each in found]
        launch = event.wave.launch
        return not any(each is not None and each.site == event.site and each.wave.launch is launch for each in events)


def _racing_access(event: Event, lanes: tuple[int, ...]) -> RacingAccess:
    return RacingAccess(event.insn, event.access, event.wave.wave, event.wave.group, lanes, event.wave.launch)


def returns(insn: Insn) -> bool:
    """Return True if an atomic returns the old value to its wave. Only such an atomic can acquire."""
    return bool(insn.get("glc")) or "_rtn" in insn.op.name
