"""The shadow memory of the reference engine's race detector.

For each byte it records the last store, and, since that store, one atomic and two loads. Two loads are needed
because a later store by the wave that made one of them can race only with the other. A cell holds the number
of an event, with the lane in its low bits; 0 means that no access was recorded."""

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
Places = npt.NDArray[np.uint64]
"""The type of an array of addresses. A wave may access any 64-bit address."""
Indices = npt.NDArray[np.int64]
"""The type of an array of positions in another array, or of lane numbers."""

_IN_PAGE: Final = np.uint64((1 << PAGE_BITS) - 1)


class Cells:
    """The shadow cells of one address space; a page of them is allocated on its first use."""

    def __init__(self) -> None:
        self._pages: dict[int, npt.NDArray[np.uint32]] = {}

    def clear(self) -> None:
        """Clear all cells. Later accesses are therefore not compared with earlier ones."""
        self._pages.clear()

    def parts(self, addresses: Places) -> Iterator[tuple[npt.NDArray[np.uint32], Places, slice | Indices]]:
        """Split addresses by shadow page; yield each page's cells, offsets in the page, and indices.

        The cells are an array with a row for each kind of recorded access. The indices are the positions in
        `addresses`.
        """
        pages, places = addresses >> np.uint64(PAGE_BITS), addresses & _IN_PAGE
        low, high = int(pages.min()), int(pages.max())
        if low == high:
            yield self._page(low), places, slice(None)
            return
        for page in np.unique(pages).tolist():
            chosen = np.flatnonzero(pages == page)
            yield self._page(page), places[chosen], chosen

    def _page(self, number: int) -> npt.NDArray[np.uint32]:
        found = self._pages.get(number)
        if found is None:
            found = self._pages[number] = np.zeros((ROWS, 1 << PAGE_BITS), np.uint32)
        return found
