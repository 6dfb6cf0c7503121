"""A program: the records of the code that can be reached from a place, in the order in which handlers follow them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from understudy.engine.gcn.jit.basics import BlockKey
from understudy.engine.gcn.jit.spans import holds
from understudy.engine.gcn.memory import GpuMemory
from understudy.engine.gcn.threaded import records
from understudy.engine.gcn.threaded.library import Library
from understudy.isa.gcn.state import VGPRS

HEAT: Final = 1 << 12
"""Counters of a thread; blocks beyond share them."""


@dataclass(slots=True, eq=False, weakref_slot=True)
class Program:
    """Records at fixed host addresses. `blocks`: where each block's first record lies, by place.

    `spans` is the code that they were made of, as runs of bytes; `is_closed` tells that no way leads out of it.
    `entered` are places where waves begin or go on, with their records.
    """

    start: BlockKey
    spans: list[tuple[int, bytes]]
    is_closed: bool
    library: Library
    records: npt.NDArray[np.uint64]
    blocks: dict[BlockKey, int]
    counts: dict[BlockKey, int]
    heats: dict[BlockKey, int]
    controls: dict[int, int]
    """The host's float control under each MODE."""
    handled: npt.NDArray[np.int32]
    """Which of the words of `records` are addresses of handlers."""
    entered: dict[BlockKey, int] = field(default_factory=dict)
    replaced: dict[BlockKey, object] = field(default_factory=dict)
    """Blocks that optimised code has taken over, and that code."""
    covered: set[BlockKey] = field(default_factory=set)
    """Blocks that are part of optimised code, wherever that is entered."""
    _further: list[Any] = field(default_factory=list)

    @property
    def address(self) -> int:
        """What runs a record: the same for all programs."""
        return self.library.glue["enter"]

    @property
    def base(self) -> int:
        """Host address of the records."""
        return int(self.records.ctypes.data)

    @property
    def rows(self) -> dict[BlockKey, tuple[int, int]]:
        """Of each place where it is entered, and not optimised code: the function, and the record it is called with."""
        entered = self.entered.items()
        return {place: (self.address, record) for place, record in entered if place not in self.replaced}

    @property
    def live(self) -> dict[BlockKey, int]:
        """Handlers leave all vector registers in memory."""
        return dict.fromkeys(self.rows, VGPRS)

    def holds(self, memory: GpuMemory) -> bool:
        """Whether memory still has the code that this was made of."""
        return holds(self.spans, memory)

    def patch(self, addresses: dict[int, int]) -> None:
        """Have handlers at other addresses, which do the same. Threads may be running the records."""
        now = self.records[self.handled]
        for old, new in addresses.items():
            self.records[self.handled[now == old]] = new

    def enter(self, place: BlockKey) -> bool:
        """Have a block be one that can be entered; False where none begins there."""
        if place in self.entered:
            return True
        at = self.blocks.get(place)
        if at is None:
            return False
        record = np.zeros(records.BEGIN_BYTES // 8, np.uint64)
        self._further.append(record)
        fill_begin(record, 0, self.library, place[0], self.controls[place[1]], self.base + at)
        self.entered[place] = int(record.ctypes.data)
        return True

    def replace(self, place: BlockKey, function: int, entry: int, code: object) -> None:
        """Have a block run optimised code. Threads may be running it: what is read last is written last."""
        self.replaced[place] = code
        words, at = self.records, self.blocks[place] // 8
        words[at + records.REGION_AT // 8] = function
        words[at + records.REGION_AT // 8 + 1] = entry
        words[at] = self.library.glue["hot"]


def fill_begin(words: npt.NDArray[np.uint64], at: int, library: Library, pc: int, control: int, target: int) -> None:
    """Write the record where waves begin or go on at an address, under a float control."""
    words[at] = library.glue["begin"]
    words[at + 1] = pc
    words[at + records.CONTROL_AT // 8] = control
    words[at + records.BEGIN_TARGET_AT // 8] = target
