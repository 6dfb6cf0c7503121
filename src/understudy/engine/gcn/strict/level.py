"""The second-level cache of an agent: lines that are written back and invalidated by fences at system scope.

GCN's is write-back and knows which bytes of a line are dirty: AMD's drivers write it back and invalidate it by separate
actions of their fences. Lines leave by these only, which is the worst that can happen.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from understudy.core.snapshot import Stateful
from understudy.engine.gcn.memory import GpuMemory, Mapped, Plain
from understudy.engine.gcn.memory_type import Mtype

LINE: Final = 64
"""Bytes of a cache line."""
ALL: Final = (1 << LINE) - 1
"""All bytes of a line, as bits."""


@dataclass(slots=True, eq=False)
class Line(Stateful):
    """A line of the second level: which of its bytes are there, and which of these memory does not have yet."""

    STATE = ("data", "valid", "dirty")

    mapping: Mapped | None
    data: bytearray = field(default_factory=lambda: bytearray(LINE))
    valid: int = 0
    dirty: int = 0


class SecondLevel(Stateful):
    """The cache that all compute units of an agent share: written back and invalidated by fences at system scope."""

    STATE = ("lines",)

    def __init__(self, memory: GpuMemory) -> None:
        self.memory = memory
        self.lines: dict[int, Line] = {}

    def is_passed(self, address: int, uncached: bool) -> bool:
        """Whether an access goes to memory itself."""
        return uncached or not self.type_at(address).is_cached

    def type_at(self, address: int) -> Mtype:
        """How what lies there is cached."""
        found = self.memory.find(address)
        return found.type.mtype if isinstance(found, Plain) else Mtype.UC

    def read(self, address: int, size: int, uncached: bool = False, keep: bool = True) -> bytes:
        """What arrives at a compute unit; with `keep` lines are brought in."""
        parts = []
        for number, at, count in pieces(address, size):
            line = self._line(number, at, uncached, keep)
            data = bytearray(self.memory.read(at, count)) if line is None or line.valid != ALL else bytearray(count)
            if line is not None:
                copy(line.data, at % LINE, data, line.valid >> at % LINE)
            parts.append(bytes(data))
        return b"".join(parts)

    def write(self, address: int, data: bytes, uncached: bool = False) -> None:
        """A store arrives."""
        for number, at, count in pieces(address, len(data)):
            part = data[at - address : at - address + count]
            if self.is_passed(at, uncached):
                self.write_back(number)
                self.lines.pop(number, None)
                self.memory.write(at, part)
                continue
            line = self.lines.setdefault(number, Line(self.memory.find(at)))
            line.data[at % LINE : at % LINE + count] = part
            mask = (1 << count) - 1 << at % LINE
            line.valid |= mask
            line.dirty |= mask

    def _line(self, number: int, at: int, uncached: bool, keep: bool) -> Line | None:
        line = self.lines.get(number)
        if self.is_passed(at, uncached):
            if line is not None and keep:
                self.write_back(number)
                del self.lines[number]
                return None
            return line
        if keep and (line is None or line.valid != ALL):
            line = self.lines.setdefault(number, Line(self.memory.find(at)))
            fresh = line_of(self.memory, number)
            if fresh is not None:
                copy(line.data, 0, fresh, line.valid)
                line.data[:], line.valid = fresh, ALL
        return line

    def write_back(self, *numbers: int) -> None:
        """Bring what was stored to memory: that of some lines, or all of it."""
        for number in numbers or tuple(self.lines):
            line = self.lines.get(number)
            if line is not None and line.dirty:
                for first, count in runs(line.dirty):
                    self.memory.write(number * LINE + first, bytes(line.data[first : first + count]))
                line.dirty = 0

    def overlay(self, address: int, data: bytearray) -> None:
        """Put what memory does not have yet on what it has from `address` on."""
        for number, at, count in pieces(address, len(data)):
            line = self.lines.get(number)
            if line is not None and line.dirty:
                part = data[at - address : at - address + count]
                copy(line.data, at % LINE, part, line.dirty >> at % LINE)
                data[at - address : at - address + count] = part

    def invalidate(self) -> None:
        """Forget what memory has as well; what it does not have stays."""
        self.lines = {number: line for number, line in self.lines.items() if line.dirty}
        for line in self.lines.values():
            line.valid = line.dirty


def line_of(memory: GpuMemory, number: int) -> bytearray | None:
    """A line as memory has it; None where not all of it is plain memory."""
    found = memory.plain(number * LINE, LINE)
    if found is None:
        return None
    at = number * LINE - found.base
    return bytearray(found.view[at : at + LINE])


def runs(bits: int) -> Iterator[tuple[int, int]]:
    """Stretches of ones: first bit and how many."""
    at = 0
    while bits >> at:
        at += (bits >> at & -(bits >> at)).bit_length() - 1
        count = (~(bits >> at) & (bits >> at) + 1).bit_length() - 1
        yield at, count
        at += count


def pieces(address: int, size: int) -> Iterator[tuple[int, int, int]]:
    """An access by lines: number, first address, bytes."""
    at, end = address, address + size
    while at < end:
        count = min(LINE - at % LINE, end - at)
        yield at // LINE, at, count
        at += count


def copy(source: bytearray, start: int, target: bytearray, mask: int) -> None:
    """Bytes of `source` from `start` on that `mask` names, to `target`."""
    size = len(target)
    for first, count in runs(mask & (1 << size) - 1):
        target[first : first + count] = source[start + first : start + first + count]
