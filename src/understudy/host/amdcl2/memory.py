"""Device memory for AMD OpenCL 2.0 programs: guest addresses for host buffers, without copies.

Every buffer begins on a page of its own and is followed by a page where nothing is: an access past its end faults, at
the very byte. 32-bit programs get addresses below 4 GiB, 64-bit programs only ones above, so that code that loses the
upper half of an address faults too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from understudy.core.allocator import Allocator
from understudy.core.errors import WireError
from understudy.core.snapshot import Stateful
from understudy.core.space import PAGE_SIZE, Ram
from understudy.core.words import align_up
from understudy.engine.gcn.memory import GpuMemory

LOW: Final = (0x0001_0000, 0xFFE0_0000)
"""First address and bytes for 32-bit programs."""
HIGH: Final = (0x10_0000_0000, 1 << 36)
"""Likewise for 64-bit programs."""


class DeviceMemory(Stateful):
    """A `GpuMemory` and which `pages` of it are taken. Snapshots are for when no kernel runs."""

    STATE = ("gpu", "pages")

    def __init__(self, bits: int) -> None:
        self.gpu = GpuMemory()
        self.pages = Allocator(*(LOW if bits == 32 else HIGH))

    def map(self, buffer: Any, name: str, writable: bool = True) -> int:
        """The guest address at which `buffer` can be seen from now on; `WireError` where no room is left."""
        size = memoryview(buffer).nbytes if not isinstance(buffer, Ram) else buffer.size
        address = self.pages.allocate(align_up(size, PAGE_SIZE) + PAGE_SIZE, PAGE_SIZE)
        if not address:
            raise WireError(f"no room for {size} bytes of {name} in the device's address space")
        self.gpu.map(address, buffer, writable, name)
        return address

    def allocate(self, size: int, name: str) -> tuple[int, Ram]:
        """Zeroed memory of the device's own, in whole pages."""
        ram = Ram(align_up(max(size, 1), PAGE_SIZE))
        return self.map(ram, name), ram

    def release(self, address: int) -> None:
        """Take a buffer away again."""
        self.gpu.unmap(address)
        self.pages.free(address)


class Mappings:
    """Buffers that are mapped for one run, each once; `release` also does what was deferred, in order."""

    def __init__(self, memory: DeviceMemory) -> None:
        self.memory = memory
        self._by_place: dict[tuple[int, int], tuple[int, bool]] = {}
        self._addresses: list[int] = []
        self._deferred: list[Callable[[], None]] = []

    def array(self, array: np.ndarray, name: str) -> int:
        """The address of a NumPy array, shared without a copy; `WireError` where it is not contiguous or empty."""
        if not array.flags.c_contiguous:
            raise WireError(f"array for {name} must be contiguous")
        if not array.nbytes:
            raise WireError(f"array for {name} must not be empty")
        if array.dtype.hasobject:
            raise WireError(f"array for {name} must hold numbers, not Python objects")
        place = int(array.ctypes.data), array.nbytes
        known = self._by_place.get(place)
        if known is not None and known[1] == array.flags.writeable:
            return known[0]
        flat = array.reshape(-1).view(np.uint8)
        address = self.keep(self.memory.map(flat, name, array.flags.writeable))
        self._by_place[place] = address, array.flags.writeable
        return address

    def copy(self, data: bytes | bytearray, name: str) -> tuple[int, bytearray]:
        """The address of a copy of `data` in pages of its own, and the copy."""
        own = bytearray(data).ljust(align_up(len(data), PAGE_SIZE), b"\0")
        return self.keep(self.memory.map(own, name)), own

    def keep(self, address: int) -> int:
        """Release `address` at the end of the run."""
        self._addresses.append(address)
        return address

    def defer(self, action: Callable[[], None]) -> None:
        """Do something at the end of a run that went well."""
        self._deferred.append(action)

    def finish(self) -> None:
        """Do what was deferred."""
        for action in self._deferred:
            action()

    def release(self) -> None:
        """Take all buffers away again."""
        for address in self._addresses:
            self.memory.release(address)
        self._addresses.clear()
