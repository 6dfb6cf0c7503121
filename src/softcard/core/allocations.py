"""Device memory that a host allocates: the allocator, and the exact bounds and origins of all allocations."""

from __future__ import annotations

import threading
from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Final, Protocol

from softcard.core.errors import Registers
from softcard.core.snapshot import Stateful
from softcard.core.tracebacks import host_line

MASK64: Final = (1 << 64) - 1


class Allocator(Stateful):
    """An allocator for `size` bytes of addresses that begin at `base`."""

    STATE = ("_starts", "_free", "_holes")

    def __init__(self, base: int, size: int) -> None:
        self.base = base
        self.end = base + size
        self.reset()

    def reset(self) -> None:
        """Free all allocations."""
        self._starts = [self.base]
        self._free = {self.base: True}
        self._holes = [self.base]
        """The starts of the free blocks, in order. A search does not visit the blocks in use, which may be many."""

    def allocate(self, size: int, alignment: int = 1) -> int:
        """Allocate `size` bytes (0 counts as 1) and return their address, or 0 if no free block is large enough.

        The address is a multiple of `alignment`, a power of two.
        """
        size = size or 1
        for number, block in enumerate(self._holes):
            index = bisect_right(self._starts, block)
            end = self._starts[index] if index < len(self._starts) else self.end
            start = end - size & ~(alignment - 1) & MASK64
            if end < size or start < block:
                continue
            if start == block:
                del self._holes[number]
            else:
                insort(self._starts, start)
            self._free[start] = False
            return start
        return 0

    def reserve(self, address: int, size: int) -> bool:
        """Allocate the `size` bytes at `address`; return False, and allocate nothing, unless all of them are free."""
        index = bisect_right(self._starts, address) - 1
        if index < 0 or not self._free[self._starts[index]]:
            return False
        end = self._starts[index + 1] if index + 1 < len(self._starts) else self.end
        after = address + (size or 1)
        if after > end:
            return False
        for start, is_free in ((address, False), (after, True)):
            if start != end and start not in self._free:
                insort(self._starts, start)
            if start != end:
                self._set(start, is_free)
        return True

    def _set(self, start: int, is_free: bool) -> None:
        """Set whether the block that begins at `start` is free."""
        if self._free.get(start, False) != is_free:
            if is_free:
                insort(self._holes, start)
            else:
                del self._holes[bisect_left(self._holes, start)]
        self._free[start] = is_free

    def free(self, address: int) -> None:
        """Free the block at `address`; ignore an address at which no block begins.

        The release build of the RefSi reference driver ignores it as well.
        """
        if self._free.get(address, True):
            return
        self._free[address] = True
        insort(self._holes, address)
        index = bisect_left(self._starts, address)
        if index + 1 < len(self._starts) and self._free[self._starts[index + 1]]:
            self._drop(index + 1)
        if index and self._free[self._starts[index - 1]]:
            self._drop(index)

    def _drop(self, index: int) -> None:
        """Merge the free block number `index` with the free block before it."""
        start = self._starts.pop(index)
        self._set(start, False)
        del self._free[start]

    def blocks(self) -> list[tuple[int, int, bool]]:
        """Return all blocks by address: (start, size, True if free)."""
        ends = [*self._starts[1:], self.end]
        return [(start, end - start, self._free[start]) for start, end in zip(self._starts, ends, strict=True)]


NEAR: Final = 1 << 16
"""The largest distance, in bytes, from an invalid access to an allocation that a finding names as the one meant."""

FAR: Final = 1 << 64


@dataclass(slots=True, eq=False)
class Allocation:
    """An allocation: the `size` bytes at `base` that the host requested, without padding.

    `made` and `freed` are the lines of the host program that allocated and freed it; "" if unknown or not freed.
    `owner` is "host" if the program must free it, or "" if the device or a launch does. An access at most `near` bytes
    past the end is attributed to this allocation.
    """

    name: str
    base: int
    size: int
    made: str = ""
    freed: str = ""
    owner: str = ""
    near: int = NEAR
    serial: int = field(default_factory=count(1).__next__)

    @property
    def end(self) -> int:
        """The first address past the end."""
        return self.base + self.size

    def distance(self, address: int) -> int:
        """Return the distance in bytes from the allocation to `address`.

        It is negative before the start, 0 inside, and 1 for the first byte past the end.
        """
        if address >= self.end:
            return address - self.end + 1
        return address - self.base if address < self.base else 0

    def __str__(self) -> str:
        made = f", made at {self.made}" if self.made else ""
        freed = f", freed at {self.freed}" if self.freed else ""
        return f"{self.name} ({self.size} bytes at {self.base:#x}{made}{freed})"


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of checking an invalid access: its kind, the nearby allocation, and the distance to it in bytes."""

    kind: str
    allocation: Allocation | None
    distance: int
    text: str


OUT_OF_BOUNDS: Final = "out-of-bounds"
USE_AFTER_FREE: Final = "use-after-free"
WILD: Final = "wild-address"


class Allocations(Stateful):
    """All allocations of one memory by address: live ones, and freed ones whose addresses were not reused yet."""

    STATE = ("_bases", "_all")

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._bases: list[int] = []
        self._all: list[Allocation] = []

    def __iter__(self) -> Iterator[Allocation]:
        return iter(tuple(self._all))

    def snapshot(self) -> Any:
        """Return the present state, including freed allocations, as an opaque value for `restore`."""
        with self._lock:
            return super().snapshot(), [each.freed for each in self._all]

    def restore(self, state: Any) -> None:
        """Restore the allocations of a snapshot."""
        with self._lock:
            super().restore(state[0])
            for each, freed in zip(self._all, state[1], strict=True):
                each.freed = freed

    def add(self, name: str, base: int, size: int, owner: str = "", near: int = NEAR) -> Allocation:
        """Record that the host's program allocated `size` bytes at `base`; return the new `Allocation`.

        `name`, `owner` and `near` are its attributes."""
        made = Allocation(name, base, size, host_line(), owner=owner, near=near)
        with self._lock:
            index = bisect_right(self._bases, base)
            self._bases.insert(index, base)
            self._all.insert(index, made)
        return made

    def free(self, base: int) -> Allocation | None:
        """Record that the allocation at `base` was freed, and return it; return None if none begins there.

        Accesses to its addresses are reported as uses after free until they are allocated again.
        """
        with self._lock:
            found = self.at(base)
            if found is None or found.freed:
                return None
            found.freed = host_line() or "an unknown line"
            return found

    def forget(self, base: int) -> None:
        """Remove the allocation at `base`, so that its addresses may be reused."""
        with self._lock:
            index = bisect_right(self._bases, base) - 1
            if index >= 0 and self._bases[index] == base:
                del self._bases[index], self._all[index]

    def at(self, base: int) -> Allocation | None:
        """Return the allocation that begins at `base`, live or freed, or None."""
        index = bisect_right(self._bases, base) - 1
        return self._all[index] if index >= 0 and self._bases[index] == base else None

    def around(self, address: int) -> tuple[Allocation | None, Allocation | None]:
        """Return the last allocation that begins at or below an address, and the first one that begins above it.

        A missing allocation is returned as None.
        """
        index = bisect_right(self._bases, address)
        below = self._all[index - 1] if index else None
        return below, self._all[index] if index < len(self._all) else None

    def overlapping(self, start: int, end: int) -> list[Allocation]:
        """Return the allocations that contain at least one of the addresses from `start` to `end - 1`.

        The recorded allocations must not overlap each other."""
        with self._lock:
            low, high = max(bisect_right(self._bases, start) - 1, 0), bisect_left(self._bases, end)
            return [each for each in self._all[low:high] if each.end > start]

    def check(self, address: int, size: int, meant: Allocation | None = None) -> Verdict | None:
        """Check an access of `size` bytes at `address`; return the problem, or None if the access is valid.

        `meant` is the allocation that other lanes of the same instruction access, or None. If an invalid access is
        close to `meant`, it is reported as an access past the end, or before the start, of that allocation."""
        below, above = self.around(address)
        if below is not None and address < below.end:
            if below.freed:
                return Verdict(USE_AFTER_FREE, below, 0, f"{below}, {address - below.base} bytes from its start")
            if address + size <= below.end:
                return None
            over = address + size - below.end
            text = f"its last {_bytes(over)} are past the end of {below}"
            return Verdict(OUT_OF_BOUNDS, below, 0, text)
        if meant is not None and meant.end <= address < meant.end + meant.near:
            below, above = meant, None
        elif meant is not None and meant.base - NEAR < address < meant.base:
            below, above = None, meant
        past = address - below.end if below is not None else FAR
        before = above.base - address if above is not None else FAR
        if below is not None and past < below.near and (past <= before or before >= NEAR):
            return _missed(
                below,
                below.distance(address),
                f"{_bytes(past)} past the end of {below}",
            )
        if above is not None and before < NEAR:
            return _missed(above, -before, f"{_bytes(before)} before the start of {above}")
        return Verdict(WILD, None, 0, "no allocation is near")


def _bytes(number: int) -> str:
    return f"{number} byte{'s' * (number != 1)}"


def _missed(missed: Allocation, distance: int, text: str) -> Verdict:
    return Verdict(USE_AFTER_FREE if missed.freed else OUT_OF_BOUNDS, missed, distance, text)


# ---- guards ----------------------------------------------------------------------------------------------------------


HOST: Final = "host"
"""The owner of memory that the host program allocated itself."""
PRIVATE_MEMORY: Final = "private memory of a wave"
"""The name of the allocations of private memory."""


@dataclass(frozen=True, slots=True)
class AccessOrigin:
    """The source of an access: the instruction, its wave or hart, its work-group, and the lanes concerned.

    `registers` returns the registers before the instruction; its argument is the lane for vector registers. It is valid
    during the access.
    """

    pc: int | None = None
    insn: str = ""
    unit: str = ""
    group: str = ""
    lanes: tuple[int, ...] = ()
    registers: Callable[[int | None], Registers | None] | None = field(default=None, compare=False, repr=False)


UNKNOWN_ORIGIN: Final = AccessOrigin()


class Guard(Protocol):
    """The allocations of one memory with their exact bounds, and the check of accesses and frees against them.

    A device records its allocations in it. Engines check each access by it that is not wholly inside of an allocation.
    """

    allocations: Allocations
    strides: dict[int, tuple[int, int]]
    """Private memories by address: the bytes of each work-item, and the bytes from one wave to the next."""

    def check(self, access: str, size: int, address: int, origin: AccessOrigin) -> bool:
        """Check one access, made at `origin`; return False if it is invalid. `access` is its kind as text."""

    def check_lanes(
        self, access: str, size: int, addresses: Sequence[int], origin: AccessOrigin, lanes: Sequence[tuple[int, ...]]
    ) -> bool:
        """Check the accesses of several lanes; return False if some are invalid.

        `addresses` has one address for each entry in `lanes`.
        """

    def refused(self, access: str, size: int, address: int, origin: AccessOrigin, reason: str) -> None:
        """Record an access that the memory refuses, although an allocation contains it; `reason` is its error text."""

    def freed(self, base: int) -> Allocation | None:
        """Record that the host frees the allocation at `base`, and return the allocation.

        If no live allocation begins there, record that and return None.
        """

    def not_freed(self, base: int) -> None:
        """Record a free of an address at which no live allocation begins."""

    def closed(self) -> None:
        """Handle the closing of the device."""
