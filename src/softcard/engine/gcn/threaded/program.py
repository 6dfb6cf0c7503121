"""A linked direct-threaded program, and the counts of its instructions.

It has the records of all code that can be reached from a start address, in the order of execution.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from softcard.engine.gcn.jit.basics import BlockKey, Untranslated, holds
from softcard.engine.gcn.memory import GpuMemory
from softcard.engine.gcn.threaded import records
from softcard.engine.gcn.threaded.library import Library
from softcard.engine.hooks import Executions
from softcard.isa.gcn.state import ROWS

PROFILE: Final = 1 << 12
"""The number of profile counters of a thread. Blocks beyond this number share counters."""


@dataclass(slots=True, eq=False, weakref_slot=True)
class Program:
    """A program: records at fixed host addresses.

    `blocks` is the offset of each block's first record, by pc and MODE. `code_ranges` has the guest code from
    which the records were made, as ranges of bytes. `is_closed` is True if no path leaves the program.
    `entered` has the record of each entry point, by pc and MODE."""

    start: BlockKey
    code_ranges: list[tuple[int, bytes]]
    is_closed: bool
    library: Library
    records: npt.NDArray[np.uint64]
    blocks: dict[BlockKey, int]
    counts: dict[BlockKey, int]
    profiles: dict[BlockKey, int]
    controls: dict[int, int]
    """The value of the host's float control register (MXCSR) for each MODE."""
    handled: npt.NDArray[np.int32]
    """The indices of the words of `records` that are addresses of handlers."""
    entered: dict[BlockKey, int] = field(default_factory=dict)
    replaced: dict[BlockKey, object] = field(default_factory=dict)
    """The blocks that optimised code has replaced, each with its optimised code."""
    covered: set[BlockKey] = field(default_factory=set)
    """The blocks that some optimised code contains, whichever block is its entry."""
    _further: list[Any] = field(default_factory=list)

    @property
    def address(self) -> int:
        """The host address of the stub that starts execution at a record. All programs share it."""
        return self.library.stubs["enter"]

    @property
    def base(self) -> int:
        """The host address of the records."""
        return int(self.records.ctypes.data)

    @property
    def rows(self) -> dict[BlockKey, tuple[int, int]]:
        """The entry points that have not been replaced by optimised code.

        Each has the function to call, and the address of the record that is its argument.
        """
        entered = self.entered.items()
        return {place: (self.address, record) for place, record in entered if place not in self.replaced}

    @property
    def live(self) -> dict[BlockKey, int]:
        """The number of live vector registers at each entry point: all of them.

        Handlers keep vector registers in memory, so all must be initialised.
        """
        return dict.fromkeys(self.rows, ROWS)

    def holds(self, memory: GpuMemory) -> bool:
        """Return True if memory still holds the code of the program."""
        return holds(self.code_ranges, memory)

    def patch(self, addresses: dict[int, int]) -> None:
        """Replace addresses of handlers by those of equivalent handlers.

        `addresses` maps old addresses to new ones. Threads may be running the records.
        """
        now = self.records[self.handled]
        for old, new in addresses.items():
            self.records[self.handled[now == old]] = new

    def enter(self, place: BlockKey) -> bool:
        """Make a block an entry point; return False if no block begins at `place`."""
        if place in self.entered:
            return True
        at = self.blocks.get(place)
        if at is None:
            return False
        record = np.zeros(records.BEGIN_BYTES // 8, np.uint64)
        self._further.append(record)
        fill_begin(record, 0, self.library, place[0], self.controls[place[1]], self.base + at)
        self.entered[place] = int(record.ctypes.data)
        return True

    def replace(self, place: BlockKey, function: int, entry: int, code: object) -> None:
        """Replace a block by optimised code.

        `function` is the address of the machine code, `entry` the number of its entry point, and `code` the object
        that keeps the machine code in memory. Other threads may be running the block; they continue to run the old
        code until the last word is written."""
        self.replaced[place] = code
        words, at = self.records, self.blocks[place] // 8
        words[at + records.REGION_AT // 8] = function
        words[at + records.REGION_AT // 8 + 1] = entry
        words[at] = self.library.stubs["hot"]


def fill_begin(words: npt.NDArray[np.uint64], at: int, library: Library, pc: int, control: int, target: int) -> None:
    """Write the record of an entry point at word `at`.

    The record sets the host's float control to `control`, and continues with the record at `target`.
    """
    words[at] = library.stubs["begin"]
    words[at + 1] = pc
    words[at + records.CONTROL_AT // 8] = control
    words[at + records.BEGIN_TARGET_AT // 8] = target


# ---- counts of instructions ------------------------------------------------------------------------------------------
# The number of executions of each instruction, for an engine that counts them.
#
# Programs have one block per instruction then, so that a block's counter is the instruction's. Executions by the
# reference engine are counted here; instructions that code began and left to it are subtracted.


class Tally:
    """The execution counters of all code of an engine. The caller holds the engine's lock.

    `single` counts the executions of instructions outside of programs.
    """

    def __init__(self) -> None:
        self.single = Executions()
        self._programs: list[Program] = []
        self._inline_caches: list[tuple[int, int]] = []
        self._next = 0

    def room(self, count: int) -> int:
        """Reserve `count` new counters and return the first; raise `Untranslated` if there are not enough."""
        if self._next + count > records.ROOM:
            raise Untranslated
        self._next += count
        return self._next - count

    def add(self, program: Program) -> None:
        """Include the executions of a program's blocks in the counts."""
        self._programs.append(program)

    def add_inline_cache(self, pc: int, profile: int) -> None:
        """Include the executions of an instruction with an inline cache; `profile` is the number of its counter."""
        self._inline_caches.append((pc, profile))

    def executions(self, visits: npt.NDArray[np.uint64]) -> Executions:
        """Return the executions of the instruction at each pc.

        `visits` has the number of executions by profile counter."""
        found = Executions()
        numbers = [
            (place[0], profile)
            for program in self._programs
            for place, profile in program.profiles.items()
            if not _is_left(program, program.blocks[place] // 8)
        ]
        for pc, profile in (*numbers, *self._inline_caches):
            found.counts[pc] += int(visits[profile])
            found.idle[pc] += int(visits[records.IDLE + profile])
            found.taken[pc] += int(visits[records.TAKEN + profile])
        for mine, others in (
            (found.counts, self.single.counts), (found.idle, self.single.idle), (found.taken, self.single.taken)
        ):  # fmt: skip
            mine.update(others)  # which may be negative
        return found + Executions()


def _is_left(program: Program, at: int) -> bool:
    """Return True if the single-instruction block at record `at` only exits to the reference engine."""
    stubs, words = program.library.stubs, program.records
    size = records.HEAD_BYTES if int(words[at]) == stubs["counted_head"] else records.FUEL_BYTES
    return int(words[at + size // 8]) == stubs["leave"]
