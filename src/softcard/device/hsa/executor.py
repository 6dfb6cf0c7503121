"""The execution of packets: during a store to a doorbell, by a waiting thread, or on the device's own thread."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import chain
from typing import Any, Final

from softcard.core import threads
from softcard.core.device import Telemetry
from softcard.core.errors import ModelBug, RuleError, SoftcardError
from softcard.core.limits import CLOSED, interrupted
from softcard.core.order import Arbiter
from softcard.core.settings import SYNCHRONOUS
from softcard.core.snapshot import Stateful
from softcard.core.threads import FORKED, reset_after_fork, rest_before_forks
from softcard.device.hsa.compute import Compute
from softcard.device.hsa.events import QueueInactivated
from softcard.device.hsa.native_packets import Q
from softcard.device.hsa.queues.aql_queue import Queue
from softcard.device.hsa.queues.signals import POLL_SECONDS
from softcard.device.hsa.settings import Settings

ALL: Final = 1 << 62
END_SECONDS: Final = 5.0
"""The time in seconds that `close` waits for a kernel that it has ended on another thread.

The time is limited because the kernel may be inside a callback.
"""
_ACTIVE: Final = Q["active"]
_LIMIT: Final = Q["limit"]


class Executor(Stateful):
    """The scheduler of packets, which serves queues round robin, or in an order that a seed determines.

    `lock` guards the list of queues and the identity of the thread that processes packets. Threads wait on
    `changed` for changes of the scheduler or of a queue. A snapshot of the scheduler has only the list of
    queues and the choice of the next one; each queue has its own state."""

    STATE = ("queues", "created", "_next", "_arbiter", "_changes", "_seen_changes")

    def __init__(self, settings: Settings, telemetry: Telemetry) -> None:
        self.lock = threading.RLock()
        self.changed = threads.Changed(self.lock)
        self.queues: list[Queue] = []
        self.created = 0
        """The number of queues that were ever created."""
        self.is_closed = False
        self._is_threaded = settings.threaded
        self._quantum = settings.quantum
        self._is_synchronous = settings.execution == SYNCHRONOUS
        self._telemetry = telemetry
        self._arbiter = Arbiter(settings.seed)
        self._next = 0
        self._changes = 0
        self._seen_changes: dict[int, int] = {}
        """For each queue, by number: the value of the change counter when its next packet last had to wait."""
        self._busy = 0
        """The id of the thread that processes packets, or 0."""
        self._served: Queue | None = None
        """The queue whose packets are being processed, or None."""
        self._below: list[Queue] = []
        """The queues whose kernels are suspended while packets of other queues run: see `ConcurrentQueues`."""
        self._waiting = 0
        """The number of threads that wait to enter `alone`; while it is not 0, no packet begins."""
        self._thread: threading.Thread | None = None
        self._failure: BaseException | None = None
        self._closed = CLOSED
        reset_after_fork(self)
        rest_before_forks(self)

    @property
    def is_at_rest(self) -> bool:
        """True if no other thread processes packets."""
        return self._busy in (0, threading.get_ident())

    def after_fork(self) -> None:
        """Prepare the scheduler for use in a child process: the device gets a new thread.

        A packet that another thread of the parent process was processing cannot be finished; the device is then
        closed in the child process."""
        self.lock = threading.RLock()
        self.changed = threads.Changed(self.lock)
        self._thread = None
        self._waiting = 0
        self._below = []
        if not self.is_at_rest:
            self._busy, self.is_closed, self._closed = 0, True, FORKED
            for queue in self.queues:
                queue.closed = FORKED

    # ---- notifications ----------------------------------------------------------------------------------------

    def notify(self) -> None:
        """Wake waiting threads after a change that may allow a packet to proceed."""
        with self.lock:
            self._changes += 1
            self.changed.notify_all()
        if self._is_threaded and self._thread is None:
            self._start()

    def after_doorbell(self) -> None:
        """Process packets after a doorbell was written, or leave this to the thread that processes packets."""
        if self._failure is not None:
            text = f"the device's thread has failed: {type(self._failure).__name__}: {self._failure}"
            raise ModelBug(text) from self._failure
        if self._is_threaded:
            self.notify()
        elif self._is_synchronous:
            self.work(ALL)

    def check_open(self) -> None:
        """Raise `RuleError` if the device was closed, because it would never do the requested work."""
        if self.is_closed:
            raise RuleError(self._closed)

    # ---- work ----------------------------------------------------------------------------------------------------

    def work(self, budget: int) -> int:
        """Process up to `budget` packets on the calling thread; return the number of processed packets.

        Return 0 if another thread is processing packets.
        """
        done = 0
        me = threading.get_ident()
        with self.lock:
            self._changes += 1  # also if another thread is busy: it may have checked just before
            if self._waiting and self._busy != me:
                self._let_others_be_alone()
            if self._busy or self.is_closed:
                return 0
            self._busy = me
        try:
            while True:
                with self.lock:
                    if self._waiting:
                        self._busy, self._served = 0, None
                        self.changed.notify_all()
                        self._let_others_be_alone()
                        if self._busy:  # another thread was faster, and processes the packets
                            return done
                        self._busy = me
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
                done += self._process_queue(queue, min(share, budget - done))
        except BaseException:
            with self.changed:
                self._busy, self._served = 0, None
                self.changed.notify_all()
            raise

    def _let_others_be_alone(self) -> None:
        """Wait while other threads want to enter `alone`, so that they can enter it between two packets."""
        while self._waiting:
            self.changed.wait()

    def run_other_queues(self) -> int:
        """Process packets of other queues on the thread of a running kernel; return the number of packets.

        The kernel continues when no other queue can make progress. Return 0 at once if another thread is processing
        packets.
        """
        if not self.is_mine or self._served is None:
            return 0
        done, queue = 0, self._served
        self._below.append(queue)
        try:
            with self.lock:
                self._changes += 1  # the kernel may have changed memory for which packets wait
            while True:
                with self.lock:
                    ready = [each for each in self.queues if each not in self._below and self._ready(each)]
                    if not ready or self.is_closed:
                        return done
                    self._served = ready[0] if self._arbiter.seed is None else self._arbiter.pick(ready)
                done += self._process_queue(self._served, self._quantum)
        finally:
            with self.changed:
                self._below.pop()
                self._served = queue
                self.changed.notify_all()

    def _process_queue(self, queue: Queue, budget: int) -> int:
        """Process up to `budget` packets of `queue`, in batches; return the number of processed packets."""
        done, words = 0, queue.words
        while True:
            seen = self._changes
            try:
                count = queue.processor.process(queue, budget - done)
            except Exception as error:
                if queue.error is None or threading.current_thread() is not self._thread:
                    raise
                threads.report_exception(error)  # that queue has failed; this thread continues with others
                count = 0
            done += count
            self._changes += bool(count)
            if not count or queue.error is not None:
                self._seen_changes[queue.number] = seen
                return done
            self._seen_changes.pop(queue.number, None)
            if done >= budget or self.is_closed or (len(self.queues) == 1 and self._arbiter.seed is None):
                return done  # the only queue has the next time slice as well
            if not words[_ACTIVE] or queue.load_read_index() >= words[_LIMIT]:
                return done

    def _drawn(self) -> int:
        """Return the number of packets in a queue's next time slice, a random number that the seed determines."""
        return self._arbiter.pick(range(1, self._quantum + 1))

    def _pick(self) -> Queue | None:
        """Return the queue whose time slice comes next."""
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
        """Return True if the next packet of `queue` may be ready to be processed."""
        words = queue.words
        if not words[_ACTIVE] and not self._resumed(queue):
            return False
        return self._seen_changes.get(queue.number) != self._changes and queue.load_read_index() < words[_LIMIT]

    def _resumed(self, queue: Queue) -> bool:
        """Return True if the host has handled the error of `queue`, by setting its queue_inactive_signal to 0."""
        if queue.error is None or queue.is_destroyed or queue.progress.is_reported:
            return False
        inactive = queue.inactive_now()
        if inactive is None or inactive.word.load() != 0:
            return False
        self.set_active(queue, True)
        return True

    def set_active(self, queue: Queue, active: bool) -> None:
        """Resume the processing of a queue if `active`, else stop it after the packet in progress."""
        with self.changed:
            queue.words[Q["active"]] = int(active)
            if active:
                queue.progress.error, queue.progress.code, queue.progress.is_reported = None, 0, False
            else:
                self._await_end(queue)
            self._changes += 1
        self._telemetry.emit(lambda time: QueueInactivated(time, queue.number, active))

    def withdraw(self, queue: Queue) -> None:
        """Remove `queue` after its packet in progress has ended; other queues continue."""
        with self.changed:
            queue.end()
            self._await_end(queue)
            self.queues.remove(queue)
            self._changes += 1
        self._telemetry.emit(lambda time: QueueInactivated(time, queue.number, False))

    def _await_end(self, queue: Queue) -> None:
        """Wait until the packet in progress of an inactive queue has ended.

        Return at once if the calling thread is processing that packet.
        """
        self.changed.wait_for(lambda: (self._served is not queue and queue not in self._below) or self.is_mine)

    def signal_changed(self) -> None:
        """Handle a change of a signal by the host; packets may wait for the signal."""
        self.notify()
        if self._is_synchronous and self._seen_changes and not self.is_mine:
            self.work(ALL)

    # ---- waiting -------------------------------------------------------------------------------------------------

    @property
    def is_mine(self) -> bool:
        """True if the calling thread is processing packets, so that the caller is inside a callback."""
        return self._busy == threading.get_ident()

    @property
    def is_idle(self) -> bool:
        """True if no thread is processing packets, and no packet could be processed."""
        with self.changed:
            return not self._busy and (self.is_closed or not any(self._ready(queue) for queue in self.queues))

    def wait_idle(self, timeout_seconds: float | None) -> bool:
        """Wait until no thread is processing packets; return False after the timeout."""
        if not self._is_threaded:
            self.work(ALL)
        with self.changed:
            return self.changed.wait_for(lambda: self.is_idle or self._failure is not None, timeout_seconds)

    def stuck(self, address: int, alone: bool) -> SoftcardError | None:
        """Return the queue error because of which the signal at `address` will not change, or None.

        The signal can then be changed only by the host. If the host has only one thread (`alone`), the error of any
        queue counts. Otherwise, an error counts only if the failed queue, or a queue that waits for its packets, has
        the packet that completes the signal. After `close`, every unprocessed packet counts as failed."""
        with self.lock:
            if not self.is_idle or self.is_mine:
                return None
            if self.is_closed and (alone or any(address in queue.completions() for queue in self.queues)):
                return self._dead().get(address) or RuleError(self._closed)
            first = next((queue.error for queue in self.queues if queue.error is not None), None)
            return first if first is None or alone else self._dead().get(address)

    def abandon(self, address: int, cause: BaseException) -> None:
        """End the work on the device's own thread for which an interrupted host was waiting.

        This is the work of the queues whose packets complete the signal at `address`, and of the queues for which
        these queues wait. If there is no such queue, it is the running kernel, which may write the signal itself. The
        queues get the error of an interrupted kernel."""
        if not self._is_threaded or self.is_mine or self.is_closed:  # `close` has ended a running kernel
            return
        why = str(interrupted(cause))
        with self.changed:
            found = self._awaited(address) or [each for each in (self._served, *self._below) if each is not None]
            for queue in found:
                queue.words[_ACTIVE] = 0  # no further packet begins
                queue.watch.stopped = queue.watch.stopped or why
            for queue in found:
                self._await_end(queue)
        for queue in found:
            if queue.watch.stopped == why:  # otherwise the device is being closed
                queue.watch.stopped = ""
            if queue.error is None and not queue.is_destroyed and not queue.processor.abandon(queue, cause):
                queue.words[_ACTIVE] = 1
        self.notify()

    def _awaited(self, address: int) -> list[Queue]:
        """Return the queues that must make progress before the signal at `address` is completed."""
        found: list[Queue] = []
        wanted = [address]
        for signal in wanted:
            for queue in self.queues:
                if queue not in found and queue.error is None and signal in queue.completions():
                    found.append(queue)
                    wanted += queue.dependencies()
        return found

    def _dead(self) -> dict[int, SoftcardError]:
        """Return the signals that cannot be completed any more; map their addresses to the errors that caused this.

        The packets that would complete them are in failed queues, or in queues that depend on failed ones."""
        dead: dict[int, SoftcardError] = {}
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
        """Keep other threads from processing packets during the ``with`` block.

        The block begins when the packet in progress has ended; it does not wait for packets after that one."""
        me = threading.get_ident()
        with self.changed:
            nested = self._busy == me
            if not nested:
                self._waiting += 1
                try:
                    self.changed.wait_for(lambda: not self._busy)
                finally:
                    self._waiting -= 1
                    self.changed.notify_all()
                self._busy = me
        try:
            yield
        finally:
            if not nested:
                with self.changed:
                    self._busy = 0
                    self.changed.notify_all()

    # ---- snapshots -----------------------------------------------------------------------------------------------

    def stop(self, why: str) -> None:
        """End the running kernel, and prevent further packets of the existing queues from starting."""
        with self.changed:
            for queue in self.queues:
                queue.words[_ACTIVE] = 0
                queue.watch.stopped = queue.watch.stopped or why

    def restore(self, state: Any) -> None:
        """Return to a state that `snapshot` returned."""
        with self.changed:
            super().restore(state)
            self.changed.notify_all()

    # ---- the thread ----------------------------------------------------------------------------------------------

    def _start(self) -> None:
        with self.changed:
            if self._thread is None and not self.is_closed:
                self._thread = threads.start_worker(self, "softcard-hsa")

    def serve(self) -> None:
        """Process packets on the device's own thread until it is closed."""
        try:
            with self._telemetry.desk.held():
                self.work(ALL)
        except BaseException as failure:
            with self.changed:
                self._failure = failure
                self.changed.notify_all()
            raise

    @property
    def poll_timeout(self) -> float:
        """The seconds after which the device's thread must check its queues again.

        Packets may wait for memory that changes without a notification.
        """
        if self.is_closed or any(self._ready(queue) for queue in self.queues):
            return 0.0
        waiting = any(queue.is_active and queue.load_read_index() < queue.limit for queue in self.queues)
        errors = any(queue.error is not None for queue in self.queues)
        return POLL_SECONDS if waiting or errors else threads.IDLE_SECONDS

    def close(self) -> None:
        """Stop processing, end running kernels, and end the thread."""
        with self.changed:
            self.is_closed = True
            for queue in self.queues:
                queue.watch.stopped = queue.closed = CLOSED
            self.changed.notify_all()
            self.changed.wait_for(lambda: not self._busy or self.is_mine, END_SECONDS)
        if self._thread is not None and not self.is_mine:
            self._thread.join()


# ---- concurrent queues -----------------------------------------------------------------------------------------------
# Concurrent queues: packets of other queues run during a kernel, so that a kernel which waits for the host's copies
# ends.
#
# The watch of a running kernel calls this some 20 times a second, on the thread that processes packets. Packets of
# other queues are processed at once, and the kernel continues after them; or, if one of them is a long kernel itself,
# the waiting kernel gets part of its time (`engine.gcn.group.poll`).


BACKOFF_SECONDS: Final = 0.002
"""The seconds to wait for more packets after some came, because a host that copies usually copies more."""


class ConcurrentQueues:
    """A callable that processes packets of other queues of a device while a kernel runs.

    Each time before it processes packets, it calls `poll`, which may announce new packets."""

    def __init__(self, poll: Callable[[], None], executor: Executor, compute: Compute) -> None:
        self._poll = poll
        self._executor = executor
        self._compute = compute

    def __call__(self) -> None:
        """Process packets of other queues while a kernel runs, until none of them has made progress for a short time.

        Do nothing if the calling thread is not the one that processes packets: such a thread only executes waves
        of the kernel."""
        if not self._executor.is_mine:
            return
        until = 0.0
        with self._compute.concurrently():
            while True:
                self._poll()
                if self._executor.run_other_queues():
                    until = time.monotonic() + BACKOFF_SECONDS
                elif time.monotonic() >= until:
                    return
