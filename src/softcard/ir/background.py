"""Background tasks, which a daemon thread executes one after another, and native functions that they optimise.

No thread waits for a background task. The thread is killed when the process ends, and it must not be in a native
library at that time; therefore `compile_process` runs LLVM in another process.

A failed task is reported through `threading.excepthook`, like an exception of any other thread that is not joined. It
is never raised in the caller that reads the result, because the caller's launch is not related to the failure.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable
from threading import Thread
from typing import Any, Final, Generic, TypeVar

from softcard.core.threads import report_exception, reset_after_fork
from softcard.ir import llvm
from softcard.ir.compile_process import PROCESS, ProcessEnds
from softcard.ir.native import Function, LateText, Module
from softcard.ir.native_source import SourceChanged
from softcard.ir.object_cache import ObjectCache

T = TypeVar("T")


class Task(Generic[T]):
    """A background task; `result` may be called once `done` is true."""

    failed = False
    """True if the task raised an exception, which has been reported already."""

    def __init__(self, work: Callable[[], T]) -> None:
        self._work: Callable[[], T] | None = work
        self._result: T | None = None
        self.done = False

    def run(self) -> None:
        """Run the task; an exception is reported through `threading.excepthook`, and is not raised here."""
        assert self._work is not None
        try:
            self._result = self._work()
        except ProcessEnds:  # no thread will read the result
            self.failed = True
        except BaseException as error:  # noqa: BLE001 - the thread goes on with the next task
            self.failed = True
            report_exception(error)
        self._work = None
        self.done = True

    def result(self) -> T | None:
        """Return the result of the task; None if it failed."""
        assert self.done
        return self._result


class Background:
    """The thread that runs background tasks. It starts with the first task, and ends when no task is left.

    Before it ends, it calls `idle`. A forked child drops the tasks that were waiting."""

    def __init__(self, idle: Callable[[], None]) -> None:
        self.idle = idle
        self.forget()

    def forget(self) -> None:
        """Drop all tasks. It is called in a forked child, which has no background thread."""
        self._is_busy = False
        self._lock = threading.Lock()
        self._tasks: deque[Task[Any]] = deque()

    def submit(self, work: Callable[[], T]) -> Task[T]:
        """Add a task that calls `work`, and return it."""
        task = Task(work)
        with self._lock:
            self._tasks.append(task)
            if not self._is_busy:
                self._is_busy = True
                threading.Thread(target=self._run, name="softcard-compile", daemon=True).start()
        return task

    def _run(self) -> None:
        lock, tasks = self._lock, self._tasks
        while True:
            while tasks:
                tasks.popleft().run()
            self.idle()
            with lock:
                if not tasks:
                    self._is_busy = False
                    return


BACKGROUND: Final = Background(PROCESS.close)
"""The background thread of this process."""
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=BACKGROUND.forget)


# ---- native functions ------------------------------------------------------------------------------------------------
# Native functions that are compiled quickly at first, and again with optimisation if they are used much.
#
# Optimising takes several times as long as compiling. That delays a short run but is hardly noticed in a long one. Both
# forms are cached, so that a later process compiles neither.


class Improving:
    """The machine code of native functions, compiled first quickly and later with optimisation.

    The code includes the functions that they call, and the additional LLVM IR `text`. `code` is the best code
    available. After `worth` uses, optimised code is compiled in the background; earlier code stays valid. If no
    compiled code is cached, another thread calls `meanwhile` while the first code is being compiled."""

    def __init__(
        self,
        objects: ObjectCache,
        *functions: Function[Any],
        worth: int,
        text: str | LateText = "",
        meanwhile: Callable[[], object] | None = None,
    ) -> None:
        self._module = Module(objects, functions, text)
        best = self._module.cached(llvm.OPTIMISED)
        if meanwhile is not None and best is None and self._module.cached(llvm.QUICK) is None:
            thread = Thread(target=meanwhile, name="softcard-meanwhile")
            os.register_at_fork(before=thread.join)  # a child could never acquire a lock that the thread holds
            thread.start()
        self.is_optimised = best is not None
        self.code = llvm.Code(best if best is not None else self._module.image(llvm.QUICK))
        self._left = worth
        self._task: Task[bytes | None] | None = None
        self._earlier: llvm.Code | None = None
        reset_after_fork(self)

    def after_fork(self) -> None:
        """Reset the state in a forked child, so that an unfinished background compilation is submitted again."""
        self._task = None

    def use(self, amount: int = 1) -> llvm.Code:
        """Count `amount` uses, and return the best machine code that is available."""
        if not self.is_optimised:
            self._left -= amount
            if self._left < 0:
                self._improve()
        return self.code

    def _improve(self) -> None:
        task = self._task
        if task is None:
            self._task = BACKGROUND.submit(self._optimised)
        elif task.done and not self.is_optimised:
            self.is_optimised = True
            image = task.result()
            if image is not None:
                self._earlier, self.code = self.code, llvm.Code(image)

    def _optimised(self) -> bytes | None:
        """Return the optimised code, compiled on the background thread.

        Return None if Softcard's source files have changed since the process loaded them."""
        try:
            return self._module.image(llvm.OPTIMISED, PROCESS.compile_ir)
        except SourceChanged:  # as by an upgrade during the run: the present code is never improved
            return None
