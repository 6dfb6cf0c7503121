"""The host as a party of races: which kernels it has not waited for, and what it does to their memory meanwhile.

What tells the host that a kernel is over is its completion signal, once it is read behind the kernel's end: by a wait,
a load, or an operation that gives the value before. So does that of a packet that waited for the kernel, by its barrier
bit or by the kernel's signal, and those of packets behind such a one. An atomic of the kernel's that the host reads
tells it, too. Kernels of queues that somebody else made are not looked at: their host is another program, which nobody
sees.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import Final

from understudy.engine.gcn.races.telling import FREE, LOAD, STORE
from understudy.engine.gcn.races.watch import RaceWatch

MOST_DEFERRED: Final = 1 << 16
"""Different accesses during one kernel that are looked at behind it."""


class HostOrder:
    """What the host of one device knows of its kernels. `is_host`: whether who calls is the host, not the device."""

    def __init__(self, races: RaceWatch, is_host: Callable[[], bool]) -> None:
        self._races = races
        self._is_host = is_host
        self._lock = threading.RLock()
        self._unseen = races.launches.unseen
        self._of: dict[int, set[int]] = {}
        """By queue: its kernels that the host has not waited for."""
        self._behind: dict[int, set[int]] = {}
        """By queue: those that its packets have waited for."""
        self._says: dict[int, set[int]] = {}
        """By signal: those that are over where it has been completed."""
        self._running = 0
        self._deferred: dict[tuple[str, int, int], None] = {}

    # ---- packets -------------------------------------------------------------------------------------------------
    @contextmanager
    def kernel(self, queue: int, *, is_barred: bool) -> Iterator[None]:
        """A kernel of a queue runs in here, which has just begun as a launch; `is_barred`: by a packet with the barrier
        bit."""
        launch = self._races.launches.present.number
        with self._lock:
            self._running += 1
            own, behind = self._of.setdefault(queue, set()), self._behind.setdefault(queue, set())
            behind |= own if is_barred else set()
            own.add(launch)
            self._unseen.add(launch)
        try:
            yield
        except BaseException:
            with self._lock:
                self._know({launch})  # whoever hears of the error knows that it is over
            raise
        finally:
            with self._lock:
                self._running -= 1
                if not self._running:
                    deferred, self._deferred = self._deferred, {}
                    for each in deferred:
                        self._judge(*each)

    def waited(self, queue: int, signals: Collection[int] | None, *, is_barred: bool) -> None:
        """A packet of a queue that is no kernel is over: it has waited for these signals; None: for whatever."""
        with self._lock:
            known = set(self._unseen) if signals is None else set()
            for signal in signals or ():
                known |= self._says.get(signal, self._unseen)
            if is_barred:
                known |= self._of.get(queue, set())
            self._behind.setdefault(queue, set()).update(known)

    def completes(self, queue: int, signal: int, *, is_kernel: bool) -> None:
        """The packet that has just run completes its signal next; `is_kernel`: it is that of the present launch."""
        with self._lock:
            own = {self._races.launches.present.number} if is_kernel else set()
            self._says.setdefault(signal, set()).update(self._behind.get(queue, set()) | own)

    def destroyed(self, queue: int) -> None:
        """A queue was destroyed: none of its kernels runs any more."""
        with self._lock:
            self._know(set(self._of.get(queue, ())))

    # ---- the host ------------------------------------------------------------------------------------------------
    def saw(self, signal: int) -> None:
        """The host has read the value of a signal."""
        if self._says and self._is_host():
            with self._lock:
                self._know(self._says.pop(signal, set()))

    def saw_all(self) -> None:
        """The host knows that nothing runs."""
        with self._lock:
            self._know(set(self._unseen))

    def reads(self, address: int, size: int) -> None:
        """The host reads memory, or asks for a view of it."""
        self._access(LOAD, address, size)

    def writes(self, address: int, size: int) -> None:
        """It writes memory."""
        self._access(STORE, address, size)

    def frees(self, address: int, size: int) -> None:
        """It gives memory back."""
        self._access(FREE, address, size)

    # ---- parts ---------------------------------------------------------------------------------------------------
    def _access(self, access: str, address: int, size: int) -> None:
        if not self._unseen or not size or not self._is_host():
            return
        with self._lock:
            if not self._running:
                self._judge(access, address, size)
            elif len(self._deferred) < MOST_DEFERRED:
                self._deferred[access, address, size] = None

    def _judge(self, access: str, address: int, size: int) -> None:
        self._know(self._races.host(access, address, size))

    def _know(self, launches: set[int]) -> None:
        """The host knows of kernels that they are over."""
        if not launches:
            return
        self._unseen -= launches
        for table in (self._of, self._behind, self._says):
            for known in table.values():
                known -= launches
        for signal in [signal for signal, known in self._says.items() if not known]:
            del self._says[signal]
