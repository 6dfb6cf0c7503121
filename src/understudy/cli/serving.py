"""What commands that serve a device have in common: how often they look, what they say, how signals end them."""

from __future__ import annotations

import os
import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final, Protocol

from understudy.core.errors import UnderstudyError

SWITCH_INTERVAL_S: Final = 0.0001
"""How long a busy device may keep the thread that answers registers waiting; guests would see Python's own 5 ms."""
GRACE_S: Final = 2.0
"""How long after a second signal a process may take to end by itself."""
REPEATED: Final = 5
"""How often one kind of finding is told."""


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


class Repeated:
    """Says findings, of each kind the first few."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self.counts: Counter[str] = Counter()
        """How many there were of each kind, told or not."""

    def tell(self, kind: str, text: str) -> bool:
        """Say `text`, unless enough was said of its kind; whether it was."""
        self.counts[kind] += 1
        is_said = self.counts[kind] <= REPEATED
        if is_said:
            more = ", and further ones are not shown" if self.counts[kind] == REPEATED else ""
            self._say(f"{text}{more}")
        return is_said

    def count(self, kind: str) -> None:
        """Count a finding that is not told by itself."""
        self.counts[kind] += 1


def rule_of(error: UnderstudyError) -> str:
    """The kind of an error: its rule, or else its type."""
    return error.rule.id if error.rule is not None else type(error).__name__
