"""What runs the waves of a device: the engine that its settings name."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, cast

from understudy.core.errors import WireError
from understudy.core.settings import AUTO, FIRST, NOT_COUNTED, OPTIMISED
from understudy.device.hsa.settings import Settings
from understudy.engine.gcn.api import CountingEngine, Dispatch, Engine, Statistics
from understudy.engine.gcn.jit.engine import JitEngine
from understudy.engine.gcn.jit.tier import Tier

if TYPE_CHECKING:
    from understudy.device.hsa.fences import Fences
    from understudy.device.hsa.host_order import HostOrder
    from understudy.engine.gcn.barriers import Barriers
    from understudy.engine.gcn.marks.check import MarkCheck
    from understudy.engine.gcn.moments import Moments
    from understudy.engine.gcn.races.watch import RaceWatch
    from understudy.engine.gcn.waits.checker import WaitChecker

TIERS: Final = {AUTO: None, FIRST: Tier.THREADED, OPTIMISED: Tier.OPTIMISED}
"""Those of the engine by the setting's words."""


class Compute:
    """The engine of one device. `fences` are those of a strict memory, whose engine is theirs; None: it is coherent.

    `marks`: what looks after marks, for the checks that need them; `waits`: what looks at waits, `barriers`: at
    barriers; `races`: what looks for races, `host_order`: at the host's part in them.
    """

    def __init__(
        self,
        settings: Settings,
        fences: Fences | None,
        marks: MarkCheck | None = None,
        waits: WaitChecker | None = None,
        barriers: Barriers | None = None,
        races: RaceWatch | None = None,
        moments: Moments | None = None,
        host_order: HostOrder | None = None,
    ) -> None:
        self.fences = fences
        self.marks = marks
        self.waits = waits
        self.barriers = barriers
        self.races = races
        self.moments = moments
        self.host_order = host_order
        self._settings = settings
        self._engine: Engine | None = None
        self._lock = threading.Lock()

    @property
    def engine(self) -> Engine:
        """What runs waves; made when it is first needed."""
        with self._lock:
            if self._engine is None:
                self._engine = self._make()
            return self._engine

    def _make(self) -> Engine:
        if self.fences is not None:
            return self.fences.engine
        if self.moments is not None:
            from understudy.engine.gcn.reference.moments import MomentEngine

            return MomentEngine(self.moments, self._settings.count_instructions)
        if not self._settings.translates:
            from understudy.engine.gcn.reference.engine import ReferenceEngine

            return ReferenceEngine(counting=self._settings.count_instructions)
        tier, counting = TIERS[self._settings.tier], self._settings.count_instructions
        return JitEngine(self._settings.threads, tier, counting=counting)

    def instruction_counts(self) -> dict[int, int]:
        """How often each instruction has retired, by address; `WireError` where they are not counted."""
        if not self._settings.count_instructions:
            raise WireError(NOT_COUNTED)
        counts = cast("CountingEngine", self.engine).instruction_counts()
        return counts if self.waits is None else self.waits.added(counts)

    def run(self, dispatch: Dispatch) -> Statistics:
        """Run the waves of a dispatch; what a strict memory finds is kept, and told."""
        engine = self._engine or self.engine
        try:
            return engine.run(dispatch)
        finally:
            if self.marks is not None:
                self.marks.tell(dispatch)
            if self.fences is not None:
                self.fences.tell(self.fences.engine.findings)

    def checked(self, dispatch: Dispatch) -> Statistics | None:
        """Run a dispatch whose waits have to be looked at; None where `run` may, as ever."""
        if self.waits is None:
            return None
        try:
            return self.waits.run(dispatch, self.engine)
        finally:
            if self.marks is not None:
                self.marks.tell(dispatch)

    def forget(self) -> None:
        """The device is in another state: what runs next comes after all that ran."""
        if self.host_order is not None:
            self.host_order.saw_all()
        if self.races is not None:
            self.races.forget()

    @contextmanager
    def beside(self) -> Iterator[None]:
        """What runs in here does so in the time of a dispatch that is not over: on the calling thread alone."""
        engine = self.engine
        if not isinstance(engine, JitEngine):
            yield
            return
        before, engine.is_beside = engine.is_beside, True
        try:
            yield
        finally:
            engine.is_beside = before

    def close(self) -> None:
        """End its threads."""
        if isinstance(self._engine, JitEngine):
            self._engine.close()
