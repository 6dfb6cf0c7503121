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
from typing import Any, Self

import numpy as np

from understudy.core.errors import RuleError, UnderstudyError, WireError
from understudy.core.event import Probes
from understudy.core.limits import Watch
from understudy.core.line import Cancel, Observers
from understudy.core.settings import JIT, SYNCHRONOUS
from understudy.core.telemetry import Telemetry
from understudy.core.words import U32
from understudy.device.hsa import rules
from understudy.device.hsa.agents import Agent, PcieAtomic, agent, pcie_atomic, sh_mem_config
from understudy.device.hsa.device_memory import DeviceMemory
from understudy.device.hsa.doorbells import DoorbellPage
from understudy.device.hsa.events import InterruptSent, Trapped
from understudy.device.hsa.executor import ALL, CLOSED, Executor
from understudy.device.hsa.fences import Fences
from understudy.device.hsa.processor import Processor
from understudy.device.hsa.queue_table import SCRATCH_WAVES, QueueTable
from understudy.device.hsa.queues import MAX_SIZE, MIN_SIZE, AgentDispatchHandler, OnError, Queue
from understudy.device.hsa.records import (
    SIGNAL_ALIGNMENT,
    AmdSignal,
    QueueFeature,
    QueueType,
    SignalKind,
)
from understudy.device.hsa.settings import STRICT, Settings
from understudy.device.hsa.signals import POLL_SECONDS, Signal
from understudy.device.hsa.snapshot import DeviceState, Keeper
from understudy.engine.gcn.api import Dispatch, Engine, Statistics
from understudy.engine.gcn.jit.engine import JitEngine
from understudy.engine.gcn.reference.engine import ReferenceEngine
from understudy.engine.gcn.strict.findings import Finding


class HsaDevice(DeviceMemory):
    """A virtual kernel agent; see the module. Options are those of `Settings`.

    `trap_handler` is asked about traps of waves: True lets them go on. It may be called on any thread while waves run,
    and must not create or destroy queues, map or free memory. All else is safe to use from several threads.
    """

    def __init__(self, agent_name: str | Agent = "gfx900", settings: Settings | None = None, **options: Any) -> None:
        self.settings = Settings.of(settings, options)
        self.agent = agent(agent_name) if isinstance(agent_name, str) else agent_name
        super().__init__(self.agent, self.settings, Executor(Processor(self), self.settings))
        self.signal_bits = 32 if self.settings.small else 64
        self.clock = np.zeros(1, np.uint64)
        self._ticks = self.clock.data
        self.telemetry = Telemetry(Probes(), lambda: int(self._ticks[0]), self.settings.lints)
        self.desk = self.telemetry.desk
        self.kernel_watch = Watch(self.settings.time_limit_seconds)
        self.trap_handler: Callable[[Trapped], bool] | None = None
        self.findings: list[Finding] = []
        if self.settings.coherence == STRICT:
            self.fences = Fences(self)
        self._engine: Engine | None = None
        self._is_synchronous = self.settings.execution == SYNCHRONOUS
        self._interrupts: Observers[int] = Observers()
        self._lock = threading.RLock()
        self._table = QueueTable(self, self._executor, self._lock)
        self.doorbell_base = self.heap.map(DoorbellPage(self.agent.target.level, self._table.ring), "doorbells")
        self._keeper = Keeper(self, self._executor, self._table.doorbells, self._lock)

    def __repr__(self) -> str:
        settings, count = self.settings, len(self.queues)
        state = "closed" if self._executor.is_closed else f"{count} queue{'s' * (count != 1)}"
        return f"<HsaDevice {self.agent.name}, {settings.execution}, engine {settings.engine}, {state}>"

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
        with self._lock:
            if self._engine is None:
                self._engine = self._make_engine()
            return self._engine

    def _make_engine(self) -> Engine:
        if self.fences is not None:
            return self.fences.engine
        return JitEngine(self.settings.threads) if self.settings.engine == JIT else ReferenceEngine()

    def run(self, dispatch: Dispatch) -> Statistics:
        """Run the waves of a dispatch; what a strict memory finds is kept, and told."""
        engine = self.engine
        try:
            return engine.run(dispatch)
        finally:
            if self.fences is not None:
                self.fences.tell(self.fences.engine.findings)

    # ---- signals -------------------------------------------------------------------------------------------------

    def create_signal(self, value: int = 0, mailbox: int = 0, event_id: int = 0) -> Signal:
        """A user signal with this value; `mailbox` and `event_id` for events."""
        address = self.allocate(AmdSignal.size_bytes, SIGNAL_ALIGNMENT, mtype=self.fine_mtype)
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
        queue = self._table.create(size, type, features, profiling)
        queue.on_error, queue.agent_dispatch = on_error, agent_dispatch
        return queue

    def destroy_queue(self, queue: Queue) -> None:
        """Give a queue's memory back; `RuleError` for one that is destroyed already."""
        if queue.is_destroyed:
            raise RuleError(f"queue {queue.number} was destroyed already")
        self._table.destroy(queue)

    def set_active(self, queue: Queue, active: bool) -> None:
        """Stop processing a queue's packets, or go on."""
        with self._executor.alone():
            self._executor.set_active(queue, active)
        if active:
            self._executor.after_doorbell()

    def set_scratch(self, queue: Queue, lane_bytes: int, waves: int = SCRATCH_WAVES) -> None:
        """Give a queue private memory: `lane_bytes` for each work-item of up to `waves` waves; 0 takes it away."""
        self._table.set_scratch(queue, lane_bytes, waves)

    def grow_scratch(self, queue: Queue, packet: bytes) -> bool:
        """Private memory for a kernel dispatch packet that found too little; whether there is some now."""
        return self._table.grow_scratch(queue, packet)

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

    def reset(self) -> None:
        """Go back to the device as it was made: nothing is allocated or mapped, queues and signals are destroyed."""
        self._keeper.reset()

    # ---- execution -----------------------------------------------------------------------------------------------

    def process(self, packets: int = ALL) -> int:
        """Process up to `packets` packets now, on this thread; how many were."""
        done = self._executor.work(packets)
        self.tell_lints()
        return done

    @property
    def is_idle(self) -> bool:
        """Whether no packet is processed or could be."""
        return self._executor.is_idle

    def wait_idle(self, timeout_seconds: float | None = None) -> bool:
        """Wait until it is so; False if it is not in time."""
        is_idle = self._executor.wait_idle(timeout_seconds)
        self.tell_lints()
        return is_idle

    def close(self) -> None:
        """Stop for good: threads end, and to wait for a packet that is left is an error.

        A kernel that runs, on the device's thread or on another one, is ended (`Stopped`), and is waited for.
        """
        self.kernel_watch.stopped = CLOSED
        self._executor.close()
        if isinstance(self._engine, JitEngine):
            self._engine.close()
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

    def tell_lints(self, error: BaseException | None = None) -> None:
        """A call of the host ends: it is told of lints, unless it was made inside of a callback."""
        if not self._executor.is_mine:
            self.desk.tell(error)

    def waited(self, signal: int) -> None:
        """The host's wait for a signal ended: a strict memory tells what the host does not see yet."""
        if self.fences is not None:
            self.fences.waited(signal)

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


def _others() -> bool:
    """Whether this process has other threads than this and our own: they may yet do what is waited for."""
    me = threading.current_thread()
    return any(each is not me and not each.name.startswith("understudy") for each in threading.enumerate())
