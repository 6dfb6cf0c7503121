"""Rows under headings: a table where people look, aligned columns where programs read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

STYLES: Final = {
    **dict.fromkeys(("ok", "yes", "compiled"), "green"),
    **dict.fromkeys(("missing", "slower"), "yellow"),
    **dict.fromkeys(("broken", "differs"), "red"),
}
"""Words that stand out where they fill a cell."""


def show(headings: Sequence[str], rows: Sequence[Sequence[str]], right: frozenset[int] = frozenset()) -> None:
    """Print rows; the columns whose numbers are in `right` hold numbers. In a pipe no line is cut or folded."""
    console = Console(highlight=False)
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


def aligned(rows: Sequence[Sequence[str]], right: frozenset[int] = frozenset()) -> list[str]:
    """Rows as lines, whose cells begin, or in the columns `right` end, one below the other."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.rjust(width) if number in right else cell.ljust(width)
            for number, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
