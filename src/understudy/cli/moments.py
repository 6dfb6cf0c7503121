"""`--registers-at`: moments at which a report shows registers, from the command line's words to addresses."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from understudy.cli.exits import UsageError
from understudy.core.errors import close_to

if TYPE_CHECKING:
    from understudy.image.elf.lines import Place

FAULT: Final = "fault"
END: Final = "end"
SNAPSHOTS: Final = 64
"""Moments of a run that are kept."""


def moment_addresses(
    text: str, names: Mapping[str, int], code: range, place: Callable[[int], Place | None]
) -> list[int]:
    """The instructions that PC, SYMBOL[+OFFSET] or FILE:LINE names, of code whose parts begin at the steps of a range.

    Of a line those at which its code begins: there may be several. `UsageError` where there is none.
    """
    if text.lower().startswith("0x"):
        return [_number(text, text)]
    file, colon, line = text.rpartition(":")
    if colon and line.isdecimal():
        return _of_line(text, file, int(line), code, place)
    name, plus, offset = text.partition("+")
    if name not in names:
        near = close_to(name, names) or f": there are {', '.join(names) or 'none'}"
        raise UsageError(f"--registers-at {text}: no symbol {name!r}{near}")
    return [names[name] + (_number(offset, text) if plus else 0)]


def _of_line(text: str, file: str, line: int, code: range, place: Callable[[int], Place | None]) -> list[int]:
    found, before = [], False
    for pc in code:
        at = place(pc)
        is_there = at is not None and at.line == line and ("/" + at.file).endswith("/" + file)
        if is_there and not before:
            found.append(pc)
        before = is_there
    if not found:
        raise UsageError(f"--registers-at {text}: no instruction comes from that line")
    return found


def _number(text: str, whole: str) -> int:
    try:
        return int(text, 0)
    except ValueError:
        raise UsageError(f"--registers-at {whole}: {text!r} is no number") from None
