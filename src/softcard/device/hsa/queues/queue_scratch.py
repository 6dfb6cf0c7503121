"""Private memory of queues: its description in amd_queue_t, and its allocation."""

from __future__ import annotations

import struct
from dataclasses import replace
from typing import Final

from softcard.core.errors import BeyondModel
from softcard.core.words import U16, U32, align_up
from softcard.device.hsa.executor import Executor
from softcard.device.hsa.launch.first_state import Scratch, Surroundings
from softcard.device.hsa.memory.checked_heap import WORD, CheckedHeap
from softcard.device.hsa.memory.device_memory import CHECKED_WAVES, DeviceMemory
from softcard.device.hsa.queues.aql_queue import Queue
from softcard.device.hsa.queues.records import AmdQueue
from softcard.engine.gcn.api import WAVE_GRANULE, wave_scratch_bytes
from softcard.isa.gcn.state import LANES
from softcard.isa.gcn.target import GFX9

SCRATCH_WAVES: Final = 512
"""The number of waves for which private memory is allocated when a packet needs it.

It is more than the number of waves that run concurrently in the emulator.
"""
MOST_WAVES: Final = 0xFFF
"""The maximum number of waves that the field compute_tmpring_size can express."""
MOST_BOUNDED: Final = 4
"""The maximum number of bounds-checked private memories of an adopted queue at a time.

Each one is for another number of bytes per work-item.
"""
_TMPRING_AT: Final = AmdQueue.offset_of("compute_tmpring_size")


class QueueScratch:
    """The allocator of private memory for the queues of one device.

    With `is_dynamic`, it also allocates private memory when a packet needs more than its queue has.
    """

    def __init__(self, memory: DeviceMemory, executor: Executor, level: int, is_dynamic: bool) -> None:
        self._memory = memory
        self._executor = executor
        self._level = level
        self._is_dynamic = is_dynamic

    def set(self, queue: Queue, lane_bytes: int, waves: int) -> None:
        """Set the private memory of a queue; see `HsaDevice.set_scratch`."""
        memory, at = self._memory, queue.address + _TMPRING_AT
        self.free(queue)
        memory.gpu.write(at, self._fields(0, 0, 0, 0))
        if lane_bytes and waves:
            queue.scratch_block, size = memory.private.allocate(lane_bytes, waves)
            memory.gpu.write(at, self._fields(queue.scratch_block, lane_bytes, waves, size))

    def grow(self, queue: Queue, packet: bytes) -> bool:
        """Allocate the private memory that a kernel dispatch packet needs and its queue lacks.

        Return True if the memory was allocated."""
        wanted = int.from_bytes(packet[24:28], "little")
        if not self._is_dynamic or wave_scratch_bytes(wanted) * SCRATCH_WAVES > U32:
            return False
        with self._executor.alone():
            try:
                self.set(queue, wanted, SCRATCH_WAVES)
            except BeyondModel:  # there is no room for so much
                return False
        self._executor.notify()
        return True

    def bounded(self, queue: Queue, around: Surroundings, lane_bytes: int) -> Surroundings:
        """Return a copy of `around` that has private memory of exactly `lane_bytes` per work-item, with checked bounds.

        A driver gives a queue one block for all waves and all kernels. In such a block, an access past the end of a
        work-item's private memory accesses the memory of another wave, or faults. Only waves access private memory,
        so checked memory can replace the driver's block. Return `around` itself if bounds are not checked."""
        heap, given = self._memory.heap, around.scratch
        if not isinstance(heap, CheckedHeap) or given is None or given.address in heap.guard.strides:
            return around
        lane_bytes = align_up(lane_bytes, WORD)
        found = queue.bounded.pop(lane_bytes, None)
        if found is None:
            if len(queue.bounded) == MOST_BOUNDED:
                self._free_bounded(queue, next(iter(queue.bounded)))
            address, size = heap.allocate_private(lane_bytes, CHECKED_WAVES)
            found = Scratch(address, size, 0 if self._level == GFX9 else heap.base)
        queue.bounded[lane_bytes] = found
        _, word1, _, word3 = around.v_sharp
        words = found.address & U32, word1 & ~U16 | found.address >> 32 & U16, min(found.size_bytes, U32), word3
        return replace(around, scratch=found, descriptor=words)

    def _free_bounded(self, queue: Queue, lane_bytes: int) -> None:
        heap = self._memory.heap
        assert isinstance(heap, CheckedHeap)
        heap.free_private(queue.bounded.pop(lane_bytes).address)
        queue.forget_launches()

    def free(self, queue: Queue) -> None:
        """Free the private memory that was allocated for `queue`."""
        for lane_bytes in tuple(queue.bounded):
            self._free_bounded(queue, lane_bytes)
        if queue.scratch_block:
            self._memory.private.free(queue.scratch_block)
            queue.scratch_block = 0

    def _fields(self, address: int, lane_bytes: int, waves: int, size: int) -> bytes:
        """Return the new bytes of amd_queue_t from the field scratch_resource_descriptor to scratch_workitem_byte_size.

        They describe private memory of `size` bytes at `address`."""
        wave_bytes = wave_scratch_bytes(lane_bytes)
        descriptor, location, tmpring = (0, 0, 0, 0), 0, 0
        if address:
            descriptor = Scratch(address, size).resource_descriptor(self._level)
            location = address - self._memory.state.hidden_private_base
            tmpring = min(waves, MOST_WAVES) | wave_bytes // WAVE_GRANULE << 12
        per_lane = align_up(lane_bytes, WAVE_GRANULE // LANES)
        return struct.pack("<I4IQQI", tmpring & U32, *descriptor, location, size, per_lane)
