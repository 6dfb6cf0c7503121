"""The observer of the reference engine that reports accesses to the race detector before they happen."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from softcard.core.errors import Registers
from softcard.engine.gcn.api import Dispatch
from softcard.engine.gcn.hooks import LOAD, STORE, Observer, WaveView
from softcard.engine.gcn.jit.layout import TRACKED
from softcard.engine.gcn.races.events import Places
from softcard.engine.gcn.races.watch import RaceWatch
from softcard.engine.gcn.reference.lane_atomic import LaneAtomics
from softcard.engine.gcn.reference.lane_integer import Array, Value
from softcard.engine.gcn.reference.lane_memory import Indices, bytes_of_rows
from softcard.isa.gcn.coherence import acquires, writes_back
from softcard.isa.gcn.insn import Insn
from softcard.isa.gcn.state import HW_ID, LDS_SIZE

if TYPE_CHECKING:
    from softcard.engine.gcn.races.lane_order import LaneOrder, WaveCells

SPACES: Final = {"global": "global", "lds": "LDS", "shared": "LDS", "gds": "gds"}
"""The race detector's names of address spaces. Private memory is not checked."""
WAVE: Final = 0x3F
"""The mask of the field of HW_ID with the number of a wave in its work-group."""


class RaceObserver(Observer):
    """The observer that reports the accesses of waves, and the operations that order them, to a race detector.

    `accesses` are the reference engine's memory operations. If `watch.lanes` is not None, it compares the
    accesses of the lanes of a wave with each other."""

    detector: Any
    """The race detector: an `EventDetector`, or a `NativeDetector` for waves of the JIT engine."""
    wave: Any
    """The object that represents the executing wave in the race detector."""
    insn: Insn
    number = 0
    """The number of accesses that the present instruction has made so far."""
    cells: WaveCells
    """The shadow cells of the executing wave's lanes, with the check `lanes`."""
    is_left = False
    """True if translated code took a side exit after it had handled some lanes of the instruction."""

    def __init__(self, dispatch: Dispatch, watch: RaceWatch, accesses: LaneAtomics) -> None:
        self.plain = accesses
        self.private = dispatch.private
        self.current = accesses.current
        self.lanes: LaneOrder | None = watch.lanes
        self.swap_loops = watch.swap_loops
        self.of: tuple[int, tuple[int, int, int]] = 0, (0, 0, 0)
        """The wave's number in its work-group, and the coordinates of the work-group."""
        self._watch = watch
        self._dispatch = dispatch
        self._group: tuple[int, int, int] | None = None

    def begin(self, view: WaveView, group: tuple[int, int, int], insn: Insn, lanes: int | None) -> None:
        """Prepare for the accesses that an instruction is about to make.

        Select the race detector for the wave, and the detector's object that represents the wave."""
        row = view.words[TRACKED]
        if row:
            self.detector, self.wave = self._watch.native, self._watch.native.wave(row, view.wave.address)
            if self.lanes is not None:
                self.cells = self.lanes.of_wave(self.wave.row)
        else:
            self.detector = events = self._watch.events
            if group is not self._group:
                self._group = group
                events.begin_group()
                if self.lanes is not None:
                    self.lanes.begin_group()
            number = int(view.words[HW_ID]) & WAVE
            self.wave = events.wave(view.wave.address, number, group)
            events.capture = self._registers
            if self.lanes is not None:
                self.cells = self.lanes.cells(None, number + 1)[number]
        self.detector.leave(self.wave)
        self.of = int(view.words[HW_ID]) & WAVE, group
        self.insn = insn
        self.number = 0
        self.is_left = lanes is not None

    def order(self, what: str, n: int) -> None:
        """Report to the race detector that the wave has waited for its stores, or has operated its caches.

        The invalidation of caches is an acquire. A release to other work-groups may need a write-back."""
        if what == "waitcnt":
            if not self.insn.target.vmcnt(n):
                self.detector.waited(self.wave)
        elif acquires(self.insn, what):
            self.detector.acquire(self.wave)
        elif writes_back(self.insn, what):
            self.detector.write_back(self.wave)

    def barrier(self) -> None:
        """Report to the race detector that the wave has reached a barrier."""
        self.detector.arrive(self.wave)

    def end(self) -> None:
        """Report to the race detector that the wave has ended, so that barriers do not wait for it."""
        self.detector.end(self.wave)

    def access(
        self, access: str, space: str, bits: int, address: Value, where: Value | None, values: Sequence[Value]
    ) -> None:
        """Report an access by lanes to the race detector; with the check `lanes`, check the lanes, too."""
        plain, size = self.plain, bits >> 3
        self.number += 1
        if access == LOAD and self.insn.pc in self.swap_loops.present.pcs:
            return
        lanes = self.current.lanes_where(where)
        every = plain._addresses(space, address, lanes)
        for part, chosen in plain._spaces(space, every):
            name = SPACES.get(part)
            if name is None:
                continue
            some: Places = (every if chosen is None else every[chosen]).astype(np.uint64)
            who = lanes if chosen is None else lanes[chosen]
            if name == "LDS":
                some &= np.uint64(0xFFFF_FFFF)
                some, who = _those(some + np.uint64(size) <= int(self.current.words[LDS_SIZE]), some, who)
            elif name == "global":
                low, high = self.private
                some, who = _those((some < low) | (some >= high), some, who)
            if len(some):
                data = [np.broadcast_to(np.asarray(value, np.uint32), 64)[who] for value in values]
                same = None if access != STORE else lambda n=name, a=some, d=data: self._same(n, size, a, d)
                is_single = self.current.exec_bits.bit_count() == 1
                begun = self.number if self.is_left and (space == "lds" or name != "LDS") else 0
                more = {"is_single": is_single} | ({"number": begun} if begun else {})
                releases = name == "LDS" or self.wave.is_waited
                self.detector.check_access(self.wave, self.insn, access, name, some, size, who, same, **more)
                if self.lanes is not None:
                    self._check_lanes(self.lanes, access, name, some, size, who, data, releases)

    def _check_lanes(
        self,
        order: LaneOrder,
        access: str,
        space: str,
        addresses: Places,
        size: int,
        lanes: Indices,
        values: Sequence[Array],
        releases: bool,
    ) -> None:
        """Check the accesses of the wave's lanes against each other; `values` are the dwords that each lane stores."""
        order.check_access(
            self.cells, self.wave, self.of, self.insn, access, space, addresses, size, lanes, values,
            releases=releases, capture=self._registers,
        )  # fmt: skip

    def _registers(self, lane: int | None) -> Registers | None:
        """Return the registers that the present instruction reads, before it is executed."""
        from softcard.engine.gcn.reference.lanes import registers_at  # few kernels have findings

        return registers_at(self._dispatch, self.current.wave, self.insn, lane)

    def _same(self, space: str, size: int, addresses: Places, data: list[Array]) -> Any:
        """Return a mask of the lanes for which the store, as a whole, leaves the bytes at their address unchanged.

        If several lanes store to one byte, the last one's value stays. Compilers let the lanes of a wave store values
        that should be equal but differ by rounding."""
        flat = (addresses[:, None] + np.arange(size, dtype=np.uint64)).reshape(-1)
        places, last = np.unique(flat[::-1], return_index=True)
        stored = bytes_of_rows(data, size).reshape(-1)[::-1][last][np.searchsorted(places, flat)].reshape(-1, size)
        return np.array(
            [
                self._held(space, address, size) == row.tobytes()
                for address, row in zip(addresses.tolist(), stored, strict=True)
            ]
        )

    def _held(self, space: str, address: int, size: int) -> bytes:
        if space == "global":
            found = self.plain.memory.plain(address, size)
        else:
            found = self.plain._local() if space == "LDS" else self.plain._gds
        return b"" if found is None else bytes(found.view[address - found.base : address - found.base + size])

    def scalar_access(self, access: str, space: str, address: int, size: int) -> None:
        """Report an access by a scalar instruction to the race detector."""
        space = SPACES.get(space, "")
        if not space:
            return
        if access == LOAD and self.insn.pc in self.swap_loops.present.pcs:
            return
        place = np.array([address], np.uint64)
        self.detector.check_access(self.wave, self.insn, access, space, place, size, None)
        if self.lanes is not None and access == LOAD:  # stores of the wave itself belong to no lane
            lanes = self.current.lanes_where(None)
            two = lanes[[0, -1]] if len(lanes) else lanes  # the first and last lane stand for all
            self._check_lanes(self.lanes, access, space, np.repeat(place, len(two)), size, two, (), False)


def _those(chosen: Array, addresses: Places, lanes: Indices) -> tuple[Places, Indices]:
    """Return the addresses that the mask `chosen` selects, and the lanes that access them."""
    return (addresses, lanes) if chosen.all() else (addresses[chosen], lanes[chosen])
