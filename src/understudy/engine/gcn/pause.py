"""Keeps machine code off a memory while its mappings change.

Machine code reads the page table by itself and remembers what it met. Whoever changes a mapping has all machine code on
that memory come back to Python first, which it does at the end of a turn of waves, and not go on until it is done. The
reference engines need none of this: each of their accesses is one look-up.
"""

from __future__ import annotations

import threading
from contextlib import AbstractContextManager

from understudy.core.forks import tell_forks
from understudy.engine.gcn.ticks import TICKS


class Pause:
    """One memory's. Machine code runs between `enter` and `leave`, never inside of `alone`."""

    def __init__(self) -> None:
        self._inside: set[object] = set()
        self._wanted = 0
        """Threads that are in `alone`, or wait to be."""
        self._owner = self._depth = 0
        self._waiting = 0
        """Threads that wait for something here."""
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._alone = _Alone(self)
        tell_forks(self)

    def after_fork(self) -> None:
        """In a child process, which has none of the threads."""
        self._inside.clear()
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._waiting = 0
        is_mine = self._owner == threading.get_ident()
        self._wanted = int(is_mine)
        if not is_mine:
            self._owner = self._depth = 0

    def enter(self, user: object) -> None:
        """Machine code is about to run; what it was given before may not hold any more."""
        self._inside.add(user)  # first this, so that whoever wants to be alone sees it
        if self._wanted:
            self._let_go_first(user)

    def leave(self, user: object) -> None:
        """It has come back."""
        self._inside.discard(user)
        if self._wanted:
            with self._lock:
                self._changed.notify_all()

    def alone(self) -> AbstractContextManager[None]:
        """No machine code runs in here, and nobody else is in here. A thread that is may enter again."""
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
    """Its ``with`` block."""

    def __init__(self, pause: Pause) -> None:
        self._pause = pause

    def __enter__(self) -> None:
        self._pause._begin()

    def __exit__(self, *_: object) -> None:
        self._pause._end()
