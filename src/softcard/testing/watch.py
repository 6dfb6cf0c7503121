"""Recorder of the last events of a test's device, which writes them to a trace file if the test fails."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from softcard.core.diagnostics import AnyFinding, of_error
from softcard.core.errors import SoftcardError
from softcard.core.event import Event, Probes
from softcard.core.lint import Lint
from softcard.report.diagnostic_text import as_text
from softcard.trace import ChromeTrace, HtmlTrace, JsonlTrace, TextTrace
from softcard.trace.text import line
from softcard.trace.timeline import finding_of
from softcard.trace.values import to_object
from softcard.trace.writer import TraceWriter

FORMATS: Final[dict[str, type[TraceWriter]]] = {
    "jsonl": JsonlTrace,
    "chrome": ChromeTrace,
    "text": TextTrace,
    "html": HtmlTrace,
}
"""The writer classes by the name of the trace format."""
SUFFIXES: Final = {"jsonl": ".jsonl", "chrome": ".json", "text": ".txt", "html": ".html"}
MOST_EVENTS: Final = 100_000
"""The maximum number of events of one device that are kept in memory until the test ends."""
MOST_SHOWN: Final = 20
"""The number of events that the report of a failure shows."""
CUT: Final = "..."
SOUGHT: Final = 5000
"""The number of last events among which the last error is searched."""


class Watch:
    """A subscriber that keeps the last `MOST_EVENTS` events of a device, to write a trace file.

    - `name`: the name of the device in reports
    - `path`: the path of the trace, without the suffix of its format
    - `form`: the trace format, a key of `FORMATS`
    - `whole`: if True, all events are written to the trace as they occur
    """

    def __init__(self, name: str, probes: Probes, path: Path, form: str, *, whole: bool = False) -> None:
        self.name = name
        self.path = path.with_name(path.name + SUFFIXES[form])
        self._form = form
        self._events: deque[Event] = deque(maxlen=MOST_EVENTS)
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
        """Unsubscribe from the device, and close the trace; a second call has no effect."""
        self._cancel()
        if self._trace is not None:
            self._trace.close()

    @property
    def events(self) -> list[Event]:
        """The kept events."""
        return list(self._events)

    def last(self, width: int = 0) -> str:
        """Return the last events, with lints, as lines of text; lines longer than `width`, if it is not 0, are cut.

        If the last error is earlier than these events, the first half of the lines shows the events up to that error
        instead. This can happen because a device emits further events when it is closed after an error."""
        events = list(self._events)
        pieces = [range(max(0, len(events) - MOST_SHOWN), len(events))]
        wrong = self._wrong(events)
        if wrong is not None and wrong < pieces[0].start:
            half = MOST_SHOWN // 2
            pieces = [range(max(0, wrong + 1 - half), wrong + 1), range(len(events) - half, len(events))]
        lines: list[str] = []
        shown = len(events) - self._count  # negative if events were dropped: those count as earlier ones
        for piece in pieces:
            if piece.start > shown:
                lines.append(f"({piece.start - shown} {'more' if lines else 'earlier'} events)")
            lines += [line(events[at]) for at in piece]
            shown = piece.stop
        return "\n".join(_cut(each, width) for each in lines) or "(no event)"

    def _wrong(self, events: list[Event]) -> int | None:
        """Return the index of the last event that reports an error, if it is among the last `SOUGHT` events; else None.

        Lints do not count as errors."""
        for at in range(len(events) - 1, max(-1, len(events) - 1 - SOUGHT), -1):
            if not isinstance(events[at], Lint) and finding_of(at, to_object(events[at])) is not None:
                return at
        return None

    def lints(self) -> list[Lint]:
        """Return the device's lints, without repetitions."""
        return list({str(event): event for event in self._events if isinstance(event, Lint)}.values())

    def write(self) -> str:
        """Write the kept events to the trace, unless they have already been written.

        Return the path of the trace as text, which also states the number of earlier events that were not kept."""
        if self._trace is not None:
            return str(self.path)
        with self._open() as trace:
            for event in self._events:
                trace(event)
        lost = self._count - len(self._events)
        return f"{self.path} (without the first {lost} events)" if lost else str(self.path)


def _cut(line: str, width: int) -> str:
    return line if not width or len(line) <= width else line[: max(0, width - len(CUT))] + CUT


def verdict(
    error: BaseException | None, findings: Sequence[AnyFinding], lints: Sequence[Lint] = (), width: int = 0
) -> str:
    """Return the diagnostics of a failing test: of its errors, of the findings of checks, and of lints.

    `findings` are those of the device's checks, which may be unrelated to `error`, the exception of the test.
    """
    found: list[AnyFinding] = []
    known = getattr(error, "finding", None)
    while error is not None:
        if isinstance(error, SoftcardError):
            found.append(of_error(error))
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    more = [each for each in findings if each is not known]
    head = []
    if not found:
        head = ["the test's own expectation failed; the device found:" if more else OWN_FAILURE]
    texts = [as_text([*found, *more, *lints], width)]
    return "\n\n".join(filter(None, [*head, *texts]))


OWN_FAILURE: Final = "no rule of the interface was broken: the test's own expectation failed"
