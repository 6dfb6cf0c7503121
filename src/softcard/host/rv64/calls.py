"""Basic system calls of RV64 programs, with Linux's numbers, and the host-target interface of bare-metal tests.

The numbers are those of ``asm-generic/unistd.h``. A program without a C library needs only these calls.
Bare-metal programs make them through the host-target interface (tohost and fromhost). The module `linux` adds
the other calls of programs for Linux."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from softcard.core.errors import AccessFault, BeyondModel

if TYPE_CHECKING:
    from softcard.host.rv64.memory import ProgramMemory


EBADF, EFAULT, EINVAL, ENOTTY = 9, 14, 22, 25
MOST_PARTS: Final = 1024
"""The largest number of buffers in one writev call (UIO_MAXIOV)."""
NAMES: Final = {
    17: "getcwd", 23: "dup", 25: "fcntl", 29: "ioctl", 35: "unlinkat", 48: "faccessat", 56: "openat", 57: "close",
    62: "lseek", 63: "read", 64: "write", 65: "readv", 66: "writev", 78: "readlinkat", 79: "newfstatat", 80: "fstat",
    82: "fsync", 93: "exit", 94: "exit_group", 96: "set_tid_address", 98: "futex", 99: "set_robust_list",
    101: "nanosleep", 113: "clock_gettime", 114: "clock_getres", 115: "clock_nanosleep", 122: "sched_setaffinity",
    123: "sched_getaffinity", 124: "sched_yield", 129: "kill", 130: "tkill", 131: "tgkill", 132: "sigaltstack",
    134: "rt_sigaction", 135: "rt_sigprocmask", 153: "times", 160: "uname", 163: "getrlimit", 165: "getrusage",
    167: "prctl", 169: "gettimeofday", 172: "getpid", 173: "getppid", 174: "getuid", 175: "geteuid", 176: "getgid",
    177: "getegid", 178: "gettid", 179: "sysinfo", 214: "brk", 215: "munmap", 216: "mremap", 222: "mmap",
    226: "mprotect", 233: "madvise", 258: "riscv_hwprobe", 259: "riscv_flush_icache", 261: "prlimit64",
    278: "getrandom", 283: "membarrier", 291: "statx", 293: "rseq", 435: "clone3", 439: "faccessat2",
}  # fmt: skip
_MASK64: Final = (1 << 64) - 1


OnWrite = Callable[[int, bytes], object]
"""A callback with a file descriptor, 1 or 2, and the bytes that a program writes to it."""


class Exited(Exception):
    """The exception that ends a run when the program calls exit; `code` is the exit status."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


class Calls:
    """The system calls of a program. `output` is the text that it wrote to file descriptors 1 and 2, in order."""

    def __init__(self, memory: ProgramMemory, given: bytes, on_write: OnWrite | None = None) -> None:
        self._memory = memory
        self._input = given
        self._on_write = on_write
        self.output = bytearray()
        self._calls: dict[int, Callable[..., int]] = {
            29: lambda fd, *_: -ENOTTY if fd < 3 else -EBADF,
            57: lambda fd, *_: 0 if fd < 3 else -EBADF,
            62: lambda fd, *_: -EBADF,
            63: self._read,
            64: self._write,
            66: self._write_parts,
            93: self._exit,
            94: self._exit,
            214: self._break,
        }

    def call(self, number: int, *arguments: int) -> int:
        """Make a system call with the words of a0 to a5, and return the new value of a0.

        Raise `BeyondModel` for an unsupported call.
        """
        done = self._calls.get(number)
        if done is None:
            listed = ", ".join(f"{NAMES[n]} {n}" for n in sorted(self._calls))
            raise BeyondModel(f"Linux call {number} (a7) is not modelled, only {listed}")
        try:
            return done(*arguments) & _MASK64
        except AccessFault:
            return -EFAULT & _MASK64

    def put(self, fd: int, data: bytes) -> None:
        """Append bytes that the program writes to file descriptor `fd` (1 or 2) to the output."""
        self.output += data
        if self._on_write is not None:
            self._on_write(fd, data)

    def _read(self, fd: int, address: int, size: int, *_: int) -> int:
        if fd:
            return -EBADF
        data, rest = self._input[:size], self._input[size:]
        self._memory.write(address, data)
        self._input = rest
        return len(data)

    def _write(self, fd: int, address: int, size: int, *_: int) -> int:
        if fd not in (1, 2):
            return -EBADF
        self.put(fd, self._memory.read(address, size) if size else b"")
        return size

    def _write_parts(self, fd: int, address: int, count: int, *_: int) -> int:
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


# ---- host-target interface -------------------------------------------------------------------------------------------
# The host-target interface of bare-metal tests, as riscv-tests and riscv-pk use it: the meaning of stores to tohost.
#
# Bits 63 to 56 hold a device number, bits 55 to 48 a command for that device, and the lower bits the payload. Device 0
# executes system calls and ends the program; device 1 is a console. The host answers with a store to fromhost, and sets
# tohost to 0.


CALLS, CONSOLE = 0, 1
PUT: Final = 1
"""The number of the host-target interface's console command that prints a byte."""
CALL_WORDS: Final = 8
"""The number of 64-bit words of a system call through the host-target interface.

They are the call's number and its arguments; the result replaces the first word.
"""
STANDARD_OUTPUT: Final = 1


class Ended(Exception):
    """The exception that ends a run when a bare-metal program has finished.

    `status` is the word that the program stored to tohost, shifted right by one; 0 means that a test passed.
    """

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


class HostTarget:
    """The host's end of the words tohost and fromhost, by which bare-metal tests call the host.

    `answers` is the address of fromhost, or None.
    """

    def __init__(self, memory: ProgramMemory, calls: Calls, answers: int | None) -> None:
        self._memory = memory
        self._calls = calls
        self._answers = answers

    def handle(self, word: int) -> None:
        """Handle a word that the program stored to tohost.

        Raise `Ended` at the end of the program, and `BeyondModel` for an unsupported command.
        """
        device, command, payload = word >> 56, word >> 48 & 0xFF, word & (1 << 48) - 1
        if (device, command) == (CALLS, 0):
            if payload & 1:
                raise Ended(payload >> 1)
            self._call(word, payload)
            answer = 1
        elif (device, command) == (CONSOLE, PUT):
            self._calls.put(STANDARD_OUTPUT, bytes([payload & 0xFF]))
            answer = word & ~0xFFFF_FFFF_FFFF | 0x100 | payload & 0xFF
        else:
            raise BeyondModel(
                f"tohost = {word:#x}: command {command} of host device {device} is not modelled, expected "
                "an end (an odd word), a call (the address of 8 words) or a byte for the console (device 1, command 1)"
            )
        memory = self._memory
        memory.clear_mailbox()
        if self._answers is not None:
            memory.write(self._answers, answer.to_bytes(8, "little"))

    def _call(self, word: int, at: int) -> None:
        try:
            number, *arguments = (self._memory.load(at + 8 * k, 8) for k in range(CALL_WORDS))
        except AccessFault as error:
            raise BeyondModel(
                f"tohost = {word:#x} is neither odd (an end) nor the address of a call: {error}"
            ) from None
        result = self._calls.call(number, *arguments[:6])
        self._memory.write(at, result.to_bytes(8, "little"))
