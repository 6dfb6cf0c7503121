"""A heap under the check of memory: every block ends at its very byte, and what was freed stays known for a while.

A block has pages of its own, and what is behind its last byte on its last page lies behind a wall (`Guarded`): accesses
there are told of, and find and leave what they would without the check. The page behind that is nobody's, as always.
What is freed goes into quarantine: its addresses are given to nobody, and its memory lies behind a wall as a whole.
"""

from __future__ import annotations

from collections import deque
from typing import Any, Final

import numpy as np

from understudy.core.errors import BeyondModel, RuleError
from understudy.core.memory_check import HOST, PRIVATE_MEMORY, Guarded, MemoryCheck
from understudy.core.space import PAGE_SIZE, Ram
from understudy.core.words import align_up
from understudy.device.hsa.heap import LARGE_PLACES, LINE_BYTES, MEMORY, Block, Heap, Places, checked_block
from understudy.engine.gcn.memory import GpuMemory
from understudy.engine.gcn.memory_type import COARSE, MemoryType
from understudy.isa.gcn.state import LANES

KEPT: Final = 256
"""Freed blocks and mappings that are kept in quarantine."""
KEPT_BYTES: Final = 64 << 20
"""What they may hold; the last one is kept in any case."""
GAP: Final = 1 << 20
"""Bytes behind the private memory of a wave that are nobody's."""
WORD: Final = 4
POOLED: Final = ("kernel arguments", "signal")
"""Blocks of launches: given out again at once, at the same place, so that a launch changes no mapping."""
WHOLE: Final = ("code object",)
"""Blocks whose last page is theirs as a whole: compilers put what they like behind code."""


class CheckedHeap(Heap):
    """A `Heap` that tells a check of its blocks."""

    STATE = (*Heap.STATE, "allocations", "_rams", "_quarantine", "_pool", "_arenas")

    def __init__(self, memory: GpuMemory, check: MemoryCheck, places: Places = LARGE_PLACES) -> None:
        super().__init__(memory, places)
        self.check = check
        self.allocations = check.allocations
        memory.guard = check
        self._rams: dict[int, tuple[Ram, int]] = {}
        """By address: memory of the device's own, and how many bytes of it were asked for."""
        self._quarantine: deque[tuple[int, int]] = deque()
        """Freed addresses, oldest first, and how many bytes each holds on to."""
        self._pool: dict[tuple[int, int, MemoryType], list[int]] = {}
        self._arenas: dict[int, tuple[int, int, int]] = {}
        """Private memory by its address: all its bytes, from one wave to the next, and those of a wave."""

    def allocate(self, size: int, alignment: int = 64, type: MemoryType = COARSE, name: str = MEMORY) -> int:
        """See `Heap.allocate`."""
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
        """Map the first `used` bytes of RAM as memory, and the rest behind a wall."""
        whole = used == ram.size
        what = ram if whole else np.frombuffer(ram.view, np.uint8)[:used]
        self.gpu.map(address, what, writable=writable, name=name, type=type)
        if not whole:
            self.gpu.map(address + used, Guarded(ram, used), name=f"what is behind {name}")
        self._rams[address] = ram, used

    def is_shared(self, address: int) -> bool:
        """Whether freeing the block changes no mapping."""
        found = self.allocations.at(address)
        return found is not None and found.name in POOLED

    def free(self, address: int) -> None:
        """See `Heap.free`; what is no living block is told of as well."""
        with self._lock:
            block = self._blocks.pop(address, None)
            if block is None:
                self.check.not_freed(address)
                raise RuleError(f"no block begins at {address:#x} that could be freed")
            if self.is_shared(address):
                mapped = self.gpu.find(address)
                key = block.size, LINE_BYTES, mapped.type  # type: ignore[union-attr]
                self._pool.setdefault(key, []).append(address)
                return
            self.check.freed(address)
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
        """See `Heap.map`."""
        with self._lock:
            address = super().map(what, name, writable, copies, type)
            block = self._windows[address]
            if isinstance(what, Ram) and used is not None and copies == 1:
                self.gpu.unmap(address)
                self._show(address, what, used, name, writable, type)
                self.allocations.add(name, address, used, owner)
            else:
                self.allocations.add(name, address, block.size * copies, owner)
        return address

    def unmap(self, address: int) -> None:
        """See `Heap.unmap`. The host's own memory is not there any more then, the device's is behind a wall."""
        with self._lock:
            block = self._windows.pop(address, None)
            if block is None:
                self.check.not_freed(address)
                raise RuleError(f"nothing was mapped at {address:#x} that could be unmapped")
            self.check.freed(address)
            if address in self._rams:
                self._hide(address)
                return
            for place in block.places:
                self.gpu.unmap(place)
            self._keep(address, 0)

    # ---- private memory ------------------------------------------------------------------------------------------

    def allocate_private(self, lane_bytes: int, waves: int) -> tuple[int, int]:
        """Private memory for so many waves, far from each other: its address, and how many bytes all of it takes.

        What lies between that of two waves is behind a wall.
        """
        lane_bytes = align_up(lane_bytes, WORD)
        own = lane_bytes * LANES
        stride = align_up(own, PAGE_SIZE) + GAP
        size = stride * waves
        with self._lock:
            address = self._near.allocate(size, PAGE_SIZE) or self._space.allocate(size, PAGE_SIZE)
            if not address:
                raise BeyondModel(f"{size} bytes of private memory: no guest addresses are left")
            ram = Ram(size)
            data = np.frombuffer(ram.view, np.uint8)
            for at in range(0, size, stride):
                self.gpu.map(address + at, data[at : at + own], name=PRIVATE_MEMORY)
                wall = Guarded(ram, at + own, at + stride)
                self.gpu.map(address + at + own, wall, name=f"what is behind {PRIVATE_MEMORY}")
                self.allocations.add(PRIVATE_MEMORY, address + at, own, near=GAP)
            self.check.strides[address] = lane_bytes, stride
            self._arenas[address] = size, stride, own
        return address, size

    def free_private(self, address: int) -> None:
        """Give that back."""
        with self._lock:
            size, stride, own = self._arenas.pop(address)
            del self.check.strides[address]
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
        self._keep(address, ram.size)

    def _uncover(self, address: int, ram: Ram, used: int) -> str:
        if used < ram.size:
            self.gpu.unmap(address + used)
        return self.gpu.unmap(address).name

    def _keep(self, address: int, size: int) -> None:
        """Into quarantine, out of which the oldest go."""
        self._quarantine.append((address, size))
        held = sum(size for _, size in self._quarantine)
        while len(self._quarantine) > 1 and (len(self._quarantine) > KEPT or held > KEPT_BYTES):
            oldest, its = self._quarantine.popleft()
            held -= its
            if its:
                self.gpu.unmap(oldest)
            self.allocations.forget(oldest)
            self._give_back(oldest - oldest % PAGE_SIZE)

    def _give_back(self, start: int) -> None:
        (self._near if self._near.base <= start < self._near.end else self._space).free(start)
