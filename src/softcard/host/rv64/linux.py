"""The Linux system calls that static programs with a C library make on one hart (``asm-generic/unistd.h``).

Supported are start-up, memory, the three standard streams, clocks and queries about the process. Files,
threads and signals are not supported: the open calls fail as on an empty file system, and clone raises an
error. Everything that could differ between runs is fixed: the clock counts one nanosecond per instruction,
and random bytes are always the same."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable
from typing import Final

from softcard.core.errors import AccessFault, BeyondModel, GuestFault
from softcard.core.space import PAGE_SIZE
from softcard.core.words import align_up
from softcard.host.rv64.calls import MOST_PARTS, Calls, OnWrite
from softcard.host.rv64.memory import STACK_BYTES, ProgramMemory

ENOENT, EBADF, ECHILD, EAGAIN, ENOMEM, EINVAL, ESPIPE, ERANGE, ENOSYS, ETIMEDOUT = 2, 9, 10, 11, 12, 22, 29, 34, 38, 110
STREAMS: Final = 3
PROCESS: Final = 1000
"""The id of the process, which is also the id of its thread, user and group."""
EPOCH: Final = 1_704_067_200
"""The time at which CLOCK_REALTIME begins: 2024-01-01, in seconds."""
SECOND: Final = 10**9
MOST_SLEPT: Final = (1 << 63) * SECOND
STACK_LIMIT, NO_LIMIT = 3, (1 << 64) - 1
MAP_FIXED, MAP_ANONYMOUS, MAP_FIXED_NOREPLACE = 0x10, 0x20, 0x10_0000
DONTNEED: Final = 4
MAYMOVE: Final = 1
FUTEX_WAIT, FUTEX_WAKE, FUTEX_WAIT_BITSET = 0, 1, 9
SIGNALS: Final = {3: "SIGQUIT", 4: "SIGILL", 5: "SIGTRAP", 6: "SIGABRT", 7: "SIGBUS", 8: "SIGFPE", 9: "SIGKILL",
                  11: "SIGSEGV", 13: "SIGPIPE", 14: "SIGALRM", 15: "SIGTERM"}  # fmt: skip
IGNORED_BY_DEFAULT: Final = (17, 18, 23, 28)
"""The numbers of the signals that a process ignores by default: SIGCHLD, SIGCONT, SIGURG and SIGWINCH."""
SIGNAL_ACTION: Final = struct.Struct("<QQQ")
"""The layout of struct sigaction in system calls: handler, flags, mask."""
PIPE_MODE: Final = 0o10600
UNAME: Final = ("Linux", "softcard", "6.1.0", "#1", "riscv64", "(none)")
NO_HARD_LIMIT: Final = (NO_LIMIT, NO_LIMIT)
REFUSED: Final = {
    220: "clone: threads and further processes are not modelled",
    221: "execve: starting other programs is not modelled",
    260: "wait4: further processes are not modelled",
}
_MASK64: Final = (1 << 64) - 1


class LinuxCalls(Calls):
    """The system calls of a Linux program.

    `instructions` is a function that returns the number of instructions that the program has retired; clocks are
    derived from it. `unmapped` is called after memory was unmapped."""

    def __init__(
        self,
        memory: ProgramMemory,
        given: bytes,
        on_write: OnWrite | None,
        instructions: Callable[[], int],
        unmapped: Callable[[], object],
    ) -> None:
        super().__init__(memory, given, on_write)
        self._instructions = instructions
        self._unmapped = unmapped
        self._slept = 0
        self._actions: dict[int, bytes] = {}
        self._blocked = bytes(8)
        self._random = 0
        self._calls |= self._files() | self._process() | self._signals() | self._times()
        self._calls |= {
            215: self._unmap,
            216: self._remap,
            222: self._map,
            226: self._succeed,  # mprotect: memory has no permissions
            233: self._advise,
            278: self._random_bytes,
        }

    def call(self, number: int, *arguments: int) -> int:
        """Make a system call as `Calls.call` does; raise a `BeyondModel` that names the call if it is not supported."""
        if number in REFUSED:
            raise BeyondModel(f"Linux call {number} (a7) is {REFUSED[number]}")
        return super().call(number, *arguments)

    def _fails(self, error: int) -> Callable[..., int]:
        return lambda *_: -error

    def _succeed(self, *_: int) -> int:
        return 0

    # -- files: the standard streams are pipes, and no other files exist

    def _files(self) -> dict[int, Callable[..., int]]:
        nothing = self._fails(ENOENT)
        return {
            17: self._folder,
            23: lambda fd, *_: -EBADF if fd >= STREAMS else -EINVAL,  # dup: all descriptors are in use
            25: self._control,
            35: nothing,  # unlinkat
            48: nothing,  # faccessat
            56: nothing,  # openat
            62: lambda fd, *_: -ESPIPE if fd < STREAMS else -EBADF,
            65: self._read_parts,
            78: nothing,  # readlinkat
            79: self._status_at,
            80: lambda fd, at, *_: self._status(fd, at),
            82: lambda fd, *_: -EINVAL if fd < STREAMS else -EBADF,  # fsync
            291: self._fails(ENOSYS),  # statx: C libraries fall back to newfstatat
            439: self._fails(ENOSYS),  # faccessat2: C libraries fall back to faccessat
        }

    def _folder(self, at: int, size: int, *_: int) -> int:
        if size < 2:
            return -ERANGE
        self._memory.write(at, b"/\0")
        return 2

    def _control(self, fd: int, command: int, *_: int) -> int:
        get_flags, set_flags, get_status, set_status = 1, 2, 3, 4
        if fd >= STREAMS:
            return -EBADF
        if command == get_status:
            return min(fd, 1)  # read only, write only
        return 0 if command in (get_flags, set_flags, set_status) else -EINVAL

    def _read_parts(self, fd: int, address: int, count: int, *_: int) -> int:
        if fd:
            return -EBADF
        if count > MOST_PARTS:
            return -EINVAL
        load, total = self._memory.load, 0
        for at in range(address, address + 16 * count, 16):
            size = load(at + 8, 8)
            done = self._read(fd, load(at, 8), size)
            total += done
            if done < size:
                break
        return total

    def _status_at(self, folder: int, name: int, at: int, flags: int, *_: int) -> int:
        if not flags & 0x1000 or self._memory.load(name, 1):  # AT_EMPTY_PATH
            return -ENOENT
        return self._status(folder, at)

    def _status(self, fd: int, at: int) -> int:
        """Write the struct stat of file descriptor `fd` to address `at`; return the system call's result.

        The fields are device, inode, mode, links, owner, sizes and times.
        """
        if fd >= STREAMS:
            return -EBADF
        fields = struct.pack("<QQIIIIQQqiiq", 1, fd + 1, PIPE_MODE, 1, PROCESS, PROCESS, 0, 0, 0, PAGE_SIZE, 0, 0)
        self._memory.write(at, fields.ljust(128, b"\0"))
        return 0

    # -- the process

    def _process(self) -> dict[int, Callable[..., int]]:
        me: Callable[..., int] = lambda *_: PROCESS  # noqa: E731
        return {
            96: me,  # set_tid_address
            98: self._futex,
            99: self._succeed,  # set_robust_list
            122: self._succeed,  # sched_setaffinity
            123: self._affinity,
            124: self._succeed,  # sched_yield
            160: self._name,
            163: lambda which, at, *_: self._limit(0, which, 0, at),
            165: self._usage,
            167: lambda what, *_: 0 if what == 15 else -EINVAL,  # prctl: PR_SET_NAME
            172: me,  # getpid
            173: lambda *_: 1,  # getppid
            174: me,  # getuid, geteuid, getgid, getegid
            175: me,
            176: me,
            177: me,
            178: me,  # gettid
            179: self._system,
            258: self._fails(ENOSYS),  # riscv_hwprobe
            259: self._flushed,  # riscv_flush_icache
            261: self._limit,
            283: self._fails(ENOSYS),  # membarrier
            293: self._fails(ENOSYS),  # rseq
            435: self._fails(ENOSYS),  # clone3: C libraries fall back to clone
        }

    def _flushed(self, *_: int) -> int:
        self._unmapped()
        return 0

    def _futex(self, at: int, operation: int, value: int, timeout: int, *_: int) -> int:
        kind = operation & 0x7F
        if kind == FUTEX_WAKE:
            return 0
        if kind not in (FUTEX_WAIT, FUTEX_WAIT_BITSET):
            return -ENOSYS
        if self._memory.load(at, 4) != value & 0xFFFF_FFFF:
            return -EAGAIN
        if timeout:
            return -ETIMEDOUT
        raise BeyondModel(f"futex: the program waits for another thread at {at:#x}, and threads are not modelled")

    def _affinity(self, _process: int, size: int, at: int, *_: int) -> int:
        if size < 8:
            return -EINVAL
        self._memory.write(at, (1).to_bytes(8, "little"))
        return 8

    def _name(self, at: int, *_: int) -> int:
        self._memory.write(at, b"".join(each.encode().ljust(65, b"\0") for each in UNAME))
        return 0

    def _limit(self, _process: int, which: int, new: int, old: int, *_: int) -> int:
        if old:
            limits = (STACK_BYTES, NO_LIMIT) if which == STACK_LIMIT else NO_HARD_LIMIT
            self._memory.write(old, struct.pack("<QQ", *limits))
        return 0

    def _usage(self, _who: int, at: int, *_: int) -> int:
        self._memory.write(at, struct.pack("<QQ", *self._microseconds()).ljust(144, b"\0"))
        return 0

    def _system(self, at: int, *_: int) -> int:
        """Write struct sysinfo to address `at`; return the system call's result.

        The fields are uptime, loads, memory and swap, number of processes, and the unit of sizes.
        """
        seconds, memory = self._instructions() // SECOND, 1 << 30
        words = struct.pack("<q3Q6QH6xQQI", seconds, 0, 0, 0, memory, memory, 0, 0, 0, 0, 1, 0, 0, 1)
        self._memory.write(at, words.ljust(112, b"\0"))
        return 0

    # -- signals: handlers are recorded, and never called

    def _signals(self) -> dict[int, Callable[..., int]]:
        return {
            129: lambda _process, signal, *_: self._raise(signal),
            130: lambda _thread, signal, *_: self._raise(signal),
            131: lambda _process, _thread, signal, *_: self._raise(signal),
            132: self._succeed,  # sigaltstack
            134: self._action,
            135: self._mask,
        }

    def _raise(self, signal: int) -> int:
        default, ignore = 0, 1
        (handler, *_) = SIGNAL_ACTION.unpack(self._actions.get(signal, bytes(SIGNAL_ACTION.size)))
        if not signal or handler == ignore or (handler == default and signal in IGNORED_BY_DEFAULT):
            return 0
        name = SIGNALS.get(signal, f"signal {signal}")
        if handler != default:
            raise BeyondModel(
                f"{name}: the program sends itself a signal that it handles, but signal handlers are not modelled"
            )
        raise GuestFault(f"the program has ended itself by {name}")

    def _action(self, signal: int, new: int, old: int, *_: int) -> int:
        known = self._actions.get(signal, bytes(SIGNAL_ACTION.size))
        if new:
            self._actions[signal] = self._memory.read(new, SIGNAL_ACTION.size)
        if old:
            self._memory.write(old, known)
        return 0

    def _mask(self, how: int, new: int, old: int, *_: int) -> int:
        block, unblock, set_ = 0, 1, 2
        known, mask = self._blocked, int.from_bytes(self._blocked, "little")
        if new:
            if how not in (block, unblock, set_):
                return -EINVAL
            given = self._memory.load(new, 8)
            mask = mask | given if how == block else mask & ~given if how == unblock else given
            self._blocked = mask.to_bytes(8, "little")
        if old:
            self._memory.write(old, known)
        return 0

    # -- time

    def _times(self) -> dict[int, Callable[..., int]]:
        return {
            101: lambda wanted, *_: self._sleep(wanted, 0),
            113: self._clock,
            114: lambda _clock, at, *_: self._put_time(at, 1) if at else 0,  # clock_getres
            115: lambda _clock, flags, wanted, *_: self._sleep(wanted, flags),
            153: self._ticks,
            169: self._day,
        }

    def _now(self, clock: int = 1) -> int:
        since = EPOCH * SECOND if clock in (0, 5) else 0  # CLOCK_REALTIME, CLOCK_REALTIME_COARSE
        return since + self._instructions() + self._slept

    def _microseconds(self) -> tuple[int, int]:
        seconds, rest = divmod(self._instructions(), SECOND)
        return seconds, rest // 1000

    def _put_time(self, at: int, nanoseconds: int) -> int:
        self._memory.write(at, struct.pack("<QQ", *divmod(nanoseconds, SECOND)))
        return 0

    def _clock(self, clock: int, at: int, *_: int) -> int:
        return self._put_time(at, self._now(clock)) if clock < 12 else -EINVAL

    def _day(self, at: int, zone: int, *_: int) -> int:
        if at:
            self._memory.write(at, struct.pack("<QQ", self._now(0) // SECOND, self._now(0) % SECOND // 1000))
        if zone:
            self._memory.write(zone, bytes(8))
        return 0

    def _ticks(self, at: int, *_: int) -> int:
        ticks = self._instructions() * 100 // SECOND
        if at:
            self._memory.write(at, struct.pack("<4Q", ticks, 0, 0, 0))
        return self._now() * 100 // SECOND

    def _sleep(self, wanted: int, flags: int) -> int:
        """Advance the clock by the time stored at `wanted`, without sleeping; return the call's result.

        With the flag TIMER_ABSTIME, advance it up to that time.
        """
        seconds, rest = self._memory.load(wanted, 8), self._memory.load(wanted + 8, 8)
        if seconds >> 63 or rest >= SECOND:
            return -EINVAL
        length = seconds * SECOND + rest
        if flags & 1:
            length -= self._now(0 if length >= EPOCH * SECOND else 1)
        self._slept = min(self._slept + max(length, 0), MOST_SLEPT)
        return 0

    # -- memory

    def _map(self, hint: int, size: int, _protection: int, flags: int, fd: int, _offset: int, *_: int) -> int:
        if not size:
            return -EINVAL
        if not flags & MAP_ANONYMOUS:
            return -EBADF if fd & 0xFFFF_FFFF >= STREAMS else -ENOENT
        size = align_up(size, PAGE_SIZE)
        if not flags & (MAP_FIXED | MAP_FIXED_NOREPLACE):
            found = self._memory.arena.allocate(size)
            return -ENOMEM if found is None else found
        if hint % PAGE_SIZE:
            return -EINVAL
        if not self._memory.arena.place(hint, size) and not self._cleared(hint, size):
            return -ENOMEM
        return hint

    def _cleared(self, at: int, size: int) -> bool:
        """Fill `size` bytes at the address `at` with zeros; return False if some of them are not mapped."""
        try:
            self._memory.clear(at, size)
        except AccessFault:
            return False
        return True

    def _unmap(self, at: int, size: int, *_: int) -> int:
        if at % PAGE_SIZE or not size:
            return -EINVAL
        self._memory.arena.free(at, align_up(size, PAGE_SIZE))
        self._unmapped()
        return 0

    def _remap(self, at: int, old: int, new: int, flags: int, *_: int) -> int:
        arena, old, new = self._memory.arena, align_up(old, PAGE_SIZE), align_up(new, PAGE_SIZE)
        if at % PAGE_SIZE or not new or flags & ~MAYMOVE:
            return -EINVAL
        if new <= old:
            if new < old:
                self._unmap(at + new, old - new)
            return at
        if not flags & MAYMOVE:
            return -ENOMEM
        data = self._memory.read(at, old)
        found = arena.allocate(new)
        if found is None:
            return -ENOMEM
        self._memory.write(found, data)
        self._unmap(at, old)
        return found

    def _advise(self, at: int, size: int, advice: int, *_: int) -> int:
        if advice == DONTNEED and not self._cleared(at, size):
            return -ENOMEM
        return 0

    def _random_bytes(self, at: int, size: int, *_: int) -> int:
        size = min(size, 256)
        data = b""
        while len(data) < size:
            self._random += 1
            data += hashlib.sha256(self._random.to_bytes(8, "little")).digest()
        self._memory.write(at, data[:size])
        return size
