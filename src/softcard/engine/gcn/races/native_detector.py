"""The Python part of the JIT engine's race detector; the rest is compiled code.

It handles accesses that the reference engine makes for the JIT engine, acquires and releases between work-groups, and
race reports.
"""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from softcard.core.errors import ModelBug
from softcard.core.space import host_address
from softcard.core.words import U64
from softcard.engine.gcn.hooks import ATOMIC, LOAD, STORE
from softcard.engine.gcn.launches import Launch, Launches
from softcard.engine.gcn.races import (
    native_cells,
    native_check,
    native_merge,
    native_order,
    native_reports,
)
from softcard.engine.gcn.races.clocks import LaunchClocks, ReleasedClocks, WriteBacks
from softcard.engine.gcn.races.events import FEW, Flags, Indices, Places, returns
from softcard.engine.gcn.races.layout import (
    BY_PYTHON,
    CACHE_BYTES,
    CACHES,
    CACHES_AT,
    COHERENT,
    CONFLICT_BYTES,
    CONFLICTS,
    DEFERRED_BYTES,
    EPOCH_AT,
    EPOCHS,
    FIRST_UID,
    FREE,
    FULL,
    IN_GROUP,
    KNOWS_FLOW,
    KNOWS_SAME,
    LANE_AT,
    LANE_MASK,
    LEAST,
    NAMES,
    NUMBER_BITS,
    RELEASES,
    REPORT_BYTES,
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
    UID_AT,
    UIDS,
    UPDATED,
    Group,
    Race,
    RaceReport,
    Slot,
    WaveRow,
)
from softcard.engine.gcn.races.reporter import (
    GROUPS,
    KERNELS,
    WAVES,
    WORD_BYTES,
    WORD_REACH,
    HostConflict,
    RacingAccess,
    Reporter,
    is_scalar,
)
from softcard.engine.gcn.races.tables import Tables
from softcard.engine.gcn.races.value_flow import DEFERRED, ValueFlows
from softcard.engine.races.clocks import Clock, join
from softcard.engine.races.findings import PIECE, FirstAccesses
from softcard.engine.races.tables import check_limits
from softcard.ir.native import Natives
from softcard.isa.gcn.coherence import is_coherent_load, is_group_load, is_scoped_store, stores_through
from softcard.isa.gcn.insn import Insn
from softcard.isa.gcn.state import LANES, WORDS_AT

Ids = npt.NDArray[np.uint32]
"""The type of an array with a row for each work-group: three coordinates and possibly more columns."""
BETWEEN: Final = (WAVES, GROUPS, KERNELS)
ALL: Final = (1 << LANES) - 1
LOCAL: Final = SPACES.index("LDS")
MOST_REMEMBERED: Final = 1024
"""The maximum number of launches whose accesses are retained because the host has not waited for them."""
NATIVES: Final = Natives(
    native_check.check_access, native_check.check_vector, native_check.check_scalar, native_check.open_access,
    native_check.stored_records, native_reports.note_uses, native_order.start_races, native_order.leave_barrier,
    native_order.arrive, native_order.come, native_order.finish, native_order.over, native_order.go_on,
    native_cells.records_of, native_cells.site_of, native_merge.merge, native_merge.forget, native_merge.forget_local,
    native_merge.put_back,
)  # fmt: skip
function: Final = NATIVES.function


class Learnt(NamedTuple):
    """The clock that a wave had acquired at epoch `epoch`.

    `known` has the epochs of other waves. `done` is the last epoch of the wave itself that it had released."""

    epoch: int
    done: int
    known: dict[int, int]


class NativeWave:
    """A wave of the JIT engine, as the race detector knows it. `row` is its `WaveRow` for compiled code."""

    def __init__(self, group: NativeGroup, row: WaveRow) -> None:
        self.group = group
        self.row = row
        self.words = 0
        """The host address of the wave's state words."""
        self.address = ctypes.addressof(row)
        self.uid = row.uid
        self.learnt: list[Learnt] = []
        self.acquiring: dict[int, Clock] = {}
        """The released clocks that the wave has read and joins when it invalidates its cache.

        After a barrier they include those that other waves of its work-group had read before.
        """
        self.recent: dict[int, Clock] = {}
        """The clocks in `acquiring` that the wave has read since its last barrier."""
        self.table: npt.NDArray[np.uint64] = np.zeros(2, np.uint64)

    @property
    def epoch(self) -> int:
        """The current epoch of the wave; a barrier or a release begins a new one."""
        return self.row.epoch

    @property
    def is_waited(self) -> bool:
        """True if the wave has waited for its stores."""
        return bool(self.row.is_waited)

    @property
    def generation(self) -> int:
        """The number of barriers that the wave has reached."""
        return self.row.generation

    def at(self, epoch: int) -> Learnt:
        """Return the clock that the wave had acquired at the epoch `epoch`.

        If no clock was recorded for exactly this epoch, `done` of the result is derived from `epoch`."""
        found = next((each for each in reversed(self.learnt) if each.epoch <= epoch), Learnt(0, 0, {}))
        return found if found.epoch == epoch else found._replace(done=epoch - 2)


class GroupDetector(Protocol):
    """The interface of the race detector that the work-groups of a thread use."""

    race: Race

    def started(self, groups: Ids) -> tuple[int, npt.NDArray[np.uint64], npt.NDArray[np.uint64]]:
        """Return the index of the present launch, the states of earlier launches, and the initial clock of waves.

        `groups` has the coordinates of the launch's work-groups. The second result has, for each earlier launch, 1 if
        it ended before the present launch began, else 0. The third result has the form of `Group.inherited`."""


class Pending(Protocol):
    """An owner of accesses that are not in shadow memory yet, such as those of a speculative run."""

    def flush(self) -> None:
        """Flush the pending accesses to shadow memory."""

    def drop(self) -> None:
        """Discard the pending accesses."""


class NativeGroup:
    """The race detector's state of the work-group that a thread runs, for compiled code.

    The same object serves the thread's next work-group.
    """

    def __init__(
        self,
        detector: GroupDetector,
        groups: Ids,
        most_waves: int,
        private: tuple[int, int],
        fetch: Callable[[int], Insn],
    ) -> None:
        self.detector = detector
        self._groups = groups
        head = ctypes.sizeof(Group)
        conflicts, deferred = CONFLICTS * CONFLICT_BYTES, DEFERRED * DEFERRED_BYTES
        self._room = np.zeros(head + most_waves * (ROW_BYTES + conflicts + deferred), np.uint8)
        base = int(self._room.ctypes.data)
        at = base + head
        self.group = group = Group.from_address(base)
        self.address, group.race, group.rows = base, ctypes.addressof(detector.race), at
        group.low, group.high = private
        self.rows = [WaveRow.from_address(at + n * ROW_BYTES) for n in range(most_waves)]
        for n, row in enumerate(self.rows):
            row.group = base
            row.race = group.race
            row.caches, row.slots = (at + n * ROW_BYTES + offset for offset in (CACHES_AT, SLOTS_AT))
            row.conflicts = at + most_waves * ROW_BYTES + n * conflicts
            row.deferred = at + most_waves * (ROW_BYTES + conflicts) + n * deferred
            for name in ("check_vector", "check_scalar", "go_on", "arrive", "finish"):
                setattr(row, name, NATIVES.address(name))
        self.fetch = fetch
        self.start = NATIVES.address(native_order.start_races.name)
        self.barriers: dict[int, dict[int, int]] = {}
        """The joined clock of the waves that have reached a barrier, by the number of the barrier."""
        self.ended: dict[int, int] = {}
        self.read: dict[int, dict[int, Clock]] = {}
        """The released clocks that waves had read when they reached a barrier, by the number of the barrier."""
        self.present = 0
        """The number of the first wave of the work-group to which the clocks of this object belong."""
        self.read_last: dict[int, Clock] = {}
        """The released clocks that waves had read when they ended."""

    def begin(self) -> None:
        """Prepare the object for the work-groups of the launch that was just announced to the detector."""
        self.forget_caches()
        self.present = 0
        self.group.launch, self._before, self._inherited = self.detector.started(self._groups)
        self.group.before, self.group.before_count = self._before.ctypes.data, len(self._before)
        self.group.inherited, self.group.inherited_count = self._inherited.ctypes.data, len(self._inherited)

    def know(self, before: npt.NDArray[np.uint64]) -> None:
        """Record which of the earlier launches are now known to have ended before the present one."""
        self._before[:] |= before[: len(self._before)]

    def learns(self) -> None:
        """Record that more than barriers orders the work-group's waves with others.

        From then on, compiled code leaves questions of order to Python."""
        self.group.knows = 1
        self.forget_caches()
        for row in self.rows:
            row.is_alone = 0

    def reads(self, wave: NativeWave, clocks: Sequence[Clock]) -> None:
        """Record that a wave has read words to which these clocks were released.

        Python then handles barriers, because the other waves can acquire the clocks after a barrier."""
        found = {id(clock): clock for clock in clocks}
        wave.acquiring.update(found)
        wave.recent.update(found)
        if any(uid < self.group.first for clock in clocks for uid in clock):
            self.group.knows = 1

    def forget_caches(self) -> None:
        """Clear the inline shadow caches. The next access through each cache therefore takes the full check."""
        for row in self.rows:
            ctypes.memset(row.caches, 0, CACHES * CACHE_BYTES)

    def own(self, clock: Clock) -> Clock:
        """Return the components of a clock that belong to this work-group."""
        first, end = self.group.first, self.group.first + self.group.count
        return {uid: epoch for uid, epoch in clock.items() if first <= uid < end}


class NativeDetector:
    """The race detector for waves on the JIT engine.

    With `equal_stores`, conflicting stores that leave memory unchanged are reported as races as well. `flows` are the
    flows of the running kernel's loads.
    """

    def __init__(self, launches: Launches, reporter: Reporter, flows: ValueFlows, *, equal_stores: bool) -> None:
        self.launches = launches
        self.reporter = reporter
        self.flows = flows
        self.equal_stores = equal_stores
        self.tables = Tables()
        self.race = self.tables.race
        self.race.equal_stores, self.race.raises = equal_stores, reporter.log.raises
        self._race_address = ctypes.addressof(self.race)
        self.set_flows()
        self.pending: Pending | None = None
        """The owner of accesses that are not in shadow memory yet; None if there are no such accesses."""
        self._launches: list[tuple[Launch, Ids]] = []
        self._groups: weakref.WeakValueDictionary[int, NativeGroup] = weakref.WeakValueDictionary()
        """The state of the running work-group, by the host address of the `WaveRow` of each of its waves."""
        self._waves: dict[int, NativeWave] = {}
        self._learnt: dict[int, NativeWave] = {}
        """The waves that are ordered by more than barriers, with their acquired clocks, by wave number."""
        self._bounds: dict[int, list[int]] = {}
        self._bounds_read = 0
        self._atomics = ReleasedClocks()
        """The clocks that atomics of the present work-group have released to it, of waves of the work-group only."""
        self._published = ReleasedClocks()
        """The clocks that atomics have released to other work-groups."""
        self._write_backs = WriteBacks()
        self._scoped: dict[int, int | None] = {}
        """The value of `WaveRow.stored` when a store with a scope was made, by access (`_release`).

        The value is None if the store itself needs a write-back.
        """
        self._fetch: Callable[[int], Insn]
        self._counts: list[int] = []
        """The number of races already reported for each pair of sites."""
        self._insns: dict[int, Insn] = {}
        self._addresses = np.zeros(LANES, np.uint64)
        self._records = np.zeros(LANES, np.uint64)
        self.clocks = LaunchClocks(launches, self._launch_of)

    def group(
        self, groups: Ids, most_waves: int, private: tuple[int, int], fetch: Callable[[int], Insn]
    ) -> NativeGroup:
        """Return the state that compiled code uses for the work-groups of one thread.

        `groups` has the coordinates of each work-group of the dispatch. A work-group has up to `most_waves` waves.
        `private` is the address range of the waves' private memory. `fetch` decodes the instruction at a pc.
        """
        made = NativeGroup(self, groups, most_waves, private, fetch)
        self._groups.update((ctypes.addressof(row), made) for row in made.rows)
        return made

    # ---- launches ------------------------------------------------------------------------------------------------
    def started(self, groups: Ids) -> tuple[int, npt.NDArray[np.uint64], npt.NDArray[np.uint64]]:
        """Return the index of the present launch, the states of earlier launches, and the initial clock of waves.

        `GroupDetector.started` describes the results."""
        present = self.launches.present
        self.flush()
        known = [launch for launch, _ in self._launches]
        before, inherited = self._before(), np.array(sorted(self.clocks.first(present).items()), np.uint64)
        if present not in known:
            self._launches.append((present, groups))
            return len(known), before, inherited
        return known.index(present), before, inherited

    def _before(self) -> npt.NDArray[np.uint64]:
        """Return, for each known launch, 1 if it ended before the present one began, else 0."""
        return np.array([self.launches.is_before(each) for each, _ in self._launches], np.uint64)

    def _launch_of(self, uid: int) -> Launch:
        ranges = self.tables.pairs("ranges", self.race.range_count)
        at = int(np.searchsorted(ranges[:, 0], uid, side="right")) - 1
        return self._launches[int(ranges[at, 1])][0]

    @property
    def is_full(self) -> bool:
        """True if a launch failed because a table overflowed, so that the tables are incomplete."""
        return bool(self.race.full)

    def forget(self) -> None:
        """Forget everything recorded so far, because all of it happened before everything that runs next."""
        race, was_full = self.race, self.is_full
        if self.pending is not None and (was_full or not self.launches.unseen):
            self.pending.drop()
        self.flush()
        for found in (self._waves, self._learnt, self._bounds, self._atomics, self._published, self._scoped):
            found.clear()
        self._write_backs.forget()
        self.clocks.forget()
        if race.report_count:  # reported already, when their launches ended
            self.tables.forget_reports()
            self._counts.clear()
        race.bound_count = self._bounds_read = 0
        is_full = was_full or self.tables.is_large or race.next_uid > UIDS // 2
        if is_full or not self.launches.unseen or len(self._launches) > MOST_REMEMBERED:
            self._launches.clear()
            race.range_count = race.group_count = 0
        if is_full:
            self.tables.forget_cells()
            race.next_uid = FIRST_UID
        if was_full:
            self.tables.forget_sites()
            self._insns.clear()
            race.full = 0
        race.over_count = race.range_count
        race.watermark = race.next_uid

    def paused(self) -> Callable[[], None]:
        """Save the detector's state of the current work-group; return the function that restores it.

        This is used if a work-group is interrupted while another kernel runs. The caller calls the returned function
        when the work-group continues. That function clears the shadow cells of LDS, because the other kernel has
        overwritten them."""
        restored = self._atomics.restorer(), self._published.restorer(SPACES[LOCAL])

        def go_on() -> None:
            for restore in restored:
                restore()
            function("forget_local")(ctypes.addressof(self.race))

        return go_on

    def flush(self) -> None:
        """Flush pending accesses to shadow memory."""
        if self.pending is not None:
            self.pending.flush()

    # ---- what orders waves ---------------------------------------------------------------------------------------
    def wave(self, address: int, state: int) -> NativeWave:
        """Return the wave whose `WaveRow` is at host address `address` and whose state is at `state`."""
        found = self._waves.get(address)
        row = WaveRow.from_address(address) if found is None else found.row
        if found is None or found.uid != row.uid:
            group = self._groups[address]
            found = self._waves[address] = NativeWave(group, row)
            if group.present != group.group.first:
                group.present = group.group.first
                group.barriers, group.ended, group.read, group.read_last = {}, {}, {}, {}
                self._atomics.clear()
                self._published.clear(SPACES[LOCAL])
            found.words = state + WORDS_AT
        return found

    def leave(self, wave: NativeWave) -> None:
        """Let a wave pass the barrier that it has reached, and join the clocks of the waves that reached it."""
        row = wave.row
        if row.passed != row.generation:
            function("leave_barrier")(wave.address)
            self.learn(wave, wave.group.barriers.get(row.generation, {}))
            wave.acquiring.update(wave.group.read.get(row.generation, {}))

    def arrive(self, wave: NativeWave) -> None:
        """Record that a wave reached a barrier."""
        function("come")(wave.address)
        group = wave.group
        opens = group.barriers.setdefault(wave.row.generation, {})
        join(opens, group.ended)
        if wave.learnt:
            join(opens, wave.learnt[-1].known)
        group.read.setdefault(wave.row.generation, {}).update(wave.recent | group.read_last)
        wave.recent = {}

    def end(self, wave: NativeWave) -> None:
        """Record that a wave ended."""
        function("over")(wave.address)
        group, known = wave.group, wave.learnt[-1].known if wave.learnt else {}
        join(group.ended, known)
        group.read_last |= wave.recent
        for generation, opens in group.barriers.items():
            if generation > wave.row.generation:
                join(opens, known)
                group.read[generation] |= wave.recent

    def waited(self, wave: NativeWave) -> None:
        """Record that a wave has waited for its stores."""
        wave.row.is_waited = 1

    def acquire(self, wave: NativeWave) -> None:
        """Record that a wave invalidated its cache."""
        waiting, wave.acquiring, wave.recent = wave.acquiring, {}, {}
        if self.clocks.relied_on(waiting.values()):
            wave.group.know(self._before())
        for clock in waiting.values():
            self.learn(wave, clock)

    def write_back(self, wave: NativeWave) -> None:
        """Record that a wave has begun to write its second-level cache back. The write-back acquires no clock."""
        row = wave.row
        access = row.epoch_bits | RELEASES
        self._write_backs.add(wave.uid, row.epoch, wave.group.own(self.released(access)))
        self._next_epoch(wave, dict(wave.learnt[-1].known) if wave.learnt else {})
        row.is_waited = 0

    def _next_epoch(self, wave: NativeWave, known: dict[int, int]) -> None:
        """Begin the next epoch of a wave. From now on, `known` are the epochs that it has acquired."""
        row, done = wave.row, wave.at(wave.row.epoch).done
        row.epoch += 1
        row.epoch_bits = row.uid << UID_AT | row.epoch << EPOCH_AT
        wave.learnt.append(Learnt(row.epoch, done, known))
        self._learnt[wave.uid] = wave

    def learn(self, wave: NativeWave, clock: Clock) -> None:
        """Join `clock` to the clock of `wave`.

        The epochs in `clock` happened before everything that the wave does from now on."""
        row = wave.row
        known = dict(wave.learnt[-1].known) if wave.learnt else {}
        first, end = wave.group.group.first, wave.group.group.first + wave.group.group.count
        is_new = False
        for uid, epoch in clock.items():
            if uid == wave.uid or uid < self.race.watermark or (first <= uid < end and epoch <= row.bound):
                continue
            if known.get(uid, 0) < epoch:
                known[uid] = epoch
                is_new = True
        if not is_new:
            return
        self._next_epoch(wave, known)
        wave.table = np.array(sorted(known.items()), np.uint64)
        row.known, row.known_count = wave.table.ctypes.data, len(known)
        wave.group.learns()

    def released(self, access: int) -> Clock:
        """Return the clock that an access released; `access` is its access record.

        See `WaveClock.released`.
        """
        uid, epoch = access >> UID_AT, access >> EPOCH_AT & EPOCHS - 1
        wave = self._learnt.get(uid)
        learnt = Learnt(0, epoch - 2, {}) if wave is None else wave.at(epoch)
        clock = dict(learnt.known)
        if self.clocks.is_used:
            join(clock, self.clocks.first(self._launch_of(uid)))
        bound = max((bound for bound in self._bounds_of(uid) if bound < epoch), default=0)
        if bound:
            join(clock, dict.fromkeys(self._group_of(uid), bound))
        clock.pop(uid, None)
        done = epoch if access & RELEASES else learnt.done
        if done:
            clock[uid] = done
        return clock

    def _bounds_of(self, uid: int) -> list[int]:
        """Return, for each barrier of a wave, the epoch up to which the wave then knew all accesses of its
        work-group."""
        count = self.race.bound_count
        for each, bound in self.tables.pairs("bounds", count)[self._bounds_read :].tolist():
            self._bounds.setdefault(each, []).append(bound)
        self._bounds_read = count
        return self._bounds.get(uid, [])

    def _group_of(self, uid: int) -> range:
        """Return the numbers of all waves of a wave's work-group."""
        firsts = self._firsts()
        at = int(np.searchsorted(firsts, uid, side="right"))
        return range(int(firsts[at - 1]), int(firsts[at]) if at < len(firsts) else self.race.next_uid)

    def _firsts(self) -> npt.NDArray[np.uint64]:
        return self.tables.pairs("groups", self.race.group_count)[:, 0]

    # ---- accesses ------------------------------------------------------------------------------------------------
    def check_access(
        self,
        wave: NativeWave,
        insn: Insn,
        access: str,
        space: str,
        addresses: Places,
        size: int,
        lanes: Indices | None,
        same: Callable[[], Flags] | None = None,
        *,
        is_single: bool = True,
        number: int = 0,
    ) -> None:
        """Check accesses of `size` bytes at each address, and record them.

        `lanes` are the lanes that make the accesses; None if the wave as a whole makes them. `same()` returns, for
        each address, a flag that is true if the store leaves memory unchanged. `is_single` is True if only one lane
        is active. If translated code exited from a strip-mined loop, `number` is the number of the access in its
        instruction, from 1 on; otherwise it is 0."""
        is_coherent, is_in_group = access == LOAD and is_coherent_load(insn), access == LOAD and is_group_load(insn)
        if access != LOAD and space == SPACES[LOCAL]:
            group = wave.group.group
            group.local_stores = max(group.local_stores, wave.row.passed + 1)
        what = NAMES.index(access) | SPACES.index(space) << SPACE_AT | size << SIZE_AT
        what |= COHERENT * is_coherent | IN_GROUP * is_in_group
        found = self._begun(wave, insn, number)
        if found is None:
            stored = wave.row.stored
            begun, checked = function("open_access")(wave.address, insn.pc, what, is_single), 0
            is_scoped = access == STORE and space != SPACES[LOCAL] and is_scoped_store(insn)
            if is_scoped and stores_through(insn):
                wave.row.stored = self._scoped[_release(begun)] = stored
            elif is_scoped:
                self._scoped[_release(begun)] = None
            if not begun & RELEASES and space == "global" and (access == ATOMIC or is_scoped):
                self._next_epoch(wave, dict(wave.learnt[-1].known) if wave.learnt else {})
            self.race.serial += SLOTS
            serial = self.race.serial
        else:
            begun, checked, serial = found
        if access == ATOMIC or is_coherent or is_in_group:
            self._acquire(wave, insn, begun, space, addresses, access)
        at = np.zeros(len(addresses), np.int64) if lanes is None else lanes
        left = at[(np.uint64(checked) >> at.astype(np.uint64) & np.uint64(1)) == 0]
        self._addresses[at] = addresses
        stays = 0 if same is None or self.equal_stores else _bits(at[same()])
        where, flags = (serial, self._addresses.ctypes.data, _bits(left), stays), BY_PYTHON | KNOWS_SAME
        this = wave.address, wave.words, what, begun, *where
        if access != LOAD and wave.row.deferred_count:
            function("note_uses")(wave.address, self._race_address, insn.pc, serial, _bits(left), BY_PYTHON)
        leaves = function("check_access")(*this, flags)
        if leaves and access == LOAD and not self.race.full:
            self.flows.of(insn.pc)
            self.set_flows()
            leaves = function("check_access")(*this, flags | KNOWS_FLOW)
        if leaves and not self.race.full:
            raise ModelBug("the compiled race check returned an access that the Python code had passed to it")
        self.check()
        if self.race.raises:
            self.report(lambda pc: insn if pc == insn.pc else wave.group.fetch(pc))

    def set_flows(self) -> None:
        """Give compiled code the table of the running kernel's flows."""
        table = self.flows.table
        self.race.flows = 0 if table is None else host_address(table.rows)
        self.race.flow_count = 0 if table is None else table.count

    def check(self) -> None:
        """Raise `BeyondModel` if a table overflowed."""
        check_limits(self.race.full, FULL, "launches")

    def _begun(self, wave: NativeWave, insn: Insn, number: int) -> tuple[int, int, int] | None:
        """Return the access that translated code had begun when it took its side exit, or None if it had begun none.

        The result has the access record, the mask of lanes already checked, and the serial number."""
        row, key = wave.row, insn.pc << NUMBER_BITS | number
        for each in range(SLOTS) if number and row.open else ():
            if row.open >> each & 1:
                slot = Slot.from_address(row.slots + each * SLOT_BYTES)
                if slot.key == key:
                    return slot.record, slot.checked, slot.serial
                if slot.key >> NUMBER_BITS == insn.pc and slot.key > key:  # all lanes have made this access
                    return slot.record, ALL, slot.serial
        return None

    def _acquire(self, wave: NativeWave, insn: Insn, access: int, space: str, addresses: Places, kind: str) -> None:
        """Join the clocks released by the stores and atomics whose values an access has read.

        An atomic also adds the clock of its wave to the clocks that are released to the word."""
        count = len(addresses)
        self._addresses[:count] = addresses
        place = self._addresses.ctypes.data, count, self._records.ctypes.data
        function("stored_records")(ctypes.addressof(self.race), SPACES.index(space), *place)
        group = wave.group.group
        first, end = (group.first, group.first + group.count) if space == SPACES[LOCAL] else (self.race.watermark, UIDS)
        found = sorted({_release(each) for each in self._records[:count].tolist()})
        found = [each for each in found if first <= each >> UID_AT < end]
        places = np.unique(addresses).tolist()
        has_xccs = insn.target.has_xccs and space != SPACES[LOCAL]
        published, own = list[Clock](), list[Clock]()
        if kind == LOAD or returns(insn):
            published += [self._published_by(each, has_xccs) for each in found]
            published += self._published.at(space, places)
            own += [wave.group.own(self._ordered_by(each)) for each in found if each >> UID_AT >= group.first]
            own += self._atomics.at(space, places)
        if kind == ATOMIC:
            to_own = wave.group.own(self.released(access | RELEASES if space == "global" else access))
            to_others = self._published_by(access, has_xccs, wave.row.stored)
            for each in places:
                self._atomics.join(space, each, to_own)
                self._published.join(space, each, to_others)
            if not returns(insn):
                return
        is_in_group = kind == LOAD and is_group_load(insn)
        if not is_in_group:
            wave.group.reads(wave, published)
            if space == "global":
                self.launches.present.has_acquired = True
            if space != SPACES[LOCAL]:
                self.clocks.acquired(published)
        if space == SPACES[LOCAL] or is_in_group or len(places) <= FEW:  # the caches are the work-group's own
            for clock in own:
                self.learn(wave, clock)
        else:
            wave.group.reads(wave, own)

    def _ordered_by(self, access: int) -> Clock:
        """Return the clock that a store released to its own work-group; `access` is its access record."""
        return self.released(access | RELEASES if access in self._scoped else access)

    def _published_by(self, access: int, has_xccs: bool, stored: int | None = None) -> dict[int, int]:
        """Return the clock that an access released to other work-groups; see `WriteBacks.visible`.

        `access` is its access record. `has_xccs` is True for accesses to memory of an agent with several dies. For an
        atomic, `stored` is the epoch of the wave's last store before it."""
        clock, uid = dict(self.released(access)), access >> UID_AT
        if not has_xccs:
            return clock
        group = self._group_of(uid)
        own = {each: epoch for each, epoch in clock.items() if each in group}
        return self._write_backs.visible(uid, clock, own, self._scoped.get(access) if stored is None else stored)

    def read_by_packet(self, queue: int, index: int, address: int, size: int) -> int:
        """Record that a packet has read these bytes; see `LaunchClocks.read_by_packet`."""
        self.flush()
        self._addresses[:size] = np.arange(address, address + size, dtype=np.uint64)
        place = self._addresses.ctypes.data, size, self._records.ctypes.data
        function("stored_records")(ctypes.addressof(self.race), SPACES.index("global"), *place)
        found = {_release(each) for each in self._records[:size].tolist()}
        clocks = [self.released(each) for each in sorted(found) if each >> UID_AT >= self.race.watermark]
        clocks += self._published.at("global", range(address, address + size))
        return self.clocks.read_by_packet(queue, index, clocks)

    # ---- the host ------------------------------------------------------------------------------------------------
    def host_conflicts(self, access: str, address: int, size: int) -> list[HostConflict]:
        """Return the kernel accesses that conflict with an access by the host, sorted by `HostConflict.order`.

        Only launches that the host has not waited for are considered."""
        self.flush()
        numbers = np.array([each.number for each, _ in self._launches], np.int64)
        ranges = self.tables.pairs("ranges", self.race.range_count)
        launches = numbers[ranges[:, 1].astype(np.int64)]
        unseen = np.isin(launches, list(self.launches.unseen))
        room, touched, at = np.zeros(PIECE, np.uint64), FirstAccesses(), address
        while at < address + size and unseen.any():
            count = min(address + size, (at | PIECE - 1) + 1) - at
            for row in (STORED, UPDATED) if access == LOAD else range(ROWS):
                if not function("records_of")(ctypes.addressof(self.race), at, count, row, room.ctypes.data):
                    break
                which = np.searchsorted(ranges[:, 0], room[:count] >> np.uint64(UID_AT), side="right") - 1
                places = np.flatnonzero((which >= 0) & unseen[which])
                records = room[places].view(np.int64)
                keys = launches[which[places]] << SITES.bit_length() | records >> SITE_AT & SITES - 1
                touched.add(row, keys, at + places, records)
            touched.end_piece()
            at += count
        made = []
        for key, first in touched.found.items():
            record = first.record & U64
            is_atomic = first.row == UPDATED or record & FREE != 0
            racing_access = self._racing_access(record, self._fetch)
            is_word = racing_access.access == STORE and self._is_word(key, first.address, launches)
            place = first.address, first.size
            made.append(HostConflict(racing_access, key >> SITES.bit_length(), *place, is_atomic, is_word))
        return sorted(made, key=HostConflict.order)

    def _is_word(self, key: int, address: int, launches: npt.NDArray[np.int64]) -> bool:
        """Return True if the instruction of a store has stored to no other word near `address`, in its launch.

        `key` is the number of the launch and of the site; `launches` has the number of the launch of each range."""
        word, room = address & -WORD_BYTES, np.zeros(2 * WORD_REACH, np.uint64)
        at, start = max(word - WORD_REACH, 0), max(word - WORD_REACH, 0)
        while at < word + WORD_REACH:
            count = min(word + WORD_REACH, (at | PIECE - 1) + 1) - at
            place = room.ctypes.data + 8 * (at - start)
            function("records_of")(self._race_address, at, count, STORED, place)
            at += count
        room[word - start : word - start + WORD_BYTES] = 0
        ranges = self.tables.pairs("ranges", self.race.range_count)
        which = np.searchsorted(ranges[:, 0], room >> np.uint64(UID_AT), side="right") - 1
        sites = room.view(np.int64) >> SITE_AT & SITES - 1
        is_own = (room >= LEAST) & (sites == key & SITES - 1) & (launches[which] == key >> SITES.bit_length())
        return not is_own.any()

    # ---- reports -------------------------------------------------------------------------------------------------
    def report(self, fetch: Callable[[int], Insn]) -> None:
        """Report the races found since the last call; `fetch` decodes an instruction."""
        self._fetch = fetch
        rows = (
            RaceReport.from_address(self.race.reports + number * REPORT_BYTES)
            for number in range(self.race.report_count)
        )
        self._counts += [0] * (self.race.report_count - len(self._counts))
        for number, report in sorted(
            enumerate(rows), key=lambda row: (row[1].serial, row[1].begun, row[1].record >> LANE_AT & LANE_MASK)
        ):
            count = report.count - self._counts[number]
            if count:
                self._counts[number] = report.count
                size, space = report.what >> SIZE_AT, SPACES[report.what >> SPACE_AT & 3]
                lanes = tuple(lane for lane in range(LANES) if report.lanes >> lane & 1)
                one, other = self._racing_access(report.record, fetch, lanes), self._racing_access(report.other, fetch)
                self.reporter.report(one, other, BETWEEN[report.between], space, report.address, size, count)

    def _racing_access(
        self, access: int, fetch: Callable[[int], Insn], lanes: tuple[int, ...] | None = None
    ) -> RacingAccess:
        uid, site = access >> UID_AT, access >> SITE_AT & SITES - 1
        pc, kind = self.tables.site(site)
        if site not in self._insns:
            self._insns[site] = fetch(pc)
        insn = self._insns[site]
        at = int(np.searchsorted(self._firsts(), uid, side="right")) - 1
        first, number = self.tables.pairs("groups", self.race.group_count)[at].tolist()
        ranges = self.tables.pairs("ranges", self.race.range_count)
        launch = int(ranges[int(np.searchsorted(ranges[:, 0], uid, side="right")) - 1, 1])
        begun, groups = self._launches[launch]
        x, y, z = groups[number].tolist()[:3]
        if lanes is None:
            lanes = (access >> LANE_AT & LANE_MASK,)
        return RacingAccess(insn, NAMES[kind], uid - first, (x, y, z), () if is_scalar(insn) else lanes, begun)


def _release(record: int) -> int:
    """Return the key of the clock that an access released: its access record without the lane and `FREE`."""
    return record >> SITE_AT << SITE_AT | record & RELEASES


def _bits(lanes: Indices) -> int:
    """Return a bit mask of lanes."""
    return int(np.bitwise_or.reduce(np.uint64(1) << lanes.astype(np.uint64), initial=np.uint64(0)))
