"""What a test did with a device: its last events, kept until it is known whether somebody wants to see them."""

from __future__ import annotations

from collections import deque
from pathlib import Path
from typing import Final

from understudy.core.errors import UnderstudyError
from understudy.core.event import Event, Probes
from understudy.core.lint import Lint
from understudy.trace import ChromeTrace, HtmlTrace, JsonlTrace, TextTrace
from understudy.trace.text import line
from understudy.trace.timeline import finding_of
from understudy.trace.values import to_object
from understudy.trace.writer import TraceWriter

FORMATS: Final[dict[str, type[TraceWriter]]] = {
    "jsonl": JsonlTrace,
    "chrome": ChromeTrace,
    "text": TextTrace,
    "html": HtmlTrace,
}
"""Trace formats by name."""
SUFFIXES: Final = {"jsonl": ".jsonl", "chrome": ".json", "text": ".txt", "html": ".html"}
KEPT: Final = 100_000
"""Events of one device that are kept in memory for the trace of a test that fails."""
SHOWN: Final = 20
"""Events that the report of a failure shows."""
SOUGHT: Final = 5000
"""Events among which the last error is looked for."""


class Watch:
    """Keeps the last `KEPT` events of a device called `name` for a trace at `path`, or with `whole` writes all of them.

    `form` names the trace's format, whose suffix the path is given.
    """

    def __init__(self, name: str, probes: Probes, path: Path, form: str, *, whole: bool = False) -> None:
        self.name = name
        self.path = path.with_name(path.name + SUFFIXES[form])
        self._form = form
        self._events: deque[Event] = deque(maxlen=KEPT)
        self._count = 0
        self._trace = self._open() if whole else None
        self._cancel = probes.subscribe(self._take, later=True)

    def _open(self) -> TraceWriter:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        return FORMATS[self._form](self.path)

    def _take(self, event: Event) -> None:
        self._count += 1
        self._events.append(event)
        if self._trace is not None:
            self._trace(event)

    def close(self) -> None:
        """Hear no more of the device, and end what is written; a second time has no effect."""
        self._cancel()
        if self._trace is not None:
            self._trace.close()

    def last(self) -> str:
        """The last events as lines; lints are among them.

        Where something went wrong before all of these (a device is tidied up behind an error), half of the lines are
        the events up to there.
        """
        events = list(self._events)
        pieces = [range(max(0, len(events) - SHOWN), len(events))]
        wrong = self._wrong(events)
        if wrong is not None and wrong < pieces[0].start:
            half = SHOWN // 2
            pieces = [range(max(0, wrong + 1 - half), wrong + 1), range(len(events) - half, len(events))]
        lines: list[str] = []
        told = len(events) - self._count  # what was dropped counts as earlier
        for piece in pieces:
            if piece.start > told:
                lines.append(f"({piece.start - told} {'more' if lines else 'earlier'} events)")
            lines += [line(events[at]) for at in piece]
            told = piece.stop
        return "\n".join(lines) or "(no event)"

    def _wrong(self, events: list[Event]) -> int | None:
        """Which event says last that something went wrong, of the last `SOUGHT`; lints are hints only."""
        for at in range(len(events) - 1, max(-1, len(events) - 1 - SOUGHT), -1):
            if not isinstance(events[at], Lint) and finding_of(at, to_object(events[at])) is not None:
                return at
        return None

    def lints(self) -> list[str]:
        """What the device took for a mistake, each once."""
        return list(dict.fromkeys(str(event) for event in self._events if isinstance(event, Lint)))

    def write(self) -> str:
        """Write the events that are kept, unless they are written already; gives the path, and what is missing."""
        if self._trace is not None:
            return str(self.path)
        with self._open() as trace:
            for event in self._events:
                trace(event)
        lost = self._count - len(self._events)
        return f"{self.path} (without the first {lost} events)" if lost else str(self.path)


def verdict(error: BaseException | None, findings: list[str], lints: list[str]) -> str:
    """What a failure says of the interface's rules: the clause, place by place, and the mistakes that were accepted.

    `findings`: what the device's checks found, which need not be why the test failed.
    """
    found: list[str] = []
    said = str(error)
    while error is not None:
        if isinstance(error, UnderstudyError):
            found.append(f"{type(error).__name__}: {error.message}")
            found += [f"    {place}" for place in error.path]
            if error.rule is not None:
                found += [f"    rule {error.rule.id}, {error.rule.clause}:", f"    {error.rule.text}"]
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    more = [each for each in findings if each not in said]
    if not found and not findings:
        found = ["no rule of the interface was broken: what failed is the test's own expectation"]
    if more:
        found += ["the device found:" if found else "what failed is the test's own expectation, but the device found:"]
    elif not found:
        found = ["what failed is what the device found, not the test's own expectation"]
    return "\n".join([*found, *more, *(f"lint {each}" for each in lints)])
