"""The memory of one program: its segments, a heap after the last segment, and a stack.

One word may be a mailbox, whose stores are reported to the host.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Final

from softcard.core.errors import AccessFault, WireError
from softcard.core.space import PAGE_SIZE, AddressSpace, Ram, Region, Unit
from softcard.core.words import align_down, align_up
from softcard.image.riscv.program import Segment

STACK_TOP: Final = 0xF000_0000
STACK_BYTES: Final = 8 << 20
HEAP_BYTES: Final = 256 << 20
ARENA_BYTES: Final = 512 << 20
NEAR: Final = 1 << 20
"""The largest gap in bytes between segments that are merged into one range of memory."""
ME: Final = Unit(0)
_MASK64: Final = (1 << 64) - 1
_ADDRESS_LIMIT: Final = 1 << 32


class Part:
    """A `Region` that is a range of a larger memory."""

    def __init__(self, memory: Ram, start: int, size: int) -> None:
        self._memory = memory
        self._start = start
        self.size = size

    def read(self, offset: int, size: int, unit: Unit) -> bytes:
        """Return bytes at an offset in the range: see `Region`."""
        return self._memory.read(self._start + offset, size, unit)

    def write(self, offset: int, data: bytes, unit: Unit) -> None:
        """Write bytes at an offset in the range: see `Region`."""
        self._memory.write(self._start + offset, data, unit)

    def host_address(self, offset: int, unit: Unit) -> int | None:
        """Return the host address of an offset in the range: see `Region`."""
        return self._memory.host_address(self._start + offset, unit)


class Arena:
    """The address range for memory that a program maps while it runs (mmap), allocated from the top down.

    Accesses to addresses of the range that are not mapped fault.
    """

    def __init__(self, space: AddressSpace, first: int, end: int) -> None:
        self._space = space
        self.first, self.end = first, max(first, end)
        self._taken: list[tuple[int, int]] = []
        """The mapped ranges as (start, end), in order; adjacent ranges are merged."""

    @cached_property
    def _memory(self) -> Ram:
        return Ram(self.end - self.first)

    def allocate(self, size: int) -> int | None:
        """Map zeroed memory of whole pages and return its address; None if the arena is full."""
        end = self.end
        for first, last in reversed(self._taken):
            if end - last >= size:
                break
            end = first
        if end - size < self.first:
            return None
        self._take(end - size, end)
        return end - size

    def place(self, address: int, size: int) -> bool:
        """Map whole pages at `address`, replacing existing memory.

        Return False, and map nothing, if the range is not entirely inside the arena."""
        if not self.first <= address <= address + size <= self.end:
            return False
        self.free(address, size)
        self._take(address, address + size)
        return True

    def free(self, address: int, size: int) -> None:
        """Unmap memory; bytes that are not mapped are ignored."""
        start, stop = max(address, self.first), min(address + size, self.end)
        for first, last in [each for each in self._taken if each[0] < stop and start < each[1]]:
            self._drop(first, last)
            low, high = max(first, start), min(last, stop)
            _clear(self._memory, low - self.first, high - low)
            for left, right in ((first, low), (high, last)):
                if left < right:
                    self._put(left, right)

    def _take(self, first: int, last: int) -> None:
        for near in [each for each in self._taken if each[1] == first or each[0] == last]:
            self._drop(*near)
            first, last = min(first, near[0]), max(last, near[1])
        self._put(first, last)

    def _put(self, first: int, last: int) -> None:
        insort(self._taken, (first, last))
        self._space.map(first, Part(self._memory, first - self.first, last - first), "mmap")

    def _drop(self, first: int, last: int) -> None:
        self._taken.remove((first, last))
        self._space.unmap(first)


class ProgramMemory:
    """A program's memory as a `HartPort`. Memory has no permissions; accesses to unmapped addresses fault.

    `mailbox` is the address of the mailbox word, or None. After each store to it, `on_mail` is called with the word's
    value unless that is 0.
    """

    def __init__(self, segments: Sequence[Segment], mailbox: int | None = None) -> None:
        self.space = AddressSpace()
        self.mailbox = mailbox
        self.on_mail: Callable[[int], None] | None = None
        pieces = _pieces(segments)
        self.heap = pieces[-1][1]
        self.break_ = self.heap
        room = STACK_TOP - STACK_BYTES
        pieces[-1] = pieces[-1][0], max(self.heap, min(self.heap + HEAP_BYTES, room if self.heap <= room else 0))
        self.heap_end = pieces[-1][1]
        if any(first < STACK_TOP and end > room for first, end in pieces) or self.heap_end > _ADDRESS_LIMIT:
            raise WireError(
                f"segments up to {self.heap:#x} leave no room for the stack, {room:#x}..{STACK_TOP:#x}: link the "
                "program below these addresses"
            )
        for first, end in pieces:
            self.space.map(first, Ram(end - first), "program")
        self.space.map(room, Ram(STACK_BYTES), "stack")
        self.arena = Arena(self.space, max([room - ARENA_BYTES, *(end for _, end in pieces if end <= room)]), room)
        for segment in segments:
            self.write(segment.address, segment.data)

    def read(self, address: int, size: int) -> bytes:
        """Return `size` bytes at `address`; raise `AccessFault` unless one mapped range holds all of them."""
        return self.space.read(address, size, ME)

    def write(self, address: int, data: bytes) -> None:
        """Store bytes at `address`; raise `AccessFault` unless one mapped range holds all of them."""
        if data:
            self.space.write(address, data, ME)

    def clear(self, address: int, size: int) -> None:
        """Fill a range of memory with zeros; raise `AccessFault` if it is not mapped."""
        found = self.space.find(address, size)
        if found is None:
            raise AccessFault(
                f"there is no memory at {address:#x}..{address + size:#x}", address=address, access="store"
            )
        _clear(found.region, address - found.base, size)

    def clear_mailbox(self) -> None:
        """Set the mailbox to 0, after its message was handled."""
        if self.mailbox is not None:
            self.write(self.mailbox, bytes(8))

    # -- the interface for a hart

    def load(self, address: int, size: int) -> int:
        """Load a number for the hart: see `HartPort`."""
        return int.from_bytes(self.space.read(address, size, ME), "little")

    def store(self, address: int, size: int, value: int) -> None:
        """Store a number for the hart: see `HartPort`."""
        self.space.write(address, (value & (1 << 8 * size) - 1).to_bytes(size, "little"), ME)
        if self.mailbox is not None and address <= self.mailbox < address + size:
            word = self.load(self.mailbox, 8)
            if word and self.on_mail is not None:
                self.on_mail(word)

    def fetch(self, address: int) -> int:
        """Fetch code for the hart: see `HartPort`."""
        return int.from_bytes(self.space.read(address, 2, ME), "little")

    def page(self, address: int, access: str) -> int | None:
        """Return the mapping of the page of an address: see `HartPort`."""
        page = address & -PAGE_SIZE
        found = self.space.find(address)
        if found is None:
            raise AccessFault(f"{access} at {address:#x}: no memory there", address=address, access=access)
        if access == "store" and self.mailbox is not None and page == self.mailbox & -PAGE_SIZE:
            return None
        host = found.region.host_address(page - found.base, ME)
        return None if host is None else (host - page) & _MASK64

    def extent(self, address: int, access: str) -> tuple[int, int]:
        """Return the contiguous extent around an address: see `ExtentPort`."""
        found = self.space.find(address)
        if found is None:
            return address, address
        if access == "load" or self.mailbox is None:
            return found.base, found.end
        hole = self.mailbox & -PAGE_SIZE
        return (found.base, min(hole, found.end)) if address < hole else (max(hole + PAGE_SIZE, found.base), found.end)


def _clear(region: Region, offset: int, size: int) -> None:
    for at in range(0, size, NEAR):
        region.write(offset + at, bytes(min(NEAR, size - at)), ME)


def _pieces(segments: Sequence[Segment]) -> list[tuple[int, int]]:
    """Return the ranges of whole pages that segments occupy, in order; nearby segments are merged."""
    pieces: list[tuple[int, int]] = []
    for segment in sorted(segments, key=lambda each: each.address):
        first, end = align_down(segment.address, PAGE_SIZE), align_up(segment.end, PAGE_SIZE)
        if pieces and first <= pieces[-1][1] + NEAR:
            pieces[-1] = pieces[-1][0], max(pieces[-1][1], end)
        else:
            pieces.append((first, end))
    if not pieces:
        raise WireError("the program has no PT_LOAD segment, expected code to run")
    return pieces
