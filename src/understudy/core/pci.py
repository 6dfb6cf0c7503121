"""What a PCI device of the bench shows to whatever it is plugged into: a machine emulator, a driver in Python, a test.

The side that plugs it in (a server for a machine emulator, a host library) gives the device a `DmaPort` and observes
its interrupt `line`; everything else are accesses to its BARs. Nothing here knows any bus protocol.

Threads: the plugging side makes all its calls from one thread at a time. A device may have a thread of its own, which
then makes all calls of the `DmaPort` and of the line's observers; it never holds a lock of the device during them that
`read_bar` or `write_bar` need for long, so that registers answer at once while the device works.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol

from understudy.core.errors import AccessFault
from understudy.core.line import Line
from understudy.core.space import AddressSpace, Ram, Unit

INTERRUPT_PINS: Final = {"": 0, "INTA": 1, "INTB": 2, "INTC": 3, "INTD": 4}
"""Values of the Interrupt Pin register, by name; "" is none."""


@dataclass(frozen=True, slots=True)
class PciIdentity:
    """Read-only identification in the configuration space (PCI Local Bus 3.0, 6.2.1 and 6.2.4).

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
    """A base address register: `index` 0 to 5, a 32-bit memory region of `size_bytes`, a power of two."""

    index: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class DirectRange:
    """Bus addresses from `base` on that are plain memory of this process: `view`, one byte per item.

    `view.readonly` says whether the device may write there. The view keeps its memory alive, so that a device that
    still holds one after the range was unmapped touches memory nobody looks at, never memory that is gone.
    """

    base: int
    view: memoryview

    @property
    def end(self) -> int:
        """First bus address behind the range."""
        return self.base + self.view.nbytes


class DmaPort(Protocol):
    """Bus mastering: the memory that a device reaches, in bytes at bus addresses.

    Any address and size may be asked for; `AccessFault` where not all of it is memory that can be accessed that way.
    A write that fails may have stored a part. Words of 4 and 8 aligned bytes are read and written in one piece.
    """

    def read(self, address: int, size: int) -> bytes:
        """`size` bytes at `address`."""

    def write(self, address: int, data: bytes) -> None:
        """Store `data` at `address`."""

    def direct(self) -> tuple[DirectRange, ...]:
        """The memory that needs no calls, sorted by base, without overlaps; () where there is none.

        The same tuple object is given until ranges come or go, so that comparing it with ``is`` tells a device
        whether what it derived from it still holds. `read` and `write` reach these ranges too.
        """


class PciDevice(Protocol):
    """A conventional PCI device with memory BARs, DMA and one level-triggered INTx."""

    @property
    def identity(self) -> PciIdentity:
        """What the configuration space says of it."""

    @property
    def bars(self) -> tuple[Bar, ...]:
        """Its memory regions, by index."""

    @property
    def line(self) -> Line:
        """The interrupt pin: high while it is asserted. It changes within calls and from the device's own thread."""

    def connect(self, dma: DmaPort) -> None:
        """Give it the memory of the machine; before the first `write_bar`, and again when any of that memory has gone.

        What a device has kept of an earlier `direct` it lets go of then. Any thread may call this, at any time.
        """

    def read_bar(self, bar: int, offset: int, size: int) -> int:
        """The little-endian value of `size` (1, 2, 4, 8) bytes at `offset` of a BAR.

        Never fails for what a guest may ask inside the BAR: what nothing answers reads as all ones. Returns within
        microseconds, whatever the device is doing. `WireError` for a bar, offset or size that cannot exist.
        """

    def write_bar(self, bar: int, offset: int, size: int, value: int) -> None:
        """Store `size` bytes there, likewise; writes that nothing takes are dropped."""

    def reset(self) -> None:
        """Bus reset: the power-on state, nothing queued or running. Connection and observers stay."""

    def close(self) -> None:
        """Stop its threads, if it has any; nothing may be called afterwards. Once is enough."""


class PlainMemory:
    """A `DmaPort` of this process alone: RAM at fixed bus addresses, as a test or a driver in Python needs it."""

    def __init__(self, *ranges: tuple[int, int]) -> None:
        """`ranges`: base and size in bytes of each piece of RAM."""
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
        """`size` bytes at `address`; `AccessFault` where not all of it is RAM."""
        return self._space.read(address, size, _BUS_MASTER)

    def write(self, address: int, data: bytes) -> None:
        """Store `data` at `address`, likewise."""
        self._space.write(address, data, _BUS_MASTER)

    def direct(self) -> tuple[DirectRange, ...]:
        """All of the RAM."""
        return self._direct

    def view(self, address: int, size: int) -> memoryview:
        """The bytes themselves, writable; `AccessFault` where not all of it is one piece of RAM."""
        found = self._space.find(address, size)
        if found is None:
            raise AccessFault(f"view of {size} bytes at {address:#x}: no memory there", address=address, access="view")
        start = address - found.base
        return dict(self._rams)[found.base].view[start : start + size]

    def clear(self) -> None:
        """Zero everything."""
        for _, ram in self._rams:
            ram.clear()


_BUS_MASTER: Final = Unit(0)
