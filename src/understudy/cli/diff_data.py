"""The difference of two arrays, texts or memories, as `understudy diff` tells it."""

from __future__ import annotations

from dataclasses import asdict
from itertools import zip_longest
from typing import Any, BinaryIO, Final

import numpy as np

from understudy.cli.diff_sides import EQUAL, Found, Side, Wanted
from understudy.cli.exits import UsageError
from understudy.cli.files import reading
from understudy.cli.trace import lines_of
from understudy.report.differences import bytes_change


def arrays(one: Side, other: Side, wanted: Wanted) -> Found:
    """The first element of NumPy's files; NaNs of the same bits are the same."""
    arrays = []
    for side in (one, other):
        if str(side.path) == "-":
            raise UsageError("arrays are read from files, not from standard input")
        try:
            arrays.append(np.load(side.path, mmap_mode="r", allow_pickle=False))
        except (ValueError, OSError, EOFError) as error:
            raise UsageError(f"{side.path} is no array that can be read: {error}") from None
    first, second = arrays
    shapes = [f"{each.dtype}{list(each.shape)}" for each in arrays]
    if shapes[0] != shapes[1]:
        told = f"{one.path} is {shapes[0]}, {other.path} is {shapes[1]}"
        return {"equal": False, "shapes": shapes, "lines": [told]}
    change = bytes_change(_Bytes(first), _Bytes(second))  # type: ignore[arg-type]
    if change is None:
        return {"equal": True, "shapes": shapes, "lines": [f"{EQUAL}: {shapes[0]}"]}
    flat = first.reshape(-1), second.reshape(-1)
    unlike = sum(
        int((_raw(a) != _raw(b)).any(axis=1).sum())
        for at in range(0, len(flat[0]), _ELEMENTS)
        for a, b in [(flat[0][at : at + _ELEMENTS], flat[1][at : at + _ELEMENTS])]
    )
    at = change.offset // first.itemsize
    index = [int(each) for each in np.unravel_index(at, first.shape)]
    values = [each[at].item() for each in flat]
    text = [
        f"element {index} differs, and {unlike:,} of {first.size:,} do",
        *(f"  {side.path}: {value!r}" for side, value in zip((one, other), values, strict=True)),
    ]
    shown = [value if isinstance(value, (int, float)) else str(value) for value in values]
    return {
        "equal": False, "shapes": shapes, "index": index, "values": shown, "differing": unlike, "lines": text,
    }  # fmt: skip


_ELEMENTS: Final = 1 << 18


def _raw(array: Any) -> Any:
    """The bytes of each element."""
    return np.ascontiguousarray(array).view(np.uint8).reshape(len(array), -1)


class _Bytes:
    """An array's bytes, to be read as a file's."""

    def __init__(self, array: Any) -> None:
        self._flat = array.reshape(-1)
        self._at = 0

    def read(self, size: int) -> bytes:
        count = size // self._flat.itemsize or 1
        self._at, at = self._at + count, self._at
        data: bytes = self._flat[at : self._at].tobytes()
        return data


def texts(one: Side, other: Side, wanted: Wanted) -> Found:
    """The first line."""
    before: list[bytes] = []
    count = 0
    for count, pair in enumerate(zip_longest(lines_of(one.file, one.path), lines_of(other.file, other.path)), 1):
        if pair[0] != pair[1]:
            texts = [None if each is None else each.decode("utf-8", "replace").rstrip("\r\n") for each in pair]
            old = [each.decode("utf-8", "replace").rstrip("\r\n") for each in before]
            text = [f"line {count:,} differs", *(f"    {each}" for each in old)]
            for mark, side, each in zip("-+", (one, other), texts, strict=True):
                text.append(f"  {mark} {f'({side.path} has ended)' if each is None else each}")
            if texts[0] == texts[1]:
                text.append("  only the line's end differs")
            return {"equal": False, "line": count, "one": texts[0], "other": texts[1], "before": old, "lines": text}
        assert pair[0] is not None  # both have not ended
        before = [*before, pair[0]][-wanted.context :] if wanted.context else []
    return {"equal": True, "lines": [f"{EQUAL}: {count:,} lines"]}


def memories(one: Side, other: Side, wanted: Wanted) -> Found:
    """The first bytes."""
    with reading(one.path):
        return of_bytes(one.file, other.file, one, other)


def of_bytes(first: BinaryIO, second: BinaryIO, one: Side, other: Side) -> Found:
    """The first bytes of what both sides hold."""
    change = bytes_change(first, second)
    if change is None:
        return {"equal": True, "lines": [EQUAL]}
    names = str(one.path), str(other.path)
    text = [
        f"bytes {change.offset:#x} to {change.end:#x} differ first ({change.end - change.offset:,}); "
        f"{change.differing:,} bytes in {change.ranges:,} places do"
    ]
    width = max(map(len, names))
    for name, data in zip(names, (change.one, change.other), strict=True):
        text.append(f"  {name:<{width}}  {data.hex(' ', -8) if data else '(has ended)'}")
    if change.sizes[0] != change.sizes[1]:
        text.append(f"  sizes: {change.sizes[0]:,} and {change.sizes[1]:,} bytes")
    document = asdict(change) | {"one": change.one.hex(), "other": change.other.hex()}
    return {"equal": False, **document, "lines": text}
