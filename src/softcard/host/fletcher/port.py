"""The functions of a Fletcher platform plug-in, and a platform in this process that implements them.

Fletcher's run-time library uses these functions only. They number registers: register `index` is the 32-bit word at
byte 4 * `index` of the register map.
"""

from __future__ import annotations

from typing import Final, Protocol

from softcard.core.errors import AccessFault, RuleError, SoftcardError
from softcard.core.space import HostBytes, bytes_of_buffer
from softcard.core.words import U32
from softcard.device.fletcher.bus import Response
from softcard.device.fletcher.device import FletcherDevice
from softcard.device.fletcher.machine import State
from softcard.device.fletcher.map.layout import FletcherMap

OK: Final = 0
ERROR: Final = 1
NO_PLATFORM: Final = 2
DEVICE_OUT_OF_MEMORY: Final = 3

_HALF_BYTES: Final = 4
_HALF_LANES: Final = 0xF


class StatusError(SoftcardError):
    """A failed call of the run-time library; `status` is the library's status number (1 error, 3 out of memory)."""

    def __init__(self, message: str, status: int = ERROR) -> None:
        super().__init__(message)
        self.status = status


class FletcherPort(Protocol):
    """The functions of a platform plug-in. Failures raise a `SoftcardError`; addresses are the device's."""

    @property
    def name(self) -> str:
        """The platform's name."""

    @property
    def map(self) -> FletcherMap | None:
        """The register map of the design, or None if it is unknown."""

    @property
    def strict(self) -> bool:
        """True if wrong use of the register map must be reported before the access."""

    def init(self) -> None:
        """Initialize the platform; called once, before all other calls."""

    def terminate(self) -> None:
        """Shut the platform down; called once, after all other calls."""

    def write_mmio(self, index: int, value: int) -> None:
        """Write the 32-bit register number `index`."""

    def read_mmio(self, index: int) -> int:
        """Read the 32-bit register number `index`."""

    def device_malloc(self, size: int) -> int:
        """Allocate `size` bytes of device memory, and return their address."""

    def device_free(self, address: int) -> None:
        """Free device memory."""

    def copy_host_to_device(self, data: HostBytes, address: int) -> None:
        """Copy a host buffer to device memory at `address`."""

    def copy_device_to_host(self, address: int, size: int) -> bytes:
        """Copy `size` bytes from device memory at `address`, and return them."""

    def prepare_host_buffer(self, data: HostBytes | None, size: int) -> tuple[int, bool]:
        """Make `size` bytes of a host buffer accessible to the device, by sharing or copying, whichever is cheaper.

        Return their device address, and True if the caller must free it."""

    def cache_host_buffer(self, data: HostBytes | None, size: int) -> int:
        """Copy `size` bytes of a host buffer to the accelerator's own memory; return their device address.

        The caller must free the address."""

    def stuck(self) -> SoftcardError | None:
        """Return an error that explains why the kernel will never finish.

        Return None if it may finish, or if the platform cannot tell."""

    def wait(self, timeout_seconds: float | None) -> None:
        """Wait until the kernel of a threaded device has finished; for other devices, return immediately.

        `timeout_seconds` limits the wait; None is no limit."""

    def abandon(self, cause: BaseException) -> None:
        """End the kernel, if the platform can, because the host has given up waiting for it.

        `cause` is the reason, for instance the exception of Ctrl-C.
        """


class LocalPort:
    """The platform of a Fletcher device in this process."""

    def __init__(self, device: FletcherDevice, name: str = "softcard") -> None:
        self.device = device
        self.name = name

    @property
    def map(self) -> FletcherMap:
        """The device's register map."""
        return self.device.map

    @property
    def strict(self) -> bool:
        """True if the device has the profile "spec", which requires wrong use to be reported."""
        return self.device.settings.strict

    def init(self) -> None:
        """Do nothing: a device in this process needs no initialization."""
        self._check_open()

    def terminate(self) -> None:
        """End the device's thread."""
        self.device.close()

    def write_mmio(self, index: int, value: int) -> None:
        """Write a register; on a device with a 64-bit bus, write half of a bus word."""
        self._check_open()
        address, shift, lanes = self._place(index)
        try:
            self.device.write(address, (value & U32) << shift, lanes)
        except SoftcardError as error:
            error.at("MMIO register", index)
            raise

    def read_mmio(self, index: int) -> int:
        """Read a register, which is half of a bus word on a device with a 64-bit bus.

        Raise `StatusError` if the bus answers SLVERR.
        """
        self._check_open()
        address, shift, _ = self._place(index)
        try:
            value, response = self.device.read(address)
        except SoftcardError as error:
            error.at("MMIO register", index)
            raise
        if response is not Response.OKAY:
            raise StatusError(f"the bus responds with {response.name} (and the value {value:#x})").at(
                "MMIO register", index
            )
        return value >> shift & U32

    def device_malloc(self, size: int) -> int:
        """Allocate device memory; raise `StatusError` 3 if it is used up."""
        self._check_open()
        try:
            return self.device.memory.allocate(size)
        except AccessFault as error:
            raise StatusError(error.message, DEVICE_OUT_OF_MEMORY) from None

    def device_free(self, address: int) -> None:
        """Free device memory."""
        self.device.memory.free(address)

    def copy_host_to_device(self, data: HostBytes, address: int) -> None:
        """Copy bytes to device memory."""
        self._check_open()
        self.device.memory.write(address, data)

    def copy_device_to_host(self, address: int, size: int) -> bytes:
        """Copy `size` bytes from device memory at `address`, and return them."""
        self._check_open()
        return self.device.memory.read(address, size)

    def prepare_host_buffer(self, data: HostBytes | None, size: int) -> tuple[int, bool]:
        """Share `size` bytes of a host buffer with the device without a copy (choice fletcher/host-buffer).

        Return their device address, and True: the caller must free it."""
        self._check_open()
        if data is None:
            return self.device_malloc(size), True
        try:
            return self.device.memory.adopt(bytes_of_buffer(data)[:size]), True
        except AccessFault as error:
            raise StatusError(error.message, DEVICE_OUT_OF_MEMORY) from None

    def cache_host_buffer(self, data: HostBytes | None, size: int) -> int:
        """Copy `size` bytes of a host buffer to newly allocated device memory; return their device address."""
        self._check_open()
        address = self.device_malloc(size)
        if data is not None:
            self.device.memory.write(address, bytes_of_buffer(data)[:size])
        return address

    def stuck(self) -> SoftcardError | None:
        """Return the error because of which the kernel will never finish; None if it may finish.

        It is the device's last error, or an error that says that the kernel was not started."""
        if self.device.is_stuck:
            return self.device.last_error
        if self.device.state is State.IDLE:
            return StatusError("the kernel is idle: start it before waiting for its end")
        return None

    def wait(self, timeout_seconds: float | None) -> None:
        """Wait until a threaded device has finished its kernel."""
        self.device.wait_idle(timeout_seconds)

    def abandon(self, cause: BaseException) -> None:
        """End the kernel that the host gave up waiting for."""
        self.device.abandon(cause)

    def _check_open(self) -> None:
        if self.device.is_closed:
            raise RuleError("the platform was closed: open a new one")

    def _place(self, index: int) -> tuple[int, int, int]:
        """Return the bus access for register number `index`: byte address, left shift of the value, byte strobes.

        The shift is in bits."""
        address = self.device.map.offset + _HALF_BYTES * index
        half = address % (self.device.map.bus_width // 8)
        return address - half, 8 * half, _HALF_LANES << half
