"""Memory that a program and the driver both have: one sparse file without a name, which the program maps by offset.

What `mmap` is told of an allocation is its offset in the file, so that a program's own mmap of the device gives it the
right pages.
"""

from __future__ import annotations

import mmap
import os
import threading
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from understudy.core.allocator import Allocator
from understudy.core.errors import NoHostMemory
from understudy.core.memory_files import memory_file
from understudy.core.space import PAGE_SIZE
from understudy.core.words import align_up
from understudy.device.kfd.client import NAME

ARENA_BYTES: Final = 1 << 38
"""What allocations share; pages that nobody writes cost nothing."""
FIRST: Final = 1 << 21
"""Where the first allocation may lie: behind the doorbells of the first agent."""
DOORBELLS_APART: Final = 1 << 46
"""From one agent's doorbells to the next one's: as far as the driver's own offsets of agents are apart, since libraries
take the bits below for the place inside an agent's doorbells."""
DOORBELL_BYTES: Final = 8192
_NORESERVE: Final = 0x4000


class SharedMemory:
    """The file of one process and of `agents` agents. `descriptor` is the file, mapped here as a whole."""

    def __init__(self, agents: int) -> None:
        self.descriptor = memory_file(NAME, DOORBELLS_APART * (agents - 1) + ARENA_BYTES)
        self._lock = threading.Lock()
        self._free = Allocator(FIRST, ARENA_BYTES - FIRST)
        try:
            self._map = self._mapped(0, ARENA_BYTES)
            pages = [self._map, *(self._mapped(DOORBELLS_APART * each, DOORBELL_BYTES) for each in range(1, agents))]
        except BaseException:
            os.close(self.descriptor)
            raise
        self.doorbells = [np.frombuffer(each, np.uint8, DOORBELL_BYTES) for each in pages]
        """Those of each agent."""

    def _mapped(self, offset: int, size: int) -> mmap.mmap:
        try:
            return mmap.mmap(self.descriptor, size, flags=mmap.MAP_SHARED | _NORESERVE, offset=offset)
        except OSError as error:
            raise NoHostMemory(f"{size:#x} bytes to share with a program: {error.strerror}") from None

    def allocate(self, size: int) -> int:
        """Offset of whole pages with at least `size` bytes, zeros; `NoHostMemory` where there are none left."""
        with self._lock:
            offset = self._free.allocate(align_up(size, PAGE_SIZE), PAGE_SIZE)
        if not offset:
            raise NoHostMemory(f"{size:#x} bytes to share with a program: all {ARENA_BYTES:#x} are in use")
        return offset

    def free(self, offset: int, size: int) -> None:
        """Give back what `allocate` gave: the host's memory too."""
        self._map.madvise(mmap.MADV_REMOVE, offset, align_up(size, PAGE_SIZE))
        with self._lock:
            self._free.free(offset)

    def holds(self, offset: int, size: int) -> bool:
        """Whether these bytes are of what allocations share: doorbells are not."""
        return offset >= FIRST and offset + size <= ARENA_BYTES

    def bytes(self, offset: int, size: int) -> npt.NDArray[np.uint8]:
        """These bytes, shared."""
        return np.frombuffer(self._map, np.uint8, size, offset)

    def close(self) -> None:
        """Give the file back; arrays of it that somebody still has stay valid."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
        self.descriptor = -1
        self._map, self.doorbells = _NOTHING, []


_NOTHING: Any = mmap.mmap(-1, PAGE_SIZE)
