"""Device memory: the host's allocations and adopted buffers, each a region at a device address.

Regions start at multiples of 4 KiB and are followed by an unmapped page, so that a kernel that accesses
memory past the end of a buffer faults. Every access must lie in one region; other accesses raise
`AccessFault` with the address.

A region can share its bytes with a kernel's arrays, a snapshot or the host's own buffer. The device never
changes shared bytes: before its first write, the region gets its own copy."""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from softcard.core.errors import AccessFault, WireError
from softcard.core.snapshot import Stateful
from softcard.core.space import HostBytes, bytes_of_buffer

ALIGNMENT: Final = 4096
"""The alignment of regions in bytes.

It is that of the run-time's echo platform, and a multiple of the 64 bytes that Arrow recommends.
"""
GUARD: Final = 4096
MEMORY_BASE: Final = 0x1_0000_0000
"""The first device address. It is above 4 GiB, so that an address that loses its upper half causes a fault."""
MEMORY_BYTES: Final = 64 << 30
"""The limit in bytes of all allocations; only pages that were written use memory of the host."""
HOST_ALIGNMENT: Final = 64


@dataclass(slots=True)
class Region:
    """An allocation of `size` bytes at device address `base`.

    If `shared` is True, the bytes are copied before the next write. If `pinned` is True, they belong to the host as
    well, and are never copied.
    """

    base: int
    size: int
    view: memoryview
    shared: bool = False
    pinned: bool = False

    @property
    def end(self) -> int:
        """The first address after the region."""
        return self.base + self.size


@dataclass(frozen=True, slots=True)
class MemoryState:
    """The contents of device memory in a snapshot; each region is (address, bytes, True if pinned)."""

    regions: tuple[tuple[int, memoryview, bool], ...]


class DeviceMemory(Stateful):
    """Device memory: its regions by address. Any thread may call the methods.

    The addresses that it returns depend only on the sequence of calls. `size_bytes` limits the total size of
    allocations, including guard pages.
    """

    def __init__(self, base: int = MEMORY_BASE, size_bytes: int = MEMORY_BYTES) -> None:
        self.base = base
        self.size_bytes = size_bytes
        self._bases: list[int] = []
        self._regions: list[Region] = []
        self._lock = threading.RLock()

    def __iter__(self) -> Iterator[Region]:
        return iter(tuple(self._regions))

    @property
    def allocated_bytes(self) -> int:
        """The number of bytes in all regions."""
        return sum(region.size for region in self)

    def allocate(self, size: int) -> int:
        """Return the device address of `size` zeroed bytes; `size` may be 0.

        Raise `AccessFault` if they do not fit into device memory.
        """
        if size < 0:
            raise WireError(f"the size of an allocation is {size} bytes, expected 0 or more")
        with self._lock:
            base = self._place(size)
            return self._enter(Region(base, size, _zeroed(size, base)))

    def check_room(self, size: int) -> None:
        """Raise `AccessFault` unless `size` bytes could be allocated."""
        with self._lock:
            self._place(size)

    def adopt(self, buffer: HostBytes, *, pinned: bool = False) -> int:
        """Return a device address for a buffer of the host; the bytes are not copied.

        By default, the device never changes the host's bytes: its first write makes a copy, and results are visible
        only by reading device memory. A `pinned` buffer is written in place, by host and device at any time.
        """
        view = bytes_of_buffer(buffer)
        if pinned and view.readonly:
            raise WireError("a pinned buffer must be writable, since the device writes to it")
        with self._lock:
            return self._enter(Region(self._place(len(view)), len(view), view, not pinned, pinned))

    def free(self, address: int) -> None:
        """Free the region that starts at `address`; raise `AccessFault` if none starts there."""
        with self._lock:
            index = bisect_right(self._bases, address) - 1
            if index < 0 or self._bases[index] != address:
                raise AccessFault(
                    f"cannot free device address {address:#x}: no allocation starts there",
                    address=address,
                    access="free",
                )
            del self._bases[index], self._regions[index]

    def find(self, address: int) -> Region | None:
        """Return the region that contains `address`, or the empty region that starts at `address`.

        Return None if there is no such region."""
        with self._lock:
            index = bisect_right(self._bases, address) - 1
            found = self._regions[index] if index >= 0 else None
        return found if found is not None and (address < found.end or address == found.base) else None

    def extent(self, address: int) -> int | None:
        """Return the number of bytes from `address` to the end of the allocation that contains it.

        Return None if no allocation contains it.
        """
        region = self.find(address)
        return None if region is None else region.end - address

    def view(self, address: int, size: int) -> memoryview:
        """Return a read-only view of `size` bytes at `address`; later writes do not change it."""
        with self._lock:
            region = self._at(address, size, "read")
            region.shared = not region.pinned
            return region.view[address - region.base :][:size]

    def writable(self, address: int, size: int) -> memoryview:
        """Return a writable view of `size` bytes at `address`.

        The caller must write the bytes before any other call: a later `view` or `snapshot` shares them."""
        with self._lock:
            region = self._at(address, size, "write")
            if region.shared:
                region.view, region.shared = _copy(region.view), False
            return region.view[address - region.base :][:size]

    def read(self, address: int, size: int) -> bytes:
        """Return a copy of `size` bytes at `address`."""
        with self._lock:
            region = self._at(address, size, "read")
            return bytes(region.view[address - region.base :][:size])

    def write(self, address: int, data: HostBytes) -> None:
        """Store the buffer `data` at `address`."""
        view = bytes_of_buffer(data)
        with self._lock:
            region = self._at(address, len(view), "write")
            if region.shared and len(view) == region.size:  # all bytes are overwritten: no copy is needed
                region.view, region.shared = _zeroed(region.size), False
            self.writable(address, len(view))[:] = view

    def clear(self) -> None:
        """Free all regions."""
        with self._lock:
            self._bases.clear()
            self._regions.clear()

    def snapshot(self) -> MemoryState:
        """Return the state of all regions.

        The bytes of pinned regions are copied. Other regions share their bytes with the snapshot until their next
        write."""
        with self._lock:
            kept = []
            for region in self._regions:
                region.shared = not region.pinned
                kept.append((region.base, _copy(region.view) if region.pinned else region.view, region.pinned))
            return MemoryState(tuple(kept))

    def restore(self, state: object) -> None:
        """Return to a state that `snapshot` returned.

        A region that was pinned in the snapshot and is still pinned keeps the host's buffer."""
        assert isinstance(state, MemoryState)
        with self._lock:
            pinned = {region.base: region for region in self._regions if region.pinned}
            self._regions = []
            for base, view, was_pinned in state.regions:
                old = pinned.get(base)
                if was_pinned and old is not None and old.size == len(view):
                    old.view[:] = view
                    self._regions.append(old)
                else:
                    self._regions.append(Region(base, len(view), view, shared=True))
            self._bases = [region.base for region in self._regions]

    def _place(self, size: int) -> int:
        """Return the lowest aligned address where `size` bytes and a guard page fit."""
        at = self.base
        for region in self._regions:
            if at + _span(size) <= region.base:
                return at
            at = region.base + _span(region.size)
        if at + _span(size) > self.base + self.size_bytes:
            raise AccessFault(
                f"cannot allocate {size} bytes: the {self.size_bytes:#x} bytes of device memory have no room for them",
                address=at,
                access="allocate",
            )
        return at

    def _enter(self, region: Region) -> int:
        index = bisect_right(self._bases, region.base)
        self._bases.insert(index, region.base)
        self._regions.insert(index, region)
        return region.base

    def _at(self, address: int, size: int, access: str) -> Region:
        region = self.find(address)
        if size < 0 or region is None or address + size > region.end:
            held = "no allocation contains this address"
            if region is not None:
                held = f"only {region.end - address} bytes are allocated there"
            raise AccessFault(f"{access} of {size} bytes at {address:#x}: {held}", address=address, access=access)
        return region


class WritableMemory:
    """The view of device memory through which a kernel writes; the bytes that `view` returns are writable."""

    def __init__(self, memory: DeviceMemory) -> None:
        self.extent = memory.extent
        self.view = memory.writable


def _span(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT + GUARD


def _zeroed(size: int, address: int = 0) -> memoryview:
    """Return `size` zero bytes whose pages use no memory until they are written.

    Raise `AccessFault` if the host has too little memory; `address` is the device address in this error."""
    try:
        room = np.zeros(size + HOST_ALIGNMENT, np.uint8)
    except (MemoryError, ValueError):  # ValueError: more than any array can have
        raise AccessFault(
            f"cannot allocate {size} bytes: the host has not enough memory", address=address, access="allocate"
        ) from None
    start = -int(room.ctypes.data) % HOST_ALIGNMENT
    return room[start : start + size].data


def _copy(view: memoryview) -> memoryview:
    copy = _zeroed(len(view))
    copy[:] = view
    return copy
