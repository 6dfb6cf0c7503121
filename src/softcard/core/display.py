"""Display of objects for people: printable text, HTML tables in notebooks, and lists of names."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields, is_dataclass
from functools import cache, lru_cache
from typing import Any, Final

_HIDDEN: Final = re.compile(
    "["
    "\x00-\x08\x0b-\x1f\x7f-\x9f"  # control characters but tab and line feed
    "\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069"  # bidirectional controls, line and paragraph separators
    "\udc80-\udc9f"  # bytes of file names that are control characters
    "]"
)
_UNENCODABLE: Final = re.compile("[\ud800-\udfff\ufffe\uffff]")


def printable(text: str) -> str:
    r"""Return text whose control characters are escaped (``\x1b``, ``\u202e``); tabs and line feeds stay."""
    return text if text.isprintable() else _HIDDEN.sub(_escaped, text)


def encodable(text: str) -> str:
    """Return `text` with escape sequences for control characters and for characters that XML or UTF-8 cannot hold.

    The latter are surrogates and Unicode noncharacters."""
    return text if text.isprintable() else _UNENCODABLE.sub(_escaped, printable(text))


def shown_path(path: str) -> str:
    """Return a path as messages show it: relative to the working folder if the file is below it."""
    if not os.path.isabs(path):
        return path
    try:
        folder = os.getcwd()
    except OSError:  # it was deleted
        return path
    return os.path.relpath(path, folder) if path.startswith(folder.rstrip(os.sep) + os.sep) else path


def _escaped(found: re.Match[str]) -> str:
    code = ord(found[0])
    if 0xDC80 <= code < 0xDD00:  # a byte of a name that is not UTF-8
        code -= 0xDC00
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


_LINE: Final = "border:1px solid rgba(128,128,128,.35);padding:.15em .6em;text-align:left;vertical-align:top"
_TABLE: Final = "border-collapse:collapse;font-family:ui-monospace,monospace;font-size:90%;margin:.3em 0"
_TITLE: Final = "font-family:ui-monospace,monospace;font-size:90%;font-weight:600"
MOST_ROWS: Final = 200
"""The maximum number of rows of a table; further rows are only counted."""
MOST_NAMES: Final = 8
"""The maximum number of names in one line."""

Rows = Iterable[Sequence[object]]


class RichDisplay:
    """A base class of objects that notebooks show as a table with their `repr` as the title.

    Subclasses define the method `_rows`: the first row has the column names, or is ().
    """

    __slots__ = ()

    def _rows(self) -> Rows:
        raise NotImplementedError

    def _repr_html_(self) -> str:
        return html_table(repr(self).removeprefix("<").removesuffix(">"), self._rows())


def html_table(title: str, rows: Rows) -> str:
    """Return an HTML table with this title. The first of `rows` has the names of the columns, or is ()."""
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
    """Return the table rows for the dataclass object `settings`: one for each field, with its name and value."""
    assert is_dataclass(settings)
    return [(), *((each.name, getattr(settings, each.name)) for each in fields(settings))]


def some(names: Iterable[str], nothing: str = "none") -> str:
    """Return the first few names as one text, with the number of omitted ones; without names, return `nothing`."""
    every = list(names)
    more = f" and {len(every) - MOST_NAMES} more" if len(every) > MOST_NAMES else ""
    return ", ".join(every[:MOST_NAMES]) + more if every else nothing


def count(number: int, thing: str, things: str = "") -> str:
    """Return the number with its noun, as in ``1 buffer`` or ``2 buffers``; `things` is an irregular plural."""
    return f"{number:,} {thing if number == 1 else things or thing + 's'}"


def byte_size(number: int) -> str:
    """Return a number of bytes as text, in GiB or MiB if it is a multiple of one of them."""
    for unit, name in ((1 << 30, "GiB"), (1 << 20, "MiB")):
        if number and number % unit == 0:
            return f"{number // unit:,} {name}"
    return count(number, "byte")


LONGEST_MANGLED: Final = 1000
LONGEST_DEMANGLED: Final = 300
"""The maximum length of a demangled name; for longer names the mangled name is shown."""
MOST_REFERENCES: Final = 24
"""The maximum number of back references in a name to be demangled: each may double the length of the result."""
_REFERENCE: Final = re.compile("[ST][0-9A-Z]*_")
_MANGLED: Final = re.compile(r"\b_Z\w+")


def demangled(text: str) -> str:
    """Return text with the C++ names in it (Itanium ABI) as in the source: names with template arguments only.

    Types of results and parameters are left out. Names that cannot be demangled stay as they are.
    """
    return _MANGLED.sub(lambda found: _demangled(found[0]), text) if "_Z" in text else text


@lru_cache(4096)
def _demangled(name: str) -> str:
    demangle = _demangler()
    if demangle is None or len(name) > LONGEST_MANGLED or len(_REFERENCE.findall(name)) > MOST_REFERENCES:
        return name
    full = demangle(name)
    short = _without_parameters(full).removeprefix("void ").replace("(anonymous namespace)::", "")
    return short if short and len(short) <= LONGEST_DEMANGLED else name


def _without_parameters(name: str) -> str:
    """Return a demangled function without its last list of parameters."""
    end, depth = name.rfind(")"), 0
    for at in range(end, -1, -1):
        depth += {")": 1, "(": -1}.get(name[at], 0)
        if not depth:
            return name[:at].rstrip()
    return name


@cache
def _demangler() -> Callable[[str], str] | None:
    """Return the function `__cxa_demangle` of the C++ library, which llvmlite needs too; None without that library."""
    import ctypes  # few programs show mangled names

    try:
        library = ctypes.CDLL("libstdc++.so.6")
        demangle, free = library.__cxa_demangle, ctypes.CDLL(None).free
    except (OSError, AttributeError):
        return None
    demangle.restype, free.argtypes = ctypes.c_void_p, [ctypes.c_void_p]

    def call(name: str) -> str:
        status = ctypes.c_int()
        made = demangle(name.encode(), None, None, ctypes.byref(status))
        text = ctypes.string_at(made).decode("utf-8", "replace") if made else ""
        free(made)
        return text

    return call
