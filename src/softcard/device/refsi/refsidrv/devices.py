"""The reference driver's model of memory: devices by base address, each with its own rules for refusing an access.

A device returns None or False for a refused access; `RefsidrvMemory` turns that into an `AccessFault`. Offsets are
computed modulo 2**64, as in the reference.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Iterable, Iterator
from typing import Final, Protocol

from softcard.core.errors import GuestFault
from softcard.core.space import Ram, Unit
from softcard.device.refsi.counters import PerfCounters
from softcard.device.refsi.interfaces import EXTERNAL

MASK64: Final = (1 << 64) - 1

Span = tuple[Ram, int]
"""A memory and an offset in it. The reference driver uses a host pointer in its place."""


class ReferenceCrash(GuestFault):
    """The error for an operation at which the reference driver would crash or hang its host process.

    See the choice `refsi/reference-crash`."""


class Device(Protocol):
    """One device on the reference driver's bus."""

    @property
    def size(self) -> int:
        """The number of bytes that the device occupies; address decoding ignores it."""

    def span(self, offset: int, size: int, unit: Unit) -> Span | None:
        """Return the memory for direct access to `size` bytes at `offset`; None if not all of it is memory."""

    def load(self, offset: int, size: int, unit: Unit) -> bytes | None:
        """Return `size` bytes as the reference driver reads them when direct access (`span`) is impossible.

        Return None for a refused access.
        """

    def store(self, offset: int, data: bytes, unit: Unit) -> bool:
        """Write bytes as the reference driver does when direct access (`span`) is impossible.

        Return False for a refused access.
        """

    def slow_span(self, offset: int, size: int, unit: Unit) -> Span | None:
        """Return the memory that `load` and `store` access, if these would access all of `size` bytes at `offset`.

        Return None if such accesses have side effects, or do not reach memory."""


class Bus:
    """The devices by base address. An address belongs to the device with the greatest base at or below it."""

    def __init__(self) -> None:
        self._devices: dict[int, Device] = {}
        self._bases: list[int] = []

    def find(self, address: int) -> tuple[Device, int] | None:
        """Return the device that `address` belongs to and the offset in it, regardless of the device's size."""
        index = bisect_right(self._bases, address) - 1
        if index < 0:
            return None
        base = self._bases[index]
        return self._devices[base], address - base

    def neighbours(self, address: int) -> tuple[int, int]:
        """Return the base of the device that `address` belongs to, and the next base above it.

        The caller has checked that the device exists.
        """
        index = bisect_right(self._bases, address)
        return self._bases[index - 1], self._bases[index] if index < len(self._bases) else MASK64 + 1

    def ram_around(self, address: int) -> tuple[int, int, Ram] | None:
        """Return the plain memory that `address` belongs to, as start, end and RAM object; None if it belongs to none.

        The end is limited by the next device's base."""
        found = self.find(address)
        if found is None or type(found[0]) is not RamDevice or found[1] >= found[0].size:
            return None
        base = address - found[1]
        later = self._bases[bisect_right(self._bases, address) :]
        return base, min([base + found[0].size, *later[:1]]), found[0].ram

    def add(self, base: int, device: Device) -> bool:
        """Map `device` at `base`; return False, without effect, if another device already occupies that address."""
        found = self.find(base)
        if found is not None and found[1] < found[0].size:
            return False
        if base not in self._devices:
            insort(self._bases, base)
        self._devices[base] = device
        return True

    def items(self) -> Iterator[tuple[int, Device]]:
        """Yield every device with its base, in ascending order."""
        return ((base, self._devices[base]) for base in self._bases)

    def replace(self, devices: Iterable[tuple[int, Device]]) -> None:
        """Replace all mappings by exactly these devices, given by base address."""
        self._devices = dict(devices)
        self._bases = sorted(self._devices)

    def remove(self, base: int) -> None:
        """Remove the device that is mapped at `base`."""
        if self._devices.pop(base, None) is not None:
            self._bases.remove(base)


class RamDevice:
    """A device that is plain memory."""

    def __init__(self, ram: Ram) -> None:
        self.ram = ram

    @property
    def size(self) -> int:
        """The size of the memory in bytes."""
        return self.ram.size

    def span(self, offset: int, size: int, unit: Unit) -> Span | None:
        """Return the memory for a range that is inside this memory, else None.

        As in the reference driver, the sum of offset and size may wrap around."""
        if offset + size & MASK64 > self.size:
            return None
        if offset > self.size:
            raise ReferenceCrash(
                f"the reference driver would access host memory {MASK64 + 1 - offset} bytes before a RAM, out of bounds"
            )
        return self.ram, offset

    def load(self, offset: int, size: int, unit: Unit) -> bytes | None:
        """Read a range; return None if it is not inside the memory."""
        found = self.span(offset, size, unit)
        return None if found is None else bytes(self.ram.view[offset : offset + size])

    def store(self, offset: int, data: bytes, unit: Unit) -> bool:
        """Write a range; return False if it is not inside the memory."""
        if self.span(offset, len(data), unit) is None:
            return False
        self.ram.view[offset : offset + len(data)] = data
        return True

    def slow_span(self, offset: int, size: int, unit: Unit) -> Span | None:
        """Return the memory for a range inside it, else None."""
        return self.span(offset, size, unit)


class RomDevice(RamDevice):
    """A memory that only the host can write, and that only the host accesses directly."""

    def span(self, offset: int, size: int, unit: Unit) -> Span | None:
        """Return the memory if `unit` is the host, else None."""
        return super().span(offset, size, unit) if unit.kind == EXTERNAL else None

    def load(self, offset: int, size: int, unit: Unit) -> bytes | None:
        """Return `size` bytes at `offset`; all units may read them. Return None if they are not inside the memory."""
        if super().span(offset, size, unit) is None:
            return None
        return bytes(self.ram.view[offset : offset + size])

    def store(self, offset: int, data: bytes, unit: Unit) -> bool:
        """Return False: only the host can write, and it uses `span`."""
        return False

    def slow_span(self, offset: int, size: int, unit: Unit) -> Span | None:
        """Return None, because stores are refused here."""
        return None


class CounterDevice:
    """The device of the performance counters."""

    def __init__(self, counters: PerfCounters) -> None:
        self.counters = counters
        self.size: int = counters.size

    def span(self, offset: int, size: int, unit: Unit) -> Span | None:
        """Return None, as counters are registers, not memory."""
        return None

    def load(self, offset: int, size: int, unit: Unit) -> bytes | None:
        """Read counters; see `PerfCounters.load`."""
        return self.counters.load(offset, size, unit)

    def store(self, offset: int, data: bytes, unit: Unit) -> bool:
        """Write counters; see `PerfCounters.store`."""
        return self.counters.store(offset, data, unit)

    def slow_span(self, offset: int, size: int, unit: Unit) -> Span | None:
        """Return None, as counters are registers, not memory."""
        return None
