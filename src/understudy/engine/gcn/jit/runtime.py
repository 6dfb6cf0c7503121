"""The compiled parts that depend on no guest: memory helpers and the scheduler, once per process and cache."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Final

import numpy as np

from understudy.engine.gcn.jit import layout
from understudy.engine.gcn.jit.helpers_ir import helpers
from understudy.engine.gcn.jit.native_atomics import atomic
from understudy.engine.gcn.jit.native_clock import host_clock
from understudy.engine.gcn.jit.native_memory import by_lane, in_order, note, page_row, reach
from understudy.engine.gcn.jit.native_scheduler import schedule
from understudy.engine.gcn.jit.native_unmark import unmark
from understudy.ir import llvm
from understudy.ir.improving import Improving
from understudy.ir.object_cache import ObjectCache

FUNCTIONS: Final = (schedule, atomic, note, reach, unmark, page_row, by_lane, in_order, host_clock)
WORTH: Final = 64
"""Batches of groups after which to optimise it."""


class Runtime:
    """Helpers for chunks of `lanes` lanes, their table, and the scheduler: both are called where they are now."""

    def __init__(self, objects: ObjectCache, lanes: int) -> None:
        self._native = Improving(objects, *FUNCTIONS, worth=WORTH, text=helpers(lanes), meanwhile=_look_ahead)
        self.table = np.zeros(len(layout.HELPER_NAMES), np.uint64)
        self.helpers_address = int(self.table.ctypes.data)
        self._code: llvm.Code | None = None
        self.adopt()

    def adopt(self) -> None:
        """A batch was run: take up better code, if there is any. Threads may be running the old one, which stays."""
        code = self._native.use()
        if code is not self._code:
            self._code = code
            for number, name in enumerate(layout.HELPER_NAMES):
                self.table[number] = code.address(name)
            self.host_clock = code.address(host_clock.name)
            self.schedule_address = code.address("schedule")
            self.schedule: Callable[[int], int] = code.function("schedule", ctypes.c_uint64, ctypes.c_void_p)


def _look_ahead() -> None:
    """Load what the first translation needs: LLVM lets other threads run."""
    import understudy.engine.gcn.jit.translator
    import understudy.engine.gcn.threaded.glue
    import understudy.isa.gcn.operations.table
    import understudy.isa.gcn.semantics.source  # noqa: F401


@cache
def shared_runtime(folder: Path | None, lanes: int) -> Runtime:
    """One for all engines of this process."""
    return Runtime(ObjectCache(folder), lanes)
