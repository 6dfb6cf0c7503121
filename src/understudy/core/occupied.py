"""Who runs the kernels of a device: one thread at a time, which others wait for that close the device."""

from __future__ import annotations

import threading
from types import TracebackType

from understudy.core.forks import tell_forks


class Occupied:
    """A context that a thread is in while it runs kernels."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._thread = 0
        self.is_lost = False
        """Whether this process was forked while another thread was in here: what that did is never finished."""
        tell_forks(self)

    def after_fork(self) -> None:
        """In a child process: the other thread is not there."""
        self._lock = threading.RLock()
        if self._thread and not self.is_mine:
            self._thread, self.is_lost = 0, True

    def __bool__(self) -> bool:
        """Whether some thread is in it."""
        return self._thread != 0

    @property
    def is_mine(self) -> bool:
        """Whether the calling thread is."""
        return self._thread == threading.get_ident()

    def wait(self) -> bool:
        """Wait until no other thread is; whether none is at all."""
        with self._lock:
            return not self._thread

    def __enter__(self) -> None:
        self._lock.acquire()
        self._thread = threading.get_ident()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._thread = 0
        self._lock.release()
