"""Tables of numbers whose rows are gathered for many keys at a time.

Each key owns a range of consecutive rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.int64]
LARGE: Final = 128
"""The group size from which on a group is faster to process alone."""


class Rows:
    """A table with a fixed number of columns, in one array that grows."""

    def __init__(self, columns: int) -> None:
        self.count = 0
        self._room = np.zeros((64, columns), np.uint64)

    @property
    def table(self) -> npt.NDArray[np.uint64]:
        """All rows of the table, writable."""
        return self._room[: self.count]

    def add(self, rows: Sequence[Sequence[int]]) -> int:
        """Append rows, and return the row number of the first."""
        first, self.count = self.count, self.count + len(rows)
        if self.count > len(self._room):
            more = np.zeros((2 * self.count, self._room.shape[1]), np.uint64)
            more[:first] = self._room[:first]
            self._room = more
        if rows:
            self._room[first : self.count] = rows
        return first


def spread(first: npt.NDArray[Any], counts: npt.NDArray[Any]) -> tuple[Numbers, Numbers]:
    """Return two arrays with an element for each row: the index of its owner, and its row number.

    Owner i has `counts[i]` rows from row `first[i]` on.
    """
    counts = counts.astype(np.int64)
    owner = np.repeat(np.arange(len(counts)), counts)
    before = np.cumsum(counts) - counts
    return owner, (first.astype(np.int64) - before)[owner] + np.arange(len(owner))


class Alike(NamedTuple):
    """Indices sorted by key, with the start and the size of each group of indices with equal keys."""

    order: Numbers
    cuts: Numbers
    sizes: Numbers

    def with_rows(self, first: npt.NDArray[Any], counts: npt.NDArray[Any]) -> Iterator[tuple[Numbers, Numbers]]:
        """Yield pairs of an index array and an array of row numbers.

        Together the pairs combine each index of a group with all table rows of the group. Group i has `counts[i]` rows
        from row `first[i]` on. Large groups are yielded alone, one row at a time; the row number is a scalar then.
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
    """Return the groups of indices whose elements are equal in all of the given arrays."""
    order = np.lexsort(keys)
    differs = np.zeros(len(order), np.bool_)
    differs[:1] = True
    for key in keys:
        found = key[order]
        differs[1:] |= found[1:] != found[:-1]
    cuts = np.flatnonzero(differs)
    return Alike(order, cuts, np.append(cuts[1:], len(order)) - cuts)
