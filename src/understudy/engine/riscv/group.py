"""Several harts at once, on threads: translated code runs without the interpreter lock."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from understudy.core.errors import UnderstudyError
from understudy.core.forks import tell_forks
from understudy.engine.riscv.api import Engine
from understudy.engine.riscv.stops import Exit
from understudy.isa.riscv.state import Hart

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor


class Group:
    """A pool of threads that run harts side by side. `threads` None: as many as this process may use."""

    def __init__(self, threads: int | None = None) -> None:
        self.threads = threads if threads is not None else _processors()
        self.is_abandoned = False
        """Whether nobody waits any more for the harts that run: `Engine.between_slices` is to end them."""
        self._pool: ThreadPoolExecutor | None = None
        tell_forks(self)

    def after_fork(self) -> None:
        """In a child process, which has none of the threads: new ones come when they are needed."""
        self._pool, self.is_abandoned = None, False

    def run(self, engine: Engine, harts: Sequence[Hart], fuel: int) -> list[Exit | UnderstudyError]:
        """Run each hart for at most `fuel` instructions; how each ended, or the error it raised, in order.

        Results of kernels without races do not depend on the number of threads. When this returns, or raises, no hart
        runs any more.
        """
        if self.threads < 2 or len(harts) < 2:
            return [_run(engine, hart, fuel) for hart in harts]
        from concurrent.futures import ThreadPoolExecutor, wait  # takes longer to load than most programs want

        if self._pool is None:
            self._pool = ThreadPoolExecutor(self.threads, thread_name_prefix="understudy-hart")
        futures = [self._pool.submit(_run, engine, hart, fuel) for hart in harts]
        try:
            return [future.result() for future in futures]
        except BaseException:  # Ctrl-C, for one: the others must not run on into memory that nobody expects them in
            self.is_abandoned = True
            for future in futures:
                future.cancel()
            wait(futures)
            raise
        finally:
            self.is_abandoned = False

    def close(self) -> None:
        """End the threads."""
        if self._pool is not None:
            self._pool.shutdown()
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
