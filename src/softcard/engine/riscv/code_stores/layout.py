"""Store numbers, shared by compiled code and Python, which identify the instruction that stored each halfword.

A store number has 16 bits. It stands for one storing instruction of one hart in one period between two instruction
fences. 0 means no store. Each halfword of memory has the number of its last store. The table of cells (blocks of 64
bytes) holds a cell's number if all halfwords of the cell have the same one, so that runs of adjacent stores are
recorded a cell at a time. If the table holds 0, the numbers of the halfwords are in shadow memory, at `DISTANCE` after
the memory, where recording a store takes one store of the same width.
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

from softcard.core.space import PAGE_SIZE, Ram, SharedRam
from softcard.engine.riscv.shadow_layout import DISTANCE as SHADOW_DISTANCE
from softcard.engine.riscv.shadow_layout import ShadowedRam
from softcard.ir.native import layout

NUMBERS_DISTANCE: Final = 2 * SHADOW_DISTANCE
DISTANCE: Final = NUMBERS_DISTANCE + PAGE_SIZE // 2
"""The distance from a byte of memory to the store number of its halfword in this process.

Processors confuse a load with a recent store whose address has the same offset in a page; these two offsets differ.
"""
NUMBERS: Final = 1 << 16
HALFWORDS: Final = 0x0001_0001_0001_0001
"""The factor that repeats a store number for four halfwords."""
SITES: Final = 1 << 14
"""The number of rows in the table of the storing instructions of one hart."""
INTERVAL_AT: Final = 32
"""The position of the fence period in a key; the bits below it hold the pc.

A key identifies a storing instruction in one period between two instruction fences.
"""
CELL_BITS: Final = 6
CELL: Final = 1 << CELL_BITS
"""The number of bytes of a cell."""
Numbers: TypeAlias = "npt.NDArray[np.uint16]"


class NumberedRam(Ram):
    """A mix-in that extends a memory's shadow memory by store numbers, after the definedness shadow."""

    __slots__ = ()

    def _reserve(self, size: int) -> mmap.mmap:
        return super()._reserve(
            NUMBERS_DISTANCE - SHADOW_DISTANCE + size + PAGE_SIZE
        )  # the base class reserves the rest

    @property
    def stores(self) -> Numbers:
        """The store numbers of all halfwords of this memory, in shadow memory."""
        start = DISTANCE + PAGE_SIZE
        return np.frombuffer(self._map, np.uint8)[start : start + self.size & -2].view(np.uint16)

    def forget_stores(self) -> None:
        """Clear the store numbers of this memory."""
        if sys.platform == "linux":
            self._map.madvise(mmap.MADV_DONTNEED, NUMBERS_DISTANCE, len(self._map) - NUMBERS_DISTANCE)
        else:
            self.stores[:] = 0


class StoreRam(NumberedRam, ShadowedRam):
    """Memory whose shadow memory holds definedness, followed by store numbers."""

    __slots__ = ()


class SharedStoreRam(NumberedRam, ShadowedRam, SharedRam):
    """Memory with store numbers that is shared with another process; its shadow memory is private."""

    __slots__ = ()


class Cells:
    """The table of the store numbers of 64-byte cells, with a row for every cell of some memories.

    The row of a cell is the cell's number modulo `rows`; no other cell of these memories has the same row.
    """

    def __init__(self, rams: Sequence[Ram]) -> None:
        spans = [(_cell(ram.base_host - PAGE_SIZE), _cell(ram.base_host + ram.size + 2 * PAGE_SIZE)) for ram in rams]
        self.rows = 1 << max((end - first for first, end in spans), default=1).bit_length()
        while any(self._meet(one, other) for one, other in combinations(spans, 2)):
            self.rows *= 2
        self.table = Ram(2 * self.rows)

    def _meet(self, one: tuple[int, int], other: tuple[int, int]) -> bool:
        """Return True if some cell of one address range has the same table row as a cell of the other range."""
        distance = (other[0] - one[0]) % self.rows
        return distance < one[1] - one[0] or distance + other[1] - other[0] > self.rows

    def of(self, first: int, size: int) -> list[Numbers]:
        """Return the store numbers of the cells of an address range, in order.

        The result is one array, or two if the range's rows wrap around at the end of the table.
        """
        every = np.frombuffer(self.table.view, np.uint16)
        at, count = _cell(first) % self.rows, _cell(size + CELL - 1)
        return [part for part in (every[at : at + count], every[: max(at + count - self.rows, 0)]) if len(part)]

    def row(self, host: int) -> int:
        """Return the address of the table row for the cell that contains the byte at `host`."""
        return self.table.base_host + 2 * (_cell(host) % self.rows)


def _cell(host: int) -> int:
    return host >> CELL_BITS


@layout
class Stores(ctypes.Structure):
    """The state of store recording that all harts of a device share. Tables are given by their host addresses."""

    interval: int
    """The current period between two instruction fences, shifted to its position in a key, above the pc."""
    next: int
    """The next free store number."""
    numbers: int
    cells: int
    cell_mask: int
    """The mask that yields the table row of a cell from the cell's number."""


@layout
class NumberRow(ctypes.Structure):
    """The data of a store number: the key of the storing instruction (its pc and fence period), and its hart."""

    key: int
    hart: int


@layout
class HartRow(ctypes.Structure):
    """The state of one hart for store recording, and the addresses of the functions that its translated code calls."""

    stores: int
    hart: int
    sites: int
    ready: int
    span: int
    move: int
    split: int


@layout
class SiteRow(ctypes.Structure):
    """The state of a storing instruction: its pc and fence period, and its store number.

    `halfwords` holds the store number repeated for four halfwords.
    """

    key: int
    halfwords: int
