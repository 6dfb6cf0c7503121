"""The table of a device's queues. It creates and destroys queues, and handles doorbells.

A queue consists of amd_queue_t, the ring and signals in guest memory."""

from __future__ import annotations

import threading
from typing import Final

import numpy as np
from numpy.typing import NDArray

from softcard.core.device import Telemetry
from softcard.core.errors import BeyondModel, RuleError, WireError
from softcard.core.space import PAGE_SIZE, lazy_zeros
from softcard.device.hsa import rules
from softcard.device.hsa.agents import Agent
from softcard.device.hsa.events import DoorbellRung, Lint
from softcard.device.hsa.executor import Executor
from softcard.device.hsa.memory.device_memory import DeviceMemory
from softcard.device.hsa.native_packets import Q
from softcard.device.hsa.queues.aql_queue import MIN_SIZE, PacketProcessor, Queue, QueueOwner
from softcard.device.hsa.queues.packets import PACKET_BYTES, PacketType
from softcard.device.hsa.queues.queue_scratch import QueueScratch
from softcard.device.hsa.queues.records import (
    QUEUE_ALIGNMENT,
    AmdQueue,
    AmdSignal,
    HsaQueue,
    QueueFeature,
    QueueProperties,
    QueueType,
    SignalKind,
)
from softcard.device.hsa.queues.signals import DOORBELL_BYTES, DOORBELLS, DoorbellPage, limit_of
from softcard.isa.gcn.target import GFX9

_LIMIT: Final = Q["limit"]
MOST_ADOPTED: Final = 1 << 20
"""The maximum size of an adopted queue in packets.

It is that of the driver's rings, which is greater than the maximum that agents announce (`MAX_SIZE`).
"""


class QueueTable:
    """The table of a device's queues. `doorbells` maps the used slots of the page at `doorbell_base` to queues."""

    def __init__(
        self,
        agent: Agent,
        memory: DeviceMemory,
        executor: Executor,
        processor: PacketProcessor,
        scratch: QueueScratch,
        telemetry: Telemetry,
    ) -> None:
        self.doorbells: dict[int, Queue] = {}
        self.lock = threading.RLock()
        """The lock that guards the list of queues."""
        self._agent = agent
        self._memory = memory
        self._executor = executor
        self._processor = processor
        self._scratch = scratch
        self._telemetry = telemetry
        self._level = agent.target.level
        self.doorbell_base = memory.heap.map(DoorbellPage(self._level, self.ring), "doorbells")

    def create(
        self, owner: QueueOwner, size: int, type: QueueType, features: QueueFeature, properties: QueueProperties
    ) -> Queue:
        """Return a new queue of `owner`, which has already checked size and type."""
        with self.lock:
            number, slot = self._executor.created, self._free_slot()
            queue = self._make(owner, number, slot, size, type, features, properties)
            self._enter(queue)
        return queue

    def adopt(
        self, owner: QueueOwner, address: int, slot: int | None, size: int | None, ring_address: int | None
    ) -> Queue:
        """Return a queue for an amd_queue_t that another program made; see `HsaDevice.adopt_queue`."""
        executor = self._executor
        with self.lock:
            slot = self._free_slot() if slot is None else slot
            if not 0 <= slot < DOORBELLS:
                raise WireError(f"the doorbell number is {slot}, expected 0 to {DOORBELLS - 1}")
            if slot in self.doorbells:
                raise RuleError(f"doorbell {slot} is in use by queue {self.doorbells[slot].number}")
            ring, ring_address, size = self._found_ring(address, size, ring_address)
            queue = Queue(owner, self._processor, executor.created, slot, address, ring_address, size, ring)
            self._enter(queue)
        return queue

    def _free_slot(self) -> int:
        slot = next((n for n in range(DOORBELLS) if n not in self.doorbells), None)
        if slot is None:
            raise BeyondModel(f"cannot create queue {self._executor.created}: all {DOORBELLS} doorbells are in use")
        return slot

    def _enter(self, queue: Queue) -> None:
        """Register a new queue, so that its packets are processed."""
        self.doorbells[queue.slot] = queue
        with self._executor.changed:
            self._executor.created += 1
            self._executor.queues.append(queue)

    def _found_ring(self, address: int, size: int | None, ring: int | None) -> tuple[NDArray[np.uint8], int, int]:
        """Return the ring of the amd_queue_t at `address`: its bytes, its address and its size in packets.

        If `size` and `ring` are not None, they replace the size and the address that amd_queue_t contains. Raise an
        error if size, alignment or memory of the ring are not valid."""
        gpu, size_bytes = self._memory.gpu, AmdQueue.size_bytes
        if address % QUEUE_ALIGNMENT:
            text = f"the address of amd_queue_t is {address:#x}, expected a multiple of {QUEUE_ALIGNMENT}"
            raise RuleError(text, rule=rules.QUEUE_ALIGNMENT)
        if address >> 32 != address + size_bytes - 1 >> 32:
            raise RuleError(
                f"amd_queue_t at {address:#x} crosses a 4 GiB boundary, expected {size_bytes} bytes on one side of it",
                rule=rules.QUEUE_4_GIB,
            )
        its = AmdQueue.parse(gpu.read(address, size_bytes)).hsa_queue
        size = its.size if size is None else size
        if size & size - 1 or not MIN_SIZE <= size <= MOST_ADOPTED:
            raise WireError(
                f"the size of the queue is {size} packets, expected a power of two from {MIN_SIZE} to {MOST_ADOPTED}"
            )
        ring = its.base_address if ring is None else ring
        if ring % PACKET_BYTES:
            raise RuleError(
                f"the address of the ring is {ring:#x}, expected a multiple of {PACKET_BYTES}", rule=rules.PACKET_SIZE
            )
        size_bytes = size * PACKET_BYTES
        plain = gpu.plain(ring, size_bytes, store=True)
        if plain is None:
            gpu.check(ring, size_bytes, "write")
            raise BeyondModel(f"the ring of {size_bytes} bytes at {ring:#x} is not in one contiguous piece of RAM")
        return plain.bytes[ring - plain.base : ring - plain.base + size_bytes], ring, size

    def _make(
        self,
        owner: QueueOwner,
        number: int,
        slot: int,
        size: int,
        type: QueueType,
        features: QueueFeature,
        properties: QueueProperties,
    ) -> Queue:
        """Create queue number `number` with doorbell `slot` and its structures in guest memory; return it."""
        memory, agent = self._memory, self._agent
        ring, ring_address = self._new_ring(size)
        address = memory.allocate(AmdQueue.size_bytes, QUEUE_ALIGNMENT, mtype=memory.fine_mtype, name="queue")
        doorbell, inactive = owner.create_signal(), owner.create_signal()
        kind = SignalKind.LEGACY_DOORBELL if agent.is_legacy else SignalKind.DOORBELL
        hardware = self.doorbell_base + slot * DOORBELL_BYTES
        memory.gpu.write(doorbell.address, AmdSignal(kind=kind, value=hardware, queue_ptr=address).pack())
        record = AmdQueue(
            hsa_queue=HsaQueue(
                type=type,
                features=features,
                base_address=ring_address,
                doorbell_signal=doorbell.address,
                size=size,
                id=number,
            ),
            group_segment_aperture_base_hi=memory.apertures.group_segment_aperture_base_hi,
            private_segment_aperture_base_hi=memory.apertures.private_segment_aperture_base_hi,
            max_cu_id=agent.compute_units - 1,
            max_wave_id=agent.waves_per_cu - 1,
            read_dispatch_id_field_base_byte_offset=AmdQueue.offset_of("read_dispatch_id"),
            queue_properties=properties,
            queue_inactive_signal=inactive.address,
        )
        memory.gpu.write(address, record.pack())
        return Queue(owner, self._processor, number, slot, address, ring_address, size, ring, (doorbell, inactive))

    def _new_ring(self, size: int) -> tuple[NDArray[np.uint8], int]:
        """Allocate a ring full of INVALID packets; return its array and its address.

        On legacy hardware the ring is mapped twice."""
        memory, size_bytes = self._memory, size * PACKET_BYTES
        if self._agent.is_legacy:
            raw = lazy_zeros(size_bytes + PAGE_SIZE)
            start = -int(raw.ctypes.data) % PAGE_SIZE
            ring = raw[start : start + size_bytes]
            address = memory.heap.map(ring, "ring", copies=2, type=memory.types.fine)
        else:
            address = memory.allocate(size_bytes, mtype=memory.fine_mtype, name="ring")
            ring = memory.heap.array(address, size_bytes)
        ring[::PACKET_BYTES] = PacketType.INVALID
        return ring, address

    def destroy(self, queue: Queue) -> None:
        """Destroy a queue; see `HsaDevice.destroy_queue`."""
        memory, executor = self._memory, self._executor
        if queue.own is None:
            self._release(queue)
            return
        with executor.alone(), self.lock:
            executor.set_active(queue, False)
            queue.end()
            with executor.changed:
                executor.queues.remove(queue)
            self.doorbells.pop(queue.slot, None)
            self._scratch.free(queue)
            for signal in queue.own:
                queue.device.destroy_signal(signal)
            memory.free(queue.address)
            if self._agent.is_legacy:
                memory.heap.unmap(queue.ring_address)
            else:
                memory.free(queue.ring_address)

    def _release(self, queue: Queue) -> None:
        """Release an adopted queue and stop its running packet; other queues may be processed at the same time."""
        executor = self._executor
        queue.watch.stopped = "its queue was destroyed"
        with self.lock:
            executor.withdraw(queue)
            self.doorbells.pop(queue.slot, None)
        self._scratch.free(queue)

    # ---- doorbells -----------------------------------------------------------------------------------------------

    def ring(self, number: int, value: int) -> None:
        """Handle a store to doorbell `number`."""
        executor, telemetry, queue = self._executor, self._telemetry, self.doorbells.get(number)
        if executor.is_closed and not executor.is_mine:  # a kernel that `close` ends may still ring
            executor.check_open()
        if queue is None:
            telemetry.lint(
                "doorbell-without-queue", f"doorbell {number} does not belong to a queue", rules.DOORBELL_NOTIFIES
            )
            return
        words = queue.words
        with executor.lock:
            old, read = words[_LIMIT], queue.load_read_index()
            limit = limit_of(value, self._level, read, queue.size)
            fresh = old < limit and (self._level == GFX9 or limit <= read + queue.size)
            if fresh:
                words[_LIMIT] = limit
        if fresh and limit > (written := queue.peek_write_index()):
            last = limit - 1
            text = (
                f"doorbell {number} announces packets up to {last}, but the write index is {written}: "
                f"raise the write index to {limit} or more first, to reserve the packets"
            )
            telemetry.lint("doorbell-beyond-write-index", text, rules.ADD_WRITE_INDEX)
        if telemetry.probes.active:
            telemetry.emit(lambda time: DoorbellRung(time, queue.number, value, queue.limit))
            if not fresh:  # for probes only: the stores of several producers may overtake each other
                text = f"doorbell {number}: {value:#x} announces no new packet, since {old} was announced before"
                telemetry.emit(lambda time: Lint(time, "doorbell-stale", text, rules.LEGACY_STALE))
        executor.after_doorbell()
