"""A device's thread of its own, which neither outlives the device nor keeps it alive."""

from __future__ import annotations

import threading
import weakref
from typing import Final, Protocol

IDLE_SECONDS: Final = 1.0
"""How often a thread that has nothing to do looks whether anybody has the device still."""


class Changed(threading.Condition):
    """A condition that costs next to nothing to notify while nobody waits."""

    _sleepers = 0

    def wait(self, timeout: float | None = None) -> bool:
        """As of `threading.Condition`."""
        self._sleepers += 1
        try:
            return super().wait(timeout)
        finally:
            self._sleepers -= 1

    def notify_all(self) -> None:
        """Likewise; the caller holds the lock."""
        if self._sleepers:
            super().notify_all()


class Worker(Protocol):
    """What such a thread works for."""

    @property
    def changed(self) -> threading.Condition:
        """Notified when there may be something to do."""

    @property
    def is_closed(self) -> bool:
        """Whether the thread is to end."""

    def serve(self) -> None:
        """Do what there is to do."""

    @property
    def patience(self) -> float:
        """Seconds until the thread has to look again, at most `IDLE_SECONDS`; 0 at once. `changed` is held."""


def start(worker: Worker, name: str) -> threading.Thread:
    """The thread: it runs until the worker is closed, or nobody has it any more."""
    thread = threading.Thread(target=_serve, args=(weakref.ref(worker),), name=name, daemon=True)
    thread.start()
    return thread


def _serve(owner: weakref.ref[Worker]) -> None:
    while True:
        worker = owner()
        if worker is None or worker.is_closed:
            return
        worker.serve()
        changed = worker.changed
        with changed:
            seconds = worker.patience
            del worker
            if seconds:
                changed.wait(seconds)
