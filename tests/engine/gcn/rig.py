"""One wave and its algebra, without any instruction; and dispatches of assembled words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from softcard.core.space import Ram
from softcard.engine.gcn.api import Dispatch, Shapes
from softcard.engine.gcn.memory import GpuMemory
from softcard.engine.gcn.reference.lanes import Lanes, View
from softcard.isa.gcn.state import (
    EXEC,
    FULL,
    LDS_BASE,
    LDS_SIZE,
    PRIVATE_BASE,
    SCRATCH_AT,
    SCRATCH_SIZE,
    SHARED_BASE,
    Wave,
    aligned,
)
from softcard.isa.gcn.target import target

CODE = 0x10_0000
DATA = 0x20_0000
SCRATCH = 0x40_0000
DATA_BYTES = 0x1_0000
SHARED = 0x0001_0000_0000_0000
PRIVATE = 0x0002_0000_0000_0000
LDS_BYTES = 256
PRIVATE_BYTES = 32


@dataclass
class At:
    """As much of an instruction as the algebra looks at."""

    pc: int = CODE
    next_pc: int = CODE + 4


class Rig:
    """A wave with LDS, private memory and 64 KiB of data, and the algebra set up for it."""

    def __init__(self, exec_: int = FULL, **options: Any) -> None:
        self.memory = GpuMemory()
        self.data = np.zeros(DATA_BYTES, np.uint8)
        self.memory.map(DATA, self.data, name="data")
        self.scratch = np.zeros(64 * PRIVATE_BYTES, np.uint8)
        self.memory.map(SCRATCH, self.scratch, name="scratch")
        self.lds = aligned(LDS_BYTES)
        self.wave = Wave()
        words = self.wave.words
        words[LDS_BASE], words[LDS_SIZE] = self.lds.ctypes.data, LDS_BYTES
        words[SHARED_BASE], words[PRIVATE_BASE] = SHARED, PRIVATE
        words[SCRATCH_AT], words[SCRATCH_SIZE] = SCRATCH, PRIVATE_BYTES
        self.o = Lanes(self.memory, **options)
        self.view = View(self.wave)
        self.begin(exec_)

    def begin(self, exec_: int, lanes: int | None = None) -> Lanes:
        """Start another instruction."""
        self.wave.set_s64(EXEC, exec_)
        self.o.begin(self.view, At(), lanes)  # type: ignore[arg-type]
        return self.o


def launch(
    words: list[int],
    name: str = "gfx900",
    groups: list[tuple[int, int, int]] | None = None,
    size: tuple[int, int, int] = (64, 1, 1),
    memory: GpuMemory | None = None,
    **options: Any,
) -> Dispatch:
    """A dispatch of these code words at CODE: v0..v2 work-item ids, s0..s2 work-group id, data at DATA if not given."""
    if memory is None:
        memory = GpuMemory()
        memory.map(DATA, Ram(DATA_BYTES), name="data")
    if words:
        memory.map(CODE, np.array(words, np.uint32), name="code")
    table = np.array([(*group, 0) for group in groups or [(0, 0, 0)]], np.uint32)
    options.setdefault("step_limit", 10_000)
    options.setdefault("group_id_sgprs", (0, 1, 2))
    return Dispatch(target(name), memory, CODE, Shapes.of([size], 3), table, **options)
