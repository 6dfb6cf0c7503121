"""The geometry of one DMA transfer: the bytes it reads and writes, checks for overlaps, and the copy.

A transfer has a shape (bytes, rows, planes), a source and a destination; a `Side` describes one of the latter
two. Everything is checked before a byte is copied. The checks are exact to the byte, and their cost is at
most proportional to the number of rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from softcard.core.errors import BeyondModel
from softcard.core.limits import pieces
from softcard.core.space import Ram
from softcard.device.refsi.spec.decode import Location

MAX_RUNS: Final = 1 << 20
"""The maximum number of separate runs of bytes that are compared or copied one by one."""
SCATTERED_PIECE: Final = 1 << 16
"""The number of bytes to copy between two checks of limits if they may consist of very many runs."""

Bytes = npt.NDArray[np.uint8]
Starts = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Shape:
    """The shape of a transfer: the numbers of bytes in a row, of rows in a plane, and of planes; all are at least 1."""

    row_bytes: int
    rows: int = 1
    planes: int = 1

    def extent(self, strides: tuple[int, int]) -> int:
        """Return the number of bytes from the first byte of the source or destination to its last byte, gaps included.

        `strides` are the distances in bytes between the starts of rows and between the starts of planes."""
        return self.row_bytes + (self.rows - 1) * strides[0] + (self.planes - 1) * strides[1]

    def levels(self, strides: tuple[int, int]) -> tuple[int, tuple[tuple[int, int], ...]]:
        """Return the shape with contiguous rows joined: the length of a run of bytes, and its repetitions.

        Each repetition is a pair (count, stride in bytes).
        """
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
    """The source or the destination of a transfer: the location of its whole extent, its shape and its strides.

    Strides are the distances in bytes between the starts of rows and of planes."""

    place: Location
    shape: Shape
    strides: tuple[int, int]

    @property
    def memory(self) -> Ram:
        """The plain memory that contains the source or destination; a transfer cannot access registers."""
        memory = self.place.ram
        assert memory is not None
        return memory

    @property
    def span(self) -> tuple[int, int]:
        """The first physical address of the extent, and the one after the last."""
        first = self.place.physical
        return first, first + self.place.size if self.place.contiguous else self._end()

    def array(self) -> Bytes:
        """Return an array of planes x rows x bytes that shares the memory; the location must be contiguous."""
        first = self.place.physical - self.place.mapping.base
        flat: Bytes = np.frombuffer(self.memory.view[first : first + self.place.size], dtype=np.uint8)
        shape = (self.shape.planes, self.shape.rows, self.shape.row_bytes)
        # The stride of a single row or plane is never used and may be any number.
        row, plane = self.strides[0] if self.shape.rows > 1 else 0, self.strides[1] if self.shape.planes > 1 else 0
        return np.lib.stride_tricks.as_strided(flat, shape, (plane, row, 1))

    def rows(self) -> Iterator[Location]:
        """Yield the location of each row, in order."""
        for plane in range(self.shape.planes):
            for row in range(self.shape.rows):
                yield self.place.at(plane * self.strides[1] + row * self.strides[0], self.shape.row_bytes)

    def runs(self) -> tuple[Starts, Starts] | None:
        """Return physical starts and lengths of every run of bytes; None if there are more than `MAX_RUNS`."""
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
    """Return True if two rows of the source (or of the destination) of a transfer share a byte.

    The whole extent must fit into a memory, which keeps the numbers in the range of int64."""
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
    """Return True if the sources or destinations `one` and `other` share a byte of physical memory.

    Return None if the check would take too long."""
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
    # The last run that starts before each of the other's ends: does any run up to there end after its start?
    index = np.searchsorted(starts, other_starts + other_lengths, side="left") - 1
    return bool(((index >= 0) & (ends[np.maximum(index, 0)] > other_starts)).any())


def copy(source: Side, target: Side, check_limits: Callable[[], None]) -> None:
    """Copy the bytes of `source` to `target`, and call `check_limits` regularly. The two must not overlap."""
    shape = source.shape
    if source.place.contiguous and target.place.contiguous:
        into, out_of = target.array(), source.array()
        for piece in pieces((shape.planes, shape.rows, shape.row_bytes)):
            check_limits()
            np.copyto(into[piece], out_of[piece])
        return
    for from_row, to_row in zip(source.rows(), target.rows(), strict=True):
        for skip in range(0, shape.row_bytes, SCATTERED_PIECE):
            check_limits()
            size = min(SCATTERED_PIECE, shape.row_bytes - skip)
            write_place(to_row.at(skip, size), read_place(from_row.at(skip, size)))


def check_pieces(what: str, place: Location, rows: int = 1) -> None:
    """Raise `BeyondModel` if `place`, accessed in `rows` rows, consists of too many contiguous runs.

    Each run is copied separately. `what` names the access in the error message."""
    pieces = place.pieces + rows
    if place.window is not None and place.pieces > 1 and pieces > MAX_RUNS:
        raise BeyondModel(
            f"{what} would have more than {MAX_RUNS} pieces in the interleaved {place.window.name}, which is not "
            "modelled"
        )


def slice_of(place: Location) -> memoryview:
    """Return the bytes of a contiguous location as a view that shares the plain memory."""
    memory, first = place.ram, place.physical - place.mapping.base
    assert memory is not None
    return memory.view[first : first + place.size]


def read_place(place: Location) -> bytes:
    """Return the bytes of a location in plain memory."""
    memory, base = place.ram, place.mapping.base
    assert memory is not None
    return b"".join(bytes(memory.view[start - base : start - base + size]) for start, size in place.runs())


def write_place(place: Location, data: bytes) -> None:
    """Write `data` to a location in plain memory."""
    memory, base = place.ram, place.mapping.base
    assert memory is not None
    done = 0
    for start, size in place.runs():
        memory.view[start - base : start - base + size] = data[done : done + size]
        done += size
