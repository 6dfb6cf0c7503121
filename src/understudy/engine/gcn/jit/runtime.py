"""The compiled parts that depend on no guest: memory helpers and the scheduler, once per process and cache."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np

from understudy.engine.gcn.jit import layout
from understudy.engine.gcn.jit.helpers_ir import helpers
from understudy.engine.gcn.jit.native_atomics import atomic
from understudy.engine.gcn.jit.native_memory import by_lane, in_order, note, page_row
from understudy.engine.gcn.jit.native_scheduler import schedule
from understudy.ir.native import link
from understudy.ir.object_cache import ObjectCache


class Runtime:
    """Helpers for chunks of `lanes` lanes, their table, and the scheduler."""

    def __init__(self, objects: ObjectCache, lanes: int) -> None:
        self._code = link(objects, schedule, atomic, note, page_row, by_lane, in_order, text=helpers(lanes))
        self.table = np.array([self._code.address(name) for name in layout.HELPER_NAMES], np.uint64)
        self.helpers_address = int(self.table.ctypes.data)
        self.schedule_address = self._code.address("schedule")
        self.schedule: Callable[[int], int] = self._code.function("schedule", ctypes.c_uint64, ctypes.c_void_p)


@cache
def shared_runtime(folder: Path | None, lanes: int) -> Runtime:
    """One for all engines of this process."""
    return Runtime(ObjectCache(folder), lanes)
