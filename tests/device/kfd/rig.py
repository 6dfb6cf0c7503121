"""A program without ROCm: it calls the driver from this process, whose own memory is the program's."""

from __future__ import annotations

import ctypes
import mmap
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from softcard.core.record import Record
from softcard.device.hsa.queues.records import AmdQueue, AmdSignal, HsaQueue, SignalKind
from softcard.device.kfd import ioctls
from softcard.device.kfd.client import ProcessMemory
from softcard.device.kfd.device import KfdDevice
from softcard.device.kfd.ioctls import AllocFlags, Number
from softcard.device.kfd.shared_memory import SharedMemory

PAGE = 4096
TIMEOUT_S = 120.0
MAP_FIXED = 0x10
libc: Any = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long)


class ThisProcess(ProcessMemory):
    """This process as a program: of its memory, `pages` become shared as the shim does it, and nothing else."""

    def __init__(self, shared: SharedMemory) -> None:
        super().__init__(os.getpid())
        self.shared = shared
        self.asked: list[tuple[int, int, bool]] = []
        self.is_able = True
        self.pages: list[Pages] = []

    def share(self, address: int, size: int, offset: int, protection: int, *, is_quiet: bool) -> bool:
        self.asked.append((address, size, is_quiet))
        if not self.is_able or not any(each.holds(address, size) for each in self.pages):
            return False
        self.shared.bytes(offset, size)[:] = np.frombuffer(self.read(address, size), np.uint8)
        place = libc.mmap(address, size, protection, mmap.MAP_SHARED | MAP_FIXED, self.shared.descriptor, offset)
        return bool(place == address)


class Pages:
    """Whole pages of this process, zeros."""

    def __init__(self, size: int) -> None:
        self._map = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self.bytes = np.frombuffer(self._map, np.uint8)
        self.address = int(self.bytes.ctypes.data)

    def holds(self, address: int, size: int) -> bool:
        return self.address <= address and address + size <= self.address + self.bytes.size


class Program:
    """What a program does with the driver."""

    def __init__(self, device: KfdDevice) -> None:
        self.device = device
        made: list[ThisProcess] = []

        def client(shared: SharedMemory) -> ThisProcess:
            made.append(ThisProcess(shared))
            return made[0]

        self.number, self.process = device.open(client, os.getpid())
        self.client = made[0]
        self.gpu_id = device.nodes[0].gpu_id

    def call(self, number: int, argument: Record) -> Any:
        """An ioctl of the driver; its argument as it comes back."""
        return type(argument).parse(self.raw(number, argument.pack()))

    def raw(self, number: int, data: bytes, kind: int = ioctls.TYPE, minor: int = 0) -> bytes:
        request = 3 << 30 | len(data) << 16 | kind << 8 | number
        return self.device.ioctl(self.number, request, data, minor)

    def own(self, size: int) -> Pages:
        """Memory of the program."""
        made = Pages(size)
        self.client.pages.append(made)
        return made

    def allocate(
        self,
        address: int,
        size: int,
        flags: int = AllocFlags.GTT,
        offset: int = 0,
        gpu_id: int = 0,
        writable: bool = True,
    ) -> Any:
        flags |= AllocFlags.WRITABLE * writable
        asked = ioctls.AllocMemoryOfGpu(
            va_addr=address, size=size, mmap_offset=offset, gpu_id=gpu_id or self.gpu_id, flags=flags
        )
        return self.call(Number.ALLOC_MEMORY_OF_GPU, asked)

    def map(self, handle: int, number: int = Number.MAP_MEMORY_TO_GPU, gpu_ids: tuple[int, ...] = ()) -> int:
        ids = np.array(gpu_ids or (self.gpu_id,), np.uint32)
        asked = ioctls.MapMemory(handle=handle, device_ids_array_ptr=int(ids.ctypes.data), n_devices=len(ids))
        return int(self.call(number, asked).n_success)

    def unmap(self, handle: int) -> int:
        return self.map(handle, Number.UNMAP_MEMORY_FROM_GPU)

    def shared(self, size: int, flags: int = AllocFlags.USERPTR) -> Pages:
        """Pages of the program that the agent sees at the same address, as libhsakmt's own memory."""
        pages = self.own(size)
        found = self.allocate(pages.address, size, flags, pages.address)
        assert self.map(found.handle) == 1
        return pages

    def queue(self, kind: int, ring: Pages, size: int, pointers: int, gpu_id: int = 0) -> Any:
        return self.call(
            Number.CREATE_QUEUE,
            ioctls.CreateQueue(
                ring_base_address=ring.address, write_pointer_address=pointers + 8, read_pointer_address=pointers,
                ring_size=size, gpu_id=gpu_id or self.gpu_id, queue_type=kind,
            ),
        )  # fmt: skip

    def doorbell(self, queue: Any) -> Any:
        """The word of a queue's doorbell, as the program has it mapped."""
        legacy = self.device.nodes[0].is_legacy
        at = 4 * queue.queue_id if legacy else queue.doorbell_offset
        width = 4 if legacy else 8
        return self.client.shared.doorbells[0][at : at + width].view(np.uint32 if legacy else np.uint64)

    def aql_queue(self, packets: int = 16) -> tuple[Any, Pages, Any]:
        """A queue of AQL packets: what CREATE_QUEUE said, ring and amd_queue_t."""
        legacy = self.device.nodes[0].is_legacy
        ring_bytes = max(64 * packets, PAGE)
        ring = self.own(2 * ring_bytes) if legacy else self.own(ring_bytes)
        if legacy:
            found = self.allocate(
                ring.address, 2 * ring_bytes, AllocFlags.USERPTR | AllocFlags.AQL_QUEUE_MEM, ring.address
            )
        else:
            found = self.allocate(ring.address, ring_bytes, AllocFlags.USERPTR, ring.address)
        self.map(found.handle)
        ring.bytes[::64] = 1
        header = self.shared(2 * PAGE)
        record = AmdQueue(
            hsa_queue=HsaQueue(
                type=0, features=1, base_address=ring.address, doorbell_signal=0, size=ring_bytes // 64, id=0
            ),
            read_dispatch_id_field_base_byte_offset=AmdQueue.offset_of("read_dispatch_id"),
        )
        header.bytes[: AmdQueue.size_bytes] = np.frombuffer(record.pack(), np.uint8)
        made = self.queue(2, ring, ring_bytes, header.address + AmdQueue.offset_of("read_dispatch_id"))
        return made, ring, header

    def signal(self, value: int, mailbox: int = 0, event: int = 0) -> tuple[int, Any]:
        """A signal in shared memory: its handle, and the word of its value."""
        pages = self.shared(PAGE)
        record = AmdSignal(kind=SignalKind.USER, value=value, event_mailbox_ptr=mailbox, event_id=event)
        pages.bytes[: AmdSignal.size_bytes] = np.frombuffer(record.pack(), np.uint8)
        return pages.address, pages.bytes[8:16].view(np.int64)


def eventually(true: Callable[[], bool]) -> None:
    """Wait for what threads of the device bring about."""
    deadline = time.monotonic() + TIMEOUT_S
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.001)


@contextmanager
def program(*agents: str, **options: Any) -> Iterator[Program]:
    """A program that has opened the driver of these agents."""
    device = KfdDevice(agents or ("gfx900",), **options)
    try:
        yield Program(device)
    finally:
        device.close()
