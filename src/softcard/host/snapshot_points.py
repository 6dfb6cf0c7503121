"""Points at which devices take snapshots of registers, given as text.

Examples are ``0x1f00``, ``saxpy+0x40``, ``saxpy.cl:7``, ``end``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, TypeAlias

from softcard.core.errors import WireError, close_to
from softcard.engine.hooks import END, FAULT

if TYPE_CHECKING:
    from softcard.image.elf.lines import Place

    PlaceOf: TypeAlias = Callable[[int], Place | None]


class Tracepoints(Protocol):
    """The interface for the snapshot points of a device: a set of instruction addresses, and a flag.

    The flag makes each end of a wave or an instance a snapshot point."""

    pcs: set[int]
    at_end: bool


def choose(
    tracepoints: Tracepoints | None, points: Sequence[str], names: Mapping[str, int], code: range, place: PlaceOf
) -> None:
    """Set the points at which a device takes snapshots of registers, given as text; see `addresses_of`.

    Faults and traps always are points, too. Raise `WireError` for a device without the setting `snapshots`.
    """
    if tracepoints is None:
        raise WireError("the device takes no snapshots of registers: open it with snapshots=COUNT")
    tracepoints.at_end = END in points
    for text in points:
        if text not in (FAULT, END):
            tracepoints.pcs.update(addresses_of(text, names, code, place))


def addresses_of(text: str, names: Mapping[str, int], code: range, place: PlaceOf) -> list[int]:
    """Return the addresses that `text` denotes: PC, SYMBOL[+OFFSET] or FILE:LINE.

    `names` are the addresses of symbols, `code` is the range of possible addresses, and `place` returns the
    source line of an address. The code of one line may begin at several addresses. Raise `WireError` if no
    address is found."""
    if text.lower().startswith("0x"):
        return [number_of(text, text)]
    at = file_and_line(text)
    if at is not None:
        found = addresses_of_line(*at, code, place)
        if not found:
            raise WireError(f"{text}: no instruction comes from that line")
        return found
    name, plus, offset = text.partition("+")
    if name not in names:
        near = close_to(name, names) or f", expected one of {', '.join(names) or 'none'}"
        raise WireError(f"{text}: unknown symbol {name!r}{near}")
    return [names[name] + (number_of(offset, text) if plus else 0)]


def file_and_line(text: str) -> tuple[str, int] | None:
    """Return the file and the line of a text FILE:LINE; None for other texts."""
    file, colon, line = text.rpartition(":")
    return (file, int(line)) if colon and line.isdecimal() else None


def addresses_of_line(file: str, line: int, code: range, place: PlaceOf) -> list[int]:
    """Return the addresses in `code` at which instructions of the source line `file`:`line` begin.

    `place` returns the source line of an address."""
    found, before = [], False
    for pc in code:
        at = place(pc)
        is_there = at is not None and at.is_at(line, lambda name: f"/{name}".endswith(f"/{file}"))
        if is_there and not before:
            found.append(pc)
        before = is_there
    return found


def number_of(text: str, whole: str) -> int:
    """Return the number that `text` denotes; raise `WireError` if it is invalid.

    The error quotes `whole`, the text of the snapshot point that contains the number."""
    try:
        return int(text, 0)
    except ValueError:
        raise WireError(f"{whole}: {text!r} is not a number") from None
