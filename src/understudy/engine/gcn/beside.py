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
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


class Beside:
    """`count` threads, for callers that work along with them."""

    def __init__(self, count: int) -> None:
        self._pool = ThreadPoolExecutor(count, "understudy-waves", self._begin)
        self._threads: list[int] = []
        self._avoided: int | None = None

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

    def _begin(self) -> None:
        thread = threading.get_native_id()
        self._threads.append(thread)
        self._keep_off(thread)

    def _keep_off(self, thread: int) -> None:
        if self._avoided is not None:
            others = os.sched_getaffinity(0) - {self._avoided}
            if others:
                with contextlib.suppress(OSError):
                    os.sched_setaffinity(thread, others)


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
