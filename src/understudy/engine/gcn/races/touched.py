"""Which bytes of an access by the host launches have touched: of each launch and site the first one, and how many."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

PIECE: Final = 1 << 16
"""Bytes of an access that are looked at at once."""

Numbers = npt.NDArray[np.int64]


@dataclass(slots=True)
class First:
    """The first byte that a launch has touched from a site, what its cell holds and in which row; `size`: how many."""

    address: int
    code: int
    row: int
    size: int


class Touched:
    """Filled piece by piece: `add` for each row of cells, in order, then `end_piece`."""

    def __init__(self) -> None:
        self.found: dict[int, First] = {}
        """By a number for launch and site."""
        self._rows: list[tuple[Numbers, Numbers, Numbers, Numbers]] = []

    def add(self, row: int, keys: Numbers, addresses: Numbers, codes: Numbers) -> None:
        """Of each byte that was touched the number of launch and site, and what its cell holds."""
        if len(keys):
            self._rows.append((keys, addresses, np.full(len(keys), row), codes))

    def end_piece(self) -> None:
        """All rows of some bytes were added: those behind them are next."""
        if not self._rows:
            return
        keys, addresses, rows, codes = (np.concatenate(each) for each in zip(*self._rows, strict=True))
        self._rows.clear()
        order = np.lexsort((rows, addresses, keys))
        keys, addresses = keys[order], addresses[order]
        starts = np.flatnonzero(np.diff(keys, prepend=keys[0] - 1))
        is_another = np.diff(addresses, prepend=-1) != 0
        is_another[starts] = True
        for start, size in zip(starts.tolist(), np.add.reduceat(is_another, starts).tolist(), strict=True):
            key, at = int(keys[start]), order[start]
            known = self.found.setdefault(key, First(int(addresses[start]), int(codes[at]), int(rows[at]), 0))
            known.size += size
