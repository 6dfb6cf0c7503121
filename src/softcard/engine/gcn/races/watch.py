"""The check `races` of a device, which reports accesses that are not ordered with earlier conflicting ones.

Two accesses are ordered under each of these conditions: one wave makes both; a barrier of the work-group lies
between them; the wave that makes the later one has acquired (directly or transitively) a release that follows
the earlier one; or a packet of one kernel waits for the other kernel. Findings depend on these rules alone,
not on the order in which waves happened to run."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from softcard.core.checks import LANES, RACES
from softcard.core.errors import NoHostMemory
from softcard.core.findings import FindingLog
from softcard.core.space import host_address
from softcard.engine.gcn.hooks import FREE, LOAD, Check, Observer, Unordered
from softcard.engine.gcn.instrumentation import HookPoints, Instrumentation
from softcard.engine.gcn.launches import Launches
from softcard.engine.gcn.races.reporter import HostConflict, Reporter
from softcard.engine.gcn.races.swap_loops import SwapLoops
from softcard.engine.gcn.races.symbolic import Start
from softcard.engine.gcn.races.value_flow import ValueFlows

if TYPE_CHECKING:
    from softcard.engine.gcn.api import Dispatch
    from softcard.engine.gcn.memory import GpuMemory
    from softcard.engine.gcn.races.events import EventDetector
    from softcard.engine.gcn.races.lane_order import LaneOrder
    from softcard.engine.gcn.races.native_detector import NativeDetector, NativeGroup
    from softcard.engine.gcn.races.speculation import Part, Speculation
    from softcard.isa.gcn.insn import Insn

ATOMIC_BYTES: Final = 8
"""The maximum size, in bytes, of a host access that may read a flag by which a kernel reports completion."""


class RaceWatch(Check):
    """The race detector of one memory.

    With `equal_stores`, stores that leave memory unchanged are reported, too. With `lanes`, the lanes of each wave are
    checked against each other as well.
    """

    name = RACES

    def __init__(self, memory: GpuMemory, log: FindingLog, equal_stores: bool = False, lanes: bool = False) -> None:
        self.equal_stores = equal_stores
        self.launches = Launches()
        self.reporter = Reporter(memory, log)
        self._observes_lanes = lanes
        self.swap_loops = SwapLoops()
        self.flows = ValueFlows()
        self._signalled: dict[int, int] = {}
        """The index of the last launch begun before a packet or the host changed a signal's value, by signal."""

    @classmethod
    def of(cls, checks: Collection[str], memory: GpuMemory, log: FindingLog, equal_stores: bool = False) -> RaceWatch:
        """Return the race detector with the settings in `checks`.

        It checks lanes of a wave against each other if `checks` contains `lanes`. With `equal_stores`, stores that
        leave memory unchanged are reported, too.
        """
        return cls(memory, log, equal_stores, LANES in checks)

    @property
    def tracker(self) -> RaceWatch:
        """This object itself, as the tracker of the order of launches."""
        return self

    @property
    def instrumentation(self) -> Instrumentation:
        """The instrumentation of translated code, which makes the code report accesses."""
        points = HookPoints(order=True)
        if self._observes_lanes:
            return Instrumentation((RACES, LANES), points=points, accesses=_lane_hooks)
        return Instrumentation((RACES,), points=points, accesses=_hooks)

    def observer(self, dispatch: Dispatch, accesses: Any) -> Observer:
        """Return the observer that the reference engine calls for each instruction."""
        from softcard.engine.gcn.races.observer import RaceObserver  # imports the whole instruction set

        return RaceObserver(dispatch, self, accesses)

    def group(
        self, part: Part | None, groups: Any, most_waves: int, private: tuple[int, int], fetch: Callable[[int], Insn]
    ) -> NativeGroup:
        """Return the state through which compiled code reports accesses of a thread's work-groups.

        `part` is the shadow memory of a speculative thread; None selects the detector's own. For the other parameters
        see `NativeDetector.group`.
        """
        made = (part or self.native).group(groups, most_waves, private, fetch)
        if self.lanes is not None:
            self.lanes.attach(made.rows, part)
        return made

    @cached_property
    def lanes(self) -> LaneOrder | None:
        """The detector of races between lanes of one wave (check `lanes`), or None if it is off."""
        if not self._observes_lanes:
            return None
        from softcard.engine.gcn.races.lane_order import LaneOrder

        return LaneOrder(self.reporter, equal_stores=self.equal_stores)

    @cached_property
    def events(self) -> EventDetector:
        """The race detector for waves that run on the reference engine."""
        from softcard.engine.gcn.races.events import EventDetector

        return EventDetector(self.launches, self.reporter, self.flows, equal_stores=self.equal_stores)

    @cached_property
    def native(self) -> NativeDetector:
        """The race detector for waves that run on the JIT engine."""
        from softcard.engine.gcn.races.native_detector import NativeDetector

        made = NativeDetector(self.launches, self.reporter, self.flows, equal_stores=self.equal_stores)
        made.race.mailboxes, made.race.mailbox_bytes = self.reporter.mailboxes.start, len(self.reporter.mailboxes)
        return made

    @cached_property
    def speculation(self) -> Speculation | None:
        """The speculative executor of concurrent work-groups, or None if this process has too little address space."""
        from softcard.engine.gcn.races.speculation import Speculation

        with suppress(NoHostMemory):
            return Speculation(self.native, self.reporter.memory)
        return None

    def set_mailboxes(self, address: int, size: int) -> None:
        """Exclude the driver's mailboxes from race detection.

        Kernels send events to the driver by stores to these words, each followed by an interrupt. Such a store is
        atomic, although its instruction does not show that. The driver may clear the word at any time."""
        self.reporter.mailboxes = range(address, address + size)
        if "native" in vars(self):
            self.native.race.mailboxes, self.native.race.mailbox_bytes = address, size

    @contextmanager
    def running(self, dispatch: Start, fetch: Callable[[int], Insn], *, is_translated: bool) -> Iterator[None]:
        """Return a context in which an engine runs the waves of a dispatch.

        While they run, the race check ignores loads that only propose a value to a compare-and-swap (see
        `swap_loops`), and defers races of loads whose values may be unused (see `value_flow`). If another kernel runs
        inside the context, this applies again afterwards. At the end of the context, races that translated code has
        found are reported."""
        before, outer = self.swap_loops.present, self.flows.running
        try:
            self.swap_loops.follow(dispatch, fetch)
            self.flows.follow(dispatch, fetch)
            self._set_tables()
            try:
                with nullcontext() if self.lanes is None else self.lanes.running(fetch):
                    yield
            finally:
                self.swap_loops.present, self.flows.running = before, outer
                self._set_tables()
        finally:
            if is_translated:
                self.native.report(fetch)
        if is_translated:
            self.native.check()

    def _set_tables(self) -> None:
        """Give compiled code the tables of the running kernel's proposals and flows."""
        if "native" in vars(self):
            pcs = self.swap_loops.present.table
            self.native.race.proposals, self.native.race.proposal_count = host_address(pcs), len(pcs)
            self.native.set_flows()

    def begin(
        self,
        queue: int = 0,
        packet: int = 0,
        seen: Mapping[int, int] | None = None,
        done: Mapping[int, int] | None = None,
        *,
        is_stream: bool = False,
    ) -> None:
        """Record the start of a kernel that a packet of a queue dispatches.

        `seen` has, for each queue, the number of packets submitted so far; if it is None, everything later is ordered
        after this kernel. `done` has, for each queue, the number of completed packets; if it is None, all packets
        submitted before this kernel count as completed. `is_stream` is True if a run-time library uses the queue for
        streams."""
        is_alone = self.launches.begin(queue, packet, seen, done, is_stream=is_stream)
        if is_alone or any(detector.is_full for detector in self._detectors()):
            self._forget()
        for detector in self._detectors():
            detector.clocks.begin()

    @contextmanager
    def kernel(
        self,
        queue: int,
        packet: int,
        seen: Mapping[int, int],
        done: Mapping[int, int] | None = None,
        *,
        is_stream: bool = False,
    ) -> Iterator[None]:
        """Return a context that records a kernel from its start to its end; `begin` describes the arguments.

        Kernels recorded inside the context run concurrently with this kernel and are not ordered with it."""
        outer = self.launches.running[-1:]
        paused = [detector.paused() for detector in self._detectors()] if outer else []
        self.begin(queue, packet, seen, done, is_stream=is_stream)
        self.launches.running.append(self.launches.present)
        try:
            yield
        finally:
            self.launches.running.pop()
            for each in outer:
                self.launches.present = each
            for go_on in paused:
                go_on()

    def wait(self, queue: int, *, for_all: bool) -> None:
        """Record that a packet has waited for earlier packets: of all queues if `for_all`, else of its own queue."""
        self.launches.wait(queue, for_all=for_all)

    def read_by_packet(self, queue: int, index: int, signal: int, address: int, size: int) -> bool:
        """Record that packet `index` of a queue has waited for a signal and read its value.

        The value is `size` bytes at `address`. Everything that the store of the value released happens before later
        packets of the queue. Return True if that store belongs to a launch that began after the packet was submitted,
        and if neither a packet nor the host has changed the signal since."""
        latest = max(
            (detector.read_by_packet(queue, index, address, size) for detector in self._detectors()), default=0
        )
        return latest > self._signalled.get(signal, 0)

    def signalled(self, signal: int) -> None:
        """Record that a packet or the host now changes a signal's value.

        Launches that begin later cannot have caused this change."""
        self._signalled[signal] = self.launches.latest

    def forget(self) -> None:
        """Forget all accesses: they happened before everything that runs next."""
        self.launches.forget()
        self._forget()

    def host(self, access: str, address: int, size: int) -> set[int]:
        """Check a host access (read, write or free) against launches that the host has not waited for; report races.

        Return the numbers of the launches that notified the host: they stored the value that the host reads, by an
        atomic store or by a store that may be atomic."""
        found = self.unordered(access, address, size)
        flags = [conflict for conflict in found if conflict.is_atomic and size <= ATOMIC_BYTES and access != FREE]
        notified = {conflict.launch for conflict in flags if access == LOAD}
        for conflict in found:
            if conflict not in flags and conflict.launch not in notified:
                self.reporter.report_host(access, conflict)
        return notified

    def report_unordered(self, access: str, other: Unordered, *, is_exact: bool) -> None:
        """Report a race between an access by the host and the access `other`, which `unordered` returned."""
        assert isinstance(other, HostConflict)
        self.reporter.report_host(access, other if is_exact else replace(other, size=0))

    def report_copy(self, access: str, other: str, address: int, size: int, memory: str) -> None:
        """Report a race between an access by the host and one by a copy engine."""
        self.reporter.report_copy(access, other, address, size, memory)

    def unordered(self, access: str, address: int, size: int) -> list[HostConflict]:
        """Return the kernel accesses that race with an access by the host.

        They belong to launches that the host has not waited for.
        """
        return [
            conflict for detector in self._detectors() for conflict in detector.host_conflicts(access, address, size)
        ]

    def _detectors(self) -> list[EventDetector | NativeDetector]:
        """Return the race detectors that are in use so far."""
        return [vars(self)[name] for name in ("events", "native") if name in vars(self)]

    def _forget(self) -> None:
        self._signalled.clear()
        for detector in self._detectors():
            detector.forget()


def _lane_hooks(*parts: Any) -> Any:
    from softcard.engine.gcn.races.emit_races import LaneOrderHooks  # imports the whole instruction set

    return LaneOrderHooks(*parts)


def _hooks(*parts: Any) -> Any:
    from softcard.engine.gcn.races.emit_races import RaceHooks  # imports the whole instruction set

    return RaceHooks(*parts)
