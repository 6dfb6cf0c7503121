"""Keeps machine code off a memory while its mappings change.

Machine code reads the page table by itself and remembers what it met. Whoever changes a mapping has all machine code on
that memory come back to Python first, which it does at the end of a turn of waves, and not go on until it is done. The
reference engines need none of this: each of their accesses is one look-up.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from understudy.core.forks import tell_forks
from understudy.engine.gcn.ticks import TICKS


class Pause:
    """One memory's. Machine code runs between `enter` and `leave`, never inside of `alone`."""

    def __init__(self) -> None:
        self._inside: set[object] = set()
        self._wanted = 0
        """Threads that are in `alone`, or wait to be."""
        self._owner = 0
        self._changed = threading.Condition(threading.Lock())
        tell_forks(self)

    def after_fork(self) -> None:
        """In a child process, which has none of the threads."""
        self._inside.clear()
        self._changed = threading.Condition(threading.Lock())
        if self._owner != threading.get_ident():
            self._owner = self._wanted = 0

    def enter(self, user: object) -> None:
        """Machine code is about to run; what it was given before may not hold any more."""
        self._inside.add(user)  # first this, so that whoever wants to be alone sees it
        if self._wanted:
            self._wait(user)

    def leave(self, user: object) -> None:
        """It has come back."""
        self._inside.discard(user)
        if self._wanted:
            with self._changed:
                self._changed.notify_all()

    def _wait(self, user: object) -> None:
        """Let those go first who want to be alone."""
        with self._changed:
            self._inside.discard(user)
            self._changed.notify_all()
            self._changed.wait_for(lambda: not self._wanted)
            self._inside.add(user)

    @contextmanager
    def alone(self) -> Iterator[None]:
        """No machine code runs in here, and nobody else is in here. A thread that is may enter again."""
        me = threading.get_ident()
        if self._owner == me:
            yield
            return
        with self._changed:
            self._wanted += 1
            try:
                if self._inside:
                    TICKS.nudge()
                self._changed.wait_for(lambda: not self._owner and not self._inside)
                self._owner = me
            except BaseException:  # Ctrl-C
                self._wanted -= 1
                self._changed.notify_all()
                raise
        try:
            yield
        finally:
            with self._changed:
                self._owner = 0
                self._wanted -= 1
                self._changed.notify_all()
