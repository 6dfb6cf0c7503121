"""The threads of devices: workers, pools of pinned threads, the busy lock, and the cleanup after os.fork().

A fork does not copy the other threads of a process. Locks that those threads held stay locked forever in the
child process."""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
import threading
import time
import weakref
from collections.abc import Callable
from functools import cache
from types import TracebackType
from typing import TYPE_CHECKING, Final, ParamSpec, Protocol, TypeVar

if TYPE_CHECKING:
    from concurrent.futures import Future

P = ParamSpec("P")
R = TypeVar("R")

FORKED: Final = "another thread was using the device when this process was forked: open a new device in this process"


class Forked(Protocol):
    """The interface of an object that owns threads and must be reset in a forked child process."""

    def after_fork(self) -> None:
        """Reset the object in a child process, in which its threads do not exist."""


REST_SECONDS: Final = 0.1
"""The maximum time in seconds for which a fork waits until `Resting` objects are at rest."""


class Resting(Protocol):
    """The interface of an object whose threads alternate between working and being idle ("at rest")."""

    @property
    def is_at_rest(self) -> bool:
        """True if no other thread is doing work that a child process could not finish."""


_resting: Final[weakref.WeakSet[Resting]] = weakref.WeakSet()
_known: Final[weakref.WeakSet[Forked]] = weakref.WeakSet()


def reset_after_fork(owner: Forked) -> None:
    """Arrange that `owner.after_fork` is called in every child process, as long as the object lives."""
    _known.add(owner)


def rest_before_forks(owner: Resting) -> None:
    """Arrange that os.fork() waits until `owner` is at rest, for at most `REST_SECONDS`.

    A host may see results, and fork, shortly before the thread that produced them has finished.
    """
    _resting.add(owner)


def _before() -> None:
    end = time.monotonic() + REST_SECONDS
    while not all(owner.is_at_rest for owner in list(_resting)) and time.monotonic() < end:
        time.sleep(0.0005)


def _in_child() -> None:
    for owner in list(_known):
        owner.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_child=_in_child)


class BusyLock:
    """The busy lock of a device: a context manager whose ``with`` block a thread enters to run kernels.

    The truth value of the lock is True while any thread is in such a block, that is, holds the lock."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._thread = 0
        self.is_lost = False
        """True if this process was forked while another thread was in the context; that thread's work never ends."""
        reset_after_fork(self)

    def after_fork(self) -> None:
        """Release the lock in a child process if the thread that holds it does not exist there."""
        self._lock = threading.RLock()
        if self._thread and not self.is_mine:
            self._thread, self.is_lost = 0, True

    def __bool__(self) -> bool:
        """Return True if any thread holds the lock."""
        return self._thread != 0

    @property
    def is_mine(self) -> bool:
        """True if the calling thread holds the lock."""
        return self._thread == threading.get_ident()

    def wait(self) -> bool:
        """Wait until no other thread holds the lock; return False at once if the calling thread holds it."""
        with self._lock:
            return not self._thread

    def __enter__(self) -> None:
        self._lock.acquire()
        self._thread = threading.get_ident()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._thread = 0
        self._lock.release()


IDLE_SECONDS: Final = 1.0
"""The interval in seconds at which an idle thread tests whether its owner still exists."""


class Changed(threading.Condition):
    """A condition whose `notify_all` costs almost nothing if there are no waiters."""

    _sleepers = 0

    def wait(self, timeout: float | None = None) -> bool:
        """Wait as `threading.Condition.wait` does, and count the caller as a waiter meanwhile."""
        self._sleepers += 1
        try:
            return super().wait(timeout)
        finally:
            self._sleepers -= 1

    def notify_all(self) -> None:
        """Notify all waiters, if there are any; the caller holds the lock."""
        if self._sleepers:
            super().notify_all()


class Worker(Protocol):
    """The interface of an object whose work is done by a thread of its own; see `start_worker`."""

    @property
    def changed(self) -> threading.Condition:
        """The condition that is notified when there may be work."""

    @property
    def is_closed(self) -> bool:
        """True if the thread must end."""

    def serve(self) -> None:
        """Do all pending work."""

    @property
    def poll_timeout(self) -> float:
        """The time in seconds, at most `IDLE_SECONDS`, after which the thread has to check for work again.

        The thread holds the lock of `changed` when it reads this.
        """


def start_worker(worker: Worker, name: str) -> threading.Thread:
    """Start and return the worker's thread, which runs until the worker is closed or garbage-collected."""
    thread = threading.Thread(target=_serve, args=(weakref.ref(worker),), name=name, daemon=True)
    thread.start()
    return thread


def report_exception(error: BaseException) -> None:
    """Pass an exception of this thread to `threading.excepthook`; the thread continues.

    By default, the hook prints the exception with its traceback.
    """
    hook_args = type(error), error, error.__traceback__, threading.current_thread()
    threading.excepthook(threading.ExceptHookArgs(hook_args))


def _serve(owner: weakref.ref[Worker]) -> None:
    while True:
        worker = owner()
        if worker is None or worker.is_closed:
            return
        worker.serve()
        changed = worker.changed
        with changed:
            seconds = worker.poll_timeout
            del worker
            if seconds:
                changed.wait(seconds)


class PinnedPool:
    """A pool of `count` threads called `name`. The threads that submit work also do some of the work themselves.

    Therefore the pool's threads do not run on the processor from which `submit` was called last."""

    def __init__(self, count: int, name: str) -> None:
        self._count = count
        self._name = name
        self.after_fork()
        reset_after_fork(self)

    def after_fork(self) -> None:
        """Reset the pool in a child process: it has no threads there until new work starts them again."""
        self._threads: list[int] = []
        self._avoided: int | None = None
        from concurrent.futures import ThreadPoolExecutor  # here: few programs have such a pool

        # The pool's threads must not keep their users alive: they end when the pool has no other reference.
        self._pool = ThreadPoolExecutor(self._count, self._name, _begin, (weakref.ref(self),))

    def submit(self, work: Callable[P, R], *arguments: P.args, **options: P.kwargs) -> Future[R]:
        """Let a thread of the pool call `work` with these arguments; return a future for the result."""
        here = processor()
        if here != self._avoided:
            self._avoided = here
            for thread in self._threads:
                self._exclude(thread)
        return self._pool.submit(work, *arguments, **options)

    def close(self) -> None:
        """End the threads."""
        self._pool.shutdown(cancel_futures=True)

    def add_thread(self) -> None:
        """Register the calling thread as a thread of the pool, and set the processors on which it may run."""
        thread = threading.get_native_id()
        self._threads.append(thread)
        self._exclude(thread)

    def _exclude(self, thread: int) -> None:
        if self._avoided is not None:
            others = os.sched_getaffinity(0) - {self._avoided}
            if others:
                with contextlib.suppress(OSError):
                    os.sched_setaffinity(thread, others)


def _begin(owner: weakref.ref[PinnedPool]) -> None:
    found = owner()
    if found is not None:
        found.add_thread()


def processor() -> int | None:
    """Return the number of the processor that runs this thread; None if the system does not report it."""
    ask = _sched_getcpu()
    return None if ask is None else ask()


@cache
def _sched_getcpu() -> Callable[[], int] | None:
    if sys.platform != "linux":
        return None
    # PyDLL: two microseconds less than with the interpreter lock given up and taken back.
    return getattr(ctypes.PyDLL(None), "sched_getcpu", None)
