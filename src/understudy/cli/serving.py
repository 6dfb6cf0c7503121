"""What commands that serve a device have in common: how often they look, and how signals end them."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final, Protocol

SWITCH_INTERVAL_S: Final = 0.0001
"""How long a busy device may keep the thread that answers registers waiting; guests would see Python's own 5 ms."""
GRACE_S: Final = 2.0
"""How long after a second signal a process may take to end by itself."""


class Closable(Protocol):
    """A server that a signal ends."""

    def close(self) -> None:
        """Stop serving."""


@contextmanager
def ended_by_signals(servers: Sequence[Closable]) -> Iterator[None]:
    """SIGINT and SIGTERM close the servers; a second one is a KeyboardInterrupt, for a kernel that does not return.

    Code that catches even that is ended by SIGALRM, `GRACE_S` later. A thread of its own closes them: Python's own
    handlers run in the main thread only, which a signal does not wake that comes just before it begins to wait.
    """

    def watch() -> None:
        is_closed = False
        while numbers := os.read(reader, 1):
            if numbers[0] not in ends:
                continue
            if is_closed:
                signal.setitimer(signal.ITIMER_REAL, GRACE_S)
                return
            is_closed = True
            for server in servers:
                server.close()

    def first(*_: object) -> None:
        for number in ends:
            signal.signal(number, second)

    def second(*_: object) -> None:
        for number in ends:
            signal.signal(number, signal.SIG_DFL)
        raise KeyboardInterrupt

    ends = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.getsignal(number) for number in (*ends, signal.SIGALRM)}
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    watcher = threading.Thread(target=watch, name="signals", daemon=True)
    watcher.start()
    woken = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    for number in ends:
        signal.signal(number, first)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    try:
        yield
    finally:
        signal.set_wakeup_fd(woken)
        os.close(writer)
        watcher.join()
        os.close(reader)
        signal.setitimer(signal.ITIMER_REAL, 0)
        for number, handler in before.items():
            signal.signal(number, handler)
