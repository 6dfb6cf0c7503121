"""What the kernels of races.cl are given, and what the check of races is to say of each."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from softcard.host.hsa.gpu import Gpu

SOURCE = (Path(__file__).parent / "races.cl").read_text("utf-8")
GROUP = 256


@dataclass(frozen=True)
class Case:
    """A kernel of races.cl: sizes of its arrays (and numbers behind them), one kind of race that there is."""

    name: str
    kind: str
    space: str
    sizes: tuple[int, ...] = (1024, 1024)
    numbers: tuple[int, ...] = ()
    type: Any = np.int32

    def arguments(self, gpu: Gpu) -> list[Any]:
        """New arrays of zeros; of two, the second counts up."""
        arrays = [gpu.zeros(size, self.type) for size in self.sizes]
        if len(arrays) == 2 and self.sizes[1] == 1024:
            arrays[1][:] = np.arange(1024)
        return [*arrays, *self.numbers]


CASES = (
    Case("reduce", "read-write", "LDS"),
    Case("first_barrier", "read-write", "LDS"),
    Case("scan", "write-read", "LDS"),
    Case("transpose", "read-write", "LDS"),
    Case("double_buffer", "read-write", "LDS", numbers=(4,)),
    Case("tile", "read-write", "LDS", numbers=(4,)),
    Case("broadcast", "write-read", "LDS"),
    Case("lds_counter", "write-atomic", "LDS"),
    Case("lds_histogram", "write-write", "LDS"),
    Case("lds_result", "read-atomic", "LDS"),
    Case("lds_halo", "read-write", "LDS"),
    Case("lds_overlap", "write-write", "LDS"),
    Case("stencil", "read-write", "global"),
    Case("histogram", "write-read", "global"),
    Case("accumulate", "write-read", "global"),
    Case("overlap", "write-write", "global", (1024,)),
    Case("reversed", "write-read", "global"),
    Case("group_fence", "read-write", "global"),
    Case("barrier_of_groups", "write-read", "global"),
    Case("bytes", "write-write", "global", (2048,), type=np.uint8),
    Case("halves", "write-write", "global", (4096,), type=np.uint16),
    Case("reset", "atomic-write", "global"),
    Case("message", "write-read", "global", (2, 1, 4)),
    Case("plain_flag", "write-read", "global", (2, 1, 4)),
    Case("last_group", "write-read", "global", (4, 1, 4)),
    Case("lock", "write-read", "global", (1, 1)),
    Case("only_acquire", "write-read", "global", (2, 1, 4)),
)


def marked(name: str) -> int:
    """The line of the source with the mistake of a kernel."""
    lines = SOURCE.splitlines()
    start = next(at for at, line in enumerate(lines) if line.startswith(f"kernel void {name}("))
    return next(at for at, line in enumerate(lines[start:], start + 1) if "BUG" in line)
