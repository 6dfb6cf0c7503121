"""Where the marks of a hart and of its memory lie, for both engines."""

from __future__ import annotations

import mmap
from typing import Final

import numpy as np

from understudy.core.space import PAGE_SIZE, Ram
from understudy.isa.riscv.state import MARKS, VECTOR_REGISTERS, F, Hart

DISTANCE: Final = 1 << 32
"""From a byte of memory to its marks, in this process."""
REGISTERS: Final = 64
"""Integer and float registers, by the numbers of their words."""
SLOTS: Final = 1024
"""Rows of what translated code only counts: key and count."""
PC_BITS: Final = 56
"""Of a key; the bits above say what happened."""
CODES: Final = ("branch", "address", "atomic", "loaded", "stored")
MARKED: Final = (1 << 64) - 1
ROWS: Final = REGISTERS
"""The word that the rows begin at."""
COUNT: Final = ROWS + 2 * SLOTS
"""The word that says how many there are of vector registers, which follow."""
CALLED: Final = COUNT + 1
"""The words that have addresses of what translated code calls, where there is any: `FUNCTIONS`."""
FUNCTIONS: Final = ("loads_marked", "unmark_stored")
ELEMENTS: Final = CALLED + len(FUNCTIONS)


class MarkedRam(Ram):
    """Memory with a byte of marks for each byte, `DISTANCE` behind it. Pages that nobody marks take no room."""

    __slots__ = ()

    def _reserve(self, size: int) -> mmap.mmap:
        return super()._reserve(DISTANCE + size)

    @property
    def marks(self) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
        """The marks of its bytes."""
        return np.frombuffer(self._map, np.uint8)[DISTANCE + PAGE_SIZE : DISTANCE + PAGE_SIZE + self.size]


class MarkBlock:
    """The marks of a hart's registers, and what its translated code has counted, as words of this process."""

    def __init__(self, hart: Hart) -> None:
        count = VECTOR_REGISTERS * hart.vlen // 64
        self.buffer = np.zeros(ELEMENTS + count, np.uint64)
        self.words = self.buffer.data.cast("B").cast("Q")
        self.words[COUNT] = count
        elements = self.words[ELEMENTS:].cast("B")
        views = elements, elements.cast("H"), elements.cast("I"), elements.cast("Q")
        self.vectors: dict[int, memoryview[int]] = dict(zip((8, 16, 32, 64), views, strict=True))
        hart.words[MARKS] = int(self.buffer.ctypes.data)

    def begin(self, defined: int) -> None:
        """An instance begins: integer registers whose bits are in `defined` have values, no other register has."""
        self.buffer[:REGISTERS] = MARKED
        self.buffer[ELEMENTS:] = MARKED
        for n in range(F):
            if defined >> n & 1:
                self.words[n] = 0


def slot_of(pc: int, what: str) -> tuple[int, int]:
    """The row of an instruction and of what it does, and the key that is there where it is only counted."""
    code = CODES.index(what)
    return ROWS + 2 * ((pc >> 1) + code * 619 & SLOTS - 1), pc | code + 1 << PC_BITS
