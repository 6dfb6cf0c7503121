"""AQL queues: amd_queue_t and the ring in guest memory, index operations, and the packet processor's state.

See "AMD Queue" in the ROCm Code Object specification. Erratum 1 applies: the write index is write_dispatch_id and the
read index read_dispatch_id, in all operations.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from softcard.core.display import RichDisplay, Rows
from softcard.core.errors import RuleError, SoftcardError
from softcard.core.findings import FindingLog
from softcard.core.limits import Watch
from softcard.core.words import U64
from softcard.device.hsa import rules
from softcard.device.hsa.agents import Agent
from softcard.device.hsa.exceptions import PacketRefused, QueueError
from softcard.device.hsa.fast_path import Templates
from softcard.device.hsa.interfaces import World
from softcard.device.hsa.launch.first_state import Scratch
from softcard.device.hsa.launch.registers import SCRATCH_GRANULE, TmpringSize
from softcard.device.hsa.memory.atomics import Word
from softcard.device.hsa.native_packets import Q
from softcard.device.hsa.queues.packets import DEPENDENCIES, PACKET_BYTES, SIGNAL_AT, AgentDispatchPacket, PacketType
from softcard.device.hsa.queues.records import AmdQueue, HsaQueue, QueueFeature, QueueProperties, SignalKind
from softcard.device.hsa.queues.signals import Signal

MIN_SIZE: Final = 2
MAX_SIZE: Final = 1 << 17
MOST_NOTED: Final = 4096
_TMPRING_AT: Final = AmdQueue.offset_of("compute_tmpring_size")
_SCRATCH_FIELDS: Final = struct.Struct("<I4IQQ")
"""The format of the consecutive fields of amd_queue_t that describe private memory.

They are the number of waves and their size, the descriptor, the location, and the size of the memory.
"""
_PROPERTIES_AT: Final = AmdQueue.offset_of("queue_properties")
_INACTIVE_AT: Final = AmdQueue.offset_of("queue_inactive_signal")
_DOORBELL_AT: Final = HsaQueue.offset_of("doorbell_signal")

OnError = Callable[["Queue", int, SoftcardError], None]
"""A function that is called with an error of a queue.

Its arguments are the queue, the error code (bits of queue_inactive_signal), and the error.
"""
AgentDispatchHandler = Callable[[AgentDispatchPacket], int]
QueueState = tuple["Progress", int, int, int]
"""The state of a queue that is not in guest memory, as `Queue.snapshot` returns it.

It has the progress, the private memory, the limit, and 1 while the queue is active.
"""
"""A function that executes an agent dispatch packet; the result is stored to its return_address."""


class QueueOwner(World, Protocol):
    """The interface of an HSA device that its queues use."""

    agent: Agent

    hidden_private_base: int
    """The base address of private memory on GFX7 and GFX8."""

    @property
    def log(self) -> FindingLog | None:
        """The log with the findings of checks; None if the device has no checks."""

    def create_signal(self) -> Signal:
        """Return a new user signal of value 0."""

    def destroy_signal(self, signal: Signal) -> None:
        """Free a signal's memory."""

    def make_room(self, queue: Queue, index: int) -> None:
        """Try once to free the ring slot of `queue` for packet `index`: process packets, or wait a short time.

        The caller repeats this until the queue has room. Raise an error if the slot cannot become free."""

    def set_active(self, queue: Queue, active: bool) -> None:
        """Resume the processing of the packets of `queue` if `active`, else stop it."""

    def destroy_queue(self, queue: Queue) -> None:
        """Free a queue's memory."""


class PacketProcessor(Protocol):
    """The interface of the packet processor that queues use."""

    time_limit_seconds: float | None
    """The time limit of a kernel in seconds; None for no limit."""

    meanwhile: Callable[[], None] | None
    """A function that is called regularly while a kernel runs, or None."""

    def fast_path(self, queue: Queue) -> Templates | None:
        """Register a new queue for processing by native code of the simulator; return its `Templates`.

        Return None if native code does not process packets of the queue."""

    def forget(self, queue: Queue) -> None:
        """Drop the cached launch inputs of `queue`."""

    def abandon(self, queue: Queue, cause: BaseException) -> bool:
        """Make the next packet of `queue` fail with `cause`, because the host has stopped waiting for it.

        Return False if the queue has no packet.
        """

    def process(self, queue: Queue, budget: int) -> int:
        """Process up to `budget` packets of `queue`; return the number of processed packets.

        It is 0 if the next packet has to wait, or if the queue is inactive.
        """


@dataclass(slots=True)
class Progress:
    """The packet processor's progress with one queue."""

    started: int = -1
    """The index of the last packet whose start was reported by an event."""
    blocked: int = -1
    """The index of the last packet that was reported as blocked by an event."""
    error: SoftcardError | None = None
    code: int = 0
    is_reported: bool = False
    """True if the queue's error was reported in another way than by queue_inactive_signal."""
    packets: int = 0
    instructions: int = 0
    buffer_position: int = 0
    """The number of dwords of the next packet's indirect buffer that were executed; its next command has to wait."""
    interpreted: dict[int, int] = field(default_factory=dict)
    """The number of instructions of each packet that the reference engine executed, by packet index.

    Packets without such instructions have no entry. The thread that waits for a packet removes its entry. Of the
    entries that no thread reads, the last `MOST_NOTED` are kept.
    """

    def note(self, index: int, interpreted: int) -> None:
        """Store the number of instructions of packet `index` that the reference engine executed."""
        if interpreted:
            self.interpreted[index] = interpreted
            if len(self.interpreted) > MOST_NOTED:
                self.interpreted.pop(next(iter(self.interpreted)), None)


@dataclass(slots=True, eq=False)
class Queue(RichDisplay):
    """One AQL queue of a device, created by `HsaDevice.create_queue` or adopted by `HsaDevice.adopt_queue`.

    `address`, the address of amd_queue_t, is the queue's handle."""

    device: QueueOwner
    processor: PacketProcessor = field(repr=False)
    number: int
    slot: int
    """The number of the queue's hardware doorbell."""
    address: int
    ring_address: int
    size: int
    ring: NDArray[np.uint8] = field(repr=False)
    own: tuple[Signal, Signal] | None = field(default=None, repr=False)
    """The queue's doorbell signal and its queue_inactive_signal, if the device created them.

    It is None for an adopted queue, whose structures in guest memory belong to its creator.
    """
    on_error: OnError | None = field(default=None, repr=False)
    agent_dispatch: AgentDispatchHandler | None = field(default=None, repr=False)
    progress: Progress = field(default_factory=Progress, repr=False)
    watch: Watch = field(init=False, repr=False)
    """The time and step limits of the queue's kernels, and the request to stop them."""
    block: NDArray[np.uint64] = field(init=False, repr=False)
    block_address: int = field(init=False, repr=False)
    words: memoryview = field(init=False, repr=False)
    templates: Templates | None = field(init=False, repr=False)
    scratch_block: int = 0
    """The address of the private memory that the device allocated for the queue; 0 if it allocated none."""
    bounded: dict[int, Scratch] = field(default_factory=dict, repr=False)
    """Bounds-checked private memory that replaces the driver's, by bytes per work-item; for the check `memory`."""
    is_destroyed: bool = False
    closed: str = field(default="", repr=False)
    """The reason why the queue's device accepts no more packets; "" while it accepts them.

    It is a plain attribute, not a property, because each submission reads it.
    """
    load_read_index: Callable[[], int] = field(init=False, repr=False)
    """The function that returns the queue's read index: HSA's Load Queue Read Index."""
    peek_write_index: Callable[[], int] = field(init=False, repr=False)
    """The function that returns the queue's write index, even after the queue was destroyed."""
    _write: Word = field(init=False, repr=False)
    _read: Word = field(init=False, repr=False)
    _slots: memoryview = field(init=False, repr=False)
    """The bytes of the queue's ring."""
    _inactive: Signal | None = field(default=None, init=False, repr=False)
    """The signal whose handle queue_inactive_signal contained when it was last read."""

    def __post_init__(self) -> None:
        memory = self.device.memory
        self.block = np.zeros(len(Q), np.uint64)
        self.words = self.block.data
        self.block_address = int(self.block.ctypes.data)
        self.words[Q["bits"]] = self.device.signal_bits
        plain = memory.plain(self.address, AmdQueue.size_bytes, store=True)
        if plain is None:
            memory.check(self.address, AmdQueue.size_bytes, "write")
            raise RuleError(f"amd_queue_t at {self.address:#x} is not in RAM", rule=rules.QUEUE_HANDLE)
        self._write = Word(memory, self.address + AmdQueue.offset_of("write_dispatch_id"))
        self._read = Word(memory, self.address + AmdQueue.offset_of("read_dispatch_id"))
        start = self.address - plain.base
        indices = plain.view[start : start + AmdQueue.size_bytes].cast("Q")
        self.load_read_index = partial(indices.__getitem__, AmdQueue.offset_of("read_dispatch_id") // 8)
        self.peek_write_index = partial(indices.__getitem__, AmdQueue.offset_of("write_dispatch_id") // 8)
        self._slots = self.ring.data
        self.words[Q["ring"]] = self.ring.ctypes.data
        self.words[Q["ring_address"]] = self.ring_address
        self.words[Q["mask"]] = self.size - 1
        self.words[Q["queue"]] = int(plain.bytes.ctypes.data) + start
        self.words[Q["active"]] = 1
        self.words[Q["tables"]] = memory.tables_address
        self.watch = Watch(self.processor.time_limit_seconds, meanwhile=self.processor.meanwhile)
        self.templates = self.processor.fast_path(self)

    def __repr__(self) -> str:
        return f"<queue {self.number} at {self.address:#x}, {self.size} packets>"

    def _rows(self) -> Rows:
        yield ()
        yield "ring", f"{self.ring_address:#x}"
        yield "doorbell", f"{self._handle(_DOORBELL_AT):#x}"
        yield "written", self.load_write_index()
        yield "read", self.load_read_index()
        yield "active", bool(self.is_active)
        yield "error", self.error or ""

    # ---- structures in memory ----------------------------------------------------------------------------------------

    def record(self) -> AmdQueue:
        """Return the queue's amd_queue_t with its current values."""
        self.check()
        return AmdQueue.parse(self.device.memory.read(self.address, AmdQueue.size_bytes))

    def packet_address(self, index: int) -> int:
        """Return the address of packet `index` in the ring."""
        return self.ring_address + (index & self.size - 1) * PACKET_BYTES

    @property
    def is_adopted(self) -> bool:
        """True if the queue was adopted: its structures in memory belong to its creator."""
        return self.own is None

    @property
    def doorbell(self) -> Signal:
        """The doorbell signal. For an adopted queue, it is the signal whose handle hsa_queue_t currently contains.

        Raise an error if that handle does not belong to a doorbell."""
        return Signal(self.device, self._handle(_DOORBELL_AT)) if self.own is None else self.own[0]

    @property
    def inactive_signal(self) -> Signal:
        """The signal queue_inactive_signal of the queue.

        For an adopted queue, it is the signal whose handle amd_queue_t currently contains. Raise an error if that
        handle does not belong to a signal."""
        return Signal(self.device, self._handle(_INACTIVE_AT)) if self.own is None else self.own[1]

    def _handle(self, at: int) -> int:
        """Return the signal handle that amd_queue_t contains at offset `at`."""
        return int.from_bytes(self.device.memory.read(self.address + at, 8), "little")

    def inactive_now(self) -> Signal | None:
        """Return the signal whose handle the field queue_inactive_signal currently contains.

        Return None if the handle is 0 or does not belong to a user signal."""
        try:
            handle = self._handle(_INACTIVE_AT)
            if self.own is not None and handle == self.own[1].address:
                self._inactive = self.own[1]
            elif self._inactive is None or handle != self._inactive.address:
                self._inactive = Signal(self.device, handle)
            return self._inactive if self._inactive.kind == SignalKind.USER else None
        except SoftcardError:
            self._inactive = None
            return None

    def scratch_words(self) -> bytes:
        """Return the bytes of amd_queue_t that describe private memory."""
        return self.device.memory.read(self.address + _TMPRING_AT, _SCRATCH_FIELDS.size)

    def scratch(self, said: bytes) -> tuple[Scratch | None, tuple[int, int, int, int]]:
        """Return the private memory that `said` describes, and the V# that kernels get for it.

        `said` is the result of `scratch_words`. If it has no size, as a program that writes only what hardware needs
        may leave it, the size is that of the waves in compute_tmpring_size on all accelerator dies."""
        tmpring, *words, location, size = _SCRATCH_FIELDS.unpack(said)
        if not size:
            its = TmpringSize.parse(tmpring.to_bytes(4, "little"))
            size = its.waves * its.wave_size * SCRATCH_GRANULE * self.device.agent.xccs
        hidden = self.device.hidden_private_base
        scratch = None
        if size:
            place = hidden + location
            if place + size > self.device.memory.limit:
                text = (
                    f"private memory of {size:#x} bytes at {place:#x} would lie beyond the end of the address space, "
                    f"{self.device.memory.limit:#x}"
                )
                raise PacketRefused(text, QueueError.INSUFFICIENT_SCRATCH)
            scratch = Scratch(place, size, hidden)
        return scratch, (words[0], words[1], words[2], words[3])

    @property
    def properties(self) -> QueueProperties:
        """The current queue_properties of the queue's amd_queue_t."""
        data = self.device.memory.read(self.address + _PROPERTIES_AT, 4)
        return QueueProperties(int.from_bytes(data, "little"))

    # ---- index operations ----------------------------------------------------------------------------------------

    def load_write_index(self) -> int:
        """Return the write index: HSA's Load Queue Write Index."""
        self.check()
        return self._write.load_unsigned()

    def store_write_index(self, value: int) -> None:
        """Set the write index to `value`: HSA's Store Queue Write Index.

        Only the single producer of a queue of type SINGLE may do this.
        """
        self.check_producer()
        self._write.store(value)

    def add_write_index(self, value: int) -> int:
        """Reserve slots for `value` packets: HSA's Add Queue Write Index; return the index of the first one."""
        self.check_producer()
        return self._write.rmw("add", value) & U64

    def cas_write_index(self, expected: int, value: int) -> int:
        """Set the write index to `value` if it is `expected`; return the previous index.

        This is HSA's Compare-And-Swap Queue Write Index.
        """
        self.check_producer()
        return self._write.cas(expected, value) & U64

    def store_read_index(self, value: int) -> None:
        """Set the read index to `value`: HSA's Store Queue Read Index.

        The packet processor calls this, and so do programs that consume the packets of their own queue.
        """
        if self.closed:
            raise RuleError(self.closed)
        self._read.store(value)

    # ---- producing -----------------------------------------------------------------------------------------------

    @property
    def is_active(self) -> bool:
        """True if the packet processor processes packets of the queue."""
        return bool(self.words[Q["active"]])

    @property
    def error(self) -> SoftcardError | None:
        """The error that made the queue inactive, or None."""
        return self.progress.error

    @property
    def limit(self) -> int:
        """The index of the first packet that no doorbell has announced yet."""
        return int(self.words[Q["limit"]])

    def write_packet(self, index: int, data: bytes) -> None:
        """Write a packet to the slot of `index` and submit it.

        The body is written first. Then the header is stored with release semantics, which submits the packet. Raise
        `RuleError` if the slot is not free."""
        self.check_producer()
        if len(data) != PACKET_BYTES:
            raise RuleError(f"the packet has {len(data)} bytes, expected {PACKET_BYTES}", rule=rules.PACKET_SIZE)
        if index - self.size >= self.load_read_index():
            raise RuleError(
                f"packet {index} would overwrite one that the device has not read yet", rule=rules.QUEUE_FULL
            )
        self._put(index, data)

    def _put(self, index: int, data: bytes) -> None:
        slot = (index & self.size - 1) * PACKET_BYTES
        view = self._slots
        view[slot + 2 : slot + PACKET_BYTES] = data[2:]
        view[slot : slot + 2] = data[:2]

    def submit(self, *packets: bytes) -> int:
        """Reserve slots for `packets`, write them and ring the doorbell; return the index of the last packet.

        While the ring is full, a device without its own thread processes packets to free slots. Raise `RuleError` if no
        slot can become free.
        """
        self.check_producer()
        doorbell = self.doorbell if self.own is None else self.own[0]
        first = self._write.rmw("add", len(packets)) & U64
        for index, data in enumerate(packets, first):
            while index - self.load_read_index() >= self.size:
                if index > first:
                    doorbell.store(index - 1)
                self.device.make_room(self, index)
            if len(data) != PACKET_BYTES:
                raise RuleError(f"the packet has {len(data)} bytes, expected {PACKET_BYTES}", rule=rules.PACKET_SIZE)
            self._put(index, data)
        last = first + len(packets) - 1
        doorbell.store(last)
        return last

    # ---- pending packets ----

    @property
    def pending(self) -> int:
        """The number of packets that a doorbell has announced and that are not completed."""
        return min(max(self.limit - self.load_read_index(), 0), self.size)

    def completions(self) -> list[int]:
        """Return the nonzero handles of the completion signals of all packets that are announced but not completed."""
        read = self.load_read_index()
        slots = (read + np.arange(self.pending, dtype=np.uint64)) & np.uint64(self.size - 1)
        handles = self.ring.view(np.uint64).reshape(-1, PACKET_BYTES // 8)[slots, SIGNAL_AT // 8]
        return [handle for handle in handles.tolist() if handle]

    def dependencies(self) -> list[int]:
        """Return the nonzero handles of the signals that the next packet waits for, if it is a BARRIER_AND packet.

        Return an empty list for a packet of another type, or if no packet is submitted."""
        read = self.load_read_index()
        slot = (read & self.size - 1) * PACKET_BYTES
        if read >= self.limit or self.ring[slot] != PacketType.BARRIER_AND:
            return []
        found = self.ring[slot + 8 : slot + 8 + 8 * DEPENDENCIES].view(np.uint64).tolist()
        return [handle for handle in found if handle]

    # ---- lifetime ----------------------------------------------------------------------------------------------------

    def check(self) -> None:
        """Raise `RuleError` if the queue was destroyed, since its memory may be reused."""
        if self.is_destroyed:
            raise RuleError(f"queue {self.number} was destroyed: create a new one")

    def check_producer(self) -> None:
        """Raise `RuleError` if the queue was destroyed or its device closed; new packets would not be processed."""
        if self.is_destroyed:
            raise RuleError(f"queue {self.number} was destroyed: create a new one")
        if self.closed:
            raise RuleError(self.closed)

    def end(self) -> None:
        """Stop the processing of packets because the queue is destroyed; only `restore` can reverse this."""
        self.is_destroyed = True
        self.words[Q["active"]] = 0
        self.forget_launches()

    def forget_launches(self) -> None:
        """Drop cached launches, because the queue or a shared input of several launches has changed."""
        self.processor.forget(self)
        if self.templates is not None:
            self.templates.drop()

    def snapshot(self) -> QueueState:
        """Return that state of the queue that is not in guest memory, for `restore`."""
        words = self.words
        return replace(self.progress), self.scratch_block, int(words[Q["limit"]]), int(words[Q["active"]])

    def restore(self, state: QueueState) -> None:
        """Return to a state that `snapshot` returned."""
        if self.is_destroyed:
            self.is_destroyed, self.watch.stopped = False, ""
        progress, self.scratch_block, self.words[Q["limit"]], self.words[Q["active"]] = state
        self.progress = replace(progress)

    def inactivate(self) -> None:
        """Stop the processing of packets (hsa_queue_inactivate); a running packet ends first."""
        self.device.set_active(self, False)

    def destroy(self) -> None:
        """Destroy the queue and free its memory.

        A running packet ends first; a running packet of an adopted queue is stopped instead.
        """
        self.device.destroy_queue(self)

    # ---- for the processor ---------------------------------------------------------------------------------------

    def packet(self, index: int) -> bytes:
        """Return the bytes that the ring slot of packet `index` currently contains."""
        slot = (index & self.size - 1) * PACKET_BYTES
        return bytes(self._slots[slot : slot + PACKET_BYTES])

    def takes(self, feature: QueueFeature) -> bool:
        """Return True if the queue accepts packets of kind `feature`, as hsa_queue_t.features declares."""
        return bool(self.record().hsa_queue.features & feature)
