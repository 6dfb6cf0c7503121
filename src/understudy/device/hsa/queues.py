"""AQL queues: amd_queue_t and the ring in guest memory, index operations, and what the packet processor knows of one.

"AMD Queue" of the document. Erratum 1 applies: the write index is write_dispatch_id and the read index
read_dispatch_id, in all operations.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final, Protocol

import numpy as np

from understudy.core.errors import RuleError, UnderstudyError
from understudy.core.findings import FindingLog
from understudy.core.limits import Watch
from understudy.core.shown import Rows, Shown
from understudy.core.words import U64
from understudy.device.hsa import rules
from understudy.device.hsa.atomics import Word
from understudy.device.hsa.exceptions import PacketRefused, QueueError
from understudy.device.hsa.fast_path import Templates
from understudy.device.hsa.interfaces import World
from understudy.device.hsa.launch.first_state import Scratch
from understudy.device.hsa.native_packets import Q
from understudy.device.hsa.packets import DEPENDENCIES, PACKET_BYTES, SIGNAL_AT, AgentDispatchPacket, PacketType
from understudy.device.hsa.records import AmdQueue, HsaQueue, QueueFeature, QueueProperties, SignalKind
from understudy.device.hsa.signals import Signal

MIN_SIZE: Final = 2
MAX_SIZE: Final = 1 << 17
MOST_NOTED: Final = 4096
_DESCRIPTOR_AT: Final = AmdQueue.offset_of("scratch_resource_descriptor")
_SCRATCH_FIELDS: Final = struct.Struct("<4IQQ")
"""The descriptor, location and size of private memory, which follow each other."""
_PROPERTIES_AT: Final = AmdQueue.offset_of("queue_properties")
_INACTIVE_AT: Final = AmdQueue.offset_of("queue_inactive_signal")
_DOORBELL_AT: Final = HsaQueue.offset_of("doorbell_signal")

OnError = Callable[["Queue", int, UnderstudyError], None]
"""The queue, the error code (bits of queue_inactive_signal), and what happened."""
AgentDispatchHandler = Callable[[AgentDispatchPacket], int]
"""Does what an agent dispatch packet asks for; the result is stored to its return_address."""


class QueueOwner(World, Protocol):
    """What a queue needs of the device that it belongs to."""

    hidden_private_base: int
    """Where addresses of private memory are counted from."""

    @property
    def log(self) -> FindingLog | None:
        """Where findings of checks go; None where there is no check."""

    def create_signal(self) -> Signal:
        """A user signal of value 0."""

    def destroy_signal(self, signal: Signal) -> None:
        """Give its memory back."""

    def make_room(self, queue: Queue, index: int) -> None:
        """Packet `index` of a producer does not fit yet: work, or wait a little; an error where that cannot help."""

    def set_active(self, queue: Queue, active: bool) -> None:
        """Stop processing its packets, or go on."""

    def destroy_queue(self, queue: Queue) -> None:
        """Give its memory back."""


class PacketProcessor(Protocol):
    """Who processes a queue's packets."""

    time_limit_seconds: float | None
    """How long a kernel may run."""

    meanwhile: Callable[[], None] | None
    """What is done now and then while a kernel runs."""

    def fast_path(self, queue: Queue) -> Templates | None:
        """A new queue: it has its packets processed from now on. What does so by machine code; None: nothing."""

    def forget(self, queue: Queue) -> None:
        """What was kept for its launches is of no more use."""

    def turn(self, queue: Queue, budget: int) -> int:
        """Process up to `budget` packets; how many were. 0: the queue has to wait, or is inactive now."""


@dataclass(slots=True)
class Progress:
    """How far the processor is with a queue."""

    started: int = -1
    """The packet that has been told of as started."""
    blocked: int = -1
    """The packet that has been told of as blocked."""
    error: UnderstudyError | None = None
    code: int = 0
    is_told: bool = False
    """Whether somebody has told of the error otherwise, so that queue_inactive_signal says nothing of it."""
    packets: int = 0
    instructions: int = 0
    interpreted: dict[int, int] = field(default_factory=dict)
    """Instructions of packets, by index, that the reference engine executed; none of those where that is 0. Who waits
    for a packet takes its entry; of those that nobody takes, the last `MOST_NOTED` are kept."""

    def note(self, index: int, interpreted: int) -> None:
        """Keep how many instructions of a packet the reference engine executed."""
        if interpreted:
            self.interpreted[index] = interpreted
            if len(self.interpreted) > MOST_NOTED:
                self.interpreted.pop(next(iter(self.interpreted)), None)


@dataclass(slots=True, eq=False)
class Queue(Shown):
    """One AQL queue of a device: made by `HsaDevice.create_queue`, or adopted (`HsaDevice.adopt_queue`).

    `address` is that of amd_queue_t, its handle.
    """

    device: QueueOwner
    processor: PacketProcessor = field(repr=False)
    number: int
    slot: int
    """Number of its hardware doorbell."""
    address: int
    ring_address: int
    size: int
    ring: Any = field(repr=False)
    own: tuple[Signal, Signal] | None = field(default=None, repr=False)
    """Its doorbell and its queue_inactive_signal, where the device made them; None: it was adopted, and all that lies
    in guest memory is somebody else's."""
    on_error: OnError | None = field(default=None, repr=False)
    agent_dispatch: AgentDispatchHandler | None = field(default=None, repr=False)
    progress: Progress = field(default_factory=Progress, repr=False)
    watch: Watch = field(init=False, repr=False)
    """What may end its kernels from outside."""
    block: Any = field(default=None, repr=False)
    block_address: int = field(init=False, repr=False)
    words: Any = field(default=None, repr=False)
    templates: Templates | None = field(init=False, repr=False)
    scratch_block: int = 0
    """Private memory that the device allocated for it."""
    is_destroyed: bool = False
    load_read_index: Callable[[], int] = field(init=False, repr=False)
    """Load Queue Read Index."""
    _write: Word = field(init=False, repr=False)
    _read: Word = field(init=False, repr=False)
    _slots: memoryview = field(init=False, repr=False)
    """The bytes of its ring."""
    _inactive: Signal | None = field(default=None, init=False, repr=False)
    """What queue_inactive_signal named last."""

    def __post_init__(self) -> None:
        memory = self.device.memory
        self.block = np.zeros(len(Q), np.uint64)
        self.words = self.block.data
        self.block_address = int(self.block.ctypes.data)
        self.words[Q["bits"]] = self.device.signal_bits
        plain = memory.plain(self.address, AmdQueue.size_bytes, store=True)
        if plain is None:
            memory.check(self.address, AmdQueue.size_bytes, "write")
            raise RuleError(f"amd_queue_t at {self.address:#x} is not plain memory", rule=rules.QUEUE_HANDLE)
        self._write = Word(memory, self.address + AmdQueue.offset_of("write_dispatch_id"))
        self._read = Word(memory, self.address + AmdQueue.offset_of("read_dispatch_id"))
        start = self.address - plain.base
        indices = plain.view[start : start + AmdQueue.size_bytes].cast("Q")
        self.load_read_index = partial(indices.__getitem__, AmdQueue.offset_of("read_dispatch_id") // 8)
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

    # ---- what memory says ----------------------------------------------------------------------------------------

    def record(self) -> AmdQueue:
        """amd_queue_t as it is now."""
        self.check()
        return AmdQueue.parse(self.device.memory.read(self.address, AmdQueue.size_bytes))

    def packet_address(self, index: int) -> int:
        """Where packet `index` lies in the ring."""
        return self.ring_address + (index & self.size - 1) * PACKET_BYTES

    @property
    def is_adopted(self) -> bool:
        """Whether somebody else made it, in memory of its own."""
        return self.own is None

    @property
    def doorbell(self) -> Signal:
        """Its doorbell signal. Of an adopted queue the one that hsa_queue_t names now; an error where that is none."""
        return Signal(self.device, self._handle(_DOORBELL_AT)) if self.own is None else self.own[0]

    @property
    def inactive_signal(self) -> Signal:
        """Its queue_inactive_signal, likewise."""
        return Signal(self.device, self._handle(_INACTIVE_AT)) if self.own is None else self.own[1]

    def _handle(self, at: int) -> int:
        """A signal's handle in amd_queue_t."""
        return int.from_bytes(self.device.memory.read(self.address + at, 8), "little")

    def inactive_now(self) -> Signal | None:
        """The signal that queue_inactive_signal names now; None where it names none."""
        try:
            handle = self._handle(_INACTIVE_AT)
            if self.own is not None and handle == self.own[1].address:
                self._inactive = self.own[1]
            elif self._inactive is None or handle != self._inactive.address:
                self._inactive = Signal(self.device, handle)
            return self._inactive if self._inactive.kind == SignalKind.USER else None
        except UnderstudyError:
            self._inactive = None
            return None

    def scratch_words(self) -> bytes:
        """What amd_queue_t says of private memory now."""
        return self.device.memory.read(self.address + _DESCRIPTOR_AT, _SCRATCH_FIELDS.size)

    def scratch(self, said: bytes) -> tuple[Scratch | None, tuple[int, int, int, int]]:
        """Private memory as `scratch_words` say: where it is, and the V# that kernels get."""
        *words, location, size = _SCRATCH_FIELDS.unpack(said)
        hidden = self.device.hidden_private_base
        scratch = None
        if size:
            place = hidden + location
            if place + size > self.device.memory.limit:
                text = f"private memory at {place:#x} lies beyond {self.device.memory.limit:#x}"
                raise PacketRefused(text, QueueError.INSUFFICIENT_SCRATCH)
            scratch = Scratch(place, size, hidden)
        return scratch, (words[0], words[1], words[2], words[3])

    @property
    def properties(self) -> QueueProperties:
        """queue_properties as they are now."""
        data = self.device.memory.read(self.address + _PROPERTIES_AT, 4)
        return QueueProperties(int.from_bytes(data, "little"))

    # ---- index operations ----------------------------------------------------------------------------------------

    def load_write_index(self) -> int:
        """Load Queue Write Index."""
        self.check()
        return self._write.load_unsigned()

    def store_write_index(self, value: int) -> None:
        """Store Queue Write Index: for the one producer of a SINGLE queue."""
        self.check()
        self._write.store(value)

    def add_write_index(self, value: int) -> int:
        """Add Queue Write Index: reserve `value` packets; the index of the first."""
        self.check()
        return self._write.rmw("add", value) & U64

    def cas_write_index(self, expected: int, value: int) -> int:
        """Compare-And-Swap Queue Write Index; the index before."""
        self.check()
        return self._write.cas(expected, value) & U64

    def store_read_index(self, value: int) -> None:
        """Store Queue Read Index: what the packet processor does, and the consumer of a queue of one's own."""
        self._read.store(value)

    # ---- producing -----------------------------------------------------------------------------------------------

    @property
    def is_active(self) -> bool:
        """Whether packets are processed."""
        return bool(self.words[Q["active"]])

    @property
    def error(self) -> UnderstudyError | None:
        """What made it inactive."""
        return self.progress.error

    @property
    def limit(self) -> int:
        """The first packet that no doorbell has made known yet."""
        return int(self.words[Q["limit"]])

    def write_packet(self, index: int, data: bytes) -> None:
        """Put a packet into its slot and hand it over: the body first, then the header with release."""
        self.check()
        if len(data) != PACKET_BYTES:
            raise RuleError(f"a packet of {len(data)} bytes, expected {PACKET_BYTES}", rule=rules.PACKET_SIZE)
        if index - self.size >= self.load_read_index():
            raise RuleError(f"packet {index} overwrites one that has not been read", rule=rules.QUEUE_FULL)
        self._put(index, data)

    def _put(self, index: int, data: bytes) -> None:
        slot = (index & self.size - 1) * PACKET_BYTES
        view = self._slots
        view[slot + 2 : slot + PACKET_BYTES] = data[2:]
        view[slot : slot + 2] = data[:2]

    def submit(self, *packets: bytes) -> int:
        """Reserve slots, write packets, ring the doorbell; the index of the last one.

        While the ring is full a device without a thread of its own works; `RuleError` where that cannot help.
        """
        self.check()
        doorbell = self.doorbell if self.own is None else self.own[0]
        first = self._write.rmw("add", len(packets)) & U64
        for index, data in enumerate(packets, first):
            while index - self.load_read_index() >= self.size:
                if index > first:
                    doorbell.store(index - 1)
                self.device.make_room(self, index)
            if len(data) != PACKET_BYTES:
                raise RuleError(f"a packet of {len(data)} bytes, expected {PACKET_BYTES}", rule=rules.PACKET_SIZE)
            self._put(index, data)
        last = first + len(packets) - 1
        doorbell.store(last)
        return last

    # ---- what is pending ----

    @property
    def pending(self) -> int:
        """Packets that are known and not done."""
        return min(max(self.limit - self.load_read_index(), 0), self.size)

    def completions(self) -> list[int]:
        """Completion signals of the packets that are known and not done, without zeros."""
        read = self.load_read_index()
        slots = (read + np.arange(self.pending, dtype=np.uint64)) & np.uint64(self.size - 1)
        handles = self.ring.view(np.uint64).reshape(-1, PACKET_BYTES // 8)[slots, SIGNAL_AT // 8]
        return [handle for handle in handles.tolist() if handle]

    def dependencies(self) -> list[int]:
        """Signals that the next packet waits for, all of them, if it is a BARRIER_AND."""
        read = self.load_read_index()
        slot = (read & self.size - 1) * PACKET_BYTES
        if read >= self.limit or self.ring[slot] != PacketType.BARRIER_AND:
            return []
        found = self.ring[slot + 8 : slot + 8 + 8 * DEPENDENCIES].view(np.uint64).tolist()
        return [handle for handle in found if handle]

    # ---- life ----------------------------------------------------------------------------------------------------

    def check(self) -> None:
        """A `RuleError` where it is destroyed: its memory is somebody else's now."""
        if self.is_destroyed:
            raise RuleError(f"queue {self.number} was destroyed")

    def end(self) -> None:
        """No further packet is processed: it is destroyed, unless `restore` brings it back."""
        self.is_destroyed = True
        self.words[Q["active"]] = 0
        self.forget_launches()

    def forget_launches(self) -> None:
        """Launches that are kept are made anew: the queue, or what all depend on, is another now."""
        self.processor.forget(self)
        if self.templates is not None:
            self.templates.drop()

    def snapshot(self) -> Any:
        """What is not in guest memory, for `restore`."""
        words = self.words
        return replace(self.progress), self.scratch_block, int(words[Q["limit"]]), int(words[Q["active"]])

    def restore(self, state: Any) -> None:
        """Go back to a state that `snapshot` gave."""
        if self.is_destroyed:
            self.is_destroyed, self.watch.stopped = False, ""
        progress, self.scratch_block, self.words[Q["limit"]], self.words[Q["active"]] = state
        self.progress = replace(progress)

    def inactivate(self) -> None:
        """hsa_queue_inactivate: no further packet is processed. One that runs ends first."""
        self.device.set_active(self, False)

    def destroy(self) -> None:
        """Give back what the device made for it. A packet that runs ends first; of an adopted queue it is stopped."""
        self.device.destroy_queue(self)

    # ---- for the processor ---------------------------------------------------------------------------------------

    def packet(self, index: int) -> bytes:
        """The bytes of packet `index`, as they stand in its slot now."""
        slot = (index & self.size - 1) * PACKET_BYTES
        return bytes(self._slots[slot : slot + PACKET_BYTES])

    def takes(self, feature: QueueFeature) -> bool:
        """Whether hsa_queue_t.features names it."""
        return bool(self.record().hsa_queue.features & feature)
