"""Acceldev's access to main memory, and its page tables.

Memory is accessed directly if the DMA port shares it with this process, and otherwise by calls of the port.
Page tables translate the virtual addresses of a buffer to physical addresses."""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, NamedTuple

import numpy as np

from softcard.core.errors import AccessFault
from softcard.core.pci import DirectRange, DmaPort
from softcard.core.rule import Rule
from softcard.core.words import U64
from softcard.device.acceldev import rules
from softcard.device.acceldev.commands import (
    BUFFER_BYTES,
    MAX_TABLE,
    PAGE_MASK,
    PTE_BYTES,
    PTE_FRAME_MASK,
    PTE_PRESENT,
    PTE_SHIFT,
)

WORD: Final = 4


class Aborted(Exception):  # not an error: the command's device was reset
    """The exception that ends the execution of a command because the device was reset.

    The command must not have any further effect.
    """


class WantedLock:
    """A reentrant lock that records whether a thread waits for it.

    Python's own locks are not fair: a thread that releases a lock and at once acquires it again is faster than a
    waiting thread, which first has to wake up. A thread that acquires this lock again and again can test
    `is_wanted` between two acquisitions, and let the waiting thread go first."""

    def __init__(self, arrived: Callable[[], None]) -> None:
        """Create the lock. A thread that had to wait for the lock calls `arrived` as soon as it holds it."""
        self._lock = threading.RLock()
        self._waiting: deque[None] = deque()
        """A queue with one entry for each waiting thread; it can be changed without a lock."""
        self._arrived = arrived
        self.release = self._lock.release

    @property
    def is_wanted(self) -> bool:
        """True if a thread waits for the lock."""
        return bool(self._waiting)

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """Acquire the lock, as `threading.RLock.acquire` does."""
        if self._lock.acquire(False):
            return True
        if not blocking:
            return False
        self._waiting.append(None)
        try:
            is_taken = self._lock.acquire(True, timeout)
        finally:
            self._waiting.pop()
        if is_taken:
            self._arrived()
        return is_taken

    def __enter__(self) -> bool:
        return self._lock.acquire(False) or self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()

    def __getattr__(self, name: str) -> Any:
        """Return attribute `name` of the wrapped lock.

        A `threading.Condition` uses such attributes of a reentrant lock in order to wait.
        """
        return getattr(self._lock, name)


class Gate:
    """The synchronisation of the thread that executes commands with threads that reset the device.

    `lock` guards all state of the device and is never held during DMA. Only one thread executes commands at a
    time. Between two steps, the executing thread lets threads that wait for the lock go first
    (`let_others_go_first`). A thread that resets the device calls `close_all`, which interrupts the execution at
    its next access or `check`. After that, the interrupted execution does not access memory any more. Only a call
    of the DMA port can still be in progress, because that call may need the resetting thread in order to return."""

    def __init__(self) -> None:
        self.lock = WantedLock(lambda: self.changed.notify_all())
        self.changed = threading.Condition(self.lock)  # type: ignore[arg-type]
        self._epoch = 0
        self._entered: int | None = None
        self._owner = 0
        self._outside = False

    def after_fork(self) -> bool:
        """Replace the lock in a child process; return True if another thread executed a command at the fork."""
        lost = not self.is_at_rest
        self.lock = WantedLock(lambda: self.changed.notify_all())
        self.changed = threading.Condition(self.lock)  # type: ignore[arg-type]
        if lost:
            self._entered, self._owner, self._outside = None, 0, False
        return lost

    def let_others_go_first(self) -> None:
        """Release the lock until no other thread waits for it; the caller holds the lock exactly once."""
        self.changed.wait_for(lambda: not self.lock.is_wanted)

    def enter(self) -> None:
        """Begin to execute commands on this thread."""
        with self.lock:
            self._entered, self._owner = self._epoch, threading.get_ident()

    def leave(self) -> None:
        """End the execution of commands on this thread."""
        with self.changed:
            self._entered, self._owner, self._outside = None, 0, False
            self.changed.notify_all()

    @property
    def is_entered(self) -> bool:
        """True if a thread is executing commands."""
        return self._entered is not None

    @property
    def is_at_rest(self) -> bool:
        """True if no thread other than the calling one is executing commands."""
        return self._entered is None or self.mine

    @property
    def is_outside(self) -> bool:
        """True if a call of the DMA port is in progress."""
        return self._outside

    @property
    def mine(self) -> bool:
        """True if the calling thread is executing commands."""
        return self._owner == threading.get_ident()

    def check(self) -> None:
        """Raise `Aborted` if the device was reset since `enter`."""
        if self._entered != self._epoch:
            raise Aborted

    def go_out(self) -> None:
        """Record that the executing thread begins a call of the DMA port."""
        with self.changed:
            if self._entered is not None:
                self.check()
                self._outside = True
                self.changed.notify_all()

    def come_back(self) -> None:
        """Record that the executing thread's call of the DMA port has ended."""
        with self.lock:
            self._outside = False
            if self._entered is not None:
                self.check()

    def close_all(self) -> None:
        """Interrupt the execution of commands, and wait until it cannot access memory any more."""
        with self.changed:
            self._epoch += 1
            if not self.mine:
                self.changed.wait_for(lambda: self._entered in (None, self._epoch) or self._outside)


class _Shared(NamedTuple):
    """The memory ranges that the DMA port shares with this process, and their base addresses.

    Another thread may replace them at any time, always both together.
    """

    ranges: tuple[DirectRange, ...]
    bases: list[int]


NOTHING: Final = _Shared((), [])


class Memory:
    """Main memory, accessed by physical address. Every failed access raises an `AccessFault` with the address."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate
        self._port: DmaPort | None = None
        self._shared = NOTHING

    def connect(self, port: DmaPort) -> None:
        """Use `port` for all further accesses, and release all memory ranges that the former port shared."""
        self._port = port
        self._shared = NOTHING

    @property
    def ranges(self) -> tuple[DirectRange, ...]:
        """The memory ranges that the DMA port currently shares; the same tuple object is returned until they change."""
        return self._refresh().ranges

    def read(self, address: int, size: int) -> bytes:
        """Return `size` bytes at `address`."""
        view = self._direct(address, size)
        if view is not None:
            return bytes(view)
        port = self._open(address, size, "read")
        self._gate.go_out()
        try:
            data = port.read(address, size)
        finally:
            self._gate.come_back()
        return data

    def write(self, address: int, data: bytes) -> None:
        """Store `data` at `address`."""
        view = self._direct(address, len(data))
        if view is not None and not view.readonly:
            view[:] = data
            return
        port = self._open(address, len(data), "write")
        self._gate.go_out()
        try:
            port.write(address, data)
        finally:
            self._gate.come_back()

    def word(self, address: int, size: int = WORD) -> int:
        """Return the `size` bytes at `address` as a little-endian number."""
        return int.from_bytes(self.read(address, size), "little")

    def host_range(self, address: int, size: int, *, write: bool = False) -> int | None:
        """Return the address in this process of the `size` bytes at physical `address`.

        Return None unless all of them are in shared memory that permits the access. `write` is True for a write.
        """
        view = self._direct(address, size)
        if view is None or (write and view.readonly):
            return None
        return int(np.frombuffer(view, dtype=np.uint8).ctypes.data)

    def _direct(self, address: int, size: int) -> memoryview | None:
        shared = self._refresh()
        index = bisect_right(shared.bases, address) - 1
        if index < 0:
            return None
        found = shared.ranges[index]
        view, start = found.view, address - found.base
        return view[start : start + size] if start + size <= view.nbytes else None

    def _refresh(self) -> _Shared:
        """Ask the DMA port for its shared ranges again, store them, and return them.

        If `connect` replaces the port in the meantime, ask the new port."""
        shared = self._shared
        for _ in range(2):
            port = self._port
            ranges = port.direct() if port is not None else NOTHING.ranges
            if ranges is shared.ranges:
                break
            shared = self._shared = _Shared(ranges, [each.base for each in ranges])
        return shared

    def _open(self, address: int, size: int, access: str) -> DmaPort:
        if self._port is None or address + size > U64 + 1:
            raise AccessFault(
                f"DMA {access} of {size} bytes at {address:#x}: no memory there", address=address, access=access
            )
        return self._port


def explained(fault: AccessFault, what: str, rule: Rule) -> AccessFault:
    """Return an `AccessFault` with the rule that the driver violated when the device's access `fault` failed.

    `what` describes the failed operation, for the message. The rule is `rule`, unless `fault` has a rule of the
    PCI bus, for example that a driver must enable bus mastering."""
    if fault.rule is not None and fault.rule.id.startswith("pci/"):
        rule = fault.rule
    return AccessFault(f"{what}: {fault.message}", address=fault.address, access=fault.access, rule=rule)


# ---- page tables -----------------------------------------------------------------------------------------------------
# Page tables: the translation of a buffer's virtual addresses to physical ones.


PAGE_BITS: Final = 12


class PageFault(AccessFault):
    """The error for a virtual address, in the attribute `address`, that a page table does not map."""


def read_entries(memory: Memory, table: int, address: int, size: int) -> bytes:
    """Return `size` bytes at physical `address`, which lies in the page table at `table`.

    Raise `AccessFault` if the page table is not in memory.
    """
    try:
        return memory.read(address, size)
    except AccessFault as fault:
        raise explained(fault, f"cannot read the page table at {table:#x}", rules.TABLE_ADDRESS) from fault


def not_presented(table: int, virtual: int, entry: int) -> PageFault:
    """Return the error for a `virtual` address whose page table entry, the word `entry`, is not present.

    `table` is the address of the page table.
    """
    if virtual >= BUFFER_BYTES:
        return _fault(
            f"virtual address {virtual:#x} is too large, expected less than {BUFFER_BYTES:#x} (22 bits)",
            virtual,
            rules.VIRTUAL_22_BIT,
        )
    return _fault(
        f"virtual address {virtual:#x}: entry {virtual >> PAGE_BITS} of the page table at {table:#x} is {entry:#010x}, "
        "expected PRESENT (bit 0)",
        virtual,
        rules.PTE_PRESENT,
    )


def no_page(memory: Memory, table: int, virtual: int, fault: AccessFault) -> AccessFault:
    """Return the error for a `virtual` address whose page is not memory that permits the access.

    `fault` is the fault of the access to the page; `table` is the address of the page table.
    """
    index = virtual >> PAGE_BITS
    page = fault.address & ~PAGE_MASK
    entry = page >> PTE_SHIFT | PTE_PRESENT
    with suppress(AccessFault):  # the entry has more bits, unless it was changed since
        now = memory.word(table + index * PTE_BYTES)
        entry = now if now & (PTE_FRAME_MASK | PTE_PRESENT) == entry else entry
    return explained(
        fault,
        f"virtual address {virtual:#x}: entry {index} of the page table at {table:#x} is {entry:#010x}, "
        f"expected a page of memory, not {page:#x}",
        rules.PTE_PA,
    )


def check_table(table: int) -> None:
    """Raise `PageFault` unless `table` is a page-aligned address of at most 40 bits."""
    if table > MAX_TABLE:
        text = f"page table address {table:#x} is too large, expected at most 40 bits"
        raise _fault(text, table, rules.PHYSICAL_40_BIT)
    if table & PAGE_MASK:
        raise _fault(
            f"page table address {table:#x} is not aligned, expected a multiple of 4 KiB", table, rules.TABLE_ADDRESS
        )


def _fault(message: str, address: int, rule: Rule) -> PageFault:
    return PageFault(message, address=address, access="translate", rule=rule)
