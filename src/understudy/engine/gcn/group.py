"""Work-groups on the reference engine: first machine state of waves, turns, barriers, step limits."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Protocol

import numpy as np
import numpy.typing as npt

from understudy.core.errors import UnderstudyError
from understudy.core.limits import note_interrupt
from understudy.core.order import Arbiter
from understudy.engine.gcn.api import NOWHERE, Dispatch, Statistics, StepLimit
from understudy.isa.gcn.state import (
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
    Wave,
    aligned,
)
from understudy.isa.gcn.target import GFX9

if TYPE_CHECKING:
    from understudy.engine.gcn.marks.marking import Marking
    from understudy.engine.gcn.reference.lanes import View


class Runner(Protocol):
    """What executes instructions."""

    def view(self, wave: Wave) -> View:
        """The handles of a wave."""

    def begin_group(self, group: int) -> None:
        """Waves of this group of the dispatch are next."""

    def run(self, view: View, count: int) -> int:
        """Execute until the wave waits or ends, at most `count` instructions; how many retired."""


def start_wave(
    dispatch: Dispatch, wave: Wave, group: int, number: int, slot: int, lds: int, *, is_blank: bool = False
) -> None:
    """Put wave `number` of group `group` into its first state, with private memory `slot` and LDS at host `lds`.

    The engine's own words of the block are left alone. `is_blank`: all registers are 0 so far.
    """
    shapes = dispatch.shapes
    x, y, z, shape = dispatch.groups[group].tolist()
    undefined = 0 if dispatch.poison is None else dispatch.poison
    if undefined or not is_blank:
        wave.vgpr[:] = undefined
    first = shapes.vgprs[shape, number]
    wave.vgpr[: len(first)] = first
    _start_registers(dispatch, wave, (x, y, z), number, int(shapes.waves[shape]), slot)
    wave.set_s64(EXEC, int(shapes.execs[shape, number]))
    words = wave.words
    words[:ENGINE] = 0
    words[PC] = dispatch.entry
    words[MODE] = dispatch.mode
    words[STATUS] = RUNNING
    words[HW_ID] = number & 0xF | (number >> 4 & 3) << 4
    words[LDS_BASE] = lds
    words[LDS_SIZE] = dispatch.lds_bytes if dispatch.lds_asked is None else dispatch.lds_asked
    words[SHARED_BASE] = dispatch.shared_base
    words[PRIVATE_BASE] = dispatch.private_base
    words[SCRATCH_AT] = dispatch.scratch_base + slot * dispatch.scratch_wave_bytes
    words[SCRATCH_SIZE] = dispatch.scratch_lane_bytes
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
    if dispatch.m0 is not None:
        sgpr[M0] = dispatch.m0


LOOK_STEPS: Final = 256
"""Instructions between looks at what may end the waves: an atomic of 64 lanes takes some 0.1 ms."""
_DOING: Final = {RUNNING: "ran", AT_BARRIER: "waited at a barrier", ENDED: "ended"}


class _Below(threading.local):
    """Of one thread: kernels in whose time others run there just now."""

    def __init__(self) -> None:
        self.lend: list[Callable[[], None]] = []
        """What lets each of them go on for a moment, the earliest first."""


_BELOW: Final = _Below()


def look(dispatch: Dispatch, wave: Wave, began: float, lend: Callable[[], None] | None = None) -> float:
    """End the waves of a dispatch if they must not go on; the error tells where this one is, and what it did last.

    Then others have their time (`Watch.pass_time`). They may wait for these waves: `lend` lets them go on for a moment,
    as it does with those in whose time these run. How many seconds all that took.
    """

    def doing() -> str:
        words = wave.words
        retired, slept = int(words[RETIRED]), int(words[SLEPT])
        return f"the wave {_DOING[int(words[STATUS])]}, {retired} instructions so far, {slept} of them pauses"

    try:
        dispatch.watch.look(began, doing, dispatch.step_limit)
    except UnderstudyError as error:
        raise error.at("pc", wave.pc) from None
    earlier = tuple(_BELOW.lend)
    if lend is None:
        away = dispatch.watch.pass_time()
    else:
        _BELOW.lend.append(lend)
        try:
            away = dispatch.watch.pass_time()
        finally:
            _BELOW.lend.pop()
    if not earlier:
        return away
    before = time.monotonic()
    for each in earlier:
        each()
    return away + time.monotonic() - before


class Groups:
    """Runs the groups of a dispatch one after the other; the waves of a group take turns.

    Without a seed each wave in its order runs `turn` instructions at most before the next; with one, order and length
    of turns are drawn anew each time around. A barrier opens when every wave that has not ended waits there.
    """

    def __init__(self, dispatch: Dispatch, runner: Runner) -> None:
        self.dispatch = dispatch
        self.runner = runner
        self.statistics = Statistics()
        self.lds: npt.NDArray[np.uint8] = aligned(max(dispatch.lds_bytes, 1))
        kinds = 0 if dispatch.marks is None else len(dispatch.marks.kinds)
        self._lds_marks = [aligned(max(dispatch.lds_bytes, 1)) for _ in range(kinds)]
        self._views: list[View] = []
        self._began = time.monotonic()
        self._running: tuple[list[View], int] = [], 0
        self._lent_error: UnderstudyError | None = None

    def run(self) -> Statistics:
        """Run all groups to their end."""
        self._began = time.monotonic()
        if self.dispatch.marks is not None:
            self.dispatch.marks.follow()
        for group in range(len(self.dispatch.groups)):
            self.run_group(group)
        return self.statistics

    def run_group(self, group: int) -> None:
        """Run one group to its end; errors name the wave and the work-group."""
        views = self._start(group)
        self.runner.begin_group(group)
        x, y, z, _ = self.dispatch.groups[group].tolist()
        self._latest = views[0]
        failed = None
        try:
            self._turns(views, group)
        except UnderstudyError as error:
            failed = self._latest.wave.index
            if self.dispatch.barriers is not None:
                waves = [view.wave for view in views]
                self.dispatch.barriers.fails(self.dispatch, group, waves, self._latest.wave, error)
            raise error.at("work-group", f"{x},{y},{z}") from None
        except BaseException as cause:
            words, index = self._latest.words, self._latest.wave.index
            note_interrupt(cause, ("pc", f"{words[PC]:#x}"), ("wave", index), ("work-group", f"{x},{y},{z}"))
            raise
        finally:
            self.statistics.instructions += sum(view.words[RETIRED] for view in views)
            self.statistics.interpreted = self.statistics.instructions
            if self.dispatch.waves is not None:
                counts = [int(view.words[RETIRED]) for view in views]
                self.dispatch.waves.over(group, [view.wave for view in views], counts, failed)
        self.statistics.waves += len(views)
        self.statistics.groups += 1

    def _arbiter(self, group: int) -> Arbiter:
        # Each group has its own, so that its order depends neither on other groups nor on threads.
        seed = self.dispatch.seed
        return Arbiter(None if seed is None else seed + group)

    def _start(self, group: int) -> list[View]:
        dispatch = self.dispatch
        count = int(dispatch.shapes.waves[dispatch.groups[group, 3]])
        while len(self._views) < count:
            wave = Wave(index=len(self._views))
            wave.twins = tuple(Wave() for _ in self._lds_marks)
            self._views.append(self.runner.view(wave))
        self.lds[: dispatch.lds_bytes & ~3].view(np.uint32)[:] = dispatch.poison or 0
        for number, view in enumerate(self._views[:count]):
            start_wave(dispatch, view.wave, group, number, number, int(self.lds.ctypes.data))
        if dispatch.marks is not None:
            self._start_marks(dispatch, dispatch.marks, count)
        return self._views[:count]

    def _start_marks(self, dispatch: Dispatch, marking: Marking, count: int) -> None:
        from understudy.engine.gcn.marks.launch import first_byte, start_twins  # few programs ask for checks

        for kind, marks in zip(marking.kinds, self._lds_marks, strict=True):
            marks[:] = first_byte(kind)
        lds = tuple(int(marks.ctypes.data) for marks in self._lds_marks)
        for number, view in enumerate(self._views[:count]):
            start_twins(dispatch, view.wave, number, lds)

    def _turns(self, views: list[View], group: int) -> None:
        arbiter = self._arbiter(group)
        self._running = views, group
        while ready := self._ready(views, group):
            for view in arbiter.order(ready):
                self._turn(view, arbiter)

    def _ready(self, views: list[View], group: int) -> list[View]:
        """Waves that can run; where all wait at a barrier, it opens. None where all have ended."""
        ready = [view for view in views if view.words[STATUS] == RUNNING]
        if not ready:
            ready = [view for view in views if view.words[STATUS] == AT_BARRIER]
            if ready and self.dispatch.barriers is not None:
                self.dispatch.barriers.opens(self.dispatch, group, [view.wave for view in views])
            for view in ready:
                view.words[STATUS] = RUNNING
        return ready

    def _lend(self) -> None:
        """Go on for a moment in the time of a later kernel, which may wait for this one: see `look`."""
        if self._lent_error is not None:
            return
        for view in self._ready(*self._running):
            words = view.words
            left = self.dispatch.most_steps - words[RETIRED] + words[SLEPT]
            try:
                self.runner.run(view, min(LOOK_STEPS, left))
            except UnderstudyError as error:
                self._lent_error = error.at("wave", view.wave.index)
                return

    def _turn(self, view: View, arbiter: Arbiter) -> None:
        limit, words = self.dispatch.most_steps, view.words
        length = self.dispatch.turn
        if arbiter.seed is not None:
            length = arbiter.pick(range(1, length + 1))
        self._latest = view
        try:
            while length > 0:
                self._began += look(self.dispatch, view.wave, self._began, self._lend)
                if self._lent_error is not None:
                    error, self._lent_error = self._lent_error, None
                    raise error
                part, slept = min(length, LOOK_STEPS), words[SLEPT]
                done = self.runner.run(view, min(part, limit - words[RETIRED] + words[SLEPT]))
                length -= done
                if words[RETIRED] - words[SLEPT] >= limit and words[STATUS] == RUNNING:
                    raise StepLimit.of(self.dispatch).at("pc", words[PC])
                if done < part or words[SLEPT] != slept:
                    return
        except UnderstudyError as error:
            raise error.at("wave", view.wave.index) from None
