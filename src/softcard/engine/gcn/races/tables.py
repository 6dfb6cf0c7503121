"""The tables that compiled code of the race detector uses: shadow memory, sites, waves and race reports."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from softcard.core.errors import NoHostMemory
from softcard.core.space import Ram
from softcard.engine.gcn.races.layout import (
    FIRST_UID,
    PAGES,
    RANGES,
    REPORT_BYTES,
    REPORTS,
    SITE_SLOTS,
    SITES,
    SPACE_AT,
    UIDS,
    Race,
)
from softcard.engine.races.tables import site_of_key

CELLS: Final = (64 << 30, 16 << 30, 4 << 30)
"""The sizes in bytes to try, in this order, when memory for shadow cells is reserved.

Reserved memory costs nothing until it is used.
"""
WORTH: Final = 256 << 20
"""The size of used shadow cells, in bytes, above which clearing them frees their memory."""


class Tables:
    """The race detector's tables, which are empty at first. Compiled code finds their addresses in `race`.

    `sizes` has possible sizes of the memory for shadow cells, the preferred one first; the first that can be
    reserved is used."""

    def __init__(self, sizes: tuple[int, ...] = CELLS) -> None:
        self.race = Race()
        self._tables = {
            "ranges": Ram(16 * (RANGES + 1)), "pages": Ram(16 * PAGES), "page_keys": Ram(4 * PAGES),
            "sites": Ram(8 * SITES), "site_slots": Ram(16 * SITE_SLOTS), "reports": Ram(REPORTS // 2 * REPORT_BYTES),
            "report_slots": Ram(16 * REPORTS), "groups": Ram(16 * UIDS), "bounds": Ram(16 * UIDS),
        }  # fmt: skip
        self.site_numbering = 0
        """The version of the site numbers; it is incremented whenever sites are renumbered."""
        self._cells = _cells(sizes)
        for name, table in self._tables.items():
            setattr(self.race, name, table.base_host)
        self.race.next_uid, self.race.watermark = FIRST_UID, FIRST_UID
        self._bare()

    def _bare(self) -> None:
        self.race.free = self._cells.base_host
        self.race.end = self.race.free + self._cells.size

    @property
    def is_large(self) -> bool:
        """True if the shadow cells use so much memory that clearing should free it."""
        return self.race.free - self._cells.base_host > WORTH

    def site(self, number: int) -> tuple[int, int]:
        """Return the pc and the kind of access that site `number` stands for."""
        return site_of_key(int(np.frombuffer(self._tables["sites"].view, np.uint64)[number]), SPACE_AT)

    def pairs(self, name: str, count: int) -> npt.NDArray[np.uint64]:
        """Return the first `count` rows of the table `name`, whose rows are pairs of words."""
        return np.frombuffer(self._tables[name].view, np.uint64)[: 2 * count].reshape(-1, 2)

    def forget_cells(self) -> None:
        """Clear and free all shadow cells."""
        self._cells.clear()
        self._tables["pages"].clear()
        self.race.page_count = 0
        self._bare()

    def forget_sites(self) -> None:
        """Forget the numbers of all sites, that is, of pairs of an instruction and a kind of access."""
        self.site_numbering += 1
        self._tables["site_slots"].clear()
        self.race.site_count = 0

    def forget_reports(self) -> None:
        """Forget the race reports."""
        if self.race.report_count:
            self._tables["report_slots"].clear()
            self.race.report_count = 0


def _cells(sizes: tuple[int, ...]) -> Ram:
    """Reserve and return memory for shadow cells, of the first size in `sizes` for which this is possible."""
    for size in sizes[:-1]:
        try:
            return Ram(size)
        except NoHostMemory:
            continue
    return Ram(sizes[-1])
