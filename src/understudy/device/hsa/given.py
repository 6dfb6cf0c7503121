"""Memory that somebody else places: at addresses of its choice, and taken away in pieces, as kernel drivers do it."""

from __future__ import annotations

from typing import Any

from understudy.core.allocator import Allocator
from understudy.core.errors import RuleError
from understudy.core.snapshot import Stateful
from understudy.engine.gcn.memory import Effects, GpuMemory, Mapped
from understudy.engine.gcn.memory_type import MemoryType


class GivenMemory(Stateful):
    """What was mapped at given addresses. `spaces` share out others, and are told which are taken."""

    STATE = ("_mapped", "_reserved")

    def __init__(self, gpu: GpuMemory, spaces: tuple[Allocator, ...]) -> None:
        self._gpu = gpu
        self._spaces = spaces
        self._mapped: dict[int, Mapped] = {}
        self._reserved: dict[int, int] = {}
        """Where each stretch begins that was taken from one of the spaces, and ends."""

    def map(self, address: int, what: Any, name: str, writable: bool, type: MemoryType, replace: bool) -> None:
        """See `HsaDevice.map_at`."""
        size = what.size if hasattr(what, "host_address") else memoryview(what).nbytes
        end = address + size
        if address < 0 or size < 1 or end > self._gpu.limit:
            raise RuleError(f"{name}, {size} bytes at {address:#x}, expected some below {self._gpu.limit:#x}")
        with self._gpu.pause.alone():
            there = self._gpu.between(address, end)
            for old in there:
                if not replace or self._mapped.get(old.base) is not old:
                    text = f"{name} at {address:#x}..{end:#x} overlaps {old.name} at {old.base:#x}..{old.end:#x}"
                    raise RuleError(text)
                _check_whole(old, address, end)
            self._reserve(address, end, name)
            new, pieces = self._gpu.replace(address, what, writable, name, type=type)
            self._note(there, [new, *pieces])

    def _note(self, gone: list[Mapped], new: list[Mapped]) -> None:
        for each in gone:
            del self._mapped[each.base]
        self._mapped.update((each.base, each) for each in new)

    def _reserve(self, address: int, end: int, name: str) -> None:
        """Have nobody given addresses that this takes."""
        for space in self._spaces:
            at, stop = max(address, space.base), min(end, space.end)
            known = sorted((start, its) for start, its in self._reserved.items() if start < stop and at < its)
            for start, its in [*known, (stop, stop)]:
                if at < start and not space.reserve(at, start - at):
                    self._release(address, end)
                    raise RuleError(f"{name} at {address:#x}..{end:#x} lies where the device has its own memory")
                if at < start:
                    self._reserved[at] = start
                at = max(at, its)

    def _release(self, address: int, end: int) -> None:
        """Give back what was taken there and is nobody's any more."""
        for start, stop in list(self._reserved.items()):
            if start < end and address < stop and not self._gpu.between(start, stop):
                del self._reserved[start]
                next(space for space in self._spaces if space.base <= start < space.end).free(start)

    def unmap(self, address: int, size: int) -> None:
        """See `HsaDevice.unmap_at`."""
        end = address + size
        with self._gpu.pause.alone():
            at, gone = address, []
            while at < end:
                found = self._gpu.find(at)
                if found is None or self._mapped.get(found.base) is not found:
                    raise RuleError(f"nothing was mapped at {at:#x} that could be unmapped")
                _check_whole(found, address, end)
                gone.append(found)
                at = found.end
            if gone:
                self._note(gone, self._gpu.cut(address, size))
                self._release(address, end)


def _check_whole(mapped: Mapped, start: int, end: int) -> None:
    """A `RuleError` for a region with effects of which only a part lies in start..end."""
    if isinstance(mapped, Effects) and not start <= mapped.base < mapped.end <= end:
        raise RuleError(f"{mapped.name} at {mapped.base:#x}..{mapped.end:#x} goes as a whole or not at all")
