"""The initial machine state of waves, and the polling for requests that end them while they run."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from softcard.core.errors import SoftcardError
from softcard.engine.gcn.api import NOWHERE, Dispatch
from softcard.isa.gcn.state import (
    AT_BARRIER,
    ENDED,
    ENGINE,
    EXEC,
    FLAT_AT,
    FLAT_BASE,
    FLAT_FORM,
    FLAT_SCRATCH,
    FORM_ADDRESS,
    FORM_OFFSET,
    HW_ID,
    LDS_BASE,
    LDS_NOTE,
    LDS_SIZE,
    M0,
    MODE,
    PC,
    PRIVATE_BASE,
    RETIRED,
    RUNNING,
    SCRATCH_AT,
    SCRATCH_SIZE,
    SGPR_AT,
    SHARED_BASE,
    SLEPT,
    STATUS,
    XCC_AT,
    Wave,
)
from softcard.isa.gcn.target import GFX9

if TYPE_CHECKING:
    pass


def start_wave(
    dispatch: Dispatch, wave: Wave, group: int, number: int, slot: int, lds: int, *, is_blank: bool = False
) -> None:
    """Initialise wave `number` of group `group`.

    `slot` is the number of the wave's private memory, `lds` the host address of its LDS. The words of the
    wave's state that belong to the engine are unchanged. `is_blank` states that all registers are already 0."""
    shapes = dispatch.shapes
    x, y, z, shape = dispatch.groups[group].tolist()
    undefined = 0 if dispatch.poison is None else dispatch.poison
    if undefined or not is_blank:
        wave.vgpr[:] = undefined
        if dispatch.target.matrix:
            wave.acc[:] = undefined
    first = shapes.vgprs[shape, number]
    wave.vgpr[: len(first)] = first
    words = wave.words
    words[:ENGINE] = 0
    words[PC] = dispatch.entry
    words[MODE] = dispatch.mode
    words[STATUS] = RUNNING
    words[HW_ID] = number & 0xF | (number >> 4 & 3) << 4 | group % dispatch.xccs << XCC_AT
    words[LDS_BASE] = lds
    words[LDS_SIZE] = dispatch.lds_bytes if dispatch.lds_requested is None else dispatch.lds_requested
    words[LDS_NOTE] = int(dispatch.lds_note.ctypes.data)
    words[SHARED_BASE] = dispatch.shared_base
    words[PRIVATE_BASE] = dispatch.private_base
    words[SCRATCH_AT] = dispatch.scratch_base + slot * dispatch.scratch_wave_bytes
    words[SCRATCH_SIZE] = dispatch.scratch_lane_bytes
    _start_registers(dispatch, wave, (x, y, z), number, int(shapes.waves[shape]), slot)
    wave.set_s64(EXEC, int(shapes.execs[shape, number]))
    if dispatch.hidden_private_base is not None:
        words[FLAT_FORM] = FORM_ADDRESS if dispatch.target.level == GFX9 else FORM_OFFSET
        words[FLAT_AT] = SGPR_AT + 4 * FLAT_SCRATCH[dispatch.target.level]
        words[FLAT_BASE] = dispatch.hidden_private_base


def _start_registers(
    dispatch: Dispatch, wave: Wave, ids: tuple[int, int, int], number: int, waves: int, slot: int
) -> None:
    sgpr = wave.sgpr
    sgpr[:] = 0 if dispatch.poison is None else dispatch.poison
    sgpr[: len(dispatch.sgprs)] = dispatch.sgprs
    for register, value in zip(dispatch.group_id_sgprs, ids, strict=True):
        if register != NOWHERE:
            sgpr[register] = value
    if dispatch.group_info_sgpr != NOWHERE:
        sgpr[dispatch.group_info_sgpr] = (number == 0) << 31 | waves
    if dispatch.wave_offset_sgpr != NOWHERE:
        sgpr[dispatch.wave_offset_sgpr] = slot * dispatch.scratch_wave_bytes
    if dispatch.sets_flat_scratch:
        wave.set_s64(FLAT_SCRATCH[dispatch.target.level], int(wave.words[SCRATCH_AT]))
    if dispatch.m0 is not None:
        sgpr[M0] = dispatch.m0


POLL_STEPS: Final = 256
"""The number of instructions between polls of the watch. An atomic of 64 lanes takes some 0.1 ms."""
_DOING: Final = {RUNNING: "was running", AT_BARRIER: "was waiting at a barrier", ENDED: "had ended"}


class _Below(threading.local):
    """The kernels that are suspended on one thread while a kernel that started later runs on the thread."""

    def __init__(self) -> None:
        self.run_borrowed: list[Callable[[], None]] = []
        """For each suspended kernel, the earliest first, a function that runs its waves for a moment."""


_BELOW: Final = _Below()


def poll_watch(dispatch: Dispatch, wave: Wave, began: float, run_borrowed: Callable[[], None] | None = None) -> float:
    """Poll the dispatch's watch, which may end its waves with an error; then let other kernels run on this thread.

    The error contains the pc of `wave` and its progress; `began` is the time at which the dispatch began.
    `Watch.pass_time` runs the other kernels. While one of them waits for waves of this dispatch, it calls
    `run_borrowed`, which runs these waves for a short time. This kernel may itself have been started inside the
    `Watch.pass_time` of suspended kernels. Then this function also runs the waves of each suspended kernel for
    a short time. Return the time in seconds that was spent on other kernels."""

    def doing() -> str:
        words = wave.words
        retired, slept = int(words[RETIRED]), int(words[SLEPT])
        return f"the wave {_DOING[int(words[STATUS])]} after {retired} instructions, {slept} of them s_sleep"

    try:
        dispatch.watch.poll(began, doing, dispatch.step_limit)
    except SoftcardError as error:
        raise error.at("pc", wave.pc) from None
    earlier = tuple(_BELOW.run_borrowed)
    if run_borrowed is None:
        away = dispatch.watch.pass_time()
    else:
        _BELOW.run_borrowed.append(run_borrowed)
        try:
            away = dispatch.watch.pass_time()
        finally:
            _BELOW.run_borrowed.pop()
    if not earlier:
        return away
    before = time.monotonic()
    for each in earlier:
        each()
    return away + time.monotonic() - before
