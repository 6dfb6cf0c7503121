"""Memory that the program allocated itself: foreign until a wave touches it, then shared.

A copy engine moves foreign memory from process to process. Waves need it as memory of this process: its pages then
become pages of the shared file, at the same address of the program.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from understudy.core.errors import AccessFault
from understudy.core.space import Unit
from understudy.device.kfd.client import READ, Client, Mapping
from understudy.device.kfd.errors import Refused, bad_address
from understudy.device.kfd.shared_memory import SharedMemory

MOST_BYTES: Final = 1 << 47
"""End of a program's addresses."""


@dataclass(frozen=True, slots=True, eq=False)
class Piece:
    """Part of an allocation, `start` bytes behind its begin: bytes of the shared memory, or foreign ones."""

    start: int
    size: int
    what: npt.NDArray[np.uint8] | Foreign


class Foreign:
    """A region: memory that only the program has. An access of a wave calls `touched`, until that says True.

    It may make the memory shared; what remains foreign is reached through the kernel.
    """

    def __init__(self, client: Client, address: int, size: int) -> None:
        self.client = client
        self.address = address
        self.size = size
        self.touched: Callable[[], bool] | None = None
        self._lock = threading.Lock()

    def host_address(self, offset: int, unit: Unit) -> int | None:
        """Nowhere in this process."""
        return None

    def read(self, offset: int, size: int, unit: Unit) -> bytes:
        """`size` bytes, for a wave."""
        self._touch()
        try:
            return self.client.read(self.address + offset, size)
        except Refused as error:
            raise AccessFault(error.message, address=offset, access="read") from None

    def write(self, offset: int, data: bytes, unit: Unit) -> None:
        """Store `data`, for a wave."""
        self._touch()
        try:
            self.client.write(self.address + offset, data)
        except Refused as error:
            raise AccessFault(error.message, address=offset, access="write") from None

    def _touch(self) -> None:
        with self._lock:
            if self.touched is not None and self.touched():
                self.touched = None


class UserMemory:
    """Memory of one program, and the pages of it that are shared."""

    def __init__(self, client: Client, shared: SharedMemory) -> None:
        self._client = client
        self._shared = shared
        self._taken: dict[int, int] = {}
        """Size of what was shared, by offset: it is the program's memory until that unmaps it."""

    def pieces(self, address: int, size: int, *, is_own: bool, is_quiet: bool = True) -> list[Piece]:
        """What lies at an address of the program: pages that are shared already, and others.

        Where it `is_own`, those become shared, if they can; else they are `Foreign`. `Refused` with EFAULT where the
        program has nothing mapped, or doorbells: Linux pins no pages of a device (get_user_pages).
        """
        if address < 0 or address + size > MOST_BYTES:
            raise bad_address(f"{size:#x} bytes at {address:#x}: no addresses of a program")
        pieces, at = [], address
        for each in self._client.mappings(address, address + size):
            if each.start != at or not each.protection & READ:
                break
            pieces.append(self._piece(each, address, is_own=is_own, is_quiet=is_quiet))
            at = each.end
        if at != address + size:
            raise bad_address(f"{size:#x} bytes at {address:#x}: the program has mapped nothing to read at {at:#x}")
        return pieces

    def _piece(self, each: Mapping, base: int, *, is_own: bool, is_quiet: bool) -> Piece:
        start, size = each.start - base, each.end - each.start
        if each.offset >= 0:
            if not self._shared.holds(each.offset, size):
                raise bad_address(f"{size:#x} bytes at {each.start:#x}: doorbells, no memory of the program")
            return Piece(start, size, self._shared.bytes(each.offset, size))
        if is_own and each.is_private:
            offset = self._shared.allocate(size)
            if self._client.share(each.start, size, offset, each.protection, is_quiet=is_quiet):
                self._taken[offset] = size
                return Piece(start, size, self._shared.bytes(offset, size))
            self._shared.free(offset, size)
        return Piece(start, size, Foreign(self._client, each.start, size))

    def tidy(self) -> None:
        """Give back what was shared and is mapped by the program no more."""
        if not self._taken:
            return
        used = [(each.offset, each.offset + each.end - each.start) for each in self._client.mappings(0, MOST_BYTES)]
        for offset, size in tuple(self._taken.items()):
            if not any(low < offset + size and offset < high for low, high in used):
                del self._taken[offset]
                self._shared.free(offset, size)
