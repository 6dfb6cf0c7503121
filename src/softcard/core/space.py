"""Guest memory: RAM without copies, memory-mapped registers, and the address space that holds them."""

from __future__ import annotations

import ctypes
import mmap
import os
import sys
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeAlias, TypeGuard

import numpy as np
import numpy.typing as npt

from softcard.core.errors import AccessFault, ModelBug, NoHostMemory
from softcard.core.files import memory_file

PAGE_BITS = 12
PAGE_SIZE = 1 << PAGE_BITS


@dataclass(frozen=True, slots=True)
class Unit:
    """The unit (such as a hart or DMA engine) that makes an access.

    `kind` is the interface's number for this kind of unit. `index` is the unit's number among all units of that
    kind."""

    kind: int
    index: int = 0


class Region(Protocol):
    """The interface of a range of memory or registers that an address space can map. Offsets count bytes from its base.

    All three methods raise `AccessFault` (with `address` = the offset) for accesses that the region rejects.
    """

    @property
    def size(self) -> int:
        """The size in bytes."""

    def read(self, offset: int, size: int, unit: Unit) -> bytes:
        """Return `size` bytes from `offset`."""

    def write(self, offset: int, data: bytes, unit: Unit) -> None:
        """Store `data` at `offset`."""

    def host_address(self, offset: int, unit: Unit) -> int | None:
        """Return the address in this process of the byte at `offset`, or None if accesses have side effects."""


class Buffer(Protocol):
    """The interface of an object that exposes its memory, such as bytes: `collections.abc.Buffer` of Python 3.12."""

    def __buffer__(self, flags: int, /) -> memoryview:
        """Return a view of the memory."""


HostBytes: TypeAlias = Buffer | npt.NDArray[np.generic]
"""The type of a contiguous buffer of the host: bytes, a memoryview, a NumPy array."""
Mappable: TypeAlias = Buffer | npt.NDArray[np.generic] | Region
"""The type of memory that a device can map.

It is a contiguous buffer, such as a NumPy array, or a region, such as a `Ram`.
"""


def bytes_of_buffer(data: HostBytes) -> memoryview:
    """Return a view of the bytes of a contiguous buffer, without copying them."""
    buffer: Any = data
    return memoryview(buffer).cast("B")


def is_region(what: Mappable) -> TypeGuard[Region]:
    """Return True if `what` is a region, and not a buffer."""
    return hasattr(what, "read") and hasattr(what, "host_address")


class Ram:
    """Plain memory, initially zero, which the host allocates lazily. `view` and `array` access it without copying.

    Raise `NoHostMemory` if this process has too little free address space. An unused host page precedes the
    memory, and another one follows it. Thus a window that starts or ends inside a page can be mapped in whole
    pages, without access to other memory of this process."""

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
        """Return host memory of `size` bytes, including an unused page before the memory and one after it."""
        return _anonymous(size)

    def clear(self) -> None:
        """Set all bytes to zero; the host address does not change."""
        if sys.platform == "linux":
            self._map.madvise(mmap.MADV_DONTNEED)
        else:
            np.frombuffer(self.view, dtype=np.uint8)[:] = 0

    def close(self) -> None:
        """Return the memory to the host and lose its contents.

        Existing views remain valid, with their contents; the host frees the memory with the last view.
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
        """Return the address in this process of the byte at `offset`; None for an offset outside of the memory."""
        return self.base_host + offset if 0 <= offset < self.size else None

    def _check(self, offset: int, size: int, access: str) -> None:
        if offset < 0 or size < 0 or offset + size > self.size:
            raise AccessFault(
                f"{access} of {size} bytes at offset {offset:#x} is outside of a memory of {self.size:#x} bytes",
                address=offset,
                access=access,
            )


LARGE: Final = 256 << 10
"""The size in bytes from which on `lazy_zeros` allocates an array with mmap.

The C library also maps large arrays and unmaps them when they are freed. But after a program first frees such an array,
the C library takes later ones from its heap, where they are zeroed by writing and remain allocated.
"""


def lazy_zeros(count: int, dtype: npt.DTypeLike = np.uint8) -> npt.NDArray[Any]:
    """Return an array of zeros whose pages use no memory until they are written; they are freed with the array."""
    size = count * np.dtype(dtype).itemsize
    return np.zeros(count, dtype) if size < LARGE else np.frombuffer(Ram(size).view, dtype)


class SharedRam(Ram):
    """Memory that another process can map as well: an anonymous file (Linux only).

    `descriptor` is the file, owned by this object until it is closed. The first byte of the memory is `FILE_OFFSET`
    bytes into the file, whose size is sealed. Raise `NoHostMemory` if the system has no such files.

    Memory that a subclass reserves in addition (shadow memory of checks) stays private to this process.
    """

    FILE_OFFSET: Final = PAGE_SIZE
    __slots__ = ("descriptor",)

    def _reserve(self, size: int) -> mmap.mmap:
        shared = self._shared_bytes
        self.descriptor = memory_file("softcard device memory", shared)
        try:
            if size == shared:
                return mmap.mmap(self.descriptor, size, flags=mmap.MAP_SHARED | _MAP_NORESERVE)
            reserved = _anonymous(size)
            _map_over(reserved, self.descriptor, shared)
            return reserved
        except (OSError, NoHostMemory) as error:
            os.close(self.descriptor)
            raise (error if isinstance(error, NoHostMemory) else _no_room(size, error)) from error

    @property
    def _shared_bytes(self) -> int:
        """The size of the file in bytes: the memory in whole pages, and one unused page before and one after it."""
        return -(-self.size // PAGE_SIZE) * PAGE_SIZE + 2 * PAGE_SIZE

    def clear(self) -> None:
        """Set all bytes to zero, in the other process as well; the host address does not change."""
        shared = self._shared_bytes
        self._map.madvise(mmap.MADV_REMOVE, 0, shared)
        if len(self._map) > shared:
            self._map.madvise(mmap.MADV_DONTNEED, shared)

    def close(self) -> None:
        """Return the memory to the host.

        The memory remains allocated while another process maps it, but this process does not write to it any more."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
        self.descriptor = -1
        super().close()


_MAP_FIXED: Final = 0x10
_MAP_NORESERVE: Final = 0x4000 if sys.platform == "linux" else 0
"""The flag MAP_NORESERVE of mmap(2), which Python's `mmap` defines only since 3.13."""


def _anonymous(size: int) -> mmap.mmap:
    """Return zeroed private memory whose pages use no host memory until they are accessed.

    The pages do not count towards the host's limit on committed memory. If they did, Linux would refuse to fork a
    process that has a few large devices."""
    try:
        if sys.platform == "win32":
            return mmap.mmap(-1, size)
        return mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _MAP_NORESERVE)
    except OSError as error:
        raise _no_room(size, error) from error


def _map_over(reserved: mmap.mmap, descriptor: int, size: int) -> None:
    """Map the first `size` bytes of a file over the start of the memory `reserved`.

    Python's `mmap` cannot do this, because it cannot map a file at a given address."""
    import ctypes  # only checked devices with shared memory need it

    found: Any = ctypes.CDLL(None, use_errno=True).mmap
    found.restype = ctypes.c_void_p
    found.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long)
    at = int(np.frombuffer(reserved, dtype=np.uint8).ctypes.data)
    flags = mmap.MAP_SHARED | _MAP_FIXED | _MAP_NORESERVE
    if found(at, size, mmap.PROT_READ | mmap.PROT_WRITE, flags, descriptor, 0) != at:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def _no_room(size: int, error: OSError) -> NoHostMemory:
    return NoHostMemory(
        f"this process has no address space for {size:#x} bytes of device memory ({error.strerror}), expected room "
        "for it: close devices that are no longer used, drop views of their memory, or raise the limit (ulimit -v)"
    )


_NOTHING: Final = _anonymous(PAGE_SIZE)
"""A page of memory to which closed `Ram` objects refer in place of their own."""


class Guarded:
    """The bytes of `ram` from offset `start` to `end`, as a memory region whose accesses are all checked.

    `end` is the end of `ram` by default. The region has no host address, so translated code cannot bypass the check.
    Freed bytes, and bytes between the end of an allocation and the end of its page, behave like other memory: loads
    return their content, and stores change it."""

    __slots__ = ("_view", "size")

    def __init__(self, ram: Ram | memoryview, start: int = 0, end: int | None = None) -> None:
        self._view = (ram.view if isinstance(ram, Ram) else ram)[start:end]
        self.size = len(self._view)

    def read(self, offset: int, size: int, unit: Unit) -> bytes:
        """Return `size` bytes from `offset`."""
        return bytes(self._view[offset : offset + size])

    def write(self, offset: int, data: bytes, unit: Unit) -> None:
        """Store `data` at `offset`."""
        self._view[offset : offset + len(data)] = data

    def host_address(self, offset: int, unit: Unit) -> None:
        """Return None: translated code must not access this memory directly."""


@dataclass(frozen=True, slots=True)
class Mapping:
    """A region that is mapped in an address space, with its base address and its name."""

    base: int
    region: Region
    name: str

    @property
    def end(self) -> int:
        """The first address past the end of the region."""
        return self.base + self.region.size


class AddressSpace:
    """An address space: regions by base address. Regions may not overlap. A lookup is one binary search."""

    def __init__(self) -> None:
        self._bases: list[int] = []
        self._maps: list[Mapping] = []

    def __iter__(self) -> Iterator[Mapping]:
        return iter(self._maps)

    def map(self, base: int, region: Region, name: str) -> Mapping:
        """Map `region` at `base`; raise a `ModelBug` if it would overlap another region."""
        new = Mapping(base, region, name)
        for old in self._maps:
            if base < old.end and old.base < new.end:
                raise ModelBug(f"{name} at {base:#x}..{new.end:#x} overlaps {old.name} at {old.base:#x}..{old.end:#x}")
        index = bisect_right(self._bases, base)
        self._bases.insert(index, base)
        self._maps.insert(index, new)
        return new

    def unmap(self, base: int) -> Mapping:
        """Unmap the region that starts at `base`; return its former mapping."""
        index = self._bases.index(base)
        del self._bases[index]
        return self._maps.pop(index)

    def find(self, address: int, size: int = 1) -> Mapping | None:
        """Return the mapping that contains all addresses from `address` to `address + size - 1`, or None."""
        index = bisect_right(self._bases, address) - 1
        if index < 0:
            return None
        found = self._maps[index]
        return found if address + size <= found.end else None

    def read(self, address: int, size: int, unit: Unit) -> bytes:
        """Return `size` bytes at `address`; raise `AccessFault` unless one region contains them all."""
        found = self._at(address, size, "read")
        return found.region.read(address - found.base, size, unit)

    def write(self, address: int, data: bytes, unit: Unit) -> None:
        """Store `data` at `address`; raise `AccessFault` unless one region contains all of its addresses."""
        found = self._at(address, len(data), "write")
        found.region.write(address - found.base, data, unit)

    def _at(self, address: int, size: int, access: str) -> Mapping:
        found = self.find(address, size)
        if found is None:
            raise AccessFault(
                f"{access} of {size} bytes at {address:#x}: no memory there", address=address, access=access
            )
        return found


_BYTE: Final = ctypes.c_char


def host_address(array: Any) -> int:
    """Return the address of an array's first element, four times as fast as `array.ctypes.data`."""
    try:
        return ctypes.addressof(_BYTE.from_buffer(array))
    except (TypeError, ValueError, BufferError):  # an empty or read-only array, or one that is not contiguous
        return int(array.ctypes.data)
