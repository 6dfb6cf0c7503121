"""Marks of memory: a byte of marks for each byte of plain memory, at the same guest address in a memory of its own.

So whatever finds values by their addresses finds their marks as well: page tables, inline caches, gathers, atomics.
Pages that nobody marks take no room: the host gives zeros when they are first looked at.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from understudy.engine.gcn.memory import GpuMemory, Plain

MARKED: Final = 0xFF


class MarkMemory(GpuMemory):
    """The marks of a memory's bytes. Where that has none, or nothing, there are no marks: they read 0 and are lost.

    `follow` brings it in line with what is mapped. Memory that is mapped in several places has its marks once.
    """

    def __init__(self, memory: GpuMemory) -> None:
        super().__init__(memory.bits)
        self._followed = -1
        self._planes: dict[tuple[int, int], npt.NDArray[np.uint8]] = {}
        """By host address and size of the memory."""

    def follow(self, memory: GpuMemory) -> None:
        """Map what `memory` has mapped, and nothing else; marks of what stays are kept."""
        if memory.version == self._followed:
            return
        self._followed = memory.version
        wanted = {each.base: each for each in memory if isinstance(each, Plain)}
        there = {each.base: each for each in self}
        for base, known in there.items():
            now = wanted.get(base)
            if now is None or now.end != known.end or known.name != str(now.addend):
                self.unmap(base)
        kept = {each.base for each in self}
        planes = {(int(each.bytes.ctypes.data), each.bytes.size) for each in wanted.values()}
        self._planes = {key: plane for key, plane in self._planes.items() if key in planes}
        for base, each in wanted.items():
            if base not in kept:
                self.map(base, self._plane(each), name=str(each.addend))

    def _plane(self, mapped: Plain) -> npt.NDArray[np.uint8]:
        key = int(mapped.bytes.ctypes.data), mapped.bytes.size
        if key not in self._planes:
            self._planes[key] = np.zeros(mapped.bytes.size, np.uint8)
        return self._planes[key]

    def mark(self, address: int, size: int, marked: bool = True) -> None:
        """Mark all bits of bytes, or none."""
        for found, at, count in self.parts(address, size):
            found.bytes[at : at + count] = MARKED if marked else 0

    # ---- accesses: what is not there has no marks ----------------------------------------------------------------
    def read(self, address: int, size: int) -> bytes:
        """Marks of bytes."""
        data = bytearray(size)
        for found, at, count in self.parts(address, size):
            start = found.base + at - address
            data[start : start + count] = found.view[at : at + count]
        return bytes(data)

    def write(self, address: int, data: bytes | bytearray | memoryview) -> None:
        """Marks of bytes become others."""
        for found, at, count in self.parts(address, len(data)):
            start = found.base + at - address
            found.view[at : at + count] = bytes(data[start : start + count])

    def check(self, address: int, size: int, access: str) -> None:
        """Nothing is wrong with any access here."""

    def parts(self, address: int, size: int) -> Iterator[tuple[Plain, int, int]]:
        """What there is of `size` bytes: the mapping, offset in it, bytes."""
        end = address + size
        at = address
        while at < end:
            found: Any = self.find(at)
            if isinstance(found, Plain):
                count = min(end, found.end) - at
                yield found, at - found.base, count
                at += count
            else:
                at = min((each.base for each in self if each.base > at), default=end)
