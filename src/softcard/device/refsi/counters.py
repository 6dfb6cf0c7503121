"""The performance counters as a memory region: 32 slots of the accessing hart, then 32 shared ones.

Slot k of a hart is its machine counter CSR 0xB00 + k. Slot 0 counts cycles and slot 2 counts retired
instructions. Slot 1 does not exist and reads 0. The other slots are plain storage, to which the profiler of
the reference driver adds its counts (see `profiler.py`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from softcard.core.errors import AccessFault
from softcard.core.snapshot import Stateful
from softcard.core.space import Unit
from softcard.device.refsi.interfaces import HART
from softcard.device.refsi.registers import (
    COUNTER_CSR,
    NUM_COUNTERS,
    NUM_GLOBAL_COUNTERS,
    NUM_HART_COUNTERS,
    PERF_COUNTERS_SIZE,
    REGISTER_BYTES,
    Counter,
)
from softcard.isa.riscv.state import Hart

MASK64: Final = (1 << 64) - 1
HART_INDEX_MASK: Final = 0xFFFF
COUNTING: Final = (Counter.CYCLE, Counter.RETIRED_INSN)
ABSENT: Final = 1
"""The number of the counter slot that has no CSR, as CSR 0xB01 does not exist."""

FindHart = Callable[[int], Hart | None]


def clear_counters(hart: Hart) -> None:
    """Zero all counters of a hart, and create the storage of its slots 3 to 31."""
    for slot in range(NUM_HART_COUNTERS):
        if slot in COUNTING:
            hart.csr[COUNTER_CSR + slot] = -hart.retired & MASK64
        elif slot != ABSENT:
            hart.csr[COUNTER_CSR + slot] = 0


class PerfCounters(Stateful):
    """The counter region of a device. `find_hart` returns the hart with an index, or None if it is not active.

    The methods `read` and `write` of a `Region` access whole slots; a write accesses only one slot. `load` and
    `store` implement the reference driver's less strict rules."""

    STATE = ("shared",)
    size: int = PERF_COUNTERS_SIZE

    def __init__(self, find_hart: FindHart) -> None:
        self.find_hart = find_hart
        self.shared = [0] * NUM_GLOBAL_COUNTERS
        self._frozen: tuple[Hart, int] | None = None

    def reset(self) -> None:
        """Zero the shared slots; the other slots belong to the harts."""
        self.shared = [0] * NUM_GLOBAL_COUNTERS
        self._frozen = None

    def begin_time_slice(self, hart: Hart) -> None:
        """Freeze the counters of `hart` until `end_time_slice`.

        Until then, reads of the counters do not include instructions that retire in the time slice (choice
        counter-sampling)."""
        self._frozen = (hart, hart.retired)

    def end_time_slice(self) -> None:
        """Unfreeze the slots, so that they include the instructions retired since `begin_time_slice`."""
        self._frozen = None

    def read_slot(self, slot: int, unit: Unit) -> int | None:
        """Return the value of slot `slot` (0 to 63).

        Slots 0 to 31 belong to the accessing hart. Return None if `unit` is not a hart and `slot` is one of these."""
        if slot >= NUM_HART_COUNTERS:
            return self.shared[slot - NUM_HART_COUNTERS]
        if unit.kind != HART:
            return None
        hart = self.find_hart(unit.index & HART_INDEX_MASK)
        if hart is None:
            return 0
        value = hart.csr.get(COUNTER_CSR + slot, 0)
        return value + self._retired(hart) & MASK64 if slot in COUNTING else value

    def write_slot(self, slot: int, value: int, unit: Unit) -> bool:
        """Write slot `slot` (0 to 63); return False if `unit` may not write it.

        Slots that count are set to `value` minus 1 (choice `refsi/counter-write`)."""
        if slot >= NUM_HART_COUNTERS:
            self.shared[slot - NUM_HART_COUNTERS] = value
            return True
        if unit.kind != HART:
            return False
        hart = self.find_hart(unit.index & HART_INDEX_MASK)
        if hart is not None and slot != ABSENT:
            counting = slot in COUNTING
            hart.csr[COUNTER_CSR + slot] = value - 1 - self._retired(hart) & MASK64 if counting else value
        return True

    def _retired(self, hart: Hart) -> int:
        if self._frozen is not None and self._frozen[0] is hart:
            return self._frozen[1]
        return hart.retired

    # -- the reference driver's rules ------------------------------------------------------------------------

    def load(self, offset: int, size: int, unit: Unit) -> bytes | None:
        """Read whole slots, or the low 4 bytes of one slot, as the reference driver does.

        Reads of 1 or 2 bytes return zeros. Return None if the access is misaligned or not permitted to `unit`.
        """
        if size > REGISTER_BYTES:
            if size % REGISTER_BYTES or offset + size > self.size:
                return None
            parts = [self.load(offset + i, REGISTER_BYTES, unit) for i in range(0, size, REGISTER_BYTES)]
            return None if None in parts else b"".join(part for part in parts if part is not None)
        slot, misaligned = divmod(offset, REGISTER_BYTES)
        if misaligned or slot >= NUM_COUNTERS:
            return None
        value = self.read_slot(slot, unit)
        if value is None:
            return None
        return value.to_bytes(REGISTER_BYTES, "little")[:size] if size in (4, 8) else bytes(size)

    def store(self, offset: int, data: bytes, unit: Unit) -> bool:
        """Write 8 bytes, or 4 bytes that are zero-extended, to one slot, as the reference driver does.

        Return False for other accesses.
        """
        slot, misaligned = divmod(offset, REGISTER_BYTES)
        if misaligned or slot >= NUM_COUNTERS or len(data) not in (4, 8):
            return False
        return self.write_slot(slot, int.from_bytes(data, "little"), unit)

    # -- as a region of core.space ------------------------------------------------------------------------------

    def read(self, offset: int, size: int, unit: Unit) -> bytes:
        """Read whole slots; raise `AccessFault` for other sizes, and for a hart's slots unless `unit` is a hart."""
        found = self.load(offset, size, unit) if size and size % REGISTER_BYTES == 0 else None
        if found is None:
            raise self._refused("read", offset, size)
        return found

    def write(self, offset: int, data: bytes, unit: Unit) -> None:
        """Write one whole slot; raise `AccessFault` for other sizes, and for a hart's slots unless `unit` is a hart."""
        if len(data) != REGISTER_BYTES or not self.store(offset, data, unit):
            raise self._refused("write", offset, len(data))

    def host_address(self, offset: int, unit: Unit) -> int | None:
        """Return None: counters cannot be accessed as host memory."""
        return None

    def _refused(self, access: str, offset: int, size: int) -> AccessFault:
        return AccessFault(
            f"{access} of {size} bytes at counter offset {offset:#x}, expected whole 8-byte slots "
            "(0-31 only as a hart)",
            address=offset,
            access=access,
        )
