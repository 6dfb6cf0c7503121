"""First marks of waves on either engine: what a launch gives is not marked, what it says nothing of is undefined."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from understudy.core.checks import INIT
from understudy.engine.gcn.api import NOWHERE, Dispatch
from understudy.engine.gcn.jit import layout
from understudy.engine.gcn.jit.home import TWIN
from understudy.engine.gcn.marks.marking import Marking
from understudy.isa.gcn.state import (
    FLAT_AT,
    FLAT_BASE,
    FLAT_FORM,
    LDS_BASE,
    LDS_SIZE,
    M0,
    MODE,
    PRIVATE_BASE,
    SCC,
    SCRATCH_AT,
    SCRATCH_SIZE,
    SGPRS,
    SHARED_BASE,
    Wave,
    aligned,
)

MARKED: Final = 0xFFFF_FFFF
FULL: Final = (1 << 64) - 1
SHARED_WORDS: Final = (
    MODE, LDS_SIZE, SHARED_BASE, PRIVATE_BASE, SCRATCH_AT, SCRATCH_SIZE, FLAT_FORM, FLAT_BASE,
)  # fmt: skip
"""Words that say where memory lies: there lie its marks."""


def first_byte(kind: str) -> int:
    """The marks of a byte that the launch says nothing of."""
    return 0xFF if kind == INIT else 0


def first_scalars(dispatch: Dispatch, kind: str) -> npt.NDArray[np.uint32]:
    """The marks of scalar registers when a wave begins."""
    found = np.full(SGPRS, MARKED if kind == INIT else 0, np.uint32)
    found[: len(dispatch.sgprs)] = 0
    for register in (*dispatch.group_id_sgprs, dispatch.group_info_sgpr, dispatch.wave_offset_sgpr):
        if register != NOWHERE:
            found[register] = 0
    if dispatch.m0 is not None:
        found[M0] = 0
    return found


def start_twins(dispatch: Dispatch, wave: Wave, slot: int, lds: Sequence[int]) -> None:
    """The first marks of a wave's registers and private memory; those of LDS are at host addresses `lds`."""
    marking = dispatch.marks
    assert marking is not None
    for kind, plane, twin, share_at in zip(marking.kinds, marking.planes, wave.twins, lds, strict=True):
        twin.words[LDS_BASE], twin.words[LDS_SIZE] = share_at, wave.words[LDS_SIZE]
        twin.vgpr[:] = MARKED if kind == INIT else 0
        twin.vgpr[: dispatch.shapes.vgprs.shape[2]] = 0
        twin.sgpr[:] = first_scalars(dispatch, kind)
        twin.words[SCC] = kind == INIT
        if kind == INIT and dispatch.scratch_lane_bytes:
            size = dispatch.scratch_wave_bytes
            plane.mark(dispatch.scratch_base + slot * size, size - dispatch.scratch_gap)


class MarkStarts:
    """What the compiled scheduler is told of first marks (`jit.native_start.MarkStart`), for the waves of one thread.

    `address` is that of one row for each kind. `first_slot` is the first of the waves' private memories.
    """

    def __init__(self, dispatch: Dispatch, marking: Marking, waves: Sequence[Wave], first_slot: int) -> None:
        self.rows = np.zeros((len(marking.kinds), 5), np.uint64)
        self.address = int(self.rows.ctypes.data)
        self._dispatch, self._marking, self._first_slot = dispatch, marking, first_slot
        self._waves = waves
        self._keep: list[npt.NDArray[np.generic]] = []
        self._parts: list[npt.NDArray[np.uint64]] = []
        for number, kind in enumerate(marking.kinds):
            lds, sgprs = aligned(max(dispatch.lds_bytes, 1)), first_scalars(dispatch, kind)
            self._keep += [lds, sgprs]
            self.rows[number, :3] = first_byte(kind), lds.ctypes.data, sgprs.ctypes.data
            for wave in waves:
                own, words = wave.words, wave.twins[number].words
                for word in SHARED_WORDS:
                    words[word] = own[word]
                words[LDS_BASE] = lds.ctypes.data
                words[FLAT_AT] = int(own[FLAT_AT]) - TWIN * (number + 1) & FULL
                words[layout.TABLES] = marking.planes[number].tables_address
                words[layout.QUIET] = marking.sights.quiet.ctypes.data
        self.place()

    def place(self) -> None:
        """Find out where the marks of private memory are: before waves run."""
        dispatch = self._dispatch
        size = dispatch.scratch_wave_bytes if dispatch.scratch_lane_bytes else 0
        self._parts = []
        for row, plane in zip(self.rows, self._marking.planes if size else (), strict=False):
            plane.follow(dispatch.memory)
            parts, ends = list[tuple[int, int]](), [0]
            for slot in range(self._first_slot, self._first_slot + len(self._waves)):
                at = dispatch.scratch_base + slot * size
                for found, offset, count in plane.parts(at, size - dispatch.scratch_gap):
                    parts.append((int(found.bytes.ctypes.data) + offset, count))
                ends.append(len(parts))
            arrays = np.array(parts, np.uint64), np.array(ends, np.uint64)
            self._parts += arrays
            row[3:] = [each.ctypes.data for each in arrays]
