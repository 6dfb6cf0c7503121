"""What a device's memory was shared out as: exact bounds of every allocation, and where the host's program made it."""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Final

from understudy.core.caller import host_line
from understudy.core.snapshot import Stateful

NEAR: Final = 1 << 16
"""Bytes from an allocation within which an access that misses it is told of as one that was meant for it."""

FAR: Final = 1 << 64


@dataclass(slots=True, eq=False)
class Allocation:
    """`size` bytes at `base`, as asked for. `made` and `freed`: lines of the host's program, "" where not (yet).

    `owner`: who has to free it: "host" for what a program allocated by itself, "" for what the device or a launch
    looks after. `near`: bytes behind it of which a miss is told as one of this allocation.
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
        """First address behind it."""
        return self.base + self.size

    def distance(self, address: int) -> int:
        """Bytes from its last one to `address`, negative before its start, 0 inside: 1 is the first byte behind it."""
        if address >= self.end:
            return address - self.end + 1
        return address - self.base if address < self.base else 0

    def __str__(self) -> str:
        made = f", made at {self.made}" if self.made else ""
        freed = f", freed at {self.freed}" if self.freed else ""
        return f"{self.name} ({self.size} bytes at {self.base:#x}{made}{freed})"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is wrong with an access: kind, the allocation that it is told of, and how it lies to that."""

    kind: str
    allocation: Allocation | None
    distance: int
    text: str


OUT_OF_BOUNDS: Final = "out-of-bounds"
USE_AFTER_FREE: Final = "use-after-free"
WILD: Final = "wild-address"


class Allocations(Stateful):
    """All allocations of one memory by address: those that live, and those whose addresses are not used again yet."""

    STATE = ("_bases", "_all")

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._bases: list[int] = []
        self._all: list[Allocation] = []

    def __iter__(self) -> Iterator[Allocation]:
        return iter(tuple(self._all))

    def snapshot(self) -> Any:
        """All of them, and which were freed."""
        with self._lock:
            return super().snapshot(), [each.freed for each in self._all]

    def restore(self, state: Any) -> None:
        """Go back to those of a snapshot."""
        with self._lock:
            super().restore(state[0])
            for each, freed in zip(self._all, state[1], strict=True):
                each.freed = freed

    def add(self, name: str, base: int, size: int, owner: str = "", near: int = NEAR) -> Allocation:
        """Note that `size` bytes at `base` are used from now on, by what the host's program asks for."""
        made = Allocation(name, base, size, host_line(), owner=owner, near=near)
        with self._lock:
            index = bisect_right(self._bases, base)
            self._bases.insert(index, base)
            self._all.insert(index, made)
        return made

    def free(self, base: int) -> Allocation | None:
        """Note that the allocation at `base` was freed; None where none lives there. Its addresses stay its own."""
        with self._lock:
            found = self.at(base)
            if found is None or found.freed:
                return None
            found.freed = host_line() or "an unknown line"
            return found

    def forget(self, base: int) -> None:
        """Its addresses may be used again."""
        with self._lock:
            index = bisect_right(self._bases, base) - 1
            if index >= 0 and self._bases[index] == base:
                del self._bases[index], self._all[index]

    def at(self, base: int) -> Allocation | None:
        """The allocation that begins there, freed or not."""
        index = bisect_right(self._bases, base) - 1
        return self._all[index] if index >= 0 and self._bases[index] == base else None

    def around(self, address: int) -> tuple[Allocation | None, Allocation | None]:
        """The allocations that begin at or below an address, and above it."""
        index = bisect_right(self._bases, address)
        below = self._all[index - 1] if index else None
        return below, self._all[index] if index < len(self._all) else None

    def judge(self, address: int, size: int, meant: Allocation | None = None) -> Verdict | None:
        """What is wrong with an access of `size` bytes at `address`; None for nothing.

        `meant`: what other lanes of the access hit, to which a miss is put down where that is near.
        """
        below, above = self.around(address)
        if below is not None and address < below.end:
            if below.freed:
                return Verdict(USE_AFTER_FREE, below, 0, f"{below}, {address - below.base} bytes from its start")
            if address + size <= below.end:
                return None
            over = address + size - below.end
            text = f"{_bytes(over)} of it behind the end of {below}"
            return Verdict(OUT_OF_BOUNDS, below, 0, text)
        if meant is not None and meant.end <= address < meant.end + meant.near:
            below, above = meant, None
        elif meant is not None and meant.base - NEAR < address < meant.base:
            below, above = None, meant
        behind = address - below.end if below is not None else FAR
        before = above.base - address if above is not None else FAR
        if below is not None and behind < below.near and behind <= before:
            return _missed(
                below,
                below.distance(address),
                f"{_bytes(behind)} behind the end of {below}" if behind else f"right behind the end of {below}",
            )
        if above is not None and before < NEAR:
            return _missed(above, -before, f"{_bytes(before)} before the start of {above}")
        return Verdict(WILD, None, 0, "no allocation is near")


def _bytes(number: int) -> str:
    return f"{number} byte{'s' * (number != 1)}"


def _missed(missed: Allocation, distance: int, text: str) -> Verdict:
    return Verdict(USE_AFTER_FREE if missed.freed else OUT_OF_BOUNDS, missed, distance, text)
