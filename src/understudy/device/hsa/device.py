"""An HSA kernel agent with its memory, queues and signals.

device = HsaDevice("gfx900")
queue = device.create_queue(1024)
done = device.create_signal(1)
queue.submit(packet)
done.wait(Condition.EQ, 0)
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from understudy.core.checks import SYNC
from understudy.core.device import Device
from understudy.core.errors import AccessFault, BeyondModel, RuleError, UnderstudyError, WireError
from understudy.core.event import Probes
from understudy.core.findings import Finding as Found
from understudy.core.findings import FindingLog
from understudy.core.line import Cancel, Observers
from understudy.core.located import Locators
from understudy.core.memory_check import MemoryCheck, log_of
from understudy.core.telemetry import Telemetry
from understudy.core.words import U32
from understudy.device.hsa import rules
from understudy.device.hsa.agents import Agent, PcieAtomic, agent, pcie_atomic, sh_mem_config
from understudy.device.hsa.beside import Beside
from understudy.device.hsa.compute import Compute
from understudy.device.hsa.device_memory import DeviceMemory
from understudy.device.hsa.events import InterruptSent, Trapped
from understudy.device.hsa.executor import ALL, Executor
from understudy.device.hsa.heap import MEMORY
from understudy.device.hsa.processor import Processor
from understudy.device.hsa.queue_scratch import SCRATCH_WAVES, QueueScratch
from understudy.device.hsa.queue_table import QueueTable
from understudy.device.hsa.queues import MAX_SIZE, MIN_SIZE, AgentDispatchHandler, OnError, Queue
from understudy.device.hsa.records import (
    SIGNAL_ALIGNMENT,
    AmdSignal,
    QueueFeature,
    QueueProperties,
    QueueType,
    SignalKind,
)
from understudy.device.hsa.settings import STRICT, Settings
from understudy.device.hsa.signals import POLL_SECONDS, Signal
from understudy.device.hsa.snapshot import DeviceState, Keeper
from understudy.device.hsa.timestamps import Timestamps
from understudy.device.hsa.wave_calls import WaveCalls
from understudy.engine.gcn.api import Engine
from understudy.engine.gcn.barriers import Barriers
from understudy.engine.gcn.marks.asked import marks_of
from understudy.engine.gcn.memory_type import Mtype
from understudy.engine.gcn.moments import Moments
from understudy.engine.gcn.races.asked import races_of
from understudy.engine.gcn.strict.findings import Finding
from understudy.engine.gcn.waits.asked import waits_of
from understudy.isa.gcn.target import GFX9

if TYPE_CHECKING:
    from understudy.device.hsa.fences import Fences
    from understudy.device.hsa.host_order import HostOrder
    from understudy.device.hsa.sync import PacketSync
    from understudy.engine.gcn.memory import GpuMemory
    from understudy.engine.gcn.races.watch import RaceWatch


class HsaDevice(Device[Settings]):
    """A virtual kernel agent; see the module. Options are those of `Settings`.

    `memory` is what lies at which address, `findings` what checks and a strict memory found, `fine_mtype` the
    memory type of queues, signals and kernel arguments: what the host sees at once. It is safe to use from several
    threads, but for what `trap_handler` says.
    """

    def __init__(self, agent_name: str | Agent = "gfx900", settings: Settings | None = None, **options: Any) -> None:
        self.settings = settings = Settings.of(settings, options)
        self.agent = chosen = agent_name if isinstance(agent_name, Agent) else agent(agent_name)
        self.signal_bits = 32 if settings.small else 64
        clock = np.zeros(1, np.uint64)
        self._ticks = ticks = clock.data
        self.telemetry = telemetry = Telemetry(Probes(), lambda: ticks[0], settings.lints)
        self.desk = telemetry.desk
        self.findings: list[Finding | Found] = []
        self._check = check = MemoryCheck.of(settings, self.findings)
        self._interrupts: Observers[int] = Observers()
        self._executor = executor = Executor(settings, telemetry)
        self._memory = memory = DeviceMemory(chosen, settings, executor, check)
        self.log: FindingLog | None
        """Where findings of checks go, which `findings` has; None where there is no check."""
        self.log = check.log if check is not None else log_of(settings, self.findings) if settings.checks else None
        self.locators = Locators()
        """Those who know code in its memory."""
        if self.log is not None:
            self.log.namers.append(self.locators.complete)
        self.marks = marks_of(settings.checks, memory.gpu, self.log)
        self.memory, self.apertures, self.watched = memory.gpu, memory.apertures, memory.watched
        self.fine_mtype = memory.fine_mtype
        self._sync = sync = _sync(settings, self.log, executor)
        strict = settings.coherence == STRICT
        self._fences = fences = _fences(memory.gpu, settings, telemetry, self.findings, sync) if strict else None
        waits, barriers = waits_of(settings.checks, self.log), Barriers.of(settings.checks, self.log)
        races = races_of(settings.checks, memory.gpu, self.log, settings.equal_stores)
        self.moments = Moments(settings.snapshots) if settings.snapshots else None
        self._host_order = order = None if races is None else _host_order(races, self._is_host)
        memory.gpu.on_read = None if order is None else order.reads
        memory.gpu.on_write = None if order is None and self.marks is None else self._written
        compute = Compute(settings, fences, self.marks, waits, barriers, races, self.moments, order)
        self._compute = compute
        self._scratch = scratch = QueueScratch(memory, executor, chosen.target.level, settings.dynamic_scratch)
        self._timestamps = timestamps = Timestamps(settings, ticks)
        self._calls = calls = WaveCalls(memory.gpu, memory.state, ticks, telemetry)
        self._processor = processor = Processor(
            chosen, settings, memory, compute, scratch, executor.queues, clock, telemetry, calls, timestamps,
            self.locators,
        )  # fmt: skip
        self._table = table = QueueTable(chosen, memory, executor, processor, scratch, telemetry)
        self.doorbell_base = table.doorbell_base
        self._keeper = Keeper(memory, executor, table, fences, self.findings, ticks, telemetry)

    def __repr__(self) -> str:
        settings, count = self.settings, len(self.queues)
        state = "closed" if self._executor.is_closed else f"{count} queue{'s' * (count != 1)}"
        return f"<HsaDevice {self.agent.name}, {settings.execution}, engine {settings.engine}, {state}>"

    def _made_of(self) -> tuple[Any, ...]:
        return (self.agent,)

    # ---- what there is -------------------------------------------------------------------------------------------

    @property
    def probes(self) -> Probes:
        """Where to subscribe to events. While somebody listens, no packet is processed by machine code alone."""
        return self.telemetry.probes

    @property
    def time(self) -> int:
        """The clock of timestamps: packets completed and wave instructions retired."""
        return self._ticks[0]

    @property
    def timestamp(self) -> int:
        """The time now as completion signals get it: `time`, or the host's in nanoseconds (`Settings.timestamps`)."""
        return self._timestamps.now()

    @property
    def sh_mem_config(self) -> int:
        """What SH_MEM_CONFIG holds."""
        return sh_mem_config(self.agent, self.settings.small)

    @property
    def queues(self) -> tuple[Queue, ...]:
        """All queues, in the order of their creation."""
        return tuple(self._executor.queues)

    @property
    def engine(self) -> Engine:
        """What runs waves; made when it is first needed."""
        return self._compute.engine

    def instruction_counts(self) -> dict[int, int]:
        """How often the instruction at each address has retired, since the device was made.

        For a device of the setting `count_instructions`; `WireError` for another.
        """
        return self._compute.instruction_counts()

    @property
    def trap_handler(self) -> Callable[[Trapped], bool] | None:
        """Asked about traps of waves: True lets them go on; None: a debugger's trap only does.

        It may be called on any thread while waves run, and must not destroy queues, free memory or `unmap` it.
        """
        return self._calls.trap_handler

    @trap_handler.setter
    def trap_handler(self, handler: Callable[[Trapped], bool] | None) -> None:
        self._calls.trap_handler = handler

    @property
    def has_trap_handler(self) -> bool:
        """Whether a driver has installed a trap handler: then waves trap whatever their kernel and queue say.

        Its code does not run; what becomes of a trap is `trap_handler`'s decision. False at first.
        """
        return self._memory.state.has_trap_handler

    @has_trap_handler.setter
    def has_trap_handler(self, is_installed: bool) -> None:
        self._memory.state.has_trap_handler = is_installed

    @property
    def fault_handler(self) -> Callable[[Queue, AccessFault], bool] | None:
        """Asked about a packet's access to memory that is not there (or not so), when its queue becomes inactive.

        True: it has told whom it concerns, as kernel drivers do of page faults, and queue_inactive_signal stays as it
        is; None or False: that gets the code. The error has all its places: lane, pc, work-group, packet, queue. It is
        called on the thread that processes packets and must not wait for others.
        """
        return self._processor.fault_handler

    @fault_handler.setter
    def fault_handler(self, handler: Callable[[Queue, AccessFault], bool] | None) -> None:
        self._processor.fault_handler = handler

    @property
    def hidden_private_base(self) -> int:
        """SH_HIDDEN_PRIVATE_BASE_VIMID: where GFX7 and GFX8 count addresses of private memory from.

        Set by a driver that places private memory itself. 0 on GFX9, which has whole addresses.
        """
        return self._memory.state.hidden_private_base

    @hidden_private_base.setter
    def hidden_private_base(self, address: int) -> None:
        if self.agent.target.level == GFX9:
            raise RuleError(f"{self.agent.name} has no SH_HIDDEN_PRIVATE_BASE_VIMID", rule=rules.FLAT_SCRATCH_LEGACY)
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
        """Address of `size` zeroed bytes of memory. What is a page or more has an end that is looked after.

        `mtype` and `host` say which memory: see `MemoryTypes.of`. Coarse-grained memory of the device is the default.
        `name` is what checks call it.
        """
        address = self._memory.allocate(size, alignment, mtype=mtype, host=host, name=name)
        if self.marks is not None:
            (self.marks.marking.undefined if name == MEMORY else self.marks.marking.written)(address, size)
        return address

    def free(self, address: int) -> None:
        """Give back what `allocate` gave, when no packet is processed; `RuleError` where nothing begins there."""
        self._gives_back(address)
        self._memory.free(address)

    def view(self, address: int, size: int) -> memoryview:
        """Guest memory as this process sees it, without a copy."""
        if self._fences is not None:
            self._fences.looked(address, size)
        if self._host_order is not None:
            self._host_order.reads(address, size)
        if self.marks is not None:  # who looks at memory may write it
            self.marks.marking.written(address, size)
        return self._memory.heap.view(address, size)

    def array(self, address: int, count: int, dtype: Any = np.uint8) -> np.ndarray[Any, Any]:
        """Likewise, as an array."""
        kind = np.dtype(dtype)
        return np.frombuffer(self.view(address, count * kind.itemsize), kind)

    def map(
        self,
        what: Any,
        writable: bool = True,
        name: str = "host memory",
        *,
        mtype: Mtype | str | None = None,
        host: bool = False,
        used: int | None = None,
    ) -> int:
        """Make a contiguous array or a region part of guest memory, without a copy; its address. Kernels may run.

        `mtype` and `host` as of `allocate`. `used`: bytes from its first on that were asked for, which checks go by.
        """
        return self._memory.map(what, writable, name, mtype, host, used)

    def unmap(self, address: int) -> None:
        """Take out what `map` put there."""
        self._gives_back(address)
        self._memory.unmap(address)

    def map_at(
        self,
        address: int,
        what: Any,
        writable: bool = True,
        name: str = "host memory",
        *,
        mtype: Mtype | str | None = None,
        host: bool = False,
        replace: bool = False,
    ) -> None:
        """Make a contiguous array or a region part of guest memory at `address`, without a copy.

        The address need not be that of a page; the same array may lie at several. `mtype` and `host` as of `allocate`.
        A `RuleError` where something lies there already, of whomever, or beyond the address space; with `replace` it
        takes the place of what `map_at` put there, at once: no access finds nothing. Kernels may run meanwhile.
        """
        options: Any = {"writable": writable, "name": name, "replace": replace}
        self._memory.map_at(address, what, mtype=mtype, host=host, **options)

    def unmap_at(self, address: int, size: int) -> None:
        """Take out `size` bytes at `address` of what `map_at` put there: several mappings, or pieces of them.

        Regions with effects go as a whole. A `RuleError`, and nothing changed, where not every byte was mapped so.
        Kernels may run meanwhile; those that access it afterwards fault.
        """
        self._memory.unmap_at(address, size)

    def block(self, address: int) -> object:
        """What was allocated or mapped at an address: another object as soon as it is something else; or None."""
        return self._memory.heap.block(address)

    def watch(self, address: int, size: int) -> None:
        """Waves whose kernels enable the address watch exception trap when they access these bytes."""
        self.watched.append(range(address, address + size))

    # ---- signals -------------------------------------------------------------------------------------------------

    def create_signal(self, value: int = 0, mailbox: int = 0, event_id: int = 0) -> Signal:
        """A user signal with this value; `mailbox` and `event_id` for events."""
        address = self.allocate(AmdSignal.size_bytes, SIGNAL_ALIGNMENT, mtype=self.fine_mtype, name="signal")
        value = value if self.signal_bits == 64 else value & U32
        record = AmdSignal(kind=SignalKind.USER, value=value, event_mailbox_ptr=mailbox, event_id=event_id)
        self.memory.write(address, record.pack())
        return Signal(self, address)

    def signal(self, address: int) -> Signal:
        """The signal with this handle."""
        return Signal(self, address)

    def destroy_signal(self, signal: Signal) -> None:
        """Give its memory back; its kind becomes 0 (invalid)."""
        self.memory.write(signal.address, bytes(AmdSignal.size_bytes))
        self.free(signal.address)

    def observe_interrupts(self, call: Callable[[int], None]) -> Cancel:
        """Call with the event id of every interrupt from now on; the result cancels that."""
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
        """A queue of `size` packets, a power of two.

        `on_error` hears of errors; `agent_dispatch` does what agent dispatch packets ask for (then `features` have to
        include them). A `WireError` for a size or type that cannot be.
        """
        if size & size - 1 or not MIN_SIZE <= size <= MAX_SIZE:
            raise WireError(f"a queue of {size} packets, expected a power of two from {MIN_SIZE} to {MAX_SIZE}")
        if type not in list(QueueType):
            raise WireError(f"queue type {type}, expected 0 (multi), 1 (single) or 2 (cooperative)")
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
    ) -> Queue:
        """Process the packets of a queue that somebody else made: its amd_queue_t lies at `address`, the ring where
        that says, both in memory that was mapped (`map_at`); nothing is written to either.

        `slot` is its hardware doorbell, None the first that is free; `size` is in packets, None as hsa_queue_t says. A
        ring that legacy hardware sees twice needs its first half only. Ring it by a store to the doorbell or by
        `ring_doorbell`. `destroy_queue` frees nothing of it.

        `WireError` for a size or slot that cannot be, `RuleError` for a slot in use and wrong alignment ("AMD AQL Queue
        Object amd_queue_t"), `AccessFault` where there is no memory.
        """
        queue = self._table.adopt(self, address, slot, size)
        queue.on_error, queue.agent_dispatch = on_error, agent_dispatch
        return queue

    def ring_doorbell(self, slot: int, value: int) -> None:
        """What a store of `value` to hardware doorbell `slot` does, for hosts with doorbells of their own.

        The value is the hardware's: GFX9 has the index of the last packet, others that of the next one (in dwords and
        wrapped at twice the ring on GFX7: "Signal kernel machine code").
        """
        self._table.ring(slot, value)

    def destroy_queue(self, queue: Queue) -> None:
        """Give a queue's memory back; `RuleError` for one that is destroyed already.

        A packet that is processed ends first. Of an adopted queue nothing is freed, a kernel of it that runs is stopped
        without telling it, and packets of other queues are not waited for.
        """
        if queue.is_destroyed:
            raise RuleError(f"queue {queue.number} was destroyed already")
        self._table.destroy(queue)
        if self._host_order is not None:
            self._host_order.destroyed(queue.number)

    def set_active(self, queue: Queue, active: bool) -> None:
        """Stop processing a queue's packets, when one that runs has ended, or go on. Nothing waits for other queues."""
        self._executor.set_active(queue, active)
        if active:
            self._executor.after_doorbell()

    def set_scratch(self, queue: Queue, lane_bytes: int, waves: int = SCRATCH_WAVES) -> None:
        """Give a queue private memory: `lane_bytes` for each work-item of up to `waves` waves; 0 takes it away."""
        self._scratch.set(queue, lane_bytes, waves)

    # ---- platform ----

    def pcie_atomic(self, operation: str) -> PcieAtomic:
        """How a system scope atomic on host memory is done over PCIe; `BeyondModel` where the platform cannot."""
        return pcie_atomic(self.agent, operation, self.settings.pcie_atomics)

    # ---- snapshots -----------------------------------------------------------------------------------------------

    def snapshot(self) -> DeviceState:
        """The state between two packets, for `restore`: memory, queues, clock, findings, whose turn it is.

        Waits for the packets that are processed; `RuleError` in a callback of one. Not part of it: settings, probes and
        callbacks, what regions with effects remember, and memory that was mapped and that this process may not write.
        """
        return self._keeper.snapshot()

    def restore(self, state: DeviceState) -> None:
        """Go back to a state that `snapshot` of this device gave; `RuleError` for another device's, or in a callback.

        Host addresses stay: arrays that were mapped then get their contents of then, in place, and are mapped again.
        Queues and signals of then work as they did; those created since are destroyed, arrays mapped since are not
        device memory any more.
        """
        self._keeper.restore(state)
        self._compute.forget()

    def reset(self) -> None:
        """Go back to the device as it was made: nothing is allocated or mapped, queues and signals are destroyed."""
        self._keeper.reset()
        self._compute.forget()

    # ---- execution -----------------------------------------------------------------------------------------------

    def process(self, packets: int = ALL) -> int:
        """Process up to `packets` packets now, on this thread; how many were."""
        done = self._executor.work(packets)
        self._nothing_runs()
        self.tell_lints()
        return done

    def look_beside_kernels(self, look: Callable[[], None]) -> None:
        """From now on kernels that take long let packets of other queues be processed beside them, in their time.

        `look` is called before: it may ring doorbells (`ring_doorbell`). For a driver whose programs wait in kernels
        for what they copy meanwhile. A kernel that began later gives the waves of those below it some time of its own,
        so that it may wait for what they do; for what comes behind them in their queues it waits for ever.
        `BeyondModel` with coherence "strict".
        """
        if self._fences is not None:
            raise BeyondModel(f"kernels beside each other with coherence {STRICT!r}")
        meanwhile = self._processor.meanwhile = Beside(look, self._executor, self._compute)
        for queue in self.queues:
            queue.watch.meanwhile = meanwhile

    @property
    def is_idle(self) -> bool:
        """Whether no packet is processed or could be."""
        return self._executor.is_idle

    def wait_idle(self, timeout_seconds: float | None = None) -> bool:
        """Wait until it is so; False if it is not in time."""
        is_idle = self._executor.wait_idle(timeout_seconds)
        if is_idle:
            self._nothing_runs()
        self.tell_lints()
        return is_idle

    def close(self) -> None:
        """Stop for good: threads end, and to wait for a packet that is left is an error.

        A kernel that runs, on the device's thread or on another one, is ended (`Stopped`), and is waited for.
        """
        self._executor.close()
        self._nothing_runs()
        self._compute.close()
        if self._sync is not None:
            self._sync.closed()
        if self._check is not None:
            self._check.closed()
        self.tell_lints()

    def check_open(self) -> None:
        """A `RuleError` after `close`: no packet is processed any more."""
        self._executor.check_open()

    def make_room(self, queue: Queue, index: int) -> None:
        """Packet `index` of a producer does not fit yet: work, or wait a little; an error where that cannot help."""
        if self.process() or index - queue.load_read_index() < queue.size:
            return
        self.check_open()
        if queue.error is not None:
            raise queue.error
        if self.is_idle and not self.settings.threaded and not _others():
            raise RuleError(f"queue {queue.number} is full and its next packet has to wait", rule=rules.QUEUE_FULL)
        self.await_change(POLL_SECONDS)

    # ---- for signals and queues ----------------------------------------------------------------------------------

    def interrupt(self, event_id: int) -> None:
        """An event was sent: whoever observes or waits hears of it."""
        self.telemetry.emit(lambda time: InterruptSent(time, event_id))
        self._interrupts.tell(event_id)
        self._executor.tell()

    def tell_lints(self, error: BaseException | None = None) -> None:
        """A call of the host ends: it is told of lints, unless it was made inside of a callback."""
        if not self._executor.is_mine:
            self.desk.tell(error)

    def waited(self, signal: int) -> None:
        """The host's wait for a signal ended: a strict memory tells what the host does not see yet."""
        if self._fences is not None:
            self._fences.waited(signal)
        self.saw(signal)

    def saw(self, signal: int) -> None:
        """A signal's value was read: that may tell the host that kernels are over."""
        if self._host_order is not None:
            self._host_order.saw(signal)

    def signal_changed(self) -> None:
        """The host changed a signal."""
        self._executor.signal_changed()

    def progress(self) -> bool:
        """Work on this thread, where the device has none of its own."""
        return not self.settings.threaded and self._executor.work(ALL) > 0

    def await_change(self, seconds: float) -> None:
        """Sleep until something changes or the time is over."""
        with self._executor.changed:
            self._executor.changed.wait(seconds)

    def stuck(self, address: int) -> UnderstudyError | None:
        """Why the signal at `address` can change no more without the host."""
        alone = not _others()
        error = self._executor.stuck(address, alone)
        if error is not None or self.settings.threaded or not alone:
            return error
        if not self._executor.is_idle or self._executor.is_mine:
            return None
        return RuleError("nothing is left to do on any queue", rule=rules.SIGNAL_WAIT)

    def _is_host(self) -> bool:
        """Whether this thread is the host's, and not in a callback of a packet."""
        return not self._executor.is_mine and not threading.current_thread().name.startswith("understudy")

    def _nothing_runs(self) -> None:
        """The host has had packets processed until there was nothing left to do, or knows that by other means."""
        if self._host_order is not None and self._is_host():
            self._host_order.saw_all()

    def _gives_back(self, address: int) -> None:
        """The host frees or unmaps what begins at an address."""
        block = self._memory.heap.block(address)
        if self._host_order is not None and block is not None:
            self._host_order.frees(address, block.size)

    def _written(self, address: int, size: int) -> None:
        """Memory was written, not by a kernel."""
        if self.marks is not None:
            self.marks.marking.written(address, size)
        if self._host_order is not None:
            self._host_order.writes(address, size)

    def never(self, address: int) -> None:
        """The host waits for a signal for good, of which checks are told."""
        if self._sync is not None:
            self._sync.never(address)


def _others() -> bool:
    """Whether this process has other threads than this and our own: they may yet do what is waited for."""
    me = threading.current_thread()
    return any(each is not me and not each.name.startswith("understudy") for each in threading.enumerate())


def _fences(
    memory: GpuMemory, settings: Settings, telemetry: Telemetry, findings: list[Any], sync: PacketSync | None
) -> Fences:
    """Those of a strict memory; others need not load its engine."""
    from understudy.device.hsa.fences import Fences

    return Fences(memory, settings, telemetry, findings, sync)


def _host_order(races: RaceWatch, is_host: Callable[[], bool]) -> HostOrder:
    """The host's part in races."""
    from understudy.device.hsa.host_order import HostOrder  # few programs ask for checks

    return HostOrder(races, is_host)


def _sync(settings: Settings, log: FindingLog | None, executor: Executor) -> PacketSync | None:
    """What looks at waits for signals and at fences; None where nobody asked for it."""
    if log is None or SYNC not in settings.checks:
        return None
    from understudy.device.hsa.sync import PacketSync  # few programs ask for checks

    return PacketSync(log, executor.queues)
