"""Who processes packets, and when: the doorbell's store, whoever waits, or a thread of the device's own."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from typing import Any, Final

from understudy.core import worker
from understudy.core.errors import ModelBug, RuleError, UnderstudyError
from understudy.core.forks import FORKED, rest_before_forks, tell_forks
from understudy.core.limits import CLOSED
from understudy.core.order import Arbiter
from understudy.core.settings import SYNCHRONOUS
from understudy.core.snapshot import Stateful
from understudy.core.telemetry import Telemetry
from understudy.device.hsa.events import QueueInactivated
from understudy.device.hsa.native_packets import Q
from understudy.device.hsa.queues import Queue
from understudy.device.hsa.settings import Settings
from understudy.device.hsa.signals import POLL_SECONDS

ALL: Final = 1 << 62
_ACTIVE: Final = Q["active"]
_LIMIT: Final = Q["limit"]


class Executor(Stateful):
    """Serves queues in turns, or as a seed says. `lock` guards what queues there are and who is
    at work, `changed` tells of it. Its state, when nobody is at work, is whose turn it is; queues have their own."""

    STATE = ("queues", "created", "_next", "_arbiter", "_changes", "_looked")

    def __init__(self, settings: Settings, telemetry: Telemetry) -> None:
        self.lock = threading.RLock()
        self.changed = worker.Changed(self.lock)
        self.queues: list[Queue] = []
        self.created = 0
        """Queues that there ever were."""
        self.is_closed = False
        self._is_threaded = settings.threaded
        self._quantum = settings.quantum
        self._is_synchronous = settings.execution == SYNCHRONOUS
        self._telemetry = telemetry
        self._arbiter = Arbiter(settings.seed)
        self._next = 0
        self._changes = 0
        self._looked: dict[int, int] = {}
        """By queue: the number of changes at which its next packet had to wait."""
        self._busy = 0
        """Thread that is at work."""
        self._served: Queue | None = None
        """The queue whose packets it processes just now."""
        self._below: list[Queue] = []
        """Queues whose kernels wait meanwhile: see `beside`."""
        self._thread: threading.Thread | None = None
        self._failure: BaseException | None = None
        self._closed = CLOSED
        tell_forks(self)
        rest_before_forks(self)

    @property
    def is_at_rest(self) -> bool:
        """Whether no other thread processes packets."""
        return self._busy in (0, threading.get_ident())

    def after_fork(self) -> None:
        """In a child process: the device's thread is made anew; what another thread was amid cannot be finished."""
        self.lock = threading.RLock()
        self.changed = worker.Changed(self.lock)
        self._thread = None
        self._below = []
        if not self.is_at_rest:
            self._busy, self.is_closed, self._closed = 0, True, FORKED

    # ---- what others tell ----------------------------------------------------------------------------------------

    def tell(self) -> None:
        """Something has changed that a packet may wait for."""
        with self.lock:
            self._changes += 1
            self.changed.notify_all()
        if self._is_threaded and self._thread is None:
            self._start()

    def after_doorbell(self) -> None:
        """A doorbell was rung: process, or leave it to whom it concerns."""
        if self._failure is not None:
            raise ModelBug("the device's thread has failed") from self._failure
        if self._is_threaded:
            self.tell()
        elif self._is_synchronous:
            self.work(ALL)

    def check_open(self) -> None:
        """A `RuleError` after `close`: what is asked for would never be done."""
        if self.is_closed:
            raise RuleError(self._closed)

    # ---- work ----------------------------------------------------------------------------------------------------

    def work(self, budget: int) -> int:
        """Process up to `budget` packets on this thread; how many were. 0 where another one is at work already."""
        done = 0
        me = threading.get_ident()
        with self.lock:
            self._changes += 1  # also where another thread is at work: it may have looked just before
            if self._busy or self.is_closed:
                return 0
            self._busy = me
        try:
            while True:
                with self.lock:
                    queue = self._pick() if done < budget and not self.is_closed else None
                    if queue is None:
                        self._busy, self._served = 0, None
                        self.changed.notify_all()
                        return done
                    if self._served is not queue:
                        if self._served is not None:
                            self.changed.notify_all()
                        self._served = queue
                share = self._quantum if self._arbiter.seed is None else self._drawn()
                done += self._turn(queue, min(share, budget - done))
        except BaseException:
            with self.changed:
                self._busy, self._served = 0, None
                self.changed.notify_all()
            raise

    def beside(self) -> int:
        """While a kernel runs, on the thread that it runs on: process packets of other queues; how many were.

        Nothing where another thread is at work. That kernel goes on when none of them can do anything any more.
        """
        if not self.is_mine or self._served is None:
            return 0
        done, queue = 0, self._served
        self._below.append(queue)
        try:
            with self.lock:
                self._changes += 1  # the kernel may have changed what packets wait for
            while True:
                with self.lock:
                    ready = [each for each in self.queues if each not in self._below and self._ready(each)]
                    if not ready or self.is_closed:
                        return done
                    self._served = ready[0] if self._arbiter.seed is None else self._arbiter.pick(ready)
                done += self._turn(self._served, self._quantum)
        finally:
            with self.changed:
                self._below.pop()
                self._served = queue
                self.changed.notify_all()

    def _turn(self, queue: Queue, budget: int) -> int:
        """Process up to `budget` packets of a queue, however many the processor does at once; how many were."""
        done, words = 0, queue.words
        while True:
            seen = self._changes
            count = queue.processor.turn(queue, budget - done)
            done += count
            self._changes += bool(count)
            if not count or queue.error is not None:
                self._looked[queue.number] = seen
                return done
            self._looked.pop(queue.number, None)
            if done >= budget or self.is_closed or (len(self.queues) == 1 and self._arbiter.seed is None):
                return done  # a queue that is alone has the next turn as well
            if not words[_ACTIVE] or queue.load_read_index() >= words[_LIMIT]:
                return done

    def _drawn(self) -> int:
        """Packets of one queue before it is another's turn, as the seed says."""
        return self._arbiter.pick(range(1, self._quantum + 1))

    def _pick(self) -> Queue | None:
        """The queue whose turn it is."""
        if self._arbiter.seed is not None:
            ready = [queue for queue in self.queues if self._ready(queue)]
            return self._arbiter.pick(ready) if ready else None
        count, start = len(self.queues), self._next
        if count == 1:
            queue = self.queues[0]
            if not self._ready(queue):
                return None
            self._next = 1
            return queue
        for index in chain(range(start, count), range(min(start, count))):
            if self._ready(self.queues[index]):
                self._next = index + 1
                return self.queues[index]
        return None

    def _ready(self, queue: Queue) -> bool:
        """Whether a queue's next packet is worth a look."""
        words = queue.words
        if not words[_ACTIVE] and not self._resumed(queue):
            return False
        return self._looked.get(queue.number) != self._changes and queue.load_read_index() < words[_LIMIT]

    def _resumed(self, queue: Queue) -> bool:
        """Whether an error was handled: then queue_inactive_signal is 0 again."""
        if queue.error is None or queue.is_destroyed or queue.progress.is_told:
            return False
        inactive = queue.inactive_now()
        if inactive is None or inactive.word.load() != 0:
            return False
        self.set_active(queue, True)
        return True

    def set_active(self, queue: Queue, active: bool) -> None:
        """Go on with a queue, or stop it: a packet of it that is processed now ends first."""
        with self.changed:
            queue.words[Q["active"]] = int(active)
            if active:
                queue.progress.error, queue.progress.code, queue.progress.is_told = None, 0, False
            else:
                self._await_end(queue)
            self._changes += 1
        self._telemetry.emit(lambda time: QueueInactivated(time, queue.number, active))

    def withdraw(self, queue: Queue) -> None:
        """Take a queue out; a packet of it that is processed now ends first, those of others go on."""
        with self.changed:
            queue.end()
            self._await_end(queue)
            self.queues.remove(queue)
            self._changes += 1
        self._telemetry.emit(lambda time: QueueInactivated(time, queue.number, False))

    def _await_end(self, queue: Queue) -> None:
        """Wait until no packet of a queue that has become inactive is processed, unless it is on this thread."""
        self.changed.wait_for(lambda: (self._served is not queue and queue not in self._below) or self.is_mine)

    def signal_changed(self) -> None:
        """The host changed a signal, which a packet may wait for."""
        self.tell()
        if self._is_synchronous and self._looked and not self.is_mine:
            self.work(ALL)

    # ---- waiting -------------------------------------------------------------------------------------------------

    @property
    def is_mine(self) -> bool:
        """Whether this thread is at work: it is inside a callback."""
        return self._busy == threading.get_ident()

    @property
    def is_idle(self) -> bool:
        """Whether nobody is at work, and nothing could be done."""
        with self.changed:
            return not self._busy and (self.is_closed or not any(self._ready(queue) for queue in self.queues))

    def wait_idle(self, timeout_seconds: float | None) -> bool:
        """Wait until it is so; False if it is not in time."""
        if not self._is_threaded:
            self.work(ALL)
        with self.changed:
            return self.changed.wait_for(lambda: self.is_idle or self._failure is not None, timeout_seconds)

    def stuck(self, address: int, alone: bool) -> UnderstudyError | None:
        """Why a signal cannot change without the host: the error of a queue; None where it may.

        Unless the host has one thread only (`alone`), it counts only if a packet of that queue completes the signal, or
        one of a queue that waits for such a packet. After `close` that holds for all packets.
        """
        with self.lock:
            if not self.is_idle or self.is_mine:
                return None
            if self.is_closed and (alone or any(address in queue.completions() for queue in self.queues)):
                return self._dead().get(address) or RuleError(self._closed)
            first = next((queue.error for queue in self.queues if queue.error is not None), None)
            return first if first is None or alone else self._dead().get(address)

    def _dead(self) -> dict[int, UnderstudyError]:
        """Signals whose packets cannot complete, and why: those of failed queues, and of queues that wait for them."""
        dead: dict[int, UnderstudyError] = {}
        left, found = list(self.queues), True
        while found:
            found = False
            for queue in tuple(left):
                error = queue.error or next((dead[each] for each in queue.dependencies() if each in dead), None)
                if error is not None:
                    dead.update(dict.fromkeys(queue.completions(), error))
                    left.remove(queue)
                    found = True
        return dead

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Nobody is at work in here."""
        me = threading.get_ident()
        with self.changed:
            nested = self._busy == me
            if not nested:
                self.changed.wait_for(lambda: not self._busy)
                self._busy = me
        try:
            yield
        finally:
            if not nested:
                with self.changed:
                    self._busy = 0
                    self.changed.notify_all()

    # ---- snapshots -----------------------------------------------------------------------------------------------

    def restore(self, state: Any) -> None:
        """Go back to a state that `snapshot` gave."""
        with self.changed:
            super().restore(state)
            self.changed.notify_all()

    # ---- the thread ----------------------------------------------------------------------------------------------

    def _start(self) -> None:
        with self.changed:
            if self._thread is None and not self.is_closed:
                self._thread = worker.start(self, "understudy-hsa")

    def serve(self) -> None:
        """On the device's own thread: do what there is to do."""
        try:
            with self._telemetry.desk.held():
                self.work(ALL)
        except BaseException as failure:
            with self.changed:
                self._failure = failure
                self.changed.notify_all()
            raise

    @property
    def patience(self) -> float:
        """Seconds until that thread has to look again: packets that wait now and then, as memory may change untold."""
        if self.is_closed or any(self._ready(queue) for queue in self.queues):
            return 0.0
        waiting = any(queue.is_active and queue.load_read_index() < queue.limit for queue in self.queues)
        errors = any(queue.error is not None for queue in self.queues)
        return POLL_SECONDS if waiting or errors else worker.IDLE_SECONDS

    def close(self) -> None:
        """Process nothing any more, end kernels that run, and the thread."""
        with self.changed:
            self.is_closed = True
            for queue in self.queues:
                queue.watch.stopped = CLOSED
            self.changed.notify_all()
        if self._thread is not None and not self.is_mine:
            self._thread.join()
