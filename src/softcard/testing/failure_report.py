"""The report of a failed test as one HTML file: its failures, the findings, the events and the code of its devices."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from softcard.core.diagnostics import DOCS_VARIABLE, AnyFinding, diagnostics_of
from softcard.core.errors import SoftcardError
from softcard.trace.code import listing_of
from softcard.trace.html import HtmlTrace
from softcard.trace.values import DIAGNOSTIC

if TYPE_CHECKING:
    from softcard.testing.watch import Watch
    from softcard.trace.code import Listing, Loaded

SUFFIX: Final = ".html"


@dataclass
class FailureReport:
    """The collector of a failed test's report; `title` is the id of the test, `path` the file without its suffix.

    A test can fail more than once: in its call and when its devices are closed. Each failure is added, and the file is
    written again."""

    title: str
    path: Path
    _failures: list[tuple[str, str, str]] = field(default_factory=list)
    _listings: dict[int, Listing] = field(default_factory=dict)
    _notes: list[str] = field(default_factory=list)

    def failed(self, when: str, message: str, text: str) -> None:
        """Add a failure in the phase `when` of the test: its message, and the text that pytest shows."""
        self._failures.append((when, message, text))

    def code(self, programs: Iterable[Loaded], device: str) -> None:
        """Add the code that is loaded on the device called `device`.

        Code that can no longer be read is replaced by a note."""
        for program in programs:
            if id(program) in self._listings:
                continue
            try:
                self._listings[id(program)] = listing_of(program, None, f"{program!r}".strip("<>"))
            except SoftcardError as error:
                self._notes.append(f"code of softcard_{device} is not shown: {error}")

    def write(self, watches: Iterable[Watch], findings: Iterable[AnyFinding]) -> Path:
        """Write the report, with the events that `watches` have recorded, and return its path."""
        file = self.path.with_name(self.path.name + SUFFIX)
        file.parent.mkdir(parents=True, exist_ok=True)
        with HtmlTrace(file, self.title, os.environ.get(DOCS_VARIABLE, "")) as page:
            for watch in watches:
                for event in watch.events:
                    page(event)
            for each in diagnostics_of(findings):
                page.finding(each)
            for when, message, text in self._failures:
                page.write({"time": 0, "event": "test-failed", "phase": when, "message": message, DIAGNOSTIC: text})
            for listing in self._listings.values():
                page.listing(listing)
            for note in self._notes:
                page.note(note)
        return file
