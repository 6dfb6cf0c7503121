"""Device memory that NumPy sees too."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import DTypeLike, NDArray

from understudy.core.errors import RuleError, WireError
from understudy.host.refsi.driver import RefSiDriver


class Buffer:
    """An array in device memory. `array` is that memory itself: what either side writes, the other one sees.

    A buffer given to a launch is passed by its `address`. It stays until `free`, or the end of its ``with`` block.
    """

    def __init__(self, driver: RefSiDriver, shape: tuple[int, ...], dtype: DTypeLike) -> None:
        self.shape = shape
        self.dtype = checked_dtype(np.dtype(dtype))
        self.nbytes = int(np.prod(shape, dtype=object)) * self.dtype.itemsize
        self._driver = driver
        self._address: int | None = driver.allocate(self.nbytes)
        driver.port.call_memory(self._address, self._shown)

    @property
    def address(self) -> int:
        """Device address of the first byte; `RuleError` after `free`."""
        if self._address is None:
            raise RuleError("the buffer was freed, expected one that is in use")
        return self._address

    @property
    def array(self) -> NDArray[Any]:
        """The device memory as a writable array, without a copy."""
        view = self._driver.map(self.address, self.nbytes)
        if view is None:
            raise RuleError(f"device memory at {self.address:#x} cannot be mapped, expected plain memory")
        return np.frombuffer(view, dtype=self.dtype).reshape(self.shape)

    def free(self) -> None:
        """Give the memory back; once is enough."""
        if self._address is not None:
            self._driver.free(self._address)
            self._address = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.free()

    @property
    def _shown(self) -> str:
        return f"array {self.dtype}{list(self.shape)}"

    def be_argument(self, number: int) -> None:
        """Have findings of checks call it by an argument's number, from 0."""
        self._driver.port.call_memory(self.address, f"argument {number}, {self._shown}")

    def __repr__(self) -> str:
        place = "freed" if self._address is None else f"{self._address:#x}"
        return f"<Buffer {self.dtype}{list(self.shape)} at {place}>"


def checked_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """`dtype` if a device can share it: little-endian, of fixed size, without Python objects."""
    if dtype.hasobject or dtype.itemsize == 0 or dtype != dtype.newbyteorder("<"):
        raise WireError(
            f"an array of {dtype} cannot be in device memory, expected little-endian elements of fixed size"
        )
    return dtype
