"""Concurrent execution of several harts on threads: translated code runs without the interpreter lock."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from softcard.core.errors import SoftcardError
from softcard.core.threads import reset_after_fork
from softcard.engine.riscv.api import Engine, Exit
from softcard.isa.riscv.state import Hart

if TYPE_CHECKING:
    from softcard.core.threads import PinnedPool


class Group:
    """A group of threads that run harts in parallel: the calling thread and further ones, `threads` in all.

    With `threads` None, the group has as many threads as there are processors that this process may use.
    """

    def __init__(self, threads: int | None = None) -> None:
        self.threads = threads if threads is not None else _processors()
        self.is_abandoned = False
        """True if no caller waits for the running harts any more; `Engine.between_slices` must then end them."""
        self._pool: PinnedPool | None = None
        reset_after_fork(self)

    def after_fork(self) -> None:
        """Reset the state in a child process, in which no harts run."""
        self.is_abandoned = False

    def run(self, engine: Engine, harts: Sequence[Hart], fuel: int) -> list[Exit | SoftcardError]:
        """Run each hart for at most `fuel` instructions; return the exit or the error of each, in order.

        Results of kernels without races do not depend on the number of threads. When this method returns or raises, no
        hart runs any more.
        """
        exits: dict[int, Exit | SoftcardError] = {}
        left = iter(range(len(harts)))

        def work() -> None:
            for index in left:
                if self.is_abandoned:
                    return
                exits[index] = _run(engine, harts[index], fuel)

        helpers = min(self.threads, len(harts)) - 1
        if helpers < 1:
            work()
        else:
            self._share_work(work, left, helpers)
        return [exits[index] for index in range(len(harts))]

    def _share_work(self, work: Callable[[], None], left: Iterator[int], helpers: int) -> None:
        """Call `work` on this thread and on `helpers` other threads, and wait until all calls have returned.

        `work` takes the index of a hart from `left`, runs the hart, and repeats this until `left` is exhausted."""
        from concurrent.futures import wait  # imported late: it would slow down the start

        from softcard.core.threads import PinnedPool

        if self._pool is None:
            self._pool = PinnedPool(self.threads - 1, "softcard-hart")
        occupied = [threading.Lock() for _ in range(helpers)]

        def help_along(lock: threading.Lock) -> None:
            with lock:
                work()

        try:
            others = [self._pool.submit(help_along, lock) for lock in occupied]
            work()
            wait(others)
        except BaseException:  # e.g. Ctrl-C: other threads must not go on writing to memory
            self.is_abandoned = True
            deque(left, maxlen=0)  # threads that have not started yet find no work
            for lock in occupied:  # if `submit` was interrupted, there are no futures to wait for
                with lock:
                    pass
            raise
        finally:
            self.is_abandoned = False
        for other in others:
            other.result()

    def close(self) -> None:
        """End the threads of the group."""
        if self._pool is not None:
            self._pool.close()
            self._pool = None


def _processors() -> int:
    """Return the number of processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _run(engine: Engine, hart: Hart, fuel: int) -> Exit | SoftcardError:
    try:
        return engine.run(hart, fuel)
    except SoftcardError as error:
        return error
