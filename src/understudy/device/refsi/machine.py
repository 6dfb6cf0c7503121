"""What executes commands, as Python sees it: `native_commands`, and the memory it may reach by itself."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Final

import numpy as np

from understudy.device.refsi import native_commands as native
from understudy.device.refsi.interfaces import COMMAND_PROCESSOR, Extent
from understudy.device.refsi.native_commands import Block, Entry, Pending, Row
from understudy.device.refsi.profiles import Profile, Words
from understudy.device.refsi.spec.dma import Context
from understudy.ir import llvm

ENTRY_WORDS: Final = ctypes.sizeof(Entry) // 8
PATIENCE: Final = 1 << 25
"""Work, in bytes, that machine code does before somebody looks whether it may go on: some hundredths of a second."""
PATIENCE_OF_PYTHON: Final = 1 << 18
"""The same for Python."""


class Machine:
    """Executes the commands of one device, `compiled` or as Python.

    What it reached by itself is not known to the rest of the device before `settle`.
    """

    def __init__(self, registers: memoryview[int], profile: Profile, *, compiled: bool) -> None:
        self._profile = profile
        self._registers = registers
        self.block = block = Block()
        self._extents = (Row * native.MAX_EXTENTS)()
        self._pending = (Pending * native.MAX_PENDING)()
        self._events = np.zeros((native.MAX_EVENTS, ENTRY_WORDS), dtype=np.uint64)
        block.registers = _address(registers)
        block.extents, block.pending = ctypes.addressof(self._extents), ctypes.addressof(self._pending)
        block.events = self._events.ctypes.data
        block.patience = PATIENCE if compiled else PATIENCE_OF_PYTHON
        block.is_lenient, block.listed, block.is_synced = profile.lenient, profile.listed, profile.is_synced
        self._lent: Context | None = None
        self._known: int | None = None
        """What `Profile.mapped` was when the known extents were."""
        self._run: Callable[[Block], int] = native.commands
        self._compiled = native.code() if compiled else None
        self._code: llvm.Code | None = None

    def open(self, words: Words, chunks: int) -> None:
        """Begin with the first of the `chunks` commands of a buffer; behind it there may be more `words`."""
        if self._compiled is not None and self._compiled.use(chunks) is not self._code:
            self._code = self._compiled.code
            self._run = self._code.function("commands", ctypes.c_uint64, ctypes.POINTER(Block))
        block = self.block
        block.words, block.limit = _address(words), len(words)
        block.position, block.end, block.done = 0, chunks, 0
        block.served = block.noted = block.told = block.moved = block.high = 0
        block.low = (1 << 64) - 1

    def run(self, listens: bool, is_live: bool) -> int:
        """Execute commands up to one that needs something, or the end: one of the results of `native.commands`.

        Where somebody `listens`, `events` are for them; where that `is_live`, before the command has any effect.
        """
        block = self.block
        block.listens, block.is_live, block.moving = listens, is_live, 0
        if self._known is None or self._known != self._profile.mapped:
            self._known, block.count = self._profile.mapped, 0
        while True:
            block.missed = 0
            why = self._run(block)
            if not block.missed or not self._learn(block):
                return why
            block.noted = block.before

    def serve(self, what: int) -> None:
        """The command that asked for something has been given it."""
        self.block.served = what

    def skip(self, following: int) -> None:
        """The command was executed elsewhere; the next one is at `following`."""
        self.block.position = following
        self.block.done += 1

    def events(self) -> list[list[int]]:
        """What has happened since the last call: the words of an `Entry` each."""
        count, self.block.noted = self.block.noted, 0
        return self._events[:count].tolist()  # type: ignore[no-any-return]

    def settle(self) -> None:
        """Tell the rest of the device what was done."""
        block = self.block
        if block.moved:
            self._move()
        if self._lent is not None:
            self._give_back(self._lent)
        if block.synced:
            flags, block.synced = block.synced, 0
            self._profile.synced(flags)
        if block.high:
            self._profile.wrote(block.low, block.high - block.low)
            block.low, block.high = (1 << 64) - 1, 0

    def _move(self) -> None:
        moved, self.block.moved = self.block.moved, 0
        written = {number: self._registers[number] for number in range(moved.bit_length()) if moved >> number & 1}
        self._profile.windows_written(written)

    # -- extents ------------------------------------------------------------------------------------------------

    def _learn(self, block: Block) -> bool:
        """Add the extent that was missing; False where there is none."""
        if block.moved:
            self._move()
        address, uses = block.missed_address, block.missed
        access = "read" if uses & native.READABLE else "write"
        found, use = self._profile.direct(address, access), uses & ~native.REGISTERS
        if found is None and uses & native.REGISTERS:
            found, use = self._dma(address, access), uses
        if found is None or not found[0] <= address <= found[1] - block.missed_size:
            return False
        start, end, addend = found
        count = block.count if block.count < native.MAX_EXTENTS else 0
        self._extents[count] = Row(start, end - start, addend & (1 << 64) - 1, use)
        block.count = count + 1
        return True

    # -- transfers ----------------------------------------------------------------------------------------------

    def _dma(self, address: int, access: str) -> Extent | None:
        """The registers of the DMA controller around `address`, where transfers may be executed here."""
        dma = self._profile.dma
        found = None if dma is None else self._profile.dma_registers(address, access)
        if dma is None or found is None:
            return None
        if self._lent is None:
            self._lent = dma.lend(COMMAND_PROCESSOR)
            if self._lent is None:
                return None
            block, context = self.block, self._lent
            block.dma, block.dma_named, block.dma_late = _address(context.values), dma.named, dma.is_late
            block.started, block.ended, block.first, block.last = context.started, context.done, 0, 0
        start, end, offset = found
        return start, end, self.block.dma + offset

    def _give_back(self, context: Context) -> None:
        block, self._lent, self._known = self.block, None, None
        context.started, context.done = block.started, block.ended
        for each in self._pending[block.first : block.last]:
            self._profile.transfer_started(
                each.id, (each.source_address, each.source), (each.target_address, each.target), each.size
            )


def _address(words: Words) -> int:
    return int(np.frombuffer(words, dtype=np.uint64).ctypes.data)
