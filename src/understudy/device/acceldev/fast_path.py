"""Runs of user commands as machine code: NOPs, FENCEs, and FILLs that end well.

It means the same as `user`, which judges: everything else, and everything that is not right, is left to it with nothing
of the command done. A test holds the two together. All memory must be shared with this process, and nobody may want to
hear of single commands. Nothing is kept between two commands: page tables, slots and code are read when they are used.

A FENCE counts, then looks at INTR: where its interrupt is active already, raising it changes nothing; else the call
ends behind that FENCE, and the interrupt is due. Counting is an atomic operation: a driver that clears INTR and then
reads the counter finds the FENCE counted, or gets the interrupt.

The interpreter is free for other threads during a call, unless the last call was over at once: then it is kept for a
brief one. For a thread that waits for the interpreter is woken whenever it is let go, and asks for it to be handed over
only if that has not happened for the switch interval. A thread that lets it go more often, and each time for less than
it takes to wake up, keeps all others waiting without end.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Final

import numpy as np

from understudy.core.pci import DirectRange
from understudy.device.acceldev.commands import FENCE_COUNTER, MAX_TABLE, PAGE_MASK, PTES, SLOT_BYTES, WORD_BYTES
from understudy.device.acceldev.memory import Memory
from understudy.device.acceldev.native_commands import Block, Piece, Range, code
from understudy.device.acceldev.registers import ACCELDEV_NUM_BUFFERS, ACCELDEV_PAGE_SIZE, ACCELDEV_USER_CMD_WORDS
from understudy.device.acceldev.run import Run

FEW_RANGES: Final = 64
"""Rows of the table of ranges at first; it grows."""
QUANTUM_BYTES: Final = 16 << 20
"""Bytes after which a call ends, so that a reset or a debugger never waits for long."""
BRIEF: Final = 256
"""User commands that a brief call executes at most."""
BRIEF_BYTES: Final = 64 << 10
"""Bytes filled after which a brief call ends."""


@dataclass(frozen=True, slots=True)
class Done:
    """What one call did: `position` is the first command not executed, `used` a mask of the slots that were filled.

    `fences` FENCEs were counted; the interrupt of the last one is due if `is_raise_due`, else all were active already.
    """

    position: int
    used: int = 0
    fences: int = 0
    is_raise_due: bool = False


class Bulk:
    """Executes user commands of one device for as long as they are plain. Its INTR is the word at `intr_address`."""

    def __init__(self, memory: Memory, intr_address: int) -> None:
        self._memory = memory
        self._block = Block()
        self._split = (ctypes.c_uint32 * ACCELDEV_USER_CMD_WORDS)()
        self._rows = (Range * FEW_RANGES)()
        self._runs = (Piece * (PTES + 1))()
        self._ranges: tuple[DirectRange, ...] = ()
        self._block.split = ctypes.addressof(self._split)
        self._block.ranges = ctypes.addressof(self._rows)
        self._block.runs = ctypes.addressof(self._runs)
        self._block.intr = intr_address
        self._free = code().function("commands", None, ctypes.POINTER(Block))
        self._brief = ctypes.PYFUNCTYPE(None, ctypes.POINTER(Block))(code().address("commands"))
        self._is_brief = False

    def run(self, run: Run, end: int, *, fences: bool) -> Done:
        """Execute the next commands of `run`, at most up to command `end`; FENCEs only if `fences` says so.

        None are executed where the next one is not plain, or memory is not shared.
        """
        table, record = run.command.table, run.context.address
        ranges = self._learn()
        table_host = self._memory.host_range(table, ACCELDEV_PAGE_SIZE)
        record_host = self._memory.host_range(record, ACCELDEV_NUM_BUFFERS * SLOT_BYTES)
        if table_host is None or record_host is None or table & PAGE_MASK or table > MAX_TABLE:
            return Done(run.position)
        block = self._block
        block.code_table, block.record, block.start = table_host, record_host, run.command.offset
        block.counter = self._counter(record) if fences else 0
        block.used, block.count = 0, len(ranges)
        self._call(run.position, end)
        if self._memory.ranges is not ranges:  # until now they had to stay
            self.forget()
        return Done(block.position, block.used, block.fences, bool(block.due))

    def forget(self) -> None:
        """Let go of all memory, from any thread; a call under way holds what it uses itself."""
        self._ranges = ()

    def _call(self, position: int, end: int) -> None:
        block = self._block
        block.position = position
        if self._is_brief:
            block.end, block.budget = min(end, position + BRIEF), BRIEF_BYTES
            self._brief(block)
        else:
            block.end, block.budget = end, QUANTUM_BYTES
            self._free(block)
        self._is_brief = block.position - position < BRIEF and block.filled < BRIEF_BYTES

    def _counter(self, record: int) -> int:
        """Address in this process of a record's fence_counter; 0 where it cannot be counted in one piece."""
        host = self._memory.host_range(record + FENCE_COUNTER, WORD_BYTES, write=True)
        return 0 if host is None or host % WORD_BYTES else host

    def _learn(self) -> tuple[DirectRange, ...]:
        """Put the shared ranges into the table; `self._ranges` keeps their memory alive."""
        ranges = self._memory.ranges
        if ranges is not self._ranges:
            self._ranges = ranges
            if len(ranges) > len(self._rows):
                self._rows = (Range * (2 * len(ranges)))()
                self._block.ranges = ctypes.addressof(self._rows)
            for number, each in enumerate(ranges):
                host = np.frombuffer(each.view, dtype=np.uint8).ctypes.data if each.view.nbytes else 0
                self._rows[number] = Range(each.base, each.view.nbytes, host, not each.view.readonly)
        return ranges
