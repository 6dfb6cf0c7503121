"""The code that all commands which serve devices share: thread switching, repeated messages, and signals."""

from __future__ import annotations

import os
import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final, Protocol

from softcard.core.errors import SoftcardError

SWITCH_INTERVAL_S: Final = 0.0001
"""Python's thread switch interval while a device is served; the default of 5 ms makes register accesses slow."""
GRACE_S: Final = 2.0
"""The time in seconds that the process has to end by itself after a second signal."""
REPEATED: Final = 5
"""The maximum number of times that findings of one kind are printed."""


class Closable(Protocol):
    """The interface of a server that a signal can close."""

    def close(self) -> None:
        """Stop serving."""


@contextmanager
def ended_by_signals(servers: Sequence[Closable]) -> Iterator[None]:
    """Close the servers at SIGINT or SIGTERM; raise KeyboardInterrupt at a second signal.

    The second signal ends a kernel that hangs. If the interrupted code catches even KeyboardInterrupt, SIGALRM
    ends the process after `GRACE_S`. A separate thread closes the servers: Python runs signal handlers in the
    main thread only, and a signal that arrives just before a blocking call does not interrupt that call."""

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


MORE: Final = ", and further ones are not shown"
MORE_LINE: Final = "\nfurther ones are not shown"


class RepeatLimiter:
    """A printer of findings that prints only the first few of each kind."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self.counts: Counter[str] = Counter()
        """The number of findings of each kind, whether printed or not."""

    def report(self, kind: str, text: str) -> bool:
        """Print `text`, unless `REPEATED` texts of this `kind` were printed already; return True if it was printed."""
        self.counts[kind] += 1
        is_printed = self.counts[kind] <= REPEATED
        if is_printed:
            self._say(text if self.counts[kind] < REPEATED else f"{text}{MORE_LINE if chr(10) in text else MORE}")
        return is_printed

    def count(self, kind: str) -> None:
        """Count a finding without printing it."""
        self.counts[kind] += 1


def rule_of(error: SoftcardError) -> str:
    """Return the kind of an error: the rule that it violates, or else its type."""
    return error.rule.id if error.rule is not None else type(error).__name__
