"""Main memory as Acceldev reaches it: by the shared ranges of the DMA port where there are any, else by its calls."""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections import deque
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import numpy as np

from understudy.core.errors import AccessFault
from understudy.core.pci import DirectRange, DmaPort
from understudy.core.rule import Rule
from understudy.core.words import U64

WORD: Final = 4


class Aborted(Exception):  # no error: a reset takes the ground from under a command
    """The device was reset while this command ran: nothing more of it may happen."""


class WantedLock:
    """A reentrant lock that knows whether a thread waits for it.

    Python's own locks are not fair: a thread that lets one go and takes it again at once is faster than any that is
    still being woken. Whoever takes this one over and over looks at `is_wanted` in between.
    """

    def __init__(self, arrived: Callable[[], None]) -> None:
        """`arrived` is called by a thread that had to wait, when it holds the lock."""
        self._lock = threading.RLock()
        self._waiting: deque[None] = deque()
        """One entry for each thread that waits: adding and removing is safe without a lock."""
        self._arrived = arrived
        self.release = self._lock.release

    @property
    def is_wanted(self) -> bool:
        """Whether a thread waits."""
        return bool(self._waiting)

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """Take it, as of `threading.RLock`."""
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
        """What a `threading.Condition` asks of a reentrant lock in order to wait."""
        return getattr(self._lock, name)


class Gate:
    """Keeps what executes commands apart from a reset.

    `lock` guards all state of the device and is never held during DMA. One thread executes at a time; between two steps
    those go first that wait for the lock (`let_others_go_first`). After `close_all` nothing that executed before can
    reach memory: it is interrupted at its next access or `check`, and the one access that can be under way then is a
    call of the DMA port, which might need the resetting thread in order to end.
    """

    def __init__(self) -> None:
        self.lock = WantedLock(lambda: self.changed.notify_all())
        self.changed = threading.Condition(self.lock)  # type: ignore[arg-type]
        self._epoch = 0
        self._entered: int | None = None
        self._owner = 0
        self._outside = False

    def after_fork(self) -> bool:
        """In a child process: nobody holds the lock; whether another thread was amid a command."""
        lost = not self.is_at_rest
        self.lock = WantedLock(lambda: self.changed.notify_all())
        self.changed = threading.Condition(self.lock)  # type: ignore[arg-type]
        if lost:
            self._entered, self._owner, self._outside = None, 0, False
        return lost

    def let_others_go_first(self) -> None:
        """Wait until nobody else wants the lock. The caller holds it, once."""
        self.changed.wait_for(lambda: not self.lock.is_wanted)

    def enter(self) -> None:
        """This thread begins to execute."""
        with self.lock:
            self._entered, self._owner = self._epoch, threading.get_ident()

    def leave(self) -> None:
        """It has stopped to execute."""
        with self.changed:
            self._entered, self._owner, self._outside = None, 0, False
            self.changed.notify_all()

    @property
    def is_entered(self) -> bool:
        """Whether a thread executes."""
        return self._entered is not None

    @property
    def is_at_rest(self) -> bool:
        """Whether no other thread executes."""
        return self._entered is None or self.mine

    @property
    def is_outside(self) -> bool:
        """Whether a call of the DMA port is under way."""
        return self._outside

    @property
    def mine(self) -> bool:
        """Whether the calling thread is the one that executes."""
        return self._owner == threading.get_ident()

    def check(self) -> None:
        """`Aborted` if the device was reset since `enter`."""
        if self._entered != self._epoch:
            raise Aborted

    def go_out(self) -> None:
        """A call of the DMA port begins."""
        with self.changed:
            if self._entered is not None:
                self.check()
                self._outside = True
                self.changed.notify_all()

    def come_back(self) -> None:
        """It has ended."""
        with self.lock:
            self._outside = False
            if self._entered is not None:
                self.check()

    def close_all(self) -> None:
        """Interrupt what executes, and wait until it cannot reach memory any more."""
        with self.changed:
            self._epoch += 1
            if not self.mine:
                self.changed.wait_for(lambda: self._entered in (None, self._epoch) or self._outside)


class _Shared(NamedTuple):
    """Shared ranges and their bases, replaced together: another thread may do so at any time."""

    ranges: tuple[DirectRange, ...]
    bases: list[int]


NOTHING: Final = _Shared((), [])


class Memory:
    """Bytes at physical addresses. Every refusal is an `AccessFault` with the address."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate
        self._port: DmaPort | None = None
        self._shared = NOTHING

    def connect(self, port: DmaPort) -> None:
        """Use this port from now on, and let go of ranges that are gone."""
        self._port = port
        self._shared = NOTHING

    @property
    def ranges(self) -> tuple[DirectRange, ...]:
        """The shared ranges of this moment; the same object as long as they stay."""
        return self._refresh().ranges

    def read(self, address: int, size: int) -> bytes:
        """`size` bytes at `address`."""
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
        """The little-endian word of `size` bytes at `address`."""
        return int.from_bytes(self.read(address, size), "little")

    def host_range(self, address: int, size: int, *, write: bool = False) -> int | None:
        """Address in this process of `size` bytes at `address`; None where they are not shared (that way)."""
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
        """The ranges of this moment. They are looked at again once kept: `connect` may have been faster."""
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
    """A failed access of the device's own as the driver's mistake that it is: `what` led there, and breaks `rule`.

    Rules of the PCI bus stay, such as that a driver must enable bus mastering.
    """
    if fault.rule is not None and fault.rule.id.startswith("pci/"):
        rule = fault.rule
    return AccessFault(f"{what}: {fault.message}", address=fault.address, access=fault.access, rule=rule)
