"""The allocator of a device's guest addresses: blocks, rings, doorbells and mappings.

Arrays of the host are mapped without copying their bytes. A driver can choose the address of a mapping.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import numpy as np
from numpy.typing import DTypeLike, NDArray

from softcard.core.allocations import Allocator
from softcard.core.errors import BeyondModel, RuleError, WireError
from softcard.core.snapshot import Stateful
from softcard.core.space import PAGE_SIZE, Mappable, Ram, is_region
from softcard.core.words import align_up
from softcard.device.hsa.memory.segments import SMALL_APERTURE_BYTES, SMALL_APERTURES
from softcard.engine.gcn.memory import COARSE, Effects, GpuMemory, Mapped, MemoryType, Plain

MEMORY: Final = "device memory"
"""The default name of a block in reports of checks."""
LINE_BYTES: Final = 64
"""The size in bytes of a cache line; two blocks never share a line."""
SLAB_BYTES: Final = 1 << 16
"""The size in bytes of a slab, an area from which several small blocks are allocated."""


@dataclass(frozen=True, slots=True)
class Places:
    """The ranges of guest addresses from which the heap allocates.

    Blocks are allocated in the `arena`, which has 4 GiB at most. Blocks that do not fit there, and mappings, are
    allocated in the `windows`. On GFX7 and GFX8, the addresses of private memory count from the first byte of the
    arena."""

    arena: range
    windows: range


LARGE_PLACES: Final = Places(range(0x1_0000_0000, 0x2_0000_0000), range(0x40_0000_0000, 0x140_0000_0000))
HIGH_PLACES: Final = Places(range(1 << 47, (1 << 47) + (1 << 32)), range((1 << 47) + (1 << 38), (1 << 47) + (5 << 38)))
"""The address ranges of the heap for devices that also map host memory at the host's own addresses.

No host process has memory in these ranges.
"""
SMALL_PLACES: Final = Places(
    range(0x0100_0000, SMALL_APERTURES.shared_base),
    range(SMALL_APERTURES.private_base + SMALL_APERTURE_BYTES, 0x1_0000_0000),
)
"""The address ranges of the heap in the small machine model: those on both sides of the apertures.

Lower addresses are reserved, as in the kernel driver.
"""


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """An allocation or mapping until it is freed or unmapped.

    It has `size` bytes at each of the addresses in `places`; a mapping can have several addresses."""

    size: int
    places: tuple[int, ...]


class Heap(Stateful):
    """The allocator of guest addresses and guest memory.

    A block of a page or more has its own pages and is followed by an unmapped page, so that an access past its end
    faults. Smaller blocks share pages. Pages that were never written use no memory of the host.
    """

    STATE: ClassVar[tuple[str, ...]] = ("_near", "_space", "_slabs", "_blocks", "_windows", "gpu")

    def __init__(self, memory: GpuMemory, places: Places = LARGE_PLACES) -> None:
        self.gpu = memory
        self.base = places.arena.start
        self.margin = PAGE_SIZE
        """The size in bytes of the unused address range after the pages of a mapping."""
        self._lock = threading.RLock()
        """The lock that guards the tables of blocks.

        A thread must not hold it while it maps memory if that may wait for waves.
        """
        self._near, self._space = (Allocator(each.start, len(each)) for each in (places.arena, places.windows))
        self._slabs: list[Allocator] = []
        self._blocks: dict[int, Block] = {}
        self._windows: dict[int, Block] = {}

    def allocate(self, size: int, alignment: int = 64, type: MemoryType = COARSE, name: str = MEMORY) -> int:
        """Allocate `size` bytes filled with zeros and return their address; `alignment` is a power of two.

        Two blocks never share a 64-byte line. `name` is the block's name in reports of checks.
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
            raise BeyondModel(f"cannot allocate {size} bytes of device memory: no device addresses are left")
        self.gpu.map(address, ram, name="device memory", type=type)
        return address

    @property
    def spaces(self) -> tuple[Allocator, Allocator]:
        """The allocators of addresses in the arena and in the windows."""
        return self._near, self._space

    def is_shared(self, address: int) -> bool:
        """Return True if the block at `address` shares its pages, so that freeing it changes no mapping."""
        return self.size_of(address) < PAGE_SIZE

    def free(self, address: int) -> None:
        """Free the block at `address`; raise `RuleError` if no block begins there.

        Waves must not run during the call, unless the block `is_shared`.
        """
        block = self._blocks.pop(address, None)
        if block is None:
            raise RuleError(f"cannot free {address:#x}: no allocation begins at this address")
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
        """Return the size in bytes of the block that begins at `address`; 0 if none begins there."""
        block = self._blocks.get(address)
        return 0 if block is None else block.size

    def block(self, address: int) -> Block | None:
        """Return the allocation or mapping that contains `address`, or None.

        Each later allocation at the same address has a new `Block` object.
        """
        return self._blocks.get(address) or self._windows.get(address)

    def view(self, address: int, size: int) -> memoryview:
        """Return `size` bytes of guest memory at `address` as a memoryview; the bytes are not copied.

        Raise `AccessFault` unless the bytes are contiguous in this process.
        """
        found = self.gpu.plain(address, size)
        if found is None:
            self.gpu.check(address, size, "read")
            raise RuleError(f"cannot view {size} bytes at {address:#x}: they are not in one contiguous piece of RAM")
        return found.view[address - found.base : address - found.base + size]

    def array(self, address: int, count: int, dtype: DTypeLike = np.uint8) -> NDArray[np.generic]:
        """Return `count` elements of guest memory at `address` as a NumPy array; the bytes are not copied."""
        kind = np.dtype(dtype)
        return np.frombuffer(self.view(address, count * kind.itemsize), kind)

    def map(
        self,
        what: Mappable,
        name: str,
        writable: bool = True,
        copies: int = 1,
        type: MemoryType = COARSE,
        used: int | None = None,
        owner: str = "",
    ) -> int:
        """Map a buffer or region `copies` times in a row at an address that the heap chooses; return the address.

        `used` is the number of bytes that the caller requested. `owner` is the name of the component that has to
        unmap the buffer. Only checks use these two."""
        with self._lock:
            size = size_of(what)
            lead = 0
            if isinstance(what, np.ndarray):
                lead = int(what.ctypes.data) % PAGE_SIZE if copies == 1 else 0
            start = self._space.allocate(lead + align_up(copies * size, PAGE_SIZE) + self.margin, PAGE_SIZE)
            if not start:
                raise BeyondModel(f"cannot map {size} bytes of {name}: no device addresses are left")
        address = start + lead
        places = tuple(address + number * size for number in range(copies))
        self._place(places, what, name, writable, type)
        self._windows[address] = Block(size, places)
        return address

    def _place(self, places: tuple[int, ...], what: Mappable, name: str, writable: bool, type: MemoryType) -> None:
        """Map `what` into the waves' memory at each address in `places`."""
        for place in places:
            self.gpu.map(place, what, writable=writable, name=name, type=type)

    def unmap(self, address: int) -> None:
        """Unmap memory that `map` mapped; raise `RuleError` if no mapping begins at `address`."""
        block = self._windows.pop(address, None)
        if block is None:
            raise RuleError(f"cannot unmap {address:#x}: no mapping begins at this address")
        for place in block.places:
            self.gpu.unmap(place)
        with self._lock:
            self._space.free(address - address % PAGE_SIZE)

    def snapshot(self) -> object:
        """Return the state of the heap, including the contents of its blocks.

        The caller ensures that no packet is processed during the call."""
        with self._lock:
            return super().snapshot()

    def restore(self, state: object) -> None:
        """Return to a state that `snapshot` of this heap returned."""
        with self._lock:
            super().restore(state)


def size_of(what: Any) -> int:
    """Return the size in bytes of a buffer or region."""
    return what.size if is_region(what) else memoryview(what).nbytes


def checked_block(size: int, alignment: int) -> None:
    """Raise `WireError` if `size` or `alignment` is not valid for a block."""
    if size < 0 or alignment < 1 or alignment & alignment - 1:
        raise WireError(f"size is {size}, alignment is {alignment}, expected 0 bytes or more and a power of two")


# ---- external allocations --------------------------------------------------------------------------------------------
# External allocations: mappings at addresses that a driver chooses, and unmapped in pieces, as kernel drivers do.


class ExternalAllocations(Stateful):
    """The mappings at addresses that a driver has chosen.

    The ranges of these mappings are reserved in the allocators `spaces`, which then do not return addresses in
    them."""

    STATE = ("_mapped", "_reserved")

    def __init__(self, gpu: GpuMemory, spaces: tuple[Allocator, ...]) -> None:
        self._gpu = gpu
        self._spaces = spaces
        self._mapped: dict[int, Mapped] = {}
        self._reserved: dict[int, int] = {}
        """The ranges that were reserved in one of the allocators: the end of each range by its start."""

    def map(self, address: int, what: Mappable, name: str, writable: bool, type: MemoryType, replace: bool) -> None:
        """Map an array or region at a given address; see `HsaDevice.map_at`."""
        size = size_of(what)
        end = address + size
        if address < 0 or size < 1 or end > self._gpu.limit:
            raise RuleError(
                f"cannot map {name}, {size} bytes at {address:#x}: expected at least 1 byte at addresses below "
                f"{self._gpu.limit:#x}"
            )
        with self._gpu.pause.alone():
            there = self._gpu.between(address, end)
            for old in there:
                if not replace or self._mapped.get(old.base) is not old:
                    text = f"{name} at {address:#x}..{end:#x} overlaps {old.name} at {old.base:#x}..{old.end:#x}"
                    raise RuleError(text)
                _check_whole(old, address, end)
            self._reserve(address, end, name)
            new, pieces = self._gpu.replace(address, what, writable, name, type=type)
            self._note(there, [new, *pieces])

    def _note(self, gone: list[Mapped], new: list[Mapped]) -> None:
        for each in gone:
            del self._mapped[each.base]
        self._mapped.update((each.base, each) for each in new)

    def _reserve(self, address: int, end: int, name: str) -> None:
        """Reserve the addresses from `address` to `end` in the allocators, so that these do not return them.

        Raise `RuleError` if the range overlaps the device's own memory."""
        for space in self._spaces:
            at, stop = max(address, space.base), min(end, space.end)
            known = sorted((start, its) for start, its in self._reserved.items() if start < stop and at < its)
            for start, its in [*known, (stop, stop)]:
                if at < start and not space.reserve(at, start - at):
                    self._release(address, end)
                    raise RuleError(f"{name} at {address:#x}..{end:#x} overlaps the device's own memory")
                if at < start:
                    self._reserved[at] = start
                at = max(at, its)

    def _release(self, address: int, end: int) -> None:
        """Release the reserved ranges between `address` and `end` in which nothing is mapped any more."""
        for start, stop in list(self._reserved.items()):
            if start < end and address < stop and not self._gpu.between(start, stop):
                del self._reserved[start]
                next(space for space in self._spaces if space.base <= start < space.end).free(start)

    def unmap(self, address: int, size: int) -> None:
        """Unmap `size` bytes at `address`; see `HsaDevice.unmap_at`."""
        end = address + size
        with self._gpu.pause.alone():
            at, gone = address, []
            while at < end:
                found = self._gpu.find(at)
                if found is None or self._mapped.get(found.base) is not found:
                    raise RuleError(f"cannot unmap {at:#x}: nothing is mapped there")
                _check_whole(found, address, end)
                gone.append(found)
                at = found.end
            if gone:
                self._note(gone, self._gpu.cut(address, size))
                self._release(address, end)


def _check_whole(mapped: Mapped, start: int, end: int) -> None:
    """Raise `RuleError` for a region with side effects if only a part of it lies between `start` and `end`."""
    if isinstance(mapped, Effects) and not start <= mapped.base < mapped.end <= end:
        raise RuleError(f"{mapped.name} at {mapped.base:#x}..{mapped.end:#x} can only be unmapped as a whole")
