"""The code that all commands which serve devices share: thread switching, repeated messages, and signals."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final, Protocol

from softcard.cli.options import Format
from softcard.cli.output import Output
from softcard.cli.records import formatted
from softcard.cli.tables import styled_diagnostic
from softcard.core.diagnostics import Diagnostic, Location, Note
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


MORE: Final = "further ones are not shown"
MOST_COLLECTED: Final = 1000
"""The maximum number of findings of one kind in a document."""
Show = Callable[[Diagnostic], None]
"""The type of a function that prints a finding; it never blocks."""


class FindingOutput:
    """The output of a server's findings: as text when they occur, or as a document in another format at the end.

    Lines about other events go to standard output beside text, and to standard error beside a document. `subject` is
    the path of what is served, for the document."""

    def __init__(self, form: Format, subject: Path) -> None:
        self._form, self._subject = form, subject
        self.collected: list[Diagnostic] | None = None if form is Format.TEXT else []
        """The findings of the document; None if they are printed as text."""
        self.output = Output(sys.stdout if self.collected is None else sys.stderr)

    def show(self, found: Diagnostic) -> None:
        """Print a finding, or collect it for the document."""
        if self.collected is None:
            self.output.say(styled_diagnostic(found, self.output.stream), is_printable=True)
        else:
            self.collected.append(found)

    def close(self) -> None:
        """Write the queued lines, and the document."""
        self.output.close()
        if self.collected is not None:
            print(formatted(self._form, self._subject, self.collected), end="")


class RepeatLimiter:
    """A printer of findings and messages that prints only the first few of each kind.

    `say` prints a message and `show` a finding. A document (`is_document`) contains more findings of each kind."""

    def __init__(self, say: Callable[[str], None], show: Show, is_document: bool = False) -> None:
        self._say, self._show = say, show
        self._most = MOST_COLLECTED if is_document else REPEATED
        self.counts: Counter[str] = Counter()
        """The number of findings and messages of each kind, whether printed or not."""

    def say(self, kind: str, text: str) -> None:
        """Print a message, unless `REPEATED` ones of this `kind` were printed already."""
        self.counts[kind] += 1
        if self.counts[kind] <= REPEATED:
            self._say(text if self.counts[kind] < REPEATED else f"{text}, and {MORE}")

    def report(self, kind: str, found: Diagnostic) -> bool:
        """Print a finding, unless enough of this `kind` were printed already; return True if it was printed."""
        self.counts[kind] += 1
        if self.counts[kind] > self._most:
            return False
        is_last = self.counts[kind] == self._most
        self._show(replace(found, notes=(*found.notes, Note(MORE))) if is_last else found)
        return True

    def count(self, kind: str) -> None:
        """Count a finding without printing it."""
        self.counts[kind] += 1


def found_at(found: Diagnostic, name: str, where: str = "") -> Diagnostic:
    """Return a finding of a served device with the device's name, and `where` in it, as its position."""
    position = found.position
    text = ", ".join(filter(None, (where, str(position))))
    return replace(found, location=position if position.file else Location(name, text=text, pc=found.pc))


def rule_of(error: SoftcardError) -> str:
    """Return the kind of an error: the rule that it violates, or else its type."""
    return error.rule.id if error.rule is not None else type(error).__name__
