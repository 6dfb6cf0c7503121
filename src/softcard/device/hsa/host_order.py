"""The host's accesses in the race detector: tracks the kernels for which the host has not waited.

The host learns from a kernel's completion signal that the kernel is done, if it reads the signal after the
kernel's end. Such a read is a wait, a load, or an operation that returns the previous value. The signal of a
later packet has the same effect if that packet waited for the kernel, by its barrier bit or by the kernel's
signal. The same holds for the signals of packets after that one. A read of the result of an atomic operation
of the kernel also orders the host after that operation. Kernels of adopted queues are not tracked: their host
is another program, whose accesses are not observed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import Final

from softcard.engine.gcn.hooks import FREE, LOAD, STORE, Check, Tracker

MOST_DEFERRED: Final = 1 << 16
"""The maximum number of different host accesses during one kernel that can be checked at the kernel's end."""


class HostOrder(Check):
    """The happens-before state of one device's host: the kernels whose end the host knows.

    `is_host` returns True if the calling thread belongs to the host, not to the device."""

    def __init__(self, tracker: Tracker, is_host: Callable[[], bool]) -> None:
        self._tracker = tracker
        self._is_host = is_host
        self._lock = threading.RLock()
        self._unseen = tracker.launches.unseen
        self._of: dict[int, set[int]] = {}
        """For each queue, its kernels that the host does not yet know to be done."""
        self._awaited: dict[int, set[int]] = {}
        """For each queue, the kernels for which its packets have waited."""
        self._announced: dict[int, set[int]] = {}
        """For each signal, the kernels that the host knows to be done once it has read the completed signal."""
        self._running = 0
        self._deferred: dict[tuple[str, int, int], None] = {}

    # ---- packets -------------------------------------------------------------------------------------------------
    @contextmanager
    def kernel(self, queue: int, *, is_barred: bool) -> Iterator[None]:
        """Track a kernel of `queue` that runs during the ``with`` block: the launch that the race tracker began last.

        `is_barred` is True if the kernel's packet has the barrier bit."""
        launch = self._tracker.launches.present.number
        with self._lock:
            self._running += 1
            own, awaited = self._of.setdefault(queue, set()), self._awaited.setdefault(queue, set())
            awaited |= own if is_barred else set()
            own.add(launch)
            self._unseen.add(launch)
        try:
            yield
        except BaseException:
            with self._lock:
                self._know({launch})  # the receiver of the error knows that the kernel is done
            raise
        finally:
            with self._lock:
                self._running -= 1
                if not self._running:
                    deferred, self._deferred = self._deferred, {}
                    for each in deferred:
                        self._detector(*each)

    def waited(self, queue: int, signals: Collection[int] | None, *, is_barred: bool) -> None:
        """Record that a packet that is not a kernel dispatch is done. The packet has waited for `signals`.

        `signals` is None if they are unknown. `is_barred` is True if the packet has the barrier bit."""
        with self._lock:
            known = set(self._unseen) if signals is None else set()
            for signal in signals or ():
                known |= self._announced.get(signal, self._unseen)
            if is_barred:
                known |= self._of.get(queue, set())
            self._awaited.setdefault(queue, set()).update(known)

    def completes(self, queue: int, signal: int, launch: int | None) -> None:
        """Record that a packet of `queue` is done and is about to change its completion signal.

        `signal` is the signal's address. `launch` is the number of the packet's kernel, or None if the packet has
        no kernel."""
        with self._lock:
            own = set() if launch is None else {launch}
            self._announced.setdefault(signal, set()).update(self._awaited.get(queue, set()) | own)

    def destroyed(self, queue: int) -> None:
        """Record that `queue` was destroyed, so that none of its kernels is running any more."""
        with self._lock:
            self._know(set(self._of.get(queue, ())))

    # ---- the host ------------------------------------------------------------------------------------------------
    def signal_was_read(self, signal: int) -> None:
        """Record that the host has read the signal at address `signal`, and so knows which kernels are done."""
        if self._announced and self._is_host():
            with self._lock:
                self._know(self._announced.pop(signal, set()))

    def nothing_runs(self) -> None:
        """Record that the host knows that no kernel is running."""
        with self._lock:
            self._know(set(self._unseen))

    def forget(self) -> None:
        """Forget all earlier kernels, because the device was reset or restored."""
        self.nothing_runs()

    def host_reads(self, address: int, size: int) -> None:
        """Check a read by the host of `size` bytes at `address` for races."""
        self._access(LOAD, address, size)

    def host_views(self, address: int, size: int) -> None:
        """Check a request by the host for a view of memory for races, as if the host read all of the view."""
        self._access(LOAD, address, size)

    def host_writes(self, address: int, size: int) -> None:
        """Check a write by the host of `size` bytes at `address` for races."""
        self._access(STORE, address, size)

    def host_frees(self, address: int, size: int) -> None:
        """Check for races when the host frees `size` bytes at `address`."""
        self._access(FREE, address, size)

    # ---- helpers ---------------------------------------------------------------------------------------------------
    def _access(self, access: str, address: int, size: int) -> None:
        if not self._unseen or not size or not self._is_host():
            return
        with self._lock:
            if not self._running:
                self._detector(access, address, size)
            elif len(self._deferred) < MOST_DEFERRED:
                self._deferred[access, address, size] = None

    def _detector(self, access: str, address: int, size: int) -> None:
        self._know(self._tracker.host(access, address, size))

    def _know(self, launches: set[int]) -> None:
        """Record that the host knows that the kernels with the numbers `launches` are done."""
        if not launches:
            return
        self._unseen -= launches
        for table in (self._of, self._awaited, self._announced):
            for known in table.values():
                known -= launches
        for signal in [signal for signal, known in self._announced.items() if not known]:
            del self._announced[signal]
