"""`--report`: what a run did as one HTML file, written when it is over, however it ended."""

from __future__ import annotations

import io
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from understudy.cli.files import writing

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from understudy.core.event import Event, Probes
    from understudy.trace.code import Listing, Loaded
    from understudy.trace.reading import Record

ReportOption = Annotated[
    Path | None,
    typer.Option("--report", metavar="FILE.html", help="Write what happened as a page to look at; see `report`."),
]
DOCS_VARIABLE: Final = "UNDERSTUDY_DOCS"
"""The environment variable that says where these docs are, for links."""


class Report:
    """Gathers events of devices, perhaps on several threads, and the code that they ran."""

    def __init__(self, title: str, docs: str) -> None:
        from understudy.trace.html import HtmlTrace

        self.text = io.StringIO()
        self._trace = HtmlTrace(self.text, title, docs)
        self._lock = threading.Lock()
        self.is_empty = True

    def follow(self, probes: Probes) -> None:
        """Hear of all events of a device from now on."""
        self.is_empty = False
        probes.subscribe(self._take, later=True)

    def _take(self, event: Event) -> None:
        with self._lock:
            self._trace(event)

    def code(self, loaded: Loaded, counts: Mapping[int, int], name: str = "") -> None:
        """Show what a program executed."""
        self._trace.code(loaded, counts, name)

    def listing(self, listing: Listing) -> None:
        """Show code that is listed already."""
        with self._lock:
            self._trace.listing(listing)

    def loaded(self, kernels: Mapping[str, int]) -> None:
        """Say what begins where, which events of RefSi do not tell."""
        record: Record = {"time": 0, "event": "code-loaded", "kernels": {**kernels}}
        with self._lock:
            self._trace.write(record)

    def note(self, text: str) -> None:
        """Say of code what is not shown, and why."""
        with self._lock:
            self._trace.note(text)

    def found(self, findings: Sequence[Any]) -> None:
        """Show what checks have found."""
        with self._lock:
            for each in findings:
                said = f"{each.message} ({each.place})" if each.place else each.message
                said += f", see {each.other}" if getattr(each, "other", "") else ""
                said += f", {each.count:,} times" if getattr(each, "count", 1) > 1 else ""
                said += f"; {each.suggestion}" if getattr(each, "suggestion", "") else ""
                rule = getattr(each, "rule", None)
                said += f", [{rule.id}: {rule.clause}]" if rule is not None else ""
                record: Record = {"time": 0, "event": "finding", "check": each.name, "message": said}
                if each.pc is not None:
                    record["pc"] = hex(each.pc)
                self._trace.write(record)

    def finish(self) -> str:
        """The page."""
        with self._lock:
            self._trace.close()
        return self.text.getvalue()


@contextmanager
def reporting(path: Path | None, title: str) -> Iterator[Report | None]:
    """A report that is written to `path` at the end, if a device was followed; None where nobody wants one."""
    if path is None:
        yield None
        return
    with writing(path):
        path.open("ab").close()
    was_empty = not path.stat().st_size
    report = Report(title, os.environ.get(DOCS_VARIABLE, ""))
    told = "report: no device did anything, none was written"
    try:
        yield report
    except BaseException:
        told = ""  # what went wrong says enough
        raise
    finally:
        if report.is_empty:
            if was_empty:
                path.unlink()
            if told:
                print(told, file=sys.stderr)
        else:
            text = report.finish()
            with writing(path):
                path.write_text(text, encoding="utf-8", errors="replace")
            print(f"report: {path}", file=sys.stderr)
