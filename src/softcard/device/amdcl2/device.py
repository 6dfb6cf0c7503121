"""The device that runs AMD OpenCL 2.0 programs: memory, private memory, device-side queue and launches.

It consists of the components of an HSA device that allocate memory, run waves and report findings. There are two
differences. Packets need no ring buffer, because the device runs only one program. Kernels can enqueue kernels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from softcard.core.device import CountingTelemetry
from softcard.core.errors import BeyondModel, RuleError, SoftcardError, WireError
from softcard.core.limits import CLOSED, Stopped, Watch
from softcard.core.snapshot import Stateful
from softcard.core.space import PAGE_SIZE, Ram
from softcard.core.threads import FORKED, BusyLock
from softcard.core.words import align_up
from softcard.device.amdcl2.events import KernelFailed, KernelFinished, KernelStarted
from softcard.device.amdcl2.launch import launched, special_buffer
from softcard.device.amdcl2.queue_records import QueueShape
from softcard.device.amdcl2.scheduler import Scheduler, make_queue
from softcard.device.amdcl2.settings import Settings
from softcard.device.hsa.compute import Compute, Reports, chosen_engine
from softcard.device.hsa.launch.first_state import Scratch, Surroundings, launch
from softcard.device.hsa.memory.checked_heap import heap_of
from softcard.device.hsa.memory.device_memory import PrivateMemory
from softcard.device.hsa.memory.heap import Places, size_of
from softcard.device.hsa.queues.packets import KernelDispatchPacket
from softcard.device.hsa.queues.records import AmdQueue
from softcard.device.hsa.wave_events import WaveEvents
from softcard.engine.gcn.api import Engine, Statistics, wave_scratch_bytes
from softcard.engine.gcn.memory import GpuMemory
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
    """A device-side queue in device memory, whose header is at `address`.

    `parent` is the address of an additional slot of the queue. It represents the kernel that the host launched,
    the parent of the kernels that it enqueues. `blocks` has the addresses of the memory blocks that must be
    released with the queue."""

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
    """The device of one program; only one thread at a time may use it. Its addresses have `bits` bits.

    `engine` is an engine object or the name of an engine. Every buffer begins on a new page and is followed by
    an unmapped page, so an access past its end faults at the exact byte."""

    STATE = ("heap", "_scratch", "queue")

    def __init__(self, bits: int, target: Target, engine: Engine | str, settings: Settings) -> None:
        self.bits = bits
        self.target = target
        self.time_limit_seconds = settings.time_limit_seconds
        self.telemetry = telemetry = CountingTelemetry(settings.lints)
        self.reports = reports = Reports(settings, telemetry.desk)
        self.memory = memory = GpuMemory()
        self.heap = heap = heap_of(memory, PLACES[bits], reports.guard)
        self.checks = checks = reports.checks_of(memory)
        self.events = events = WaveEvents(telemetry, settings.trace_waves, settings.snapshots)
        self.compute = Compute(settings, checks, events, partial(chosen_engine, engine, settings))
        self.engine = self.compute.engine  # made at once, so that an unknown name is an error here
        self.queue: PlacedQueue | None = None
        self._fill = settings.fill
        self._special_address, self._special = self.allocate(AmdQueue.size_bytes, "special buffer")
        self._packet_address, self._packet = self.allocate(KernelDispatchPacket.size_bytes, "setup buffer")
        self._private = PrivateMemory(
            heap, settings.fill, allocate=lambda size: self.allocate(size, "private memory")[0], free=self.release
        )
        self._scratch: Scratch | None = None
        self._busy_lock = BusyLock()
        self._watch = Watch(None)
        """The time limit of the running kernel, and the request to stop it."""

    def __repr__(self) -> str:
        return f"<OpenclDevice {self.target.name}, {self.bits} bits>"

    @property
    def engine(self) -> Engine:
        """The engine that runs waves; it may be replaced between two runs."""
        return self.compute.engine

    @engine.setter
    def engine(self, engine: Engine) -> None:
        self.compute.engine = engine

    # ---- memory --------------------------------------------------------------------------------------------------

    def map(self, buffer: Any, name: str, writable: bool = True, used: int | None = None) -> int:
        """Map `buffer` into device memory and return its address; raise `WireError` if there is not enough space.

        `used` is the number of bytes of RAM that the caller requested, for checks of bounds.
        """
        what = buffer if isinstance(buffer, Ram) else memoryview(buffer)
        try:
            return self.heap.map(what, name, writable, used=used)
        except BeyondModel:
            raise WireError(f"the device's address space has no room for {size_of(what)} bytes of {name}") from None

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
        self.checks.forget()

    def check_idle(self, what: str) -> None:
        """Raise `RuleError` if a kernel runs, because the operation `what` must not happen in the meantime."""
        if self._busy_lock:
            raise RuleError(f"{what} is not possible while a kernel runs: wait for the end of the run")

    def close(self) -> None:
        """Close the device. If another thread runs a kernel, end the kernel (`Stopped`) and wait for its end."""
        self._watch.stopped = CLOSED
        self._busy_lock.wait()
        self.checks.device_closes()

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
        total, children = Statistics(), 0

        def dispatch(packet: KernelDispatchPacket, address: int) -> int:
            statistics = self._dispatch(packet, address, options)
            total.add(statistics)
            return statistics.instructions

        with self._busy_lock:
            self._packet.view[: packet.size_bytes] = packet.pack()
            try:
                dispatch(packet, self._packet_address)
                if uses_queue:
                    assert self.queue is not None
                    scheduler = Scheduler(self.memory, self.queue.address, dispatch, self.telemetry, self.bits // 8)
                    children = scheduler.drain(self.queue.parent)
            except BaseException:
                if uses_queue:
                    self.drop_queue()
                raise
        return total, children

    def _dispatch(self, packet: KernelDispatchPacket, address: int, options: Mapping[str, Any]) -> Statistics:
        """Run the dispatch packet at `address` until the kernel ends, and return its statistics.

        The kernel gets the larger one of the private memory sizes in `packet` and in the kernel's header, and the sum
        of the two LDS sizes. The packet in memory is not changed."""
        packet = launched(self.memory, packet, self.target)
        around = Surroundings(self.target, self.memory, self._special_address, self._scratch_for(packet))
        self._special.view[: AmdQueue.size_bytes] = special_buffer(around, packet.private_segment_size).pack()
        more, watch, telemetry = dict(options), self._watch, self.telemetry
        if watch.stopped:
            raise Stopped(f"{watch.stopped} before the kernel ran")
        if more.get(POISON) is None:
            more[POISON] = self._fill
        if self.checks.tracker is not None:
            self.checks.tracker.begin()
        limit = more.pop(TIME_LIMIT, self.time_limit_seconds)
        dispatch = launch(around, packet, address, watch=watch, checks=self.checks, **more)
        kernel, outer_limit = packet.kernel_object, watch.time_limit_seconds
        telemetry.emit(lambda time: KernelStarted(time, kernel, packet.grid, packet.workgroup))
        watch.time_limit_seconds = limit
        try:
            statistics = self.events.run(dispatch, self.compute.run)
        except SoftcardError as error:
            failure = error
            telemetry.emit(lambda time: KernelFailed(time, kernel, failure))
            raise
        finally:
            watch.time_limit_seconds = outer_limit  # a callback of a running kernel may run another one
        telemetry.time += statistics.instructions
        telemetry.emit(lambda time: KernelFinished(time, kernel, statistics.waves, statistics.instructions))
        return statistics

    def _scratch_for(self, packet: KernelDispatchPacket) -> Scratch | None:
        """Return the private memory for a launch of `packet`, None if it needs none.

        Memory of an earlier launch is reused if it fits.
        """
        lane, old = packet.private_segment_size, self._scratch
        if not lane:
            return None
        wave = wave_scratch_bytes(lane)
        if wave > MAX_WAVE_SCRATCH:
            text = f"a work-item needs {lane} bytes of private memory"
            raise WireError(f"{text}, expected at most {MAX_WAVE_SCRATCH // LANES}")
        items = packet.workgroup_size_x * packet.workgroup_size_y * packet.workgroup_size_z
        group = max(-(-items // LANES), 1)  # packets of enqueued kernels may have work-groups of size 0
        waves = max(group, min(SCRATCH_WAVES, SCRATCH_BYTES // wave) // group * group)
        if old is None or not self._private.fits(old.address, old.size_bytes, lane, waves):
            self._scratch = None
            if old is not None:
                self._private.free(old.address)
            address, size = self._private.allocate(lane, waves)
            self._scratch = Scratch(address, size, address & ~0xFFFF_FFFF)
        return self._scratch
