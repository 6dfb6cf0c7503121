"""Stores of harts as numbers: what compiled code and Python share to find code that was stored.

A number of 16 bits stands for an instruction of one hart that stores, in one *stretch*: between two times at which
somebody fetched anew. A plane `DISTANCE` behind each memory has one for each parcel of two bytes, that of its last
store; so a store is noted by another one of as many bytes. 0: no store.
"""

from __future__ import annotations

import ctypes
import mmap
import sys
from typing import Final

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


class StoreRam(MarkedRam):
    """Memory with room for marks, and for the numbers of stores behind them."""

    __slots__ = ()

    def _reserve(self, size: int) -> mmap.mmap:
        return Ram._reserve(self, PLANE + size + PAGE_SIZE)

    @property
    def stores(self) -> npt.NDArray[np.uint16]:
        """The numbers of its parcels."""
        start = DISTANCE + PAGE_SIZE
        return np.frombuffer(self._map, np.uint8)[start : start + self.size & -2].view(np.uint16)

    def forget_stores(self) -> None:
        """Have no stores in it."""
        if sys.platform == "linux":
            self._map.madvise(mmap.MADV_DONTNEED, PLANE, len(self._map) - PLANE)
        else:
            self.stores[:] = 0


@layout
class Stores(ctypes.Structure):
    """What is shared by all harts of a device. Tables are given by their host address."""

    stretch: int
    """Of keys: what is above the pc."""
    next: int
    """The next number."""
    numbers: int


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
    note: int


@layout
class SiteRow(ctypes.Structure):
    """An instruction that stores: pc and stretch, and its number in four parcels."""

    key: int
    parcels: int
