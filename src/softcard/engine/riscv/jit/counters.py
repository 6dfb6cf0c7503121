"""Instruction counts of translated code, computed from counters of blocks and of side exits within blocks.

A block of n instructions has 2 + n counters. The first counts the executions of the block, the last one the branches at
its end that were taken. Each other one counts the
side exits before one instruction, to the reference engine, which counts the instruction itself. Each hart has its own
counters, so that threads do not share them; the numbering is the same for all harts.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from softcard.core.space import lazy_zeros
from softcard.engine.hooks import Executions
from softcard.engine.riscv.jit.region import Region
from softcard.ir.builder import Text
from softcard.isa.riscv.insn import Insn

ROOM: Final = 1 << 18
"""The number of counters of a hart.

If all are in use, the reference engine executes code that is not translated yet.
"""


class Counters:
    """The counters of an engine's translated code."""

    def __init__(self) -> None:
        self._regions: list[Region] = []
        self._next = 0
        self._harts: dict[int, npt.NDArray[np.uint64]] = {}

    def give(self, region: Region) -> bool:
        """Assign counters to a region's code, and return True; return False if too few are free."""
        size = sum(2 + len(block.insns) for block in region.blocks.values())
        if self._next + size > ROOM:
            return False
        region.counters = self._next
        self._next += size
        self._regions.append(region)
        return True

    def address(self, hart: int) -> int:
        """Return the address of the counters of a hart."""
        if hart not in self._harts:
            self._harts[hart] = lazy_zeros(ROOM, np.uint64)
        return int(self._harts[hart].ctypes.data)

    def executions(self) -> Executions:
        """Return the executions of the instruction at each pc in translated code."""
        total = sum(self._harts.values(), np.zeros(ROOM, np.uint64)).tolist()
        found = Executions()
        for region in self._regions:
            for start, number in numbers(region).items():
                left = total[number]
                block = region.blocks[start]
                for index, (pc, _) in enumerate(block.insns[: block.cost]):
                    left -= total[number + 1 + index]
                    found.counts[pc] += left
                found.taken[block.insns[-1][0]] += total[number + 1 + len(block.insns)]
        return found + Executions()

    def executed(self) -> dict[int, Insn]:
        """Return the instructions in all translated regions, by pc."""
        return {pc: insn for region in self._regions for block in region.blocks.values() for pc, insn in block.insns}


def numbers(region: Region) -> dict[int, int]:
    """Return the number of the first counter of each block, by the start address of the block."""
    assert region.counters is not None
    found, number = {}, region.counters
    for start, block in sorted(region.blocks.items()):
        found[start] = number
        number += 2 + len(block.insns)
    return found


def count(text: Text, number: int) -> None:
    """Emit code that increments a counter."""
    place = text.pointer("%counts").element("i64", number)
    seen = place.load("i64")
    place.store(seen + 1)
