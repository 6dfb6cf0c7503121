"""What executes user commands, as Python sees it: `native_commands`, and the memory it may reach by itself.

The interpreter is free for other threads during a call of machine code, unless the last call was over at once: then it
is kept for a brief one. For a thread that waits for the interpreter is woken whenever it is let go, and asks for it to
be handed over only if that has not happened for the switch interval. A thread that lets it go more often, and each time
for less than it takes to wake up, keeps all others waiting without end.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Final

import numpy as np

from understudy.core.pci import DirectRange
from understudy.device.acceldev import native_commands as native
from understudy.device.acceldev.commands import FENCE_COUNTER, PTES, SLOT_BYTES, USER_CMD_BYTES, WORD_BYTES
from understudy.device.acceldev.memory import Memory
from understudy.device.acceldev.native_commands import Block, Piece, Range
from understudy.device.acceldev.registers import ACCELDEV_NUM_BUFFERS, ACCELDEV_PAGE_SIZE
from understudy.device.acceldev.run import Run

FEW_RANGES: Final = 64
"""Rows of the table of ranges at first; it grows."""
QUANTUM_BYTES: Final = 16 << 20
"""Bytes after which a call ends, so that a reset or a debugger never waits for long."""
BRIEF: Final = 256
"""User commands that a brief call executes at most."""
BRIEF_BYTES: Final = 64 << 10
"""Bytes filled after which a brief call ends."""
SOME: Final = 16
"""User commands that are executed at most, as Python or heard of, before somebody may look in."""


class Machine:
    """Executes user commands of one device, as Python until it is compiled. Its INTR is the word at `intr_address`."""

    def __init__(self, memory: Memory, intr_address: int) -> None:
        self._memory = memory
        self.block = block = Block()
        self._split = (ctypes.c_uint8 * USER_CMD_BYTES)()
        self._rows = (Range * FEW_RANGES)()
        self._pieces = (Piece * (PTES + 1))()
        self._gifts = (Range * native.MAX_GIVEN)()
        self._kept: list[ctypes.Array[ctypes.c_uint8]] = []
        """What `_gifts` points to."""
        self._ranges: tuple[DirectRange, ...] | None = None
        """Those that addresses in `block` are of; None: of any that may be gone."""
        block.split, block.ranges = ctypes.addressof(self._split), ctypes.addressof(self._rows)
        block.pieces, block.gifts = ctypes.addressof(self._pieces), ctypes.addressof(self._gifts)
        block.intr = intr_address
        self._free: Callable[[Block], int] = native.commands
        self._brief: Callable[[Block], int] = native.commands
        self._is_brief = False
        self.is_compiled = False

    def compile(self) -> None:
        """Use machine code from now on."""
        code = native.code()
        self._free = code.function("commands", ctypes.c_uint64, ctypes.POINTER(Block))
        self._brief = ctypes.PYFUNCTYPE(ctypes.c_uint64, ctypes.POINTER(Block))(code.address("commands"))
        self.is_compiled = True

    def forget(self) -> None:
        """Let go of all memory, from any thread; a call under way holds what it uses itself."""
        self._ranges = None

    @property
    def words(self) -> bytes:
        """The command that Python is asked about."""
        return ctypes.string_at(self.block.words, USER_CMD_BYTES)

    def open(self, run: Run) -> None:
        """Begin with the next command of `run`."""
        block = self.block
        block.start, block.position = run.command.offset, run.position
        block.code_table, block.record = run.command.table, run.context.address
        block.words = block.told = block.next = block.served = block.given = 0
        self._place()

    def run(self, end: int, *, listens: bool, every: bool) -> int:
        """Execute commands up to `end` at most: one of the results of `native.commands`.

        Somebody `listens` to each command; `every` FENCE's interrupt is due.
        """
        block, ranges = self.block, self._memory.ranges
        if ranges is not self._ranges:
            self._learn(ranges)
        block.listens, block.every, block.used, block.count = listens, every, 0, len(ranges)
        why = self._call(end)
        if block.words and block.words != block.split:  # goes on later, when they may be gone
            ctypes.memmove(block.split, block.words, USER_CMD_BYTES)
            block.words = block.split
        if self._memory.ranges is not ranges:  # until now they had to stay
            self.forget()
        return why

    def give(self, address: int, data: bytes) -> None:
        """Memory that was asked for."""
        block = self.block
        if block.given == native.MAX_GIVEN:
            block.given = 0
        if not block.given:
            self._kept.clear()
        kept = (ctypes.c_uint8 * len(data)).from_buffer_copy(data)
        self._kept.append(kept)
        self._gifts[block.given] = Range(address, len(data), ctypes.addressof(kept), 0)
        block.given += 1

    def _call(self, end: int) -> int:
        block = self.block
        position = block.position
        if not self.is_compiled:
            block.end, block.budget = min(end, position + SOME), BRIEF_BYTES
            return self._free(block)
        if self._is_brief:
            block.end, block.budget = min(end, position + BRIEF), BRIEF_BYTES
            why = self._brief(block)
        else:
            block.end, block.budget = end, QUANTUM_BYTES
            why = self._free(block)
        self._is_brief = block.position - position < BRIEF and block.filled < BRIEF_BYTES
        return why

    def _learn(self, ranges: tuple[DirectRange, ...]) -> None:
        """Put the shared ranges into the table; `self._ranges` keeps their memory alive."""
        self._ranges = ranges
        if len(ranges) > len(self._rows):
            self._rows = (Range * (2 * len(ranges)))()
            self.block.ranges = ctypes.addressof(self._rows)
        for number, each in enumerate(ranges):
            host = np.frombuffer(each.view, dtype=np.uint8).ctypes.data if each.view.nbytes else 0
            self._rows[number] = Range(each.base, each.view.nbytes, host, not each.view.readonly)
        for at in range(self.block.next, self.block.last, ctypes.sizeof(Piece)) if self.block.next else ():
            Piece.from_address(at).elsewhere = 1  # found in other ranges
        self._place()

    def _place(self) -> None:
        """Find what every command needs."""
        block, host_range = self.block, self._memory.host_range
        block.entries = host_range(block.code_table, ACCELDEV_PAGE_SIZE) or 0
        block.slots = host_range(block.record, ACCELDEV_NUM_BUFFERS * SLOT_BYTES) or 0
        counter = host_range(block.record + FENCE_COUNTER, WORD_BYTES, write=True) or 0
        block.counter = 0 if counter % WORD_BYTES else counter  # it cannot be counted in one piece
