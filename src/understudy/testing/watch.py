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
        """The last events as lines; lints are among them."""
        shown = list(self._events)[-SHOWN:]
        earlier = self._count - len(shown)
        head = [f"({earlier} earlier events)"] if earlier else []
        return "\n".join([*head, *map(line, shown)]) or "(no event)"

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


def verdict(error: BaseException | None, lints: list[str]) -> str:
    """What a failure says of the interface's rules: the clause, place by place, and the mistakes that were accepted."""
    found: list[str] = []
    while error is not None:
        if isinstance(error, UnderstudyError):
            found.append(f"{type(error).__name__}: {error.message}")
            found += [f"    {place}" for place in error.path]
            if error.rule is not None:
                found += [f"    rule {error.rule.id}, {error.rule.clause}:", f"    {error.rule.text}"]
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    if not found:
        found = ["no rule of the interface was broken: what failed is the test's own expectation"]
    return "\n".join([*found, *(f"lint {each}" for each in lints)])
