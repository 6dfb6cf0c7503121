"""An HSA kernel agent with its memory, queues and signals::

    device = HsaDevice("gfx900")
    queue = device.create_queue(1024)
    done = device.create_signal(1)
    queue.submit(packet)
    done.wait(Condition.EQ, 0)

All methods may be called from any thread, unless their description restricts that.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar, Unpack, overload

import numpy as np
from numpy.typing import DTypeLike, NDArray

from softcard.core.completion import Cancel, Observers
from softcard.core.device import Device, Telemetry
from softcard.core.errors import AccessFault, BeyondModel, RuleError, SoftcardError, WireError
from softcard.core.event import Probes
from softcard.core.findings import Finding as Found
from softcard.core.limits import Watch
from softcard.core.space import Mappable
from softcard.core.words import U32
from softcard.device.hsa import rules
from softcard.device.hsa.agents import Agent, PcieAtomic, agent, pcie_atomic, sh_mem_config
from softcard.device.hsa.compute import Compute, Reports, host_order, own_engine, packet_checks
from softcard.device.hsa.events import InterruptSent, Trapped
from softcard.device.hsa.executor import ALL, ConcurrentQueues, Executor
from softcard.device.hsa.launch.registers import ComputeRegisters, DispatchDirect
from softcard.device.hsa.memory.device_memory import DeviceMemory
from softcard.device.hsa.memory.heap import MEMORY
from softcard.device.hsa.native_packets import Q
from softcard.device.hsa.processor import Processor
from softcard.device.hsa.queues.aql_queue import MAX_SIZE, MIN_SIZE, AgentDispatchHandler, OnError, Queue
from softcard.device.hsa.queues.queue_scratch import SCRATCH_WAVES, QueueScratch
from softcard.device.hsa.queues.queue_table import QueueTable
from softcard.device.hsa.queues.records import (
    SIGNAL_ALIGNMENT,
    AmdSignal,
    QueueFeature,
    QueueProperties,
    QueueType,
    SignalKind,
)
from softcard.device.hsa.queues.signals import POLL_SECONDS, Signal, Timestamps
from softcard.device.hsa.settings import STRICT, GpuOptions, Settings
from softcard.device.hsa.snapshot import DeviceState, Keeper
from softcard.device.hsa.wave_events import WaveCalls, WaveEvents
from softcard.engine.gcn.api import Engine
from softcard.engine.gcn.hooks import Checks
from softcard.engine.gcn.memory import Mtype
from softcard.engine.gcn.strict.findings import Finding
from softcard.engine.hooks import Executions
from softcard.isa.gcn.target import GFX9

if TYPE_CHECKING:
    from softcard.device.hsa.fences import Fences
    from softcard.engine.gcn.memory import GpuMemory


Scalar = TypeVar("Scalar", bound=np.generic)
_LIMIT: Final = Q["limit"]


class HsaDevice(Device[Settings]):
    """A virtual HSA kernel agent with memory, queues and signals; its options are those of `Settings`.

    `memory` is the guest memory. `findings` has the findings of checks and of a memory that models caches (coherence
    "strict"). `fine_mtype` is the memory type of queues, signals and kernel arguments; the host sees changes of such
    memory at once. Any thread may call the methods; `trap_handler` has further restrictions.
    """

    def __init__(
        self, agent_name: str | Agent = "gfx900", settings: Settings | None = None, **options: Unpack[GpuOptions]
    ) -> None:
        self.settings = settings = Settings.of(settings, options)
        self.agent = chosen = agent_name if isinstance(agent_name, Agent) else agent(agent_name)
        self.signal_bits = 32 if settings.small else 64
        clock = np.zeros(1, np.uint64)
        self._ticks = ticks = clock.data
        self.telemetry = telemetry = Telemetry(Probes(), lambda: ticks[0], settings.lints)
        self.desk = telemetry.desk
        self.era = 0
        """A number that `reset` and `restore` change, so that waits that began before such a call fail."""
        self.reports = reports = Reports(settings, self.desk)
        self.findings: list[Finding | Found] = reports.findings
        self.log, self.locators = reports.log, reports.locators
        """The log that adds to `findings`, and the symbolizers of its findings."""
        self._interrupts: Observers[int] = Observers()
        self._executor = executor = Executor(settings, telemetry)
        self._memory = memory = DeviceMemory(chosen, settings, executor, reports.guard)
        made = reports.checks_of(memory.gpu)
        self._host_order = order = None if made.tracker is None else host_order(made.tracker, self._is_host)
        own = packet_checks(settings.checks, self.log, executor.queues)
        self.checks = checks = Checks(*([order] if order else []), *own, *made.every)
        """The checks of the device's memory, which observe the waves that access it."""
        self.memory, self.apertures, self.watched = memory.gpu, memory.apertures, memory.watched
        self.fine_mtype = memory.fine_mtype
        strict = settings.coherence == STRICT
        self._fences = fences = (
            _fences(memory.gpu, settings, telemetry, self.findings, checks, chosen.xccs) if strict else None
        )
        memory.gpu.on_read = checks.host_reads if checks.at_reads else None
        memory.gpu.on_write = checks.host_writes if checks.at_writes else None
        events = WaveEvents(telemetry, settings.trace_waves, settings.snapshots)
        self.tracepoints = events.tracepoints
        make = partial(own_engine, settings, fences)
        self._compute = compute = Compute(settings, checks, events, make, fences=fences, host_order=order)
        self._scratch = scratch = QueueScratch(memory, executor, chosen.target.level, settings.dynamic_scratch)
        self._timestamps = timestamps = Timestamps(settings, ticks)
        self._calls = calls = WaveCalls(memory.gpu, memory.state, ticks, telemetry, chosen.target)
        self._processor = processor = Processor(
            chosen, settings, memory, compute, scratch, executor.queues, clock, telemetry, calls, timestamps,
            self.locators, self.interrupt,
        )  # fmt: skip
        self._table = table = QueueTable(chosen, memory, executor, processor, scratch, telemetry)
        self.doorbell_base = table.doorbell_base
        self._keeper = Keeper(memory, executor, table, fences, self.findings, ticks, telemetry, self._begin_anew)

    def __repr__(self) -> str:
        settings, count = self.settings, len(self.queues)
        state = "closed" if self._executor.is_closed else f"{count} queue{'s' * (count != 1)}"
        return f"<HsaDevice {self.agent.name}, {settings.execution}, engine {settings.engine}, {state}>"

    def _made_of(self) -> tuple[object, ...]:
        return (self.agent,)

    # ---- properties -------------------------------------------------------------------------------------------

    @property
    def probes(self) -> Probes:
        """The probes of the device, through which observers subscribe to events.

        While there are subscribers, the processing of every packet involves Python code, so that events can be
        emitted."""
        return self.telemetry.probes

    @property
    def time(self) -> int:
        """The clock of timestamps: packets completed plus wave instructions retired."""
        return self._ticks[0]

    @property
    def timestamp(self) -> int:
        """The current time for the timestamps in completion signals.

        It is `time`, or the host's time in ns, as `Settings.timestamps` selects.
        """
        return self._timestamps.now()

    @property
    def sh_mem_config(self) -> int:
        """The value of the register SH_MEM_CONFIG."""
        return sh_mem_config(self.agent, self.settings.small)

    @property
    def queues(self) -> tuple[Queue, ...]:
        """All queues, in the order of their creation."""
        return tuple(self._executor.queues)

    @property
    def engine(self) -> Engine:
        """The engine that runs waves. The engine is created at its first use."""
        return self._compute.engine

    def instruction_counts(self) -> dict[int, int]:
        """Return, by address, the number of times that each instruction has retired.

        The counts begin with the creation of the device, which needs the setting `count_instructions`; raise
        `WireError` without it.
        """
        return self._compute.instruction_counts()

    def executions(self) -> Executions:
        """Return the executions of each instruction, by address.

        The device needs the setting `count_instructions`; raise `WireError` without it.
        """
        return self._compute.executions()

    @property
    def trap_handler(self) -> Callable[[Trapped], bool] | None:
        """The function that is called when a wave traps; if it returns True, the wave continues.

        If it is None, a wave continues only after a debugger's trap. The function may be called on any thread while
        waves run. It must not destroy queues, free memory or call `unmap`."""
        return self._calls.trap_handler

    @trap_handler.setter
    def trap_handler(self, handler: Callable[[Trapped], bool] | None) -> None:
        self._calls.trap_handler = handler

    @property
    def has_trap_handler(self) -> bool:
        """True if a driver has installed a trap handler. Waves then trap even if their kernels do not enable traps.

        The handler's machine code does not run: `trap_handler` decides if a wave continues. Initially False."""
        return self._memory.state.has_trap_handler

    @has_trap_handler.setter
    def has_trap_handler(self, is_installed: bool) -> None:
        self._memory.state.has_trap_handler = is_installed

    @property
    def fault_handler(self) -> Callable[[Queue, AccessFault], bool] | None:
        """The function that is called when an invalid memory access of a packet stops its queue; or None.

        The access is to unmapped or forbidden memory. The function's arguments are the queue and the error, which has
        its full location: lane, pc, work-group, packet, queue. If the function returns True, it has reported the
        fault itself, as kernel drivers do for page faults, and queue_inactive_signal does not change. If the function
        returns False, or if there is none, queue_inactive_signal gets the error code. The function is called on the
        thread that processes packets and must not wait for other threads."""
        return self._processor.fault_handler

    @fault_handler.setter
    def fault_handler(self, handler: Callable[[Queue, AccessFault], bool] | None) -> None:
        self._processor.fault_handler = handler

    @property
    def on_lint(self) -> Callable[[str, str], None] | None:
        """A function that is called with the name and the message of each lint about kernels; or None.

        It is called regardless of the setting `lints`.
        """
        return self._processor.on_lint

    @on_lint.setter
    def on_lint(self, hear: Callable[[str, str], None] | None) -> None:
        self._processor.on_lint = hear

    @property
    def around_kernels(self) -> Callable[[int, int, int], AbstractContextManager[None]] | None:
        """A function that returns a context manager for each kernel to run in; or None.

        The function's arguments are three numbers: the queue's doorbell slot, the packet's index and the launch's
        number. The function is only called if a check tracks accesses."""
        return self._processor.around_kernels

    @around_kernels.setter
    def around_kernels(self, around: Callable[[int, int, int], AbstractContextManager[None]] | None) -> None:
        self._processor.around_kernels = around

    @property
    def is_from_kernels(self) -> Callable[[int, int, int], bool] | None:
        """A function that the race detector calls for a word that a barrier-value packet has read; or None.

        The function returns True if only kernels have stored the word. Its arguments are the doorbell slot of the
        packet's queue, the packet's index and the address of the word. The property is None if the queues of other
        programs cannot be distinguished from those of this program."""
        return self._processor.is_from_kernels

    @is_from_kernels.setter
    def is_from_kernels(self, is_from_kernels: Callable[[int, int, int], bool] | None) -> None:
        self._processor.is_from_kernels = is_from_kernels

    @property
    def hidden_private_base(self) -> int:
        """The register SH_HIDDEN_PRIVATE_BASE_VIMID: the base address of private memory on GFX7 and GFX8.

        Only a driver that chooses the addresses of private memory itself sets it. It is 0 on GFX9, whose private memory
        has 64-bit addresses.
        """
        return self._memory.state.hidden_private_base

    @hidden_private_base.setter
    def hidden_private_base(self, address: int) -> None:
        if self.agent.target.level == GFX9:
            raise RuleError(
                f"{self.agent.name} has no register SH_HIDDEN_PRIVATE_BASE_VIMID: only GPUs before GFX9 have it",
                rule=rules.FLAT_SCRATCH_LEGACY,
            )
        with self._executor.alone():
            self._memory.state.hidden_private_base = address
            for queue in self.queues:
                queue.forget_launches()

    # ---- memory --------------------------------------------------------------------------------------------------

    def allocate(
        self,
        size: int,
        alignment: int = 64,
        *,
        mtype: Mtype | str | None = None,
        host: bool = False,
        name: str = MEMORY,
    ) -> int:
        """Allocate `size` bytes of guest memory, filled with zeros; return the address.

        An unmapped page follows a block of a page or more. `mtype` and `host` select the kind of memory: see
        `MemoryTypes.of`. The default is coarse-grained memory of the device. `name` is the block's name in reports of
        checks.
        """
        if self._executor.is_closed:
            self.check_open()
        address = self._memory.allocate(size, alignment, mtype=mtype, host=host, name=name)
        if name == MEMORY:
            self._memory.junk(address, size)
        if self.checks.every:
            self.checks.host_allocates(address, size, is_blank=name == MEMORY)
        return address

    def free(self, address: int) -> None:
        """Free memory that `allocate` returned; raise `RuleError` if no block begins at `address`.

        The call waits for the packet in progress, which may use the block, but not for later packets."""
        self._gives_back(address)
        self._memory.free(address)
        if self.desk.findings:
            self.report_lints()

    def view(self, address: int, size: int) -> memoryview:
        """Return `size` bytes of guest memory at `address` as a memoryview; the bytes are not copied."""
        if self._fences is not None:
            self._fences.host_accessed(address, size)
        if self.checks.every:
            self.checks.host_views(address, size)
        return self._memory.heap.view(address, size)

    @overload
    def array(self, address: int, count: int) -> NDArray[np.uint8]: ...

    @overload
    def array(self, address: int, count: int, dtype: type[Scalar] | np.dtype[Scalar]) -> NDArray[Scalar]: ...

    @overload
    def array(self, address: int, count: int, dtype: DTypeLike) -> NDArray[np.generic]: ...

    def array(self, address: int, count: int, dtype: DTypeLike = np.uint8) -> NDArray[np.generic]:
        """Return `count` elements of guest memory at `address` as a NumPy array; the bytes are not copied."""
        kind = np.dtype(dtype)
        return np.frombuffer(self.view(address, count * kind.itemsize), kind)

    def map(
        self,
        what: Mappable,
        writable: bool = True,
        name: str = "host memory",
        *,
        mtype: Mtype | str | None = None,
        host: bool = False,
        used: int | None = None,
    ) -> int:
        """Map a contiguous array or a region into guest memory; return its address. The bytes are not copied.

        Kernels may be running during the call. `mtype` and `host` are those of `allocate`. `used` is the number of
        bytes that the caller requested, from the start of `what`; checks of bounds report accesses after them."""
        self.check_open()
        return self._memory.map(what, writable, name, mtype, host, used)

    def unmap(self, address: int) -> None:
        """Unmap the memory that `map` mapped at `address`. Kernels may be running during the call."""
        self._gives_back(address)
        self._memory.unmap(address)

    def map_at(
        self,
        address: int,
        what: Mappable,
        writable: bool = True,
        name: str = "host memory",
        *,
        mtype: Mtype | str | None = None,
        host: bool = False,
        replace: bool = False,
    ) -> None:
        """Map a contiguous array or a region into guest memory at `address`; the bytes are not copied.

        The address need not be page-aligned; an array may be mapped at several addresses. `mtype` and `host` are
        those of `allocate`. Raise `RuleError` if the range overlaps another mapping, or exceeds the address space.
        With `replace`, the new mapping replaces earlier mappings of `map_at` atomically, so that no concurrent access
        faults. Kernels may be running during the call."""
        self.check_open()
        self._memory.map_at(address, what, writable, name, mtype=mtype, host=host, replace=replace)

    def unmap_at(self, address: int, size: int) -> None:
        """Unmap `size` bytes at `address`, which may contain several mappings of `map_at`, or parts of them.

        A region whose accesses have side effects can only be unmapped as a whole. Raise `RuleError`, without effect,
        unless `map_at` mapped every byte. Kernels may be running during the call; their later accesses fault.
        """
        self._memory.unmap_at(address, size)

    def block(self, address: int) -> object:
        """Return an object that identifies the allocation or mapping at `address`; None if there is neither.

        A later allocation at the same address has another object.
        """
        return self._memory.heap.block(address)

    def watch(self, address: int, size: int) -> None:
        """Make waves trap when they access `size` bytes at `address`.

        Only waves whose kernels enable the address watch exception trap."""
        self.check_open()
        self.watched.append(range(address, address + size))

    def set_mailboxes(self, address: int, size: int) -> None:
        """Set the memory range in which a driver has its mailboxes.

        Waves store messages in mailboxes; the race detector ignores such stores.
        """
        if self.checks.tracker is not None:
            self.checks.tracker.set_mailboxes(address, size)

    # ---- signals -------------------------------------------------------------------------------------------------

    def create_signal(self, value: int = 0, mailbox: int = 0, event_id: int = 0) -> Signal:
        """Return a new user signal with the initial `value`.

        `mailbox` and `event_id` are for a signal that sends an event to a driver: the mailbox's address, and the id of
        the event.
        """
        self.check_open()
        address = self.allocate(AmdSignal.size_bytes, SIGNAL_ALIGNMENT, mtype=self.fine_mtype, name="signal")
        value = value if self.signal_bits == 64 else value & U32
        record = AmdSignal(kind=SignalKind.USER, value=value, event_mailbox_ptr=mailbox, event_id=event_id)
        self.memory.write(address, record.pack())
        return Signal(self, address)

    def signal(self, address: int) -> Signal:
        """Return the signal whose handle is `address`."""
        return Signal(self, address)

    def destroy_signal(self, signal: Signal) -> None:
        """Free a signal's memory; the signal's kind becomes 0 (invalid)."""
        for queue in self._executor.queues:
            has_packets = (
                queue.load_read_index() < queue.words[_LIMIT]
            )  # this runs for each launch: no Python call for the lookup
            if has_packets and queue.is_active and signal.address in queue.completions():
                text = f"signal {signal.address:#x} is destroyed before a packet of queue {queue.number} completes it"
                self.telemetry.lint("completion-signal", text, rules.SIGNAL_KINDS)
        self.memory.write(signal.address, bytes(AmdSignal.size_bytes))
        self.free(signal.address)

    def observe_interrupts(self, call: Callable[[int], None]) -> Cancel:
        """Call the function `call` with the event id of every later interrupt.

        Return a function that ends the observation.
        """
        return self._interrupts.add(call)

    # ---- queues --------------------------------------------------------------------------------------------------

    def create_queue(
        self,
        size: int,
        type: QueueType = QueueType.MULTI,
        features: QueueFeature = QueueFeature.KERNEL_DISPATCH,
        on_error: OnError | None = None,
        agent_dispatch: AgentDispatchHandler | None = None,
        profiling: bool | None = None,
    ) -> Queue:
        """Return a new queue for `size` packets; `size` must be a power of two.

        `on_error` is called with each error of the queue. `agent_dispatch` executes agent dispatch packets; if it
        is given, `features` must include them. Raise `WireError` for an invalid size or type."""
        self.check_open()
        if size & size - 1 or not MIN_SIZE <= size <= MAX_SIZE:
            raise WireError(
                f"the size of the queue is {size} packets, expected a power of two from {MIN_SIZE} to {MAX_SIZE}"
            )
        if type not in list(QueueType):
            raise WireError(f"the queue type is {type}, expected 0 (multi), 1 (single) or 2 (cooperative)")
        properties = QueueProperties.ENABLE_TRAP_HANDLER
        if not self.settings.small:
            properties |= QueueProperties.IS_PTR64
        if self.settings.profiling if profiling is None else profiling:
            properties |= QueueProperties.ENABLE_PROFILING
        queue = self._table.create(self, size, type, features, properties)
        queue.on_error, queue.agent_dispatch = on_error, agent_dispatch
        return queue

    def adopt_queue(
        self,
        address: int,
        slot: int | None = None,
        size: int | None = None,
        on_error: OnError | None = None,
        agent_dispatch: AgentDispatchHandler | None = None,
        *,
        ring: int | None = None,
    ) -> Queue:
        """Return a queue for an amd_queue_t that the caller created at `address`, and process its packets.

        The amd_queue_t and its ring must be in memory that `map_at` mapped; this call does not write to them. `slot`
        is the queue's hardware doorbell, or None for the first free one. `ring` is the address of the ring, and `size`
        its size in packets; None means the value in hsa_queue_t, which hardware does not read. For a ring that legacy
        hardware maps twice, only the first half is needed. The caller announces packets by a store to the doorbell or
        by `ring_doorbell`. `destroy_queue` does not free the memory.

        Raise `WireError` for an invalid size or slot, `RuleError` for a slot in use and wrong alignment ("AMD AQL
        Queue Object amd_queue_t"), `AccessFault` for unmapped memory."""
        self.check_open()
        queue = self._table.adopt(self, address, slot, size, ring)
        queue.on_error, queue.agent_dispatch = on_error, agent_dispatch
        return queue

    def ring_doorbell(self, slot: int, value: int) -> None:
        """Ring the hardware doorbell `slot`, with the same effect as a store of `value` to it.

        This is for hosts that have their own doorbells. `value` has the encoding of the hardware. On GFX9 it is the
        index of the last packet. On GFX8 it is the index of the packet after the last one. On GFX7 it counts dwords
        modulo twice the ring size ("Signal kernel machine code")."""
        self._table.ring(slot, value)

    def run_registers(
        self, registers: ComputeRegisters, command: DispatchDirect, queue: int, index: int, watch: Watch
    ) -> int:
        """Run the dispatch that command `index` of PM4 queue number `queue` starts from compute registers.

        Return the number of retired instructions. The call waits until the AQL packet in progress has ended, and no AQL
        packets are processed meanwhile. `watch` can stop the kernel."""
        with self._executor.alone():
            self.check_open()
            return self._processor.run_registers(registers, command, queue, index, watch, self.interrupt)

    def flush_caches(self) -> None:
        """Write back and invalidate all caches, if the memory models caches (coherence "strict")."""
        if self._fences is not None:
            with self._executor.alone():
                self._processor.flush()

    def destroy_queue(self, queue: Queue) -> None:
        """Destroy a queue and free its memory; raise `RuleError` if it was already destroyed.

        The call waits until the queue's packet in progress has ended. For an adopted queue, the running kernel is
        stopped without a notification, the call does not wait for packets of other queues, and the memory is not
        freed."""
        if queue.is_destroyed:
            raise RuleError(f"queue {queue.number} was destroyed already")
        self._table.destroy(queue)
        if self._host_order is not None:
            self._host_order.destroyed(queue.number)

    def set_active(self, queue: Queue, active: bool) -> None:
        """Resume the processing of a queue's packets if `active`, else stop it after the packet in progress.

        The call does not wait for other queues.
        """
        if active:
            self.check_open()
        self._executor.set_active(queue, active)
        if active:
            self._executor.after_doorbell()

    def set_scratch(self, queue: Queue, lane_bytes: int, waves: int = SCRATCH_WAVES) -> None:
        """Allocate private memory for a queue: `lane_bytes` per work-item, for up to `waves` waves at a time.

        With `lane_bytes` 0, free the queue's private memory.
        """
        self.check_open()
        self._scratch.set(queue, lane_bytes, waves)

    # ---- platform ----

    def pcie_atomic(self, operation: str) -> PcieAtomic:
        """Return the implementation of an atomic `operation` of system scope on host memory over PCIe.

        Raise `BeyondModel` if the platform does not support it.
        """
        return pcie_atomic(self.agent, operation, self.settings.pcie_atomics)

    # ---- snapshots -----------------------------------------------------------------------------------------------

    def snapshot(self) -> DeviceState:
        """Return the state of memory, queues, clock, findings and scheduling, for `restore`.

        The call waits for packets in progress; inside a callback of a packet it raises `RuleError`. The state does
        not include settings, probes, callbacks, the state of regions whose accesses have side effects, and the
        contents of mapped memory that this process can only read."""
        self.check_open()
        return self._keeper.snapshot()

    def restore(self, state: DeviceState) -> None:
        """Return to a `state` that `snapshot` returned.

        Raise `RuleError` for the state of another device, or inside a callback. Running kernels are ended, and a wait
        for a signal on another thread raises `RuleError`. Addresses in this process do not change: arrays that were
        mapped at the time of the snapshot get their old contents, in place, and are mapped again. Queues and signals of
        that time work as before. Queues and signals created later are destroyed, and arrays mapped later are unmapped.
        """
        self.check_open()
        self._keeper.restore(state)
        self.checks.forget()

    def reset(self) -> None:
        """Return to the device's initial state, with all memory freed and all queues and signals destroyed.

        Running kernels are ended, and a wait for a signal on another thread raises `RuleError`.
        """
        self.check_open()
        self._keeper.reset()
        self.checks.forget()

    def _begin_anew(self) -> None:
        """Make all waits for packets fail, because the device has returned to its initial or an earlier state."""
        self.era += 1

    # ---- execution -----------------------------------------------------------------------------------------------

    def process(self, packets: int = ALL) -> int:
        """Process up to `packets` packets on the calling thread; return the number of processed packets."""
        done = self._executor.work(packets)
        self._nothing_runs()
        self.report_lints()
        return done

    def poll_during_kernels(self, poll: Callable[[], None]) -> None:
        """Enable the processing of packets of other queues while a long kernel runs.

        From this call on, a long kernel is interrupted from time to time. The device then calls `poll`, which may
        ring doorbells (`ring_doorbell`), and processes packets of other queues. This is for a driver whose programs
        wait in kernels for copies that other queues do. Waves of an interrupted kernel also get time while a kernel
        that began later runs, so the later kernel may wait for their actions. An interrupted kernel must not
        wait for packets that follow it in its own queue, because they are processed after its end. Raise `BeyondModel`
        if the coherence is "strict"."""
        if self._fences is not None:
            raise BeyondModel(f"concurrent kernels are not supported with coherence {STRICT!r}")
        meanwhile = self._processor.meanwhile = ConcurrentQueues(poll, self._executor, self._compute)
        for queue in self.queues:
            queue.watch.meanwhile = meanwhile

    @property
    def is_idle(self) -> bool:
        """True if no packet is being processed, and no queue has a packet that could be processed."""
        return self._executor.is_idle

    def wait_idle(self, timeout_seconds: float | None = None) -> bool:
        """Wait until the device is idle; return False after the timeout."""
        is_idle = self._executor.wait_idle(timeout_seconds)
        if is_idle:
            self._nothing_runs()
        self.report_lints()
        return is_idle

    def close(self) -> None:
        """Stop the device permanently: its threads end, and a wait for an unprocessed packet raises an error.

        The call ends a running kernel (`Stopped`), on whatever thread it runs, and waits for its end.
        """
        self._executor.close()
        self._nothing_runs()
        self._compute.close()
        self._memory.gpu.close()
        self.checks.device_closes()
        self.report_lints()

    @property
    def is_closed(self) -> bool:
        """True if `close` was called."""
        return self._executor.is_closed

    def check_open(self) -> None:
        """Raise `RuleError` if the device was closed, because it does not process packets any more."""
        self._executor.check_open()

    def _check_open(self) -> None:
        self.check_open()

    def make_room(self, queue: Queue, index: int) -> None:
        """Try once to free the ring slot for packet `index`: process packets, or wait a short time for a change.

        The caller repeats this until `queue` has room for the packet. Raise an error if the slot cannot become
        free."""
        if self.process() or index - queue.load_read_index() < queue.size:
            return
        self.check_open()
        if queue.error is not None:
            raise queue.error
        if self.is_idle and not self.settings.threaded and not _others():
            raise RuleError(
                f"queue {queue.number} is full and stays full: no pending work can end the wait of its next packet",
                rule=rules.QUEUE_FULL,
            )
        self.await_change(POLL_SECONDS)

    # ---- interface for signals and queues -------------------------------------------------------------------------

    def interrupt(self, event_id: int) -> None:
        """Notify the observers of interrupts, and wake waiting threads, for an interrupt with the id `event_id`."""
        self.telemetry.emit(lambda time: InterruptSent(time, event_id))
        self._interrupts.notify(event_id)
        self._executor.notify()

    def report_lints(self, error: BaseException | None = None, *, with_findings: bool = True) -> None:
        """Report lints and findings to the host at the end of a call that the host made.

        Do nothing if a callback made the call. `error` is the error with which the call ends, or None.
        """
        if not self._executor.is_mine:
            self.desk.report(error, with_findings=with_findings)

    def waited(self, signal: int) -> None:
        """Handle the end of the host's wait for the signal at address `signal`.

        A strict memory then reports stores that the host cannot see yet.
        """
        if self._fences is not None:
            self._fences.waited(signal)
        self.signal_was_read(signal)

    def signal_was_read(self, signal: int) -> None:
        """Handle a read by the host of the signal at address `signal`.

        The read may tell the host that kernels are done."""
        if self._host_order is not None:
            self._host_order.signal_was_read(signal)

    def check_host_store(self) -> None:
        """Raise `RuleError` if the host changes a signal after `close`.

        No packet can wait for the signal then. The thread that processes packets may still change a signal, because
        `close` waits for the packet in progress."""
        if not self._executor.is_mine:
            self._executor.check_open()

    def signal_changed(self, signal: int) -> None:
        """Handle a change by the host of the signal at address `signal`."""
        if self.checks.tracker is not None:
            self.checks.tracker.signalled(signal)
        self._executor.signal_changed()

    def progress(self) -> bool:
        """Process packets on this thread, if the device has no thread of its own; return True if one was processed."""
        return not self.settings.threaded and self._executor.work(ALL) > 0

    def await_change(self, seconds: float) -> None:
        """Wait until the device's state changes, but at most `seconds`."""
        with self._executor.changed:
            self._executor.changed.wait(seconds)

    def stuck(self, address: int) -> SoftcardError | None:
        """Return the error because of which the signal at `address` will not change unless the host changes it.

        Return None if it may change.
        """
        alone = not _others()
        error = self._executor.stuck(address, alone)
        if error is not None or self.settings.threaded or not alone:
            return error
        if not self._executor.is_idle or self._executor.is_mine:
            return None
        return RuleError("no queue has work left that could change the signal", rule=rules.SIGNAL_WAIT)

    def _is_host(self) -> bool:
        """Return True if the calling thread belongs to the host and is not inside a callback of a packet."""
        return not self._executor.is_mine and not threading.current_thread().name.startswith("softcard")

    def _nothing_runs(self) -> None:
        """Record, for the race detector, that the host now knows that no kernel is running.

        For example, the host knows this after all packets have been processed."""
        if self._host_order is not None and self._is_host():
            self._host_order.nothing_runs()

    def _gives_back(self, address: int) -> None:
        """Report to checks that the host frees or unmaps the block at `address`."""
        block = self._memory.heap.block(address) if self.checks.every else None
        if block is not None:
            self.checks.host_frees(address, block.size)

    def abandon(self, address: int, cause: BaseException) -> None:
        """End the work for which the host was waiting, because its wait was interrupted (Ctrl-C).

        `address` is that of the awaited signal, `cause` the exception that interrupted the wait.
        """
        self._executor.abandon(address, cause)

    def never(self, address: int) -> None:
        """Report to the checks that the host would wait for ever for the signal at `address`."""
        self.checks.host_blocks(address)


def _others() -> bool:
    """Return True if the host has other threads than the calling one; such a thread may change a signal.

    Threads that belong to the simulator do not count."""
    me = threading.current_thread()
    return any(each is not me and not each.name.startswith("softcard") for each in threading.enumerate())


def _fences(
    memory: GpuMemory,
    settings: Settings,
    telemetry: Telemetry,
    findings: list[Finding | Found],
    checks: Checks,
    xccs: int,
) -> Fences:
    """Return the model of packet fences for a memory that models caches (coherence "strict").

    The module with its engine is imported inside this function, because few devices need it."""
    from softcard.device.hsa.fences import Fences

    return Fences(memory, settings, telemetry, findings, checks, xccs)
