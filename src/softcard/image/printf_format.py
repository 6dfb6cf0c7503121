"""Formats of kernels' ``printf``, as compilers store them in metadata; they determine the layout of printf records."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

_ESCAPES: Final = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "v": "\v", "72": ":"}
"""The characters for the escape sequences in stored formats; before other characters a backslash is kept."""
_ESCAPED: Final = re.compile(r"\\(72|[abfnrv])")
MAX_ARGUMENTS: Final = 4096


@dataclass(frozen=True, slots=True)
class PrintfFormat:
    """A printf format. `sizes` are the sizes in bytes of the arguments in a record; `text` is the format string.

    In `text` escape sequences are replaced. With `short_strings`, a string whose length is a multiple of 4 is stored
    without its terminating 0, in 4 bytes less than its size; the last 4 bytes of the record are then not written. LLVM
    does so since version 16.
    """

    sizes: tuple[int, ...]
    text: str
    short_strings: bool = False


def unescaped(text: str) -> str:
    r"""Return a format string as in the source, with escape sequences replaced.

    Compilers escape control characters, and colons as ``\72``.
    """
    return _ESCAPED.sub(lambda found: _ESCAPES[found[1]], text)


def _count(text: str) -> int:
    """Return the number of arguments that the conversions of a format take."""
    conversions = text.replace("%%", "")
    return conversions.count("%") + conversions.count("*")


def read_formats(lines: Iterable[Any], short_strings: bool = False) -> dict[int, PrintfFormat]:
    r"""Return the formats by number from the metadata ``amdhsa.printf`` (V2: ``Printf``).

    A line is, for example, ``7:2:4:8:%d %s\n``: the number, the count of arguments, their sizes, and the text.
    LLVM counts, but does not store, arguments without a conversion: their sizes are missing. Malformed lines are
    skipped."""
    found: dict[int, PrintfFormat] = {}
    for line in lines:
        parts = str(line).split(":", 2)
        if len(parts) < 3 or not (parts[0] + parts[1]).isdecimal() or int(parts[1]) > MAX_ARGUMENTS:
            continue
        *sizes, text = parts[2].split(":", int(parts[1]))
        is_whole = len(sizes) == int(parts[1]) or len(sizes) == _count(text)
        if is_whole and all(size.isdecimal() for size in sizes):
            found[int(parts[0])] = PrintfFormat(tuple(map(int, sizes)), unescaped(text), short_strings)
    return found
