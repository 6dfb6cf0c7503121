"""The records of contexts in main memory, and the progress of a RUN command in a context.

The device accesses the records in memory each time; it caches none of them.
"""

from __future__ import annotations

from dataclasses import dataclass

from softcard.core.errors import AccessFault
from softcard.core.snapshot import Stateful
from softcard.core.words import U32
from softcard.device.acceldev import rules
from softcard.device.acceldev.commands import (
    FENCE_COUNTER,
    SLOT_BYTES,
    STATUS,
    STATUS_ERROR,
    USER_CMD_BYTES,
    ContextConfig,
    RunCommand,
)
from softcard.device.acceldev.memory import Memory, explained
from softcard.device.acceldev.registers import ACCELDEV_NUM_BUFFERS


@dataclass(frozen=True, slots=True)
class Context:
    """Context number `index`: its record in main memory, in the array of records at address `configs`.

    All methods raise `AccessFault` if the record is not in memory.
    """

    index: int
    configs: int
    memory: Memory

    @property
    def address(self) -> int:
        """The physical address of the context's record."""
        return self.configs + self.index * ContextConfig.size_bytes

    @property
    def errored(self) -> bool:
        """True if the error bit of the record's status is set."""
        return bool(self._status() & STATUS_ERROR)

    def mark_errored(self) -> None:
        """Set the error bit in the status of the record; leave the other bits unchanged."""
        self._write(STATUS, bytes([self._status() | STATUS_ERROR]))

    def count_fence(self) -> int:
        """Increment ``fence_counter`` (modulo 2**32); return the new value."""
        counter = int.from_bytes(self._read(FENCE_COUNTER, 4), "little") + 1 & U32
        self._write(FENCE_COUNTER, counter.to_bytes(4, "little"))
        return counter

    def slot(self, number: int) -> int:
        """Return the page table address that slot `number` of this context's record holds; 0 for an empty slot."""
        return int.from_bytes(self._read(number * SLOT_BYTES, SLOT_BYTES), "little")

    def bind(self, number: int, table: int) -> None:
        """Store the page table address `table` in slot `number` of the record."""
        self._write(number * SLOT_BYTES, table.to_bytes(SLOT_BYTES, "little"))

    def slots(self) -> bytes:
        """Return the bytes of all slots of the record, as they are in memory."""
        return self._read(0, ACCELDEV_NUM_BUFFERS * SLOT_BYTES)

    def record(self) -> ContextConfig:
        """Return the whole record."""
        return ContextConfig.parse(self._read(0, ContextConfig.size_bytes))

    def _status(self) -> int:
        return self._read(STATUS, 1)[0]

    def _read(self, offset: int, size: int) -> bytes:
        try:
            return self.memory.read(self.address + offset, size)
        except AccessFault as fault:
            raise self._explained(fault) from fault

    def _write(self, offset: int, data: bytes) -> None:
        try:
            self.memory.write(self.address + offset, data)
        except AccessFault as fault:
            raise self._explained(fault) from fault

    def _explained(self, fault: AccessFault) -> AccessFault:
        what = (
            f"cannot access the record of context {self.index} at {self.address:#x} (CONTEXTS_CONFIGS is "
            f"{self.configs:#x})"
        )
        return explained(fault, what, rules.CONTEXTS_ARRAY)


# ---- progress of a RUN -----------------------------------------------------------------------------------------------
# The progress of a RUN: the state that its user commands change in addition to memory.


@dataclass(slots=True)
class Run(Stateful):
    """The progress of a RUN command: the first `position` of its `count` user commands are done.

    `used` is a bit mask of the slots whose buffers were filled; `fences` is the number of user FENCEs that were
    counted."""

    STATE = ("position", "used", "fences")

    command: RunCommand
    context: Context
    count: int
    position: int = 0
    used: int = 0
    fences: int = 0

    @property
    def offset(self) -> int:
        """The position of the next user command in the code buffer, in bytes."""
        return self.command.offset + self.position * USER_CMD_BYTES

    @property
    def finished(self) -> bool:
        """True if all user commands of the RUN are done."""
        return self.position >= self.count
