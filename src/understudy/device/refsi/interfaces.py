"""The seams between the RefSi device and the parts that differ from profile to profile."""

from __future__ import annotations

from typing import Any, Final, Protocol, TypeAlias

from understudy.core.space import Ram, Unit
from understudy.isa.riscv.port import HartPort

# Kinds of unit, as the driver's unit ids number them (kind << 24 or index).
ANY: Final = 0
EXTERNAL: Final = 1
CMP: Final = 2
HART: Final = 3
CORE: Final = 4

HOST = Unit(EXTERNAL)
COMMAND_PROCESSOR = Unit(CMP)

Extent: TypeAlias = tuple[int, int, int]
"""Start and end of a range of device addresses that are plain memory, and host minus device address."""


class MemorySystem(Protocol):
    """Device memory of one profile: regions, windows, DMA registers, counters, and what each unit sees of them.

    `spec` and `refsidrv` each have one. Every refusal is an `AccessFault` with the guest address and, in `spec`,
    the rule that was broken.
    """

    def read(self, address: int, size: int, unit: Unit) -> bytes:
        """Read as `unit`: any size for memory, whole registers for memory-mapped registers."""

    def write(self, address: int, data: bytes, unit: Unit) -> None:
        """Write as `unit`."""

    def view(self, address: int, size: int) -> memoryview | None:
        """The bytes themselves, writable and shared with the device, or None where they are not plain memory."""

    def copy64(self, source: int, target: int, count: int, unit: Unit) -> None:
        """COPY_MEM64: `count` 8-byte elements one by one, read as `unit`, written as the command processor."""

    def window_register(self, number: int, value: int) -> None:
        """CMP register 8..39 was written with `value`: move, open or close its window (or refuse)."""

    def port(self, hart: int) -> HartPort:
        """The memory as hart number `hart` sees it, for an engine."""

    @property
    def rams(self) -> tuple[Ram, ...]:
        """All plain memory."""

    @property
    def is_moving(self) -> bool:
        """Whether something is still under way (asynchronous DMA)."""

    def settle(self) -> None:
        """Finish whatever is still under way (asynchronous DMA) for every unit."""

    def sync(self, flags: int) -> None:
        """SYNC_CACHE on the memory side: write back and invalidate modelled caches."""

    def reset(self) -> None:
        """Back to the state at open; RAM contents are zeroed."""

    def close(self) -> None:
        """Give the host's memory back: nothing is at any address any more. Views stay valid as long as they live."""

    def snapshot(self) -> Any:
        """The state while nothing is under way (see `settle`), for `restore`; protections are not part of it."""

    def restore(self, state: Any) -> None:
        """Go back to a state that `snapshot` of an equal memory system gave; host addresses of RAM stay."""
