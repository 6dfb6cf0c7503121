"""The packet processor, which reads packets from rings, executes them and completes their signals.

Packets of one queue are processed strictly in order; the AQL rules allow this for every packet header. If the
next packet of a queue has to wait, the processor checks it again when something has changed. `executor`
decides when the processor runs, and on which thread."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial
from math import prod
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from softcard.core.device import Telemetry
from softcard.core.errors import AccessFault, BeyondModel, ModelBug, SoftcardError
from softcard.core.findings import Locators
from softcard.core.limits import TimeLimit, Watch, interrupted
from softcard.core.lint import Lint
from softcard.core.settings import SYNCHRONOUS
from softcard.core.words import U8, U32, U64, signed
from softcard.device.hsa import rules
from softcard.device.hsa.agents import Agent, ptr64_mismatch
from softcard.device.hsa.compute import Compute
from softcard.device.hsa.events import (
    PacketBlocked,
    PacketCompleted,
    PacketStarted,
    QueueErrored,
    SignalChanged,
)
from softcard.device.hsa.exceptions import PacketRefused, QueueError, code_of
from softcard.device.hsa.fast_path import Templates
from softcard.device.hsa.launch.first_state import Surroundings, launch
from softcard.device.hsa.launch.plan import LaunchPlan, read_plan
from softcard.device.hsa.launch.registers import ComputeRegister, ComputeRegisters, DispatchDirect, launch_registers
from softcard.device.hsa.memory.device_memory import DeviceMemory
from softcard.device.hsa.native_packets import BUDGET, COMPLETE, IDLE, SERVE, Q, ending
from softcard.device.hsa.packet_log import ROWS, PacketLog
from softcard.device.hsa.pm4 import PacketCommands
from softcard.device.hsa.queues.aql_queue import Queue
from softcard.device.hsa.queues.packets import (
    BARRIER_BIT,
    PACKET_BYTES,
    PM4_TYPE_3,
    SIGNAL_AT,
    AgentDispatchPacket,
    AmdFormat,
    BarrierPacket,
    BarrierValuePacket,
    KernelDispatchPacket,
    PacketType,
    is_pm4,
    signals_waited_for,
)
from softcard.device.hsa.queues.queue_scratch import QueueScratch
from softcard.device.hsa.queues.records import QueueFeature, QueueType, SignalKind
from softcard.device.hsa.queues.signals import VALUE_AT, Condition, Signal, Timestamps, event_of, notify
from softcard.device.hsa.rules import IS_PTR64
from softcard.device.hsa.settings import Settings
from softcard.device.hsa.wave_events import WaveCalls
from softcard.engine.gcn.api import INSTRUCTION_FETCH, Dispatch, Statistics, StepLimit
from softcard.engine.gcn.jit import layout
from softcard.engine.gcn.tiered.engine import JitEngine
from softcard.image.hsa.records import ENTRY_ALIGNMENT, Rsrc2
from softcard.isa.gcn.state import NOTE_SIZE, NOTE_STORE
from softcard.isa.gcn.target import GFX9

if TYPE_CHECKING:
    from softcard.engine.gcn.hooks import Checks, Tracker
    from softcard.engine.gcn.reference.exceptions import Exceptions

_EXCEPTIONS_AT: Final = Rsrc2.slot("enable_exception_ieee_754_fp_invalid_operation").spec.low
_EXCEPTIONS_MASK: Final = 0x7F
MOST_REPORTED: Final = 1024
"""The maximum number of kernels that are remembered because their headers were checked or reported."""
_LIMIT: Final = Q["limit"]
_ACTIVE: Final = Q["active"]
_DONE: Final = Q["done"]
_INSTRUCTIONS: Final = Q["instructions"]
_BEGAN: Final = Q["began"]
_ADDRESS_WATCH_AT: Final = Rsrc2.slot("enable_exception_address_watch").spec.low
_ANY_EXCEPTION: Final = _EXCEPTIONS_MASK << _EXCEPTIONS_AT | 1 << _ADDRESS_WATCH_AT
NEAR_PRIVATE: Final = 1 << 24
"""The maximum distance in bytes of a fault from the end of private memory that is reported as an overflow."""
_BARRIER: Final = 1 << BARRIER_BIT - 8
"""The barrier bit in the second byte of a packet's header."""
Handler = Callable[[Queue, int, bytes], int | None]
_EVENTS: Final = (PacketStarted, PacketCompleted, SignalChanged, Lint)
"""The types of events that the processing of any packet may emit."""
VALUE_BYTES: Final = 8
_ORDERED_CONDITIONS: Final = (Condition.EQ, Condition.NE, Condition.LT, Condition.GTE)


LDS_BEYOND: Final = "lds-out-of-bounds"
"""The name of the lint about a kernel that accesses LDS past the end of its launch's allocation."""


class Processor:
    """The packet processor of one device's queues. Only one thread at a time may use it."""

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
        interrupt: Callable[[int], None],
    ) -> None:
        self.fault_handler: Callable[[Queue, AccessFault], bool] | None = None
        """The function that is called for a kernel's memory fault; see `HsaDevice.fault_handler`."""
        self.meanwhile: Callable[[], None] | None = None
        """A function that is called regularly during a kernel; see `HsaDevice.poll_during_kernels`."""
        self.on_lint: Callable[[str, str], None] | None = None
        """The function that is called with each lint about kernels, or None; see `HsaDevice.on_lint`."""
        self.around_kernels: Callable[[int, int, int], AbstractContextManager[None]] | None = None
        """A function that returns the context manager around a kernel; see `HsaDevice.around_kernels`."""
        self.is_from_kernels: Callable[[int, int, int], bool] | None = None
        """A function that returns True if only kernels stored the word that a barrier-value packet has read.

        See `HsaDevice.is_from_kernels`.
        """
        self._lds_reported: set[int] = set()
        """The kernel objects for which `_lds_beyond` has emitted a lint."""
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
        self._known: dict[int, tuple[bytes, Surroundings, dict[str, Any], bool]] = {}
        """The cached launch inputs of each queue, by queue number.

        Each entry is valid for certain words of amd_queue_t that describe private memory. It has these words, the
        inputs, the options of launches, and True if launches are cooperative.
        """
        self._headers: dict[int, LaunchPlan] = {}
        """The launch plan of each kernel's last launch, by kernel object; its header has been checked."""
        self._reported: set[tuple[int, LaunchPlan]] = set()
        """The kernels for whose headers lints were emitted, as pairs of kernel object and plan."""
        self._last_signal: Signal | None = None
        self._last_version = -1
        self._clock = clock
        self._ticks = clock.data
        self._pm4 = PacketCommands(
            memory.gpu, compute.fences, interrupt, timestamps.now, only_caches=_only_caches(agent, compute.checks)
        )
        self._telemetry = telemetry
        self._probes = telemetry.probes
        self._log = PacketLog(telemetry, 32 if settings.small else 64)
        self._handlers: dict[int, Handler] = {
            PacketType.KERNEL_DISPATCH: self._kernel,
            PacketType.BARRIER_AND: self._barrier_and,
            PacketType.BARRIER_OR: self._barrier_or,
            PacketType.AGENT_DISPATCH: self._agent_dispatch,
            PacketType.VENDOR_SPECIFIC: self._vendor,
        }

    def fast_path(self, queue: Queue) -> Templates | None:
        """Register a new queue for processing by native code of the simulator; return its `Templates`.

        Return None if the settings or checks exclude the use of native code."""
        queue.words[Q["clock"]] = self._clock.ctypes.data
        self._timestamps.configure(queue.words)
        settings = self._settings
        if not settings.machine_code or not settings.translates or settings.trace_waves:
            return None
        if self._compute.checks.at_launches:
            return None
        engine = self._compute.engine
        assert isinstance(engine, JitEngine)
        return Templates(queue, engine)

    def forget(self, queue: Queue) -> None:
        """Drop the cached launch inputs of `queue`."""
        self._known.pop(queue.number, None)

    def abandon(self, queue: Queue, cause: BaseException) -> bool:
        """Make the next packet of `queue` fail with `cause`, because the host has stopped waiting for it.

        Return False if the queue has no packet. The queue is inactive while the failure is handled.
        """
        index = queue.load_read_index()
        if index >= queue.words[_LIMIT]:
            return False
        self._fail(queue, index, interrupted(cause))
        return True

    def process(self, queue: Queue, budget: int) -> int:
        """Process up to `budget` packets of `queue`; return the number of processed packets.

        It is 0 if the next packet has to wait, or if the queue is inactive now.
        """
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
        """Process up to `budget` packets of `queue` by native code of the simulator.

        Return the number of processed packets, and True if `step` must process the next packet. With `is_logged`,
        the events are emitted after the packets, from a log. With `is_listened`, the start event of the next packet
        was already emitted."""
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
                self._fail(queue, int(words[Q["id"]]), _what_failed(cause))
            raise
        done = self._count(queue, before, is_logged)
        if templates.noted:
            self._report_notes(templates)
        if why in (IDLE, BUDGET):
            return done, False
        if why not in (SERVE, COMPLETE):
            return done, done < budget
        return done + self._finish(queue, templates, why), False

    def _count(self, queue: Queue, before: int, is_logged: bool) -> int:
        """Add packets that native code has processed to the statistics of `queue`; return the number of these packets.

        `before` is the queue's instruction count before these packets. With `is_logged`, emit their events."""
        words, progress, templates = queue.words, queue.progress, queue.templates
        done: int = words[_DONE]
        progress.packets += done
        progress.instructions += words[_INSTRUCTIONS] - before
        if is_logged:
            self._log.emit(queue.number, done)
            if templates is not None and templates.left is not None:
                progress.started = int(words[Q["id"]])
                self._log_packet(queue, progress.started, queue.packet(progress.started))
        return done

    def _finish(self, queue: Queue, templates: Templates, why: int) -> int:
        """Finish the packet whose waves or completion the native code left to Python, for the reason `why`.

        Return 1 if the packet is done, and 0 if it failed."""
        words = queue.words
        index, handle, start = int(words[Q["id"]]), int(words[Q["signal"]]), int(words[Q["start"]])
        try:
            if why == SERVE:
                templates.serve()
                queue.progress.note(index, templates.interpreted())
        except BaseException as cause:
            templates.drop_current()
            self._fail(queue, index, _what_failed(cause))
            if isinstance(cause, SoftcardError):
                return 0
            raise
        try:
            self._complete(queue, index, handle, start, templates.ran())
        except SoftcardError as error:
            templates.drop_current()
            self._fail(queue, index, error)
            return 0
        return 1

    def step(self, queue: Queue) -> int:
        """Process the next packet of `queue`; return 1 if it is done, and 0 if it has to wait or failed."""
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
                self._log_packet(queue, index, data)
        if kind == PacketType.KERNEL_DISPATCH and queue.templates is not None and self._probes.active:
            done, goes_on = self._in_bulk(queue, 1, is_listened=True)
            if not goes_on:
                return done
        start = self._ticks[0]
        queue.words[_BEGAN] = self._timestamps.now() if self._timestamps.is_host else start
        try:
            handler = self._handlers.get(kind)
            if handler is None:
                raise PacketRefused(
                    f"packet type {kind} is not valid on this queue, expected 0 (vendor specific), 2 (kernel "
                    "dispatch), 3 (barrier-AND) or 5 (barrier-OR)",
                    QueueError.INVALID_PACKET,
                    rules.PACKET_TYPES,
                )
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
        except SoftcardError as error:
            self._fail(queue, index, error)
            return 0
        except BaseException as cause:
            if kind == PacketType.KERNEL_DISPATCH and queue.load_read_index() == index:
                self._fail(queue, index, _what_failed(cause))
            raise
        return 1

    def _handled(self, handler: Handler, queue: Queue, index: int, data: bytes) -> int | None:
        """Call `handler` with the packet `data`; return its result.

        The result is the number of retired instructions, or None if the packet has to wait. Also tell the race
        detector which accesses the packet orders."""
        tracker = self._compute.checks.tracker
        if tracker is None:
            return handler(queue, index, data)
        launch = None
        host, is_barred = None if queue.is_adopted else self._compute.host_order, bool(data[1] & _BARRIER)
        if is_barred:
            tracker.wait(queue.number, for_all=False)
        if handler == self._kernel:
            seen = {each.number: each.words[_LIMIT] for each in self._queues}
            read = {each.number: each.load_read_index() for each in self._queues}
            tracking = nullcontext() if host is None else host.kernel(queue.number, is_barred=is_barred)
            with tracker.kernel(queue.number, index, seen, read, is_stream=queue.is_adopted), tracking:
                launch = tracker.launches.present.number
                around = self.around_kernels
                with nullcontext() if around is None else around(queue.slot, index, launch):
                    done: int | None = handler(queue, index, data)
        else:
            done = handler(queue, index, data)
            if done is None:
                return None
            if not self._has_read_value(tracker, queue, index, data):
                tracker.wait(queue.number, for_all=True)
            if host is not None:
                host.waited(queue.number, signals_waited_for(data), is_barred=is_barred)
        handle = int.from_bytes(data[SIGNAL_AT:PACKET_BYTES], "little")
        if handle:
            tracker.signalled(handle)
        if host is not None and handle:
            host.completes(queue.number, handle, launch)
        return done

    def _has_read_value(self, tracker: Tracker, queue: Queue, index: int, data: bytes) -> bool:
        """Tell the race detector which signals packet `index` has waited for; return True if kernels stored its word.

        Later accesses of the queue are ordered after the kernels that completed these signals. The result is True
        if the packet is a barrier-value packet whose word was stored only by kernels. The caller then does not
        order later packets after all earlier kernels."""
        word, is_stored = 0, False
        for signal in signals_waited_for(data) or ():
            word = signal + VALUE_AT
            is_stored = tracker.read_by_packet(queue.number, index, signal, word, VALUE_BYTES)
        if data[0] != PacketType.VENDOR_SPECIFIC or not word:
            return False
        if not queue.is_adopted:
            return is_stored
        is_from_kernels = self.is_from_kernels
        return is_from_kernels is not None and is_from_kernels(queue.slot, index, word) and is_stored

    # ---- the packets ---------------------------------------------------------------------------------------------

    def _kernel(self, queue: Queue, index: int, data: bytes) -> int:
        templates = queue.templates
        kernarg = int.from_bytes(data[40:48], "little")
        if self._small and kernarg > U32:
            text = f"kernarg_address {kernarg:#x} does not fit the 32 bits of the small machine model"
            raise PacketRefused(text, QueueError.INVALID_PACKET)
        if templates is not None:
            again = templates.repeat(data, index)
            if again is not None:
                queue.progress.note(index, again.interpreted)
                return again.instructions
        packet = KernelDispatchPacket.parse(data)
        plan = read_plan(self._memory.gpu, packet.kernel_object, self._agent.target)
        if plan.is_ptr64 is self._small:
            self._mismatch(plan, index)
        if self._headers.get(packet.kernel_object) is not plan:
            self._header(plan, packet.kernel_object, index)
        around, options, is_cooperative = self._around(queue)
        dispatch = launch(around, packet, queue.packet_address(index), index, plan=plan, **options)
        if dispatch.scratch_lane_bytes and self._memory.gpu.guard is not None and not dispatch.scratch_gap:
            around = self._scratch.bounded(queue, around, dispatch.scratch_lane_bytes)
            dispatch = launch(around, packet, queue.packet_address(index), index, plan=plan, **options)
        if is_cooperative and self._compute.fences is None:  # else all make progress together
            fitting = self._agent.resident_groups(dispatch.most_waves, dispatch.lds_bytes)
            dispatch, templates = replace(dispatch, resident=max(fitting, 1)), None
        try:
            run = partial(self._ran, plan, data, templates)
            statistics = self._compute.events.run(dispatch, run, queue.number, index)
        except AccessFault as error:
            if self._memory.gpu.guard is None:
                error.message += _private_overflow(error, dispatch)
            raise
        finally:
            if dispatch.lds_note[0]:
                self._lds_beyond(packet.kernel_object, dispatch)
        queue.progress.note(index, statistics.interpreted)
        return statistics.instructions

    def _report_notes(self, templates: Templates) -> None:
        """Emit lints about LDS accesses out of bounds that cached launches have recorded."""
        for kernel_object, dispatch in templates.noted:
            self._lds_beyond(kernel_object, dispatch)
        templates.noted = []

    def _lds_beyond(self, kernel_object: int, dispatch: Dispatch) -> None:
        """Emit a lint, once per kernel, that a kernel has accessed LDS past the end of its launch's allocation."""
        found, dispatch.lds_note[0] = int(dispatch.lds_note[0]), 0
        if kernel_object in self._lds_reported or self._memory.gpu.guard is not None:
            return
        self._lds_reported.add(kernel_object)
        access, size = "write" if found >> NOTE_STORE & 1 else "read", found >> NOTE_SIZE & U8
        name = self._locators.at(dispatch.entry).kernel or f"at {kernel_object:#x}"
        text = (
            f"kernel {name}: {access} of {size} bytes at LDS offset {found & U32:#x}, but the launch reserves "
            f"{dispatch.lds_bytes} bytes of LDS: loads past its end return 0 and stores are dropped; set "
            "group_segment_size to all LDS that the kernel uses, dynamic LDS included (Local arguments, HIP's third "
            "launch "
            "parameter); run with check='memory' to find the instruction"
        )
        self._telemetry.lint(LDS_BEYOND, text)
        if self.on_lint is not None:
            self.on_lint(LDS_BEYOND, text)

    def _ran(self, plan: LaunchPlan, data: bytes, templates: Templates | None, dispatch: Dispatch) -> Statistics:
        """Run `dispatch` on the engine that the kernel needs; return the statistics of the run."""
        if plan.rsrc2 & _ANY_EXCEPTION and (enabled := self._exceptions(plan.rsrc2)):
            if self._compute.fences is not None:
                self._compute.fences.flush()
            if self._compute.events.tracepoints is not None:
                raise BeyondModel("snapshots are not supported for a kernel that enables floating-point exceptions")
            if self._settings.checks:
                raise BeyondModel(
                    f"check {self._settings.check!r} is not supported for a kernel that enables floating-point "
                    "exceptions"
                )
            from softcard.engine.gcn.reference.exceptions import ExceptionEngine

            return ExceptionEngine(enabled, self._memory.watched).run(dispatch)
        return self._compute.run(dispatch, None if templates is None else partial(templates.first, data))

    def _around(self, queue: Queue) -> tuple[Surroundings, dict[str, Any], bool]:
        """Return the launch inputs that come from the agent and `queue`, and the options for dispatches.

        The third result is True if the queue's launches are cooperative. The results are cached until the fields of
        amd_queue_t that describe private memory change."""
        said = queue.scratch_words()
        known = self._known.get(queue.number)
        if known is not None and known[0] == said:
            return known[1:]
        scratch, descriptor = queue.scratch(said)
        around = self._surroundings(
            queue=queue.address, scratch=scratch, descriptor=descriptor, takes_any_kernarg=queue.is_adopted
        )
        options = self._options() | {
            "watch": queue.watch,
            "on_hint": self._calls.hint_of(queue.device.interrupt),
            "on_trap": self._calls.trap_of(queue),
        }
        is_cooperative = queue.record().hsa_queue.type == QueueType.COOPERATIVE
        self._known[queue.number] = said, around, options, is_cooperative
        return around, options, is_cooperative

    def _surroundings(self, **of_queue: Any) -> Surroundings:
        """Return the launch inputs that come from the agent, with those `of_queue`."""
        memory, agent = self._memory, self._agent
        return Surroundings(
            target=agent.target,
            memory=memory.gpu,
            shared_base=memory.apertures.group_segment_aperture_base_hi << 32,
            private_base=memory.apertures.private_segment_aperture_base_hi << 32,
            ptr32=self._small,
            lds_limit_bytes=agent.lds_bytes,
            workgroup_limit=agent.workgroup_limit,
            xccs=agent.xccs,
            **of_queue,
        )

    def _options(self) -> dict[str, Any]:
        """Return the options of all dispatches."""
        settings = self._settings
        return {
            "step_limit": settings.step_limit,
            "seed": settings.seed,
            "poison": settings.fill,
            "clock": self._timestamps.clock,
            "checks": self._compute.checks,
        }

    # ---- PM4 queues ----------------------------------------------------------------------------------------------

    def run_registers(
        self,
        registers: ComputeRegisters,
        command: DispatchDirect,
        queue: int,
        index: int,
        watch: Watch,
        interrupt: Callable[[int], None],
    ) -> int:
        """Run the dispatch that PM4 command `index` of PM4 queue number `queue` starts from compute registers.

        Return the number of retired instructions."""
        if self._compute.checks.tracker is not None:
            raise BeyondModel("the check 'races' is not supported for kernels of PM4 queues: use other checks")
        rsrc2 = registers.rsrc2
        word = registers[ComputeRegister.PGM_RSRC2]
        if word & _ANY_EXCEPTION and self._exceptions(word):
            raise BeyondModel("kernels of PM4 queues that enable exceptions are not modelled")
        dispatch = launch_registers(
            self._surroundings(), registers, command, **self._options(), watch=watch,
            on_hint=self._calls.hint_of(interrupt),
            on_trap=self._calls.trap_of_registers(queue, index, is_enabled=bool(rsrc2.enable_trap_handler)),
        )  # fmt: skip
        try:
            statistics = self._compute.events.run(dispatch, self._compute.run, queue, index)
        except SoftcardError as error:
            self._locators.place(error)
            raise
        self._ticks[0] += statistics.instructions
        return statistics.instructions

    def flush(self) -> None:
        """Execute the cache operations of a PM4 command, if memory is not coherent: write back and invalidate."""
        self._pm4.flush()

    def _header(self, plan: LaunchPlan, kernel_object: int, index: int) -> None:
        """Emit the lints about a kernel's header, once for each kernel (choice `hsa/kernel-headers`)."""
        if len(self._headers) == MOST_REPORTED:
            self._headers.clear()
        self._headers[kernel_object] = plan
        odd = list(plan.oddities)
        if plan.facts.compute_pgm_rsrc1.fp16_overflow and self._agent.target.level < GFX9:
            odd.append(("reserved", "compute_pgm_rsrc1 bit 26 must be 0 before GFX9", rules.RESERVED_ZERO))
        entry = kernel_object + plan.entry_offset
        if entry % ENTRY_ALIGNMENT:
            text = f"the entry {entry:#x} must be a multiple of {ENTRY_ALIGNMENT}"
            elsewhere = f"hardware starts at {entry & -ENTRY_ALIGNMENT:#x}"
            odd.append(("entry-alignment", f"{text}: {elsewhere}", rules.ENTRY_ALIGNMENT))
        known = kernel_object, plan
        if not odd or known in self._reported:
            return
        if len(self._reported) == MOST_REPORTED:
            self._reported.clear()
        self._reported.add(known)
        for check, text, rule in odd:
            self._telemetry.lint(check, f"packet {index}: kernel_object {kernel_object:#x}: {text}", rule)

    def _mismatch(self, plan: LaunchPlan, index: int) -> None:
        """Handle a kernel whose pointer width differs from that of the machine model (choice `hsa/is-ptr64`).

        Raise `PacketRefused` in the small machine model; emit a lint in the large one."""
        mismatch = ptr64_mismatch(self._agent, self._small, plan.is_ptr64)
        if self._small:
            raise PacketRefused(mismatch, QueueError.INVALID_CODE, IS_PTR64)
        self._telemetry.lint("is-ptr64", f"packet {index}: {mismatch}", IS_PTR64)

    def _exceptions(self, rsrc2: int) -> Exceptions:
        """Return the exceptions that compute_pgm_rsrc2 enables and that an engine must check for.

        Memory violations are not included, because every engine always reports them."""
        from softcard.engine.gcn.reference.exceptions import Exceptions

        enabled = Exceptions(rsrc2 >> _EXCEPTIONS_AT & _EXCEPTIONS_MASK)
        if self._memory.watched and rsrc2 >> _ADDRESS_WATCH_AT & 1:
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
            self._block(queue, index, "none of its signals is 0")
            return None
        return 0

    def _agent_dispatch(self, queue: Queue, index: int, data: bytes) -> int:
        if not queue.takes(QueueFeature.AGENT_DISPATCH) or queue.agent_dispatch is None:
            text = "the packet is an agent dispatch, but the queue takes kernel dispatches only"
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
            progress = queue.progress
            position = self._pm4.packet(data, progress.buffer_position)
            progress.buffer_position = position or 0
            if position is not None:
                self._block(queue, index, f"the command at dword {position} of its indirect buffer waits for memory")
                return None
            return 0
        if data[2] != AmdFormat.BARRIER_VALUE:
            text = f"the vendor packet has format {data[2]}, expected {AmdFormat.BARRIER_VALUE:d} (barrier value)"
            text += " or PM4 commands as the agent takes them: AIE packets and others are not modelled"
            raise PacketRefused(text, QueueError.INVALID_VENDOR_PACKET, rules.VENDOR_PACKET)
        packet = BarrierValuePacket.parse(data)
        if packet.condition not in _ORDERED_CONDITIONS:
            text = f"the condition of a barrier value packet is {packet.condition}, expected 0 to 3"
            raise PacketRefused(text, QueueError.INVALID_VENDOR_PACKET, rules.BARRIER_VALUE)
        if not packet.signal:
            return 0
        value = signed(self._dependency(queue, packet.signal) & packet.mask, 64)
        if not Condition(packet.condition).holds(value, packet.value):
            self._block(queue, index, f"signal {packet.signal:#x} is {value}, which does not meet its condition")
            return None
        return 0

    @staticmethod
    def _dependency(queue: Queue, handle: int) -> int:
        """Return the value of the signal `handle`, for which a packet waits."""
        try:
            return Signal(queue.device, handle).load()
        except SoftcardError as error:
            raise PacketRefused(error.message, QueueError.INVALID_PACKET, error.rule) from error

    # ---- the end of a packet -------------------------------------------------------------------------------------

    def _complete(self, queue: Queue, index: int, handle: int, start: int, instructions: int) -> None:
        """Free the ring slot of packet `index`, then decrement its completion signal."""
        signal = self._signal(queue, handle) if handle else None
        if signal is not None and signal.kind != SignalKind.USER:
            why = ": it was destroyed before the packet was done" if signal.kind == SignalKind.INVALID else ""
            text = f"completion signal {handle:#x} has kind {signal.kind}, expected 1 (user){why}"
            self._telemetry.lint("completion-signal", f"packet {index}: {text}", rules.SIGNAL_KINDS)
            raise PacketRefused(text, QueueError.INVALID_PACKET, rules.SIGNAL_KINDS)
        retire, count_down = ending()
        end = retire(queue.block_address, index, start, instructions)
        queue.progress.packets += 1
        queue.progress.instructions += instructions
        self._telemetry.emit(lambda time: PacketCompleted(time, queue.number, index, instructions))
        if signal is not None:
            if self._timestamps.is_host:
                end = self._timestamps.now()
            event = event_of(signal.view())  # before the decrement: the host may destroy a signal that is complete
            before = count_down(queue.block_address, signal.word.place - VALUE_AT, queue.words[_BEGAN], end)
            value = signed(before, signal.bits) - 1
            self._telemetry.emit(lambda time: SignalChanged(time, signal.address, value))
            notify(queue.device, *event)

    def _signal(self, queue: Queue, handle: int) -> Signal:
        """Return the signal at address `handle`.

        The signal object of the previous packet is reused if its address is the same and mappings have not changed."""
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

    def _fail(self, queue: Queue, index: int, error: SoftcardError) -> None:
        """Make the queue of a failed packet inactive, or allocate more private memory so that the packet is retried.

        A `ModelBug` is also raised. Programs do not handle it, so the user has to see it even if no thread waits."""
        code = code_of(error)
        queue.progress.buffer_position = 0
        self._locators.place(error)
        error.at("AQL packet", index).at("queue", queue.number)
        if isinstance(error, StepLimit | TimeLimit):
            error.message += self._meanwhile(queue, index)
        if code & QueueError.INSUFFICIENT_SCRATCH and self._scratch.grow(queue, queue.packet(index)):
            return
        queue.progress.error, queue.progress.code = error, int(code)
        queue.words[Q["active"]] = 0
        handler = self.fault_handler
        is_reported = handler is not None and isinstance(error, AccessFault) and handler(queue, error)
        queue.progress.is_reported = bool(is_reported)
        inactive = None if is_reported or queue.is_destroyed else queue.inactive_now()
        if inactive is not None:
            inactive.rmw("or", int(code))
        self._telemetry.emit(lambda time: QueueErrored(time, queue.number, index, int(code), error))
        if queue.on_error is not None and not queue.is_destroyed:
            queue.on_error(queue, int(code), error)
        if isinstance(error, ModelBug):
            raise error

    def _meanwhile(self, queue: Queue, index: int) -> str:
        """Return a text for the error of a kernel that does not end, with the work that waits for the kernel's end.

        The kernel may depend on this work. Return "" if there is none."""
        waiting = []
        packet = KernelDispatchPacket.parse(queue.packet(index))
        groups = prod(-(-grid // max(group, 1)) for grid, group in zip(packet.grid, packet.workgroup, strict=True))
        if groups > 1 and self._compute.fences is None:
            waiting.append(f"those of its {groups} work-groups that have not begun")
        others = sum(each.pending for each in self._queues if each is not queue)
        if others:
            waiting.append(f"{others} packets of other queues")
        if self._settings.execution == SYNCHRONOUS:
            waiting.append("the host (execution is synchronous)")
        return f"; until it ends, these wait: {', '.join(waiting)}" if waiting else ""

    # ---- helpers ---------------------------------------------------------------------------------------------------

    def _log_packet(self, queue: Queue, index: int, data: bytes) -> None:
        """Emit the event of the start of packet `index`, and the lints about it."""
        self._probes.emit_all(self._log.started(queue.number, index, data, self._ticks[0]))


def _only_caches(agent: Agent, checks: Checks) -> str:
    """Return the reason why PM4 commands between AQL packets may only concern caches; "" if there is none."""
    if agent.is_legacy:
        return "on GFX7 and GFX8"
    return "" if checks.tracker is None else "with the check 'races'"


def _what_failed(cause: BaseException) -> SoftcardError:
    """Return the error of a kernel whose waves were stopped before their end by the exception `cause`.

    The exception was raised by Ctrl-C, by the handler of another host signal, or by a callback."""
    if isinstance(cause, SoftcardError):
        return cause
    return interrupted(cause)


def _private_overflow(error: AccessFault, dispatch: Dispatch) -> str:
    """Return the explanation of a fault that may have been caused by too little private memory; "" for other faults.

    On GFX9, loads past the end of a queue's private memory return 0. A function whose return address was stored
    there therefore returns to address 0."""
    end = dispatch.private[1]
    is_fetch = any(place.what == INSTRUCTION_FETCH for place in error.path)
    if not dispatch.scratch_lane_bytes or not (is_fetch or end <= error.address < end + NEAR_PRIVATE):
        return ""
    return (
        f" (a work-item has {dispatch.scratch_lane_bytes} bytes of private memory: "
        "run with check='memory' to find accesses past the end of it)"
    )
