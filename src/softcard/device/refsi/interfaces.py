"""The interface between the RefSi device and its memory system. Each profile has its own memory system."""

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

    Each of the packages `spec` and `refsidrv` implements this interface. Every refused access is an `AccessFault`
    with the guest address and, in `spec`, the rule that was violated."""

    def read(self, address: int, size: int, unit: Unit) -> bytes:
        """Read `size` bytes at `address` of the address space that `unit` sees.

        Any size is allowed for memory; registers can only be read as a whole."""

    def write(self, address: int, data: bytes, unit: Unit) -> None:
        """Write `data` at `address` of the address space that `unit` sees."""

    def check_range(self, address: int, size: int, unit: Unit, access: str) -> None:
        """Raise `AccessFault` unless `unit` may access `size` bytes at `address`, and all of them are memory.

        `access` is "read" or "write"."""

    def view(self, address: int, size: int) -> memoryview | None:
        """Return a writable view of `size` bytes at `address`, which shares memory with the device.

        Return None if the bytes are not plain memory."""

    def copy64(self, source: int, target: int, count: int, unit: Unit) -> None:
        """Carry out COPY_MEM64: copy `count` 8-byte elements, one by one.

        `source` is an address in the address space that `unit` sees, `target` one in that of the command processor."""

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
        """Execute SYNC_CACHE in the memory system: write back and invalidate the caches that `flags` names.

        Flags of caches that are not modelled have no effect."""

    def reset(self) -> None:
        """Reset to the state at open; RAM contents are zeroed."""

    def close(self) -> None:
        """Release the host's memory; no address is mapped then.

        Views stay valid as long as they are referenced."""

    def snapshot(self) -> Any:
        """Return the state of the memory system, for `restore`. No DMA transfer may be outstanding.

        The state does not include the write protection of memory.
        """

    def restore(self, state: Any) -> None:
        """Return to a state that `snapshot` of an equal memory system returned.

        The host addresses of RAM do not change."""
