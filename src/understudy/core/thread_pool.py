"""Threads that work beside the calling one, on other processors than it.

A thread that is woken is often put on the processor of the one that wakes it, and waits there while others idle:
schedulers even that out after milliseconds, which is longer than most launches take.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from typing import ParamSpec, TypeVar

from understudy.core.forks import tell_forks

P = ParamSpec("P")
R = TypeVar("R")


class PinnedPool:
    """`count` threads of that `name`, for callers that work along with them."""

    def __init__(self, count: int, name: str) -> None:
        self._count = count
        self._name = name
        self.after_fork()
        tell_forks(self)

    def after_fork(self) -> None:
        """Begin without threads: they come when there is work, and end with this object."""
        self._threads: list[int] = []
        self._avoided: int | None = None
        # The pool's threads must not keep alive whom they work for: they end when nobody else has the pool.
        self._pool = ThreadPoolExecutor(self._count, self._name, _begin, (weakref.ref(self),))

    def submit(self, work: Callable[P, R], *arguments: P.args, **options: P.kwargs) -> Future[R]:
        """Have one of them do some work."""
        here = processor()
        if here != self._avoided:
            self._avoided = here
            for thread in self._threads:
                self._keep_off(thread)
        return self._pool.submit(work, *arguments, **options)

    def close(self) -> None:
        """End them."""
        self._pool.shutdown(cancel_futures=True)

    def add_thread(self) -> None:
        """The calling thread is one of them from now on."""
        thread = threading.get_native_id()
        self._threads.append(thread)
        self._keep_off(thread)

    def _keep_off(self, thread: int) -> None:
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
    """The one that this thread runs on; None where systems do not tell."""
    ask = _asked()
    return None if ask is None else ask()


@cache
def _asked() -> Callable[[], int] | None:
    if sys.platform != "linux":
        return None
    # PyDLL: two microseconds less than with the interpreter lock given up and taken back.
    return getattr(ctypes.PyDLL(None), "sched_getcpu", None)
