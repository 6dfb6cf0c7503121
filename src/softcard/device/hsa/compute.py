"""The execution of a device's waves: the engine, the checks, and the reports of both."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any, Final, cast

from softcard.core.checks import having
from softcard.core.errors import WireError
from softcard.core.findings import Finding, FindingLog, Findings, Locators
from softcard.core.memory_check import guard_of
from softcard.core.settings import AUTO, FIRST, JIT, NOT_COUNTED, OPTIMISED, REFERENCE
from softcard.device.hsa.wave_events import WaveEvents
from softcard.engine.gcn.api import CountingEngine, Dispatch, Engine, Statistics
from softcard.engine.gcn.checks.registry import gcn_checks
from softcard.engine.gcn.hooks import Check, Checks, Tracker
from softcard.engine.gcn.tiered.engine import JitEngine
from softcard.engine.gcn.tiered.translation import Tier
from softcard.engine.gcn.tracepoints import Tracepoints
from softcard.engine.hooks import Executions

if TYPE_CHECKING:
    from softcard.core.lint import LintDesk
    from softcard.core.settings import KernelSettings
    from softcard.device.hsa.fences import Fences
    from softcard.device.hsa.host_order import HostOrder
    from softcard.device.hsa.queues.aql_queue import Queue
    from softcard.device.hsa.settings import Settings
    from softcard.engine.gcn.memory import GpuMemory


# ---- engines ---------------------------------------------------------------------------------------------------------


TIERS: Final = {AUTO: None, FIRST: Tier.THREADED, OPTIMISED: Tier.OPTIMISED}
"""The tier of the engine for each value of the setting `tier`."""
EngineFactory = Callable[[Tracepoints | None], Engine]
"""A function that returns the engine of a device, which takes snapshots of registers at the given tracepoints."""


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
        from softcard.engine.gcn.reference.engine import TracepointEngine

        return TracepointEngine(tracepoints, counting)
    if name == REFERENCE:
        from softcard.engine.gcn.reference.engine import ReferenceEngine

        return ReferenceEngine(counting=counting)
    return JitEngine(threads, TIERS[tier], counting=counting)


def own_engine(settings: Settings, fences: Fences | None, tracepoints: Tracepoints | None) -> Engine:
    """Return the engine of an HSA device, as its settings request: a new one, or that of a memory that models caches.

    `fences` are the cache operations of such a memory.
    """
    if fences is not None:
        return fences.engine
    name, counting = JIT if settings.translates else REFERENCE, settings.count_instructions
    return make_engine(name, settings.tier, settings.threads, counting=counting, tracepoints=tracepoints)


def chosen_engine(engine: Engine | str, settings: KernelSettings, tracepoints: Tracepoints | None) -> Engine:
    """Return the engine for a device whose user passes an engine, as an object or by name.

    Devices share an engine that is given by name, unless it counts instructions or takes snapshots at `tracepoints`.
    Raise `WireError` for an unknown name, and for an engine object if the settings require a new engine.
    """
    counting = settings.count_instructions
    if isinstance(engine, str):
        name = REFERENCE if engine == JIT and settings.counts_races_too else engine
        if not counting and tracepoints is None:
            return _shared_engine(name, settings.tier)
        return make_engine(name, settings.tier, counting=counting, tracepoints=tracepoints)
    if tracepoints is not None:
        raise WireError(
            "register snapshots require engine='reference' or 'jit', not an engine object: "
            "the device has to create the reference engine that takes them"
        )
    if not callable(getattr(engine, "run", None)):
        raise WireError(f"engine is {engine!r}, expected 'jit', 'reference' or an engine object")
    if counting:
        raise WireError(
            "count_instructions requires engine='jit' or 'reference', or an engine object made with counting=True"
        )
    return engine


_shared_engine: Final = cache(make_engine)


# ---- waves -----------------------------------------------------------------------------------------------------------


class Compute:
    """The execution of one device's waves: the engine, the checks around it, and the events of waves.

    `checks` are the checks of the device's memory, `events` emits events of waves, and `make` makes the engine at its
    first use. `fences` are the cache operations of a memory that models caches (strict memory), or None for a coherent
    memory. With a strict memory, the engine is `fences.engine`. `host_order` tracks the host's accesses; it is None if
    no check needs them."""

    def __init__(
        self,
        settings: KernelSettings,
        checks: Checks,
        events: WaveEvents,
        make: EngineFactory,
        *,
        fences: Fences | None = None,
        host_order: HostOrder | None = None,
    ) -> None:
        self.checks = checks
        self.fences = fences
        self.host_order = host_order
        self.events = events
        self._is_counting = settings.count_instructions
        self._make = make
        self._engine: Engine | None = None
        self._lock = threading.Lock()

    @property
    def engine(self) -> Engine:
        """The engine, which is made at its first use; it may be replaced between two launches."""
        with self._lock:
            if self._engine is None:
                self._engine = self._make(self.events.tracepoints)
            return self._engine

    @engine.setter
    def engine(self, engine: Engine) -> None:
        self._engine = engine

    def instruction_counts(self) -> dict[int, int]:
        """Return the number of times that each instruction has retired, by address; see `executions`."""
        return dict(self.executions().counts)

    def executions(self) -> Executions:
        """Return the executions of each instruction, by address.

        Raise `WireError` if the device does not count instructions.
        """
        if not self._is_counting:
            raise WireError(NOT_COUNTED)
        return self.checks.added_executions(cast("CountingEngine", self.engine).executions())

    def run(self, dispatch: Dispatch, run: Callable[[Dispatch], Statistics] | None = None) -> Statistics:
        """Run the waves of `dispatch`. With the setting ``coherence="strict"``, report the findings about fences.

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
        """Let dispatches run inside another dispatch, on the calling thread only, during the ``with`` block."""
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
        """Close the engine, which ends its threads. Only the owner of the engine may do this."""
        if isinstance(self._engine, JitEngine):
            self._engine.close()


# ---- reports ---------------------------------------------------------------------------------------------------------


class Reports:
    """The findings of one device's checks, and their way to the host: a log, symbolizers, and a queue of warnings."""

    def __init__(self, settings: KernelSettings, desk: LintDesk) -> None:
        self.findings: list[Any] = Findings()
        self.log = settings.log(self.findings)
        """The log that adds to `findings`; None if the device has no checks."""
        self.guard = guard_of(settings.checks, self.log)
        """The guard of allocations, which the device's heap and memory use; None if no check needs it."""
        self.locators = Locators()
        """The symbolizers, which map addresses in code to symbols and lines."""
        self._settings = settings
        if self.log is not None:
            self.log.namers.append(self.locators.complete)
            self.log.report_to(desk.found)

    @property
    def occurrences(self) -> int:
        """The number of occurrences of findings so far."""
        return 0 if self.log is None else self.log.occurrences

    def since(self, occurrences: int) -> tuple[Finding, ...]:
        """Return the findings that occurred since the number of occurrences was `occurrences`."""
        return () if self.log is None else self.log.since(occurrences)

    def checks_of(self, memory: GpuMemory) -> Checks:
        """Return new checks of the waves that access `memory`, as the settings request."""
        return gcn_checks(self._settings.checks, memory, self.log, self._settings.equal_stores)


# ---- checks of packets and of the host -------------------------------------------------------------------------------
# The checks of a device that follow its packets and the host, beside those of waves. The imports are local, because few
# programs use checks.


def packet_checks(names: Collection[str], log: FindingLog | None, queues: Sequence[Queue]) -> list[Check]:
    """Return the checks of packets that the checks `names` include; they add findings to `log`."""
    if log is None or not having(names, lambda kind: kind.follows_packets):
        return []
    from softcard.device.hsa.sync import PacketSync

    return [PacketSync(log, queues)]


def host_order(tracker: Tracker, is_host: Callable[[], bool]) -> HostOrder:
    """Return an object that passes the host's accesses and waits on to the race tracker `tracker`.

    `is_host` returns True if the calling thread belongs to the host, not to the device."""
    from softcard.device.hsa.host_order import HostOrder

    return HostOrder(tracker, is_host)
