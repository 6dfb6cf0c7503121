"""Who touched each byte last: cells for its last store, and for what no store has followed: an atomic, and two loads.

Two loads, since a store by the wave of one of them races with the other. A cell is the number of an event with the lane
in its low bits; 0: nobody.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
import numpy.typing as npt

PAGE_BITS: Final = 12
LANE_BITS: Final = 6
LANE_MASK: Final = (1 << LANE_BITS) - 1
STORED: Final = 0
LOADED: Final = 1
ALSO_LOADED: Final = 2
UPDATED: Final = 3
ROWS: Final = 4

Numbers = npt.NDArray[np.uint32]
Flags = npt.NDArray[np.bool_]
Places = npt.NDArray[np.int64]


class Cells:
    """The cells of one address space, made as they are needed."""

    def __init__(self) -> None:
        self._pages: dict[int, npt.NDArray[np.uint32]] = {}

    def clear(self) -> None:
        """Nobody has touched anything."""
        self._pages.clear()

    def parts(self, addresses: Places) -> Iterator[tuple[npt.NDArray[np.uint32], Places, slice | Places]]:
        """For each page that addresses lie in: its cells, by row, the places in them, and which addresses those are."""
        pages = addresses >> PAGE_BITS
        low, high = int(pages.min()), int(pages.max())
        if low == high:
            yield self._page(low), addresses & (1 << PAGE_BITS) - 1, slice(None)
            return
        for page in np.unique(pages).tolist():
            chosen = np.flatnonzero(pages == page)
            yield self._page(page), addresses[chosen] & (1 << PAGE_BITS) - 1, chosen

    def _page(self, number: int) -> npt.NDArray[np.uint32]:
        found = self._pages.get(number)
        if found is None:
            found = self._pages[number] = np.zeros((ROWS, 1 << PAGE_BITS), np.uint32)
        return found
