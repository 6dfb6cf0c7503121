"""The queues of a device: amd_queue_t, ring and signals of a new one in guest memory; their end; their doorbells."""

from __future__ import annotations

import threading
from typing import Any, Final

import numpy as np

from understudy.core.errors import BeyondModel, RuleError, WireError
from understudy.core.space import PAGE_SIZE
from understudy.core.telemetry import Telemetry
from understudy.device.hsa import rules
from understudy.device.hsa.agents import Agent
from understudy.device.hsa.device_memory import DeviceMemory
from understudy.device.hsa.doorbell_encoding import limit_of
from understudy.device.hsa.doorbells import DOORBELL_BYTES, DOORBELLS, DoorbellPage
from understudy.device.hsa.events import DoorbellRung, Lint
from understudy.device.hsa.executor import Executor
from understudy.device.hsa.native_packets import Q
from understudy.device.hsa.packets import PACKET_BYTES, PacketType
from understudy.device.hsa.queue_scratch import QueueScratch
from understudy.device.hsa.queues import MAX_SIZE, MIN_SIZE, PacketProcessor, Queue, QueueOwner
from understudy.device.hsa.records import (
    QUEUE_ALIGNMENT,
    AmdQueue,
    AmdSignal,
    HsaQueue,
    QueueFeature,
    QueueProperties,
    QueueType,
    SignalKind,
)
from understudy.isa.gcn.target import GFX9

_LIMIT: Final = Q["limit"]


class QueueTable:
    """Which queues a device has. `doorbells`: the queue of each in use, which lie at `doorbell_base`."""

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
        """Guards what queues there are."""
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
        """A queue of `owner`, which has checked size and type."""
        with self.lock:
            number, slot = self._executor.created, self._free_slot()
            queue = self._make(owner, number, slot, size, type, features, properties)
            self._enter(queue)
        return queue

    def adopt(self, owner: QueueOwner, address: int, slot: int | None, size: int | None) -> Queue:
        """See `HsaDevice.adopt_queue`."""
        executor = self._executor
        with self.lock:
            slot = self._free_slot() if slot is None else slot
            if not 0 <= slot < DOORBELLS:
                raise WireError(f"doorbell {slot}, expected 0 to {DOORBELLS - 1}")
            if slot in self.doorbells:
                raise RuleError(f"doorbell {slot} is that of queue {self.doorbells[slot].number}")
            ring, ring_address, size = self._found_ring(address, size)
            queue = Queue(owner, self._processor, executor.created, slot, address, ring_address, size, ring)
            self._enter(queue)
        return queue

    def _free_slot(self) -> int:
        slot = next((n for n in range(DOORBELLS) if n not in self.doorbells), None)
        if slot is None:
            raise BeyondModel(f"queue {self._executor.created}: there are {DOORBELLS} doorbells, all are in use")
        return slot

    def _enter(self, queue: Queue) -> None:
        """A queue has been made: its packets are processed from now on."""
        self.doorbells[queue.slot] = queue
        with self._executor.changed:
            self._executor.created += 1
            self._executor.queues.append(queue)

    def _found_ring(self, address: int, size: int | None) -> tuple[np.ndarray[Any, Any], int, int]:
        """The ring that the amd_queue_t at an address names, where it lies, and its packets."""
        gpu, size_bytes = self._memory.gpu, AmdQueue.size_bytes
        if address % QUEUE_ALIGNMENT:
            text = f"amd_queue_t at {address:#x}, expected a multiple of {QUEUE_ALIGNMENT}"
            raise RuleError(text, rule=rules.QUEUE_ALIGNMENT)
        if address >> 32 != address + size_bytes - 1 >> 32:
            raise RuleError(f"amd_queue_t at {address:#x} spans a 4 GiB boundary", rule=rules.QUEUE_4_GIB)
        its = AmdQueue.parse(gpu.read(address, size_bytes)).hsa_queue
        size = its.size if size is None else size
        if size & size - 1 or not MIN_SIZE <= size <= MAX_SIZE:
            raise WireError(f"a queue of {size} packets, expected a power of two from {MIN_SIZE} to {MAX_SIZE}")
        ring = its.base_address
        if ring % PACKET_BYTES:
            raise RuleError(f"a ring at {ring:#x}, expected a multiple of {PACKET_BYTES}", rule=rules.PACKET_SIZE)
        size_bytes = size * PACKET_BYTES
        plain = gpu.plain(ring, size_bytes, store=True)
        if plain is None:
            gpu.check(ring, size_bytes, "write")
            raise BeyondModel(f"the ring of {size_bytes} bytes at {ring:#x} is not one stretch of plain memory")
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
        """Queue `number`, with doorbell `slot`."""
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

    def _new_ring(self, size: int) -> tuple[np.ndarray[Any, Any], int]:
        """A ring full of INVALID packets; legacy hardware sees it twice, one behind the other."""
        memory, size_bytes = self._memory, size * PACKET_BYTES
        if self._agent.is_legacy:
            raw = np.zeros(size_bytes + PAGE_SIZE, np.uint8)
            start = -int(raw.ctypes.data) % PAGE_SIZE
            ring = raw[start : start + size_bytes]
            address = memory.heap.map(ring, "ring", copies=2, type=memory.types.fine)
        else:
            address = memory.allocate(size_bytes, mtype=memory.fine_mtype, name="ring")
            ring = memory.heap.array(address, size_bytes)
        ring[::PACKET_BYTES] = PacketType.INVALID
        return ring, address

    def destroy(self, queue: Queue) -> None:
        """See `HsaDevice.destroy_queue`."""
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
        """An adopted queue: a packet of it that runs is ended, whatever other queues do."""
        executor = self._executor
        queue.watch.stopped = "its queue was destroyed"
        with self.lock:
            executor.withdraw(queue)
            self.doorbells.pop(queue.slot, None)
        self._scratch.free(queue)

    # ---- doorbells -----------------------------------------------------------------------------------------------

    def ring(self, number: int, value: int) -> None:
        """Something was stored to doorbell `number`."""
        executor, telemetry, queue = self._executor, self._telemetry, self.doorbells.get(number)
        if queue is None:
            telemetry.lint("doorbell-nobody", f"doorbell {number} belongs to no queue", rules.DOORBELL_NOTIFIES)
            return
        words = queue.words
        with executor.lock:
            old, read = words[_LIMIT], queue.load_read_index()
            limit = limit_of(value, self._level, read, queue.size)
            fresh = old < limit and (self._level == GFX9 or limit <= read + queue.size)
            if fresh:
                words[_LIMIT] = limit
        if telemetry.probes.active:
            telemetry.emit(lambda time: DoorbellRung(time, queue.number, value, queue.limit))
            if not fresh:  # for probes only: the stores of several producers may well pass each other
                text = f"doorbell {number}: {value:#x} makes no packet known, they were up to {old}"
                telemetry.emit(lambda time: Lint(time, "doorbell-stale", text, rules.LEGACY_STALE))
        executor.after_doorbell()
