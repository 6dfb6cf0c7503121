"""How two things that are read as a whole differ: documents key by key, code by instruction, memory by bytes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any, BinaryIO, Final

import numpy as np

ABSENT: Final = "absent"
"""What a side has that lacks a key; no value of a document is that word alone."""
PLACES: Final = frozenset(
    {"address", "entry", "offset", "pc", "place", "file_bytes", "memory_bytes", "kernel_code_entry_byte_offset"}
)
"""Keys of code objects that follow from how long other parts are."""
LAYOUT: Final = ("elf", "segments", "symbols", "relocations", "parts", "data")
"""Parts of code objects that hold little else."""
AROUND: Final = 3
"""Instructions shown before a difference, and after it."""
PIECE_BYTES: Final = 1 << 20
SHOWN_BYTES: Final = 32


@dataclass(frozen=True, slots=True)
class Change:
    """What stands at a place of a document, such as ``kernels/saxpy/vgprs``, in one and in the other."""

    place: str
    one: Any
    other: Any


@dataclass(frozen=True, slots=True)
class CodeChange:
    """Instructions of a function that differ: each line's mark (``" "``, ``"-"``, ``"+"``), pc and text."""

    place: str
    lines: list[tuple[str, int, str]]


@dataclass(frozen=True, slots=True)
class BytesChange:
    """Bytes `offset` to `end` are the first that differ; `one` and `other` are what is there, the first
    `SHOWN_BYTES` of them.

    `differing` counts the bytes that differ in all, in `ranges`; `sizes` are those of both, of which the longer one's
    rest counts as differing.
    """

    offset: int
    end: int
    one: bytes
    other: bytes
    differing: int
    ranges: int
    sizes: tuple[int, int]


def document_changes(one: Any, other: Any, ignored: Iterable[str] = ()) -> Iterator[Change | CodeChange]:
    """Where two documents (what JSON can hold) differ, in the order of the first; keys that are `ignored` may.

    Lists of objects with a name, or names, are compared by those, other lists by place.
    """
    return _changes("", one, other, frozenset(ignored))


def code_changes(one: Any, other: Any, ignored: Iterable[str] = ()) -> Iterator[Change | CodeChange]:
    """The same of code objects: where places move, that is told only if nothing else differs."""
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
            for name in dict.fromkeys((*mine, *theirs)):  # names, and no keys that could be ignored
                inner = f"{place}/{name}" if place else name
                yield from _changes(inner, mine.get(name, ABSENT), theirs.get(name, ABSENT), ignored)
        case _:
            if type(one) is not type(other) or one != other:
                yield Change(place or "all", one, other)


def _named(items: list[Any]) -> dict[str, Any] | None:
    """The items by their names, None where they have none that tell them apart."""
    found: dict[str, Any] = {}
    for item in items:
        said = item.get("name") or item.get("names") if isinstance(item, dict) else None
        name = "/".join(map(str, said)) if isinstance(said, list) else said
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
    """The first bytes in which two files differ, and how many do; None where they are the same."""
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
