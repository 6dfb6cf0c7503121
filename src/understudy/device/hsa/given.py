"""Memory that somebody else places: at addresses of its choice, and taken away in pieces, as kernel drivers do it."""

from __future__ import annotations

import threading
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
        self._lock = threading.RLock()

    def map(self, address: int, what: Any, name: str, writable: bool, type: MemoryType) -> None:
        """See `HsaDevice.map_at`."""
        size = what.size if hasattr(what, "host_address") else memoryview(what).nbytes
        end = address + size
        if address < 0 or size < 1 or end > self._gpu.limit:
            raise RuleError(f"{name}, {size} bytes at {address:#x}, expected some below {self._gpu.limit:#x}")
        with self._lock:
            for old in self._gpu.between(address, end):
                text = f"{name} at {address:#x}..{end:#x} overlaps {old.name} at {old.base:#x}..{old.end:#x}"
                raise RuleError(text)
            self._reserve(address, end, name)
            self._mapped[address] = self._gpu.map(address, what, writable, name, type=type)

    def _reserve(self, address: int, end: int, name: str) -> None:
        """Have nobody given addresses that this takes."""
        for space in self._spaces:
            start, stop = max(address, space.base), min(end, space.end)
            if start >= stop:
                continue
            if not space.reserve(start, stop - start):
                self._release(address, end)
                text = f"{name} at {address:#x}..{end:#x} lies where the device has its own memory"
                raise RuleError(text)
            self._reserved[start] = stop

    def _release(self, address: int, end: int) -> None:
        """Give back what was taken there and is nobody's any more."""
        for start, stop in list(self._reserved.items()):
            if start < end and address < stop and not self._gpu.between(start, stop):
                del self._reserved[start]
                next(space for space in self._spaces if space.base <= start < space.end).free(start)

    def unmap(self, address: int, size: int) -> None:
        """See `HsaDevice.unmap_at`."""
        end = address + size
        with self._lock:
            at, gone = address, []
            while at < end:
                found = self._gpu.find(at)
                if found is None or self._mapped.get(found.base) is not found:
                    raise RuleError(f"nothing was mapped at {at:#x} that could be unmapped")
                if isinstance(found, Effects) and not address <= found.base < found.end <= end:
                    raise RuleError(f"{found.name} at {found.base:#x}..{found.end:#x} goes as a whole or not at all")
                gone.append(found.base)
                at = found.end
            if not gone:
                return
            pieces = self._gpu.cut(address, size)
            for base in gone:
                del self._mapped[base]
            self._mapped.update((piece.base, piece) for piece in pieces)
            self._release(address, end)
