"""A trace as a report: one HTML file that people look at, written when the run is over."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from understudy.trace.reading import Record
from understudy.trace.writer import TraceWriter

if TYPE_CHECKING:
    from understudy.trace.code import Listing, Loaded


class HtmlTrace(TraceWriter):
    """Writes a report at the end; nothing before. `title` stands above it, by default the file's name.

    `docs`: the address of these docs, for links from rules and operations into them; without it there are none.
    Events are kept in memory, about 1 KB each.
    """

    def __init__(self, to: str | os.PathLike[str] | TextIO, title: str = "", docs: str = "") -> None:
        from understudy.trace.timeline import Timeline  # NumPy comes along

        super().__init__(to)
        self._title = title or (Path(to).stem if isinstance(to, (str, os.PathLike)) else "report")
        self._docs = docs
        self._timeline = Timeline()
        self._code: list[Listing] = []
        self._notes: list[str] = []

    def write(self, record: Record) -> None:
        """Keep one event."""
        self._timeline.take(record)

    def code(self, loaded: Loaded, counts: Mapping[int, int], name: str = "") -> None:
        """Show what a program executed: disassembly, and where they are found its sources, with counts.

        `loaded` is what `Gpu.load` or `RefSi.load_elf` gave, or a program of AMD OpenCL 2.0; `counts` is what
        `instruction_counts` of its device gives, which was opened with ``count_instructions=True``.
        """
        from understudy.trace.code import listing_of

        self.listing(listing_of(loaded, counts, name))

    def listing(self, listing: Listing) -> None:
        """Show code that is listed already."""
        self._code.append(listing)

    def note(self, text: str) -> None:
        """Say of code what is not shown, and why; the same is said once."""
        if text not in self._notes:
            self._notes.append(text)

    def finish(self) -> None:
        """Write the file."""
        from importlib.metadata import PackageNotFoundError, version

        from understudy.trace.page_file import write_page

        try:
            made_by = version("understudy")
        except PackageNotFoundError:  # a source tree that is not installed
            made_by = ""
        self._out.write(write_page(self._timeline, self._title, made_by, self._docs, self._code, self._notes))
