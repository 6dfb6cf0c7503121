"""The waves of a device: their messages and traps, and events about them.

If the settings enable it, events report the start and the end of waves, and snapshots of their registers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from softcard.core.device import Telemetry
from softcard.core.errors import GuestFault
from softcard.core.event import Event, made_quickly
from softcard.device.hsa import rules
from softcard.device.hsa.events import Trapped
from softcard.device.hsa.launch.plan import read_plan
from softcard.device.hsa.memory.device_memory import AgentState
from softcard.device.hsa.queues.aql_queue import Queue
from softcard.device.hsa.queues.records import QueueProperties
from softcard.engine.gcn.api import Dispatch, Statistics
from softcard.engine.gcn.memory import GpuMemory
from softcard.engine.gcn.tracepoints import Tracepoints
from softcard.engine.gcn.wave_log import WaveLog
from softcard.isa.gcn.state import EXEC, M0, Wave
from softcard.isa.gcn.target import Target

if TYPE_CHECKING:
    from softcard.engine.gcn.tracepoints import Snapshot


@made_quickly
@dataclass(frozen=True, slots=True)
class WaveStarted(Event):
    """The event of the start of wave `wave` of work-group `group` of packet `index` of a queue.

    For programs of AMD OpenCL 2.0, queue and packet are None.
    """

    queue: int | None
    index: int | None
    group: tuple[int, int, int]
    wave: int


@made_quickly
@dataclass(frozen=True, slots=True)
class WaveEnded(Event):
    """The event of the end of a wave, which has ``ended``, ``failed``, or was ``stopped`` when another wave failed.

    `instructions` is the number of instructions that the wave executed. Times are as if work-groups ran one after
    the other, and the waves of a work-group in time slices of one instruction."""

    queue: int | None
    index: int | None
    group: tuple[int, int, int]
    wave: int
    how: str
    instructions: int | None


@dataclass(frozen=True, slots=True)
class WavesLeftOut(Event):
    """The event with the number of waves of packet `index` for which no events were emitted.

    These waves exceed the limit in the setting `trace_waves`."""

    queue: int | None
    index: int | None
    waves: int


KINDS = (WaveStarted, WaveEnded, WavesLeftOut)


class WaveEmitter:
    """The emitter of events about the waves of launches, for at most `most` waves of each launch.

    It emits nothing if `most` is 0 or if there are no listeners.
    """

    def __init__(self, telemetry: Telemetry, most: int) -> None:
        self._telemetry = telemetry
        self._most = most

    def follow(self, dispatch: Dispatch) -> Dispatch:
        """Return a copy of `dispatch`, which is about to run, with a log of its waves.

        Return `dispatch` itself if no wave events are to be emitted."""
        if not self._most or not self._telemetry.wants(*KINDS):
            return dispatch
        counts = dispatch.shapes.waves[dispatch.groups[:, 3]]
        return replace(dispatch, waves=WaveLog(counts, self._most))

    def emit(self, dispatch: Dispatch, queue: int | None = None, index: int | None = None) -> None:
        """Emit the wave events of `dispatch` after it has run or failed.

        `queue` and `index` identify its packet, if it has one.
        """
        if dispatch.waves is not None:
            begin = self._telemetry.clock()
            self._telemetry.probes.emit_all(_events(dispatch.waves, dispatch, begin, queue, index))


def _events(log: WaveLog, dispatch: Dispatch, begin: int, queue: int | None, index: int | None) -> Iterator[Event]:
    last = begin
    for step, number, wave, life in log.life_events():
        last = begin + step
        x, y, z, _ = dispatch.groups[number].tolist()
        if life is None:
            yield WaveStarted(last, queue, index, (x, y, z), wave)
        else:
            yield WaveEnded(last, queue, index, (x, y, z), wave, life.how, life.instructions)
    if log.omitted:
        yield WavesLeftOut(last, queue, index, log.omitted)


# ---- snapshots of registers ------------------------------------------------------------------------------------------
# Events with snapshots of registers at chosen points, if the settings enable them.


_NOTHING: Final = nullcontext()


@dataclass(frozen=True, slots=True)
class RegistersTaken(Event):
    """The event of a snapshot of a wave's registers at a point of its execution.

    The point is ``before`` an instruction, at its ``fault`` or ``trap``, or at the wave's ``end``. Each entry of
    `vectors` has a word for each lane, starting with lane 0. For programs of AMD OpenCL 2.0, `queue` and `index`
    are None."""

    queue: int | None
    index: int | None
    group: tuple[int, int, int]
    wave: int
    why: str
    pc: int
    instruction: str
    scalars: Mapping[str, str]
    vectors: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class RegistersLeftOut(Event):
    """The event with the number of register snapshots of packet `index` that were not emitted.

    These snapshots exceed the limit in the setting `snapshots`."""

    queue: int | None
    index: int | None
    moments: int


class SnapshotEmitter:
    """The emitter of events for the register snapshots that the engine takes at the tracepoints `moments`.

    It emits no events if `moments` is None."""

    def __init__(self, telemetry: Telemetry, moments: Tracepoints | None) -> None:
        self._telemetry = telemetry
        self._tracepoints = moments

    def of(self, queue: int | None = None, index: int | None = None) -> AbstractContextManager[None]:
        """Return a context manager; the kernel of a packet (or of an OpenCL program) runs in its ``with`` block.

        The context manager emits an event for each register snapshot."""
        moments = self._tracepoints
        if moments is None or not self._telemetry.wants(RegistersTaken):
            return _NOTHING
        return self._emitting(moments, queue, index)

    @contextmanager
    def _emitting(self, moments: Tracepoints, queue: int | None, index: int | None) -> Iterator[None]:
        telemetry = self._telemetry

        def emit(it: Snapshot) -> None:
            telemetry.emit(
                lambda time: RegistersTaken(
                    *(time, queue, index, it.group, it.wave, it.why, it.pc, it.instruction, it.scalars, it.vectors)
                )
            )

        outer, before = moments.on_snapshot, moments.left_out
        moments.on_snapshot = emit
        try:
            yield
        finally:
            moments.on_snapshot = outer
            more = moments.left_out - before
            if more:
                telemetry.emit(lambda time: RegistersLeftOut(time, queue, index, more))


# ---- all events of waves ---------------------------------------------------------------------------------------------


class WaveEvents:
    """The emitter of all events about the waves of a device.

    These are the starts and ends of at most `trace_waves` waves of each launch, and at most `snapshots` snapshots of
    registers, at the points in `tracepoints`, which is None if `snapshots` is 0."""

    def __init__(self, telemetry: Telemetry, trace_waves: int, snapshots: int) -> None:
        self.tracepoints = Tracepoints(snapshots) if snapshots else None
        self._waves = WaveEmitter(telemetry, trace_waves)
        self._snapshots = SnapshotEmitter(telemetry, self.tracepoints)

    def run(
        self,
        dispatch: Dispatch,
        run: Callable[[Dispatch], Statistics],
        queue: int | None = None,
        index: int | None = None,
    ) -> Statistics:
        """Run `dispatch` by the function `run`, and emit the events of its waves.

        `queue` and `index` identify the dispatch's packet; they are None without a packet."""
        dispatch = self._waves.follow(dispatch)
        try:
            with self._snapshots.of(queue, index):
                return run(dispatch)
        finally:
            self._waves.emit(dispatch, queue, index)


# ---- messages and traps ----------------------------------------------------------------------------------------------
# Messages and traps of waves to the device.


MSG_INTERRUPT: Final = 1
"""The message id of s_sendmsg for an interrupt."""
TRAP_DOCUMENT: Final = 1
TRAP_DEBUGGER: Final = 3
"""The s_trap number of debugtrap in current compilers; without a debugger, the wave continues.

The number in the ROCm Code Object specification is 1. Current compilers use 2 for trap.
"""
TRAPS: Final = {TRAP_DOCUMENT: "debug exception", 2: "abort trap", TRAP_DEBUGGER: "debug trap"}
"""The descriptions of s_trap numbers, from the ROCm Code Object specification and LLVM's "Trap Handler ABI"."""


class WaveCalls:
    """The handler of the messages and traps of one device's waves.

    `ticks` holds the device's instruction count.
    """

    def __init__(
        self, memory: GpuMemory, state: AgentState, ticks: memoryview, telemetry: Telemetry, target: Target
    ) -> None:
        self.trap_handler: Callable[[Trapped], bool] | None = None
        """The function that determines if a wave continues after a trap; see `HsaDevice.trap_handler`."""
        self._memory = memory
        self._state = state
        self._ticks = ticks
        self._telemetry = telemetry
        self._target = target

    @staticmethod
    def hint_of(interrupt: Callable[[int], None]) -> Callable[[Wave, str, int], None]:
        """Return the function that engines call for hints of waves, which include s_sendmsg.

        If a wave executes s_sendmsg with an interrupt message, `interrupt` is called with the low 8 bits of M0. Other
        hints have no effect."""

        def hint(wave: Wave, what: str, number: int) -> None:
            if what == "sendmsg" and number & 0xF == MSG_INTERRUPT:
                interrupt(int(wave.sgpr[M0]) & 0xFF)

        return hint

    def trap_of(self, queue: Queue) -> Callable[[Wave, int], bool]:
        """Return the function that handles traps in waves of `queue`; it returns True if the wave continues."""

        def trap(wave: Wave, number: int) -> bool:
            index = queue.load_read_index()  # of the running packet: launches are reused for later ones
            return self._trapped(wave, number, queue.number, index, is_present=self._is_present(queue, index))

        return trap

    def trap_of_registers(self, queue: int, index: int, *, is_enabled: bool) -> Callable[[Wave, int], bool]:
        """Return the function that handles traps in waves that PM4 command `index` of a queue has started.

        `is_enabled` is True if the compute registers enable the trap handler."""
        is_present = is_enabled or self._state.has_trap_handler
        return lambda wave, number: self._trapped(wave, number, queue, index, is_present=is_present)

    def _trapped(self, wave: Wave, number: int, queue: int, index: int, *, is_present: bool) -> bool:
        """Handle s_trap `number` of a wave; return True if the wave continues.

        `queue` and `index` identify the packet. `is_present` is True if the waves have a trap handler; without one, the
        instruction does nothing."""
        lanes = wave.s64(EXEC)
        lane = (lanes & -lanes).bit_length() - 1 if lanes else 0
        argument = int(wave.vgpr[0, lane])
        if not is_present:
            resumed = True
        elif self.trap_handler is not None:
            resumed = bool(self.trap_handler(Trapped(self._ticks[0], queue, index, number, argument, False)))
        else:
            resumed = number == TRAP_DEBUGGER
        self._telemetry.emit(lambda time: Trapped(time, queue, index, number, argument, resumed))
        if not resumed:
            what = TRAPS.get(number, "unknown trap")
            text = f"the kernel executed s_trap {number} ({what}); v0 is {argument:#x}"
            raise GuestFault(text, rule=rules.DEBUGTRAP if number == TRAP_DOCUMENT else None)
        return True

    def _is_present(self, queue: Queue, index: int) -> bool:
        """Return True if the waves of packet `index` have a trap handler.

        The kernel, the queue or the driver can enable the handler."""
        if self._state.has_trap_handler or queue.properties & QueueProperties.ENABLE_TRAP_HANDLER:
            return True
        kernel_object = int.from_bytes(queue.packet(index)[32:40], "little")
        plan = read_plan(self._memory, kernel_object, self._target)
        return bool(plan.facts.compute_pgm_rsrc2.enable_trap_handler)
