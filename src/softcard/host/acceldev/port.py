"""The interface between the Acceldev driver and the machine that contains the device.

`LocalPort` implements it for a device in this process.
"""

from __future__ import annotations

from typing import Final, Protocol, Unpack

from softcard.core.allocations import Allocator
from softcard.core.completion import Line
from softcard.core.errors import SoftcardError
from softcard.core.event import Probes
from softcard.core.limits import Stopped
from softcard.core.pci import PlainMemory
from softcard.device.acceldev.device import AcceldevDevice
from softcard.device.acceldev.registers import ACCELDEV_PAGE_SIZE, BAR0, REGISTER_BYTES
from softcard.device.acceldev.settings import AcceldevOptions, Settings

MEMORY_BASE: Final = 0x1_0000_0000
"""The bus address at which the memory of a `LocalPort` begins.

It is not 0, and above 4 GiB, so that lost upper halves of addresses are noticed.
"""
MEMORY_BYTES: Final = 64 << 20


class AcceldevPort(Protocol):
    """The interface to a machine that contains the device: registers, an interrupt, and DMA memory.

    Addresses are bus addresses in bytes.
    """

    @property
    def line(self) -> Line:
        """The device's interrupt; its observers are the interrupt handlers."""

    def read(self, offset: int) -> int:
        """Read a 32-bit register of BAR0."""

    def write(self, offset: int, value: int) -> None:
        """Write a 32-bit register of BAR0."""

    def allocate(self, size: int) -> int:
        """Return the page-aligned address of `size` bytes of zeroed contiguous memory that the device can access.

        Return 0 if there is not enough free memory."""

    def free(self, address: int) -> None:
        """Free memory that neither the driver nor the device uses any more."""

    def view(self, address: int, size: int) -> memoryview:
        """Return a view of `size` bytes of memory, writable and shared with the device."""

    def work(self) -> bool:
        """Let a device without a thread do some of its work; return False if it is idle."""

    @property
    def works_alone(self) -> bool:
        """True if the device works on its own while a driver waits."""

    @property
    def is_gone(self) -> bool:
        """True if the device was closed, by any caller, and executes nothing any more."""

    def explain(self, context: int) -> SoftcardError | None:
        """Return the error that the device reported for a context, or None if the port does not know it."""

    def close(self) -> None:
        """End the device's work, because the driver is closed.

        This may be called from any thread, even during another call.
        """

    def stopped(self) -> SoftcardError | None:
        """Return an error that describes the command that the device was executing when it was closed.

        The result is None if the port does not know it.
        """


class LocalPort:
    """An Acceldev device in this process, with memory and an interrupt line.

    The device is configured by a `Settings` object, or by the fields of one as keyword `options`."""

    def __init__(
        self,
        memory_bytes: int = MEMORY_BYTES,
        settings: Settings | None = None,
        **options: Unpack[AcceldevOptions],
    ) -> None:
        self.memory_bytes = memory_bytes
        self.memory = PlainMemory((MEMORY_BASE, memory_bytes))
        self.device = AcceldevDevice(settings, **options)
        self.device.connect(self.memory)
        self._pages = Allocator(MEMORY_BASE, memory_bytes)

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.memory_bytes, self.device.settings)

    @property
    def line(self) -> Line:
        """The device's interrupt line."""
        return self.device.line

    @property
    def probes(self) -> Probes:
        """The probes by which observers subscribe to events of the device."""
        return self.device.probes

    def read(self, offset: int) -> int:
        """Read a 32-bit register of BAR0."""
        return self.device.read_bar(BAR0.index, offset, REGISTER_BYTES)

    def write(self, offset: int, value: int) -> None:
        """Write a 32-bit register of BAR0."""
        self.device.write_bar(BAR0.index, offset, REGISTER_BYTES, value)

    def allocate(self, size: int) -> int:
        """Return the address of zeroed pages, or 0 if the memory is used up."""
        rounded = -(-size // ACCELDEV_PAGE_SIZE) * ACCELDEV_PAGE_SIZE
        address = self._pages.allocate(rounded, ACCELDEV_PAGE_SIZE)
        if address:
            self.memory.view(address, rounded)[:] = bytes(rounded)
        return address

    def free(self, address: int) -> None:
        """Free the pages that `allocate` returned at this address."""
        self._pages.free(address)

    def view(self, address: int, size: int) -> memoryview:
        """Return a writable view of `size` bytes of device memory at `address`."""
        return self.memory.view(address, size)

    def work(self) -> bool:
        """Execute one step of a synchronous device; return False if it is idle."""
        return not self.works_alone and self.device.step(1 << 20) > 0

    @property
    def works_alone(self) -> bool:
        """True if the device has a thread."""
        return self.device.settings.threaded

    @property
    def is_gone(self) -> bool:
        """True if the device is closed."""
        return self.device.is_closed

    def explain(self, context: int) -> SoftcardError | None:
        """Return the last error that the device reported for the context with number `context`, or None."""
        return self.device.error_of(context)

    def close(self) -> None:
        """Close the device."""
        self.device.close()

    def stopped(self) -> SoftcardError | None:
        """Return an error that describes the RUN command that was unfinished when the device was closed, or None."""
        error = self.device.last_error
        return error if isinstance(error, Stopped) else None
