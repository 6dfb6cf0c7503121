"""The queues of a device: amd_queue_t, ring and signals of a new one in guest memory; their end; their doorbells."""

from __future__ import annotations

import threading
from typing import Any, Final

import numpy as np

from understudy.core.errors import BeyondModel
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
from understudy.device.hsa.queues import PacketProcessor, Queue, QueueOwner
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
        executor = self._executor
        with executor.alone(), self.lock:
            number, slot = executor.created, next((n for n in range(DOORBELLS) if n not in self.doorbells), None)
            if slot is None:
                raise BeyondModel(f"queue {number}: there are {DOORBELLS} doorbells, all are in use")
            executor.created += 1
            queue = self._make(owner, number, slot, size, type, features, properties)
            self.doorbells[slot] = queue
            with executor.changed:
                executor.queues.append(queue)
        return queue

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
        address = memory.allocate(AmdQueue.size_bytes, QUEUE_ALIGNMENT, mtype=memory.fine_mtype)
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
        return Queue(owner, self._processor, number, slot, address, ring_address, size, ring, doorbell, inactive)

    def _new_ring(self, size: int) -> tuple[np.ndarray[Any, Any], int]:
        """A ring full of INVALID packets; legacy hardware sees it twice, one behind the other."""
        memory, size_bytes = self._memory, size * PACKET_BYTES
        if self._agent.is_legacy:
            raw = np.zeros(size_bytes + PAGE_SIZE, np.uint8)
            start = -int(raw.ctypes.data) % PAGE_SIZE
            ring = raw[start : start + size_bytes]
            address = memory.heap.map(ring, "ring", copies=2, type=memory.types.fine)
        else:
            address = memory.allocate(size_bytes, mtype=memory.fine_mtype)
            ring = memory.heap.array(address, size_bytes)
        ring[::PACKET_BYTES] = PacketType.INVALID
        return ring, address

    def destroy(self, queue: Queue) -> None:
        """See `HsaDevice.destroy_queue`."""
        memory, executor = self._memory, self._executor
        with executor.alone(), self.lock:
            executor.set_active(queue, False)
            queue.end()
            with executor.changed:
                executor.queues.remove(queue)
            self.doorbells.pop(queue.slot, None)
            self._scratch.free(queue)
            for signal in (queue.doorbell, queue.inactive_signal):
                queue.device.destroy_signal(signal)
            memory.free(queue.address)
            if self._agent.is_legacy:
                memory.heap.unmap(queue.ring_address)
            else:
                memory.free(queue.ring_address)

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
