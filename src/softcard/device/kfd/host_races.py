"""Races between loads and stores of a program on the host and the work of its GPUs.

Two kinds of races are found. In the first kind, work that writes memory was submitted, and the host
accesses this memory before the work has begun. In the second kind, work that reads pinned memory was
submitted, and the host stores to this memory before the work has read it.

Pinned and managed memory is saved at each submission of work to a stream. When a packet of that work has
run, and before the host can learn this, the memory is compared with the saved contents. Bytes that
differ, and that no kernel or copy engine has written, are stores of the host that are not ordered with
the packet.

The program's shim (a library in the program) reports accesses to memory that work writes; see
`HostAccesses`."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt

from softcard.device.hsa.device import HsaDevice
from softcard.device.kfd.client import Client
from softcard.device.kfd.ioctls import Refused
from softcard.engine.gcn.hooks import LOAD, STORE, Tracker, Unordered

# ---- accesses before work has begun ----------------------------------------------------------------------------------
# Races of a program's own loads and stores with its GPUs: accesses before the work that writes the memory has begun.
#
# The program's shim reports the first access to each page after work was given to a stream. While a kernel or a copy
# has not begun, nothing can have told the program that it is over: where it then writes the byte, nothing orders the
# two, unless the work has waited for the program. So all accesses are forgotten when a function of the host has run
# that a stream waits for, and when a kernel or packet has read a word that the program may have stored.


MOST: Final = 4096
"""The maximum number of recorded accesses; further accesses are not checked until recorded ones are dropped."""


@dataclass(slots=True, eq=False)
class Access:
    """An access to one byte by the program on the host. `address` is the one that agents use for the byte.

    `work` maps a queue to the range of its packets (start and end) that had not begun at the time of the access.
    `is_compared` is True for memory whose contents are also saved and compared, to find host stores that race
    with reads by work."""

    address: int
    is_store: bool
    is_compared: bool
    work: dict[int, tuple[int, int]]

    def is_before(self, queue: int, index: int) -> bool:
        """Return True if packet `index` of a queue had not begun at the time of the access."""
        start, end = self.work.get(queue, (0, 0))
        return start <= index < end

    @property
    def kind(self) -> str:
        """The kind of the access: `STORE` or `LOAD`."""
        return STORE if self.is_store else LOAD


class HostAccesses:
    """The recorded accesses of one program to memory that unfinished work may access later.

    `pending` returns, for each queue, the range of packets that have not ended. `report` is called with a reason
    if some accesses cannot be checked. Methods must not wait for a kernel: the program waits until `touched`
    returns, and a kernel may wait for the program."""

    def __init__(self, pending: Callable[[], dict[int, tuple[int, int]]], report: Callable[[str], None]) -> None:
        self._pending = pending
        self._report = report
        self._lock = threading.Lock()
        self._accesses: list[Access] = []
        self._running: dict[int, int] = {}
        """The index of the kernel packet that is running in each queue."""
        self._is_reported = False

    def touched(self, addresses: Iterable[int], *, is_store: bool, is_compared: bool) -> None:
        """Record an access to one byte by the program on the host.

        `addresses` are those by which agents access the byte."""
        with self._lock:
            work = {}
            for queue, (start, end) in self._pending().items():
                first = max(start, self._running[queue] + 1) if queue in self._running else start
                if first < end:
                    work[queue] = first, end
            if not work or len(self._accesses) >= MOST:
                return
            self._accesses += [Access(each, is_store, is_compared, work.copy()) for each in addresses]

    def refused(self, reason: str) -> None:
        """Report, only once, the reason why the shim in the program cannot observe some or all accesses."""
        if not self._is_reported:
            self._is_reported = True
            self._report(f"host accesses to memory that kernels and copies write are not all checked: {reason}")

    def accept(self) -> None:
        """Drop all recorded accesses, because a packet has waited for the host.

        The accesses therefore happen before the remaining work."""
        with self._lock:
            self._accesses.clear()

    def begin(self, queue: int, index: int) -> bool:
        """Record that the kernel of packet `index` begins.

        Return True if the host made one of the recorded accesses between the submission of the packet and now."""
        with self._lock:
            self._running[queue] = index
            return any(each.is_before(queue, index) for each in self._accesses)

    def end(self, tracker: Tracker, queue: int, index: int, launch: int) -> None:
        """Report conflicts between a kernel that has run and accesses that the host made before the kernel began.

        `launch` is the number of the kernel in the race detector. A load of a flag, which is a word that the kernel
        stores alone, is not reported: a host that waits for the flag may load it before the kernel begins."""
        with self._lock:
            self._running.pop(queue, None)
            accesses = self._take(queue, index)
        for each in accesses:
            for other in tracker.unordered(each.kind, each.address, 1):
                is_known = each.is_compared and other.access == LOAD
                may_be_atomic = other.is_atomic or (each.kind == LOAD and other.is_word)
                if other.launch == launch and not may_be_atomic and not is_known:
                    tracker.report_unordered(each.kind, other, is_exact=False)

    def copied(self, tracker: Tracker, queue: int, position: int, to: int, source: int, size: int) -> None:
        """Report conflicts between a copy packet that has run and accesses that the host made before the packet began.

        The copy engine has copied `size` bytes from `source` to `to`."""
        with self._lock:
            accesses = self._take(queue, position)
        for each in accesses:
            memory = f"{'pinned' if each.is_compared else 'device'} memory"
            if to <= each.address < to + size:
                tracker.report_copy(each.kind, STORE, each.address, 0, memory)
            elif source <= each.address < source + size and each.is_store and not each.is_compared:
                tracker.report_copy(each.kind, LOAD, each.address, 0, memory)

    def _take(self, queue: int, index: int) -> list[Access]:
        """Return the accesses that the host made after the submission of packet `index` and before the packet began.

        Then delete the records that no later packet needs: those of accesses that precede no other unfinished
        packet."""
        found = [each for each in self._accesses if each.is_before(queue, index)]
        for each in self._accesses:
            if queue in each.work and each.work[queue][1] <= index + 1:
                del each.work[queue]
        self._accesses = [each for each in self._accesses if each.work]
        return found


# ---- stores to memory that submitted work reads ----------------------------------------------------------------------


MOST_BYTES: Final = 16 << 20
"""The maximum number of bytes of one program's pinned memory that are saved and compared."""
MOST_COPIES: Final = 16
"""The maximum number of different saved contents of pinned memory; if there are more, the oldest are dropped."""
MOST_RUNS: Final = 256
"""The maximum number of differing ranges in one comparison; if there are more, that memory is not compared."""
WORD_BYTES: Final = 8
"""The size in bytes of the memory word that a barrier-value packet waits for."""
GAP_BYTES: Final = 16
"""The number of equal bytes after which a further difference belongs to a new range."""

Bytes = npt.NDArray[np.uint8]
Seen = Callable[[int, int], list[tuple[int, int, int]]]
"""A function that returns the parts of the program's memory that agents have mapped.

It is `Allocations.seen_at`.
"""


@dataclass(frozen=True, slots=True)
class Pinned:
    """A range of pinned memory of the program: `size` bytes at `address`.

    `seen` has the parts that agents have mapped. Each part has the address that agents use, the program's
    address, and the size."""

    address: int
    size: int
    seen: tuple[tuple[int, int, int], ...]

    def by_agents(self, start: int, end: int) -> Iterator[tuple[int, int, int]]:
        """Yield those parts of the bytes from `start` to `end` that agents have mapped.

        Each part has the address that agents use, its start and its end. `start`, `end` and those of the parts are
        offsets in this memory."""
        for theirs, address, size in self.seen:
            first, last = max(start, address - self.address), min(end, address + size - self.address)
            if first < last:
                yield theirs + first + self.address - address, first, last

    def parts(self, address: int, size: int) -> Iterator[tuple[int, int]]:
        """Yield the ranges of this memory that agents access when they access `size` bytes at `address`.

        Each range has a start and an end, which are offsets in this memory."""
        for theirs, own, count in self.seen:
            start, end = max(address, theirs), min(address + size, theirs + count)
            if start < end:
                first = start - theirs + own - self.address
                yield first, first + end - start


@dataclass(slots=True, eq=False)
class Copy:
    """The contents of pinned memory, saved when work was submitted to streams.

    `parts` maps the address of each range of pinned memory to its contents."""

    parts: dict[int, Bytes] = field(default_factory=dict)


class CopyEngineOrder:
    """The receiver of reports from the copy engines of one agent about their packets, for the race detection."""

    def __init__(self, order: PinnedOrder, device: HsaDevice) -> None:
        self._order = order
        self._device = device

    def copied(self, queue: int, position: int, to: int, source: int, size: int) -> None:
        """Check a copy packet that has ended. This must be called before the host can learn that the packet has ended.

        The copy engine has copied `size` bytes from `source` to `to`."""
        self._order.copied(self._device, queue, position, to, source, size)
        self._order.stored(to, size)

    def stored(self, to: int, size: int) -> None:
        """Record that a packet that has ended has written `size` bytes at `to`."""
        self._order.stored(to, size)


class PinnedOrder:
    """The pinned memory of one program and its saved contents, in order to find unordered stores of the host.

    `pending` returns, for each queue, the start and the end of the submitted packets that are not done. `report` is
    called with a reason if some memory is not compared.
    """

    def __init__(
        self,
        client: Client,
        seen: Seen,
        pending: Callable[[], dict[int, tuple[int, int]]],
        report: Callable[[str], None],
    ) -> None:
        self._client = client
        self._seen = seen
        self._work = pending
        self._report = report
        self._lock = threading.RLock()
        self._accesses = HostAccesses(pending, report)
        self._known: dict[int, Pinned] = {}
        self._bytes = 0
        self._pending: dict[int, list[tuple[int, Copy]]] = {}
        """For each queue, the saved contents that are in use, in ascending order of the index before each.

        The index is that after the last packet that was submitted when the contents were saved.
        """
        self._latest: deque[Copy] = deque()
        """The most recently saved contents, at most `MOST_COPIES`."""
        self._running: dict[tuple[int, int], bool] = {}
        """The running kernels, by queue and packet: True if memory was saved since the kernel began."""
        self._reported: set[str] = set()
        """The names of the limits that were exceeded and reported."""

    def of(self, device: HsaDevice) -> CopyEngineOrder:
        """Return the object to which the copy engines of `device` report their packets."""
        return CopyEngineOrder(self, device)

    # ---- actions of the program -----------------------------------------------------------------------------------
    def add(self, address: int, size: int) -> None:
        """Start to track `size` bytes at `address`, which the program has pinned."""
        seen = tuple(self._seen(address, size)) or ((address, address, size),)  # first: it waits for kernels
        with self._lock:
            self.remove(address)
            if not size:
                return
            if self._bytes + size > MOST_BYTES:
                self._exceeded(
                    "bytes",
                    f"the program has {self._bytes + size} bytes of pinned memory, but the check finds racing host "
                    f"stores only in {MOST_BYTES} bytes: stores from {address:#x} on are not checked, and stores to "
                    "memory that is pinned later may not be checked",
                )
                return
            self._known[address] = Pinned(address, size, seen)
            self._bytes += size

    def remove(self, address: int) -> None:
        """Stop tracking the memory at `address`, which is about to be freed."""
        with self._lock:
            found = self._known.pop(address, None)
            if found is None:
                return
            self._bytes -= found.size
            for copy in (*self._copies(), *self._latest):
                copy.parts.pop(address, None)

    def touched(self, address: int, *, is_store: bool) -> None:
        """Record an access of the program to the byte at `address`.

        The shim in the program reports only the first access after each call of `submitted`."""
        pinned = [each for each in tuple(self._known.values()) if each.address <= address < each.address + each.size]
        by_agents = [
            theirs
            for each in pinned
            for theirs, _, _ in each.by_agents(address - each.address, address - each.address + 1)
        ]
        self._accesses.touched(by_agents or [address], is_store=is_store, is_compared=bool(pinned))

    def refused(self, reason: str) -> None:
        """Report that the shim in the program cannot observe accesses, for the given reason."""
        self._accesses.refused(reason)

    def submitted(self) -> bool:
        """Save the contents of pinned memory after a submission of work.

        Stores that the host makes later do not happen before that work. Return True if some submitted work is not
        done."""
        self._copy()
        return bool(self._work())

    def _copy(self) -> None:
        """Save the contents of pinned memory for the work that was submitted after the previous call of this method."""
        with self._lock:
            if not self._known:
                return
            work = self._work()
            for number in tuple(self._pending):
                start = work.get(number, (0, 0))[0]
                kept = [each for each in self._pending[number] if each[0] > start] if number in work else []
                if kept:
                    self._pending[number] = kept
                else:
                    del self._pending[number]
            fresh = {
                number: end
                for number, (_, end) in work.items()
                if number not in self._pending or self._pending[number][-1][0] < end
            }
            if not fresh:
                return
            made = self._copied_now()
            self._running = dict.fromkeys(self._running, True)
            for number, end in fresh.items():
                self._pending.setdefault(number, []).append((end, made))
            if not self._latest or self._latest[-1] is not made:
                self._latest.append(made)

    def accept(self) -> None:
        """Treat all stores that the host has made so far as ordered before the remaining work.

        This is called when a stream has waited for the host."""
        self._accesses.accept()
        with self._lock:
            now = self._copied_now()
            for copy in self._copies():
                copy.parts = {address: data for address, data in now.parts.items() if address in copy.parts}

    # ---- actions of agents ------------------------------------------------------------------------------------------
    @contextmanager
    def kernel(self, device: HsaDevice, queue: int, index: int, launch: int) -> Iterator[None]:
        """Compare pinned memory at the end of the ``with`` block, in which the kernel of packet `index` runs.

        The comparison comes before the packet's completion signal, from which the host could learn that the kernel
        is done."""
        tracker = device.checks.tracker
        if tracker is None:
            yield
            return
        unseen, is_followed = tracker.launches.unseen, self._accesses.begin(queue, index) or bool(self._known)
        if is_followed:
            unseen.add(launch)
        with self._lock:
            self._running[queue, index] = False
        try:
            yield
            if tracker.launches.present.has_acquired:
                self._accesses.accept()  # by a word of the host's, for all that is known
            if is_followed:
                with self._lock:
                    self._compare(tracker, queue, index, launch)
        finally:
            with self._lock:
                del self._running[queue, index]
            self._accesses.end(tracker, queue, index, launch)
            unseen.discard(launch)

    def is_from_kernels(self, queue: int, index: int, address: int) -> bool:
        """Return True if no host store has changed the 8 bytes at `address` for which packet `index` waited.

        Return False if a host store has changed them or if this is unknown. In this case, everything that the host
        did before that store counts as ordered before the remaining work."""
        is_from_kernels = self._is_unchanged(queue, index, address)
        if not is_from_kernels:
            self.accept()
        return is_from_kernels

    def _is_unchanged(self, queue: int, index: int, address: int) -> bool:
        """Return True if the host has not changed the 8 bytes at `address` since it submitted packet `index`."""
        with self._lock:
            own = self._of(queue, index)
            for each in tuple(self._known.values()) if own is not None else ():
                for first, last in each.parts(address, WORD_BYTES):
                    before, now = None if own is None else own.parts.get(each.address), self._read(each)
                    return (
                        before is not None and now is not None and np.array_equal(before[first:last], now[first:last])
                    )
        return False

    def copied(self, device: HsaDevice, queue: int, position: int, to: int, source: int, size: int) -> None:
        """Check a copy packet of `queue` that a copy engine of `device` has executed, for races with host accesses.

        The copy engine has copied `size` bytes from `source` to `to`."""
        tracker = device.checks.tracker
        if tracker is None:
            return
        self._accesses.copied(tracker, queue, position, to, source, size)
        if not self._known:
            return
        with self._lock:
            own = self._of(queue, position)
            for each in tuple(self._known.values()) if own is not None else ():
                for first, last in each.parts(source, size):
                    before, now = None if own is None else own.parts.get(each.address), self._read(each)
                    if before is None or now is None:
                        continue
                    places = np.flatnonzero(before[first:last] != now[first:last])
                    if len(places):
                        start, end = int(places[0]), int(places[-1]) + 1
                        address, count = each.address + first + start, end - start
                        tracker.report_copy(STORE, LOAD, address, count, "pinned memory")

    def stored(self, to: int, size: int) -> None:
        """Record that a copy engine has written `size` bytes at `to`.

        The bytes are added to the saved contents, so that they do not count as stores of the host."""
        if not self._known:
            return
        with self._lock:
            for each in tuple(self._known.values()):
                for first, last in each.parts(to, size):
                    now = self._read(each)
                    for copy in self._copies():
                        before = copy.parts.get(each.address)
                        if before is not None and now is not None:
                            before[first:last] = now[first:last]

    # ---- helpers ---------------------------------------------------------------------------------------------------
    def _compare(self, tracker: Tracker, queue: int, index: int, launch: int) -> None:
        """Report the host's stores to memory that a finished kernel has read.

        The kernel's own stores are added to the saved contents, so that they do not count as stores of the host."""
        own, is_synchronized = self._of(queue, index), False
        found: list[Unordered] = []
        for each in tuple(self._known.values()) if self._pending else ():
            now = self._read(each)
            for copy in self._copies() if now is not None else ():
                before = copy.parts.get(each.address)
                if before is None or now is None or np.array_equal(before, now):
                    continue
                differs = before != now
                runs = _runs(differs, GAP_BYTES)
                if len(runs) > MOST_RUNS:
                    del copy.parts[each.address]
                    self._exceeded(
                        "runs",
                        f"{len(runs)} ranges of pinned memory at {each.address:#x} have changed while a kernel ran, of "
                        f"which up to {MOST_RUNS} are compared: findings about that memory may be missing, for this "
                        "kernel and for later ones",
                    )
                    continue
                for start, end in runs:
                    met = _accesses(tracker, launch, each, start, end)
                    # A kernel that waits for a word of the host's may infer from it that the rest is there, and so may
                    # work that waits for the kernel: hipStreamWaitValue is such a kernel. A host that waits for a word
                    # of the kernel's may infer from it that the kernel has read its inputs.
                    is_synchronized |= copy is own and any(one.is_atomic for one in met)
                    if any(one.access != LOAD for one in met):
                        before[start:end] = now[start:end]
                    elif copy is own and met:
                        read = _first_read(tracker, launch, each, start, differs[start:end])
                        found += [one for one in met if one.pc in read]
        if found and self._running[queue, index]:
            # The shim reports a submission after it was made: the copy may hold words that the kernel had stored.
            is_synchronized |= any(
                one.is_atomic and one.access != LOAD
                for each in tuple(self._known.values())
                for one in _accesses(tracker, launch, each, 0, each.size)
            )
        if is_synchronized:
            self.accept()
            # The host may have waited for any launch before it stored the word.
            tracker.wait(tracker.launches.present.queue, for_all=True)
            return
        for one in found:
            tracker.report_unordered(STORE, one, is_exact=True)

    def _of(self, queue: int, position: int) -> Copy | None:
        """Return the contents of pinned memory that were saved when the packet at `position` was submitted, or None.

        Drop the contents that were saved for earlier packets, which are done."""
        entries = self._pending.get(queue, [])
        while entries and entries[0][0] <= position:
            entries.pop(0)
        return entries[0][1] if entries else None

    def _copies(self) -> list[Copy]:
        """Return the saved contents that are still needed for work that is not done."""
        return list(dict.fromkeys(copy for entries in self._pending.values() for _, copy in entries))

    def _copied_now(self) -> Copy:
        """Return the current contents of all pinned memory.

        Unchanged ranges share their data with the latest saved contents.
        """
        latest = self._latest[-1] if self._latest else Copy()
        parts = {}
        for each in tuple(self._known.values()):
            now, known = self._read(each), latest.parts.get(each.address)
            if now is not None:
                parts[each.address] = known if known is not None and np.array_equal(known, now) else now
        if parts.keys() == latest.parts.keys() and all(parts[each] is latest.parts[each] for each in parts):
            return latest
        needed = set(map(id, self._copies()))
        while len(self._latest) >= MOST_COPIES:
            oldest = self._latest.popleft()
            oldest.parts.clear()
            if id(oldest) in needed:
                self._exceeded(
                    "copies",
                    f"the host has changed pinned memory {MOST_COPIES} times while earlier work of a stream waits: "
                    "host stores that race with that work, and with later work that waits as long, are not found",
                )
        return Copy(parts)

    def _exceeded(self, limit: str, text: str) -> None:
        """Report, only once for each limit, that host accesses are not checked because a limit is exceeded.

        `limit` is the name of the limit, `text` is the report."""
        if limit not in self._reported:
            self._reported.add(limit)
            self._report(text)

    def _read(self, pinned: Pinned) -> Bytes | None:
        """Return the current contents of `pinned`; None if the program has unmapped this memory."""
        data = np.empty(pinned.size, np.uint8)
        try:
            self._client.read_into(pinned.address, data.data)
        except Refused:
            self.remove(pinned.address)
            return None
        return data


def _accesses(tracker: Tracker, launch: int, pinned: Pinned, start: int, end: int) -> list[Unordered]:
    """Return the recorded accesses of a launch to the bytes from `start` to `end` of `pinned`."""
    return [
        met
        for address, first, last in pinned.by_agents(start, end)
        for met in tracker.unordered(STORE, address, last - first)
        if met.launch == launch
    ]


def _first_read(tracker: Tracker, launch: int, pinned: Pinned, start: int, differs: npt.NDArray[np.bool_]) -> set[int]:
    """Return the pcs of the instructions of `launch` that accessed changed bytes of `pinned`.

    `differs` has True for each changed byte from `start` on. Only accesses to the first range of changed bytes
    that the launch accessed are considered."""
    for first, last in _runs(differs, 1):
        if met := _accesses(tracker, launch, pinned, start + first, start + last):
            return {one.pc for one in met}
    return set()


def _runs(differs: npt.NDArray[np.bool_], gap: int) -> list[tuple[int, int]]:
    """Return the start and the end of each range of True values in `differs`.

    Ranges that are separated by fewer than `gap` False values are combined."""
    places = np.flatnonzero(differs)
    breaks = np.flatnonzero(np.diff(places) > gap)
    starts, ends = np.append(places[:1], places[breaks + 1]), np.append(places[breaks], places[-1:])
    return [(start, end + 1) for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]
