"""The kernels of `understudy demo`: their data, their launch, and what NumPy says the result must be."""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from understudy.cli.demo_case import SEED, Case, escape_times
from understudy.host.refsi.buffer import Buffer
from understudy.host.refsi.refsi import RefSi

HARTS: Final = 4
ALPHA: Final = np.float32(2.5)
ESCAPE_LIMIT: Final = 2000


@dataclass(frozen=True, slots=True)
class Work:
    """One launch with its data on the device: `check` compares the result with NumPy's."""

    size: str
    instances: int | Sequence[int]
    arguments: Sequence[Any]
    check: Callable[[], bool]


def _ints(shape: Any, low: int, high: int, dtype: Any) -> NDArray[Any]:
    values: NDArray[Any] = np.random.default_rng(SEED).integers(low, high, shape).astype(dtype)
    return values


def _vector_add(device: RefSi, n: int) -> Work:
    a, b = device.array(_ints(HARTS * n, -999, 999, np.int32)), device.array(_ints(HARTS * n, 0, 9, np.int32))
    c = device.zeros(HARTS * n, np.int32)
    return Work(f"{HARTS * n:,}", HARTS, [a, b, c, n], lambda: bool((c.array == a.array + b.array).all()))


def _saxpy(device: RefSi, n: int) -> Work:
    x, y = device.array(_ints(HARTS * n, -999, 999, np.float32)), device.array(_ints(HARTS * n, 0, 9, np.float32))
    expected = ALPHA * x.array + y.array
    return Work(f"{HARTS * n:,}", HARTS, [ALPHA, x, y, n], lambda: bool((y.array == expected).all()))


def _matmul(device: RefSi, n: int) -> Work:
    a, b = device.array(_ints((n, n), -9, 9, np.float32)), device.array(_ints((n, n), 0, 9, np.float32))
    c = device.zeros((n, n))
    return Work(f"{n} x {n}", n, [a, b, c, n], lambda: bool((c.array == a.array @ b.array).all()))


def _mandelbrot(device: RefSi, n: int) -> Work:
    out = device.zeros((n, n), np.uint32)
    return Work(
        f"{n} x {n}",
        (n, n),
        [out, n, n, ESCAPE_LIMIT],
        lambda: bool((out.array == escape_times(n, ESCAPE_LIMIT)).all()),
    )


def _histogram(device: RefSi, n: int) -> Work:
    data, bins = device.array(_ints(HARTS * n, 0, 256, np.uint8)), device.zeros(256, np.uint32)
    expected = np.bincount(data.array, minlength=256)
    return Work(f"{HARTS * n:,} bytes", HARTS, [data, bins, n], lambda: bool((bins.array == expected).all()))


def _crc32(device: RefSi, n: int) -> Work:
    data, out = device.array(_ints((HARTS, n), 0, 256, np.uint8)), device.zeros(HARTS, np.uint32)
    return Work(
        f"{HARTS * n:,} bytes",
        HARTS,
        [data, out, n],
        lambda: [int(crc) for crc in out.array] == [zlib.crc32(row.tobytes()) for row in data.array],
    )


def _barrier_sum(device: RefSi, n: int) -> Work:
    data, partial = device.array(_ints(n, -999, 999, np.int32)), device.zeros(HARTS, np.int64)
    total: Buffer = device.zeros(1, np.int64)
    return Work(f"{n:,}", HARTS, [data, n, partial, total, HARTS], lambda: int(total.array[0]) == int(data.array.sum()))


CASES: Final = (
    Case("vector_add", "32-bit integers", _vector_add, 1_000_000, 1_000),
    Case("vector_add_rvv", "vector instructions", _vector_add, 2_000_000, 10_000),
    Case("saxpy", "32-bit floats, fused", _saxpy, 1_000_000, 1_000),
    Case("matmul_f32", "one row per instance", _matmul, 192, 12),
    Case("mandelbrot", "64-bit floats, 2D grid", _mandelbrot, 64, 4),
    Case("histogram", "atomics shared by all harts", _histogram, 500_000, 1_000),
    Case("crc32", "integer bit by bit", _crc32, 500_000, 150),
    Case("barrier_sum", "barrier among harts", _barrier_sum, 4_000_000, 4_000),
)
"""In the order in which they are shown."""


def fletcher_sum(rows: int) -> tuple[float, bool]:
    """Fletcher's Sum example over a column: seconds from queueing to the result, and whether that is NumPy's."""
    import pyarrow as pa

    from understudy.device.fletcher.kernels import find
    from understudy.host.fletcher.platform import Context, Kernel, Platform

    design, numbers = find("sum"), _ints(rows, -999, 999, np.int64)
    batch = pa.record_batch([pa.array(numbers)], schema=design.schemas[0])
    with Platform(design) as platform, Context(platform) as context:
        start = time.perf_counter()
        context.queue_record_batch(batch)
        context.enable()
        kernel = Kernel(context)
        kernel.start()
        kernel.wait_for_finish()
        result = kernel.get_return(np.int64)
        return time.perf_counter() - start, bool(result == numbers.sum())
