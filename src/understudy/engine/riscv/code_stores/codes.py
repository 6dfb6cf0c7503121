"""Stores of harts as numbers: what compiled code and Python share to find code that was stored.

A number of 16 bits stands for an instruction of one hart that stores, in one *stretch*: between two times at which
somebody fetched anew. 0: no store. Each parcel of two bytes has one, that of its last store: a table has it where all
parcels of a cell have the same, so that runs of stores side by side are noted a cell at a time, and where the table
says 0 a plane `DISTANCE` behind the memory has it, where a store is noted by another one of as many bytes.
"""

from __future__ import annotations

import ctypes
import mmap
import sys
from collections.abc import Sequence
from itertools import combinations
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from understudy.core.space import PAGE_SIZE, Ram
from understudy.engine.riscv.marks.block import DISTANCE as MARKS_DISTANCE
from understudy.engine.riscv.marks.block import MarkedRam
from understudy.ir.native import layout

PLANE: Final = 2 * MARKS_DISTANCE
DISTANCE: Final = PLANE + PAGE_SIZE // 2
"""From a byte of memory to the number of its parcel, in this process. Processors take a load for one of what was
stored just now where the addresses have the same place in a page; so these two have not."""
NUMBERS: Final = 1 << 16
PARCELS: Final = 0x0001_0001_0001_0001
"""Times a number: what four parcels hold."""
SITES: Final = 1 << 14
"""Rows of the table of a hart's instructions."""
STRETCH_AT: Final = 32
"""Where in a key the stretch begins, above the pc."""
CELL_BITS: Final = 6
CELL: Final = 1 << CELL_BITS
"""Bytes of a cell."""
Numbers: TypeAlias = "npt.NDArray[np.uint16]"


class StoreRam(MarkedRam):
    """Memory with room for marks, and for the numbers of stores behind them."""

    __slots__ = ()

    def _reserve(self, size: int) -> mmap.mmap:
        return Ram._reserve(self, PLANE + size + PAGE_SIZE)

    @property
    def stores(self) -> Numbers:
        """The numbers that the plane has for its parcels."""
        start = DISTANCE + PAGE_SIZE
        return np.frombuffer(self._map, np.uint8)[start : start + self.size & -2].view(np.uint16)

    def forget_stores(self) -> None:
        """Have no stores in it."""
        if sys.platform == "linux":
            self._map.madvise(mmap.MADV_DONTNEED, PLANE, len(self._map) - PLANE)
        else:
            self.stores[:] = 0


class Cells:
    """The table of the numbers of cells, with room for all of some memories.

    A cell belongs into the row of its number modulo `rows`, which no other cell of them belongs into.
    """

    def __init__(self, rams: Sequence[Ram]) -> None:
        spans = [(_cell(ram.base_host - PAGE_SIZE), _cell(ram.base_host + ram.size + 2 * PAGE_SIZE)) for ram in rams]
        self.rows = 1 << max((end - first for first, end in spans), default=1).bit_length()
        while any(self._meet(one, other) for one, other in combinations(spans, 2)):
            self.rows *= 2
        self.table = Ram(2 * self.rows)

    def _meet(self, one: tuple[int, int], other: tuple[int, int]) -> bool:
        """Whether cells of two spans belong into one row."""
        distance = (other[0] - one[0]) % self.rows
        return distance < one[1] - one[0] or distance + other[1] - other[0] > self.rows

    def of(self, first: int, size: int) -> list[Numbers]:
        """The numbers of cells of bytes of this process, in order: in one piece or in two."""
        every = np.frombuffer(self.table.view, np.uint16)
        at, count = _cell(first) % self.rows, _cell(size + CELL - 1)
        return [part for part in (every[at : at + count], every[: max(at + count - self.rows, 0)]) if len(part)]

    def row(self, host: int) -> int:
        """Where the number of the cell of a byte is."""
        return self.table.base_host + 2 * (_cell(host) % self.rows)


def _cell(host: int) -> int:
    return host >> CELL_BITS


@layout
class Stores(ctypes.Structure):
    """What is shared by all harts of a device. Tables are given by their host address."""

    stretch: int
    """Of keys: what is above the pc."""
    next: int
    """The next number."""
    numbers: int
    cells: int
    cell_mask: int
    """Of the number of a cell: its row."""


@layout
class NumberRow(ctypes.Structure):
    """What a number stands for."""

    key: int
    hart: int


@layout
class HartRow(ctypes.Structure):
    """One hart, and the functions that its translated code calls."""

    stores: int
    hart: int
    sites: int
    ready: int
    span: int
    move: int
    split: int


@layout
class SiteRow(ctypes.Structure):
    """An instruction that stores: pc and stretch, and its number in four parcels."""

    key: int
    parcels: int
