"""Writer of a trace as an HTML report: one file, which is written when the trace is closed."""

from __future__ import annotations

import os
from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self, TextIO

from softcard.core.event import Event, Probes
from softcard.trace.values import Record
from softcard.trace.writer import TraceWriter

if TYPE_CHECKING:
    from softcard.core.diagnostics import Diagnostic
    from softcard.trace.code import Listing, Loaded
    from softcard.trace.writer import Device

FRAME_HEIGHT: Final = "80vh"
"""The height of a report in a notebook."""


class HtmlTrace(TraceWriter):
    """A writer of an HTML report, which is created when the writer is closed.

    `title` is the heading of the report, by default the file's name. `docs` is the address of Softcard's
    documentation, for links from rules and operations; "" for no links. All events are kept in memory, about 1 KB
    each. A notebook shows the closed writer as the report itself."""

    def __init__(self, to: str | os.PathLike[str] | TextIO, title: str = "", docs: str = "") -> None:
        from softcard.trace.timeline import Timeline  # here, since it imports NumPy

        super().__init__(to)
        self._title = title or (Path(to).stem if isinstance(to, (str, os.PathLike)) else "report")
        self._docs = docs
        self._timeline = Timeline()
        self._code: list[Listing] = []
        self._notes: list[str] = []
        self._devices: list[Device] = []
        self._has_findings = False
        self._page = ""

    def write(self, record: Record) -> None:
        """Store one event for the report."""
        self._timeline.take(record)

    def __call__(self, event: Event) -> None:
        """Store one event for the report, with the diagnostic of its error."""
        from softcard.trace.diagnostic import with_diagnostic

        self.write(with_diagnostic(event))

    def finding(self, found: Diagnostic) -> None:
        """Add the finding of a check."""
        from softcard.trace.diagnostic import finding_record

        self._has_findings = True
        self.write(finding_record(found))

    def follow(self, device: Probes | Device) -> Self:
        """Subscribe to the events of a device until this writer is closed; return the writer.

        If `device` is a device and not only its probes, the report shows its findings and the code that is loaded on it
        when the writer is closed, unless methods of the writer have added findings or code."""
        if not isinstance(device, Probes):
            self._devices.append(device)
        return super().follow(device)

    def code(self, loaded: Loaded, counts: Mapping[int, int] | None = None, name: str = "") -> None:
        """Show the code that a program executed, with counts: disassembly, and sources if they are found.

        `loaded` is the result of `Gpu.load` or `RefSi.load_elf`, a program of AMD OpenCL 2.0, or a kernel of Fletcher,
        which has only sources. `counts` are the `instruction_counts` of its device, which must be opened with
        ``count_instructions=True``. If `counts` is None, all functions of the program are shown."""
        from softcard.trace.code import listing_of

        self.listing(listing_of(loaded, counts, name))

    def listing(self, listing: Listing) -> None:
        """Add a listing of code to the report."""
        self._code.append(listing)

    def note(self, text: str) -> None:
        """Add a note to the report on code that is not shown, with the reason; a repeated note is shown once."""
        if text not in self._notes:
            self._notes.append(text)

    def _repr_html_(self) -> str:
        """Return the finished report as a frame of a notebook."""
        if not self._page:
            return f"<p>{escape(self._title)}: the report can be shown when its trace is closed</p>"
        return f'<iframe srcdoc="{escape(self._page)}" style="width:100%;height:{FRAME_HEIGHT};border:0"></iframe>'

    def finish(self) -> None:
        """Write the report to the file."""
        from importlib.metadata import PackageNotFoundError, version

        from softcard.core.diagnostics import diagnostics_of
        from softcard.trace.code import loaded_on
        from softcard.trace.page_file import write_page

        for device in self._devices if not self._has_findings else ():
            for each in diagnostics_of(getattr(device, "findings", ())):
                self.finding(each)
        for device in self._devices if not self._code else ():
            self._code += loaded_on(device)
        try:
            made_by = version("softcard")
        except PackageNotFoundError:  # a source tree that is not installed
            made_by = ""
        self._page = write_page(self._timeline, self._title, made_by, self._docs, self._code, self._notes)
        self._out.write(self._page)
