"""Work that nobody waits for, done one piece after the other on a thread that ends with the process at any moment.

So it must not be inside of native libraries when the process ends: `compile_process` has LLVM elsewhere.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable
from typing import Any, Final, Generic, TypeVar

from understudy.ir.compile_process import PROCESS

T = TypeVar("T")


class Task(Generic[T]):
    """A piece of work: `result` is for when it is `done`."""

    def __init__(self, work: Callable[[], T]) -> None:
        self._work: Callable[[], T] | None = work
        self._result: T | None = None
        self._error: BaseException | None = None
        self.done = False

    def run(self) -> None:
        """Do it."""
        assert self._work is not None
        try:
            self._result = self._work()
        except BaseException as error:  # noqa: BLE001 - it is raised where the result is taken
            self._error = error
        self._work = None
        self.done = True

    def result(self) -> T:
        """What it gave, or what it raised."""
        assert self.done
        if self._error is not None:
            raise self._error
        return self._result  # type: ignore[return-value]


class Background:
    """The thread, which is there while there is work; `idle` is called on it when there is no more.

    In a forked child what was waiting is done nowhere.
    """

    def __init__(self, idle: Callable[[], None]) -> None:
        self.idle = idle
        self.forget()

    def forget(self) -> None:
        """Begin anew without anything to do."""
        self._is_busy = False
        self._lock = threading.Lock()
        self._tasks: deque[Task[Any]] = deque()

    def submit(self, work: Callable[[], T]) -> Task[T]:
        """Have a piece of work done."""
        task = Task(work)
        with self._lock:
            self._tasks.append(task)
            if not self._is_busy:
                self._is_busy = True
                threading.Thread(target=self._run, name="understudy-compile", daemon=True).start()
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
"""The one of this process."""
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=BACKGROUND.forget)
