"""The geometry of one DMA transfer: which bytes it reads and writes, whether they meet, and the copy itself.

A transfer has a shape (bytes, rows, planes) and two sides. Everything is checked before a byte moves; the checks are
exact, to the byte, and cost no more than the number of rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from understudy.core.errors import BeyondModel
from understudy.core.space import Ram
from understudy.device.refsi.pieces import pieces
from understudy.device.refsi.spec.decode import Location

MAX_RUNS: Final = 1 << 20
"""Most separate runs of bytes that are compared or copied one by one."""
SCATTERED_PIECE: Final = 1 << 16
"""Bytes of a piece that may lie in very many runs."""

Bytes = npt.NDArray[np.uint8]
Starts = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Shape:
    """Bytes in a row, rows in a plane, planes; all at least 1."""

    row_bytes: int
    rows: int = 1
    planes: int = 1

    def extent(self, strides: tuple[int, int]) -> int:
        """Bytes from the first to the last one, gaps included."""
        return self.row_bytes + (self.rows - 1) * strides[0] + (self.planes - 1) * strides[1]

    def levels(self, strides: tuple[int, int]) -> tuple[int, tuple[tuple[int, int], ...]]:
        """The same bytes as (length, ((count, stride), ...)) with rows that follow each other joined."""
        length = self.row_bytes
        levels: list[tuple[int, int]] = []
        for count, stride in ((self.rows, strides[0]), (self.planes, strides[1])):
            if count == 1:
                continue
            if stride == length and not levels:
                length *= count
            else:
                levels.append((count, stride))
        return length, tuple(levels)


@dataclass(frozen=True, slots=True)
class Side:
    """Source or destination: where its whole extent lies, and the bytes between the starts of rows and planes."""

    place: Location
    shape: Shape
    strides: tuple[int, int]

    @property
    def memory(self) -> Ram:
        """The memory it lies in (sides never lie in registers)."""
        memory = self.place.ram
        assert memory is not None
        return memory

    @property
    def span(self) -> tuple[int, int]:
        """First physical address, and the first one behind."""
        first = self.place.physical
        return first, first + self.place.size if self.place.contiguous else self._end()

    def array(self) -> Bytes:
        """The bytes as planes x rows x bytes, shared with the memory; for contiguous places."""
        first = self.place.physical - self.place.mapping.base
        flat: Bytes = np.frombuffer(self.memory.view[first : first + self.place.size], dtype=np.uint8)
        shape = (self.shape.planes, self.shape.rows, self.shape.row_bytes)
        # The stride of a single row or plane is never taken and may be any number.
        row, plane = self.strides[0] if self.shape.rows > 1 else 0, self.strides[1] if self.shape.planes > 1 else 0
        return np.lib.stride_tricks.as_strided(flat, shape, (plane, row, 1))

    def rows(self) -> Iterator[Location]:
        """The place of each row, in order."""
        for plane in range(self.shape.planes):
            for row in range(self.shape.rows):
                yield self.place.at(plane * self.strides[1] + row * self.strides[0], self.shape.row_bytes)

    def runs(self) -> tuple[Starts, Starts] | None:
        """Physical starts and lengths of every run of bytes; None if there are more than `MAX_RUNS`."""
        length, levels = self.shape.levels(self.strides)
        count = 1
        for steps, stride in levels:
            count *= steps if stride else 1
        if not self.place.contiguous:
            count *= self.place.at(0, length).pieces + 1
        if count > MAX_RUNS:
            return None
        starts: Starts = np.zeros(1, dtype=np.int64)
        for steps, stride in levels:
            offsets = np.arange(steps if stride else 1, dtype=np.int64) * stride
            starts = (offsets[:, None] + starts[None, :]).reshape(-1)
        if self.place.contiguous:
            return starts + self.place.physical, np.full(len(starts), length, dtype=np.int64)
        pieces = [run for start in starts.tolist() for run in self.place.at(start, length).runs()]
        return (
            np.array([start for start, _ in pieces], dtype=np.int64),
            np.array([size for _, size in pieces], dtype=np.int64),
        )

    def _end(self) -> int:
        return self.place.at(self.place.size - 1, 1).physical + 1


def rows_overlap(shape: Shape, strides: tuple[int, int]) -> bool:
    """Whether two rows of one side share a byte. The extent must fit a memory (so that numbers stay small)."""
    length, levels = shape.levels(strides)
    if not levels:
        return False
    if any(stride < length for _, stride in levels):
        return True
    if len(levels) == 1:
        return False
    (few, wide), (many, narrow) = sorted(levels)
    if few * many * length > (few - 1) * wide + (many - 1) * narrow + length:
        return True
    # Rows a * wide and b * narrow (0 < a < few, 0 < b < many): is the nearest b to each a at least a row away?
    at = np.arange(1, few, dtype=np.int64) * wide
    below = np.minimum(at // narrow, many - 1)
    above = np.minimum(below + 1, many - 1)
    return bool((np.minimum(abs(at - below * narrow), abs(at - above * narrow)) < length).any())


def sides_meet(one: Side, other: Side) -> bool | None:
    """Whether the two share a byte of physical memory; None if that would take too long to find out."""
    (first, end), (other_first, other_end) = one.span, other.span
    if end <= other_first or other_end <= first:
        return False
    runs, other_runs = one.runs(), other.runs()
    if runs is None or other_runs is None:
        return None
    starts, lengths = runs
    order = np.argsort(starts, kind="stable")
    starts, ends = starts[order], np.maximum.accumulate((starts + lengths)[order])
    other_starts, other_lengths = other_runs
    # The last run that starts before each of the other's ends: does any run up to there end behind its start?
    index = np.searchsorted(starts, other_starts + other_lengths, side="left") - 1
    return bool(((index >= 0) & (ends[np.maximum(index, 0)] > other_starts)).any())


def copy(source: Side, target: Side, look: Callable[[], None]) -> None:
    """Move the bytes, and `look` now and then. The sides must not meet."""
    shape = source.shape
    if source.place.contiguous and target.place.contiguous:
        into, out_of = target.array(), source.array()
        for piece in pieces((shape.planes, shape.rows, shape.row_bytes)):
            look()
            np.copyto(into[piece], out_of[piece])
        return
    for from_row, to_row in zip(source.rows(), target.rows(), strict=True):
        for skip in range(0, shape.row_bytes, SCATTERED_PIECE):
            look()
            size = min(SCATTERED_PIECE, shape.row_bytes - skip)
            write_place(to_row.at(skip, size), read_place(from_row.at(skip, size)))


def check_pieces(what: str, place: Location, rows: int = 1) -> None:
    """`BeyondModel` if `place`, touched in `rows` rows, falls into more pieces than are copied one by one."""
    pieces = place.pieces + rows
    if place.window is not None and place.pieces > 1 and pieces > MAX_RUNS:
        raise BeyondModel(f"{what} in more than {MAX_RUNS} pieces through the interleaved {place.window.name}")


def slice_of(place: Location) -> memoryview:
    """The bytes of a contiguous place in plain memory, shared."""
    memory, first = place.ram, place.physical - place.mapping.base
    assert memory is not None
    return memory.view[first : first + place.size]


def read_place(place: Location) -> bytes:
    """The bytes of a place in plain memory."""
    memory, base = place.ram, place.mapping.base
    assert memory is not None
    return b"".join(bytes(memory.view[start - base : start - base + size]) for start, size in place.runs())


def write_place(place: Location, data: bytes) -> None:
    """Store the bytes of a place in plain memory."""
    memory, base = place.ram, place.mapping.base
    assert memory is not None
    done = 0
    for start, size in place.runs():
        memory.view[start - base : start - base + size] = data[done : done + size]
        done += size
