"""A device as the server shows it: a local platform whose kernel works while its host is silent."""

from __future__ import annotations

from typing import Any

from understudy.core.errors import AccessFault, UnderstudyError
from understudy.device.fletcher.device import FletcherDevice
from understudy.device.fletcher.machine import State
from understudy.host.fletcher.port import DEVICE_OUT_OF_MEMORY, LocalPort, StatusError


class DevicePlatform(LocalPort):
    """`device` behind a platform library.

    What goes wrong while the kernel works between two calls is raised by the next register access. Each host program
    finds the device as after power-on; with `keep`, as the one before it has left it.
    """

    def __init__(self, device: FletcherDevice, *, keep: bool = False) -> None:
        super().__init__(device)
        self._keep = keep
        self._is_synchronous = not device.settings.threaded
        self._owed: UnderstudyError | None = None

    def init(self) -> None:
        """A host program initialises its platform."""
        self._owed = None
        if not self._keep:
            self.device.reset()

    def terminate(self) -> None:
        """A host program has gone: the device stays for the next one."""

    def write_mmio(self, index: int, value: int) -> None:
        """Write the 32-bit register `index`."""
        if self._owed is not None:
            self._raise_owed()
        super().write_mmio(index, value)

    def read_mmio(self, index: int) -> int:
        """Read it."""
        if self._owed is not None:
            self._raise_owed()
        return super().read_mmio(index)

    def adopt(self, data: Any) -> int:
        """Device address of memory that nobody else will write to."""
        return self.prepare_host_buffer(data, len(data))[0]

    def check_range(self, address: int, size: int, access: str) -> None:
        """`AccessFault` unless one allocation holds all these bytes."""
        extent = self.device.memory.extent(address)
        if extent is None or size > extent:
            held = "nothing is allocated there" if extent is None else f"{extent} are allocated there"
            raise AccessFault(f"{access} of {size} bytes at {address:#x}: {held}", address=address, access=access)

    def check_room(self, size: int) -> None:
        """`StatusError` unless device memory has room for another `size` bytes."""
        try:
            self.device.memory.check_room(size)
        except AccessFault as error:
            raise StatusError(error.message, DEVICE_OUT_OF_MEMORY) from None

    @property
    def is_working(self) -> bool:
        """Whether the kernel has work to do that nothing but `advance` gets done."""
        return self._is_synchronous and self.device.state is State.BUSY and not self.device.is_stuck

    def advance(self) -> None:
        """Let the kernel do a slice of its work."""
        try:
            self.device.step()
        except UnderstudyError as error:
            self._owed = error

    def _raise_owed(self) -> None:
        error, self._owed = self._owed, None
        if error is not None:
            raise error
