"""The device that runs AMD OpenCL 2.0 programs: memory, private memory, device-side queue and launches.

It allocates guest addresses, starts waves and counts their instructions in the same way as HSA agents. There
are two differences. Packets need no ring buffer, because the device runs only one program. Kernels can
enqueue kernels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from softcard.core.device import Telemetry
from softcard.core.errors import BeyondModel, RuleError, SoftcardError, WireError
from softcard.core.event import Probes
from softcard.core.findings import Finding, Findings
from softcard.core.limits import CLOSED, Stopped, Watch
from softcard.core.memory_check import MemoryCheck, log_of
from softcard.core.snapshot import Stateful
from softcard.core.space import PAGE_SIZE, Ram
from softcard.core.threads import FORKED, BusyLock
from softcard.core.words import align_up
from softcard.device.amdcl2.events import KernelFailed, KernelFinished, KernelStarted
from softcard.device.amdcl2.launch import launched, special_buffer
from softcard.device.amdcl2.queue_records import QueueShape
from softcard.device.amdcl2.scheduler import Scheduler, make_queue
from softcard.device.amdcl2.settings import Settings
from softcard.device.hsa.launch.first_state import Scratch, Surroundings, launch
from softcard.device.hsa.memory.checked_heap import CheckedHeap
from softcard.device.hsa.memory.device_memory import fill
from softcard.device.hsa.memory.heap import Heap, Places
from softcard.device.hsa.queues.packets import KernelDispatchPacket
from softcard.device.hsa.queues.queue_scratch import MOST_FILLED
from softcard.device.hsa.queues.records import AmdQueue
from softcard.device.hsa.wave_events import SnapshotEmitter, WaveEmitter
from softcard.engine.gcn.api import Dispatch, Engine, Statistics, wave_scratch_bytes
from softcard.engine.gcn.checks.registry import gcn_checks
from softcard.engine.gcn.memory import GpuMemory
from softcard.engine.gcn.tracepoints import Tracepoints
from softcard.isa.gcn.state import LANES
from softcard.isa.gcn.target import Target

PLACES: Final = {
    32: Places(range(0), range(0x0001_0000, 0xFFE1_0000)),
    64: Places(range(0), range(0x10_0000_0000, 0x20_0000_0000)),
}
"""The guest address ranges that programs of 32 and of 64 bits get.

32-bit programs get addresses below 4 GiB. 64-bit programs get only addresses above 4 GiB, so that code that loses the
upper half of an address causes a fault.
"""
SCRATCH_WAVES: Final = 256
"""The maximum number of waves with private memory at a time."""
CHECKED_WAVES: Final = 64
"""The maximum number of waves with private memory at a time if the bounds of private memory are checked."""
WAVE_WORD: Final = 4
SCRATCH_BYTES: Final = 1 << 28
"""The limit in bytes of the total private memory of all waves; at least one work-group always fits."""
MAX_WAVE_SCRATCH: Final = 8191 * 1024
"""The maximum private memory of a wave in bytes, which hardware encodes as a 13-bit number of KiB."""
POISON: Final = "poison"
"""The name of the option of `Kernel.run` that sets the word that fills undefined registers and LDS.

It overrides the word in the device's settings.
"""
TIME_LIMIT: Final = "time_limit_seconds"
"""The name of the option of `Kernel.run` that limits the time of one kernel."""


@dataclass(frozen=True, slots=True)
class PlacedQueue:
    """A device-side queue in device memory.

    `address` is the address of its header. `parent` is the address of the slot for the kernel that the host
    launched. `blocks` has the addresses of the memory blocks that must be released with the queue."""

    address: int
    parent: int
    shape: QueueShape
    blocks: tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class ProgramState:
    """The contents and the layout of a program's memory. `OpenclDevice.restore` accepts it as an opaque value."""

    device: OpenclDevice = field(repr=False)
    state: object = field(repr=False)


class OpenclDevice(Stateful):
    """The device of one program, whose addresses have `bits` bits; only one thread at a time may use it.

    Every buffer begins on a new page and is followed by an unmapped page, so an access past its end faults at the exact
    byte.
    """

    STATE = ("heap", "_scratch", "queue")

    def __init__(
        self,
        bits: int,
        target: Target,
        engine: Engine,
        settings: Settings,
        tracepoints: Tracepoints | None = None,
    ) -> None:
        self.bits = bits
        self.target = target
        self.engine = engine
        self.time_limit_seconds = settings.time_limit_seconds
        self.probes = Probes()
        self._telemetry = Telemetry(self.probes, lambda: self._past + self._total.instructions)
        self._waves = WaveEmitter(self._telemetry, settings.trace_waves)
        self._snapshots = SnapshotEmitter(self._telemetry, tracepoints)
        self.findings: list[Finding] = Findings()
        self.check = check = MemoryCheck.of(settings, self.findings)
        self.log = check.log if check is not None else log_of(settings, self.findings) if settings.checks else None
        self._fill = settings.fill
        memory, places = GpuMemory(), PLACES[bits]
        self.heap = Heap(memory, places) if check is None else CheckedHeap(memory, check, places)
        self.memory = self.heap.gpu
        self.checks = gcn_checks(settings.checks, self.memory, self.log, settings.equal_stores)
        self.queue: PlacedQueue | None = None
        self._special_address, self._special = self.allocate(AmdQueue.size_bytes, "special buffer")
        self._packet_address, self._packet = self.allocate(KernelDispatchPacket.size_bytes, "setup buffer")
        self._scratch: Scratch | None = None
        self._total = Statistics()
        self._past = 0
        """The total number of instructions that all earlier runs executed."""
        self._busy_lock = BusyLock()
        self._stopped = ""
        self._watch = Watch(None)
        """The time limit of the running kernel, and the request to stop it."""

    def __repr__(self) -> str:
        return f"<OpenclDevice {self.target.name}, {self.bits} bits>"

    # ---- memory --------------------------------------------------------------------------------------------------

    def map(self, buffer: Any, name: str, writable: bool = True, used: int | None = None) -> int:
        """Map `buffer` into device memory and return its address; raise `WireError` if there is not enough space.

        `used` is the number of bytes of RAM that the caller requested, for checks of bounds.
        """
        what, size = (buffer, buffer.size) if isinstance(buffer, Ram) else (view := memoryview(buffer), view.nbytes)
        try:
            return self.heap.map(what, name, writable, used=used)
        except BeyondModel:
            raise WireError(f"the device's address space has no room for {size} bytes of {name}") from None

    def allocate(self, size: int, name: str) -> tuple[int, Ram]:
        """Allocate zeroed memory, in whole pages, for data of the device; return its address and the memory itself."""
        ram = Ram(align_up(max(size, 1), PAGE_SIZE))
        return self.map(ram, name, used=max(size, 1)), ram

    def release(self, address: int) -> None:
        """Unmap the buffer at `address`."""
        self.heap.unmap(address)

    # ---- snapshots -----------------------------------------------------------------------------------------------

    def snapshot(self) -> ProgramState:
        """Return the state between two runs, for `restore`."""
        self.check_idle("a snapshot")
        return ProgramState(self, super().snapshot())

    def restore(self, state: object) -> None:
        """Return to a state that `snapshot` of this device returned."""
        self.check_idle("a restore")
        if not isinstance(state, ProgramState) or state.device is not self:
            raise RuleError(
                "cannot restore the snapshot of another program, expected one that snapshot() of this program returned"
            )
        super().restore(state.state)

    def check_idle(self, what: str) -> None:
        """Raise `RuleError` if a kernel runs, because the operation `what` must not happen in the meantime."""
        if self._busy_lock:
            raise RuleError(f"{what} is not possible while a kernel runs: wait for the end of the run")

    def close(self) -> None:
        """Close the device. If another thread runs a kernel, end the kernel (`Stopped`) and wait for its end."""
        self._stopped = self._watch.stopped = CLOSED
        self._busy_lock.wait()
        if self.check is not None:
            self.check.closed()

    # ---- the device's queue --------------------------------------------------------------------------------------

    def place_queue(self, kernels: bytes, shape: QueueShape) -> None:
        """Create an empty device-side queue of the given `shape` in device memory.

        `kernels` is the table of the kernels that may be enqueued, as bytes: the address of each kernel, by the
        kernel's index."""
        at, ram = self.allocate(len(kernels), "kernel table")
        ram.view[: len(kernels)] = kernels
        address, _ = self.allocate(shape.size_bytes, "device queue")
        kernarg, _ = self.allocate(shape.kernarg_bytes, "arguments of enqueued kernels")
        parent = make_queue(self.memory, address, kernarg, shape, at)
        self.queue = PlacedQueue(address, parent, shape, (at, address, kernarg))

    def drop_queue(self) -> None:
        """Release the device-side queue, with the commands that are still in it."""
        for block in self.queue.blocks if self.queue is not None else ():
            self.release(block)
        self.queue = None

    # ---- launches ------------------------------------------------------------------------------------------------

    def run(self, packet: KernelDispatchPacket, uses_queue: bool, options: Mapping[str, Any]) -> tuple[Statistics, int]:
        """Run a packet and the kernels that it enqueues; return the statistics, and the number of enqueued kernels.

        `options` are those of `Kernel.run`. `uses_queue` is True if the kernel may enqueue others. If such a run fails,
        the queue is released, because the commands left in it would make later runs fail.
        """
        if self._busy_lock.is_lost:
            raise RuleError(FORKED)
        with self._busy_lock:
            self._packet.view[: packet.size_bytes] = packet.pack()
            self._past += self._total.instructions
            self._total = Statistics()
            ended = False
            try:
                self._dispatch(packet, self._packet_address, options)
                children = self._drain(options) if uses_queue else 0
                ended = True
            finally:
                if uses_queue and not ended:
                    self.drop_queue()
        return self._total, children

    def _drain(self, options: Mapping[str, Any]) -> int:
        """Run all kernels that are enqueued on the device-side queue; return their number."""
        assert self.queue is not None

        def child(packet: KernelDispatchPacket, address: int) -> int:
            return self._dispatch(packet, address, options).instructions

        scheduler = Scheduler(self.memory, self.queue.address, child, self._telemetry, self.bits // 8)
        return scheduler.drain(self.queue.parent)

    def _dispatch(self, packet: KernelDispatchPacket, address: int, options: Mapping[str, Any]) -> Statistics:
        """Run the dispatch packet at `address` until the kernel ends, and return its statistics.

        The kernel gets the larger one of the private memory sizes in `packet` and in the kernel's header, and the sum
        of the two LDS sizes. The packet in memory is not changed."""
        packet = launched(self.memory, packet, self.target)
        around = Surroundings(self.target, self.memory, self._special_address, self._scratch_for(packet))
        self._special.view[: AmdQueue.size_bytes] = special_buffer(around, packet.private_segment_size).pack()
        more = dict(options)
        self._watch = watch = Watch(more.pop(TIME_LIMIT, self.time_limit_seconds))
        watch.stopped = self._stopped
        if watch.stopped:
            raise Stopped(f"{watch.stopped} before the kernel ran")
        if more.get(POISON) is None:
            more[POISON] = self._fill
        more["checks"] = self.checks
        if self.checks.tracker is not None:
            self.checks.tracker.begin()
        dispatch = self._waves.follow(launch(around, packet, address, watch=watch, **more))
        if not self.probes.active:
            statistics = self._ran(dispatch)
            self._total.add(statistics)
            return statistics
        kernel, telemetry = packet.kernel_object, self._telemetry
        grid = packet.grid_size_x, packet.grid_size_y, packet.grid_size_z
        group = packet.workgroup_size_x, packet.workgroup_size_y, packet.workgroup_size_z
        telemetry.emit(lambda time: KernelStarted(time, kernel, grid, group))
        try:
            statistics = self._ran(dispatch)
        except SoftcardError as error:
            failure = error
            self._waves.emit(dispatch)
            telemetry.emit(lambda time: KernelFailed(time, kernel, failure))
            raise
        self._waves.emit(dispatch)
        self._total.add(statistics)
        telemetry.emit(lambda time: KernelFinished(time, kernel, statistics.waves, statistics.instructions))
        return statistics

    def _ran(self, dispatch: Dispatch) -> Statistics:
        """Run `dispatch` to its end, with the checks that the device's settings select; return its statistics."""
        return self.checks.run(dispatch, self.engine, self._on_engine)

    def _on_engine(self, dispatch: Dispatch) -> Statistics:
        with self._snapshots.of():
            return self.engine.run(dispatch)

    def _scratch_for(self, packet: KernelDispatchPacket) -> Scratch | None:
        """Return the private memory for a launch of `packet`, None if it needs none.

        Memory of an earlier launch is reused if it is large enough.
        """
        if not packet.private_segment_size:
            return None
        wave = wave_scratch_bytes(packet.private_segment_size)
        if wave > MAX_WAVE_SCRATCH:
            text = f"a work-item needs {packet.private_segment_size} bytes of private memory"
            raise WireError(f"{text}, expected at most {MAX_WAVE_SCRATCH // LANES}")
        items = packet.workgroup_size_x * packet.workgroup_size_y * packet.workgroup_size_z
        group = wave * -(-items // LANES)
        size = max(group, min(wave * SCRATCH_WAVES, SCRATCH_BYTES) // group * group)
        if isinstance(self.heap, CheckedHeap):
            return self._checked_scratch(self.heap, packet.private_segment_size)
        if self._scratch is None or self._scratch.size_bytes < size:
            if self._scratch is not None:
                self.release(self._scratch.address)
            self._scratch = None
            address, _ = self.allocate(size, "private memory")
            self._fill_private(address, size)
            self._scratch = Scratch(address, size, address & ~0xFFFF_FFFF)
        return self._scratch

    def _checked_scratch(self, heap: CheckedHeap, lane_bytes: int) -> Scratch:
        """Return private memory of exactly `lane_bytes` per work-item, with its bounds checked by `heap`."""
        known = heap.check.strides.get(self._scratch.address) if self._scratch is not None else None
        lane_bytes = align_up(lane_bytes, WAVE_WORD)
        if self._scratch is None or known is None or known[0] != lane_bytes:
            if self._scratch is not None:
                heap.free_private(self._scratch.address)
            address, size = heap.allocate_private(lane_bytes, CHECKED_WAVES)
            self._fill_private(address, size)
            self._scratch = Scratch(address, size, address & ~0xFFFF_FFFF)
        return self._scratch

    def _fill_private(self, address: int, size: int) -> None:
        """Fill the first `size` bytes of new private memory at `address` with the word for undefined memory.

        The word is `Settings.fill`; nothing is written if it is None or 0. At most `MOST_FILLED` bytes are filled."""
        if self._fill:
            fill(self.memory, address, min(size, MOST_FILLED), self._fill)
