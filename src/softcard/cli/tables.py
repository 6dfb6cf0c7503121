"""The output of tables and diagnostics: with borders and colours on a terminal, plain in pipes."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Sequence
from typing import IO, TYPE_CHECKING, Final, TextIO, cast

from rich.box import SIMPLE_HEAD
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from softcard.cli.output import exact
from softcard.core.display import printable

if TYPE_CHECKING:
    from softcard.core.diagnostics import Diagnostic

STYLES: Final = {
    **dict.fromkeys(("ok", "yes", "compiled"), "green"),
    **dict.fromkeys(("missing", "slower"), "yellow"),
    **dict.fromkeys(("broken", "differs"), "red"),
}
"""The styles of table cells that consist of one of these words."""


class Terminal(Console):
    """A rich console for commands, which escapes control characters in its input."""

    @property
    def file(self) -> IO[str]:
        """The output stream, without escaping of control characters."""
        return exact(cast(TextIO, super().file))

    @file.setter
    def file(self, file: IO[str]) -> None:
        self._file = file

    def on_broken_pipe(self) -> None:
        """Raise the exception that `print` raises for a closed pipe."""
        raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Yield the segments of the output, after escaping control characters in the input."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(printable(segment.text), segment.style)


def show(headings: Sequence[str], rows: Sequence[Sequence[str]], right: frozenset[int] = frozenset()) -> None:
    """Print a table; `right` has the indices of the columns that are aligned right.

    In a pipe, no line is cut or wrapped."""
    console = Terminal(highlight=False)
    if console.is_terminal:
        table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False)
        for number, each in enumerate(headings):
            table.add_column(each, justify="right" if number in right else "left", overflow="fold")
        for row in rows:
            table.add_row(*(Text(cell, STYLES.get(cell, "")) for cell in row))
        console.print(table)
        return
    for line in aligned((headings, *rows), right):
        print(line)


def show_diagnostics(diagnostics: Sequence[Diagnostic], to: IO[str]) -> None:
    """Print diagnostics, with empty lines between them.

    Lines are wrapped at the terminal's width, or at that of the environment variable COLUMNS; in a pipe without that
    variable they are not wrapped.
    """
    from softcard.report.diagnostic_text import render

    console = Terminal(file=to, highlight=False, markup=False)
    width = _width(console)
    for number, each in enumerate(diagnostics):
        if number:
            console.print()
        for line in render(each, width):
            console.print(line, soft_wrap=True)


def styled_diagnostic(diagnostic: Diagnostic, to: TextIO | None) -> str:
    """Return a diagnostic as text for a stream: with colours and wrapped if it is a terminal.

    Control characters of files are escaped in it.
    """
    from softcard.report.diagnostic_text import render

    console = Terminal(file=to, highlight=False, markup=False)
    with console.capture() as printed:
        for line in render(diagnostic, _width(console)):
            console.print(line, soft_wrap=True)
    return printed.get().rstrip("\n")


def _width(console: Console) -> int:
    """Return the number of columns at which text is wrapped, or 0."""
    return console.width if console.is_terminal or "COLUMNS" in os.environ else 0


def aligned(rows: Sequence[Sequence[str]], right: frozenset[int] = frozenset()) -> list[str]:
    """Return each row as a line with aligned columns; `right` has the indices of the columns that are aligned right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.rjust(width) if number in right else cell.ljust(width)
            for number, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
