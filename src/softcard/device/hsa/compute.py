"""The engine that runs a device's waves, and the checks of its memory, its packets and the host.

The device's settings name the engine and the checks.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, cast

from softcard.core.checks import SYNC
from softcard.core.errors import WireError
from softcard.core.findings import FindingLog
from softcard.core.settings import AUTO, FIRST, JIT, NOT_COUNTED, OPTIMISED, REFERENCE
from softcard.device.hsa.settings import Settings
from softcard.engine.gcn.api import CountingEngine, Dispatch, Engine, Statistics
from softcard.engine.gcn.hooks import NO_CHECKS, Check, Checks, Tracker
from softcard.engine.gcn.tiered.engine import JitEngine
from softcard.engine.gcn.tiered.translation import Tier

if TYPE_CHECKING:
    from softcard.device.hsa.fences import Fences
    from softcard.device.hsa.host_order import HostOrder
    from softcard.device.hsa.queues.aql_queue import Queue
    from softcard.engine.gcn.tracepoints import Tracepoints


TIERS: Final = {AUTO: None, FIRST: Tier.THREADED, OPTIMISED: Tier.OPTIMISED}
"""The tier of the engine for each value of the setting `tier`."""


def make_engine(
    name: str,
    tier: str = AUTO,
    threads: int | None = None,
    *,
    counting: bool = False,
    tracepoints: Tracepoints | None = None,
) -> Engine:
    """Return a new engine with the given `name`; raise `WireError` for an unknown name.

    With `tracepoints`, return the reference engine, which takes snapshots at these points.
    """
    if name not in (JIT, REFERENCE):
        raise WireError(f"engine is {name!r}, expected 'jit' or 'reference'")
    if tracepoints is not None:
        from softcard.engine.gcn.reference.tracepoints import TracepointEngine

        return TracepointEngine(tracepoints, counting)
    if name == REFERENCE:
        from softcard.engine.gcn.reference.engine import ReferenceEngine

        return ReferenceEngine(counting=counting)
    return JitEngine(threads, TIERS[tier], counting=counting)


class Compute:
    """The engine of one device, and the checks that observe it.

    `fences` are the cache operations of a memory that models caches (strict memory), or None for a coherent
    memory. With a strict memory, the engine is `fences.engine`. `checks` are the checks of the device's
    memory. `host_order` tracks the host's accesses; it is None if no check needs them."""

    def __init__(
        self,
        settings: Settings,
        fences: Fences | None,
        checks: Checks = NO_CHECKS,
        tracepoints: Tracepoints | None = None,
        host_order: HostOrder | None = None,
    ) -> None:
        self.fences = fences
        self.checks = checks
        self.tracepoints = tracepoints
        self.host_order = host_order
        self._settings = settings
        self._engine: Engine | None = None
        self._lock = threading.Lock()

    @property
    def engine(self) -> Engine:
        """The engine, which is created at its first use."""
        with self._lock:
            if self._engine is None:
                self._engine = self._make()
            return self._engine

    def _make(self) -> Engine:
        if self.fences is not None:
            return self.fences.engine
        settings, name = self._settings, JIT if self._settings.translates else REFERENCE
        counting = settings.count_instructions
        return make_engine(name, settings.tier, settings.threads, counting=counting, tracepoints=self.tracepoints)

    def instruction_counts(self) -> dict[int, int]:
        """Return the number of times that each instruction has retired, by address.

        Raise `WireError` if the device does not count instructions.
        """
        if not self._settings.count_instructions:
            raise WireError(NOT_COUNTED)
        counts = cast("CountingEngine", self.engine).instruction_counts()
        return self.checks.added_counts(counts)

    def run(self, dispatch: Dispatch, run: Callable[[Dispatch], Statistics] | None = None) -> Statistics:
        """Run the waves of `dispatch`. With a strict memory, store and report the findings afterwards.

        If `run` is given, it executes the whole dispatch instead of `Engine.run`."""
        engine = self._engine or self.engine
        try:
            if self.checks.every:
                return self.checks.run(dispatch, engine, run)
            return engine.run(dispatch) if run is None else run(dispatch)
        finally:
            if self.fences is not None:
                self.fences.report(self.fences.engine.findings)

    @contextmanager
    def concurrently(self) -> Iterator[None]:
        """Return a context in which dispatches can run inside another dispatch, on the calling thread only."""
        engine = self.engine
        if not isinstance(engine, JitEngine):
            yield
            return
        before, engine.is_concurrent = engine.is_concurrent, True
        try:
            yield
        finally:
            engine.is_concurrent = before

    def close(self) -> None:
        """Close the engine, which ends its threads."""
        if isinstance(self._engine, JitEngine):
            self._engine.close()


# ---- checks of packets and of the host -------------------------------------------------------------------------------
# The checks of a device that follow its packets and the host, beside those of waves.


Factory = Callable[[FindingLog, Sequence["Queue"]], Check]
"""A function that creates a check of the packets in a device's queues.

It imports the check's modules only when it is called, because few programs use checks.
"""


def packet_checks(names: Collection[str], log: FindingLog | None, queues: Sequence[Queue]) -> list[Check]:
    """Return the packet checks that are listed in `names`; they add findings to `log`."""
    return [] if log is None else [make(log, queues) for name, make in FACTORIES.items() if name in names]


def host_order(tracker: Tracker, is_host: Callable[[], bool]) -> HostOrder:
    """Return an object that passes the host's accesses and waits on to the race tracker `tracker`.

    `is_host` returns True if the calling thread belongs to the host, not to the device."""
    from softcard.device.hsa.host_order import HostOrder

    return HostOrder(tracker, is_host)


def _sync(log: FindingLog, queues: Sequence[Queue]) -> Check:
    from softcard.device.hsa.sync import PacketSync

    return PacketSync(log, queues)


FACTORIES: Final[dict[str, Factory]] = {SYNC: _sync}
"""The factories of packet checks, by name of the check."""
