"""Memory that a program and the driver share: one sparse anonymous file, which the program maps by offset.

The `mmap` offset of an allocation is its offset in the file. A program's own mmap of the device therefore
maps the right pages."""

from __future__ import annotations

import mmap
import os
import threading
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from softcard.core.allocations import Allocator
from softcard.core.errors import NoHostMemory
from softcard.core.files import memory_file
from softcard.core.space import PAGE_SIZE
from softcard.core.words import align_up
from softcard.device.kfd.client import NAME

ARENA_BYTES: Final = 1 << 38
"""The size of the area for allocations; pages that are not written use no memory."""
FIRST: Final = 1 << 21
"""The smallest offset of an allocation: after the doorbells of the first agent."""
DOORBELLS_APART: Final = 1 << 46
"""The distance between two agents' doorbells in the file.

It is the distance between the driver's own offsets for agents. Libraries use the bits below it as the offset inside an
agent's doorbells.
"""
DOORBELL_BYTES: Final = 8192
_NORESERVE: Final = 0x4000


class SharedMemory:
    """The file of shared memory for one process and `agents` agents.

    `descriptor` is the file's descriptor. This process maps the file as a whole.
    """

    def __init__(self, agents: int) -> None:
        self.descriptor = memory_file(NAME, DOORBELLS_APART * (agents - 1) + ARENA_BYTES)
        self.inode = os.fstat(self.descriptor).st_ino
        """The inode that identifies a program's mappings of this file."""
        self._lock = threading.Lock()
        self._free = Allocator(FIRST, ARENA_BYTES - FIRST)
        try:
            self._map = self._mapped(0, ARENA_BYTES)
            pages = [self._map, *(self._mapped(DOORBELLS_APART * each, DOORBELL_BYTES) for each in range(1, agents))]
        except BaseException:
            os.close(self.descriptor)
            raise
        self.doorbells = [np.frombuffer(each, np.uint8, DOORBELL_BYTES) for each in pages]
        """The doorbells of each agent."""

    def _mapped(self, offset: int, size: int) -> mmap.mmap:
        try:
            return mmap.mmap(self.descriptor, size, flags=mmap.MAP_SHARED | _NORESERVE, offset=offset)
        except OSError as error:
            raise NoHostMemory(f"cannot share {size:#x} bytes with a program: {error.strerror}") from None

    def allocate(self, size: int) -> int:
        """Return the offset in the file of zeroed pages with at least `size` bytes.

        Raise `NoHostMemory` if the file has no free range of this size."""
        with self._lock:
            offset = self._free.allocate(align_up(size, PAGE_SIZE), PAGE_SIZE)
        if not offset:
            raise NoHostMemory(f"cannot share {size:#x} bytes with a program: all {ARENA_BYTES:#x} bytes are in use")
        return offset

    def free(self, offset: int, size: int) -> None:
        """Free pages that `allocate` returned, and the host's memory for them."""
        self._map.madvise(mmap.MADV_REMOVE, offset, align_up(size, PAGE_SIZE))
        with self._lock:
            self._free.free(offset)

    def holds(self, offset: int, size: int) -> bool:
        """Return True if `size` bytes at `offset` of the file are in the area for allocations, not for doorbells."""
        return offset >= FIRST and offset + size <= ARENA_BYTES

    def bytes(self, offset: int, size: int) -> npt.NDArray[np.uint8]:
        """Return `size` bytes at `offset` of the file as an array that shares memory with the file."""
        return np.frombuffer(self._map, np.uint8, size, offset)

    def close(self) -> None:
        """Close the file. Arrays that share memory with it remain valid."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
        self.descriptor = -1
        self._map, self.doorbells = _NOTHING, []


_NOTHING: Any = mmap.mmap(-1, PAGE_SIZE)
