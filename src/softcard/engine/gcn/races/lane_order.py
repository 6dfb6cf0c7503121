"""The check `lanes`, which treats each lane of a wave as a thread and detects races between lanes.

A wave's lanes execute in lockstep, so machine code orders accesses that the source does not order. Another
compiler, a wider wave or another processor does not keep this order. Two accesses are ordered if one lane
makes both, if there is a barrier between them, or if there is an atomic between them that is a release and
returns the old value. (Such an atomic is also ordered with itself, since the last lane that executes it
learns from the old value that it is the last.) This check treats all stores as plain, including those of a
single lane, which the check between waves treats as possibly atomic."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from softcard.core.findings import Capture
from softcard.engine.gcn.hooks import ATOMIC, LOAD, STORE
from softcard.engine.gcn.races.events import AGAINST, ALSO_LOADED, LOADED, ROWS, STORED, UPDATED, Places, returns
from softcard.engine.gcn.races.reporter import LANES_OF_WAVE, RacingAccess, Reporter
from softcard.isa.gcn.coherence import is_coherent_load, is_group_load
from softcard.isa.gcn.insn import Insn

ROW: Final = {STORE: STORED, ATOMIC: UPDATED}


@dataclass(frozen=True, slots=True)
class Access:
    """The access that one instruction makes: its instruction and its kind (load, store or atomic).

    `is_coherent` is True for a load that bypasses the caches, or has the scope of the work-group. Such a load may run
    concurrently with atomics."""

    insn: Insn
    access: str
    is_coherent: bool


class Entry(NamedTuple):
    """An access of a byte by a lane. `value` is the byte that it stores, or None."""

    lane: int
    access: Access
    value: int | None


Cells = defaultdict[tuple[str, int], list[Entry | None]]


@dataclass(slots=True, eq=False)
class BarrierInterval:
    """The shadow cells of bytes that a wave's lanes have accessed since its last barrier, by address space."""

    group: tuple[int, int, int]
    generation: int
    cells: Cells = field(default_factory=lambda: defaultdict(lambda: [None] * ROWS))


class LaneOrder:
    """The race detector for lanes of one wave.

    With `equal_stores`, lanes that store equal values to one address are reported as well.
    """

    def __init__(self, reporter: Reporter, *, equal_stores: bool) -> None:
        self.reporter = reporter
        self.equal_stores = equal_stores
        self._intervals: dict[int, BarrierInterval] = {}
        """The accesses since the last barrier by wave number, for the current work-group only.

        Work-groups run one after the other.
        """

    def check_access(
        self,
        wave: Any,
        of: tuple[int, tuple[int, int, int]],
        insn: Insn,
        access: str,
        space: str,
        addresses: Places,
        size: int,
        lanes: list[int],
        values: list[bytes],
        *,
        releases: bool,
        capture: Capture | None = None,
    ) -> None:
        """Check accesses of `size` bytes at each address by these lanes, and record them.

        `of` is a pair: the wave's number in its work-group, and the work-group's coordinates. `values` has the bytes
        that each lane stores; it is empty if they are not compared. `releases` is True if an atomic is a release.
        `capture` returns the registers before the instruction."""
        interval = self._interval(wave, of[1])
        mine = Access(insn, access, access == LOAD and (is_coherent_load(insn) or is_group_load(insn)))
        met: dict[int, tuple[Entry, int, set[int]]] = {}
        """The conflicts by instruction: first conflicting access, its address, and lanes that conflict."""
        places = list(zip(addresses.tolist(), lanes, values or [b""] * len(lanes), strict=True))
        for address, lane, value in places:
            for offset in range(size):
                cell = interval.cells[space, address + offset]
                entry = Entry(lane, mine, value[offset] if value else None)
                other = self._first_conflict(entry, cell)
                if other is not None:
                    met.setdefault(id(other.access), (other, address, set()))[2].add(lane)
                if access == STORE:  # lanes store in their order: the last one's value stays
                    self._touch(cell, entry)
        if releases and access == ATOMIC and returns(insn):
            interval.cells.clear()
        elif access != STORE:
            for address, lane, _ in places:
                for offset in range(size):
                    self._touch(interval.cells[space, address + offset], Entry(lane, mine, None))
        for other, address, who in met.values():
            self.reporter.report(
                RacingAccess(insn, access, *of, tuple(sorted(who))),
                RacingAccess(other.access.insn, other.access.access, *of, (other.lane,)),
                LANES_OF_WAVE, space, address, size, len(who), capture,
            )  # fmt: skip

    def _interval(self, wave: Any, group: tuple[int, int, int]) -> BarrierInterval:
        """Return the accesses of a wave since its last barrier. Directly after a barrier, return an empty interval."""
        found = self._intervals.get(wave.uid)
        if found is None or found.generation != wave.generation:
            if found is None and any(each.group != group for each in self._intervals.values()):
                self._intervals.clear()
            found = self._intervals[wave.uid] = BarrierInterval(group, wave.generation)
        return found

    def _first_conflict(self, entry: Entry, cell: list[Entry | None]) -> Entry | None:
        """Return the first conflicting access of this byte by another lane, or None."""
        for row in AGAINST[entry.access.access]:
            other = cell[row]
            if other is None or other.lane == entry.lane or _are_atomic(entry.access, other.access):
                continue
            is_equal = entry.value is not None and entry.value == other.value
            if not is_equal or self.equal_stores:
                return other
        return None

    def _touch(self, cell: list[Entry | None], entry: Entry) -> None:
        """Record an access in a byte's cell. A cell keeps up to two loads, by different lanes."""
        access = entry.access.access
        if access != LOAD:
            cell[ROW[access]] = entry
            return
        first = cell[LOADED]
        if first is None or first.lane == entry.lane:
            cell[LOADED] = entry
        else:
            cell[ALSO_LOADED] = entry


def _are_atomic(one: Access, other: Access) -> bool:
    """Return True if one access is an atomic, and the other one is an atomic or a coherent load."""
    return ATOMIC in (one.access, other.access) and all(
        each.access == ATOMIC or each.is_coherent for each in (one, other)
    )
