"""The check `lanes`, which treats each lane of a wave as a thread and detects races between lanes.

A wave's lanes execute in lockstep, so machine code orders accesses that the source does not order. Another
compiler, a wider wave or another processor does not keep this order. Two accesses are ordered if one lane
makes both, if there is a barrier between them, or if there is an atomic between them that is a release and
returns the old value. (Such an atomic is also ordered with itself, since the last lane that executes it
learns from the old value that it is the last.) This check treats all stores as plain, including those of a
single lane, which the check between waves treats as possibly atomic.

The rule itself is compiled code (`native_lane_order`). Translated code calls it for its accesses, and leaves an access
that conflicts to the reference engine. `LaneOrder` calls it for the accesses of the reference engine, and reports."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from softcard.core.checks import LANES as CHECK
from softcard.core.errors import BeyondModel
from softcard.core.findings import Capture
from softcard.core.space import Ram
from softcard.engine.gcn.hooks import ATOMIC, LOAD, STORE
from softcard.engine.gcn.races import native_lane_order
from softcard.engine.gcn.races.events import Places, returns
from softcard.engine.gcn.races.layout import (
    NAMES,
    SIZE_AT,
    SPACE_AT,
    SPACES,
    STORED,
    UPDATED,
    LaneTable,
    WaveRow,
)
from softcard.engine.gcn.races.native_lane_order import (
    BLOCK_BITS,
    BLOCKS,
    CELLS,
    COHERENT_LOAD,
    CONFLICT_ROW,
    CONFLICTS,
    LANE_AT,
    LANE_MASK,
    PC_AT,
    TABLE_BITS,
    TABLE_ROW,
    USED,
)
from softcard.engine.gcn.races.reporter import LANES_OF_WAVE, RacingAccess, Reporter
from softcard.ir.native import Natives
from softcard.isa.gcn.coherence import is_coherent_load, is_group_load
from softcard.isa.gcn.insn import Insn
from softcard.isa.gcn.state import LANES

NATIVES: Final = Natives(
    native_lane_order.check_lanes, native_lane_order.check_vector_lanes, native_lane_order.check_wave_lanes,
    native_lane_order.enter, native_lane_order.forget_accesses,
)  # fmt: skip
function: Final = NATIVES.function
MOST_DWORDS: Final = 4
"""The maximum number of dwords that a lane stores with one access."""


class WaveCells:
    """The shadow cells of one wave, or of several waves one after the other. `table` is their state."""

    def __init__(self, *, equal_stores: bool) -> None:
        self._rows, self._cells = Ram(TABLE_ROW << TABLE_BITS), Ram(CELLS)
        self._conflicts = np.zeros((CONFLICTS, CONFLICT_ROW // 8), np.uint64)
        self.table = table = LaneTable()
        self.address = ctypes.addressof(table)
        table.rows, table.start = self._rows.base_host, self._cells.base_host
        table.end, table.conflicts = table.start + CELLS, self._conflicts.ctypes.data
        table.equal_stores = equal_stores
        self.forget()

    def forget(self) -> None:
        """Forget all recorded accesses."""
        function("forget_accesses")(self.address)

    def conflicts(self) -> npt.NDArray[np.uint64]:
        """Return the conflicts of the last access, and forget them. Raise `BeyondModel` if the table is full."""
        if self.table.is_full:
            limit = (BLOCKS << BLOCK_BITS) >> 20
            raise BeyondModel(f"check {CHECK!r} supports waves that access up to {limit} MiB between barriers")
        found = self._conflicts[: self.table.conflict_count].copy()
        self.table.conflict_count = 0
        return found


class LaneOrder:
    """The race detector for lanes of one wave.

    With `equal_stores`, lanes that store equal values to one address are reported as well.
    """

    _fetch: Callable[[int], Insn]
    """The function that decodes the instruction at an address, for the kernel that runs."""

    def __init__(self, reporter: Reporter, *, equal_stores: bool) -> None:
        self.reporter = reporter
        self.equal_stores = equal_stores
        self._cells: dict[object, list[WaveCells]] = {}
        self._of_table: dict[int, WaveCells] = {}
        self._addresses = np.zeros(LANES, np.uint64)
        self._values = np.zeros((MOST_DWORDS, LANES), np.uint32)

    @contextmanager
    def running(self, fetch: Callable[[int], Insn]) -> Iterator[None]:
        """Return a context in which waves of a kernel run, whose instructions `fetch` decodes."""
        outer, self._fetch = vars(self).get("_fetch", fetch), fetch
        try:
            yield
        finally:
            self._fetch = outer

    def cells(self, owner: object, count: int) -> list[WaveCells]:
        """Return the shadow cells of `count` waves of a work-group, in the order of the waves.

        `owner` identifies the thread that runs the work-group; its next work-group has the same cells."""
        found = self._cells.setdefault(owner, [])
        while len(found) < count:
            made = WaveCells(equal_stores=self.equal_stores)
            self._of_table[made.address] = made
            found.append(made)
        return found

    def attach(self, rows: Sequence[WaveRow], owner: object) -> None:
        """Give compiled code the shadow cells of the waves of a work-group, and the functions that check lanes."""
        for row, each in zip(rows, self.cells(owner, len(rows)), strict=False):
            row.lanes = each.address
            row.check_lanes = NATIVES.address("check_vector_lanes")
            row.check_wave = NATIVES.address("check_wave_lanes")

    def of_wave(self, row: WaveRow) -> WaveCells:
        """Return the shadow cells of a wave of the JIT engine."""
        return self._of_table[row.lanes]

    def begin_group(self) -> None:
        """Forget the accesses of waves of the reference engine, because its next work-group begins."""
        for each in self._cells.get(None, ()):
            each.forget()

    def check_access(
        self,
        cells: WaveCells,
        wave: Any,
        of: tuple[int, tuple[int, int, int]],
        insn: Insn,
        access: str,
        space: str,
        addresses: Places,
        size: int,
        lanes: npt.NDArray[np.integer[Any]],
        values: Sequence[npt.NDArray[np.uint32]],
        *,
        releases: bool,
        capture: Capture | None = None,
    ) -> None:
        """Check accesses of `size` bytes at each address by these lanes, record them, and report conflicts.

        `of` is a pair: the wave's number in its work-group, and the work-group's coordinates. `values` are the dwords
        that the lanes store; it is empty for loads and atomics. `releases` is True if an atomic is a release.
        `capture` returns the registers before the instruction."""
        function("enter")(cells.address, wave.uid, wave.generation)
        is_coherent = access == LOAD and (is_coherent_load(insn) or is_group_load(insn))
        self._addresses[lanes] = addresses
        for row, each in zip(self._values, values, strict=False):
            row[lanes] = each
        mask = int(np.bitwise_or.reduce(np.uint64(1) << lanes.astype(np.uint64), initial=np.uint64(0)))
        what = NAMES.index(access) | SPACES.index(space) << SPACE_AT | size << SIZE_AT
        record = insn.pc >> 2 << PC_AT | COHERENT_LOAD * is_coherent | USED
        where = self._addresses.ctypes.data, self._values.ctypes.data, LANES
        function("check_lanes")(cells.address, what, record, *where, mask, 1)
        found = cells.conflicts()
        if releases and access == ATOMIC and returns(insn):
            cells.forget()
        met: dict[tuple[int, str], tuple[int, int, set[int]]] = {}
        """The conflicts by the other instruction's pc and access: its first lane, the address, and lanes that
        conflict."""
        for lane, address, other, row in found.tolist():
            kind = STORE if row == STORED else ATOMIC if row == UPDATED else LOAD
            key = other >> PC_AT << 2, kind
            met.setdefault(key, (other >> LANE_AT & LANE_MASK, address, set()))[2].add(lane)
        for (pc, kind), (lane, address, who) in met.items():
            before = insn if pc == insn.pc else self._fetch(pc)
            self.reporter.report(
                RacingAccess(insn, access, *of, tuple(sorted(who))), RacingAccess(before, kind, *of, (lane,)),
                LANES_OF_WAVE, space, address, size, len(who), capture,
            )  # fmt: skip
