"""Formats of kernels' ``printf``, as a compiler leaves them in metadata: who prints by them knows what records hold."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

_ESCAPES: Final = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "v": "\v", "72": ":"}
"""What stands behind a backslash; a backslash before anything else is one."""
_ESCAPED: Final = re.compile(r"\\(72|[abfnrv])")
MAX_ARGUMENTS: Final = 4096


@dataclass(frozen=True, slots=True)
class PrintfFormat:
    """One format: `sizes` are the bytes of its arguments in a record, `text` the format string, without escapes.

    With `short_strings` a string whose length is a multiple of 4 stands there without its 0, 4 bytes shorter than its
    size says; as many bytes at the end of the record are not written. LLVM does so from 16 on.
    """

    sizes: tuple[int, ...]
    text: str
    short_strings: bool = False


def unescaped(text: str) -> str:
    r"""A format string as it was written: compilers escape control characters, and colons as ``\72``."""
    return _ESCAPED.sub(lambda found: _ESCAPES[found[1]], text)


def read_formats(lines: Iterable[Any], short_strings: bool = False) -> dict[int, PrintfFormat]:
    r"""Formats by number from ``amdhsa.printf`` (V2: ``Printf``), such as ``7:2:4:8:%d %s\n``; others are left out."""
    found: dict[int, PrintfFormat] = {}
    for line in lines:
        parts = str(line).split(":", 2)
        if len(parts) < 3 or not (parts[0] + parts[1]).isdecimal() or int(parts[1]) > MAX_ARGUMENTS:
            continue
        *sizes, text = parts[2].split(":", int(parts[1]))
        if len(sizes) == int(parts[1]) and all(size.isdecimal() for size in sizes):
            found[int(parts[0])] = PrintfFormat(tuple(map(int, sizes)), unescaped(text), short_strings)
    return found
