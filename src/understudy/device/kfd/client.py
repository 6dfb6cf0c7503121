"""The program at the other end: its memory, which ioctls point into, and pages that become shared."""

from __future__ import annotations

import ctypes
import errno
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, Protocol

from understudy.device.kfd.errors import Refused, bad_address

NAME: Final = "understudy-gpu"
"""Of the shared memory's file, as /proc/PID/maps shows it."""
READ: Final = 1
WRITE: Final = 2
EXECUTE: Final = 4
"""Bits of a protection, as <sys/mman.h> has them."""


@dataclass(frozen=True, slots=True)
class Mapping:
    """What a program has mapped at start..end. `offset`: into the shared memory, if it is of that, else -1."""

    start: int
    end: int
    protection: int
    is_private: bool
    offset: int = -1


class Client(Protocol):
    """What the driver needs of a program. `Refused` with EFAULT for addresses that are not its own."""

    def read(self, address: int, size: int) -> bytes:
        """Bytes of its memory."""

    def write(self, address: int, data: bytes) -> None:
        """Store to its memory."""

    def read_into(self, address: int, to: memoryview) -> None:
        """Fill `to` from its memory."""

    def write_from(self, address: int, data: memoryview) -> None:
        """Store to its memory what lies here."""

    def mappings(self, start: int, end: int) -> list[Mapping]:
        """What it has mapped between these addresses, in order."""

    def library(self, name: str) -> tuple[int, str] | None:
        """Where the first file whose name begins so is mapped from its start on, and its path; None for none."""

    def path(self, path: str) -> str:
        """By which path a file of its can be read here."""

    def share(self, address: int, size: int, offset: int, protection: int, *, is_quiet: bool) -> bool:
        """Put the shared memory from `offset` on in place of whole pages, their contents kept; False if it cannot.

        `is_quiet`: nobody writes there meanwhile. Else its other threads are stopped for as long.
        """


class _Part(ctypes.Structure):
    """struct iovec."""

    _fields_ = (("base", ctypes.c_void_p), ("size", ctypes.c_size_t))


@cache
def _calls() -> tuple[Callable[..., int], Callable[..., int]]:
    """process_vm_readv and process_vm_writev."""
    if sys.platform != "linux":
        raise Refused("another program's memory can be reached on Linux only", errno.ENOSYS)
    library: Any = ctypes.CDLL(None, use_errno=True)
    found = library.process_vm_readv, library.process_vm_writev
    for each in found:
        number, part = ctypes.c_ulong, ctypes.POINTER(_Part)
        each.argtypes, each.restype = (ctypes.c_int, part, number, part, number, number), ctypes.c_ssize_t
    return found


class ProcessMemory:
    """Memory of process `pid`, through process_vm_readv(2): of a child of this one, or of this one itself."""

    def __init__(self, pid: int) -> None:
        self.pid = pid

    def read(self, address: int, size: int) -> bytes:
        """See `Client`."""
        buffer = bytearray(size)
        self.read_into(address, memoryview(buffer))
        return bytes(buffer)

    def write(self, address: int, data: bytes) -> None:
        """See `Client`."""
        self.write_from(address, memoryview(bytearray(data)))

    def read_into(self, address: int, to: memoryview) -> None:
        """See `Client`."""
        self._move(_calls()[0], "read", address, to)

    def write_from(self, address: int, data: memoryview) -> None:
        """See `Client`."""
        self._move(_calls()[1], "write", address, data)

    def mappings(self, start: int, end: int) -> list[Mapping]:
        """See `Client`."""
        found = []
        try:
            with open(f"/proc/{self.pid}/maps", encoding="utf-8", errors="replace") as lines:
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
        """See `Client`."""
        with open(f"/proc/{self.pid}/maps", encoding="utf-8", errors="replace") as lines:
            for line in lines:
                fields = line.rstrip("\n").split(maxsplit=5)
                if len(fields) > 5 and fields[5].rpartition("/")[2].startswith(name) and not int(fields[2], 16):
                    return int(fields[0].partition("-")[0], 16), fields[5]
        return None

    def path(self, path: str) -> str:
        """See `Client`."""
        return f"/proc/{self.pid}/root{path}"

    def _mapping(self, low: int, high: int, line: str, start: int, end: int) -> Mapping:
        """One line of /proc/PID/maps, cut to start..end."""
        fields = line.split(maxsplit=5)
        letters, first = fields[1], max(low, start)
        protection = READ * (letters[0] == "r") | WRITE * (letters[1] == "w") | EXECUTE * (letters[2] == "x")
        is_shared = len(fields) > 5 and fields[5].startswith(f"/memfd:{NAME}")
        offset = int(fields[2], 16) + first - low if is_shared else -1
        return Mapping(first, min(high, end), protection, letters[3] == "p", offset)

    def _move(self, call: Callable[..., int], what: str, address: int, buffer: memoryview) -> None:
        """All of `buffer`: the kernel moves at most 2 GiB at once, and stops where nothing is mapped."""
        size, done = len(buffer), 0
        if not size:
            return
        if address < 0 or address + size > 1 << 63:
            raise bad_address(f"{what} of {size} bytes at {address:#x}: no address of a program")
        here = ctypes.addressof(ctypes.c_char.from_buffer(buffer))
        while done < size:
            near, far = _Part(here + done, size - done), _Part(address + done, size - done)
            moved = call(self.pid, ctypes.byref(near), 1, ctypes.byref(far), 1, 0)
            if moved <= 0:
                number = ctypes.get_errno() if moved < 0 else errno.EFAULT
                raise bad_address(f"{what} of {size} bytes at {address + done:#x}: {os.strerror(number)}")
            done += moved
