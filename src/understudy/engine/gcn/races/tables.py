"""The tables of a check of races, for compiled code: who touched each byte last, by which instructions."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from understudy.core.errors import NoHostMemory
from understudy.core.space import Ram
from understudy.engine.gcn.races.codes import (
    FIRST_UID,
    PAGES,
    RANGES,
    SITE_SLOTS,
    SITES,
    TOLD,
    TOLD_BYTES,
    UIDS,
    Race,
)

CELLS: Final = (64 << 30, 16 << 30, 4 << 30)
"""Bytes for cells, as many of them as this process has addresses for; they cost nothing until they are used."""
WORTH: Final = 256 << 20
"""Bytes of cells from which on they are given back when nothing in them matters any more."""


class Tables:
    """What `race` tells compiled code of; nobody has touched anything. `sizes`: of room for cells, the best first."""

    def __init__(self, sizes: tuple[int, ...] = CELLS) -> None:
        self.race = Race()
        self._tables = {
            "ranges": Ram(16 * (RANGES + 1)), "pages": Ram(16 * PAGES), "page_keys": Ram(4 * PAGES),
            "sites": Ram(8 * SITES), "site_slots": Ram(16 * SITE_SLOTS), "told": Ram(TOLD // 2 * TOLD_BYTES),
            "told_slots": Ram(16 * TOLD), "groups": Ram(16 * UIDS), "bounds": Ram(16 * UIDS),
        }  # fmt: skip
        self._cells = _cells(sizes)
        for name, table in self._tables.items():
            setattr(self.race, name, table.base_host)
        self.race.next_uid, self.race.floor = FIRST_UID, FIRST_UID
        self._bare()

    def _bare(self) -> None:
        self.race.free = self._cells.base_host
        self.race.end = self.race.free + self._cells.size

    @property
    def is_large(self) -> bool:
        """Whether cells are worth giving back."""
        return self.race.free - self._cells.base_host > WORTH

    def site(self, number: int) -> tuple[int, int]:
        """Where an instruction that accesses memory stands, and by which kind of access, by its number."""
        key = int(np.frombuffer(self._tables["sites"].view, np.uint64)[number])
        return (key & ~(1 << 63)) >> 2, key & 3

    def pairs(self, name: str, count: int) -> npt.NDArray[np.uint64]:
        """The first rows of a table of pairs of words."""
        return np.frombuffer(self._tables[name].view, np.uint64)[: 2 * count].reshape(-1, 2)

    def forget_cells(self) -> None:
        """Nobody has touched anything."""
        self._cells.clear()
        self._tables["pages"].clear()
        self.race.page_count = 0
        self._bare()

    def forget_sites(self) -> None:
        """No instruction has a number."""
        self._tables["site_slots"].clear()
        self.race.site_count = 0

    def forget_told(self) -> None:
        """Nothing was told of."""
        if self.race.told_count:
            self._tables["told_slots"].clear()
            self.race.told_count = 0


def _cells(sizes: tuple[int, ...]) -> Ram:
    """Room for cells."""
    for size in sizes[:-1]:
        try:
            return Ram(size)
        except NoHostMemory:
            continue
    return Ram(sizes[-1])
