"""Memory as the reference driver sees it: devices by base address, each with its own idea of what it refuses.

A device answers with None or False where it refuses; `RefsidrvMemory` turns that into an `AccessFault`. Offsets are
taken modulo 2**64, as the reference computes them.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Iterable, Iterator
from typing import Final, Protocol

from understudy.core.errors import GuestFault
from understudy.core.space import Ram, Unit
from understudy.device.refsi.counters import PerfCounters
from understudy.device.refsi.interfaces import EXTERNAL

MASK64: Final = (1 << 64) - 1

Span = tuple[Ram, int]
"""A memory and an offset in it: what the reference holds as a host pointer."""


class ReferenceCrash(GuestFault):
    """The reference driver would crash or hang its host process here (choice `refsi/reference-crash`)."""


class Device(Protocol):
    """One device on the reference's bus."""

    @property
    def size(self) -> int:
        """Bytes that the device claims; decoding does not look at it."""

    def span(self, offset: int, size: int, unit: Unit) -> Span | None:
        """The direct way: the memory behind `offset`, if there is any for all of `size` bytes."""

    def load(self, offset: int, size: int, unit: Unit) -> bytes | None:
        """The slow way to read."""

    def store(self, offset: int, data: bytes, unit: Unit) -> bool:
        """The slow way to write."""

    def slow_span(self, offset: int, size: int, unit: Unit) -> Span | None:
        """Memory that `load` and `store` reach for all of `size` bytes, if they have no effects there."""


class Bus:
    """Devices by base address. An address belongs to the device with the greatest base at or below it."""

    def __init__(self) -> None:
        self._devices: dict[int, Device] = {}
        self._bases: list[int] = []

    def find(self, address: int) -> tuple[Device, int] | None:
        """The device that `address` belongs to and the offset in it; its size is not looked at."""
        index = bisect_right(self._bases, address) - 1
        if index < 0:
            return None
        base = self._bases[index]
        return self._devices[base], address - base

    def neighbours(self, address: int) -> tuple[int, int]:
        """The base of the device that `address` belongs to, and the next base above; there is such a device."""
        index = bisect_right(self._bases, address)
        return self._bases[index - 1], self._bases[index] if index < len(self._bases) else MASK64 + 1

    def ram_around(self, address: int) -> tuple[int, int, Ram] | None:
        """Start and end of the plain memory that `address` belongs to, as far as the next base; its RAM."""
        found = self.find(address)
        if found is None or type(found[0]) is not RamDevice or found[1] >= found[0].size:
            return None
        base = address - found[1]
        later = self._bases[bisect_right(self._bases, address) :]
        return base, min([base + found[0].size, *later[:1]]), found[0].ram

    def add(self, base: int, device: Device) -> bool:
        """Map `device`; False, and nothing happens, where another one reaches over `base`."""
        found = self.find(base)
        if found is not None and found[1] < found[0].size:
            return False
        if base not in self._devices:
            insort(self._bases, base)
        self._devices[base] = device
        return True

    def items(self) -> Iterator[tuple[int, Device]]:
        """Every device with its base, in ascending order."""
        return ((base, self._devices[base]) for base in self._bases)

    def replace(self, devices: Iterable[tuple[int, Device]]) -> None:
        """Map exactly these."""
        self._devices = dict(devices)
        self._bases = sorted(self._devices)

    def remove(self, base: int) -> None:
        """Take out whatever is mapped at `base`."""
        if self._devices.pop(base, None) is not None:
            self._bases.remove(base)


class RamDevice:
    """Plain memory."""

    def __init__(self, ram: Ram) -> None:
        self.ram = ram

    @property
    def size(self) -> int:
        """Bytes."""
        return self.ram.size

    def span(self, offset: int, size: int, unit: Unit) -> Span | None:
        """Everything inside. The sum of offset and size may wrap around, as the reference's does."""
        if offset + size & MASK64 > self.size:
            return None
        if offset > self.size:
            raise ReferenceCrash(f"the reference would access its host memory {MASK64 + 1 - offset} bytes before a RAM")
        return self.ram, offset

    def load(self, offset: int, size: int, unit: Unit) -> bytes | None:
        """Everything inside."""
        found = self.span(offset, size, unit)
        return None if found is None else bytes(self.ram.view[offset : offset + size])

    def store(self, offset: int, data: bytes, unit: Unit) -> bool:
        """Everything inside."""
        if self.span(offset, len(data), unit) is None:
            return False
        self.ram.view[offset : offset + len(data)] = data
        return True

    def slow_span(self, offset: int, size: int, unit: Unit) -> Span | None:
        """Everything inside."""
        return self.span(offset, size, unit)


class RomDevice(RamDevice):
    """Memory that only the host can write, and that only the host reaches directly."""

    def span(self, offset: int, size: int, unit: Unit) -> Span | None:
        """For the host only."""
        return super().span(offset, size, unit) if unit.kind == EXTERNAL else None

    def load(self, offset: int, size: int, unit: Unit) -> bytes | None:
        """For everybody."""
        if super().span(offset, size, unit) is None:
            return None
        return bytes(self.ram.view[offset : offset + size])

    def store(self, offset: int, data: bytes, unit: Unit) -> bool:
        """Never: the host writes directly."""
        return False

    def slow_span(self, offset: int, size: int, unit: Unit) -> Span | None:
        """None: reading and writing differ."""
        return None


class CounterDevice:
    """The performance counters."""

    def __init__(self, counters: PerfCounters) -> None:
        self.counters = counters
        self.size: int = counters.size

    def span(self, offset: int, size: int, unit: Unit) -> Span | None:
        """None: these are registers."""
        return None

    def load(self, offset: int, size: int, unit: Unit) -> bytes | None:
        """See `PerfCounters.load`."""
        return self.counters.load(offset, size, unit)

    def store(self, offset: int, data: bytes, unit: Unit) -> bool:
        """See `PerfCounters.store`."""
        return self.counters.store(offset, data, unit)

    def slow_span(self, offset: int, size: int, unit: Unit) -> Span | None:
        """None: these are registers."""
        return None
