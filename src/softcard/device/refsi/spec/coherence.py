"""Data caches that may hold stale data: with `coherence="strict"` each hart has its own cache in front of DRAM.

"Changes to device memory made by the cores when running the kernel will not always be fully observable before
the next command is executed" (RUN_INSTANCES). Each hart has an unlimited write-back cache of 64-byte lines
with a dirty bit per byte (choice `refsi/cache-model`). Only `sync` writes a hart's stores to memory, and
makes the stores of other harts visible to its loads. Addresses are physical."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from softcard.core.snapshot import Stateful
from softcard.core.space import Ram

LINE_BYTES: Final = 64
_ALL: Final = (1 << LINE_BYTES) - 1


@dataclass(slots=True)
class Line(Stateful):
    """The cached bytes of one line; bit i of `dirty` is set if byte i is newer than memory."""

    STATE = ("data", "dirty")

    data: bytearray
    dirty: int = 0


@dataclass(frozen=True, slots=True)
class Newer:
    """Bytes that are newer than the bytes that a reader received.

    They are in the cache of hart `holder`, or in memory if `holder` is None."""

    address: int
    seen: bytes
    newer: bytes
    holder: int | None


class DataCaches(Stateful):
    """The data caches of `harts` harts in front of `memory`, which starts at physical address `base`.

    `written` is called with (address, size) whenever cached bytes reach memory.
    """

    STATE = ("_lines",)

    def __init__(self, memory: Ram, base: int, harts: int, written: Callable[[int, int], None]) -> None:
        self._memory = memory
        self._base = base
        self._lines: list[dict[int, Line]] = [{} for _ in range(harts)]
        self._written = written

    def load(self, hart: int, address: int, size: int) -> bytes:
        """Return the `size` bytes at `address` from the cache of `hart`; missing lines are first filled from memory."""
        parts = []
        for line, start, length in _split(address, size):
            parts.append(self._line(hart, line).data[start : start + length])
        return b"".join(parts)

    def store(self, hart: int, address: int, data: bytes) -> None:
        """Write `data` to the cache lines of `hart` only, not to memory."""
        done = 0
        for base, start, length in _split(address, len(data)):
            line = self._line(hart, base)
            line.data[start : start + length] = data[done : done + length]
            line.dirty |= ((1 << length) - 1) << start
            done += length

    def drop(self, hart: int, address: int, size: int) -> None:
        """Write back and drop the lines of `hart` that hold any of the `size` bytes at `address`.

        An atomic operation, which accesses memory directly, needs this first."""
        for base, _, _ in _split(address, size):
            line = self._lines[hart].pop(base, None)
            if line is not None:
                self._write_back(base, line)

    def sync(self) -> None:
        """Write back all dirty bytes, hart 0 first, and drop all lines."""
        for lines in self._lines:
            for base in sorted(lines):
                self._write_back(base, lines[base])
            lines.clear()

    def clear(self) -> None:
        """Drop all lines without writing back their dirty bytes, for a reset."""
        for lines in self._lines:
            lines.clear()

    def newer(self, address: int, seen: bytes, hart: int | None = None) -> Iterator[Newer]:
        """Yield the bytes that are newer than `seen`, the bytes that `hart` read at `address` from its cache.

        If `hart` is None, `seen` was read from memory."""
        size = len(seen)
        if hart is not None:
            memory = bytearray(self._peek(address, size))
            self._overlay(hart, address, memory)
            if memory != seen:
                yield Newer(address, seen, bytes(memory), None)
        for holder in range(len(self._lines)):
            if holder == hart:
                continue
            data = bytearray(seen)
            if self._overlay(holder, address, data) and data != seen:
                yield Newer(address, seen, bytes(data), holder)

    def _line(self, hart: int, base: int) -> Line:
        lines = self._lines[hart]
        line = lines.get(base)
        if line is None:
            line = lines[base] = Line(bytearray(self._peek(base, LINE_BYTES)))
        return line

    def _peek(self, address: int, size: int) -> memoryview:
        offset = address - self._base
        return self._memory.view[offset : offset + size]

    def _write_back(self, base: int, line: Line) -> None:
        offset = base - self._base
        for start, length in _dirty_runs(line.dirty):
            self._memory.view[offset + start : offset + start + length] = line.data[start : start + length]
            self._written(base + start, length)
        line.dirty = 0

    def _overlay(self, hart: int, address: int, data: bytearray) -> bool:
        """Overwrite `data`, a copy of the memory at `address`, with the bytes that are dirty in the cache of `hart`.

        Return True if there were any."""
        lines, size, found = self._lines[hart], len(data), False
        first, last = address & -LINE_BYTES, (address + size - 1) & -LINE_BYTES
        if (last - first) // LINE_BYTES < len(lines):
            bases = [base for base in range(first, last + 1, LINE_BYTES) if base in lines]
        else:
            bases = [base for base in lines if first <= base <= last]
        for base in bases:
            line = lines[base]
            for start, length in _dirty_runs(line.dirty):
                low, high = max(base + start, address), min(base + start + length, address + size)
                if low < high:
                    data[low - address : high - address] = line.data[low - base : high - base]
                    found = True
        return found


def _split(address: int, size: int) -> Iterator[tuple[int, int, int]]:
    """Yield the lines of a range: (line address, start in the line, length)."""
    end = address + size
    while address < end:
        base = address & -LINE_BYTES
        length = min(end, base + LINE_BYTES) - address
        yield base, address - base, length
        address += length


def _dirty_runs(dirty: int) -> Iterator[tuple[int, int]]:
    """Yield runs of dirty bytes in one line: (start, length)."""
    if dirty == _ALL:
        yield 0, LINE_BYTES
        return
    while dirty:
        start = (dirty & -dirty).bit_length() - 1
        length = (~(dirty >> start) & ((dirty >> start) + 1)).bit_length() - 1
        yield start, length
        dirty &= ~(((1 << length) - 1) << start)
