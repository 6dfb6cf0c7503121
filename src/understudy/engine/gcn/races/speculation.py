"""Work-groups of a launch side by side under the check of races: as if they had run in their order, or not at all.

Each thread has tables of its own. Where these say that no two groups touched the same byte, one of them by a store, the
order of groups made no difference: the judge's tables become what they would be by now if these had run one after the
other. Otherwise whoever asked is to run them so, in memory as it was before.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from understudy.core.errors import NoHostMemory
from understudy.core.host_address import host_address
from understudy.core.space import Ram
from understudy.core.words import align_up
from understudy.engine.gcn.memory import ADDRESS_BITS, GpuMemory, Mapped
from understudy.engine.gcn.races.codes import NO_WAVES, PAGE_BITS, RANGES, ROWS, STORED, UID_AT, UIDS, Race, Saves
from understudy.engine.gcn.races.native_judge import Ids, NativeGroup, NativeJudge, function
from understudy.engine.gcn.races.native_merge import Merge
from understudy.engine.gcn.races.tables import CELLS, WORTH, Tables
from understudy.engine.gcn.races.touched import PIECE

if TYPE_CHECKING:
    from understudy.engine.gcn.marks.marking import Marking
    from understudy.isa.gcn.insn import Insn

PAGE: Final = 1 << PAGE_BITS
KEPT_BYTES: Final = 1 << 30
"""Room for memory as it was."""
LEAST_PAUSE: Final = 4
MOST_PAUSE: Final = 1024
"""Launches of a kernel that are not tried after one that failed: more from time to time."""


class Part:
    """What the work-groups that one thread runs have touched."""

    def __init__(self) -> None:
        self.tables = Tables(CELLS[1:])
        self.race = self.tables.race

    def group(
        self, groups: Ids, most_waves: int, private: tuple[int, int], fetch: Callable[[int], Insn]
    ) -> NativeGroup:
        """See `NativeJudge.group`."""
        return NativeGroup(self, groups, most_waves, private, fetch)

    def started(self, groups: Ids) -> tuple[int, npt.NDArray[np.uint64]]:
        """It knows of one launch alone."""
        return 0, np.zeros(0, np.uint64)

    def begin(self, judge: NativeJudge, first: int, saves: Saves) -> None:
        """Groups whose waves have numbers from `first` on run next; instructions have the judge's numbers."""
        race = self.race
        race.floor, race.saves, race.equal_stores = first, ctypes.addressof(saves), judge.race.equal_stores
        race.range_count = race.group_count = race.bound_count = race.serial = 0
        for number in range(race.site_count, judge.race.site_count):
            function("site_of")(ctypes.addressof(race), *judge.tables.site(number))

    def clear(self) -> None:
        """Nobody has touched anything; there is room for it still."""
        if self.tables.is_large:
            self.tables.forget_cells()
        else:
            function("forget")(ctypes.addressof(self.race))

    def is_clean(self, judge: NativeJudge) -> bool:
        """Whether nothing was met but what the judge's tables can hold as they are."""
        return not (self.race.told_count or self.race.full or self.race.site_count != judge.race.site_count)

    def forget(self) -> None:
        """Nobody has touched anything, and nothing was met."""
        self.tables.forget_cells()
        self.tables.forget_told()
        self.tables.forget_sites()
        self.race.full = 0


class Speculation:
    """Has groups of launches run side by side, for a judge of the waves that see a memory."""

    def __init__(self, judge: NativeJudge, memory: GpuMemory) -> None:
        self._judge = judge
        self._memory = memory
        self._parts: list[Part] = []
        self._present: list[Part] = []
        self._pauses: dict[int, tuple[int, int]] = {}
        """By the address of a kernel: launches that are not tried, and how many it will be next time."""
        self._saves = Saves()
        self._states = Ram(8 << ADDRESS_BITS - PAGE_BITS)
        self._pages = Ram(8 * (KEPT_BYTES >> PAGE_BITS))
        self._room = Ram(KEPT_BYTES)
        self._saves.states, self._saves.pages = self._states.base_host, self._pages.base_host
        self._saves.room = self._room.base_host
        self._memories: list[GpuMemory] = []
        self._tables: npt.NDArray[np.uint64] = np.zeros(0, np.uint64)
        self._there: list[Mapped] = []
        self._counts: list[tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint64]]] = []
        """What instructions that meet marks have counted, and what that was before."""
        self._launch = self._first = self._bits = 0
        self._these = range(0)
        self._merge = Merge()
        self._codes = np.zeros(2 * ROWS, np.uint64)

    def parts(self, count: int) -> list[Part]:
        """Those of so many threads, or as many as this process has addresses for."""
        with suppress(NoHostMemory):
            while len(self._parts) < count:
                self._parts.append(Part())
        return self._parts[:count]

    # ---- whether to try ------------------------------------------------------------------------------------------
    def is_due(self, entry: int) -> bool:
        """Whether the launch of a kernel that begins now is to be tried."""
        left, again = self._pauses.get(entry, (0, LEAST_PAUSE))
        self._pauses[entry] = max(left - 1, 0), again
        return left == 0

    def failed(self, entry: int) -> None:
        """It was of no use with a kernel: it is not tried again soon."""
        _, again = self._pauses.get(entry, (0, LEAST_PAUSE))
        self._pauses[entry] = again, min(2 * again, MOST_PAUSE)

    # ---- from beginning to end -----------------------------------------------------------------------------------
    def begin(
        self, groups: Sequence[NativeGroup], launch: int, these: range, count: int, waves: int, marks: Marking | None
    ) -> bool:
        """These groups of the present launch's `count` run next, of so many waves at most. Whether they have numbers.

        `groups`: what the threads tell their parts by; `launch`: the judge's number for it.
        """
        judge, saves = self._judge, self._saves
        judge.settle()
        self._launch, self._these, self._bits = launch, these, (waves - 1).bit_length()
        self._first = align_up(judge.race.next_uid, 1 << self._bits)
        rest = (count - these.stop) * waves
        if self._first + (len(these) << self._bits) + rest >= UIDS or judge.race.range_count >= RANGES:
            return False
        self._memories = [self._memory, *(() if marks is None else marks.planes)]
        self._tables = np.array([each.tables_address for each in self._memories], np.uint64)
        saves.tables, saves.count = host_address(self._tables), len(self._memories)
        saves.most = (KEPT_BYTES >> PAGE_BITS) // saves.count
        self._there = list(self._memory)
        self._counts = [] if marks is None else [(marks.sights.quiet, marks.sights.quiet.copy())]
        self._present = self._parts[: len(groups)]
        for part, each in zip(self._present, groups, strict=True):
            part.begin(judge, self._first, saves)
            each.group.numbers, each.group.first_group, each.group.group_bits = self._first, these.start, self._bits
        return True

    def merge(self) -> bool:
        """Whether it made no difference that they ran side by side: then the judge knows all that they did.

        Who touched which byte it only knows when it has to: see `settle`.
        """
        judge, (own, *others) = self._judge, [each.race for each in self._present]
        if not all(part.is_clean(judge) for part in self._present):
            return False
        if any(self._join(own, other, self._first) for other in others):
            return False
        has_earlier = judge.race.next_uid > judge.race.floor
        if has_earlier and self._join(judge.race, own, judge.race.floor, writes=0):
            return False
        self._append()
        self._forget_pages()
        for part in self._present[1:]:
            part.clear()
        judge.pending = self
        if has_earlier:
            self.settle()
        return True

    def settle(self) -> None:
        """Have the judge know who touched which byte."""
        self._join(self._judge.race, self._present[0].race, self._judge.race.floor)  # without room, that is told of
        self.drop()

    def drop(self) -> None:
        """It does not matter any more."""
        self._judge.pending = None
        self._present[0].clear()

    def undo(self) -> None:
        """Memory becomes what it was before they ran."""
        flags, codes = np.zeros(PAGE, np.uint8), np.zeros(PIECE, np.uint64)
        for number, page in enumerate(self._kept()):
            flags[:] = 0
            for part in self._present:
                for at in range(0, PAGE, PIECE):
                    where = (page << PAGE_BITS) + at, PIECE, STORED, codes.ctypes.data
                    if function("codes_of")(ctypes.addressof(part.race), *where):
                        flags[at : at + PIECE] |= codes != 0
            flags &= self._still_there(page)
            for each, memory in enumerate(self._memories):
                room = self._saves.room + (number * len(self._memories) + each << PAGE_BITS)
                function("put_back")(memory.tables_address, page, room, flags.ctypes.data)
        for counts, before in self._counts:
            counts[:] = before
        self.forget()

    def forget(self) -> None:
        """Nobody is to know that they ran."""
        for part in self._present:
            part.forget()
        self._forget_pages()

    # ---- parts ---------------------------------------------------------------------------------------------------
    def _join(self, into: Race, other: Race, floor: int, writes: int = 1) -> int:
        """See `native_merge.merge`; `floor`: the number of the first wave that need not be over."""
        job, codes = self._merge, self._codes.ctypes.data
        job.into, job.other, job.floor = ctypes.addressof(into), ctypes.addressof(other), floor << UID_AT
        job.group_bits, job.writes, job.mine, job.theirs = self._bits, writes, codes, codes + 8 * ROWS
        job.has_barriers = any(part.race.bound_count for part in self._present)
        return int(function("merge")(ctypes.addressof(job)))

    def _append(self) -> None:
        """The judge knows the waves' numbers, and their barriers."""
        race, tables, count = self._judge.race, self._judge.tables, len(self._these)
        last = race.range_count
        if last == 0 or int(tables.pairs("ranges", last)[-1, 1]) != self._launch:
            tables.pairs("ranges", last + 1)[-1] = self._first, self._launch
            race.range_count = last + 1
        rows = tables.pairs("groups", race.group_count + count)[-count:]
        rows[:, 0] = self._first + (np.arange(count, dtype=np.uint64) << np.uint64(self._bits))
        rows[:, 1] = self._these
        race.group_count += count
        race.next_uid = self._first + (count << self._bits)
        for part in self._present:
            more = part.race.bound_count
            if race.bound_count + more > UIDS:
                race.full = NO_WAVES
                return
            if more:
                tables.pairs("bounds", race.bound_count + more)[-more:] = part.tables.pairs("bounds", more)
            race.bound_count += more
            race.serial += part.race.serial

    def _kept(self) -> list[int]:
        """The pages that are kept, by their numbers."""
        count = min(self._saves.used, self._saves.most)
        return [int(each) for each in np.frombuffer(self._pages.view, np.uint64)[:count]]

    def _forget_pages(self) -> None:
        states = np.frombuffer(self._states.view, np.uint64)
        for page in self._kept():
            states[page] = 0
        if self._saves.used * len(self._memories) > WORTH >> PAGE_BITS:
            self._room.clear()
        self._saves.used = 0

    def _still_there(self, page: int) -> npt.NDArray[np.uint8]:
        """Which bytes of a page are of the memory that they were of: 1, else 0."""
        flags, base = np.zeros(PAGE, np.uint8), page << PAGE_BITS
        now = set(map(id, self._memory.between(base, base + PAGE)))
        for each in self._there:
            if id(each) in now:
                flags[max(each.base - base, 0) : max(each.end - base, 0)] = 1
        return flags
