"""Memory that the program itself allocated: foreign until a wave accesses it, then shared.

A copy engine copies foreign memory between processes. For waves, the memory has to be mapped in this process,
too. So at a wave's first access, its pages are replaced by pages of the shared file, at the same address of
the program."""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from softcard.core.errors import AccessFault, NoHostMemory
from softcard.core.space import Unit
from softcard.device.kfd.client import READ, Client, Mapping
from softcard.device.kfd.ioctls import Refused, bad_address
from softcard.device.kfd.shared_memory import SharedMemory

MOST_BYTES: Final = 1 << 47
"""The end of a program's addresses."""
FEW_PIECES: Final = 64
FEW_BYTES: Final = 64 << 20
"""The bytes that may become shared before `UserMemory` searches for memory that the program has unmapped.

`FEW_PIECES` limits the number of ranges likewise.
"""


@dataclass(frozen=True, slots=True, eq=False)
class Piece:
    """A range of an allocation. It begins `start` bytes after the start of the allocation.

    `what` is the memory of the range: an array of shared memory, or a `Foreign` region of the program."""

    start: int
    size: int
    what: npt.NDArray[np.uint8] | Foreign


class Foreign:
    """A region of memory that is mapped only in the program, not in this process.

    Each access of a wave first calls `touched`, until `touched` has returned True once. `touched` may make the
    memory shared. Accesses to memory that remains foreign use system calls. Stores fault unless it is `writable`."""

    def __init__(self, client: Client, address: int, size: int) -> None:
        self.client = client
        self.address = address
        self.size = size
        self.touched: Callable[[], bool] | None = None
        self.writable = True
        self._lock = threading.Lock()

    def host_address(self, offset: int, unit: Unit) -> int | None:
        """Return None, because the memory is not mapped in this process."""
        return None

    def read(self, offset: int, size: int, unit: Unit) -> bytes:
        """Read `size` bytes for a wave."""
        self._touch()
        try:
            return self.client.read(self.address + offset, size)
        except Refused as error:
            raise AccessFault(error.message, address=offset, access="read") from None

    def write(self, offset: int, data: bytes, unit: Unit) -> None:
        """Store `data` for a wave."""
        if not self.writable:
            text = f"write of {len(data)} bytes at offset {offset:#x} of memory that the GPU may only read"
            raise AccessFault(text, address=offset, access="write")
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
    """The memory of one program, and those of its pages that are shared with the driver."""

    def __init__(self, client: Client, shared: SharedMemory) -> None:
        self._client = client
        self._shared = shared
        self._taken: dict[int, int] = {}
        """The sizes of those shared ranges that replace memory of the program, by offset in the shared file.

        A range is in use until the program unmaps it.
        """
        self._new_pieces = self._new_bytes = 0
        """The number of ranges shared since `tidy` last compared them with the program's mappings.

        `_new_bytes` is the number of their bytes.
        """
        self._most_new_pieces, self._most_new_bytes = FEW_PIECES, FEW_BYTES

    def pieces(self, address: int, size: int, *, is_own: bool, is_quiet: bool = True) -> list[Piece]:
        """Return the ranges of the program's memory from `address` on, both shared and not shared.

        With `is_own`, private memory that is not shared yet becomes shared, if possible. Other memory is returned as
        `Foreign`. `is_quiet` states that no other thread of the program writes to the memory during the call. Raise
        `Refused` with EFAULT for unmapped addresses, or doorbells: Linux does not pin pages of a device
        (get_user_pages)."""
        if address < 0 or address + size > MOST_BYTES:
            raise bad_address(f"{size:#x} bytes at {address:#x} are outside of the address range of programs")
        pieces, at = [], address
        for each in self._client.mappings(address, address + size):
            if each.start != at or not each.protection & READ:
                break
            pieces.append(self._piece(each, address, is_own=is_own, is_quiet=is_quiet))
            at = each.end
        if at != address + size:
            raise bad_address(
                f"cannot read {size:#x} bytes at {address:#x}: the program has no readable mapping at {at:#x}"
            )
        return pieces

    def _piece(self, each: Mapping, base: int, *, is_own: bool, is_quiet: bool) -> Piece:
        start, size = each.start - base, each.end - each.start
        if self._is_shared(each):
            if not self._shared.holds(each.offset, size):
                raise bad_address(f"cannot use {size:#x} bytes at {each.start:#x} as memory: they are doorbells")
            return Piece(start, size, self._shared.bytes(each.offset, size))
        if is_own and each.is_private:
            offset = self._allocate(size)
            if self._client.share(each.start, size, offset, each.protection, is_quiet=is_quiet):
                self._taken[offset] = size
                self._new_pieces += 1
                self._new_bytes += size
                return Piece(start, size, self._shared.bytes(offset, size))
            self._shared.free(offset, size)
        return Piece(start, size, Foreign(self._client, each.start, size))

    def _is_shared(self, each: Mapping) -> bool:
        """Return True if `each` maps this program's shared memory.

        A mapping that the program has inherited by fork maps its parent's shared memory instead."""
        return each.offset >= 0 and each.inode == self._shared.inode

    def _allocate(self, size: int) -> int:
        """Return the offset in the shared file of `size` new bytes.

        If the file has no free range of this size, first free shared memory that the program has unmapped."""
        try:
            return self._shared.allocate(size)
        except NoHostMemory:
            self._give_back()
            return self._shared.allocate(size)

    def tidy(self) -> None:
        """Free shared memory that the program has unmapped, if enough memory was shared since it was last freed.

        To find unmapped memory, all mappings of the program are read. Therefore the amount that must be shared before
        the next time grows with the number of mappings."""
        if self._new_pieces >= self._most_new_pieces or self._new_bytes >= self._most_new_bytes:
            self._give_back()

    def _give_back(self) -> None:
        mappings = self._client.mappings(0, MOST_BYTES)
        used = sorted((each.offset, each.offset + each.end - each.start) for each in mappings if self._is_shared(each))
        starts, ends, last = [low for low, _ in used], [], 0
        for _, high in used:
            last = max(last, high)
            ends.append(last)
        for offset, size in tuple(self._taken.items()):
            before = bisect_right(starts, offset + size - 1)
            if not before or ends[before - 1] <= offset:
                del self._taken[offset]
                self._shared.free(offset, size)
        self._new_pieces = self._new_bytes = 0
        self._most_new_pieces = max(len(mappings), FEW_PIECES)
        self._most_new_bytes = max(sum(self._taken.values()), FEW_BYTES)
