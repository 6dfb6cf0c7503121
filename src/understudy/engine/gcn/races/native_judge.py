"""Accesses of waves on the JIT engine, held against those before them by compiled code; what that leaves, is here.

That is: accesses that the reference engine makes for the JIT engine, what acquires and releases from one work-group to
another, and what is told in the end.
"""

from __future__ import annotations

import ctypes
import weakref
from collections import defaultdict
from collections.abc import Callable
from typing import Final, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from understudy.core.checks import RACES
from understudy.core.errors import BeyondModel, ModelBug
from understudy.core.words import U64
from understudy.engine.clocks import Clock, join
from understudy.engine.gcn.races import native_cells, native_keep, native_look, native_merge, native_order
from understudy.engine.gcn.races.cells import Flags, Places
from understudy.engine.gcn.races.codes import (
    BY_PYTHON,
    CLASH_BYTES,
    CLASHES,
    COHERENT,
    FIRST_UID,
    FREE,
    FULL,
    HINT_BYTES,
    HINTS,
    HINTS_AT,
    KNOWS_SAME,
    LANE_AT,
    LANE_MASK,
    NAMES,
    NUMBER_BITS,
    RELEASES,
    ROW_BYTES,
    ROWS,
    SITE_AT,
    SITES,
    SIZE_AT,
    SLOT_BYTES,
    SLOTS,
    SLOTS_AT,
    SPACE_AT,
    SPACES,
    STORED,
    TICK_AT,
    TICKS,
    TOLD_BYTES,
    UID_AT,
    UIDS,
    UPDATED,
    Group,
    Race,
    Slot,
    Told,
    WaveRow,
)
from understudy.engine.gcn.races.events import FEW, returns
from understudy.engine.gcn.races.launches import Launch, Launches
from understudy.engine.gcn.races.tables import Tables
from understudy.engine.gcn.races.telling import ATOMIC, GROUPS, KERNELS, LOAD, WAVES, Met, Party, Telling, is_scalar
from understudy.engine.gcn.races.touched import PIECE, Touched
from understudy.ir.native import Natives
from understudy.isa.gcn.insn import Insn
from understudy.isa.gcn.state import LANES, WORDS_AT

Ids = npt.NDArray[np.uint32]
"""Of work-groups: three numbers each, and what else there is."""
BETWEEN: Final = (WAVES, GROUPS, KERNELS)
ALL: Final = (1 << LANES) - 1
LOCAL: Final = SPACES.index("LDS")
MOST_KEPT: Final = 1024
"""Launches that are kept because the host has not waited for them."""
NATIVES: Final = Natives(
    native_look.look, native_look.look_ahead, native_look.look_scalar, native_look.open_access,
    native_look.stored_codes, native_order.start_races, native_order.leave_barrier, native_order.arrive,
    native_order.come, native_order.finish, native_order.over, native_order.go_on, native_cells.codes_of,
    native_cells.site_of, native_merge.merge, native_merge.forget, native_keep.put_back,
)  # fmt: skip
function: Final = NATIVES.function


class Learnt(NamedTuple):
    """What a wave has acquired by a tick of its own; `done` is what it had released by then."""

    tick: int
    done: int
    known: dict[int, int]


class NativeWave:
    """A wave of the JIT engine: `row` is what compiled code knows of it."""

    def __init__(self, group: NativeGroup, row: WaveRow) -> None:
        self.group = group
        self.row = row
        self.words = 0
        """Host address of the wave's own words."""
        self.address = ctypes.addressof(row)
        self.uid = row.uid
        self.learnt: list[Learnt] = []
        self.acquiring: dict[int, Clock] = {}
        """What it has read of others' releases, until it invalidates its cache."""
        self.table: npt.NDArray[np.uint64] = np.zeros(2, np.uint64)

    @property
    def tick(self) -> int:
        """The stretch between barriers and releases that it is in."""
        return self.row.tick

    @property
    def generation(self) -> int:
        """Barriers that it has come to."""
        return self.row.generation

    def at(self, tick: int) -> Learnt:
        """What it had learnt by a tick; `done` is that of the tick itself."""
        found = next((each for each in reversed(self.learnt) if each.tick <= tick), Learnt(0, 0, {}))
        return found if found.tick == tick else found._replace(done=tick - 2)


class GroupJudge(Protocol):
    """Who has the tables that work-groups of a thread are told of by."""

    race: Race

    def started(self, groups: Ids) -> tuple[int, npt.NDArray[np.uint64]]:
        """The number of the present launch, which is one of these groups, and which earlier ones are over before it."""


class Pending(Protocol):
    """Who knows what waves have touched, which is in no table yet."""

    def settle(self) -> None:
        """Have it be there."""

    def drop(self) -> None:
        """Forget it."""


class NativeGroup:
    """The work-group that a thread runs, and after it the next one: rows of its waves, for compiled code."""

    def __init__(
        self,
        judge: GroupJudge,
        groups: Ids,
        most_waves: int,
        private: tuple[int, int],
        fetch: Callable[[int], Insn],
    ) -> None:
        self.judge = judge
        self._groups = groups
        head = ctypes.sizeof(Group)
        self._room = np.zeros(head + most_waves * (ROW_BYTES + CLASHES * CLASH_BYTES), np.uint8)
        base = int(self._room.ctypes.data)
        at = base + head
        self.group = group = Group.from_address(base)
        self.address, group.race, group.rows = base, ctypes.addressof(judge.race), at
        group.low, group.high = private
        self.rows = [WaveRow.from_address(at + n * ROW_BYTES) for n in range(most_waves)]
        for n, row in enumerate(self.rows):
            row.group = base
            row.race = group.race
            row.hints, row.slots = (at + n * ROW_BYTES + offset for offset in (HINTS_AT, SLOTS_AT))
            row.clashes = at + most_waves * ROW_BYTES + n * CLASHES * CLASH_BYTES
            for name in ("look_ahead", "look_scalar", "go_on", "arrive", "finish"):
                setattr(row, name, NATIVES.address(name))
        self.fetch = fetch
        self.start = NATIVES.address(native_order.start_races.name)
        self.barriers: dict[int, dict[int, int]] = {}
        """What waves that have come to each barrier had acquired; likewise those that have ended."""
        self.ended: dict[int, int] = {}

    def begin(self) -> None:
        """They run once more: as the launch that has just begun."""
        self.forget_hints()
        self.group.launch, self._before = self.judge.started(self._groups)
        self.group.before, self.group.before_count = self._before.ctypes.data, len(self._before)

    def learns(self) -> None:
        """One of its waves knows more than barriers say."""
        self.group.knows = 1
        self.forget_hints()
        for row in self.rows:
            row.is_alone = 0

    def forget_hints(self) -> None:
        """Accesses are not looked at in line before they were looked at once more."""
        for row in self.rows:
            ctypes.memset(row.hints, 0, HINTS * HINT_BYTES)

    def own(self, clock: Clock) -> Clock:
        """The part of a clock that is about this work-group."""
        first, end = self.group.first, self.group.first + self.group.count
        return {uid: tick for uid, tick in clock.items() if first <= uid < end}


class NativeJudge:
    """Looks at the accesses of waves. `equal_stores`: stores that leave memory as it is are told of, too."""

    def __init__(self, launches: Launches, telling: Telling, *, equal_stores: bool) -> None:
        self.launches = launches
        self.telling = telling
        self.equal_stores = equal_stores
        self.tables = Tables()
        self.race = self.tables.race
        self.race.equal_stores, self.race.raises = equal_stores, telling.log.raises
        self.pending: Pending | None = None
        """Who knows more of who touched which byte."""
        self._launches: list[tuple[Launch, Ids]] = []
        self._groups: weakref.WeakValueDictionary[int, NativeGroup] = weakref.WeakValueDictionary()
        """By the host address of the row of each of its waves."""
        self._waves: dict[int, NativeWave] = {}
        self._learnt: dict[int, NativeWave] = {}
        """By number: waves that have learnt anything beside barriers."""
        self._bounds: dict[int, list[int]] = {}
        self._bounds_read = 0
        self._atomics: dict[str, dict[int, dict[int, int]]] = defaultdict(dict)
        """What atomics have released, by space and address."""
        self._fetch: Callable[[int], Insn]
        self._counts: list[int] = []
        """Of each pair of sites: what was told of."""
        self._insns: dict[int, Insn] = {}
        self._addresses = np.zeros(LANES, np.uint64)
        self._codes = np.zeros(LANES, np.uint64)

    def group(
        self, groups: Ids, most_waves: int, private: tuple[int, int], fetch: Callable[[int], Insn]
    ) -> NativeGroup:
        """What a thread's work-groups of a dispatch tell this by: rows for `most_waves`.

        `groups`: the ids of each, `private`: from where to where waves have private memory; `fetch` decodes code.
        """
        made = NativeGroup(self, groups, most_waves, private, fetch)
        self._groups.update((ctypes.addressof(row), made) for row in made.rows)
        return made

    # ---- launches ------------------------------------------------------------------------------------------------
    def started(self, groups: Ids) -> tuple[int, npt.NDArray[np.uint64]]:
        """The number of the present launch, which is one of these groups, and which earlier ones are over before it."""
        present = self.launches.present
        self.settle()
        known = [launch for launch, _ in self._launches]
        before = np.array([self.launches.is_before(each) for each in known], np.uint64)
        if present not in known:
            self._launches.append((present, groups))
            return len(known), before
        return known.index(present), before

    def forget(self) -> None:
        """Whatever ran so far is over before what runs next."""
        race = self.race
        if self.pending is not None and not self.launches.unseen:
            self.pending.drop()
        self.settle()
        for found in (self._waves, self._learnt, self._bounds, self._atomics):
            found.clear()
        if race.told_count:  # and told of, when their launches were over
            self.tables.forget_told()
            self._counts.clear()
        race.bound_count = self._bounds_read = 0
        is_full = self.tables.is_large or race.next_uid > UIDS // 2
        if is_full or not self.launches.unseen or len(self._launches) > MOST_KEPT:
            self._launches.clear()
            race.range_count = race.group_count = 0
        if is_full:
            self.tables.forget_cells()
            race.next_uid = FIRST_UID
        race.over_count = race.range_count
        race.floor = race.next_uid

    def settle(self) -> None:
        """Know what others do."""
        if self.pending is not None:
            self.pending.settle()

    # ---- what orders waves ---------------------------------------------------------------------------------------
    def wave(self, address: int, state: int) -> NativeWave:
        """A wave by the host address of its row; its block lies at `state`."""
        found = self._waves.get(address)
        row = WaveRow.from_address(address) if found is None else found.row
        if found is None or found.uid != row.uid:
            group = self._groups[address]
            found = self._waves[address] = NativeWave(group, row)
            if row.uid == group.group.first:
                group.barriers, group.ended = {}, {}
                self._atomics[SPACES[LOCAL]].clear()
            found.words = state + WORDS_AT
        return found

    def leave(self, wave: NativeWave) -> None:
        """The barrier that a wave has come to is open."""
        row = wave.row
        if row.passed != row.generation:
            function("leave_barrier")(wave.address)
            self.learn(wave, wave.group.barriers.get(row.generation, {}))

    def arrive(self, wave: NativeWave) -> None:
        """A wave has come to a barrier."""
        function("come")(wave.address)
        group = wave.group
        opens = group.barriers.setdefault(wave.row.generation, {})
        join(opens, group.ended)
        if wave.learnt:
            join(opens, wave.learnt[-1].known)

    def end(self, wave: NativeWave) -> None:
        """A wave has ended."""
        function("over")(wave.address)
        if wave.learnt:
            known = wave.learnt[-1].known
            join(wave.group.ended, known)
            for generation, opens in wave.group.barriers.items():
                if generation > wave.row.generation:
                    join(opens, known)

    def waited(self, wave: NativeWave) -> None:
        """A wave has waited for its stores."""
        wave.row.is_waited = 1

    def acquire(self, wave: NativeWave) -> None:
        """A wave has invalidated its cache."""
        waiting, wave.acquiring = wave.acquiring, {}
        for clock in waiting.values():
            self.learn(wave, clock)

    def learn(self, wave: NativeWave, clock: Clock) -> None:
        """What a clock says came before, came before what this wave does from now on."""
        row = wave.row
        known = dict(wave.learnt[-1].known) if wave.learnt else {}
        first, end = wave.group.group.first, wave.group.group.first + wave.group.group.count
        is_new = False
        for uid, tick in clock.items():
            if uid == wave.uid or uid < self.race.floor or (first <= uid < end and tick <= row.bound):
                continue
            if known.get(uid, 0) < tick:
                known[uid] = tick
                is_new = True
        if not is_new:
            return
        done = wave.at(row.tick).done
        row.tick += 1
        row.stamp = row.uid << UID_AT | row.tick << TICK_AT
        wave.learnt.append(Learnt(row.tick, done, known))
        self._learnt[wave.uid] = wave
        wave.table = np.array(sorted(known.items()), np.uint64)
        row.known, row.known_count = wave.table.ctypes.data, len(known)
        wave.group.learns()

    def released(self, access: int) -> Clock:
        """What comes before whatever acquires from where an access was made: see `WaveClock.released`."""
        uid, tick = access >> UID_AT, access >> TICK_AT & TICKS - 1
        wave = self._learnt.get(uid)
        learnt = Learnt(0, tick - 2, {}) if wave is None else wave.at(tick)
        clock = dict(learnt.known)
        bound = max((bound for bound in self._bounds_of(uid) if bound < tick), default=0)
        if bound:
            join(clock, dict.fromkeys(self._group_of(uid), bound))
        clock.pop(uid, None)
        done = tick if access & RELEASES else learnt.done
        if done:
            clock[uid] = done
        return clock

    def _bounds_of(self, uid: int) -> list[int]:
        """Up to which ticks of its group a wave has known, barrier by barrier."""
        count = self.race.bound_count
        for each, bound in self.tables.pairs("bounds", count)[self._bounds_read :].tolist():
            self._bounds.setdefault(each, []).append(bound)
        self._bounds_read = count
        return self._bounds.get(uid, [])

    def _group_of(self, uid: int) -> range:
        """The numbers of all waves of a wave's group."""
        firsts = self._firsts()
        at = int(np.searchsorted(firsts, uid, side="right"))
        return range(int(firsts[at - 1]), int(firsts[at]) if at < len(firsts) else self.race.next_uid)

    def _firsts(self) -> npt.NDArray[np.uint64]:
        return self.tables.pairs("groups", self.race.group_count)[:, 0]

    # ---- accesses ------------------------------------------------------------------------------------------------
    def look(
        self,
        wave: NativeWave,
        insn: Insn,
        access: str,
        space: str,
        addresses: Places,
        size: int,
        lanes: Places | None,
        same: Callable[[], Flags] | None = None,
        *,
        is_single: bool = True,
        number: int = 0,
    ) -> None:
        """Accesses of `size` bytes at each address, by those lanes (None: by the wave itself).

        `same` says of each address whether a store leaves memory there as it is; `is_single`: EXEC has one lane.
        `number`: of its instruction it is that access, from 1 on, of a strip that translated code has left; or 0.
        """
        is_coherent = access == LOAD and bool(insn.get("glc"))
        if access != LOAD and space == SPACES[LOCAL]:
            group = wave.group.group
            group.local_stores = max(group.local_stores, wave.row.passed + 1)
        what = NAMES.index(access) | SPACES.index(space) << SPACE_AT | COHERENT * is_coherent | size << SIZE_AT
        found = self._begun(wave, insn, number)
        if found is None:
            begun, looked = function("open_access")(wave.address, insn.pc, what, is_single), 0
            self.race.serial += SLOTS
            serial = self.race.serial
        else:
            begun, looked, serial = found
        if access == ATOMIC or is_coherent:
            self._acquire(wave, insn, begun, space, addresses, access)
        at = np.zeros(len(addresses), np.int64) if lanes is None else lanes
        left = at[(np.uint64(looked) >> at.astype(np.uint64) & np.uint64(1)) == 0]
        self._addresses[at] = addresses.astype(np.uint64)
        stays = 0 if same is None or self.equal_stores else _bits(at[same()])
        where = serial, self._addresses.ctypes.data, _bits(left), stays, BY_PYTHON | KNOWS_SAME
        if function("look")(wave.address, wave.words, what, begun, *where) and not self.race.full:
            raise ModelBug("compiled code leaves to Python what Python looks at")
        self.check()
        if self.race.raises:
            self.tell(lambda pc: insn if pc == insn.pc else wave.group.fetch(pc))

    def check(self) -> None:
        """A `BeyondModel` where there is no more room."""
        if self.race.full:
            raise BeyondModel(f"check {RACES!r} of launches with more than {FULL[self.race.full]}")

    def _begun(self, wave: NativeWave, insn: Insn, number: int) -> tuple[int, int, int] | None:
        """What translated code has begun of an access: its code, the lanes it has looked at, and its serial number."""
        row, key = wave.row, insn.pc << NUMBER_BITS | number
        for each in range(SLOTS) if number and row.open else ():
            if row.open >> each & 1:
                slot = Slot.from_address(row.slots + each * SLOT_BYTES)
                if slot.key == key:
                    return slot.code, slot.looked, slot.serial
                if slot.key >> NUMBER_BITS == insn.pc and slot.key > key:  # lanes have had this one all before that
                    return slot.code, ALL, slot.serial
        return None

    def _acquire(self, wave: NativeWave, insn: Insn, access: int, space: str, addresses: Places, kind: str) -> None:
        """What the words that are read have released; atomics hand it on with their own."""
        count = len(addresses)
        self._addresses[:count] = addresses.astype(np.uint64)
        place = self._addresses.ctypes.data, count, self._codes.ctypes.data
        function("stored_codes")(ctypes.addressof(self.race), SPACES.index(space), *place)
        group = wave.group.group
        first, end = (group.first, group.first + group.count) if space == SPACES[LOCAL] else (self.race.floor, UIDS)
        found = {each >> SITE_AT << SITE_AT | each & RELEASES for each in self._codes[:count].tolist()}
        clocks = [self.released(each) for each in sorted(found) if first <= each >> UID_AT < end]
        places, atomics = np.unique(addresses).tolist(), self._atomics[space]
        clocks += [atomics[place] for place in places if place in atomics]
        if kind == ATOMIC:
            own = self.released(access)
            for each in places:
                join(atomics.setdefault(each, {}), own)
            if not returns(insn):
                return
        wave.acquiring.update((id(clock), clock) for clock in clocks)
        if space == SPACES[LOCAL] or len(places) <= FEW:  # the caches are the work-group's own
            for clock in clocks:
                self.learn(wave, wave.group.own(clock))

    # ---- the host ------------------------------------------------------------------------------------------------
    def met(self, access: str, address: int, size: int) -> list[Met]:
        """What launches that the host has not waited for have done to bytes that it accesses, in their order."""
        self.settle()
        numbers = np.array([each.number for each, _ in self._launches], np.int64)
        ranges = self.tables.pairs("ranges", self.race.range_count)
        launches = numbers[ranges[:, 1].astype(np.int64)]
        unseen = np.isin(launches, list(self.launches.unseen))
        room, touched, at = np.zeros(PIECE, np.uint64), Touched(), address
        while at < address + size and unseen.any():
            count = min(address + size, (at | PIECE - 1) + 1) - at
            for row in (STORED, UPDATED) if access == LOAD else range(ROWS):
                if not function("codes_of")(ctypes.addressof(self.race), at, count, row, room.ctypes.data):
                    break
                which = np.searchsorted(ranges[:, 0], room[:count] >> np.uint64(UID_AT), side="right") - 1
                places = np.flatnonzero((which >= 0) & unseen[which])
                codes = room[places].view(np.int64)
                keys = launches[which[places]] << SITES.bit_length() | codes >> SITE_AT & SITES - 1
                touched.add(row, keys, at + places, codes)
            touched.end_piece()
            at += count
        made = []
        for key, first in touched.found.items():
            code = first.code & U64
            is_atomic = first.row == UPDATED or code & FREE != 0
            party = self._party(code, self._fetch)
            made.append(Met(party, key >> SITES.bit_length(), first.address, first.size, is_atomic))
        return sorted(made, key=Met.order)

    # ---- telling -------------------------------------------------------------------------------------------------
    def tell(self, fetch: Callable[[int], Insn]) -> None:
        """Tell of what was found since; `fetch` decodes an instruction."""
        self._fetch = fetch
        rows = (Told.from_address(self.race.told + number * TOLD_BYTES) for number in range(self.race.told_count))
        self._counts += [0] * (self.race.told_count - len(self._counts))
        for number, told in sorted(
            enumerate(rows), key=lambda row: (row[1].serial, row[1].code >> LANE_AT & LANE_MASK)
        ):
            count = told.count - self._counts[number]
            if count:
                self._counts[number] = told.count
                size, space = told.what >> SIZE_AT, SPACES[told.what >> SPACE_AT & 3]
                lanes = tuple(lane for lane in range(LANES) if told.lanes >> lane & 1)
                one, other = self._party(told.code, fetch, lanes), self._party(told.other, fetch)
                self.telling.tell(one, other, BETWEEN[told.between], space, told.address, size, count)

    def _party(self, access: int, fetch: Callable[[int], Insn], lanes: tuple[int, ...] | None = None) -> Party:
        uid, site = access >> UID_AT, access >> SITE_AT & SITES - 1
        pc, kind = self.tables.site(site)
        if site not in self._insns:
            self._insns[site] = fetch(pc)
        insn = self._insns[site]
        at = int(np.searchsorted(self._firsts(), uid, side="right")) - 1
        first, number = self.tables.pairs("groups", self.race.group_count)[at].tolist()
        ranges = self.tables.pairs("ranges", self.race.range_count)
        launch = int(ranges[int(np.searchsorted(ranges[:, 0], uid, side="right")) - 1, 1])
        x, y, z = self._launches[launch][1][number].tolist()[:3]
        if lanes is None:
            lanes = (access >> LANE_AT & LANE_MASK,)
        return Party(insn, NAMES[kind], uid - first, (x, y, z), () if is_scalar(insn) else lanes)


def _bits(lanes: Places) -> int:
    """A mask of lanes."""
    return int(np.bitwise_or.reduce(np.uint64(1) << lanes.astype(np.uint64), initial=np.uint64(0)))
