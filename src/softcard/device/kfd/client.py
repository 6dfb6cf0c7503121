"""The driver's access to the memory of the program that uses it; the driver can make this memory shared.

The arguments of ioctls contain pointers to the program's memory."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import IO, Any, Final, Protocol

from softcard.device.kfd.ioctls import Refused, bad_address

NAME: Final = "softcard-gpu"
"""The name of the shared memory's file in /proc/PID/maps."""
READ: Final = 1
WRITE: Final = 2
EXECUTE: Final = 4
"""The bit PROT_EXECUTE of a memory protection, as in <sys/mman.h>."""


@dataclass(frozen=True, slots=True)
class Mapping:
    """A mapping of a program, from address `start` to address `end`.

    If it maps the shared memory of a driver, `offset` is the offset in the file with inode `inode`; otherwise
    `offset` is -1. A forked program also has its parent's shared memory mapped."""

    start: int
    end: int
    protection: int
    is_private: bool
    offset: int = -1
    inode: int = 0


class Client(Protocol):
    """The interface through which the driver accesses a program.

    Methods raise `Refused` with EFAULT for addresses that the program has not mapped.
    """

    def read(self, address: int, size: int) -> bytes:
        """Return `size` bytes of the program's memory at `address`."""

    def write(self, address: int, data: bytes) -> None:
        """Store `data` in the program's memory at `address`."""

    def read_into(self, address: int, to: memoryview) -> None:
        """Fill the buffer `to` with the program's memory, from `address` on."""

    def write_from(self, address: int, data: memoryview) -> None:
        """Store the buffer `data` of this process in the program's memory at `address`."""

    def mappings(self, start: int, end: int) -> list[Mapping]:
        """Return the program's mappings between the addresses `start` and `end`, in order."""

    def library(self, name: str) -> tuple[int, str] | None:
        """Return the address and the path of the first mapped file whose name begins with `name`, or None.

        The start of the file must be mapped."""

    def path(self, path: str) -> str:
        """Return the path by which this process can read the program's file `path`."""

    def share(self, address: int, size: int, offset: int, protection: int, *, is_quiet: bool) -> bool:
        """Replace whole pages of the program by shared memory from `offset` on, without changing their contents.

        Return False if that fails. `is_quiet` is True if no other thread writes to the pages during the call. If it
        is False, the program's other threads are stopped during the call."""


class _Part(ctypes.Structure):
    """The C structure iovec."""

    _fields_ = (("base", ctypes.c_void_p), ("size", ctypes.c_size_t))


class _Query(ctypes.Structure):
    """The C structure procmap_query of <linux/fs.h>, from Linux 6.11 on."""

    _fields_ = (
        ("size", ctypes.c_uint64), ("query_flags", ctypes.c_uint64), ("query_addr", ctypes.c_uint64),
        ("vma_start", ctypes.c_uint64), ("vma_end", ctypes.c_uint64), ("vma_flags", ctypes.c_uint64),
        ("vma_page_size", ctypes.c_uint64), ("vma_offset", ctypes.c_uint64), ("inode", ctypes.c_uint64),
        ("dev_major", ctypes.c_uint32), ("dev_minor", ctypes.c_uint32), ("vma_name_size", ctypes.c_uint32),
        ("build_id_size", ctypes.c_uint32), ("vma_name_addr", ctypes.c_uint64), ("build_id_addr", ctypes.c_uint64),
    )  # fmt: skip


_PROCMAP_QUERY: Final = 3 << 30 | ctypes.sizeof(_Query) << 16 | ord("f") << 8 | 17
_COVERING_OR_NEXT: Final = 0x10
_IS_SHARED: Final = 8
"""The bit of vma_flags for shared mappings; the lower bits are read, write and execute permissions."""
_PATH_MAX: Final = 4096
_SHARED_NAME: Final = f"/memfd:{NAME}"


def _queried(maps: IO[str], start: int, end: int) -> list[Mapping] | None:
    """Return the mappings from `start` to `end` by the ioctl PROCMAP_QUERY.

    Return None before Linux 6.11, which does not have this ioctl. The ioctl finds a mapping by its address. The
    text of /proc/PID/maps, in contrast, has to be read from a program's first mapping on."""
    name, found, at = ctypes.create_string_buffer(_PATH_MAX), [], start
    while at < end:
        query = _Query(
            size=ctypes.sizeof(_Query), query_flags=_COVERING_OR_NEXT, query_addr=at,
            vma_name_size=_PATH_MAX, vma_name_addr=ctypes.addressof(name),
        )  # fmt: skip
        try:
            fcntl.ioctl(maps, _PROCMAP_QUERY, query)
        except OSError as error:
            if error.errno == errno.ENOENT:  # nothing is mapped at or above the address
                break
            if error.errno in (errno.ENOTTY, errno.EINVAL, errno.ENAMETOOLONG):
                return None
            raise
        if query.vma_start >= end:
            break
        first = max(query.vma_start, start)
        is_of_shared = query.vma_name_size and name.value.startswith(_SHARED_NAME.encode())
        offset = query.vma_offset + first - query.vma_start if is_of_shared else -1
        flags = query.vma_flags
        last, is_private = min(query.vma_end, end), not flags & _IS_SHARED
        found.append(Mapping(first, last, flags & 7, is_private, offset, query.inode))
        at = query.vma_end
    return found


@cache
def _calls() -> tuple[Callable[..., int], Callable[..., int]]:
    """Return the C functions process_vm_readv and process_vm_writev."""
    if sys.platform != "linux":
        raise Refused("the memory of another program can only be accessed on Linux", errno.ENOSYS)
    library: Any = ctypes.CDLL(None, use_errno=True)
    found = library.process_vm_readv, library.process_vm_writev
    for each in found:
        number, part = ctypes.c_ulong, ctypes.POINTER(_Part)
        each.argtypes, each.restype = (ctypes.c_int, part, number, part, number, number), ctypes.c_ssize_t
    return found


class ProcessMemory:
    """The memory of process `pid`, accessed by process_vm_readv(2) and process_vm_writev(2).

    The process is this one or a child of it."""

    def __init__(self, pid: int) -> None:
        self.pid = pid

    def read(self, address: int, size: int) -> bytes:
        """Return `size` bytes of the program's memory at `address`."""
        buffer = bytearray(size)
        self.read_into(address, memoryview(buffer))
        return bytes(buffer)

    def write(self, address: int, data: bytes) -> None:
        """Store `data` in the program's memory at `address`."""
        self.write_from(address, memoryview(bytearray(data)))

    def read_into(self, address: int, to: memoryview) -> None:
        """Fill the buffer `to` with the program's memory, from `address` on."""
        self._move(_calls()[0], "read", address, to)

    def write_from(self, address: int, data: memoryview) -> None:
        """Store the buffer `data` of this process in the program's memory at `address`."""
        self._move(_calls()[1], "write", address, data)

    def mappings(self, start: int, end: int) -> list[Mapping]:
        """Return the program's mappings between the addresses `start` and `end`, in order."""
        try:
            with open(f"/proc/{self.pid}/maps", encoding="utf-8", errors="replace") as lines:
                if (queried := _queried(lines, start, end)) is not None:
                    return queried
                found = []
                for line in lines:
                    low, _, high = line[: line.index(" ")].partition("-")
                    if int(low, 16) >= end:
                        break
                    if int(high, 16) > start:
                        found.append(self._mapping(int(low, 16), int(high, 16), line, start, end))
        except OSError as error:
            raise bad_address(f"the program's mappings cannot be read: {error.strerror}") from None
        return found

    def library(self, name: str) -> tuple[int, str] | None:
        """Return the address and the path of the first mapped file whose name begins with `name`, or None.

        See `Client.library`.
        """
        with open(f"/proc/{self.pid}/maps", encoding="utf-8", errors="replace") as lines:
            for line in lines:
                fields = line.rstrip("\n").split(maxsplit=5)
                if len(fields) > 5 and fields[5].rpartition("/")[2].startswith(name) and not int(fields[2], 16):
                    return int(fields[0].partition("-")[0], 16), fields[5]
        return None

    def path(self, path: str) -> str:
        """Return the path by which this process can read the program's file `path`."""
        return f"/proc/{self.pid}/root{path}"

    def _mapping(self, low: int, high: int, line: str, start: int, end: int) -> Mapping:
        """Return the part from `start` to `end` of the mapping that `line` of /proc/PID/maps describes.

        `low` and `high` are the addresses in the line."""
        fields = line.split(maxsplit=5)
        letters, first = fields[1], max(low, start)
        protection = READ * (letters[0] == "r") | WRITE * (letters[1] == "w") | EXECUTE * (letters[2] == "x")
        is_shared = len(fields) > 5 and fields[5].startswith(_SHARED_NAME)
        offset = int(fields[2], 16) + first - low if is_shared else -1
        return Mapping(first, min(high, end), protection, letters[3] == "p", offset, int(fields[4]))

    def _move(self, call: Callable[..., int], what: str, address: int, buffer: memoryview) -> None:
        """Read or write all of `buffer`, at `address` of the program, by repeated calls of `call`.

        Calls are repeated because the kernel moves at most 2 GiB at once, and stops at an unmapped address. `what` is
        the kind of access in the error message."""
        size, done = len(buffer), 0
        if not size:
            return
        if address < 0 or address + size > 1 << 63:
            raise bad_address(f"{what} of {size} bytes at {address:#x} is outside of the address range of programs")
        here = ctypes.addressof(ctypes.c_char.from_buffer(buffer))
        while done < size:
            near, far = _Part(here + done, size - done), _Part(address + done, size - done)
            moved = call(self.pid, ctypes.byref(near), 1, ctypes.byref(far), 1, 0)
            if moved <= 0:
                number = ctypes.get_errno() if moved < 0 else errno.EFAULT
                raise bad_address(f"{what} of {size} bytes at {address + done:#x}: {os.strerror(number)}")
            done += moved
