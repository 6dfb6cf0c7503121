"""Work that nobody waits for, done one piece after the other on a thread that ends with the process at any moment.

So it must not be inside of native libraries when the process ends: `compile_process` has LLVM elsewhere.
"""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Callable
from typing import Any, Final, Generic, TypeVar

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
    """The thread, started when there is work. In a forked child what was waiting is done nowhere."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Begin anew without anything to do."""
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self._tasks: queue.SimpleQueue[Task[Any]] = queue.SimpleQueue()

    def submit(self, work: Callable[[], T]) -> Task[T]:
        """Have a piece of work done."""
        task = Task(work)
        self._tasks.put(task)
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="understudy-compile", daemon=True)
                self._thread.start()
        return task

    def _run(self) -> None:
        tasks = self._tasks
        while True:
            tasks.get().run()


BACKGROUND: Final = Background()
"""The one of this process."""
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=BACKGROUND.forget)
