"""Private memory of queues: what amd_queue_t says of it, and who allocates it."""

from __future__ import annotations

import struct
from typing import Final

from understudy.core.errors import BeyondModel
from understudy.core.words import U32, align_up
from understudy.device.hsa.checked_heap import CheckedHeap
from understudy.device.hsa.device_memory import DeviceMemory
from understudy.device.hsa.executor import Executor
from understudy.device.hsa.launch.first_state import Scratch
from understudy.device.hsa.queues import Queue
from understudy.device.hsa.records import AmdQueue
from understudy.engine.gcn.api import WAVE_GRANULE, wave_scratch_bytes
from understudy.engine.gcn.memory_type import Mtype
from understudy.isa.gcn.state import LANES

SCRATCH_WAVES: Final = 512
"""Waves that dynamic private memory is for: more than run side by side here."""
CHECKED_WAVES: Final = 64
"""The same where their bounds are looked after."""
MOST_WAVES: Final = 0xFFF
"""What compute_tmpring_size can say."""
_TMPRING_AT: Final = AmdQueue.offset_of("compute_tmpring_size")


class QueueScratch:
    """Gives the queues of one device private memory. With `is_dynamic`, also where a packet finds too little."""

    def __init__(self, memory: DeviceMemory, executor: Executor, level: int, is_dynamic: bool) -> None:
        self._memory = memory
        self._executor = executor
        self._level = level
        self._is_dynamic = is_dynamic

    def set(self, queue: Queue, lane_bytes: int, waves: int) -> None:
        """See `HsaDevice.set_scratch`."""
        memory, at = self._memory, queue.address + _TMPRING_AT
        self.free(queue)
        memory.gpu.write(at, self._fields(0, 0, 0, 0))
        size = wave_scratch_bytes(lane_bytes) * waves
        if size and isinstance(memory.heap, CheckedHeap):
            queue.scratch_block, size = memory.heap.allocate_private(lane_bytes, min(waves, CHECKED_WAVES))
        elif size:
            queue.scratch_block = memory.allocate(size, mtype=Mtype.NC_NV)
        if size:
            memory.gpu.write(at, self._fields(queue.scratch_block, lane_bytes, waves, size))

    def grow(self, queue: Queue, packet: bytes) -> bool:
        """Private memory for a kernel dispatch packet that found too little; whether there is some now."""
        wanted = int.from_bytes(packet[24:28], "little")
        if not self._is_dynamic or wave_scratch_bytes(wanted) * SCRATCH_WAVES > U32:
            return False
        with self._executor.alone():
            try:
                self.set(queue, wanted, SCRATCH_WAVES)
            except BeyondModel:  # there is no room for so much
                return False
        self._executor.tell()
        return True

    def free(self, queue: Queue) -> None:
        """Give back what was allocated for a queue."""
        if queue.scratch_block:
            heap = self._memory.heap
            (heap.free_private if isinstance(heap, CheckedHeap) else self._memory.free)(queue.scratch_block)
            queue.scratch_block = 0

    def _fields(self, address: int, lane_bytes: int, waves: int, size: int) -> bytes:
        """amd_queue_t from compute_tmpring_size to scratch_workitem_byte_size, for `size` bytes at `address`."""
        wave_bytes = wave_scratch_bytes(lane_bytes)
        descriptor, location, tmpring = (0, 0, 0, 0), 0, 0
        if address:
            descriptor = Scratch(address, size).resource_descriptor(self._level)
            location = address - self._memory.state.hidden_private_base
            tmpring = min(waves, MOST_WAVES) | wave_bytes // WAVE_GRANULE << 12
        per_lane = align_up(lane_bytes, WAVE_GRANULE // LANES)
        return struct.pack("<I4IQQI", tmpring & U32, *descriptor, location, size, per_lane)
