"""How things show themselves in a notebook: one table, in colours that suit light and dark pages."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import fields, is_dataclass
from typing import Any, Final

_LINE: Final = "border:1px solid rgba(128,128,128,.35);padding:.15em .6em;text-align:left;vertical-align:top"
_TABLE: Final = "border-collapse:collapse;font-family:ui-monospace,monospace;font-size:90%;margin:.3em 0"
_TITLE: Final = "font-family:ui-monospace,monospace;font-size:90%;font-weight:600"
MOST_ROWS: Final = 200
"""Rows of a table; what there is besides is counted."""
MOST_NAMES: Final = 8
"""Names in one line."""

Rows = Iterable[Sequence[object]]


class Shown:
    """What a notebook shows as a table, under its `repr`. The first of `_rows` are the names of the columns, or ()."""

    __slots__ = ()

    def _rows(self) -> Rows:
        raise NotImplementedError

    def _repr_html_(self) -> str:
        return html_table(repr(self).removeprefix("<").removesuffix(">"), self._rows())


def html_table(title: str, rows: Rows) -> str:
    """A table as HTML: its title, the names of its columns where the first row has some, and rows."""
    from html import escape  # few programs show tables

    head, *body = [[escape(str(cell)) for cell in row] for row in rows]
    parts = [f'<div><div style="{_TITLE}">{escape(title)}</div><table style="{_TABLE}">']
    if head:
        parts.append("<thead>" + _row("th", head) + "</thead>")
    parts += ["<tbody>", *(_row("td", cells) for cells in body[:MOST_ROWS])]
    if len(body) > MOST_ROWS:
        parts.append(_row("td", [f"{len(body) - MOST_ROWS} more"]))
    return "".join([*parts, "</tbody></table></div>"])


def _row(tag: str, cells: Iterable[str]) -> str:
    return "<tr>" + "".join(f'<{tag} style="{_LINE}">{cell}</{tag}>' for cell in cells) + "</tr>"


def fields_of(settings: Any) -> Rows:
    """The rows that tell of a dataclass: its fields and their values."""
    assert is_dataclass(settings)
    return [(), *((each.name, getattr(settings, each.name)) for each in fields(settings))]


def some(names: Iterable[str], nothing: str = "none") -> str:
    """The first of so many names, and how many more there are."""
    every = list(names)
    more = f" and {len(every) - MOST_NAMES} more" if len(every) > MOST_NAMES else ""
    return ", ".join(every[:MOST_NAMES]) + more if every else nothing


def count(number: int, thing: str) -> str:
    """``1 buffer``, ``2 buffers``."""
    return f"{number:,} {thing}{'s' * (number != 1)}"
