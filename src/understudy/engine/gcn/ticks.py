"""A word that changes now and then while machine code runs, which therefore comes back to Python.

Python's signal handlers, and everything else that may want to end a kernel, run only between two calls of machine code.
Translated code cannot tell the time cheaply; so one thread of the process counts in a word that the compiled scheduler
looks at whenever a wave's turn ends.
"""

from __future__ import annotations

import threading
import time
from typing import Final

import numpy as np

from understudy.core.forks import tell_forks

TICK_SECONDS: Final = 0.05
"""How long machine code may run before it looks up."""
IDLE_TICKS: Final = 20
"""Ticks without any machine code after which the thread ends."""


class Ticks:
    """Counts in `word` as long as somebody is between `begin` and `end`."""

    def __init__(self) -> None:
        self.word = np.zeros(1, np.uint64)
        self.address = int(self.word.ctypes.data)
        self.count = self.word.data
        self._users: set[object] = set()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def begin(self, user: object) -> None:
        """Machine code begins to run."""
        self._users.add(user)  # first this, so that a thread that is about to end sees it
        if self._thread is None:
            self._start()

    def end(self, user: object) -> None:
        """It has come back."""
        self._users.discard(user)

    def nudge(self) -> None:
        """Have machine code look up now."""
        self.count[0] += 1

    def after_fork(self) -> None:
        """In a child process, which has none of the threads."""
        self._users.clear()
        self._lock = threading.Lock()
        self._thread = None

    def _start(self) -> None:
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="understudy-ticks", daemon=True)
                self._thread.start()

    def _run(self) -> None:
        idle = 0
        while idle < IDLE_TICKS:
            time.sleep(TICK_SECONDS)
            idle = 0 if self._users else idle + 1
            self.count[0] += 1
        self._thread = None
        if self._users:
            self._start()


TICKS: Final = Ticks()
"""The one of this process."""
tell_forks(TICKS)
