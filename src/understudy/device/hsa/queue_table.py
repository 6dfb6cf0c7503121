"""The queues of a device: making and ending them, their doorbells, their private memory."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final

from understudy.core.errors import BeyondModel
from understudy.core.words import U32
from understudy.device.hsa import rules
from understudy.device.hsa.creation import new_queue, scratch_bytes, scratch_fields
from understudy.device.hsa.doorbell_encoding import limit_of
from understudy.device.hsa.doorbells import DOORBELLS
from understudy.device.hsa.events import DoorbellRung, Lint
from understudy.device.hsa.executor import Executor
from understudy.device.hsa.fast_path import Templates
from understudy.device.hsa.native_packets import Q
from understudy.device.hsa.queues import Queue
from understudy.device.hsa.records import AmdQueue, QueueFeature, QueueType
from understudy.engine.gcn.jit.engine import JitEngine
from understudy.engine.gcn.memory_type import Mtype
from understudy.isa.gcn.target import GFX9

if TYPE_CHECKING:
    from understudy.device.hsa.device import HsaDevice

SCRATCH_WAVES: Final = 512
"""Waves that dynamic private memory is for: more than run side by side here."""
_LIMIT: Final = Q["limit"]
_TMPRING_AT: Final = AmdQueue.offset_of("compute_tmpring_size")


class QueueTable:
    """Which queues a device has, behind the operations of `HsaDevice`. `doorbells`: the queue of each in use."""

    def __init__(self, device: HsaDevice, executor: Executor, lock: threading.RLock) -> None:
        self.doorbells: dict[int, Queue] = {}
        self._device = device
        self._executor = executor
        self._lock = lock
        self._level = device.agent.target.level

    def create(self, size: int, type: QueueType, features: QueueFeature, profiling: bool | None) -> Queue:
        """See `HsaDevice.create_queue`, which checks size and type."""
        device, executor = self._device, self._executor
        with executor.alone(), self._lock:
            number, slot = executor.created, next((n for n in range(DOORBELLS) if n not in self.doorbells), None)
            if slot is None:
                raise BeyondModel(f"queue {number}: there are {DOORBELLS} doorbells, all are in use")
            executor.created += 1
            timed = bool(device.settings.profiling if profiling is None else profiling)
            queue = new_queue(device, number, slot, size, type, features, timed)
            if device.settings.machine_code and device.settings.translates:
                engine = device.engine
                assert isinstance(engine, JitEngine)
                queue.templates = Templates(queue, engine, device.clock)
            self.doorbells[slot] = queue
            with executor.changed:
                executor.queues.append(queue)
        return queue

    def destroy(self, queue: Queue) -> None:
        """See `HsaDevice.destroy_queue`."""
        device, executor = self._device, self._executor
        with executor.alone(), self._lock:
            executor.set_active(queue, False)
            queue.end()
            with executor.changed:
                executor.queues.remove(queue)
            self.doorbells.pop(queue.slot, None)
            self._free_scratch(queue)
            for signal in (queue.doorbell, queue.inactive_signal):
                device.destroy_signal(signal)
            device.free(queue.address)
            if device.agent.is_legacy:
                device.heap.unmap(queue.ring_address)
            else:
                device.free(queue.ring_address)

    # ---- private memory ------------------------------------------------------------------------------------------

    def set_scratch(self, queue: Queue, lane_bytes: int, waves: int) -> None:
        """See `HsaDevice.set_scratch`."""
        device, at = self._device, queue.address + _TMPRING_AT
        self._free_scratch(queue)
        device.memory.write(at, scratch_fields(device, 0, 0, 0))
        size = scratch_bytes(lane_bytes, waves)
        if size:
            queue.scratch_block = device.allocate(size, mtype=Mtype.NC_NV)
            device.memory.write(at, scratch_fields(device, queue.scratch_block, lane_bytes, waves))

    def grow_scratch(self, queue: Queue, packet: bytes) -> bool:
        """See `HsaDevice.grow_scratch`."""
        wanted = int.from_bytes(packet[24:28], "little")
        if not self._device.settings.dynamic_scratch or scratch_bytes(wanted, SCRATCH_WAVES) > U32:
            return False
        with self._executor.alone():
            try:
                self.set_scratch(queue, wanted, SCRATCH_WAVES)
            except BeyondModel:  # there is no room for so much
                return False
        self._executor.tell()
        return True

    def _free_scratch(self, queue: Queue) -> None:
        if queue.scratch_block:
            self._device.free(queue.scratch_block)
            queue.scratch_block = 0

    # ---- doorbells -----------------------------------------------------------------------------------------------

    def ring(self, number: int, value: int) -> None:
        """Something was stored to doorbell `number`."""
        executor, telemetry, queue = self._executor, self._device.telemetry, self.doorbells.get(number)
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
        telemetry.emit(lambda time: DoorbellRung(time, queue.number, value, queue.limit))
        if not fresh and telemetry.listened:
            # For probes only: the stores of several producers may well pass each other.
            text = f"doorbell {number}: {value:#x} makes no packet known, they were up to {old}"
            telemetry.emit(lambda time: Lint(time, "doorbell-stale", text, rules.LEGACY_STALE))
        executor.after_doorbell()
