"""Device memory for the host: first fit, from the top of each free block downwards.

Blocks are kept by start address and reach to the next one, so that what alignment wastes belongs to the block above
it. Which addresses come out is part of what drivers see; it is the reference driver's order.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from typing import Final

from understudy.core.snapshot import Stateful

MASK64: Final = (1 << 64) - 1


class Allocator(Stateful):
    """Shares out `size` bytes from `base` on."""

    STATE = ("_starts", "_free")

    def __init__(self, base: int, size: int) -> None:
        self.base = base
        self.end = base + size
        self.reset()

    def reset(self) -> None:
        """Everything is free."""
        self._starts = [self.base]
        self._free = {self.base: True}

    def allocate(self, size: int, alignment: int = 1) -> int:
        """Address of `size` bytes (0 counts as 1), a multiple of the power of two `alignment`; 0 where none is free."""
        size = size or 1
        for index, block in enumerate(self._starts):
            if not self._free[block]:
                continue
            end = self._starts[index + 1] if index + 1 < len(self._starts) else self.end
            start = end - size & ~(alignment - 1) & MASK64
            if end < size or start < block:
                continue
            if start != block:
                insort(self._starts, start)
            self._free[start] = False
            return start
        return 0

    def reserve(self, address: int, size: int) -> bool:
        """Take `size` bytes at `address`, to be given back by `free`; False where not all of them are free."""
        index = bisect_right(self._starts, address) - 1
        if index < 0 or not self._free[self._starts[index]]:
            return False
        end = self._starts[index + 1] if index + 1 < len(self._starts) else self.end
        behind = address + (size or 1)
        if behind > end:
            return False
        for start, is_free in ((address, False), (behind, True)):
            if start != end and start not in self._free:
                insort(self._starts, start)
            if start != end:
                self._free[start] = is_free
        return True

    def free(self, address: int) -> None:
        """Give a block back; an address that starts none is ignored, as the reference's release build does."""
        if address not in self._free:
            return
        self._free[address] = True
        index = bisect_left(self._starts, address)
        if index + 1 < len(self._starts) and self._free[self._starts[index + 1]]:
            self._drop(index + 1)
        if index and self._free[self._starts[index - 1]]:
            self._drop(index)

    def _drop(self, index: int) -> None:
        del self._free[self._starts.pop(index)]

    def blocks(self) -> list[tuple[int, int, bool]]:
        """All blocks by address: (start, size, whether free)."""
        ends = [*self._starts[1:], self.end]
        return [(start, end - start, self._free[start]) for start, end in zip(self._starts, ends, strict=True)]
