"""The layout of the shadow registers and shadow memory of a hart, for both engines."""

from __future__ import annotations

import mmap
import sys
from typing import Final

import numpy as np

from softcard.core.space import PAGE_SIZE, Ram, SharedRam
from softcard.isa.riscv.state import SHADOW, VECTOR_REGISTERS, F, Hart

DISTANCE: Final = 1 << 32
"""The distance from a byte of memory to its shadow byte in this process."""
REGISTERS: Final = 64
"""The number of integer and float registers, numbered as in `Hart.words`: float registers begin at `F`."""
SLOTS: Final = 1024
"""The number of rows for uses of undefined values that translated code only counts.

A row has two words: a key and a count.
"""
PC_BITS: Final = 56
"""The number of bits of a key that contain the pc; the bits above contain the kind of use."""
CODES: Final = ("branch", "address", "atomic", "loaded", "stored")
SHADOWED: Final = (1 << 64) - 1
ROWS: Final = REGISTERS
"""The index, in the words of a `ShadowBlock`, at which the rows of counted uses begin."""
COUNT: Final = ROWS + 2 * SLOTS
"""The index, in the words of a `ShadowBlock`, of the size of the shadow vector registers in words.

The addresses of functions (`CALLED`) and the shadow vector registers follow.
"""
CALLED: Final = COUNT + 1
"""The index, in the words of a `ShadowBlock`, of the first function address: see `FUNCTIONS`."""
FUNCTIONS: Final = ("loads_undefined", "define_stored")
ELEMENTS: Final = CALLED + len(FUNCTIONS)


class ShadowedRam(Ram):
    """Memory with a shadow byte for each byte. The shadow byte's address is the byte's address plus `DISTANCE`.

    Shadow pages that are never written take no memory."""

    __slots__ = ()

    def _reserve(self, size: int) -> mmap.mmap:
        return super()._reserve(DISTANCE + size)

    @property
    def shadows(self) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
        """The shadow bytes of this memory."""
        return np.frombuffer(self._map, np.uint8)[DISTANCE + PAGE_SIZE : DISTANCE + PAGE_SIZE + self.size]

    def clear_shadows(self) -> None:
        """Set all shadow bytes to zero; their pages take no memory any more."""
        if sys.platform == "linux":
            self._map.madvise(mmap.MADV_DONTNEED, DISTANCE, PAGE_SIZE + self.size)
        else:
            self.shadows[:] = 0


class SharedShadowedRam(ShadowedRam, SharedRam):
    """Memory with shadow bytes that is shared with another process; its shadow memory is private."""

    __slots__ = ()


class ShadowBlock:
    """The shadow registers of a hart, and the use counters of its translated code, as words of this process."""

    def __init__(self, hart: Hart) -> None:
        count = VECTOR_REGISTERS * hart.vlen // 64
        self.buffer = np.zeros(ELEMENTS + count, np.uint64)
        self.words = self.buffer.data.cast("B").cast("Q")
        self.words[COUNT] = count
        elements = self.words[ELEMENTS:].cast("B")
        views = elements, elements.cast("H"), elements.cast("I"), elements.cast("Q")
        self.vectors: dict[int, memoryview[int]] = dict(zip((8, 16, 32, 64), views, strict=True))
        hart.words[SHADOW] = int(self.buffer.ctypes.data)

    def begin(self, defined: int) -> None:
        """Begin an instance: integer registers whose bit in `defined` is 1 are initialised, all others are not."""
        self.buffer[:REGISTERS] = SHADOWED
        self.buffer[ELEMENTS:] = SHADOWED
        for n in range(F):
            if defined >> n & 1:
                self.words[n] = 0


def slot_of(pc: int, what: str) -> tuple[int, int]:
    """Return the index of the row for uses of the kind `what` by the instruction at `pc`, and the row's key.

    A row contains its key while translated code only counts the use.
    """
    code = CODES.index(what)
    return ROWS + 2 * ((pc >> 1) + code * 619 & SLOTS - 1), pc | code + 1 << PC_BITS
