"""Guest memory: RAM without copies, memory-mapped registers, and the address space that holds them."""

from __future__ import annotations

import mmap
import os
import sys
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np

from understudy.core.errors import AccessFault, ModelBug, NoHostMemory
from understudy.core.memory_files import memory_file

PAGE_BITS = 12
PAGE_SIZE = 1 << PAGE_BITS


@dataclass(frozen=True, slots=True)
class Unit:
    """Who makes an access: `kind` as the interface numbers it, `index` within the kind."""

    kind: int
    index: int = 0


class Region(Protocol):
    """Something an address space can map. Offsets count bytes from the region's base.

    All three raise `AccessFault` (with `address` = the offset) for what the region refuses.
    """

    @property
    def size(self) -> int:
        """Bytes that it covers."""

    def read(self, offset: int, size: int, unit: Unit) -> bytes:
        """Return `size` bytes from `offset`."""

    def write(self, offset: int, data: bytes, unit: Unit) -> None:
        """Store `data` at `offset`."""

    def host_address(self, offset: int, unit: Unit) -> int | None:
        """Address in this process of the byte at `offset`, or None where accesses have effects."""


class Ram:
    """Plain memory, zero at first, backed lazily by the host; `view` and `array` share it without a copy.

    `NoHostMemory` where this process has no room for it. One unmapped-looking but owned page lies on each side, so that
    a whole-page mapping whose guest window starts or ends inside a page never leaves this process's memory.
    """

    __slots__ = ("_map", "base_host", "size", "view")

    def __init__(self, size: int) -> None:
        self.size = size
        rounded = -(-size // PAGE_SIZE) * PAGE_SIZE
        self._map = self._reserve(rounded + 2 * PAGE_SIZE)
        self.view = memoryview(self._map)[PAGE_SIZE : PAGE_SIZE + size]
        self.base_host = int(np.frombuffer(self.view, dtype=np.uint8).ctypes.data)

    def __repr__(self) -> str:
        return f"<RAM of {self.size:,} bytes>"

    def _reserve(self, size: int) -> mmap.mmap:
        """The host's memory for it, `size` bytes with both of its own pages."""
        return _anonymous(size)

    def clear(self) -> None:
        """Zero everything; the host address stays."""
        if sys.platform == "linux":
            self._map.madvise(mmap.MADV_DONTNEED)
        else:
            np.frombuffer(self.view, dtype=np.uint8)[:] = 0

    def close(self) -> None:
        """Give the memory back to the host; nothing is in it any more.

        Views that somebody still has stay valid, with what they show, and the host's memory goes with the last one.
        """
        self.view, self.size, self.base_host = memoryview(b""), 0, 0
        self._map = _NOTHING

    def read(self, offset: int, size: int, unit: Unit) -> bytes:
        """Return `size` bytes from `offset`."""
        self._check(offset, size, "read")
        return bytes(self.view[offset : offset + size])

    def write(self, offset: int, data: bytes, unit: Unit) -> None:
        """Store `data` at `offset`."""
        self._check(offset, len(data), "write")
        self.view[offset : offset + len(data)] = data

    def host_address(self, offset: int, unit: Unit) -> int | None:
        """Address in this process of the byte at `offset`; None outside."""
        return self.base_host + offset if 0 <= offset < self.size else None

    def _check(self, offset: int, size: int, access: str) -> None:
        if offset < 0 or size < 0 or offset + size > self.size:
            raise AccessFault(
                f"{access} of {size} bytes at offset {offset:#x} of a memory of {self.size:#x} bytes",
                address=offset,
                access=access,
            )


class SharedRam(Ram):
    """Memory that another process may have as well: it is a file without a name (Linux only).

    `descriptor` is the file, this object's own until it is closed. The first byte of the memory is `FILE_OFFSET` bytes
    into it, and nobody can make it shorter. `NoHostMemory` where there are no such files.
    """

    FILE_OFFSET: Final = PAGE_SIZE
    __slots__ = ("descriptor",)

    def _reserve(self, size: int) -> mmap.mmap:
        self.descriptor = memory_file("understudy device memory", size)
        try:
            return mmap.mmap(self.descriptor, size, flags=mmap.MAP_SHARED | _MAP_NORESERVE)
        except OSError as error:
            os.close(self.descriptor)
            raise _no_room(size, error) from error

    def clear(self) -> None:
        """Zero everything, in the other process too; the host address stays."""
        self._map.madvise(mmap.MADV_REMOVE)

    def close(self) -> None:
        """Give the memory back. It lives on where another process has it, and nothing here writes to it any more."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
        self.descriptor = -1
        super().close()


_MAP_NORESERVE: Final = 0x4000 if sys.platform == "linux" else 0
"""Of <sys/mman.h> (mmap(2)); Python's `mmap` names it since 3.13 only."""


def _anonymous(size: int) -> mmap.mmap:
    """Zeroed memory of this process alone; pages nobody writes cost nothing.

    Nor are they counted against what the host has: Linux would refuse `fork` to a process with a few large devices.
    """
    try:
        if sys.platform == "win32":
            return mmap.mmap(-1, size)
        return mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _MAP_NORESERVE)
    except OSError as error:
        raise _no_room(size, error) from error


def _no_room(size: int, error: OSError) -> NoHostMemory:
    return NoHostMemory(
        f"this process has no address space for {size:#x} bytes of device memory ({error.strerror}), expected room "
        "for it: close devices that are no longer used, drop views of their memory, or raise the limit (ulimit -v)"
    )


_NOTHING: Final = _anonymous(PAGE_SIZE)
"""What closed memories have in place of their own."""


@dataclass(frozen=True, slots=True)
class Mapping:
    """One region at its place."""

    base: int
    region: Region
    name: str

    @property
    def end(self) -> int:
        """First address behind the region."""
        return self.base + self.region.size


class AddressSpace:
    """Regions by base address; they may not overlap. Lookups cost one bisection."""

    def __init__(self) -> None:
        self._bases: list[int] = []
        self._maps: list[Mapping] = []

    def __iter__(self) -> Iterator[Mapping]:
        return iter(self._maps)

    def map(self, base: int, region: Region, name: str) -> Mapping:
        """Place `region` at `base`; a `ModelBug` if it would overlap another."""
        new = Mapping(base, region, name)
        for old in self._maps:
            if base < old.end and old.base < new.end:
                raise ModelBug(f"{name} at {base:#x}..{new.end:#x} overlaps {old.name} at {old.base:#x}..{old.end:#x}")
        index = bisect_right(self._bases, base)
        self._bases.insert(index, base)
        self._maps.insert(index, new)
        return new

    def unmap(self, base: int) -> Mapping:
        """Take out the region that starts at `base`."""
        index = self._bases.index(base)
        del self._bases[index]
        return self._maps.pop(index)

    def find(self, address: int, size: int = 1) -> Mapping | None:
        """The mapping that holds all of `address`..`address + size`, or None."""
        index = bisect_right(self._bases, address) - 1
        if index < 0:
            return None
        found = self._maps[index]
        return found if address + size <= found.end else None

    def read(self, address: int, size: int, unit: Unit) -> bytes:
        """Read `size` bytes inside one region; `AccessFault` with the guest address otherwise."""
        found = self._at(address, size, "read")
        return found.region.read(address - found.base, size, unit)

    def write(self, address: int, data: bytes, unit: Unit) -> None:
        """Write `data` inside one region; `AccessFault` with the guest address otherwise."""
        found = self._at(address, len(data), "write")
        found.region.write(address - found.base, data, unit)

    def _at(self, address: int, size: int, access: str) -> Mapping:
        found = self.find(address, size)
        if found is None:
            raise AccessFault(
                f"{access} of {size} bytes at {address:#x}: no memory there", address=address, access=access
            )
        return found
