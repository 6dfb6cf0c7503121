"""Memory of a device: blocks on demand, rings, doorbells, and arrays of the host mapped without copies."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import numpy as np

from understudy.core.allocator import Allocator
from understudy.core.errors import BeyondModel, RuleError, WireError
from understudy.core.snapshot import Stateful
from understudy.core.space import PAGE_SIZE, Ram
from understudy.core.words import align_up
from understudy.device.hsa.segments import SMALL_APERTURE_BYTES, SMALL_APERTURES
from understudy.engine.gcn.memory import GpuMemory, Plain
from understudy.engine.gcn.memory_type import COARSE, MemoryType

MEMORY: Final = "device memory"
"""What a block is called that the host's program allocated by itself."""
LINE_BYTES: Final = 64
"""Of a cache: blocks never share one."""
SLAB_BYTES: Final = 1 << 16
"""Small blocks are shared out from pieces of this size."""


@dataclass(frozen=True, slots=True)
class Places:
    """Which guest addresses are shared out.

    Blocks lie in the `arena`, from whose first byte GFX7 and GFX8 count private memory: it has 4 GiB at most. What is
    mapped by itself lies among the `windows`; so do blocks that find no other room.
    """

    arena: range
    windows: range


LARGE_PLACES: Final = Places(range(0x1_0000_0000, 0x2_0000_0000), range(0x40_0000_0000, 0x140_0000_0000))
HIGH_PLACES: Final = Places(range(1 << 47, (1 << 47) + (1 << 32)), range((1 << 47) + (1 << 38), (1 << 47) + (5 << 38)))
"""Where no process of the host has memory: for those who map at addresses of their own."""
SMALL_PLACES: Final = Places(
    range(0x0100_0000, SMALL_APERTURES.shared_base),
    range(SMALL_APERTURES.private_base + SMALL_APERTURE_BYTES, 0x1_0000_0000),
)
"""Both sides of the apertures; what lies below is reserved, as the kernel driver does."""


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """Something that lies at an address until it is freed or unmapped, of `size` bytes in each of its `places`."""

    size: int
    places: tuple[int, ...]


class Heap(Stateful):
    """Shares out guest addresses.

    A block of a page or more is memory of its own, and the page behind it is nobody's: accesses that run over its end
    fault. Smaller ones share pages. Pages that nobody writes cost nothing.
    """

    STATE: ClassVar[tuple[str, ...]] = ("_near", "_space", "_slabs", "_blocks", "_windows", "gpu")

    def __init__(self, memory: GpuMemory, places: Places = LARGE_PLACES) -> None:
        self.gpu = memory
        self.base = places.arena.start
        self._lock = threading.RLock()
        """Guards who has which addresses; nobody maps while holding it, who may have to wait for waves."""
        self._near, self._space = (Allocator(each.start, len(each)) for each in (places.arena, places.windows))
        self._slabs: list[Allocator] = []
        self._blocks: dict[int, Block] = {}
        self._windows: dict[int, Block] = {}

    def allocate(self, size: int, alignment: int = 64, type: MemoryType = COARSE, name: str = MEMORY) -> int:
        """Address of `size` zeroed bytes; `alignment` a power of two. Blocks never share a 64-byte line.

        `name` is what checks call them.
        """
        checked_block(size, alignment)
        size, alignment = max(size, 1) + LINE_BYTES - 1 & -LINE_BYTES, max(alignment, LINE_BYTES)
        if size < PAGE_SIZE and alignment < PAGE_SIZE:
            address = self._small(size, alignment, type)
        else:
            size = align_up(size, PAGE_SIZE)
            address = self._large(size, max(alignment, PAGE_SIZE), type)
        self._blocks[address] = Block(size, (address,))
        return address

    def _small(self, size: int, alignment: int, type: MemoryType) -> int:
        while True:
            with self._lock:
                for slab in self._slabs:
                    found = self.gpu.find(slab.base)
                    if not isinstance(found, Plain) or found.type is not type:
                        continue
                    address = slab.allocate(size, alignment)
                    if address:
                        found.view[address - found.base : address - found.base + size] = bytes(size)
                        return address
            slab = Allocator(self._large(SLAB_BYTES, SLAB_BYTES, type), SLAB_BYTES)
            with self._lock:
                self._slabs.append(slab)

    def _large(self, size: int, alignment: int, type: MemoryType) -> int:
        ram = Ram(size)
        with self._lock:
            found = (space.allocate(size + PAGE_SIZE, alignment) for space in (self._near, self._space))
            address = next(filter(None, found), 0)
        if not address:
            raise BeyondModel(f"{size} bytes of device memory: no guest addresses are left")
        self.gpu.map(address, ram, name="device memory", type=type)
        return address

    @property
    def spaces(self) -> tuple[Allocator, Allocator]:
        """What shares out addresses."""
        return self._near, self._space

    def is_shared(self, address: int) -> bool:
        """Whether the block that begins there shares its pages, so that freeing it changes no mapping."""
        return self.size_of(address) < PAGE_SIZE

    def free(self, address: int) -> None:
        """Give a block back; `RuleError` where none begins there. Waves may not run if it `is_shared` with nobody."""
        block = self._blocks.pop(address, None)
        if block is None:
            raise RuleError(f"no block begins at {address:#x} that could be freed")
        if block.size >= PAGE_SIZE:
            self.gpu.unmap(address)
        with self._lock:
            if block.size >= PAGE_SIZE:
                (self._near if address < self._space.base else self._space).free(address)
                return
            for slab in self._slabs:
                if slab.base <= address < slab.end:
                    slab.free(address)

    def size_of(self, address: int) -> int:
        """Bytes of the block that begins there; 0 where none does."""
        block = self._blocks.get(address)
        return 0 if block is None else block.size

    def block(self, address: int) -> Block | None:
        """What was allocated or mapped at an address: another one as soon as it is something else."""
        return self._blocks.get(address) or self._windows.get(address)

    def view(self, address: int, size: int) -> memoryview:
        """Guest memory as this process sees it, without a copy; an `AccessFault` where it is not one stretch."""
        found = self.gpu.plain(address, size)
        if found is None:
            self.gpu.check(address, size, "read")
            raise RuleError(f"{size} bytes at {address:#x} are not one stretch of plain memory")
        return found.view[address - found.base : address - found.base + size]

    def array(self, address: int, count: int, dtype: Any = np.uint8) -> np.ndarray[Any, Any]:
        """Likewise, as an array."""
        kind = np.dtype(dtype)
        return np.frombuffer(self.view(address, count * kind.itemsize), kind)

    def map(
        self,
        what: Any,
        name: str,
        writable: bool = True,
        copies: int = 1,
        type: MemoryType = COARSE,
        used: int | None = None,
        owner: str = "",
    ) -> int:
        """Put a buffer or region at an address of its own, `copies` times one behind the other.

        `used`: bytes of it that somebody asked for; `owner`: who has to unmap it. Both matter to checks only.
        """
        with self._lock:
            size = size_of(what)
            lead = 0
            if hasattr(what, "ctypes"):
                lead = int(what.ctypes.data) % PAGE_SIZE if copies == 1 else 0
            start = self._space.allocate(lead + align_up(copies * size, PAGE_SIZE) + PAGE_SIZE, PAGE_SIZE)
            if not start:
                raise BeyondModel(f"{size} bytes of {name}: no guest addresses are left")
        address = start + lead
        places = tuple(address + number * size for number in range(copies))
        self._place(places, what, name, writable, type)
        self._windows[address] = Block(size, places)
        return address

    def _place(self, places: tuple[int, ...], what: Any, name: str, writable: bool, type: MemoryType) -> None:
        """Have waves see it there."""
        for place in places:
            self.gpu.map(place, what, writable=writable, name=name, type=type)

    def unmap(self, address: int) -> None:
        """Take out what `map` put there; `RuleError` where it did not."""
        block = self._windows.pop(address, None)
        if block is None:
            raise RuleError(f"nothing was mapped at {address:#x} that could be unmapped")
        for place in block.places:
            self.gpu.unmap(place)
        with self._lock:
            self._space.free(address - address % PAGE_SIZE)

    def snapshot(self) -> Any:
        """The state, contents included, while no packet is processed."""
        with self._lock:
            return super().snapshot()

    def restore(self, state: Any) -> None:
        """Go back to a state of this heap."""
        with self._lock:
            super().restore(state)


def size_of(what: Any) -> int:
    """Bytes of a buffer or region."""
    return int(what.size if hasattr(what, "host_address") or not hasattr(what, "nbytes") else what.nbytes)


def checked_block(size: int, alignment: int) -> None:
    """A `WireError` for what is no size or no alignment."""
    if size < 0 or alignment < 1 or alignment & alignment - 1:
        raise WireError(f"{size} bytes aligned to {alignment}, expected a size and a power of two")
