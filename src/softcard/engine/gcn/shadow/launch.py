"""The initial shadow of waves on all engines.

Registers that the launch initialises are defined, all others are undefined."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from softcard.core.checks import INIT
from softcard.engine.gcn.api import NOWHERE, Dispatch
from softcard.engine.gcn.jit import layout
from softcard.engine.gcn.jit.layout import SHADOW_DISTANCE
from softcard.engine.gcn.shadow.device_shadow import DeviceShadow
from softcard.isa.gcn.state import (
    FLAT_AT,
    FLAT_BASE,
    FLAT_FORM,
    FLAT_SCRATCH,
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

SHADOWED: Final = 0xFFFF_FFFF
FULL: Final = (1 << 64) - 1
SHARED_WORDS: Final = (
    MODE, LDS_SIZE, SHARED_BASE, PRIVATE_BASE, SCRATCH_AT, SCRATCH_SIZE, FLAT_FORM, FLAT_BASE,
)  # fmt: skip
"""The words that a wave's shadow state shares with the wave's state, such as addresses of memory.

Shadow memory has the addresses of the memory that it belongs to.
"""


def first_byte(kind: str) -> int:
    """Return the initial shadow byte of memory that a launch does not initialise, for the shadow `kind`.

    It is 0xFF (undefined) for `init`, and 0 for other kinds."""
    return 0xFF if kind == INIT else 0


def first_scalars(dispatch: Dispatch, kind: str) -> npt.NDArray[np.uint32]:
    """Return the initial shadow of a wave's scalar registers, for a kind of shadow."""
    found = np.full(SGPRS, SHADOWED if kind == INIT else 0, np.uint32)
    found[: len(dispatch.sgprs)] = 0
    for register in (*dispatch.group_id_sgprs, dispatch.group_info_sgpr, dispatch.wave_offset_sgpr):
        if register != NOWHERE:
            found[register] = 0
    if dispatch.m0 is not None:
        found[M0] = 0
    if dispatch.sets_flat_scratch:
        low = FLAT_SCRATCH[dispatch.target.level]
        found[low : low + 2] = 0
    return found


def start_shadows(dispatch: Dispatch, device_shadow: DeviceShadow, wave: Wave, slot: int, lds: Sequence[int]) -> None:
    """Initialise the shadows of a wave's registers and private memory.

    `slot` is the number of the wave's private memory. `lds` has the host address of the shadow of LDS for each kind of
    shadow.
    """
    for kind, shadow_memory, shadow, share_at in zip(
        device_shadow.kinds, device_shadow.shadow_memories, wave.shadows, lds, strict=True
    ):
        shadow.words[LDS_BASE], shadow.words[LDS_SIZE] = share_at, wave.words[LDS_SIZE]
        shadow.vgpr[:] = SHADOWED if kind == INIT else 0
        shadow.vgpr[: dispatch.shapes.vgprs.shape[2]] = 0
        if dispatch.target.matrix:
            shadow.acc[:] = SHADOWED if kind == INIT else 0
        shadow.sgpr[:] = first_scalars(dispatch, kind)
        shadow.words[SCC] = kind == INIT
        if kind == INIT and dispatch.scratch_lane_bytes:
            size = dispatch.scratch_wave_bytes
            shadow_memory.set_shadow(dispatch.scratch_base + slot * size, size - dispatch.scratch_gap)


class WaveShadowStarts:
    """The initial shadow state of the waves that one host thread runs, for the compiled scheduler.

    `address` is the host address of an array of `tiered.native_scheduler.ShadowStart`, one for each kind of
    shadow. `first_slot` is the number of the first wave's private memory."""

    def __init__(self, dispatch: Dispatch, device_shadow: DeviceShadow, waves: Sequence[Wave], first_slot: int) -> None:
        self.rows = np.zeros((len(device_shadow.kinds), 5), np.uint64)
        self.address = int(self.rows.ctypes.data)
        self._dispatch, self._device_shadow, self._first_slot = dispatch, device_shadow, first_slot
        self._waves = waves
        self._alive: list[npt.NDArray[np.generic]] = []
        self._parts: list[npt.NDArray[np.uint64]] = []
        for number, kind in enumerate(device_shadow.kinds):
            lds, sgprs = aligned(max(dispatch.lds_bytes, 1)), first_scalars(dispatch, kind)
            self._alive += [lds, sgprs]
            self.rows[number, :3] = first_byte(kind), lds.ctypes.data, sgprs.ctypes.data
            for wave in waves:
                own, words = wave.words, wave.shadows[number].words
                for word in SHARED_WORDS:
                    words[word] = own[word]
                words[LDS_BASE] = lds.ctypes.data
                words[FLAT_AT] = int(own[FLAT_AT]) - SHADOW_DISTANCE * (number + 1) & FULL
                words[layout.TABLES] = device_shadow.shadow_memories[number].tables_address
                words[layout.QUIET] = device_shadow.uses.quiet.ctypes.data
        self.place()

    def place(self) -> None:
        """Compute the addresses of the shadow of private memory; called before waves run."""
        dispatch = self._dispatch
        size = dispatch.scratch_wave_bytes if dispatch.scratch_lane_bytes else 0
        self._parts = []
        for row, shadow_memory in zip(self.rows, self._device_shadow.shadow_memories if size else (), strict=False):
            shadow_memory.follow(dispatch.memory)
            parts, ends = list[tuple[int, int]](), [0]
            for slot in range(self._first_slot, self._first_slot + len(self._waves)):
                at = dispatch.scratch_base + slot * size
                for found, offset, count in shadow_memory.parts(at, size - dispatch.scratch_gap):
                    parts.append((int(found.bytes.ctypes.data) + offset, count))
                ends.append(len(parts))
            arrays = np.array(parts, np.uint64), np.array(ends, np.uint64)
            self._parts += arrays
            row[3:] = [each.ctypes.data for each in arrays]
