"""Arrays in device memory, accessible by the host as NumPy arrays."""

from __future__ import annotations

from types import TracebackType
from typing import Generic, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from softcard.core.errors import RuleError, WireError
from softcard.host.refsi.driver import RefSiDriver

Scalar_co = TypeVar("Scalar_co", bound=np.generic, covariant=True)
Scalar = TypeVar("Scalar", bound=np.generic)


class Buffer(Generic[Scalar_co]):
    """An array in device memory. `array` is a NumPy view of that memory, shared by host and device.

    A launch passes a buffer by its `address`. The buffer lives until `free` is called, or until its ``with`` block
    ends.
    """

    def __init__(self, driver: RefSiDriver, shape: tuple[int, ...], dtype: np.dtype[Scalar_co]) -> None:
        self.shape = shape
        self.dtype = checked_dtype(dtype)
        self.nbytes = int(np.prod(shape, dtype=object)) * self.dtype.itemsize
        self._driver = driver
        self._address: int | None = driver.allocate(self.nbytes)
        driver.port.call_memory(self._address, self._description)

    @property
    def address(self) -> int:
        """The device address of the first byte. Reading it after `free` raises `RuleError`."""
        if self._address is None:
            raise RuleError("the buffer was freed: allocate a new one")
        return self._address

    @property
    def array(self) -> NDArray[Scalar_co]:
        """The device memory as a writable NumPy array; a change of it is seen by the device."""
        view = self._driver.map(self.address, self.nbytes)
        if view is None:
            raise RuleError(f"device memory at {self.address:#x} cannot be mapped, since it is not RAM")
        return np.frombuffer(view, dtype=self.dtype).reshape(self.shape)

    def free(self) -> None:
        """Free the buffer's memory; further calls have no effect."""
        if self._address is not None:
            self._driver.free(self._address)
            self._address = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.free()

    @property
    def _description(self) -> str:
        return f"array {self.dtype}{list(self.shape)}"

    def be_argument(self, number: int) -> None:
        """Set the name by which findings refer to the buffer: argument number `number`, counted from 0."""
        self._driver.port.call_memory(self.address, f"argument {number}, {self._description}")

    def __repr__(self) -> str:
        place = "freed" if self._address is None else f"{self._address:#x}"
        return f"<Buffer {self.dtype}{list(self.shape)} at {place}>"


def checked_dtype(dtype: np.dtype[Scalar]) -> np.dtype[Scalar]:
    """Return `dtype` if host and device can share its arrays; raise an error otherwise.

    It must be little-endian, of fixed size, and without Python objects.
    """
    if dtype.hasobject or dtype.itemsize == 0 or dtype != dtype.newbyteorder("<"):
        raise WireError(
            f"an array of {dtype} cannot be in device memory, expected little-endian elements of fixed size"
        )
    return dtype
