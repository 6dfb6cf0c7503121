"""The packet processor: takes packets from rings, runs what they ask for, signals completion.

Packets of one queue are processed in order, one after the other, which every header allows. A queue whose packet has to
wait is looked at again when something has changed. Who executes, and when, is `executor`'s business.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from math import prod
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from understudy.core.errors import AccessFault, BeyondModel, ModelBug, UnderstudyError
from understudy.core.limits import Stopped, TimeLimit
from understudy.core.lint import Lint
from understudy.core.located import Locators
from understudy.core.settings import SYNCHRONOUS
from understudy.core.telemetry import Telemetry
from understudy.core.words import U32, U64, signed
from understudy.device.hsa import rules
from understudy.device.hsa.agents import Agent, ptr64_mismatch
from understudy.device.hsa.compute import Compute
from understudy.device.hsa.device_memory import DeviceMemory
from understudy.device.hsa.events import (
    PacketBlocked,
    PacketCompleted,
    PacketStarted,
    QueueErrored,
    SignalChanged,
)
from understudy.device.hsa.exceptions import PacketRefused, QueueError, code_of
from understudy.device.hsa.fast_path import Templates
from understudy.device.hsa.launch.first_state import Surroundings, launch
from understudy.device.hsa.launch.packet import KernelDispatchPacket
from understudy.device.hsa.launch.plan import LaunchPlan, read_plan
from understudy.device.hsa.native_packets import BUDGET, COMPLETE, IDLE, SERVE, Q, ending
from understudy.device.hsa.packet_log import ROWS, PacketLog
from understudy.device.hsa.packets import (
    BARRIER_BIT,
    PACKET_BYTES,
    PM4_TYPE_3,
    SIGNAL_AT,
    AgentDispatchPacket,
    AmdFormat,
    BarrierPacket,
    BarrierValuePacket,
    PacketType,
    is_pm4,
    signals_waited_for,
)
from understudy.device.hsa.pm4 import Pm4
from understudy.device.hsa.queue_scratch import QueueScratch
from understudy.device.hsa.queues import Queue
from understudy.device.hsa.records import QueueFeature, SignalKind
from understudy.device.hsa.rules import IS_PTR64
from understudy.device.hsa.settings import Settings
from understudy.device.hsa.signals import VALUE_AT, Condition, Signal, notify
from understudy.device.hsa.snapshot_events import SnapshotTeller
from understudy.device.hsa.timestamps import Timestamps
from understudy.device.hsa.wave_calls import WaveCalls
from understudy.device.hsa.wave_events import WaveTeller
from understudy.engine.gcn.api import Dispatch, Statistics, StepLimit
from understudy.engine.gcn.jit import layout
from understudy.engine.gcn.jit.engine import JitEngine
from understudy.image.hsa.records import Rsrc2

if TYPE_CHECKING:
    from understudy.engine.gcn.reference.exceptions import Exceptions

_EXCEPTIONS_AT: Final = Rsrc2.slot("enable_exception_ieee_754_fp_invalid_operation").spec.low
_EXCEPTIONS_MASK: Final = 0x7F
_LIMIT: Final = Q["limit"]
_ACTIVE: Final = Q["active"]
_DONE: Final = Q["done"]
_INSTRUCTIONS: Final = Q["instructions"]
_BEGAN: Final = Q["began"]
_ADDRESS_WATCH_AT: Final = Rsrc2.slot("enable_exception_address_watch").spec.low
_ANY_EXCEPTION: Final = _EXCEPTIONS_MASK << _EXCEPTIONS_AT | 1 << _ADDRESS_WATCH_AT
_BARRIER: Final = 1 << BARRIER_BIT - 8
"""Of a header's second byte."""
Handler = Callable[[Queue, int, bytes], int | None]
_EVENTS: Final = (PacketStarted, PacketCompleted, SignalChanged, Lint)
"""What there is to tell of every packet."""
_ORDERED_CONDITIONS: Final = (Condition.EQ, Condition.NE, Condition.LT, Condition.GTE)


class Processor:
    """Processes packets of the queues of one device. Not for two threads at once."""

    def __init__(
        self,
        agent: Agent,
        settings: Settings,
        memory: DeviceMemory,
        compute: Compute,
        scratch: QueueScratch,
        queues: list[Queue],
        clock: npt.NDArray[np.uint64],
        telemetry: Telemetry,
        calls: WaveCalls,
        timestamps: Timestamps,
        locators: Locators,
    ) -> None:
        self.fault_handler: Callable[[Queue, AccessFault], bool] | None = None
        """See `HsaDevice`."""
        self.meanwhile: Callable[[], None] | None = None
        """See `HsaDevice.look_beside_kernels`."""
        self._calls = calls
        self._timestamps = timestamps
        self._locators = locators
        self.time_limit_seconds = settings.time_limit_seconds
        self._settings = settings
        self._small = settings.small
        self._agent = agent
        self._memory = memory
        self._compute = compute
        self._scratch = scratch
        self._queues = queues
        self._known: dict[int, tuple[bytes, Surroundings, dict[str, Any]]] = {}
        """By number of a queue: what it said of private memory, and what it and the agent bring to launches then."""
        self._last_signal: Signal | None = None
        self._last_version = -1
        self._clock = clock
        self._ticks = clock.data
        self._pm4 = Pm4(memory.gpu, compute.fences)
        self._telemetry = telemetry
        self._probes = telemetry.probes
        self._waves = WaveTeller(telemetry, settings.trace_waves)
        self._snapshots = SnapshotTeller(telemetry, compute.moments)
        self._log = PacketLog(telemetry, 32 if settings.small else 64)
        self._handlers: dict[int, Handler] = {
            PacketType.KERNEL_DISPATCH: self._kernel,
            PacketType.BARRIER_AND: self._barrier_and,
            PacketType.BARRIER_OR: self._barrier_or,
            PacketType.AGENT_DISPATCH: self._agent_dispatch,
            PacketType.VENDOR_SPECIFIC: self._vendor,
        }

    def fast_path(self, queue: Queue) -> Templates | None:
        """A new queue. What processes its packets by machine code; None where the settings rule that out."""
        queue.words[Q["clock"]] = self._clock.ctypes.data
        self._timestamps.tell(queue.words)
        settings = self._settings
        if not settings.machine_code or not settings.translates or settings.trace_waves:
            return None
        if self._compute.marks is not None or self._compute.races is not None:
            return None
        engine = self._compute.engine
        assert isinstance(engine, JitEngine)
        return Templates(queue, engine)

    def forget(self, queue: Queue) -> None:
        """See `PacketProcessor`."""
        self._known.pop(queue.number, None)

    def turn(self, queue: Queue, budget: int) -> int:
        """Process up to `budget` packets of a queue; how many were. 0: it has to wait, or is inactive now."""
        done = 0
        if queue.templates is not None and not self._probes.wants_at_once(*_EVENTS):
            is_logged = self._probes.wants(*_EVENTS)
            done, goes_on = self._in_bulk(queue, min(budget, ROWS) if is_logged else budget, is_logged=is_logged)
            if not goes_on:
                return done
        return done + self.step(queue)

    def _in_bulk(
        self, queue: Queue, budget: int, *, is_listened: bool = False, is_logged: bool = False
    ) -> tuple[int, bool]:
        """What machine code can do; how many packets, and whether the next one is for `step`.

        With `is_logged` somebody hears of them behind it; with `is_listened`, at once, the packet has been told of.
        """
        templates = queue.templates
        assert templates is not None
        words = queue.words
        before = words[_INSTRUCTIONS]
        try:
            why = templates.consume(budget, is_listened, self._log.address if is_logged else 0)
        except BaseException as cause:
            self._count(queue, before, is_logged)
            if templates.left == layout.DONE:
                self._finish(queue, templates, COMPLETE)
            elif templates.left is not None:
                templates.drop_current()
                self._fail(queue, int(words[Q["id"]]), _interrupted(cause))
            raise
        done = self._count(queue, before, is_logged)
        if why in (IDLE, BUDGET):
            return done, False
        if why not in (SERVE, COMPLETE):
            return done, done < budget
        return done + self._finish(queue, templates, why), False

    def _count(self, queue: Queue, before: int, is_logged: bool) -> int:
        """Count what machine code did, from `before` instructions on, and tell of it; how many packets."""
        words, progress, templates = queue.words, queue.progress, queue.templates
        done: int = words[_DONE]
        progress.packets += done
        progress.instructions += words[_INSTRUCTIONS] - before
        if is_logged:
            self._log.tell(queue.number, done)
            if templates is not None and templates.left is not None:
                progress.started = int(words[Q["id"]])
                self._told(queue, progress.started, queue.packet(progress.started))
        return done

    def _finish(self, queue: Queue, templates: Templates, why: int) -> int:
        """Finish the packet that machine code came back with; 1, or 0 if it failed."""
        words = queue.words
        index, handle, start = int(words[Q["id"]]), int(words[Q["signal"]]), int(words[Q["start"]])
        try:
            if why == SERVE:
                templates.serve()
                queue.progress.note(index, templates.interpreted())
        except BaseException as cause:
            templates.drop_current()
            if isinstance(cause, UnderstudyError):
                self._fail(queue, index, cause)
                return 0
            self._fail(queue, index, _interrupted(cause))
            raise
        try:
            self._complete(queue, index, handle, start, templates.ran())
        except UnderstudyError as error:
            templates.drop_current()
            self._fail(queue, index, error)
            return 0
        return 1

    def step(self, queue: Queue) -> int:
        """Process the next packet; 1 if it is done, 0 if it has to wait or failed."""
        index = queue.load_read_index()
        words = queue.words
        if index >= words[_LIMIT] or not words[_ACTIVE]:
            return 0
        data = queue.packet(index)
        kind = data[0]
        if data[3] >= PM4_TYPE_3 and self._agent.is_legacy and is_pm4(data):
            kind = PacketType.VENDOR_SPECIFIC
        if kind == PacketType.INVALID:
            return self._block(queue, index, "its header is INVALID")
        progress = queue.progress
        if progress.started != index:
            progress.started = index
            if self._telemetry.wants_lints:
                self._told(queue, index, data)
        if kind == PacketType.KERNEL_DISPATCH and queue.templates is not None and self._probes.active:
            done, goes_on = self._in_bulk(queue, 1, is_listened=True)
            if not goes_on:
                return done
        start = self._ticks[0]
        queue.words[_BEGAN] = self._timestamps.now() if self._timestamps.is_host else start
        try:
            handler = self._handlers.get(kind)
            if handler is None:
                raise PacketRefused(f"packet type {kind}", QueueError.INVALID_PACKET, rules.PACKET_TYPES)
            fences = self._compute.fences
            if fences is not None:
                fences.acquire(queue.number, index, data)
            instructions = self._handled(handler, queue, index, data)
            if instructions is None:
                return 0
            if fences is not None:
                fences.release(queue.number, index, data)
            handle = int.from_bytes(data[SIGNAL_AT:PACKET_BYTES], "little")
            self._complete(queue, index, handle, start, instructions)
        except ModelBug:
            raise
        except UnderstudyError as error:
            self._fail(queue, index, error)
            return 0
        except BaseException as cause:
            if kind == PacketType.KERNEL_DISPATCH and queue.load_read_index() == index:
                self._fail(queue, index, _interrupted(cause))
            raise
        return 1

    def _handled(self, handler: Handler, queue: Queue, index: int, data: bytes) -> int | None:
        """What a handler gives; the check of races hears of what the packet has waited for, or is waited for by."""
        races = self._compute.races
        if races is None:
            return handler(queue, index, data)
        host, is_barred = None if queue.is_adopted else self._compute.host_order, bool(data[1] & _BARRIER)
        if is_barred:
            races.wait(queue.number, for_all=False)
        if handler == self._kernel:
            races.begin(queue.number, index, {each.number: each.words[_LIMIT] for each in self._queues})
            with nullcontext() if host is None else host.kernel(queue.number, is_barred=is_barred):
                done: int | None = handler(queue, index, data)
        else:
            done = handler(queue, index, data)
            if done is None:
                return None
            races.wait(queue.number, for_all=True)
            if host is not None:
                host.waited(queue.number, signals_waited_for(data), is_barred=is_barred)
        handle = int.from_bytes(data[SIGNAL_AT:PACKET_BYTES], "little")
        if host is not None and handle:
            host.completes(queue.number, handle, is_kernel=handler == self._kernel)
        return done

    # ---- the packets ---------------------------------------------------------------------------------------------

    def _kernel(self, queue: Queue, index: int, data: bytes) -> int:
        templates = queue.templates
        kernarg = int.from_bytes(data[40:48], "little")
        if self._small and kernarg > U32:
            text = f"kernarg_address {kernarg:#x}, expected 32 bits in the small machine model"
            raise PacketRefused(text, QueueError.INVALID_PACKET)
        if templates is not None:
            again = templates.again(data, index)
            if again is not None:
                queue.progress.note(index, again.interpreted)
                return again.instructions
        packet = KernelDispatchPacket.parse(data)
        plan = read_plan(self._memory.gpu, packet.kernel_object)
        if plan.is_ptr64 is self._small:
            self._mismatch(plan, index)
        around, options = self._around(queue)
        dispatch = launch(around, packet, queue.packet_address(index), index, plan=plan, **options)
        dispatch = self._waves.follow(dispatch)
        try:
            with self._snapshots.of(queue.number, index):
                statistics = self._ran(plan, data, dispatch, templates)
        finally:
            self._waves.tell(dispatch, queue.number, index)
        queue.progress.note(index, statistics.interpreted)
        return statistics.instructions

    def _ran(self, plan: LaunchPlan, data: bytes, dispatch: Dispatch, templates: Templates | None) -> Statistics:
        """Run a dispatch on the engine that it needs."""
        if plan.rsrc2 & _ANY_EXCEPTION and (enabled := self._exceptions(plan)):
            if self._compute.fences is not None:
                self._compute.fences.flush()
            if self._compute.moments is not None:
                raise BeyondModel("snapshots of a kernel that enables exceptions")
            if self._settings.checks:
                raise BeyondModel(f"check {self._settings.check!r} of a kernel that enables exceptions")
            from understudy.engine.gcn.reference.exceptions import ExceptionEngine

            return ExceptionEngine(enabled, self._memory.watched).run(dispatch)
        checked = self._compute.checked(dispatch)
        if checked is not None:
            return checked
        return self._compute.run(dispatch) if templates is None else templates.first(data, dispatch)

    def _around(self, queue: Queue) -> tuple[Surroundings, dict[str, Any]]:
        """What agent and queue bring to launches, and the options of their dispatches.

        Made anew where what amd_queue_t says of private memory has changed.
        """
        said = queue.scratch_words()
        known = self._known.get(queue.number)
        if known is not None and known[0] == said:
            return known[1:]
        scratch, descriptor = queue.scratch(said)
        memory, agent, settings = self._memory, self._agent, self._settings
        around = Surroundings(
            target=agent.target,
            memory=memory.gpu,
            queue=queue.address,
            scratch=scratch,
            descriptor=descriptor,
            shared_base=memory.apertures.group_segment_aperture_base_hi << 32,
            private_base=memory.apertures.private_segment_aperture_base_hi << 32,
            ptr32=self._small,
            lds_limit_bytes=agent.lds_bytes,
            workgroup_limit=agent.workgroup_limit,
        )
        options = {
            "step_limit": settings.step_limit,
            "seed": settings.seed,
            "poison": settings.poison,
            "watch": queue.watch,
            "clock": self._timestamps.clock,
            "marks": None if self._compute.marks is None else self._compute.marks.marking,
            "barriers": self._compute.barriers,
            "races": self._compute.races,
            "on_hint": self._calls.hint_of(queue),
            "on_trap": self._calls.trap_of(queue),
        }
        self._known[queue.number] = said, around, options
        return around, options

    def _mismatch(self, plan: LaunchPlan, index: int) -> None:
        """See the choice `hsa/is-ptr64`."""
        mismatch = ptr64_mismatch(self._agent, self._small, plan.is_ptr64)
        if self._small:
            raise PacketRefused(mismatch, QueueError.INVALID_CODE, IS_PTR64)
        self._telemetry.lint("is-ptr64", f"packet {index}: {mismatch}", IS_PTR64)

    def _exceptions(self, plan: LaunchPlan) -> Exceptions:
        """Exceptions that waves of a kernel start with and that need an engine which looks for them.

        Memory violations are reported by every engine, and always.
        """
        from understudy.engine.gcn.reference.exceptions import Exceptions

        enabled = Exceptions(plan.rsrc2 >> _EXCEPTIONS_AT & _EXCEPTIONS_MASK)
        if self._memory.watched and plan.rsrc2 >> _ADDRESS_WATCH_AT & 1:
            enabled |= Exceptions.ADDRESS_WATCH
        return enabled

    def _barrier_and(self, queue: Queue, index: int, data: bytes) -> int | None:
        for number, handle in enumerate(BarrierPacket.parse(data).dep_signal):
            value = self._dependency(queue, handle) if handle else 0
            if value:
                self._block(queue, index, f"signal {number} at {handle:#x} is {value}, not 0")
                return None
        return 0

    def _barrier_or(self, queue: Queue, index: int, data: bytes) -> int | None:
        handles = [handle for handle in BarrierPacket.parse(data).dep_signal if handle]
        if handles and all(self._dependency(queue, handle) for handle in handles):
            self._block(queue, index, "no signal is 0")
            return None
        return 0

    def _agent_dispatch(self, queue: Queue, index: int, data: bytes) -> int:
        if not queue.takes(QueueFeature.AGENT_DISPATCH) or queue.agent_dispatch is None:
            text = "an agent dispatch packet, but the queue takes kernel dispatches only"
            raise PacketRefused(text, QueueError.INVALID_PACKET, rules.AGENT_DISPATCH)
        packet = AgentDispatchPacket.parse(data)
        result = queue.agent_dispatch(packet)
        if packet.return_address:
            self._memory.gpu.write(packet.return_address, (result & U64).to_bytes(8, "little"))
        return 0

    def _vendor(self, queue: Queue, index: int, data: bytes) -> int | None:
        if self._agent.is_legacy and is_pm4(data):
            self._pm4.slot(data)
            return 0
        if data[2] == AmdFormat.PM4_IB and not self._agent.is_legacy:
            self._pm4.packet(data)
            return 0
        if data[2] != AmdFormat.BARRIER_VALUE:
            text = f"vendor packet of format {data[2]}, expected {AmdFormat.BARRIER_VALUE:d} (barrier value)"
            text += " or PM4 commands as the agent takes them: AIE packets and others are not modelled"
            raise PacketRefused(text, QueueError.INVALID_VENDOR_PACKET, rules.VENDOR_PACKET)
        packet = BarrierValuePacket.parse(data)
        if packet.condition not in _ORDERED_CONDITIONS:
            text = f"condition {packet.condition} of a barrier value packet, expected 0 to 3"
            raise PacketRefused(text, QueueError.INVALID_VENDOR_PACKET, rules.BARRIER_VALUE)
        value = signed(self._dependency(queue, packet.signal) & packet.mask, 64)
        if not Condition(packet.condition).holds(value, packet.value):
            self._block(queue, index, f"signal {packet.signal:#x} has {value}, not what the packet waits for")
            return None
        return 0

    @staticmethod
    def _dependency(queue: Queue, handle: int) -> int:
        """The value of a signal that a packet waits for."""
        try:
            return Signal(queue.device, handle).load()
        except UnderstudyError as error:
            raise PacketRefused(error.message, QueueError.INVALID_PACKET, error.rule) from error

    # ---- the end of a packet -------------------------------------------------------------------------------------

    def _complete(self, queue: Queue, index: int, handle: int, start: int, instructions: int) -> None:
        """Free the slot, then decrement the completion signal."""
        signal = self._signal(queue, handle) if handle else None
        if signal is not None and signal.kind != SignalKind.USER:
            text = f"completion signal {handle:#x} has kind {signal.kind}, expected 1 (user)"
            raise PacketRefused(text, QueueError.INVALID_PACKET, rules.SIGNAL_KINDS)
        retire, count_down = ending()
        end = retire(queue.block_address, index, start, instructions)
        queue.progress.packets += 1
        queue.progress.instructions += instructions
        self._telemetry.emit(lambda time: PacketCompleted(time, queue.number, index, instructions))
        if signal is not None:
            if self._timestamps.is_host:
                end = self._timestamps.now()
            before = count_down(queue.block_address, signal.word.place - VALUE_AT, queue.words[_BEGAN], end)
            value = signed(before, signal.bits) - 1
            self._telemetry.emit(lambda time: SignalChanged(time, signal.address, value))
            notify(queue.device, signal.view())

    def _signal(self, queue: Queue, handle: int) -> Signal:
        """The signal at an address; the same object as for the packet before, where nothing was mapped since."""
        found, version = self._last_signal, self._memory.gpu.version
        if found is None or found.address != handle or self._last_version != version:
            found = self._last_signal = Signal(queue.device, handle)
            self._last_version = version
        return found

    def _block(self, queue: Queue, index: int, why: str) -> int:
        if queue.progress.blocked != index:
            queue.progress.blocked = index
            self._telemetry.emit(lambda time: PacketBlocked(time, queue.number, index, why))
        return 0

    def _fail(self, queue: Queue, index: int, error: UnderstudyError) -> None:
        """A packet failed: the queue becomes inactive, or its private memory grows and the packet starts again."""
        if isinstance(error, ModelBug):
            raise error
        code = code_of(error)
        self._locators.place(error)
        error.at("AQL packet", index).at("queue", queue.number)
        if isinstance(error, StepLimit | TimeLimit):
            error.message += self._meanwhile(queue, index)
        if code & QueueError.INSUFFICIENT_SCRATCH and self._scratch.grow(queue, queue.packet(index)):
            return
        queue.progress.error, queue.progress.code = error, int(code)
        queue.words[Q["active"]] = 0
        handler = self.fault_handler
        is_told = handler is not None and isinstance(error, AccessFault) and handler(queue, error)
        queue.progress.is_told = bool(is_told)
        inactive = None if is_told or queue.is_destroyed else queue.inactive_now()
        if inactive is not None:
            inactive.rmw("or", int(code))
        self._telemetry.emit(lambda time: QueueErrored(time, queue.number, index, int(code), error))
        if queue.on_error is not None and not queue.is_destroyed:
            queue.on_error(queue, int(code), error)

    def _meanwhile(self, queue: Queue, index: int) -> str:
        """What waits as long as the kernel of packet `index` does not end: what it waits for may be among that."""
        waiting = []
        packet = KernelDispatchPacket.parse(queue.packet(index))
        groups = prod(-(-grid // max(group, 1)) for grid, group in zip(packet.grid, packet.workgroup, strict=True))
        if groups > 1 and self._compute.fences is None:
            waiting.append(f"work-groups of its {groups} that have not begun")
        others = sum(each.pending for each in self._queues if each is not queue)
        if others:
            waiting.append(f"{others} packets of other queues")
        if self._settings.execution == SYNCHRONOUS:
            waiting.append("the host (execution is synchronous)")
        return f"; until it does these wait: {', '.join(waiting)}" if waiting else ""

    # ---- parts ---------------------------------------------------------------------------------------------------

    def _told(self, queue: Queue, index: int, data: bytes) -> None:
        """Tell who listens of a packet and of what is odd about it."""
        self._probes.emit_all(self._log.started(queue.number, index, data, self._ticks[0]))


def _interrupted(cause: BaseException) -> Stopped:
    """What becomes of a kernel whose waves were left midway: by Ctrl-C, another signal's handler or a callback."""
    text = f"the host was interrupted ({type(cause).__name__}) while the kernel ran; its effects are partial"
    stopped = Stopped(text)
    for note in getattr(cause, "__notes__", ()):
        stopped.add_note(note)
    return stopped
