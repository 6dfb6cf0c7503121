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
from types import TracebackType
from typing import Any, Final, Self

import numpy as np

from understudy.core.errors import BeyondModel, RuleError, UnderstudyError, WireError
from understudy.core.event import Probes
from understudy.core.line import Cancel, Observers
from understudy.core.telemetry import Telemetry
from understudy.core.words import U32
from understudy.device.hsa import rules
from understudy.device.hsa.agents import Agent, PcieAtomic, agent, pcie_atomic
from understudy.device.hsa.creation import new_queue, scratch_bytes, scratch_fields
from understudy.device.hsa.doorbells import DOORBELLS, DoorbellPage
from understudy.device.hsa.events import DoorbellRung, Incoherent, InterruptSent, Lint, Trapped
from understudy.device.hsa.executor import ALL, Executor
from understudy.device.hsa.fast_ir import Q
from understudy.device.hsa.heap import ARENA_BASE, Heap
from understudy.device.hsa.objects import (
    SIGNAL_ALIGNMENT,
    AmdQueue,
    AmdSignal,
    QueueFeature,
    QueueType,
    SignalKind,
)
from understudy.device.hsa.processor import Processor
from understudy.device.hsa.queues import MAX_SIZE, MIN_SIZE, AgentDispatchHandler, OnError, Queue
from understudy.device.hsa.segments import apertures
from understudy.device.hsa.settings import JIT, STRICT, SYNCHRONOUS, Settings
from understudy.device.hsa.signals import POLL_SECONDS, Signal
from understudy.device.hsa.templates import Templates
from understudy.device.hsa.wrapping import limit_of
from understudy.engine.gcn.api import Dispatch, Engine, Statistics
from understudy.engine.gcn.coherence import Finding, StrictEngine
from understudy.engine.gcn.jit import JitEngine
from understudy.engine.gcn.memory import GpuMemory
from understudy.engine.gcn.reference import ReferenceEngine
from understudy.isa.gcn.target import GFX9

SCRATCH_WAVES: Final = 512
"""Waves that dynamic private memory is for: more than run side by side here."""
_LIMIT: Final = Q["limit"]


class HsaDevice:
    """A virtual kernel agent; see the module. Options are those of `Settings`.

    `trap_handler` is asked about traps of waves: True lets them go on. It may be called on any thread while waves run,
    and must not create or destroy queues, map or free memory. All else is safe to use from several threads.
    """

    def __init__(self, agent_name: str | Agent = "gfx900", settings: Settings | None = None, **options: Any) -> None:
        if settings is not None and options:
            raise WireError("settings were given twice, expected either Settings or single options")
        try:
            self.settings = Settings(**options) if settings is None else settings
        except TypeError as error:
            raise WireError(f"no such setting: {error}") from None
        self.agent = agent(agent_name) if isinstance(agent_name, str) else agent_name
        self.memory = GpuMemory()
        self.heap = Heap(self.memory)
        self.apertures = apertures(self.agent)
        self._level = level = self.agent.target.level
        self.hidden_private_base = 0 if level == GFX9 else ARENA_BASE
        self.clock = np.zeros(1, np.uint64)
        self._ticks = self.clock.data
        self.telemetry = Telemetry(Probes(), lambda: int(self._ticks[0]))
        self.trap_handler: Callable[[Trapped], bool] | None = None
        self.watched: list[range] = []
        self.findings: list[Finding] = []
        self._engine: Engine | None = None
        self._executor = Executor(Processor(self), self.settings)
        self._is_synchronous = self.settings.execution == SYNCHRONOUS
        self._interrupts: Observers[int] = Observers()
        self._doorbells: dict[int, Queue] = {}
        self._created = 0
        self.doorbell_base = self.heap.map(DoorbellPage(level, self._ring), "doorbells")
        self._lock = threading.RLock()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # ---- what there is -------------------------------------------------------------------------------------------

    @property
    def probes(self) -> Probes:
        """Where to subscribe to events. While somebody listens, no packet is processed by machine code alone."""
        return self.telemetry.probes

    @property
    def time(self) -> int:
        """The clock of timestamps: packets completed and wave instructions retired."""
        return int(self._ticks[0])

    @property
    def queues(self) -> tuple[Queue, ...]:
        """All queues, in the order of their creation."""
        return tuple(self._executor.queues)

    @property
    def engine(self) -> Engine:
        """What runs waves; made when it is first needed."""
        with self._lock:
            if self._engine is None:
                self._engine = self._make_engine()
            return self._engine

    def _make_engine(self) -> Engine:
        if self.settings.coherence == STRICT:
            return StrictEngine(seed=self.settings.seed or 0)
        return JitEngine(self.settings.threads) if self.settings.engine == JIT else ReferenceEngine()

    def run(self, dispatch: Dispatch) -> Statistics:
        """Run the waves of a dispatch; what a strict memory finds is kept, and told."""
        engine = self.engine
        try:
            return engine.run(dispatch)
        finally:
            if isinstance(engine, StrictEngine):
                for finding in engine.findings:
                    self.findings.append(finding)
                    self.telemetry.emit(lambda time, f=finding: Incoherent(time, f))  # type: ignore[misc]

    # ---- memory --------------------------------------------------------------------------------------------------

    def allocate(self, size: int, alignment: int = 64) -> int:
        """Address of `size` zeroed bytes of device memory. What is a page or more has an end that is looked after."""
        try:
            return self.heap.allocate(size, alignment)
        except (MemoryError, OverflowError, OSError) as error:
            raise BeyondModel(f"{size} bytes of device memory: {error}") from None

    def free(self, address: int) -> None:
        """Give back what `allocate` gave, when no packet is processed; `RuleError` where nothing begins there."""
        if self.heap.is_shared(address):
            self.heap.free(address)
            return
        with self._executor.alone():
            self.heap.free(address)

    def view(self, address: int, size: int) -> memoryview:
        """Guest memory as this process sees it, without a copy."""
        return self.heap.view(address, size)

    def array(self, address: int, count: int, dtype: Any = np.uint8) -> np.ndarray[Any, Any]:
        """Likewise, as an array."""
        return self.heap.array(address, count, dtype)

    def map(self, what: Any, writable: bool = True, name: str = "host memory") -> int:
        """Make a contiguous array or a region part of guest memory, without a copy; its address."""
        with self._executor.alone():
            return self.heap.map(what, name, writable)

    def unmap(self, address: int) -> None:
        """Take out what `map` put there."""
        with self._executor.alone():
            self.heap.unmap(address)

    def watch(self, address: int, size: int) -> None:
        """Waves whose kernels enable the address watch exception trap when they access these bytes."""
        self.watched.append(range(address, address + size))

    # ---- signals -------------------------------------------------------------------------------------------------

    def create_signal(self, value: int = 0, mailbox: int = 0, event_id: int = 0) -> Signal:
        """A user signal with this value; `mailbox` and `event_id` for events."""
        address = self.allocate(AmdSignal.size_bytes, SIGNAL_ALIGNMENT)
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
        with self._executor.alone(), self._lock:
            number, slot = self._created, next((n for n in range(DOORBELLS) if n not in self._doorbells), None)
            if slot is None:
                raise BeyondModel(f"queue {number}: there are {DOORBELLS} doorbells, all are in use")
            self._created += 1
            timed = bool(self.settings.profiling if profiling is None else profiling)
            queue = new_queue(self, number, slot, size, type, features, timed)
            queue.on_error, queue.agent_dispatch = on_error, agent_dispatch
            if self.settings.machine_code and self.settings.translates:
                engine = self.engine
                assert isinstance(engine, JitEngine)
                queue.templates = Templates(queue, engine, self.clock)
            self._doorbells[slot] = queue
            with self._executor.changed:
                self._executor.queues.append(queue)
        return queue

    def destroy_queue(self, queue: Queue) -> None:
        """Give a queue's memory back; `RuleError` for one that is destroyed already."""
        if queue.is_destroyed:
            raise RuleError(f"queue {queue.number} was destroyed already")
        with self._executor.alone(), self._lock:
            self._executor.set_active(queue, False)
            queue.is_destroyed = True
            if queue.templates is not None:
                queue.templates.drop()
            with self._executor.changed:
                self._executor.queues.remove(queue)
            self._doorbells.pop(queue.slot, None)
            self._free_scratch(queue)
            for signal in (queue.doorbell, queue.inactive_signal):
                self.destroy_signal(signal)
            self.free(queue.address)
            if self.agent.is_legacy:
                self.heap.unmap(queue.ring_address)
            else:
                self.free(queue.ring_address)

    def set_active(self, queue: Queue, active: bool) -> None:
        """Stop processing a queue's packets, or go on."""
        with self._executor.alone():
            self._executor.set_active(queue, active)
        if active:
            self._executor.after_doorbell()

    def set_scratch(self, queue: Queue, lane_bytes: int, waves: int = SCRATCH_WAVES) -> None:
        """Give a queue private memory: `lane_bytes` for each work-item of up to `waves` waves; 0 takes it away."""
        self._free_scratch(queue)
        size = scratch_bytes(lane_bytes, waves)
        queue.scratch_block = self.allocate(size) if size else 0
        data = scratch_fields(self, queue.scratch_block, lane_bytes, waves)
        self.memory.write(queue.address + AmdQueue.offset_of("compute_tmpring_size"), data)

    def grow_scratch(self, queue: Queue, packet: bytes) -> bool:
        """Private memory for a kernel dispatch packet that found too little; whether there is some now."""
        wanted = int.from_bytes(packet[24:28], "little")
        if not self.settings.dynamic_scratch or scratch_bytes(wanted, SCRATCH_WAVES) > U32:
            return False
        with self._executor.alone():
            self.set_scratch(queue, wanted)
        self._executor.tell()
        return True

    def _free_scratch(self, queue: Queue) -> None:
        if queue.scratch_block:
            self.free(queue.scratch_block)
            queue.scratch_block = 0

    # ---- platform ----

    def pcie_atomic(self, operation: str) -> PcieAtomic:
        """How a system scope atomic on host memory is done over PCIe; `BeyondModel` where the platform cannot."""
        return pcie_atomic(self.agent, operation, self.settings.pcie_atomics)

    # ---- execution -----------------------------------------------------------------------------------------------

    def process(self, packets: int = ALL) -> int:
        """Process up to `packets` packets now, on this thread; how many were."""
        return self._executor.work(packets)

    @property
    def is_idle(self) -> bool:
        """Whether no packet is processed or could be."""
        return self._executor.is_idle

    def wait_idle(self, timeout_seconds: float | None = None) -> bool:
        """Wait until it is so; False if it is not in time."""
        return self._executor.wait_idle(timeout_seconds)

    def close(self) -> None:
        """Stop for good: threads end."""
        self._executor.close()
        if isinstance(self._engine, JitEngine):
            self._engine.close()

    def make_room(self, queue: Queue, index: int) -> None:
        """Packet `index` of a producer does not fit yet: work, or wait a little; an error where that cannot help."""
        if self.process() or index - queue.load_read_index() < queue.size:
            return
        if queue.error is not None:
            raise queue.error
        if self.is_idle and not self.settings.threaded and not _others():
            raise RuleError(f"queue {queue.number} is full and its next packet has to wait", rule=rules.QUEUE_FULL)
        self.await_change(POLL_SECONDS)

    # ---- for signals and the processor ---------------------------------------------------------------------------

    def advance(self, time: int) -> int:
        """Set the clock; the time."""
        self._ticks[0] = time
        return time

    def interrupt(self, event_id: int) -> None:
        """An event was sent: whoever observes or waits hears of it."""
        self.telemetry.emit(lambda time: InterruptSent(time, event_id))
        self._interrupts.tell(event_id)
        self._executor.tell()

    def signal_changed(self) -> None:
        """The host changed a signal."""
        executor = self._executor
        executor.tell()
        if self._is_synchronous and executor.has_waiting and not executor.is_mine:
            executor.work(ALL)

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

    def _ring(self, number: int, value: int) -> None:
        """Something was stored to doorbell `number`."""
        queue = self._doorbells.get(number)
        if queue is None:
            text = f"doorbell {number} belongs to no queue"
            self.telemetry.emit(lambda time: Lint(time, "doorbell-nobody", text, rules.DOORBELL_NOTIFIES))
            return
        executor, words = self._executor, queue.words
        with executor.lock:
            old, read = words[_LIMIT], queue.load_read_index()
            limit = limit_of(value, self._level, read, queue.size)
            fresh = old < limit and (self._level == GFX9 or limit <= read + queue.size)
            if fresh:
                words[_LIMIT] = limit
        if self.telemetry.probes.active:
            self.telemetry.emit(lambda time: DoorbellRung(time, queue.number, value, queue.limit))
            if not fresh:
                text = f"doorbell {number}: {value:#x} makes no packet known, they were up to {old}"
                self.telemetry.emit(lambda time: Lint(time, "doorbell-stale", text, rules.LEGACY_STALE))
        self._executor.after_doorbell()


def _others() -> bool:
    """Whether this process has other threads than this and our own: they may yet do what is waited for."""
    me = threading.current_thread()
    return any(each is not me and not each.name.startswith("understudy") for each in threading.enumerate())
