"""What the kernels of memory.cl are given, and what the check of memory is to say of each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from softcard.core.allocations import OUT_OF_BOUNDS, USE_AFTER_FREE, WILD
from softcard.core.memory_check import LDS, MISALIGNED, PRIVATE
from softcard.host.hsa.gpu import Gpu, Local

SOURCE = (Path(__file__).parent / "memory.cl").read_text("utf-8")
Arguments = Callable[[Gpu], list[Any]]


@dataclass(frozen=True)
class Case:
    """A kernel of memory.cl. `access` and `lanes` of the first finding; `faults`: the kernel cannot go on."""

    name: str
    kind: str
    arguments: Arguments
    access: str
    lanes: tuple[int, ...]
    distance: int | None = None
    grid: int = 64
    faults: bool = False


def ints(*sizes: int) -> Arguments:
    """Arrays of so many int32."""
    return lambda gpu: [gpu.zeros(size, np.int32) for size in sizes]


def floats(*sizes: int) -> Arguments:
    """Arrays of so many float32."""
    return lambda gpu: [gpu.zeros(size) for size in sizes]


def then(first: Arguments, *more: Any) -> Arguments:
    """Arguments and more of them."""
    return lambda gpu: [*first(gpu), *more]


def _indices(gpu: Gpu) -> list[Any]:
    index = np.arange(64, dtype=np.int32)
    index[20] = 70
    return [gpu.array(index)]


def _freed(gpu: Gpu) -> list[int]:
    gone, alive = gpu.zeros(64, np.int32), gpu.zeros(64, np.int32)
    place = gpu.address(gone)
    gpu.free(gone)
    return [place, gpu.address(alive)]


def _places(gpu: Gpu) -> list[Any]:
    place, alive = _freed(gpu)
    return [gpu.array([alive, place], np.uint64), gpu.zeros(64, np.int32)]


ALL = tuple(range(64))
CASES = (
    Case("store_past", OUT_OF_BOUNDS, then(floats(60), 60), "write", (60, 61, 62, 63), 1),
    Case("load_past", OUT_OF_BOUNDS, floats(64, 64), "read", (63,), 1),
    Case("store_before", OUT_OF_BOUNDS, ints(64), "write", (0,), -4, faults=True),
    Case("load_vector", OUT_OF_BOUNDS, then(floats(64, 128), 64), "read", (16,), 1),
    Case("store_vector", OUT_OF_BOUNDS, lambda gpu: [gpu.zeros(64, np.float64), 64], "write", (32,), 1),
    Case("store_byte", OUT_OF_BOUNDS, lambda gpu: [gpu.zeros(50, np.int8), 50], "write", (50,), 1),
    Case("load_half", OUT_OF_BOUNDS, lambda gpu: [gpu.zeros(33, np.int16), gpu.zeros(64, np.int32), 33], "read",
         tuple(range(33, 64)), 1),
    Case("uniform_load", OUT_OF_BOUNDS, then(ints(5, 64), 5), "read", (), 1),
    Case("gather", OUT_OF_BOUNDS, lambda gpu: [*_indices(gpu), gpu.zeros(64), gpu.zeros(64), 64], "read", (20,), 25),
    Case("scatter", OUT_OF_BOUNDS, lambda gpu: [*_indices(gpu), gpu.zeros(64), 64], "write", (20,), 25),
    Case("loop_inclusive", OUT_OF_BOUNDS, then(ints(130, 64), 130), "read", (2,), 1),
    Case("pitch", OUT_OF_BOUNDS, then(ints(8 * 8), 8, 8), "write", (7,), 1),
    Case("structure", OUT_OF_BOUNDS, ints(4 * 64, 64), "read", (63,), 13),
    Case("wrong_type", OUT_OF_BOUNDS, lambda gpu: [gpu.zeros(40, np.int8), 40], "write", tuple(range(10, 40)), 1),
    Case("other_array", OUT_OF_BOUNDS, then(ints(64, 64), 32), "read", tuple(range(2, 64)), 1, faults=True),
    Case("group_rounding", OUT_OF_BOUNDS, then(ints(100), 100), "read", (36,), 1, grid=128),
    Case("reversed", OUT_OF_BOUNDS, then(ints(64, 64), 64), "read", (0,), 1),
    Case("unsigned_underflow", OUT_OF_BOUNDS, ints(64, 64), "read", (0,), -4, faults=True),
    Case("atomic_past", OUT_OF_BOUNDS, ints(64), "atomic", (63,), 1),
    Case("atomic_misaligned", MISALIGNED, lambda gpu: [gpu.zeros(260, np.int8)], "atomic", ALL, None, faults=True),
    Case("lds_read", LDS, ints(64), "read", (63,), 1),
    Case("lds_write", LDS, then(ints(64), Local(4 * 64)), "write", tuple(range(32, 64)), 1),
    Case("lds_byte", LDS, then(ints(64), Local(64)), "write", (63,), 1),
    Case("lds_atomic", LDS, ints(64), "atomic", (63,), 1),
    Case("private_read", PRIVATE, then(ints(64), 0), "read", ALL),
    Case("private_write", PRIVATE, then(ints(64), 3), "write", ALL),
    Case("pointer_in_memory", USE_AFTER_FREE, _places, "read", ALL, 0),
    Case("freed", USE_AFTER_FREE, lambda gpu: [*_freed(gpu), gpu.zeros(64, np.int32)], "read", ALL, 0),
    Case("freed_store", USE_AFTER_FREE, _freed, "write", ALL, 0),
    Case("null_pointer", WILD, ints(64, 64), "read", ALL, faults=True),
)  # fmt: skip


def marked(name: str) -> int:
    """The line of the source with the mistake of a kernel."""
    lines = SOURCE.splitlines()
    start = next(at for at, line in enumerate(lines) if line.startswith(f"kernel void {name}("))
    return next(at for at, line in enumerate(lines[start:], start + 1) if "BUG" in line)
