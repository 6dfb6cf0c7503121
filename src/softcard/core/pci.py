"""The interface between a virtual PCI device and its host side: a machine emulator, a driver in Python, or a test.

The host side (a server for a machine emulator, a host library) gives the device a `DmaPort` and observes its interrupt
`line`; everything else is accesses to its BARs. This module knows no bus protocol.

Threads: the host side makes all its calls from one thread at a time. A device may have a thread of its own, which then
makes all calls of the `DmaPort` and of the line's observers. During these calls, the device does not hold a lock that
`read_bar` or `write_bar` need for long, so that registers answer at once while the device works.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol

from softcard.core.completion import Line
from softcard.core.errors import AccessFault
from softcard.core.space import AddressSpace, Ram, Unit

INTERRUPT_PINS: Final = {"": 0, "INTA": 1, "INTB": 2, "INTC": 3, "INTD": 4}
"""The values of the Interrupt Pin register by the pin's name; "" means no pin."""


@dataclass(frozen=True, slots=True)
class PciIdentity:
    """The read-only identification registers in the configuration space (PCI Local Bus 3.0, 6.2.1 and 6.2.4).

    `class_code` has 24 bits: base class, sub-class, programming interface.
    """

    vendor_id: int
    device_id: int
    class_code: int
    revision_id: int = 0
    subsystem_vendor_id: int = 0
    subsystem_id: int = 0
    interrupt_pin: int = INTERRUPT_PINS["INTA"]


@dataclass(frozen=True, slots=True)
class Bar:
    """A base address register: BAR `index` (0 to 5), a 32-bit memory region of `size_bytes`, a power of two."""

    index: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class DirectRange:
    """A range of bus addresses, beginning at `base`, that is plain memory of this process; `view` has its bytes.

    If `view.readonly` is True, the device may not write to the range. The view keeps its memory alive: after
    the range was unmapped, a device that still uses the view has no effect on other memory."""

    base: int
    view: memoryview

    @property
    def end(self) -> int:
        """The first bus address past the end of the range."""
        return self.base + self.view.nbytes


class DmaPort(Protocol):
    """The interface through which a device, as a bus master, accesses the machine's memory by bus address.

    Any address and size may be requested. `AccessFault` is raised unless the whole range is memory that permits
    the access. A write that fails may have stored some of the bytes. Aligned words of 4 and 8 bytes are read and
    written atomically."""

    def read(self, address: int, size: int) -> bytes:
        """Return `size` bytes at `address`."""

    def write(self, address: int, data: bytes) -> None:
        """Store `data` at `address`."""

    def direct(self) -> tuple[DirectRange, ...]:
        """Return the memory that can be accessed without calls, sorted by base, without overlaps; () if none.

        The result is the same tuple object until ranges are added or removed, so a device can compare it with ``is`` to
        detect that data derived from it is outdated. `read` and `write` can access these ranges too.
        """


class PciDevice(Protocol):
    """A conventional PCI device with memory BARs, DMA and one level-triggered INTx."""

    @property
    def identity(self) -> PciIdentity:
        """The identification in the configuration space."""

    @property
    def bars(self) -> tuple[Bar, ...]:
        """The memory regions by index."""

    @property
    def line(self) -> Line:
        """The interrupt line: high while the interrupt is asserted.

        It changes within calls, and also on the device's own thread.
        """

    def connect(self, dma: DmaPort) -> None:
        """Connect the device to the machine's memory through `dma`.

        This method is called before the first `write_bar`, and again after memory was removed. The device then drops
        the ranges that earlier calls of `dma.direct` have returned. Any thread may call it, at any time."""

    def read_bar(self, bar: int, offset: int, size: int) -> int:
        """Return the little-endian value of `size` (1, 2, 4, 8) bytes at `offset` of a BAR.

        This never fails for an access that a guest can make inside the BAR: unimplemented registers read as all ones.
        It returns within microseconds, even while the device is working. Raise `WireError` for a bar, offset or size
        that cannot exist.
        """

    def write_bar(self, bar: int, offset: int, size: int, value: int) -> None:
        """Store `value` as `size` bytes at `offset` of a BAR; ignore writes to unimplemented registers.

        Raise the errors that `read_bar` raises.
        """

    def reset(self) -> None:
        """Reset the device to its power-on state, with no work queued or running.

        The connection to memory and the observers stay.
        """

    def close(self) -> None:
        """Stop the device's threads, if any. Further calls of `close` have no effect; other calls are not permitted."""


class PlainMemory:
    """A `DmaPort` to RAM of this process at fixed bus addresses, for tests and drivers in Python."""

    def __init__(self, *ranges: tuple[int, int]) -> None:
        """Make RAM at `ranges`, each a base address and a size in bytes."""
        self._space = AddressSpace()
        self._rams: list[tuple[int, Ram]] = []
        for base, size in ranges:
            ram = Ram(size)
            self._space.map(base, ram, "RAM")
            self._rams.append((base, ram))
        self._direct = tuple(DirectRange(base, ram.view) for base, ram in sorted(self._rams, key=lambda pair: pair[0]))

    def __repr__(self) -> str:
        return f"<memory: {', '.join(f'{ram.size:,} bytes at {base:#x}' for base, ram in self._rams) or 'none'}>"

    def read(self, address: int, size: int) -> bytes:
        """Return `size` bytes at `address`; raise `AccessFault` unless all of them are RAM."""
        return self._space.read(address, size, _BUS_MASTER)

    def write(self, address: int, data: bytes) -> None:
        """Store `data` at `address`; raise `AccessFault` unless all of its addresses are RAM."""
        self._space.write(address, data, _BUS_MASTER)

    def direct(self) -> tuple[DirectRange, ...]:
        """Return all of the RAM as ranges."""
        return self._direct

    def view(self, address: int, size: int) -> memoryview:
        """Return a writable view of `size` bytes at `address`, without copying them.

        Raise `AccessFault` unless all of them are in one range of RAM.
        """
        found = self._space.find(address, size)
        if found is None:
            raise AccessFault(
                f"cannot view {size} bytes at {address:#x}: there is no memory at this address",
                address=address,
                access="view",
            )
        start = address - found.base
        return dict(self._rams)[found.base].view[start : start + size]

    def clear(self) -> None:
        """Zero all memory."""
        for _, ram in self._rams:
            ram.clear()


_BUS_MASTER: Final = Unit(0)
