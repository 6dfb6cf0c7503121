"""A lock for changes of a memory's mappings, and a word that makes translated code return to Python.

Translated code reads the page table by itself and caches mappings. Before a thread changes a mapping, all
translated code that uses the memory returns to Python, at the end of a wave's time slice, and waits until
the change is done. The reference engine needs no lock, because each of its accesses looks up the mapping
once."""

from __future__ import annotations

import threading
import time
from contextlib import AbstractContextManager
from typing import Final

import numpy as np

from softcard.core.threads import reset_after_fork

# ---- a word that changes periodically --------------------------------------------------------------------------------
# A word that changes periodically while machine code runs, so that machine code returns to Python.
#
# Python runs signal handlers, and everything else that may end a kernel, only between two calls of machine code.
# Translated code cannot read the time cheaply; so one thread of the process counts in a word that the compiled
# scheduler polls whenever a wave's time slice ends.


TICK_SECONDS: Final = 0.05
"""The counter's period in seconds: machine code returns to Python about as often."""
IDLE_TICKS: Final = 20
"""The number of periods without running machine code after which the counting thread ends."""


class Ticks:
    """A counter, in `word`, that a thread increments periodically while any user is between `begin` and `end`.

    Translated code returns to Python when it sees that the counter has changed."""

    def __init__(self) -> None:
        self.word = np.zeros(1, np.uint64)
        self.address = int(self.word.ctypes.data)
        self.count = self.word.data
        self._users: set[object] = set()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def begin(self, user: object) -> None:
        """Announce that `user`, an engine, begins to run translated code."""
        self._users.add(user)  # first, so that a thread that is about to end sees it
        if self._thread is None:
            self._start()

    def end(self, user: object) -> None:
        """Announce that `user` has stopped running translated code."""
        self._users.discard(user)

    def nudge(self) -> None:
        """Change the counter now, so that running translated code returns to Python soon."""
        self.count[0] += 1

    def after_fork(self) -> None:
        """Reset the counter in a child process, where the counting thread does not run."""
        self._users.clear()
        self._lock = threading.Lock()
        self._thread = None

    def _start(self) -> None:
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="softcard-ticks", daemon=True)
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
"""The periodic counter of this process."""
reset_after_fork(TICKS)


# ---- lock ------------------------------------------------------------------------------------------------------------


class Pause:
    """The lock of one memory, which protects its mappings while translated code uses them.

    Translated code runs only between `enter` and `leave`, and never while a thread has exclusive access
    (`alone`)."""

    def __init__(self) -> None:
        self._inside: set[object] = set()
        self._wanted = 0
        """The number of threads that have exclusive access by `alone`, or wait for it."""
        self._owner = self._depth = 0
        self._waiting = 0
        """The number of threads that wait on the condition variable `_changed`."""
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._alone = _Alone(self)
        reset_after_fork(self)

    def after_fork(self) -> None:
        """Reset the lock in a child process, which has none of the other threads."""
        self._inside.clear()
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._waiting = 0
        is_mine = self._owner == threading.get_ident()
        self._wanted = int(is_mine)
        if not is_mine:
            self._owner = self._depth = 0

    def enter(self, user: object) -> None:
        """Wait until no thread has exclusive access, then announce that `user` is about to run translated code.

        When the call returns, mappings that `user` cached earlier may be invalid."""
        self._inside.add(user)  # first, so that a thread that enters `alone` sees it
        if self._wanted:
            self._let_go_first(user)

    def leave(self, user: object) -> None:
        """Announce that the translated code that `user` ran has returned."""
        self._inside.discard(user)
        if self._wanted:
            with self._lock:
                self._changed.notify_all()

    def alone(self) -> AbstractContextManager[None]:
        """Return the context manager of exclusive access.

        It excludes translated code and other threads, and is reentrant."""
        return self._alone

    def _let_go_first(self, user: object) -> None:
        with self._lock:
            self._inside.discard(user)
            self._changed.notify_all()
            while self._wanted:
                self._wait()
            self._inside.add(user)

    def _begin(self) -> None:
        me = threading.get_ident()
        if self._owner == me:
            self._depth += 1
            return
        with self._lock:
            self._wanted += 1
            try:
                if self._inside:
                    TICKS.nudge()
                while self._owner or self._inside:
                    self._wait()
            except BaseException:  # Ctrl-C
                self._wanted -= 1
                self._changed.notify_all()
                raise
            self._owner, self._depth = me, 1

    def _end(self) -> None:
        self._depth -= 1
        if not self._depth:
            with self._lock:
                self._owner = 0
                self._wanted -= 1
                if self._waiting:
                    self._changed.notify_all()

    def _wait(self) -> None:
        self._waiting += 1
        try:
            self._changed.wait()
        finally:
            self._waiting -= 1


class _Alone(AbstractContextManager[None]):
    """The context manager of `Pause.alone`."""

    def __init__(self, pause: Pause) -> None:
        self._pause = pause

    def __enter__(self) -> None:
        self._pause._begin()

    def __exit__(self, *_: object) -> None:
        self._pause._end()
