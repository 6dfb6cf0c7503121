"""Buffers: pages that the device reaches by a page table, and that Python sees as one piece."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from types import TracebackType
from typing import Any, Final, Self

import numpy as np
from numpy.typing import DTypeLike, NDArray

from understudy.core.errors import UnderstudyError
from understudy.core.rule import Rule
from understudy.core.words import align_up
from understudy.device.acceldev.commands import BUFFER_BYTES, page_table
from understudy.device.acceldev.registers import ACCELDEV_PAGE_SIZE
from understudy.host.acceldev.port import AcceldevPort

CODE: Final = "code"
DATA: Final = "data"


class DriverError(UnderstudyError):
    """A call of the driver failed; `errno` is the number that the original's system call would give."""

    def __init__(self, number: int, message: str, *, rule: Rule | None = None) -> None:
        name = "EDEADLK" if number == errno.EDEADLK else errno.errorcode[number]  # where Python says EDEADLOCK
        super().__init__(f"{name} ({os.strerror(number)}): {message}", rule=rule)
        self.errno = number


Closer = Callable[["Buffer", Callable[[], None]], None]


class Buffer:
    """A code or data buffer of `size` bytes. `slot` is a data buffer's slot, `table` its page table's address."""

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
        """The bytes, writable and shared with the device; not to be used after `close`."""
        if self._is_closed:
            raise DriverError(errno.EBADF, "the buffer is closed")
        return self._port.view(self._pages, self.size)

    def array(self, dtype: DTypeLike = np.uint8) -> NDArray[Any]:
        """The bytes as an array without a copy, as many whole elements as there are."""
        kind = np.dtype(dtype)
        return np.frombuffer(self.view, dtype=kind, count=self.size // kind.itemsize)

    def write(self, data: bytes, offset: int = 0) -> None:
        """Store `data` at `offset`; `DriverError` EINVAL where it does not fit."""
        if not 0 <= offset <= self.size - len(data):
            raise DriverError(errno.EINVAL, f"{len(data)} bytes at {offset:#x} of a buffer of {self.size} bytes")
        self.view[offset : offset + len(data)] = data

    def close(self) -> None:
        """Unbind the buffer and give its pages back once the device has let go of them; once is enough."""
        if not self._is_closed:
            self._is_closed = True
            self._closer(self, self._release)

    def _release(self) -> None:
        self._port.free(self._pages)
        self._port.free(self.table)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


def make_buffer(port: AcceldevPort, size: int, kind: str, slot: int | None, closer: Closer) -> Buffer:
    """Allocate pages and build their page table; `DriverError` EINVAL or ENOMEM."""
    if kind not in (CODE, DATA):
        raise DriverError(errno.EINVAL, f"buffer of kind {kind!r}, expected {CODE!r} or {DATA!r}")
    if not 1 <= size <= BUFFER_BYTES:
        raise DriverError(errno.EINVAL, f"buffer of {size} bytes, expected 1 to {BUFFER_BYTES}")
    pages = port.allocate(size)
    table = port.allocate(ACCELDEV_PAGE_SIZE) if pages else 0
    if not table:
        port.free(pages)
        raise DriverError(errno.ENOMEM, f"no memory for a buffer of {size} bytes")
    end = pages + align_up(size, ACCELDEV_PAGE_SIZE)
    port.view(table, ACCELDEV_PAGE_SIZE)[:] = page_table(range(pages, end, ACCELDEV_PAGE_SIZE))
    return Buffer(port, size, slot, table, pages, closer)
