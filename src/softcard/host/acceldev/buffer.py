"""Buffers: memory pages that the device accesses through a page table and Python sees as contiguous bytes."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from types import TracebackType
from typing import Final, Self, TypeVar, overload

import numpy as np
from numpy.typing import DTypeLike, NDArray

from softcard.core.errors import SoftcardError
from softcard.core.rule import Rule
from softcard.core.words import align_up
from softcard.device.acceldev.commands import BUFFER_BYTES, page_table
from softcard.device.acceldev.registers import ACCELDEV_PAGE_SIZE
from softcard.host.acceldev.port import AcceldevPort

CODE: Final = "code"
DATA: Final = "data"


class DriverError(SoftcardError):
    """A failed call of the driver; `errno` is the error number that the C driver's system call would return."""

    def __init__(self, number: int, message: str, *, rule: Rule | None = None) -> None:
        name = "EDEADLK" if number == errno.EDEADLK else errno.errorcode[number]  # errorcode names it EDEADLOCK
        super().__init__(f"{name} ({os.strerror(number)}): {message}", rule=rule)
        self.errno = number


Closer = Callable[["Buffer", Callable[[], None]], None]


Scalar = TypeVar("Scalar", bound=np.generic)


class Buffer:
    """A code or data buffer of `size` bytes.

    `slot` is the slot of a data buffer, None for a code buffer. `table` is the address of its page table.
    """

    def __init__(self, port: AcceldevPort, size: int, slot: int | None, table: int, pages: int, closer: Closer) -> None:
        self.size = size
        self.slot = slot
        self.table, self._pages = table, pages
        self._port = port
        self._closer = closer
        self._is_closed = False

    def __repr__(self) -> str:
        kind = "code" if self.slot is None else f"slot {self.slot}"
        return f"<buffer of {self.size:,} bytes, {'closed' if self._is_closed else kind}>"

    @property
    def view(self) -> memoryview:
        """The bytes of the buffer, writable and shared with the device; invalid after `close`."""
        self._check_open()
        return self._port.view(self._pages, self.size)

    @overload
    def array(self) -> NDArray[np.uint8]: ...

    @overload
    def array(self, dtype: type[Scalar] | np.dtype[Scalar]) -> NDArray[Scalar]: ...

    @overload
    def array(self, dtype: DTypeLike) -> NDArray[np.generic]: ...

    def array(self, dtype: DTypeLike = np.uint8) -> NDArray[np.generic]:
        """Return the buffer's bytes as an array that shares its memory, with as many whole elements as fit."""
        kind = np.dtype(dtype)
        return np.frombuffer(self.view, dtype=kind, count=self.size // kind.itemsize)

    def write(self, data: bytes, offset: int = 0) -> None:
        """Store `data` at `offset`; raise `DriverError` EINVAL if it does not fit."""
        if not 0 <= offset <= self.size - len(data):
            raise DriverError(
                errno.EINVAL, f"{len(data)} bytes at {offset:#x} do not fit the buffer of {self.size} bytes"
            )
        self.view[offset : offset + len(data)] = data

    def close(self) -> None:
        """Unbind the buffer, and free its pages when the device has finished with them.

        Further calls have no effect.
        """
        if not self._is_closed:
            self._is_closed = True
            self._closer(self, self._release)

    def _release(self) -> None:
        self._port.free(self._pages)
        self._port.free(self.table)

    def _check_open(self) -> None:
        if self._is_closed:
            raise DriverError(errno.EBADF, "the buffer is closed")

    def __enter__(self) -> Self:
        self._check_open()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


def make_buffer(port: AcceldevPort, size: int, kind: str, slot: int | None, closer: Closer) -> Buffer:
    """Return a zeroed buffer of `size` bytes: allocate its pages, and write its page table.

    `closer` is the function that the buffer's `close` calls with the buffer and a function that frees its
    memory. Raise `DriverError` EINVAL for a wrong size or kind, and ENOMEM if there is not enough free memory."""
    if kind not in (CODE, DATA):
        raise DriverError(errno.EINVAL, f"the kind of buffer is {kind!r}, expected {CODE!r} or {DATA!r}")
    if not 1 <= size <= BUFFER_BYTES:
        raise DriverError(errno.EINVAL, f"the size of the buffer is {size} bytes, expected 1 to {BUFFER_BYTES}")
    pages = port.allocate(size)
    table = port.allocate(ACCELDEV_PAGE_SIZE) if pages else 0
    if not table:
        port.free(pages)
        raise DriverError(errno.ENOMEM, f"cannot allocate memory for a buffer of {size} bytes")
    end = pages + align_up(size, ACCELDEV_PAGE_SIZE)
    port.view(table, ACCELDEV_PAGE_SIZE)[:] = page_table(range(pages, end, ACCELDEV_PAGE_SIZE))
    return Buffer(port, size, slot, table, pages, closer)
