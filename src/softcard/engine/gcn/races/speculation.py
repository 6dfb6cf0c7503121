"""Speculative concurrent execution of work-groups under race detection, with the results of serial execution.

Each thread has its own shadow memory. If no two work-groups accessed the same byte with at least one store,
the order of the work-groups made no difference. In this case the threads' shadow memories are merged into
that of the detector. Otherwise memory is restored, and the caller runs the work-groups serially."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from softcard.core.errors import NoHostMemory
from softcard.core.space import Ram, host_address
from softcard.core.words import align_up
from softcard.engine.gcn.memory import ADDRESS_BITS, GpuMemory, Mapped
from softcard.engine.gcn.races.layout import NO_WAVES, PAGE_BITS, RANGES, ROWS, STORED, UID_AT, UIDS, Race, Saves
from softcard.engine.gcn.races.native_detector import Ids, NativeDetector, NativeGroup, function
from softcard.engine.gcn.races.native_merge import Merge
from softcard.engine.gcn.races.tables import CELLS, WORTH, Tables
from softcard.engine.races.findings import PIECE

if TYPE_CHECKING:
    from softcard.engine.gcn.hooks import Shadow
    from softcard.isa.gcn.insn import Insn

PAGE: Final = 1 << PAGE_BITS
SAVED_BYTES: Final = 1 << 30
"""The maximum size in bytes of the saved pages of guest memory."""
LEAST_PAUSE: Final = 4
MOST_PAUSE: Final = 1024
"""The maximum number of a kernel's launches that run serially after a failed attempt to speculate.

The number starts at `LEAST_PAUSE` and doubles with each failure.
"""


class Part:
    """The state of one thread in a speculative run: the shadow memory for the work-groups that it runs."""

    def __init__(self) -> None:
        self.tables = Tables(CELLS[1:])
        self._site_numbering = 0
        """The detector's `site_numbering` whose site numbers this shadow memory uses."""
        self.race = self.tables.race

    def group(
        self, groups: Ids, most_waves: int, private: tuple[int, int], fetch: Callable[[int], Insn]
    ) -> NativeGroup:
        """Return the state that compiled code uses for these work-groups; see `NativeDetector.group`."""
        return NativeGroup(self, groups, most_waves, private, fetch)

    def started(self, groups: Ids) -> tuple[int, npt.NDArray[np.uint64], npt.NDArray[np.uint64]]:
        """Return launch index 0, no earlier launches and an empty clock.

        This shadow memory serves a single launch.
        """
        return 0, np.zeros(0, np.uint64), np.zeros(0, np.uint64)

    def begin(self, detector: NativeDetector, first: int, saves: Saves) -> None:
        """Prepare for work-groups with waves numbered from `first` on, and copy the detector's site numbers."""
        race = self.race
        race.proposals, race.proposal_count = detector.race.proposals, detector.race.proposal_count
        race.flows, race.flow_count = detector.race.flows, detector.race.flow_count
        race.mailboxes, race.mailbox_bytes = detector.race.mailboxes, detector.race.mailbox_bytes
        race.watermark, race.saves, race.equal_stores = first, ctypes.addressof(saves), detector.race.equal_stores
        race.range_count = race.group_count = race.bound_count = race.serial = 0
        if self._site_numbering != detector.tables.site_numbering:
            self._site_numbering = detector.tables.site_numbering
            self.tables.forget_sites()
        for number in range(race.site_count, detector.race.site_count):
            function("site_of")(ctypes.addressof(race), *detector.tables.site(number))

    def clear(self) -> None:
        """Clear all access records. Memory for shadow cells stays allocated unless it is large."""
        if self.tables.is_large:
            self.tables.forget_cells()
        else:
            function("forget")(ctypes.addressof(self.race))

    def is_clean(self, detector: NativeDetector) -> bool:
        """Return True if this shadow memory can be merged.

        It can if the run had no race, no table overflow and no site that the detector does not know.
        """
        return not (self.race.report_count or self.race.full or self.race.site_count != detector.race.site_count)

    def forget(self) -> None:
        """Clear all access records, race reports and sites."""
        self.tables.forget_cells()
        self.tables.forget_reports()
        self.tables.forget_sites()
        self.race.full = 0


class Speculation:
    """The executor that runs work-groups of launches concurrently under the race detector of a memory."""

    def __init__(self, detector: NativeDetector, memory: GpuMemory) -> None:
        self._detector = detector
        self._memory = memory
        self._parts: list[Part] = []
        self._present: list[Part] = []
        self._pauses: dict[int, tuple[int, int]] = {}
        """For each kernel address, the launches to skip before the next attempt, and the next number to skip."""
        self._saves = Saves()
        self._states = Ram(8 << ADDRESS_BITS - PAGE_BITS)
        self._pages = Ram(8 * (SAVED_BYTES >> PAGE_BITS))
        self._room = Ram(SAVED_BYTES)
        self._saves.states, self._saves.pages = self._states.base_host, self._pages.base_host
        self._saves.room = self._room.base_host
        self._memories: list[GpuMemory] = []
        self._tables: npt.NDArray[np.uint64] = np.zeros(0, np.uint64)
        self._mapped: list[Mapped] = []
        self._counts: list[tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint64]]] = []
        """Pairs of an array of counted uses of undefined values and its copy from before the run.

        The array is `Uses.quiet`.
        """
        self._launch = self._first = self._bits = 0
        self._chosen = range(0)
        self._merge = Merge()
        self._records = np.zeros(2 * ROWS, np.uint64)

    def parts(self, count: int) -> list[Part]:
        """Return the states of `count` threads, or of fewer if this process has too little address space."""
        with suppress(NoHostMemory):
            while len(self._parts) < count:
                self._parts.append(Part())
        return self._parts[:count]

    # ---- whether to try ------------------------------------------------------------------------------------------
    def is_due(self, entry: int) -> bool:
        """Return True if the present launch of the kernel at `entry` is to run speculatively."""
        left, again = self._pauses.get(entry, (0, LEAST_PAUSE))
        self._pauses[entry] = max(left - 1, 0), again
        return left == 0

    def failed(self, entry: int) -> None:
        """Record that speculation failed for the kernel at `entry`; its next launches run serially."""
        _, again = self._pauses.get(entry, (0, LEAST_PAUSE))
        self._pauses[entry] = again, min(2 * again, MOST_PAUSE)

    # ---- from beginning to end -----------------------------------------------------------------------------------
    def begin(
        self,
        groups: Sequence[NativeGroup],
        launched: NativeGroup,
        chosen: range,
        count: int,
        waves: int,
        shadow: Shadow | None,
    ) -> bool:
        """Prepare to run the work-groups `chosen` concurrently; return False if too few wave numbers are free.

        `groups` has one state for each thread, through which its compiled code reports accesses; `launched` is the
        state of the whole launch. `count` is the number of work-groups of the launch, and `waves` the maximum number
        of waves of a work-group. `shadow` is the definedness shadow memory, whose contents are saved as well, or
        None."""
        detector, saves = self._detector, self._saves
        detector.flush()
        self._launch, self._chosen, self._bits = launched.group.launch, chosen, (waves - 1).bit_length()
        self._first = align_up(detector.race.next_uid, 1 << self._bits)
        rest = (count - chosen.stop) * waves
        if self._first + (len(chosen) << self._bits) + rest >= UIDS or detector.race.range_count >= RANGES:
            return False
        self._memories = [self._memory, *(() if shadow is None else shadow.memories)]
        self._tables = np.array([each.tables_address for each in self._memories], np.uint64)
        saves.tables, saves.count = host_address(self._tables), len(self._memories)
        saves.most = (SAVED_BYTES >> PAGE_BITS) // saves.count
        self._mapped = list(self._memory)
        self._counts = [] if shadow is None else [(shadow.counters, shadow.counters.copy())]
        self._present = self._parts[: len(groups)]
        for part, each in zip(self._present, groups, strict=True):
            part.begin(detector, self._first, saves)
            each.group.numbers, each.group.first_group, each.group.group_bits = self._first, chosen.start, self._bits
        return True

    def merge(self) -> bool:
        """Commit the run and return True, or return False if the concurrent order may have changed results.

        Access records are merged into the detector's shadow memory later, when they are needed; see `flush`."""
        detector, (own, *others) = self._detector, [each.race for each in self._present]
        if not all(part.is_clean(detector) for part in self._present):
            return False
        if any(self._join(own, other, self._first) for other in others):
            return False
        has_earlier = detector.race.next_uid > detector.race.watermark
        if has_earlier and self._join(detector.race, own, detector.race.watermark, writes=0):
            return False
        self._append()
        self._forget_pages()
        for part in self._present[1:]:
            part.clear()
        detector.pending = self
        if has_earlier:
            self.flush()
        return True

    def flush(self) -> None:
        """Merge the access records of the run into the detector's shadow memory."""
        self._join(
            self._detector.race, self._present[0].race, self._detector.race.watermark
        )  # the next check reports overflows
        self.drop()

    def drop(self) -> None:
        """Discard the access records of the run. All later accesses must be ordered after the recorded ones."""
        self._detector.pending = None
        self._present[0].clear()

    def undo(self) -> None:
        """Restore guest memory to its contents from before the run."""
        flags, records = np.zeros(PAGE, np.uint8), np.zeros(PIECE, np.uint64)
        for number, page in enumerate(self._saved_pages()):
            flags[:] = 0
            for part in self._present:
                for at in range(0, PAGE, PIECE):
                    where = (page << PAGE_BITS) + at, PIECE, STORED, records.ctypes.data
                    if function("records_of")(ctypes.addressof(part.race), *where):
                        flags[at : at + PIECE] |= records != 0
            flags &= self._still_there(page)
            for each, memory in enumerate(self._memories):
                room = self._saves.room + (number * len(self._memories) + each << PAGE_BITS)
                function("put_back")(memory.tables_address, page, room, flags.ctypes.data)
        for counts, before in self._counts:
            counts[:] = before
        self.forget()

    def forget(self) -> None:
        """Discard all records of the run."""
        for part in self._present:
            part.forget()
        self._forget_pages()

    # ---- parts ---------------------------------------------------------------------------------------------------
    def _join(self, into: Race, other: Race, watermark: int, writes: int = 1) -> int:
        """Merge shadow memory `other` into `into`; return 1 if accesses conflict. See `native_merge.merge`.

        `watermark` is the number of the first wave above the happens-before watermark. If `writes` is 0, check for
        conflicts without merging."""
        job, records = self._merge, self._records.ctypes.data
        job.into, job.other, job.watermark = ctypes.addressof(into), ctypes.addressof(other), watermark << UID_AT
        job.group_bits, job.writes, job.mine, job.theirs = self._bits, writes, records, records + 8 * ROWS
        job.has_barriers = any(part.race.bound_count for part in self._present)
        return int(function("merge")(ctypes.addressof(job)))

    def _append(self) -> None:
        """Append the run's waves and barriers to the detector's tables."""
        race, tables, count = self._detector.race, self._detector.tables, len(self._chosen)
        last = race.range_count
        if last == 0 or int(tables.pairs("ranges", last)[-1, 1]) != self._launch:
            tables.pairs("ranges", last + 1)[-1] = self._first, self._launch
            race.range_count = last + 1
        rows = tables.pairs("groups", race.group_count + count)[-count:]
        rows[:, 0] = self._first + (np.arange(count, dtype=np.uint64) << np.uint64(self._bits))
        rows[:, 1] = self._chosen
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

    def _saved_pages(self) -> list[int]:
        """Return the numbers of the pages that were saved during the run."""
        count = min(self._saves.used, self._saves.most)
        return [int(each) for each in np.frombuffer(self._pages.view, np.uint64)[:count]]

    def _forget_pages(self) -> None:
        states = np.frombuffer(self._states.view, np.uint64)
        for page in self._saved_pages():
            states[page] = 0
        if self._saves.used * len(self._memories) > WORTH >> PAGE_BITS:
            self._room.clear()
        self._saves.used = 0

    def _still_there(self, page: int) -> npt.NDArray[np.uint8]:
        """Return a flag for each byte of a page: 1 if it is still mapped as before the run, else 0."""
        flags, base = np.zeros(PAGE, np.uint8), page << PAGE_BITS
        now = set(map(id, self._memory.between(base, base + PAGE)))
        for each in self._mapped:
            if id(each) in now:
                flags[max(each.base - base, 0) : max(each.end - base, 0)] = 1
        return flags
