"""The heap for the check `memory`: blocks end at their exact last byte, and freed blocks are quarantined.

Each block has its own pages. The rest of its last page is guarded (`Guarded`): accesses to it are reported,
and have the same effect as without the check. The page after it is always unmapped. Freed memory goes into
quarantine: its addresses are not reused, and all of it is guarded."""

from __future__ import annotations

from collections import deque
from typing import Any, Final

import numpy as np

from softcard.core.allocations import HOST, PRIVATE_MEMORY, Guard
from softcard.core.errors import BeyondModel, RuleError
from softcard.core.space import PAGE_SIZE, Guarded, Ram
from softcard.core.words import align_up
from softcard.device.hsa.memory.heap import LARGE_PLACES, LINE_BYTES, MEMORY, Block, Heap, Places, checked_block
from softcard.engine.gcn.memory import COARSE, GpuMemory, MemoryType
from softcard.isa.gcn.state import LANES

QUARANTINED: Final = 256
"""The maximum number of freed blocks and mappings in quarantine."""
QUARANTINED_BYTES: Final = 64 << 20
"""The maximum number of bytes in quarantine; the block that was freed last stays there even if it is larger."""
WALL: Final = 1 << 16
"""The size in bytes of the guard zone after a mapped array of the host: loads there return 0 at first."""
GAP: Final = 1 << 20
"""The number of unmapped bytes after the private memory of a wave."""
WORD: Final = 4
POOLED: Final = ("kernel arguments", "signal")
"""The names of blocks that are allocated for single launches or signals.

A freed block of this kind is reused at once, at the same address, so that a launch changes no mapping.
"""
WHOLE: Final = ("code object",)
"""The names of blocks that own all bytes of their last page, since compilers put padding and data after code."""


class CheckedHeap(Heap):
    """A `Heap` that records its blocks in a guard."""

    STATE = (*Heap.STATE, "allocations", "_rams", "_quarantine", "_pool", "_arenas")

    def __init__(self, memory: GpuMemory, guard: Guard, places: Places = LARGE_PLACES) -> None:
        super().__init__(memory, places)
        self.margin = WALL + PAGE_SIZE
        self._wall = Ram(WALL)
        self.guard = guard
        self.allocations = guard.allocations
        memory.guard = guard
        self._rams: dict[int, tuple[Ram, int]] = {}
        """The RAM of each block that the heap allocated, by address, with the number of requested bytes."""
        self._quarantine: deque[tuple[int, int]] = deque()
        """The freed blocks in quarantine, oldest first: the address and the size in bytes of each."""
        self._pool: dict[tuple[int, int, MemoryType], list[int]] = {}
        self._arenas: dict[int, tuple[int, int, int]] = {}
        """The private memory allocations by address: total bytes, distance between waves, bytes per wave."""

    def allocate(self, size: int, alignment: int = 64, type: MemoryType = COARSE, name: str = MEMORY) -> int:
        """Allocate a block with exact bounds; see `Heap.allocate`."""
        checked_block(size, alignment)
        asked, alignment = max(size, 1), max(alignment, LINE_BYTES)
        if name in POOLED:
            asked = align_up(asked, 16)
        elif name in WHOLE:
            asked = align_up(asked, PAGE_SIZE)
        with self._lock:
            waiting = self._pool.get((asked, alignment, type))
            if waiting and name in POOLED:
                address = waiting.pop()
                self.gpu.write(address, bytes(asked))
            else:
                address = self._fresh(asked, max(alignment, PAGE_SIZE), type, name)
            self._blocks[address] = Block(asked, (address,))
        return address

    def _fresh(self, size: int, alignment: int, type: MemoryType, name: str) -> int:
        address = self._large(align_up(size, PAGE_SIZE), alignment, type)
        mapped = self.gpu.unmap(address)
        ram = mapped.ram  # type: ignore[union-attr]
        assert ram is not None
        self._show(address, ram, size, name, type=type)
        self.allocations.add(name, address, size, HOST if name == MEMORY else "")
        return address

    def _show(
        self, address: int, ram: Ram, used: int, name: str, writable: bool = True, type: MemoryType = COARSE
    ) -> None:
        """Map the first `used` bytes of `ram` at `address` as memory, and the rest as a guard zone."""
        whole = used == ram.size
        what = ram if whole else np.frombuffer(ram.view, np.uint8)[:used]
        self.gpu.map(address, what, writable=writable, name=name, type=type)
        if not whole:
            self.gpu.map(address + used, Guarded(ram, used), name=f"guard zone after {name}")
        self._rams[address] = ram, used

    def is_shared(self, address: int) -> bool:
        """Return True if freeing the block at `address` leaves its memory mapped, for reuse by a later allocation."""
        found = self.allocations.at(address)
        return found is not None and found.name in POOLED

    def free(self, address: int) -> None:
        """Free a block, or report that no live block begins at `address`; see `Heap.free`."""
        with self._lock:
            block = self._blocks.pop(address, None)
            if block is None:
                self.guard.not_freed(address)
                raise RuleError(f"cannot free {address:#x}: no allocation begins at this address")
            if self.is_shared(address):
                mapped = self.gpu.find(address)
                key = block.size, LINE_BYTES, mapped.type  # type: ignore[union-attr]
                self._pool.setdefault(key, []).append(address)
                return
            self.guard.freed(address)
            self._hide(address)

    def map(
        self,
        what: Any,
        name: str,
        writable: bool = True,
        copies: int = 1,
        type: MemoryType = COARSE,
        used: int | None = None,
        owner: str = "",
    ) -> int:
        """Map a buffer or region, and guard the memory after its first `used` bytes; see `Heap.map`."""
        with self._lock:
            address = super().map(what, name, writable, copies, type)
            block = self._windows[address]
            if isinstance(what, Ram) and used is not None and copies == 1:
                self.gpu.unmap(address)
                self._show(address, what, used, name, writable, type)
                self.allocations.add(name, address, used, owner)
            elif used is not None and used < block.size and copies == 1:  # the rest is guarded
                self.gpu.unmap(address)
                self.gpu.map(address, what[:used], writable, name, type=type)
                self.gpu.map(address + used, Guarded(what.data, used), name=f"guard zone after {name}")
                self._windows[address] = Block(block.size, (address, address + used))
                self.allocations.add(name, address, used, owner)
            else:
                self.allocations.add(name, address, block.size * copies, owner)
            if isinstance(what, np.ndarray) and copies == 1:
                self._add_wall(address, name)
        return address

    def _add_wall(self, address: int, name: str) -> None:
        """Add a guard zone after the array that is mapped at `address`, since its own memory ends there."""
        block = self._windows[address]
        end = address + block.size
        self.gpu.map(end, Guarded(self._wall), name=f"guard zone after {name}")
        self._windows[address] = Block(block.size, (*block.places, end))

    def unmap(self, address: int) -> None:
        """Unmap memory; see `Heap.unmap`.

        Memory that belongs to the host is unmapped; memory that belongs to the heap is guarded instead.
        """
        with self._lock:
            block = self._windows.pop(address, None)
            if block is None:
                self.guard.not_freed(address)
                raise RuleError(f"cannot unmap {address:#x}: no mapping begins at this address")
            self.guard.freed(address)
            if address in self._rams:
                self._hide(address)
                return
            for place in block.places:
                self.gpu.unmap(place)
            self._quarantine_block(address, 0)

    # ---- private memory ------------------------------------------------------------------------------------------

    def allocate_private(self, lane_bytes: int, waves: int) -> tuple[int, int]:
        """Allocate private memory for `waves` waves, with `lane_bytes` bytes per work-item.

        A guarded gap follows the memory of each wave. Return the address and the total bytes."""
        lane_bytes = align_up(lane_bytes, WORD)
        own = lane_bytes * LANES
        stride = align_up(own, PAGE_SIZE) + GAP
        size = stride * waves
        with self._lock:
            address = self._near.allocate(size, PAGE_SIZE) or self._space.allocate(size, PAGE_SIZE)
            if not address:
                raise BeyondModel(f"cannot allocate {size} bytes of private memory: no device addresses are left")
            ram = Ram(size)
            data = np.frombuffer(ram.view, np.uint8)
            for at in range(0, size, stride):
                self.gpu.map(address + at, data[at : at + own], name=PRIVATE_MEMORY)
                wall = Guarded(ram, at + own, at + stride)
                self.gpu.map(address + at + own, wall, name=f"guard zone after {PRIVATE_MEMORY}")
                self.allocations.add(PRIVATE_MEMORY, address + at, own, near=GAP)
            self.guard.strides[address] = lane_bytes, stride
            self._arenas[address] = size, stride, own
        return address, size

    def free_private(self, address: int) -> None:
        """Free the private memory at `address`."""
        with self._lock:
            size, stride, own = self._arenas.pop(address)
            del self.guard.strides[address]
            for at in range(address, address + size, stride):
                self.gpu.unmap(at)
                self.gpu.unmap(at + own)
                self.allocations.forget(at)
            self._give_back(address)

    # ---- quarantine ----------------------------------------------------------------------------------------------

    def _hide(self, address: int) -> None:
        ram, used = self._rams.pop(address)
        name = self._uncover(address, ram, used)
        self.gpu.map(address, Guarded(ram), name=f"freed {name}")
        self._quarantine_block(address, ram.size)

    def _uncover(self, address: int, ram: Ram, used: int) -> str:
        if used < ram.size:
            self.gpu.unmap(address + used)
        return self.gpu.unmap(address).name

    def _quarantine_block(self, address: int, size: int) -> None:
        """Put a block into quarantine; while it holds too many blocks or bytes, release its oldest block."""
        self._quarantine.append((address, size))
        held = sum(size for _, size in self._quarantine)
        while len(self._quarantine) > 1 and (len(self._quarantine) > QUARANTINED or held > QUARANTINED_BYTES):
            oldest, its = self._quarantine.popleft()
            held -= its
            if its:
                self.gpu.unmap(oldest)
            self.allocations.forget(oldest)
            self._give_back(oldest - oldest % PAGE_SIZE)

    def _give_back(self, start: int) -> None:
        (self._near if self._near.base <= start < self._near.end else self._space).free(start)


def heap_of(memory: GpuMemory, places: Places, guard: Guard | None) -> Heap:
    """Return the allocator of a device's memory: with a `guard`, one whose bounds are exact to the byte."""
    return Heap(memory, places) if guard is None else CheckedHeap(memory, guard, places)
