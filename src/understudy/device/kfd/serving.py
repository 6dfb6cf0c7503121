"""Threads that serve the queues of one agent: one for AQL packets, one for copies, which go on beside kernels."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final, Protocol

from understudy.core.errors import UnderstudyError
from understudy.device.hsa.device import HsaDevice
from understudy.device.hsa.settings import STRICT
from understudy.device.kfd.doorbells import Doorbells
from understudy.device.kfd.sdma import SdmaQueue

LOOKS: Final = 20_000
"""Looks at doorbells when there was something to do just before: some 50 us. A thread that has slept looks once."""
SHORT_SECONDS: Final = 50e-6
LONG_SECONDS: Final = 500e-6
SHORT_SLEEPS: Final = 200
"""Of which so many come first: a program that has just been busy is waited for closely."""


class Engine(Protocol):
    """What does the work of queues, on the thread that serves them."""

    def ring(self, slot: int, value: int) -> None:
        """A doorbell was rung."""

    def work(self) -> int:
        """Do what there is to do; how many packets."""

    @property
    def has_work(self) -> bool:
        """Whether packets are left, which have to wait."""


class AqlEngine:
    """Processes AQL packets on an HSA device."""

    def __init__(self, device: HsaDevice) -> None:
        self._device = device

    def look_beside(self, look: Callable[[], None]) -> None:
        """Have `look` called while a kernel runs, and then do what other queues have."""
        if self._device.settings.coherence != STRICT:
            self._device.look_beside_kernels(look)

    def ring(self, slot: int, value: int) -> None:
        """See `Engine`."""
        self._device.ring_doorbell(slot, value)

    def work(self) -> int:
        """See `Engine`."""
        return self._device.process()

    @property
    def has_work(self) -> bool:
        """See `Engine`. A queue with an error goes on when the program has seen to it."""
        return any(queue.pending for queue in self._device.queues)


class SdmaEngine:
    """Carries out packets of copy queues, by their doorbell; `failed` hears of those that stop."""

    def __init__(self, failed: Callable[[SdmaQueue, UnderstudyError], None]) -> None:
        self.queues: dict[int, SdmaQueue] = {}
        self.lock = threading.Lock()
        self._failed = failed

    def ring(self, slot: int, value: int) -> None:
        """See `Engine`."""
        queue = self.queues.get(slot)
        if queue is not None:
            queue.ring(value)

    def work(self) -> int:
        """See `Engine`."""
        done = 0
        with self.lock:
            for queue in self.queues.values():
                try:
                    done += queue.work()
                except UnderstudyError as error:
                    self._failed(queue, error)
        return done

    @property
    def has_work(self) -> bool:
        """See `Engine`."""
        return any(queue.has_work for queue in tuple(self.queues.values()))


class Service:
    """A thread that looks at doorbells and has an engine work. It starts with the first queue."""

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
        """Services whose packets may wait for what this one's do."""
        self.failure: BaseException | None = None
        """What ended the thread, if anything did."""

    def add(self, slot: int, value: int) -> None:
        """Look at a doorbell, which nobody has rung yet: it has that value."""
        self._doorbells.clear(slot, value)
        with self._lock:
            self._slots[slot] = value
            self._is_changed = True
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
                self._thread.start()

    def remove(self, slot: int) -> None:
        """Look at it no more."""
        with self._lock:
            self._slots.pop(slot, None)
            self._is_changed = True

    def wake(self) -> None:
        """Something has changed that a packet may wait for."""
        if self._engine.has_work:
            self._pause.set()

    def close(self) -> None:
        """End the thread, which may be processing a packet."""
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
            rung = self._ring(1 if sleeps else LOOKS)
            if (rung or self._engine.has_work) and self._engine.work():
                sleeps = 0
                for other in self.others:
                    other.wake()
            elif not rung:
                sleeps += 1
                self._pause.wait(SHORT_SECONDS if sleeps < SHORT_SLEEPS else LONG_SECONDS)
                self._pause.clear()

    def look(self) -> None:
        """On its thread, while a packet takes long: tell the engine of all that was rung."""
        if self._is_changed:
            self._watch()
        while self._ring(1):
            pass

    def _ring(self, looks: int) -> bool:
        """Whether a doorbell was rung, which the engine is told of."""
        rung = self._doorbells.next(looks)
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
