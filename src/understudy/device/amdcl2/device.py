"""The device that runs programs of AMD OpenCL 2.0: memory, private memory, the device's queue, launches.

It shares out guest addresses, starts waves and counts what they take as the agents of HSA do; what is only here: a
program has the device for itself, so that packets need no ring, and kernels may enqueue others.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any, Final

from understudy.core.errors import BeyondModel, RuleError, UnderstudyError, WireError
from understudy.core.event import Probes
from understudy.core.findings import FindingLog
from understudy.core.forks import FORKED
from understudy.core.limits import CLOSED, Stopped, Watch
from understudy.core.memory_check import MemoryCheck
from understudy.core.occupied import Occupied
from understudy.core.snapshot import Stateful
from understudy.core.space import PAGE_SIZE, Ram
from understudy.core.telemetry import Telemetry
from understudy.core.words import align_up
from understudy.device.amdcl2.events import KernelFailed, KernelFinished, KernelStarted
from understudy.device.amdcl2.launch import launched, special_buffer
from understudy.device.amdcl2.queue_shape import QueueShape
from understudy.device.amdcl2.scheduler import Scheduler, make_queue
from understudy.device.hsa.checked_heap import CheckedHeap
from understudy.device.hsa.heap import Heap, Places
from understudy.device.hsa.launch.first_state import Scratch, Surroundings, launch
from understudy.device.hsa.launch.packet import KernelDispatchPacket
from understudy.device.hsa.records import AmdQueue
from understudy.device.hsa.snapshot_events import SnapshotTeller
from understudy.device.hsa.wave_events import WaveTeller
from understudy.engine.gcn.api import Dispatch, Engine, Statistics, wave_scratch_bytes
from understudy.engine.gcn.barriers import Barriers
from understudy.engine.gcn.marks.asked import marks_of
from understudy.engine.gcn.memory import GpuMemory
from understudy.engine.gcn.moments import Moments
from understudy.engine.gcn.races.asked import races_of
from understudy.engine.gcn.waits.asked import waits_of
from understudy.isa.gcn.state import LANES
from understudy.isa.gcn.target import Target

PLACES: Final = {
    32: Places(range(0), range(0x0001_0000, 0xFFE1_0000)),
    64: Places(range(0), range(0x10_0000_0000, 0x20_0000_0000)),
}
"""By bits of a program: 32-bit programs get addresses below 4 GiB, 64-bit programs only ones above, so that code that
loses the upper half of an address faults."""
SCRATCH_WAVES: Final = 256
"""Waves whose private memory is kept ready."""
CHECKED_WAVES: Final = 64
"""The same where their bounds are looked after."""
WAVE_WORD: Final = 4
SCRATCH_BYTES: Final = 1 << 28
"""What the private memory of all of them may take; at least one work-group always fits."""
MAX_WAVE_SCRATCH: Final = 8191 * 1024
"""Private memory of a wave that hardware can be asked for: 13 bits, in KiB."""
TIME_LIMIT: Final = "time_limit_seconds"
"""Option of a run: how long one kernel may take."""


@dataclass(frozen=True, slots=True)
class PlacedQueue:
    """A queue in device memory: where its header and the slot of the host's kernel lie, and what to release."""

    address: int
    parent: int
    shape: QueueShape
    blocks: tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class ProgramState:
    """A program's memory and what lies where in it, for `restore`; to be kept, not to be looked into."""

    device: OpenclDevice = field(repr=False)
    state: Any = field(repr=False)


class OpenclDevice(Stateful):
    """The device of one program of `bits` bits. For one thread at a time.

    Every buffer begins on a page of its own and is followed by a page where nothing is: an access past its end faults,
    at the very byte.
    """

    STATE = ("heap", "_scratch", "queue")

    def __init__(
        self,
        bits: int,
        target: Target,
        engine: Engine,
        time_limit_seconds: float | None,
        check: MemoryCheck | None = None,
        checks: Collection[str] = (),
        log: FindingLog | None = None,
        equal_stores: bool = False,
        trace_waves: int = 0,
        moments: Moments | None = None,
    ) -> None:
        self.bits = bits
        self.target = target
        self.engine = engine
        self.time_limit_seconds = time_limit_seconds
        self.probes = Probes()
        self._telemetry = Telemetry(self.probes, lambda: self._past + self._total.instructions)
        self._waves = WaveTeller(self._telemetry, trace_waves)
        self._snapshots = SnapshotTeller(self._telemetry, moments)
        self.check = check
        memory, places = GpuMemory(), PLACES[bits]
        self.heap = Heap(memory, places) if check is None else CheckedHeap(memory, check, places)
        self.memory = self.heap.gpu
        self.marks = marks_of(checks, self.memory, log)
        self.waits = waits_of(checks, log)
        self.barriers = Barriers.of(checks, log)
        self.races = races_of(checks, self.memory, log, equal_stores)
        self.queue: PlacedQueue | None = None
        self._special_address, self._special = self.allocate(AmdQueue.size_bytes, "special buffer")
        self._packet_address, self._packet = self.allocate(KernelDispatchPacket.size_bytes, "setup buffer")
        self._scratch: Scratch | None = None
        self._total = Statistics()
        self._past = 0
        """Instructions of earlier runs."""
        self._occupied = Occupied()
        self._stopped = ""
        self._watch = Watch(None)
        """What may end the kernel that runs."""

    def __repr__(self) -> str:
        return f"<OpenclDevice {self.target.name}, {self.bits} bits>"

    # ---- memory --------------------------------------------------------------------------------------------------

    def map(self, buffer: Any, name: str, writable: bool = True, used: int | None = None) -> int:
        """The guest address at which `buffer` can be seen from now on; `WireError` where no room is left.

        `used`: bytes of RAM that somebody asked for, which checks go by.
        """
        what, size = (buffer, buffer.size) if isinstance(buffer, Ram) else (view := memoryview(buffer), view.nbytes)
        try:
            return self.heap.map(what, name, writable, used=used)
        except BeyondModel:
            raise WireError(f"no room for {size} bytes of {name} in the device's address space") from None

    def allocate(self, size: int, name: str) -> tuple[int, Ram]:
        """Zeroed memory of the device's own, in whole pages."""
        ram = Ram(align_up(max(size, 1), PAGE_SIZE))
        return self.map(ram, name, used=max(size, 1)), ram

    def release(self, address: int) -> None:
        """Take a buffer away again."""
        self.heap.unmap(address)

    # ---- snapshots -----------------------------------------------------------------------------------------------

    def snapshot(self) -> ProgramState:
        """The state between two runs, for `restore`."""
        self.check_idle("a snapshot")
        return ProgramState(self, super().snapshot())

    def restore(self, state: ProgramState) -> None:
        """Go back to a state that `snapshot` of this device gave."""
        self.check_idle("a restore")
        if state.device is not self:
            raise RuleError("the state is another program's, expected one that snapshot() of this program gave")
        super().restore(state.state)

    def check_idle(self, what: str) -> None:
        """A `RuleError` for what may not happen while a kernel runs."""
        if self._occupied:
            raise RuleError(f"{what} while a kernel runs, expected it between two runs")

    def close(self) -> None:
        """Run nothing any more. A kernel that another thread runs is ended (`Stopped`), and waited for."""
        self._stopped = self._watch.stopped = CLOSED
        self._occupied.wait()
        if self.check is not None:
            self.check.closed()

    # ---- the device's queue --------------------------------------------------------------------------------------

    def place_queue(self, kernels: bytes, shape: QueueShape) -> None:
        """Make the device's queue, empty. `kernels` are the addresses of those that may be enqueued, by index."""
        at, ram = self.allocate(len(kernels), "kernel table")
        ram.view[: len(kernels)] = kernels
        address, _ = self.allocate(shape.size_bytes, "device queue")
        kernarg, _ = self.allocate(shape.kernarg_bytes, "arguments of enqueued kernels")
        parent = make_queue(self.memory, address, kernarg, shape, at)
        self.queue = PlacedQueue(address, parent, shape, (at, address, kernarg))

    def drop_queue(self) -> None:
        """Give the queue up, with whatever waits in it."""
        for block in self.queue.blocks if self.queue is not None else ():
            self.release(block)
        self.queue = None

    # ---- launches ------------------------------------------------------------------------------------------------

    def run(self, packet: KernelDispatchPacket, uses_queue: bool, options: dict[str, Any]) -> tuple[Statistics, int]:
        """Run a packet and then what it has enqueued: what that took, and how many kernels were enqueued.

        `options` are those of `Kernel.run`. Where a run that `uses_queue` fails, the queue is given up: what was left
        in it would stop later runs.
        """
        if self._occupied.is_lost:
            raise RuleError(FORKED)
        with self._occupied:
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

    def _drain(self, options: dict[str, Any]) -> int:
        """Run what was enqueued; how many kernels."""
        assert self.queue is not None

        def child(packet: KernelDispatchPacket, address: int) -> int:
            return self._dispatch(packet, address, options).instructions

        scheduler = Scheduler(self.memory, self.queue.address, child, self._telemetry, self.bits // 8)
        return scheduler.drain(self.queue.parent)

    def _dispatch(self, packet: KernelDispatchPacket, address: int, options: dict[str, Any]) -> Statistics:
        """Run a packet that lies at `address` to its end.

        Private memory and LDS are those of the packet and of the kernel's header: the copy in memory stays as it is.
        """
        packet = launched(self.memory, packet)
        around = Surroundings(self.target, self.memory, self._special_address, self._scratch_for(packet))
        self._special.view[: AmdQueue.size_bytes] = special_buffer(around, packet.private_segment_size).pack()
        more = dict(options)
        self._watch = watch = Watch(more.pop(TIME_LIMIT, self.time_limit_seconds))
        watch.stopped = self._stopped
        if watch.stopped:
            raise Stopped(f"{watch.stopped} before the kernel ran")
        more["marks"] = None if self.marks is None else self.marks.marking
        more["barriers"] = self.barriers
        more["races"] = self.races
        if self.races is not None:
            self.races.begin()
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
        except UnderstudyError as error:
            failure = error
            self._waves.tell(dispatch)
            telemetry.emit(lambda time: KernelFailed(time, kernel, failure))
            raise
        self._waves.tell(dispatch)
        self._total.add(statistics)
        telemetry.emit(lambda time: KernelFinished(time, kernel, statistics.waves, statistics.instructions))
        return statistics

    def _ran(self, dispatch: Dispatch) -> Statistics:
        """Run it, and tell what checks have found."""
        try:
            checked = None if self.waits is None else self.waits.run(dispatch, self.engine)
            if checked is not None:
                return checked
            with self._snapshots.of():
                return self.engine.run(dispatch)
        finally:
            if self.marks is not None:
                self.marks.tell(dispatch)

    def _scratch_for(self, packet: KernelDispatchPacket) -> Scratch | None:
        """Private memory for a launch: kept as long as it is large enough."""
        if not packet.private_segment_size:
            return None
        wave = wave_scratch_bytes(packet.private_segment_size)
        if wave > MAX_WAVE_SCRATCH:
            text = f"{packet.private_segment_size} bytes of private memory for each work-item"
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
            self._scratch = Scratch(address, size, address & ~0xFFFF_FFFF)
        return self._scratch

    def _checked_scratch(self, heap: CheckedHeap, lane_bytes: int) -> Scratch:
        """The same where bounds are looked after: for exactly so many bytes."""
        known = heap.check.strides.get(self._scratch.address) if self._scratch is not None else None
        lane_bytes = align_up(lane_bytes, WAVE_WORD)
        if self._scratch is None or known is None or known[0] != lane_bytes:
            if self._scratch is not None:
                heap.free_private(self._scratch.address)
            address, size = heap.allocate_private(lane_bytes, CHECKED_WAVES)
            self._scratch = Scratch(address, size, address & ~0xFFFF_FFFF)
        return self._scratch
