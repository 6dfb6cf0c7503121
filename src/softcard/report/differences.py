"""Comparison of two documents (by key), two code listings (by instruction) or two memory contents (by byte)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any, BinaryIO, Final

import numpy as np

ABSENT: Final = "absent"
"""The value of a key that one document lacks; no value in a document is equal to it."""
PLACES: Final = frozenset(
    {"address", "entry", "offset", "pc", "place", "file_bytes", "memory_bytes", "kernel_code_entry_byte_offset"}
)
"""The keys of code object reports whose values are offsets or sizes, which depend on other parts of the file."""
LAYOUT: Final = ("elf", "segments", "symbols", "relocations", "parts", "data")
"""The sections of code object reports that consist mostly of offsets and sizes."""
AROUND: Final = 3
"""The number of instructions shown before and after a difference."""
PIECE_BYTES: Final = 1 << 20
SHOWN_BYTES: Final = 32


@dataclass(frozen=True, slots=True)
class Change:
    """A difference of two documents: its path, such as ``kernels/saxpy/vgprs``, and the value in each document."""

    place: str
    one: Any
    other: Any


@dataclass(frozen=True, slots=True)
class CodeChange:
    """The differing instructions of one function, together with unchanged instructions around them.

    Each line has a prefix (``" "`` unchanged, ``"-"`` removed, ``"+"`` added), the pc and the text."""

    place: str
    lines: list[tuple[str, int, str]]


@dataclass(frozen=True, slots=True)
class BytesChange:
    """The first range of bytes that differs in two files, from `offset` to `end`, with totals.

    - `one`, `other`: the first `SHOWN_BYTES` bytes of the range in each file
    - `differing`: the number of all bytes that differ; bytes that only the longer file has are included
    - `ranges`: the number of ranges of differing bytes
    - `sizes`: the sizes of both files
    """

    offset: int
    end: int
    one: bytes
    other: bytes
    differing: int
    ranges: int
    sizes: tuple[int, int]


def document_changes(one: Any, other: Any, ignored: Iterable[str] = ()) -> Iterator[Change | CodeChange]:
    """Yield the differences of two documents (JSON values), in the order of the first document.

    The keys in `ignored` are not compared. Lists whose items are objects with a ``name`` or ``names`` are compared by
    name, other lists by index.
    """
    return _changes("", one, other, frozenset(ignored))


def code_changes(one: Any, other: Any, ignored: Iterable[str] = ()) -> Iterator[Change | CodeChange]:
    """Yield the differences of two code object reports, as `document_changes` does.

    Differences of addresses are only yielded if there are no other differences."""
    skipped = frozenset(ignored)
    found = list(_changes("", one, other, skipped | PLACES | set(LAYOUT)))
    yield from found or _changes("", one, other, skipped)


def _changes(place: str, one: Any, other: Any, ignored: frozenset[str]) -> Iterator[Change | CodeChange]:
    match one, other:
        case dict(), dict():
            for key in dict.fromkeys((*one, *other)):
                if key not in ignored:
                    inner = f"{place}/{key}" if place else str(key)
                    yield from _changes(inner, one.get(key, ABSENT), other.get(key, ABSENT), ignored)
        case list(), list() if _is_code(one) and _is_code(other):
            yield from _code(place, one, other)
        case list(), list():
            mine, theirs = _named(one), _named(other)
            if mine is None or theirs is None:
                mine, theirs = ({str(at): each for at, each in enumerate(side)} for side in (one, other))
            for name in dict.fromkeys((*mine, *theirs)):  # names of items, which `ignored` does not mean
                inner = f"{place}/{name}" if place else name
                yield from _changes(inner, mine.get(name, ABSENT), theirs.get(name, ABSENT), ignored)
        case _:
            if type(one) is not type(other) or one != other:
                yield Change(place or "all", one, other)


def _named(items: list[Any]) -> dict[str, Any] | None:
    """Return the items of a list by name; None if an item has no name or a name is not unique."""
    found: dict[str, Any] = {}
    for item in items:
        value = item.get("name") or item.get("names") if isinstance(item, dict) else None
        name = "/".join(map(str, value)) if isinstance(value, list) else value
        if not isinstance(name, str) or name in found:
            return None
        found[name] = item
    return found


def _is_code(items: list[Any]) -> bool:
    return bool(items) and all(isinstance(item, dict) and {"pc", "text"} <= set(item) for item in items)


def _code(place: str, one: list[Any], other: list[Any]) -> Iterator[CodeChange]:
    mine, theirs = ([str(line["text"]) for line in side] for side in (one, other))
    for group in SequenceMatcher(None, mine, theirs, autojunk=False).get_grouped_opcodes(AROUND):
        lines: list[tuple[str, int, str]] = []
        for what, first, last, other_first, other_last in group:
            if what == "equal":
                lines += [(" ", line["pc"], line["text"]) for line in one[first:last]]
            else:
                lines += [("-", line["pc"], line["text"]) for line in one[first:last]]
                lines += [("+", line["pc"], line["text"]) for line in other[other_first:other_last]]
        yield CodeChange(place.removesuffix("/lines"), lines)


def bytes_change(one: BinaryIO, other: BinaryIO) -> BytesChange | None:
    """Return the first range of bytes in which two files differ, with counts; None if the files are equal."""
    at = differing = ranges = 0
    first = last = -1
    sizes = [0, 0]
    shown: tuple[bytes, bytes] = b"", b""
    previous = False
    while True:
        mine, theirs = one.read(PIECE_BYTES), other.read(PIECE_BYTES)
        if not mine and not theirs:
            break
        sizes[0] += len(mine)
        sizes[1] += len(theirs)
        unlike = np.ones(max(len(mine), len(theirs)), bool)
        both = min(len(mine), len(theirs))
        if mine != theirs:
            unlike[:both] = np.frombuffer(mine, np.uint8, both) != np.frombuffer(theirs, np.uint8, both)
            begins = np.flatnonzero(unlike & ~np.concatenate(([previous], unlike[:-1])))
            if first < 0:
                first = at + int(begins[0])
            if last < 0:
                start, stop = max(first - at, 0), max(first - at, 0) + SHOWN_BYTES
                shown = shown[0] + mine[start:stop], shown[1] + theirs[start:stop]
                same = np.flatnonzero(~unlike[max(first - at, 0) :])
                last = at + max(first - at, 0) + int(same[0]) if len(same) else -1
            ranges += len(begins)
            differing += int(unlike.sum())
            previous = bool(unlike[-1])
        else:
            last = at if first >= 0 and last < 0 else last
            previous = False
        at += len(unlike)
    if first < 0:
        return None
    end = at if last < 0 else last
    size = min(end - first, SHOWN_BYTES)
    return BytesChange(first, end, shown[0][:size], shown[1][:size], differing, ranges, (sizes[0], sizes[1]))
