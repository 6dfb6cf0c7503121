"""What the Fletcher run-time library needs: the functions of a platform plug-in, and such a platform in this process.

Registers are counted, not addressed: the 32-bit register at byte address 4 * index from the map's start.
"""

from __future__ import annotations

from typing import Any, Final, Protocol

from understudy.core.errors import AccessFault, UnderstudyError
from understudy.core.words import U32
from understudy.device.fletcher.bus import Response
from understudy.device.fletcher.device import FletcherDevice
from understudy.device.fletcher.machine import State
from understudy.device.fletcher.map.layout import FletcherMap

OK: Final = 0
ERROR: Final = 1
NO_PLATFORM: Final = 2
DEVICE_OUT_OF_MEMORY: Final = 3

_HALF_BYTES: Final = 4
_HALF_LANES: Final = 0xF


class StatusError(UnderstudyError):
    """A call of the run-time library whose status is not OK; `status` is its number (1 error, 3 out of memory)."""

    def __init__(self, message: str, status: int = ERROR) -> None:
        super().__init__(message)
        self.status = status


class FletcherPort(Protocol):
    """The functions of a platform plug-in. What fails is an `UnderstudyError`; addresses are those of the device."""

    @property
    def name(self) -> str:
        """The platform's name."""

    @property
    def map(self) -> FletcherMap | None:
        """The register map of the design behind it, where that is known."""

    @property
    def strict(self) -> bool:
        """Whether a host that would use the map wrongly is to be told before it does."""

    def init(self) -> None:
        """Called once, before all others."""

    def terminate(self) -> None:
        """Called once, after all others."""

    def write_mmio(self, index: int, value: int) -> None:
        """Write the 32-bit register number `index`."""

    def read_mmio(self, index: int) -> int:
        """Read it."""

    def device_malloc(self, size: int) -> int:
        """Address of `size` bytes of device memory."""

    def device_free(self, address: int) -> None:
        """Give them back."""

    def copy_host_to_device(self, data: Any, address: int) -> None:
        """Copy a buffer to device memory."""

    def copy_device_to_host(self, address: int, size: int) -> bytes:
        """Copy from device memory."""

    def prepare_host_buffer(self, data: Any | None, size: int) -> tuple[int, bool]:
        """Make a host buffer reachable with the least effort: its address, and whether it is to be freed."""

    def cache_host_buffer(self, data: Any | None, size: int) -> int:
        """Copy a host buffer to the accelerator's own memory; its address, to be freed."""

    def stuck(self) -> UnderstudyError | None:
        """Why the kernel never finishes, if the platform knows that it does not."""

    def wait(self, timeout_seconds: float | None) -> None:
        """Where the kernel works by itself, wait until it has finished; return at once elsewhere."""


class LocalPort:
    """A Fletcher device in this process as a platform."""

    def __init__(self, device: FletcherDevice, name: str = "understudy") -> None:
        self.device = device
        self.name = name

    @property
    def map(self) -> FletcherMap:
        """The device's register map."""
        return self.device.map

    @property
    def strict(self) -> bool:
        """Whether the device has profile "spec"."""
        return self.device.settings.strict

    def init(self) -> None:
        """Nothing is to be done."""

    def terminate(self) -> None:
        """The device's thread ends."""
        self.device.close()

    def write_mmio(self, index: int, value: int) -> None:
        """Write a register; on a bus of 64 bits, half of a word."""
        address, shift, lanes = self._place(index)
        try:
            self.device.write(address, (value & U32) << shift, lanes)
        except UnderstudyError as error:
            error.at("MMIO register", index)
            raise

    def read_mmio(self, index: int) -> int:
        """Read a register, likewise; `StatusError` where the bus answers SLVERR."""
        address, shift, _ = self._place(index)
        try:
            value, response = self.device.read(address)
        except UnderstudyError as error:
            error.at("MMIO register", index)
            raise
        if response is not Response.OKAY:
            raise StatusError(f"the bus answers {response.name} (and {value:#x})").at("MMIO register", index)
        return value >> shift & U32

    def device_malloc(self, size: int) -> int:
        """Allocate; `StatusError` 3 where device memory is used up."""
        try:
            return self.device.memory.allocate(size)
        except AccessFault as error:
            raise StatusError(error.message, DEVICE_OUT_OF_MEMORY) from None

    def device_free(self, address: int) -> None:
        """Free."""
        self.device.memory.free(address)

    def copy_host_to_device(self, data: Any, address: int) -> None:
        """Copy in."""
        self.device.memory.write(address, data)

    def copy_device_to_host(self, address: int, size: int) -> bytes:
        """Copy out."""
        return self.device.memory.read(address, size)

    def prepare_host_buffer(self, data: Any | None, size: int) -> tuple[int, bool]:
        """Share the buffer (choice fletcher/host-buffer); the address is to be freed nevertheless."""
        if data is None:
            return self.device_malloc(size), True
        try:
            return self.device.memory.adopt(memoryview(data).cast("B")[:size]), True
        except AccessFault as error:
            raise StatusError(error.message, DEVICE_OUT_OF_MEMORY) from None

    def cache_host_buffer(self, data: Any | None, size: int) -> int:
        """Allocate and copy."""
        address = self.device_malloc(size)
        if data is not None:
            self.device.memory.write(address, memoryview(data).cast("B")[:size])
        return address

    def stuck(self) -> UnderstudyError | None:
        """Why the kernel never finishes: what went wrong in it, or that nothing has started it."""
        if self.device.is_stuck:
            return self.device.last_error
        if self.device.state is State.IDLE:
            return StatusError("the kernel is idle, expected a start before waiting for its end")
        return None

    def wait(self, timeout_seconds: float | None) -> None:
        """Wait for a threaded device."""
        self.device.wait_idle(timeout_seconds)

    def _place(self, index: int) -> tuple[int, int, int]:
        """Byte address, shift of the value and byte strobes of a register."""
        address = self.device.map.offset + _HALF_BYTES * index
        half = address % (self.device.map.bus_width // 8)
        return address - half, 8 * half, _HALF_LANES << half
