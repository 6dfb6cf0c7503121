"""The interface between the RefSi device and the memory system, which differs between profiles."""

from __future__ import annotations

from typing import Any, Final, Protocol, TypeAlias

from softcard.core.space import Ram, Unit
from softcard.isa.riscv.port import HartPort

# Kinds of unit, as the driver's unit ids number them (kind << 24 or index).
ANY: Final = 0
EXTERNAL: Final = 1
CMP: Final = 2
HART: Final = 3
CORE: Final = 4

HOST = Unit(EXTERNAL)
COMMAND_PROCESSOR = Unit(CMP)

Extent: TypeAlias = tuple[int, int, int]
"""A range of plain memory: start and end device address, and host address minus device address."""


class MemorySystem(Protocol):
    """The device memory of one profile: regions, windows, DMA registers and counters, as each unit sees them.

    `spec` and `refsidrv` each implement it. Every refused access is an `AccessFault` with the guest address and, in
    `spec`, the rule that was broken.
    """

    def read(self, address: int, size: int, unit: Unit) -> bytes:
        """Read as `unit`: any size for memory, whole registers for memory-mapped registers."""

    def write(self, address: int, data: bytes, unit: Unit) -> None:
        """Write `data` as `unit`."""

    def check_range(self, address: int, size: int, unit: Unit, access: str) -> None:
        """Raise `AccessFault` unless `unit` may "read" or "write" all the bytes as memory."""

    def view(self, address: int, size: int) -> memoryview | None:
        """Return the bytes, writable and shared with the device, or None if they are not plain memory."""

    def copy64(self, source: int, target: int, count: int, unit: Unit) -> None:
        """Carry out COPY_MEM64: copy `count` 8-byte elements, one by one.

        They are read as `unit` and written as the command processor.
        """

    def window_register(self, number: int, value: int) -> None:
        """Apply a write of `value` to CMP register 8..39, which may move, open or close its window.

        Raise an error if the value is invalid.
        """

    def port(self, hart: int) -> HartPort:
        """Return the port to memory of hart number `hart`, for an engine."""

    @property
    def rams(self) -> tuple[Ram, ...]:
        """The RAM objects of all plain memory."""

    @property
    def is_moving(self) -> bool:
        """True while an asynchronous DMA transfer is outstanding."""

    def flush(self) -> None:
        """Complete all outstanding asynchronous DMA transfers of all units."""

    def sync(self, flags: int) -> None:
        """Carry out SYNC_CACHE in the memory system, for the caches in `flags`.

        Write back and invalidate those that are modelled.
        """

    def reset(self) -> None:
        """Reset to the state at open; RAM contents are zeroed."""

    def close(self) -> None:
        """Release the host's memory: no address is mapped any more. Views stay valid as long as they are referenced."""

    def snapshot(self) -> Any:
        """Return the state of the memory system, for `restore`. No DMA transfer may be outstanding.

        The state does not include the write protection of memory.
        """

    def restore(self, state: Any) -> None:
        """Return to a state that `snapshot` of an equal memory system returned; RAM keeps its host addresses."""
