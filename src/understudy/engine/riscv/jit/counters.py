"""How often instructions were executed in translated code: counters of blocks, and of the ways out of their middle.

A block of n instructions has 1 + n counters: how often it began, and how often it was left before each of its
instructions, to the reference engine, which counts for itself. Counters are a hart's own, so that harts on several
threads do not meet in them; their numbers are the same for all harts.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

import numpy as np
import numpy.typing as npt

from understudy.engine.riscv.jit.region import Region
from understudy.ir.builder import Text
from understudy.isa.riscv.insn import Insn

ROOM: Final = 1 << 18
"""Counters of a hart. Code for which there are none left is the reference engine's."""


class Counters:
    """The counters of an engine's translated code."""

    def __init__(self) -> None:
        self._regions: list[Region] = []
        self._next = 0
        self._harts: dict[int, npt.NDArray[np.uint64]] = {}

    def give(self, region: Region) -> bool:
        """Have a region's code count; False where there is no room."""
        size = sum(1 + len(block.insns) for block in region.blocks.values())
        if self._next + size > ROOM:
            return False
        region.counters = self._next
        self._next += size
        self._regions.append(region)
        return True

    def address(self, hart: int) -> int:
        """Where the counters of a hart lie."""
        return int(self._harts.setdefault(hart, np.zeros(ROOM, np.uint64)).ctypes.data)

    def counts(self) -> Counter[int]:
        """How often the instruction at each pc was executed in translated code."""
        total = sum(self._harts.values(), np.zeros(ROOM, np.uint64)).tolist()
        found: Counter[int] = Counter()
        for region in self._regions:
            for start, number in numbers(region).items():
                left = total[number]
                block = region.blocks[start]
                for index, (pc, _) in enumerate(block.insns[: block.cost]):
                    left -= total[number + 1 + index]
                    found[pc] += left
        return +found

    def executed(self) -> dict[int, Insn]:
        """The instructions of translated code, by pc."""
        return {pc: insn for region in self._regions for block in region.blocks.values() for pc, insn in block.insns}


def numbers(region: Region) -> dict[int, int]:
    """The first counter of each block of a region that counts, by its start."""
    assert region.counters is not None
    found, number = {}, region.counters
    for start, block in sorted(region.blocks.items()):
        found[start] = number
        number += 1 + len(block.insns)
    return found


def count(text: Text, number: int) -> None:
    """Write the code that counts one."""
    place = text.let(f"getelementptr i64, ptr %counts, i64 {number}")
    seen = text.let(f"load i64, ptr {place}")
    text.put(f"store i64 {text.let(f'add i64 {seen}, 1')}, ptr {place}")
