"""The compiled code that does not depend on guest code: memory helpers and the scheduler.

There is one copy per process and cache folder.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Final

import numpy as np

from softcard.engine.gcn.host_clock import host_clock
from softcard.engine.gcn.jit import layout
from softcard.engine.gcn.jit.helpers_ir import helpers
from softcard.engine.gcn.jit.native_atomics import atomic
from softcard.engine.gcn.jit.native_clean import clear_dead
from softcard.engine.gcn.jit.native_memory import by_lane, in_order, note, page_row, reach
from softcard.engine.gcn.tiered.native_scheduler import schedule
from softcard.ir import llvm
from softcard.ir.background import Improving
from softcard.ir.object_cache import ObjectCache

FUNCTIONS: Final = (schedule, atomic, note, reach, clear_dead, page_row, by_lane, in_order, host_clock)
WORTH: Final = 64
"""The number of work-group batches after which the runtime is optimised."""


class Runtime:
    """The memory helpers for vectors of `lanes` lanes, their table, and the scheduler, as machine code."""

    def __init__(self, objects: ObjectCache, lanes: int) -> None:
        self._native = Improving(objects, *FUNCTIONS, worth=WORTH, text=helpers(lanes), meanwhile=_import_ahead)
        self.table = np.zeros(len(layout.HELPER_NAMES) + 1, np.uint64)
        self.helpers_address = int(self.table.ctypes.data)
        self._code: llvm.Code | None = None
        self.adopt()

    def provide_matrices(self) -> None:
        """Add the address of the table of matrix instructions to the helper table.

        This is called only for processors with matrix instructions, since it imports a large module."""
        if not self.table[layout.MATRICES]:
            from softcard.engine.gcn.matrix.calls import table

            self.table[layout.MATRICES] = table()

    def adopt(self) -> None:
        """Install optimised runtime code, if it is ready; called after a batch of work-groups.

        The old code stays in memory, as threads may be running it.
        """
        code = self._native.use()
        if code is not self._code:
            self._code = code
            for number, name in enumerate(layout.HELPER_NAMES):
                self.table[number] = code.address(name)
            self.host_clock = code.address(host_clock.name)
            self.schedule_address = code.address("schedule")
            self.schedule: Callable[[int], int] = code.function("schedule", ctypes.c_uint64, ctypes.c_void_p)


def _import_ahead() -> None:
    """Import the modules that the first translation needs, while LLVM works on another thread."""
    import softcard.engine.gcn.threaded.stubs
    import softcard.engine.gcn.tiered.translator
    import softcard.isa.gcn.operations.table
    import softcard.isa.gcn.semantics.source  # noqa: F401


@cache
def shared_runtime(folder: Path | None, lanes: int) -> Runtime:
    """Return the runtime code that all engines of this process share."""
    return Runtime(ObjectCache(folder), lanes)
