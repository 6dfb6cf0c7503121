"""Device memory: what the host allocates, copies and shares, at device addresses, one region for each allocation.

Regions start at multiples of 4 KiB and have an unused page behind them, so that a kernel that runs past a buffer meets
nothing. Every access must lie in one region; what does not is an `AccessFault` with the address.

Bytes that somebody else looks at too (a kernel's arrays, a snapshot, the host's own buffer) are never changed under
them: the first write after that gives the region a copy of its own.
"""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from understudy.core.errors import AccessFault, WireError
from understudy.core.snapshot import Stateful

ALIGNMENT: Final = 4096
"""Bytes; what the run-time's echo platform aligns to, and a multiple of the 64 that Arrow recommends."""
GUARD: Final = 4096
MEMORY_BASE: Final = 0x1_0000_0000
"""First device address: above 4 GiB, so that a lost upper half of an address shows."""
MEMORY_BYTES: Final = 64 << 30
"""Room for allocations; the machine's own memory is used only by what is written."""
HOST_ALIGNMENT: Final = 64


@dataclass(slots=True)
class Region:
    """One allocation of `size` bytes at device address `base`.

    A `shared` region is copied before it is written. A `pinned` one never is: it belongs to the host as well.
    """

    base: int
    size: int
    view: memoryview
    shared: bool = False
    pinned: bool = False

    @property
    def end(self) -> int:
        """First address behind it."""
        return self.base + self.size


@dataclass(frozen=True, slots=True)
class MemoryState:
    """The regions of a moment: (address, bytes, whether pinned)."""

    regions: tuple[tuple[int, memoryview, bool], ...]


class DeviceMemory(Stateful):
    """Regions by device address. Any thread may call; addresses handed out depend on the calls only.

    `size_bytes` bounds what may be allocated, guard pages included.
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
        """Bytes in all regions."""
        return sum(region.size for region in self)

    def allocate(self, size: int) -> int:
        """Device address of `size` zeroed bytes (0 is possible); `AccessFault` if no such room is left."""
        if size < 0:
            raise WireError(f"allocation of {size} bytes, expected 0 or more")
        with self._lock:
            base = self._place(size)
            return self._enter(Region(base, size, _zeroed(size, base)))

    def check_room(self, size: int) -> None:
        """`AccessFault` unless `size` bytes could be allocated."""
        with self._lock:
            self._place(size)

    def adopt(self, buffer: Any, *, pinned: bool = False) -> int:
        """Device address of a buffer of the host's, without a copy.

        The host's bytes stay as they are: the first write on the device's side makes a copy, and results come back only
        by reading device memory. A `pinned` buffer is written in place, by both sides at any time.
        """
        view = memoryview(buffer).cast("B")
        if pinned and view.readonly:
            raise WireError("a pinned buffer is written in place, expected one that is writable")
        with self._lock:
            return self._enter(Region(self._place(len(view)), len(view), view, not pinned, pinned))

    def free(self, address: int) -> None:
        """Give back the region that starts at `address`; `AccessFault` if none does."""
        with self._lock:
            index = bisect_right(self._bases, address) - 1
            if index < 0 or self._bases[index] != address:
                raise AccessFault(
                    f"free of device address {address:#x}, expected one where an allocation starts",
                    address=address,
                    access="free",
                )
            del self._bases[index], self._regions[index]

    def find(self, address: int) -> Region | None:
        """The region that holds `address`, or that starts there and has no bytes at all."""
        with self._lock:
            index = bisect_right(self._bases, address) - 1
            found = self._regions[index] if index >= 0 else None
        return found if found is not None and (address < found.end or address == found.base) else None

    def extent(self, address: int) -> int | None:
        """Bytes from `address` to the end of the allocation that holds it; None where no allocation is."""
        region = self.find(address)
        return None if region is None else region.end - address

    def view(self, address: int, size: int) -> memoryview:
        """`size` bytes at `address` without a copy, to be read: they stay as they are whatever is written later."""
        with self._lock:
            region = self._at(address, size, "read")
            region.shared = not region.pinned
            return region.view[address - region.base :][:size]

    def writable(self, address: int, size: int) -> memoryview:
        """`size` bytes at `address` without a copy, to be written at once."""
        with self._lock:
            region = self._at(address, size, "write")
            if region.shared:
                region.view, region.shared = _copy(region.view), False
            return region.view[address - region.base :][:size]

    def read(self, address: int, size: int) -> bytes:
        """A copy of `size` bytes at `address`."""
        with self._lock:
            region = self._at(address, size, "read")
            return bytes(region.view[address - region.base :][:size])

    def write(self, address: int, data: Any) -> None:
        """Store the buffer `data` at `address`."""
        view = memoryview(data).cast("B")
        with self._lock:
            region = self._at(address, len(view), "write")
            if region.shared and len(view) == region.size:  # nothing of the old bytes is left: no need to copy them
                region.view, region.shared = _zeroed(region.size), False
            self.writable(address, len(view))[:] = view

    def clear(self) -> None:
        """Free everything."""
        with self._lock:
            self._bases.clear()
            self._regions.clear()

    def snapshot(self) -> MemoryState:
        """All regions as they are now; only pinned ones cost a copy."""
        with self._lock:
            kept = []
            for region in self._regions:
                region.shared = not region.pinned
                kept.append((region.base, _copy(region.view) if region.pinned else region.view, region.pinned))
            return MemoryState(tuple(kept))

    def restore(self, state: MemoryState) -> None:
        """Go back to a state that `snapshot` gave. What was pinned then and still is keeps its place in the host."""
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
        """The lowest aligned address where `size` bytes and a guard page fit."""
        at = self.base
        for region in self._regions:
            if at + _span(size) <= region.base:
                return at
            at = region.base + _span(region.size)
        if at + _span(size) > self.base + self.size_bytes:
            raise AccessFault(
                f"allocation of {size} bytes: no such room is left in the {self.size_bytes:#x} bytes of device memory",
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
            held = f"{region.end - address} are allocated there" if region is not None else "nothing is allocated there"
            raise AccessFault(f"{access} of {size} bytes at {address:#x}: {held}", address=address, access=access)
        return region


class WritableMemory:
    """Device memory as a kernel's writer sees it: the bytes it looks at are those it will change."""

    def __init__(self, memory: DeviceMemory) -> None:
        self.extent = memory.extent
        self.view = memory.writable


def _span(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT + GUARD


def _zeroed(size: int, address: int = 0) -> memoryview:
    """Zeros whose pages cost nothing until they are written."""
    try:
        room = np.zeros(size + HOST_ALIGNMENT, np.uint8)
    except (MemoryError, ValueError):  # ValueError: more than any array can have
        raise AccessFault(
            f"allocation of {size} bytes: this machine has no memory for it", address=address, access="allocate"
        ) from None
    start = -int(room.ctypes.data) % HOST_ALIGNMENT
    return room[start : start + size].data


def _copy(view: memoryview) -> memoryview:
    copy = _zeroed(len(view))
    copy[:] = view
    return copy
