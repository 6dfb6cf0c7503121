"""Several harts at once, on threads: translated code runs without the interpreter lock."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from understudy.core.errors import UnderstudyError
from understudy.core.forks import tell_forks
from understudy.engine.riscv.api import Engine
from understudy.engine.riscv.stops import Exit
from understudy.isa.riscv.state import Hart

if TYPE_CHECKING:
    from understudy.core.thread_pool import PinnedPool


class Group:
    """The calling thread and others beside it, `threads` in all, that run harts side by side.

    `threads` None: as many as this process may use.
    """

    def __init__(self, threads: int | None = None) -> None:
        self.threads = threads if threads is not None else _processors()
        self.is_abandoned = False
        """Whether nobody waits any more for the harts that run: `Engine.between_slices` is to end them."""
        self._pool: PinnedPool | None = None
        tell_forks(self)

    def after_fork(self) -> None:
        """In a child process: nobody runs any harts."""
        self.is_abandoned = False

    def run(self, engine: Engine, harts: Sequence[Hart], fuel: int) -> list[Exit | UnderstudyError]:
        """Run each hart for at most `fuel` instructions; how each ended, or the error it raised, in order.

        Results of kernels without races do not depend on the number of threads. When this returns, or raises, no hart
        runs any more.
        """
        exits: dict[int, Exit | UnderstudyError] = {}
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
            self._work_together(work, left, helpers)
        return [exits[index] for index in range(len(harts))]

    def _work_together(self, work: Callable[[], None], left: Iterator[int], helpers: int) -> None:
        """Do some work on this thread and on others, of which each takes what is `left`."""
        from concurrent.futures import wait  # takes longer to load than most programs want

        from understudy.core.thread_pool import PinnedPool

        if self._pool is None:
            self._pool = PinnedPool(self.threads - 1, "understudy-hart")
        occupied = [threading.Lock() for _ in range(helpers)]

        def help_along(lock: threading.Lock) -> None:
            with lock:
                work()

        try:
            others = [self._pool.submit(help_along, lock) for lock in occupied]
            work()
            wait(others)
        except BaseException:  # Ctrl-C, for one: the others must not run on into memory that nobody expects them in
            self.is_abandoned = True
            deque(left, maxlen=0)  # who comes too late finds nothing to do
            for lock in occupied:  # where `submit` was interrupted, there is nothing else to wait for
                with lock:
                    pass
            raise
        finally:
            self.is_abandoned = False
        for other in others:
            other.result()

    def close(self) -> None:
        """End the threads."""
        if self._pool is not None:
            self._pool.close()
            self._pool = None


def _processors() -> int:
    """Processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _run(engine: Engine, hart: Hart, fuel: int) -> Exit | UnderstudyError:
    try:
        return engine.run(hart, fuel)
    except UnderstudyError as error:
        return error
