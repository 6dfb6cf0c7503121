"""Memory of a device: blocks on demand, rings, doorbells, and arrays of the host mapped without copies."""

from __future__ import annotations

import threading
from typing import Any, Final

import numpy as np

from understudy.core.allocator import Allocator
from understudy.core.errors import BeyondModel, RuleError, WireError
from understudy.core.space import PAGE_SIZE, Ram
from understudy.core.words import align_up
from understudy.engine.gcn.memory import GpuMemory

ARENA_BASE: Final = 0x1_0000_0000
"""Blocks begin here: what GFX7 and GFX8 can count private memory from."""
ARENA_BYTES: Final = 1 << 32
WINDOW_BASE: Final = 0x40_0000_0000
WINDOW_BYTES: Final = 1 << 40
"""What is mapped by itself lies here, with a page that nobody has behind each; so do blocks that find no other room."""
SLAB_BYTES: Final = 1 << 16
"""Small blocks are shared out from pieces of this size."""


class Heap:
    """Shares out guest addresses.

    A block of a page or more is memory of its own, and the page behind it is nobody's: accesses that run over its end
    fault. Smaller ones share pages. Pages that nobody writes cost nothing.
    """

    def __init__(self, memory: GpuMemory) -> None:
        self.memory = memory
        self._lock = threading.RLock()
        self._near = Allocator(ARENA_BASE, ARENA_BYTES)
        self._space = Allocator(WINDOW_BASE, WINDOW_BYTES)
        self._slabs: list[Allocator] = []
        self._windows: dict[int, tuple[int, ...]] = {}
        self._sizes: dict[int, int] = {}

    def allocate(self, size: int, alignment: int = 64) -> int:
        """Address of `size` zeroed bytes; `alignment` a power of two. Blocks never share a 64-byte line."""
        if size < 0 or alignment < 1 or alignment & alignment - 1:
            raise WireError(f"{size} bytes aligned to {alignment}, expected a size and a power of two")
        size, alignment = align_up(max(size, 1), 64), max(alignment, 64)
        with self._lock:
            if size < PAGE_SIZE and alignment < PAGE_SIZE:
                address = self._small(size, alignment)
            else:
                size = align_up(size, PAGE_SIZE)
                address = self._large(size, max(alignment, PAGE_SIZE))
            self._sizes[address] = size
        return address

    def _small(self, size: int, alignment: int) -> int:
        for slab in self._slabs:
            address = slab.allocate(size, alignment)
            if address:
                self.view(address, size)[:] = bytes(size)
                return address
        self._slabs.append(Allocator(self._large(SLAB_BYTES, SLAB_BYTES), SLAB_BYTES))
        return self._slabs[-1].allocate(size, alignment)

    def _large(self, size: int, alignment: int) -> int:
        for space in (self._near, self._space):
            address = space.allocate(size + PAGE_SIZE, alignment)
            if address:
                self.memory.map(address, Ram(size), name="device memory")
                return address
        raise BeyondModel(f"{size} bytes of device memory: no guest addresses are left")

    def is_shared(self, address: int) -> bool:
        """Whether the block that begins there shares its pages, so that freeing it changes no mapping."""
        return self._sizes.get(address, 0) < PAGE_SIZE

    def free(self, address: int) -> None:
        """Give a block back; `RuleError` where none begins there. Waves may not run if it `is_shared` with nobody."""
        with self._lock:
            size = self._sizes.pop(address, None)
            if size is None:
                raise RuleError(f"no block begins at {address:#x} that could be freed")
            if size >= PAGE_SIZE:
                self.memory.unmap(address)
                (self._near if address < WINDOW_BASE else self._space).free(address)
                return
            for slab in self._slabs:
                if slab.base <= address < slab.end:
                    slab.free(address)

    def size_of(self, address: int) -> int:
        """Bytes of the block that begins there; 0 where none does."""
        return self._sizes.get(address, 0)

    def view(self, address: int, size: int) -> memoryview:
        """Guest memory as this process sees it, without a copy; an `AccessFault` where it is not one stretch."""
        found = self.memory.plain(address, size)
        if found is None:
            self.memory.check(address, size, "read")
            raise RuleError(f"{size} bytes at {address:#x} are not one stretch of plain memory")
        return found.view[address - found.base : address - found.base + size]

    def array(self, address: int, count: int, dtype: Any = np.uint8) -> np.ndarray[Any, Any]:
        """Likewise, as an array."""
        kind = np.dtype(dtype)
        return np.frombuffer(self.view(address, count * kind.itemsize), kind)

    def map(self, what: Any, name: str, writable: bool = True, copies: int = 1) -> int:
        """Put a buffer or region at an address of its own, `copies` times one behind the other."""
        with self._lock:
            size = what.size if hasattr(what, "host_address") or not hasattr(what, "nbytes") else what.nbytes
            lead = 0
            if hasattr(what, "ctypes"):
                lead = int(what.ctypes.data) % PAGE_SIZE if copies == 1 else 0
            start = self._space.allocate(lead + align_up(copies * size, PAGE_SIZE) + PAGE_SIZE, PAGE_SIZE)
            if not start:
                raise BeyondModel(f"{size} bytes of {name}: no guest addresses are left")
            address = start + lead
            places = tuple(address + number * size for number in range(copies))
            for place in places:
                self.memory.map(place, what, writable=writable, name=name)
            self._windows[address] = places
        return address

    def unmap(self, address: int) -> None:
        """Take out what `map` put there; `RuleError` where it did not."""
        with self._lock:
            places = self._windows.pop(address, None)
            if places is None:
                raise RuleError(f"nothing was mapped at {address:#x} that could be unmapped")
            for place in places:
                self.memory.unmap(place)
            self._space.free(address - address % PAGE_SIZE)
