"""How often each instruction was executed, by an engine that counts them.

Programs are made with a block for each instruction then, so that a block's counter is the instruction's. What the
reference engine executes is counted here, and so is what code began and handed over undone, as less than nothing.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

import numpy as np
import numpy.typing as npt

from understudy.engine.gcn.jit.basics import Untranslated
from understudy.engine.gcn.threaded import records
from understudy.engine.gcn.threaded.program import Program

ROOM: Final = 1 << 18
"""Counters of a thread. Code for which there are none left is the reference engine's."""


class Tally:
    """The counters of all code of an engine; changed with its lock held. `single` counts single executions, by pc."""

    def __init__(self) -> None:
        self.single: Counter[int] = Counter()
        self._programs: list[Program] = []
        self._sites: list[tuple[int, int]] = []
        self._next = 0

    def room(self, count: int) -> int:
        """The first of so many new counters; `Untranslated` where there are not as many."""
        if self._next + count > ROOM:
            raise Untranslated
        self._next += count
        return self._next - count

    def add(self, program: Program) -> None:
        """Count what a program executes."""
        self._programs.append(program)

    def add_site(self, pc: int, heat: int) -> None:
        """Count what an instruction's own code executes."""
        self._sites.append((pc, heat))

    def counts(self, visits: npt.NDArray[np.uint64]) -> dict[int, int]:
        """How often the instruction at each pc has retired."""
        found = self.single.copy()
        for program in self._programs:
            for place, heat in program.heats.items():
                if not _is_left(program, program.blocks[place] // 8):
                    found[place[0]] += int(visits[heat])
        for pc, heat in self._sites:
            found[pc] += int(visits[heat])
        return dict(+found)


def _is_left(program: Program, at: int) -> bool:
    """Whether the block of one instruction whose record that is does nothing but hand it over."""
    glue, words = program.library.glue, program.records
    size = records.HEAD_BYTES if int(words[at]) == glue["head"] else records.FUEL_BYTES
    return int(words[at + size // 8]) == glue["leave"]
