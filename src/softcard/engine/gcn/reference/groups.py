"""Scheduling of work-groups on the reference engine: time slices of waves, barriers, step limits."""

from __future__ import annotations

import time
from typing import Protocol

import numpy as np
import numpy.typing as npt

from softcard.core.errors import SoftcardError
from softcard.core.limits import note_interrupt
from softcard.core.order import Arbiter
from softcard.engine.gcn.api import Dispatch, Statistics, StepLimit
from softcard.engine.gcn.group import POLL_STEPS, poll_watch, start_wave
from softcard.engine.gcn.hooks import Shadow
from softcard.engine.gcn.reference.lanes import View
from softcard.isa.gcn.state import AT_BARRIER, PC, RETIRED, RUNNING, SLEPT, STATUS, Wave, aligned


class Runner(Protocol):
    """The interface of an executor of instructions, as the scheduler of work-groups needs it."""

    def view(self, wave: Wave) -> View:
        """Return the view of a wave."""

    def begin_group(self, group: int) -> None:
        """Begin a work-group of the dispatch."""

    def run(self, view: View, count: int) -> int:
        """Execute at most `count` instructions until the wave waits or ends, and return the number that retired."""


class Groups:
    """The scheduler of a dispatch, which runs work-groups one after the other.

    The waves of a work-group run in time slices. Without a seed, they are scheduled round-robin, for at most `turn`
    instructions each. With a seed, the order and the length of time slices are drawn at random for each round. A
    barrier opens when every wave that has not ended waits there.
    """

    def __init__(self, dispatch: Dispatch, runner: Runner) -> None:
        self.dispatch = dispatch
        self.runner = runner
        self.statistics = Statistics()
        self.lds: npt.NDArray[np.uint8] = aligned(max(dispatch.lds_bytes, 1))
        shadow = dispatch.checks.shadow
        kinds = 0 if shadow is None else len(shadow.kinds)
        self._lds_shadows = [aligned(max(dispatch.lds_bytes, 1)) for _ in range(kinds)]
        self._views: list[View] = []
        self._began = time.monotonic()
        self._running: tuple[list[View], int] = [], 0
        self._borrowed_error: SoftcardError | None = None

    def run(self) -> Statistics:
        """Run all work-groups to their end."""
        self._began = time.monotonic()
        if self.dispatch.checks.shadow is not None:
            self.dispatch.checks.shadow.follow()
        for group in range(len(self.dispatch.groups)):
            self.run_group(group)
        return self.statistics

    def run_group(self, group: int) -> None:
        """Run one work-group to its end; errors name the wave and the work-group."""
        views = self._start(group)
        self.runner.begin_group(group)
        x, y, z, _ = self.dispatch.groups[group].tolist()
        self._latest = views[0]
        failed = None
        try:
            self._run_round_robin(views, group)
        except SoftcardError as error:
            failed = self._latest.wave.index
            if self.dispatch.checks.at_barriers:
                waves = [view.wave for view in views]
                self.dispatch.checks.group_fails(self.dispatch, group, waves, self._latest.wave, error)
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
        # Each group has its own, so that its order is independent of other groups and of threads.
        seed = self.dispatch.seed
        return Arbiter(None if seed is None else seed + group)

    def _start(self, group: int) -> list[View]:
        dispatch = self.dispatch
        count = int(dispatch.shapes.waves[dispatch.groups[group, 3]])
        while len(self._views) < count:
            wave = Wave(index=len(self._views))
            wave.shadows = tuple(Wave() for _ in self._lds_shadows)
            self._views.append(self.runner.view(wave))
        self.lds[: dispatch.lds_bytes & ~3].view(np.uint32)[:] = dispatch.poison or 0
        for number, view in enumerate(self._views[:count]):
            start_wave(dispatch, view.wave, group, number, number, int(self.lds.ctypes.data))
        if dispatch.checks.shadow is not None:
            self._start_shadow(dispatch, dispatch.checks.shadow, count)
        return self._views[:count]

    def _start_shadow(self, dispatch: Dispatch, shadow: Shadow, count: int) -> None:
        for kind, bits in zip(shadow.kinds, self._lds_shadows, strict=True):
            bits[:] = shadow.blank(kind)
        lds = tuple(int(bits.ctypes.data) for bits in self._lds_shadows)
        for number, view in enumerate(self._views[:count]):
            shadow.start_wave(dispatch, view.wave, number, lds)

    def _run_round_robin(self, views: list[View], group: int) -> None:
        arbiter = self._arbiter(group)
        self._running = views, group
        while ready := self._ready(views, group):
            for view in arbiter.order(ready):
                self._run_time_slice(view, arbiter)

    def _ready(self, views: list[View], group: int) -> list[View]:
        """Return the waves that can run; if all wait at a barrier, open it. Return an empty list if all have ended."""
        ready = [view for view in views if view.words[STATUS] == RUNNING]
        if not ready:
            ready = [view for view in views if view.words[STATUS] == AT_BARRIER]
            if ready and self.dispatch.checks.at_barriers:
                self.dispatch.checks.barrier_opens(self.dispatch, group, [view.wave for view in views])
            for view in ready:
                view.words[STATUS] = RUNNING
        return ready

    def _run_borrowed(self) -> None:
        """Run the waves of this kernel briefly while it is suspended; see `poll_watch`.

        Another kernel runs meanwhile on the thread, and may wait for this kernel."""
        if self._borrowed_error is not None:
            return
        for view in self._ready(*self._running):
            words = view.words
            left = self.dispatch.most_steps - words[RETIRED] + words[SLEPT]
            try:
                self.runner.run(view, min(POLL_STEPS, left))
            except SoftcardError as error:
                self._borrowed_error = error.at("wave", view.wave.index)
                return

    def _run_time_slice(self, view: View, arbiter: Arbiter) -> None:
        limit, words = self.dispatch.most_steps, view.words
        length = self.dispatch.turn
        if arbiter.seed is not None:
            length = arbiter.pick(range(1, length + 1))
        self._latest = view
        try:
            while length > 0:
                self._began += poll_watch(self.dispatch, view.wave, self._began, self._run_borrowed)
                if self._borrowed_error is not None:
                    error, self._borrowed_error = self._borrowed_error, None
                    raise error
                part, slept = min(length, POLL_STEPS), words[SLEPT]
                done = self.runner.run(view, min(part, limit - words[RETIRED] + words[SLEPT]))
                length -= done
                if words[RETIRED] - words[SLEPT] >= limit and words[STATUS] == RUNNING:
                    raise StepLimit.of(self.dispatch).at("pc", words[PC])
                if done < part or words[SLEPT] != slept:
                    return
        except SoftcardError as error:
            raise error.at("wave", view.wave.index) from None
