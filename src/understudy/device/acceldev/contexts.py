"""The contexts' records in main memory. They are the only truth: nothing of them is kept in the device."""

from __future__ import annotations

from dataclasses import dataclass

from understudy.core.errors import AccessFault
from understudy.core.words import U32
from understudy.device.acceldev import rules
from understudy.device.acceldev.commands import FENCE_COUNTER, SLOT_BYTES, STATUS, STATUS_ERROR, ContextConfig
from understudy.device.acceldev.memory import Memory, explained
from understudy.device.acceldev.registers import ACCELDEV_NUM_BUFFERS


@dataclass(frozen=True, slots=True)
class Context:
    """Context `index` of the array of records at `configs`. All calls raise `AccessFault` where that is no memory."""

    index: int
    configs: int
    memory: Memory

    @property
    def address(self) -> int:
        """Physical address of the record."""
        return self.configs + self.index * ContextConfig.size_bytes

    @property
    def errored(self) -> bool:
        """Whether the error bit is set."""
        return bool(self._status() & STATUS_ERROR)

    def mark_errored(self) -> None:
        """Set the error bit, keep the others."""
        self._write(STATUS, bytes([self._status() | STATUS_ERROR]))

    def count_fence(self) -> int:
        """Increment ``fence_counter`` (modulo 2**32); gives the new value."""
        counter = int.from_bytes(self._read(FENCE_COUNTER, 4), "little") + 1 & U32
        self._write(FENCE_COUNTER, counter.to_bytes(4, "little"))
        return counter

    def slot(self, number: int) -> int:
        """The page table address in a slot; 0 is none."""
        return int.from_bytes(self._read(number * SLOT_BYTES, SLOT_BYTES), "little")

    def bind(self, number: int, table: int) -> None:
        """Store a page table address in a slot."""
        self._write(number * SLOT_BYTES, table.to_bytes(SLOT_BYTES, "little"))

    def slots(self) -> bytes:
        """All slots as they lie in memory."""
        return self._read(0, ACCELDEV_NUM_BUFFERS * SLOT_BYTES)

    def record(self) -> ContextConfig:
        """The whole record."""
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
        what = f"record of context {self.index} at {self.address:#x}, CONTEXTS_CONFIGS being {self.configs:#x}"
        return explained(fault, what, rules.CONTEXTS_ARRAY)
