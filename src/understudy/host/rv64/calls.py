"""The few calls of Linux that a program without a C library's start-up needs (``asm-generic/unistd.h``)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from understudy.core.errors import AccessFault, BeyondModel

if TYPE_CHECKING:
    from understudy.host.rv64.memory import ProgramMemory

EBADF, EFAULT, EINVAL, ENOTTY = 9, 14, 22, 25
MOST_PARTS: Final = 1024
"""Of one writev (UIO_MAXIOV)."""
NAMES: Final = {29: "ioctl", 57: "close", 62: "lseek", 63: "read", 64: "write", 66: "writev", 93: "exit",
                94: "exit_group", 214: "brk"}  # fmt: skip
_MASK64: Final = (1 << 64) - 1


OnWrite = Callable[[int, bytes], object]
"""Is told what a program writes to 1 and 2."""


class Exited(Exception):
    """The program ended itself; `code` is its status."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


class Calls:
    """What a program reads, writes and asks for. `output` is what it wrote to 1 and 2, in order."""

    def __init__(self, memory: ProgramMemory, given: bytes, on_write: OnWrite | None = None) -> None:
        self._memory = memory
        self._given = given
        self._on_write = on_write
        self.output = bytearray()
        self._calls: dict[int, Callable[[int, int, int], int]] = {
            29: lambda fd, request, argument: -ENOTTY,
            57: lambda fd, *_: 0 if fd < 3 else -EBADF,
            62: lambda fd, *_: -EBADF,
            63: self._read,
            64: self._write,
            66: self._write_parts,
            93: self._exit,
            94: self._exit,
            214: self._break,
        }

    def call(self, number: int, first: int, second: int, third: int) -> int:
        """Do a call; gives what a0 holds then. `BeyondModel` for one that is not done here."""
        done = self._calls.get(number)
        if done is None:
            listed = ", ".join(f"{name} {n}" for n, name in NAMES.items())
            raise BeyondModel(f"Linux call {number} (a7) is not modelled, there are {listed}")
        try:
            return done(first, second, third) & _MASK64
        except AccessFault:
            return -EFAULT & _MASK64

    def put(self, fd: int, data: bytes) -> None:
        """The program writes bytes to 1 or 2."""
        self.output += data
        if self._on_write is not None:
            self._on_write(fd, data)

    def _read(self, fd: int, address: int, size: int) -> int:
        if fd:
            return -EBADF
        data, rest = self._given[:size], self._given[size:]
        self._memory.write(address, data)
        self._given = rest
        return len(data)

    def _write(self, fd: int, address: int, size: int) -> int:
        if fd not in (1, 2):
            return -EBADF
        self.put(fd, self._memory.read(address, size) if size else b"")
        return size

    def _write_parts(self, fd: int, address: int, count: int) -> int:
        if fd not in (1, 2):
            return -EBADF
        if count > MOST_PARTS:
            return -EINVAL
        load = self._memory.load
        parts = [(load(at, 8), load(at + 8, 8)) for at in range(address, address + 16 * count, 16)]
        return sum(self._write(fd, *part) for part in parts)

    def _exit(self, code: int, *_: int) -> int:
        raise Exited(code & 0xFF)

    def _break(self, address: int, *_: int) -> int:
        memory = self._memory
        if memory.heap <= address <= memory.heap_end:
            memory.break_ = address
        return memory.break_
