"""The threads that serve the queues of one agent, and the doorbells that they poll.

One thread serves the queues of AQL packets. Another one serves the copy queues, so that copies run during kernels. A
third one serves the queues of PM4 commands.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable
from functools import cache
from typing import Any, Final, Protocol

import numpy as np
import numpy.typing as npt

from softcard.core.errors import RuleError, SoftcardError
from softcard.device.hsa.device import HsaDevice
from softcard.device.hsa.settings import STRICT
from softcard.device.kfd.shared_memory import DOORBELL_BYTES
from softcard.ir.native import U64, V32, V64, link, native
from softcard.ir.object_cache import ObjectCache, default_folder

# ---- doorbells -------------------------------------------------------------------------------------------------------
# Doorbells are memory of the program: threads that serve queues poll them.


SLOTS: Final = 1024
NEVER_RUNG: Final = (1 << 64) - 1


@native
def find_rung(places: int, seen: int, count: int, narrow: int, rounds: int) -> int:
    """Return the index of the first of `count` doorbells whose value differs from the value last seen.

    `places` is the address of an array of doorbell addresses, `seen` that of an array of the values last seen.
    Doorbells have 32 bits if `narrow` is nonzero, else 64 bits. Poll all doorbells up to `rounds` times; return
    `count` if no value differs."""
    for _ in range(rounds):
        for each in range(count):
            place = U64.at(places)[each]
            now = V32[place] if narrow else V64[place]
            if now != U64.at(seen)[each]:
                return each
    return count


@cache
def _find_rung() -> Callable[..., int]:
    """Return `find_rung` as machine code, which releases the GIL."""
    word = ctypes.c_uint64
    code = link(ObjectCache(default_folder()), find_rung)
    found: Callable[..., int] = code.function(find_rung.name, word, *[word] * 5)
    return found


class Doorbells:
    """The doorbells of one agent, which one thread polls. `page` is the shared memory that holds the doorbells."""

    def __init__(self, page: npt.NDArray[np.uint8], *, is_legacy: bool) -> None:
        self._narrow = int(is_legacy)
        self._width = 4 if is_legacy else DOORBELL_BYTES // SLOTS
        self._words: Any = page.view(np.uint32 if is_legacy else np.uint64)
        self._base = int(page.ctypes.data)
        self._slots: list[int] = []
        self._places = self._seen = np.zeros(0, np.uint64)

    def offset(self, slot: int) -> int:
        """Return the offset in bytes of doorbell number `slot` in the page of doorbells."""
        return slot * self._width

    def clear(self, slot: int, value: int) -> None:
        """Set a doorbell to `value`, which programs never store, before its queue starts."""
        self._words[slot] = value

    def value(self, slot: int) -> int:
        """Return the current value of a doorbell."""
        return int(self._words[slot])

    def watch(self, slots: dict[int, int]) -> None:
        """Set the doorbells to poll: `slots` has the value last seen of each, by doorbell number."""
        self._slots = list(slots)
        self._places = np.array([self._base + self.offset(slot) for slot in slots], np.uint64)
        self._seen = np.array(list(slots.values()), np.uint64)

    def next(self, rounds: int) -> tuple[int, int] | None:
        """Return a doorbell that was rung, and its value; None if none was rung in `rounds` rounds of polling."""
        count = len(self._slots)
        if not count:
            return None
        found = _find_rung()(self._places.ctypes.data, self._seen.ctypes.data, count, self._narrow, rounds)
        if found == count:
            return None
        value = int(self._words[self._slots[found]])
        self._seen[found] = value
        return self._slots[found], value


# ---- threads ---------------------------------------------------------------------------------------------------------


POLLS: Final = 20_000
"""The number of polls of doorbells after recent work: some 50 us. A thread that has slept polls once."""
SHORT_SECONDS: Final = 50e-6
LONG_SECONDS: Final = 500e-6
SHORT_SLEEPS: Final = 200
"""The number of short sleeps of an idle polling thread, before it sleeps longer between polls.

A program that was busy a moment ago is therefore served sooner.
"""


class Engine(Protocol):
    """The interface of an executor of queues' work, which runs on the thread that serves the queues."""

    def ring(self, slot: int, value: int) -> None:
        """Handle a doorbell that was rung, with its new value."""

    def work(self) -> int:
        """Do the work that is possible now; return the number of packets processed."""

    @property
    def has_work(self) -> bool:
        """True if packets remain that have to wait."""


class AqlEngine:
    """An executor of AQL packets on an HSA device."""

    def __init__(self, device: HsaDevice) -> None:
        self._device = device

    def poll_during_kernels(self, poll: Callable[[], None]) -> None:
        """Arrange that `poll` is called regularly while a kernel runs, and that other queues are served then."""
        if self._device.settings.coherence != STRICT:
            self._device.poll_during_kernels(poll)

    def ring(self, slot: int, value: int) -> None:
        """Handle a doorbell that was rung; ignore it if its program has ended."""
        try:
            self._device.ring_doorbell(slot, value)
        except RuleError:
            if not self._device.is_closed:  # closing the device ends its kernel first, and this thread after that
                raise

    def work(self) -> int:
        """Process the packets that can run now; return their number."""
        return self._device.process()

    @property
    def has_work(self) -> bool:
        """True if packets remain. A queue with an error continues when the program has handled the error."""
        return any(queue.pending for queue in self._device.queues)


class Ring(Protocol):
    """The interface of a queue whose ring a `RingEngine` executes: SDMA packets or PM4 commands."""

    number: int

    def ring(self, value: int) -> None:
        """Handle a store of `value` to the queue's doorbell."""

    @property
    def has_work(self) -> bool:
        """True if submitted packets remain, whether they can run or have to wait."""

    def work(self) -> int:
        """Execute packets until one has to wait; return the number of packets executed."""


class RingEngine:
    """An executor of queues that are rings; it finds a queue by the number of its doorbell.

    If a queue stops because of an error, `failed` is called with the queue and the error."""

    def __init__(self, failed: Callable[[Ring, SoftcardError], None]) -> None:
        self._queues: dict[int, Ring] = {}
        self._lock = threading.Lock()
        self._failed = failed

    def add(self, queue: Ring) -> None:
        """Execute the packets of a queue from now on."""
        self._queues[queue.number] = queue

    def remove(self, number: int) -> None:
        """Stop executing the packets of a queue; the packet in progress ends first."""
        self._queues.pop(number, None)
        with self._lock:
            pass

    def ring(self, slot: int, value: int) -> None:
        """Handle a doorbell that was rung, with its new value."""
        queue = self._queues.get(slot)
        if queue is not None:
            queue.ring(value)

    def work(self) -> int:
        """Execute the packets that can run now; return their number."""
        done = 0
        with self._lock:
            for queue in tuple(self._queues.values()):
                try:
                    done += queue.work()
                except SoftcardError as error:
                    self._failed(queue, error)
        return done

    @property
    def has_work(self) -> bool:
        """True if packets remain that have to wait."""
        return any(queue.has_work for queue in tuple(self._queues.values()))


class Service:
    """A thread that polls doorbells and runs an engine. The thread starts when the first queue is added."""

    def __init__(self, engine: Engine, doorbells: Doorbells, name: str) -> None:
        self._engine = engine
        self._doorbells = doorbells
        self._name = name
        self._slots: dict[int, int] = {}
        self._lock = threading.Lock()
        self._is_changed = self._is_closed = False
        self._thread: threading.Thread | None = None
        self._pause = threading.Event()
        self.others: list[Service] = []
        """The other services, whose packets may wait for work of this service; they are woken after it."""
        self.failure: BaseException | None = None
        """The exception that ended the thread, or None."""

    def add(self, slot: int, value: int) -> None:
        """Start to poll doorbell `slot`, whose queue is new; `value` is the initial value of the doorbell."""
        self._doorbells.clear(slot, value)
        with self._lock:
            self._slots[slot] = value
            self._is_changed = True
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
                self._thread.start()

    def remove(self, slot: int) -> None:
        """Stop polling a doorbell."""
        with self._lock:
            self._slots.pop(slot, None)
            self._is_changed = True

    def wake(self) -> None:
        """Wake the thread after a change that may allow a waiting packet to continue."""
        if self._engine.has_work:
            self._pause.set()

    def close(self) -> None:
        """End the thread; if it is processing a packet, wait for the end of this processing."""
        self._is_closed = True
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        try:
            self._serve()
        except BaseException as failure:
            self.failure = failure
            raise

    def _serve(self) -> None:
        sleeps = 0
        while not self._is_closed:
            if self._is_changed:
                self._watch()
            rung = self._ring(1 if sleeps else POLLS)
            if (rung or self._engine.has_work) and self._engine.work():
                sleeps = 0
                for other in self.others:
                    other.wake()
            elif not rung:
                sleeps += 1
                self._pause.wait(SHORT_SECONDS if sleeps < SHORT_SLEEPS else LONG_SECONDS)
                self._pause.clear()

    def poll(self) -> None:
        """Pass all rung doorbells to the engine.

        This is called on the service's thread while a long packet is processed."""
        if self._is_changed:
            self._watch()
        while self._ring(1):
            pass

    def _ring(self, polls: int) -> bool:
        """Pass one rung doorbell to the engine; return False if none was rung in `polls` rounds of polling."""
        rung = self._doorbells.next(polls)
        if rung is None:
            return False
        with self._lock:
            is_watched = rung[0] in self._slots
            if is_watched:
                self._slots[rung[0]] = rung[1]
        if is_watched:
            self._engine.ring(*rung)
        return True

    def _watch(self) -> None:
        with self._lock:
            self._is_changed = False
            self._doorbells.watch(self._slots)
