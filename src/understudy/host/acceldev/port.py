"""What the Acceldev driver needs of the machine it runs on, and such a machine in this process."""

from __future__ import annotations

from functools import partial
from typing import Any, Final, Protocol

from understudy.core.allocator import Allocator
from understudy.core.errors import UnderstudyError
from understudy.core.event import Probes
from understudy.core.limits import Stopped
from understudy.core.line import Line
from understudy.core.pci import PlainMemory
from understudy.device.acceldev.device import AcceldevDevice
from understudy.device.acceldev.registers import ACCELDEV_PAGE_SIZE, BAR0, REGISTER_BYTES

MEMORY_BASE: Final = 0x1_0000_0000
"""Bus address of the local machine's memory: not 0, and above 4 GiB, so that lost upper halves show."""
MEMORY_BYTES: Final = 64 << 20


class AcceldevPort(Protocol):
    """Registers, an interrupt, and DMA memory: all that a driver touches. Addresses are bus addresses in bytes."""

    @property
    def line(self) -> Line:
        """The device's interrupt; its observers are the interrupt handlers."""

    def read(self, offset: int) -> int:
        """Read a 32-bit register of BAR0."""

    def write(self, offset: int, value: int) -> None:
        """Write a 32-bit register of BAR0."""

    def allocate(self, size: int) -> int:
        """Address of zeroed contiguous memory that the device reaches, aligned to pages; 0 where there is none."""

    def free(self, address: int) -> None:
        """Give it back; nothing may be using it."""

    def view(self, address: int, size: int) -> memoryview:
        """The memory itself, writable and shared with the device."""

    def work(self) -> bool:
        """Let a device without a thread of its own work; False if it has nothing to do."""

    @property
    def works_alone(self) -> bool:
        """Whether the device goes on by itself while a driver waits."""

    @property
    def is_gone(self) -> bool:
        """Whether the device executes nothing any more, whoever closed it."""

    def explain(self, context: int) -> UnderstudyError | None:
        """What the device says has errored a context, if it can."""

    def close(self) -> None:
        """The driver is gone: the device executes nothing any more. Any thread may call, also amid another call."""

    def stopped(self) -> UnderstudyError | None:
        """What the device says it executed when it was closed, if it can."""


class LocalPort:
    """An Acceldev and the machine around it, in this process. `settings` are those of the device."""

    def __init__(self, memory_bytes: int = MEMORY_BYTES, **settings: Any) -> None:
        self.memory_bytes = memory_bytes
        self.memory = PlainMemory((MEMORY_BASE, memory_bytes))
        self.device = AcceldevDevice(**settings)
        self.device.connect(self.memory)
        self._pages = Allocator(MEMORY_BASE, memory_bytes)

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(type(self), self.memory_bytes, settings=self.device.settings), ()

    @property
    def line(self) -> Line:
        """The device's interrupt."""
        return self.device.line

    @property
    def probes(self) -> Probes:
        """Where to subscribe to the device's events."""
        return self.device.probes

    def read(self, offset: int) -> int:
        """Read a 32-bit register of BAR0."""
        return self.device.read_bar(BAR0.index, offset, REGISTER_BYTES)

    def write(self, offset: int, value: int) -> None:
        """Write a 32-bit register of BAR0."""
        self.device.write_bar(BAR0.index, offset, REGISTER_BYTES, value)

    def allocate(self, size: int) -> int:
        """Address of zeroed pages, 0 where there are none."""
        rounded = -(-size // ACCELDEV_PAGE_SIZE) * ACCELDEV_PAGE_SIZE
        address = self._pages.allocate(rounded, ACCELDEV_PAGE_SIZE)
        if address:
            self.memory.view(address, rounded)[:] = bytes(rounded)
        return address

    def free(self, address: int) -> None:
        """Give pages back."""
        self._pages.free(address)

    def view(self, address: int, size: int) -> memoryview:
        """The memory itself."""
        return self.memory.view(address, size)

    def work(self) -> bool:
        """Step a synchronous device."""
        return not self.works_alone and self.device.step(1 << 20) > 0

    @property
    def works_alone(self) -> bool:
        """Whether the device is threaded."""
        return self.device.settings.threaded

    @property
    def is_gone(self) -> bool:
        """Whether the device is closed."""
        return self.device.is_closed

    def explain(self, context: int) -> UnderstudyError | None:
        """What errored a context last."""
        return self.device.error_of(context)

    def close(self) -> None:
        """Close the device."""
        self.device.close()

    def stopped(self) -> UnderstudyError | None:
        """Which RUN had not finished, and where it was."""
        error = self.device.last_error
        return error if isinstance(error, Stopped) else None
