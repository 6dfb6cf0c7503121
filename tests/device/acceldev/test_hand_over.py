"""Register accesses and the device's thread want the same lock: who waits for it goes first."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Any

import pytest

from softcard.core.event import Event
from softcard.device.acceldev import registers as r
from softcard.device.acceldev.commands import Fence, RunCommand, words_of
from softcard.device.acceldev.events import FenceCounted, InterruptRaised, RegisterAccess
from softcard.device.acceldev.memory import WantedLock
from tests.device.acceldev.rig import Machine

LONG = 20
READER = "reader"


class Queue(deque[None]):
    """Those that wait for a lock; `came` counts the readers that have come to be one of them, `waits` their waits."""

    def __init__(self) -> None:
        super().__init__()
        self.came = threading.Semaphore(0)
        self.waits = threading.Semaphore(0)
        self._known: set[threading.Thread] = set()

    def append(self, entry: None, /) -> None:
        super().append(entry)
        thread = threading.current_thread()
        if thread.name == READER:
            self.waits.release()
            if thread not in self._known:
                self._known.add(thread)  # once, though an access takes the lock more than once
                self.came.release()


def test_a_waiting_register_access_goes_before_the_next_command() -> None:
    """While each FENCE raises its interrupt somebody comes and reads a register: before the next FENCE he has it."""
    count = 50
    machine = Machine(execution="threaded")
    lock = machine.device._gate.lock
    queue = lock._waiting = Queue()
    readers: list[threading.Thread] = []
    order: list[str] = []
    came: set[threading.Thread] = set()

    def arrived(before: Callable[[], None] = lock._arrived) -> None:
        """Somebody had to wait and holds the lock now; the event of his access comes after he has let it go."""
        if threading.current_thread().name == READER and threading.current_thread() not in came:
            came.add(threading.current_thread())  # once, though an access takes the lock more than once
            order.append("read")
        before()

    def come(event: Event) -> None:
        if isinstance(event, FenceCounted):
            order.append("fence")
        if not isinstance(event, InterruptRaised):
            return
        readers.append(threading.Thread(target=machine.read, args=(r.CMD_FENCE_LAST,), name=READER))
        readers[-1].start()
        assert queue.came.acquire(timeout=LONG), "the device's thread holds the lock while it tells its probes"

    lock._arrived = arrived
    machine.device.probes.subscribe(come)
    table = machine.code(*[Fence()] * count)
    machine.feed(*words_of(RunCommand(context=0, table=table, offset=0, size=20 * count)))
    assert machine.device.wait_idle(LONG)
    for reader in readers:
        reader.join(LONG)
    assert order == ["fence", "read"] * count
    machine.device.close()


def test_many_that_wait_all_go_first() -> None:
    count = 5
    machine = Machine(execution="threaded")
    queue = machine.device._gate.lock._waiting = Queue()
    readers: list[threading.Thread] = []

    def come(event: Event) -> None:
        while isinstance(event, InterruptRaised) and len(readers) < count:
            readers.append(threading.Thread(target=machine.read, args=(r.INTR,), name=READER))
            readers[-1].start()
            assert queue.came.acquire(timeout=LONG)

    machine.device.probes.subscribe(come)
    machine.submit(RunCommand(context=0, table=machine.code(Fence(), Fence()), offset=0, size=40))
    kinds = [type(event) for event in machine.events if isinstance(event, FenceCounted | RegisterAccess)]
    first = kinds.index(FenceCounted)
    assert kinds[first : first + count + 2] == [FenceCounted, *[RegisterAccess] * count, FenceCounted]
    for reader in readers:
        reader.join(LONG)
    machine.device.close()


def test_the_lock_is_reentrant_and_reports_that_to_no_waiter() -> None:
    arrived: list[int] = []
    lock = WantedLock(lambda: arrived.append(1))
    with lock, lock:
        assert lock.acquire(False)
        lock.release()
    with pytest.raises(RuntimeError, match="un-acquired"):
        lock.release()
    assert arrived == []


def test_the_lock_knows_who_waits() -> None:
    arrived: list[str] = []
    lock = WantedLock(lambda: arrived.append(threading.current_thread().name))
    queue: Any = Queue()
    lock._waiting = queue
    got: list[bool] = []

    def want() -> None:
        got.append(lock.acquire(False))
        got.append(lock.acquire(timeout=0.001))
        with lock:
            got.append(True)

    with lock:
        other = threading.Thread(target=want, name=READER)
        other.start()
        for _ in range(2):
            assert queue.waits.acquire(timeout=LONG)
        assert lock.is_wanted
        assert arrived == []
    other.join(LONG)
    assert got == [False, False, True]
    assert arrived == [READER]
    assert not lock.is_wanted
