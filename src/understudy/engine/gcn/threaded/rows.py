"""Rows of numbers that are looked up for many at a time: runs of rows belong to something, one behind the other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.int64]
LARGE: Final = 128
"""Members of a group from which on it takes less time by itself."""


class Rows:
    """Rows of so many columns, in one array that grows."""

    def __init__(self, columns: int) -> None:
        self.count = 0
        self._room = np.zeros((64, columns), np.uint64)

    @property
    def table(self) -> npt.NDArray[np.uint64]:
        """All rows, to look at and to change."""
        return self._room[: self.count]

    def add(self, rows: Sequence[Sequence[int]]) -> int:
        """Append rows; the number of the first."""
        first, self.count = self.count, self.count + len(rows)
        if self.count > len(self._room):
            more = np.zeros((2 * self.count, self._room.shape[1]), np.uint64)
            more[:first] = self._room[:first]
            self._room = more
        if rows:
            self._room[first : self.count] = rows
        return first


def spread(first: npt.NDArray[Any], counts: npt.NDArray[Any]) -> tuple[Numbers, Numbers]:
    """Of things that have `counts` rows each from row `first` on: of each of these rows whose it is, and its number."""
    counts = counts.astype(np.int64)
    owner = np.repeat(np.arange(len(counts)), counts)
    before = np.cumsum(counts) - counts
    return owner, (first.astype(np.int64) - before)[owner] + np.arange(len(owner))


class Alike(NamedTuple):
    """Places of equal keys side by side and in order; where each such group begins among them, and its size."""

    order: Numbers
    cuts: Numbers
    sizes: Numbers

    def with_rows(self, first: npt.NDArray[Any], counts: npt.NDArray[Any]) -> Iterator[tuple[Numbers, Numbers]]:
        """Places, and the number of a row for each: all that are theirs, where groups have `counts` rows each.

        Large groups come by themselves, and one row at a time: its number alone then.
        """
        is_small = self.sizes < LARGE
        for group in np.flatnonzero(~is_small).tolist():
            places = self.order[self.cuts[group] : self.cuts[group] + self.sizes[group]]
            for number in range(int(first[group]), int(first[group] + counts[group])):
                yield places, np.array(number)
        sizes = self.sizes[is_small]
        owner, row = spread(np.repeat(first[is_small], sizes), np.repeat(counts[is_small], sizes))
        yield self.order[np.repeat(is_small, self.sizes)][owner], row


def alike(*keys: npt.NDArray[Any]) -> Alike:
    """Groups of equal keys."""
    order = np.lexsort(keys)
    differs = np.zeros(len(order), np.bool_)
    differs[:1] = True
    for key in keys:
        found = key[order]
        differs[1:] |= found[1:] != found[:-1]
    cuts = np.flatnonzero(differs)
    return Alike(order, cuts, np.append(cuts[1:], len(order)) - cuts)
