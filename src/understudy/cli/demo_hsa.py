"""The HSA part of `understudy demo`: OpenCL kernels through an AQL queue, and what NumPy says of their results."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, Final

import numpy as np

from understudy.cli.demo_case import SEED, Case, escape_times
from understudy.core.errors import UnderstudyError
from understudy.host.compiling import CompileError, NoCompiler
from understudy.host.hsa.gpu import Executable, Gpu, Local, demo_code

AGENT: Final = "gfx900"
BINS: Final = 256
ESCAPE_LIMIT: Final = 500
FLAGS: Final = ("-ffp-contract=off",)
"""Products and sums are rounded one after the other, as NumPy does."""


@dataclass(frozen=True, slots=True)
class Work:
    """One launch: `check` compares what came out with NumPy's result."""

    size: str
    grid: tuple[int, ...]
    group: tuple[int, ...]
    arguments: Sequence[Any]
    check: Callable[[], bool]


def executable(gpu: Gpu) -> tuple[Executable, str]:
    """The demo kernels, compiled now where there is a compiler, else as they come with Understudy; which it was."""
    source = files("understudy").joinpath("data", "hsa_kernels.cl").read_text("utf-8")
    try:
        made = gpu.compile(source, options=FLAGS)
    except (NoCompiler, CompileError):
        return gpu.load(demo_code(AGENT)), "the binary that comes with Understudy"
    return made, "compiled just now"


def measure(case: Case[Gpu, Work], engine: str, n: int, launches: int) -> tuple[str, int, float, bool]:
    """Size, wave instructions, million of them per second in the best launch, and whether all results are right."""
    good, best, instructions = True, float("inf"), 0
    with Gpu.open(AGENT, engine=engine) as gpu:
        code, _ = executable(gpu)
        for _ in range(launches):
            work = case.setup(gpu, n)
            start = time.perf_counter()
            result = gpu.run(code, case.kernel, work.grid, work.group, work.arguments)
            best = min(best, time.perf_counter() - start)
            instructions = result.instructions
            good = good and work.check()
    return work.size, instructions, instructions / best / 1e6, good


def mistake() -> str:
    """What a kernel that stores where no memory is says."""
    with Gpu.open(AGENT) as gpu:
        try:
            gpu.run(demo_code(AGENT), "broken", 64, args=[gpu.zeros(32), 32])
        except UnderstudyError as error:
            return str(error)
    return ""


def _saxpy(gpu: Gpu, n: int) -> Work:
    generator = np.random.default_rng(SEED)
    x, y = (gpu.array(generator.integers(-999, 999, n).astype(np.float32)) for _ in range(2))
    expected = np.float32(2.5) * x + y
    return Work(f"{n:,}", (n,), (256,), [2.5, x, y], lambda: np.array_equal(y, expected))


def _matmul(gpu: Gpu, n: int) -> Work:
    generator = np.random.default_rng(SEED)
    a, b = (gpu.array(generator.integers(-9, 9, (n, n)).astype(np.float32)) for _ in range(2))
    c = gpu.zeros((n, n))
    return Work(f"{n} x {n}", (n, n), (16, 16), [a, b, c, n], lambda: np.array_equal(c, a @ b))


def _mandelbrot(gpu: Gpu, n: int) -> Work:
    out = gpu.zeros((n, n), np.uint32)
    return Work(
        f"{n} x {n}",
        (n, n),
        (16, 16),
        [out, n, ESCAPE_LIMIT],
        lambda: np.array_equal(out, escape_times(n, ESCAPE_LIMIT)),
    )


def _histogram(gpu: Gpu, n: int) -> Work:
    data = gpu.array(np.random.default_rng(SEED).integers(0, BINS, n).astype(np.uint8))
    bins = gpu.zeros(BINS, np.int32)
    expected = np.bincount(data, minlength=BINS)
    arguments = [data, n, bins, Local(4 * BINS)]
    return Work(f"{n:,} bytes", (max(n // 64, 256),), (256,), arguments, lambda: np.array_equal(bins, expected))


def _sort(gpu: Gpu, n: int) -> Work:
    rows = gpu.array(np.random.default_rng(SEED).integers(-999, 999, (n, 16)).astype(np.int32))
    out = gpu.zeros((n, 16), np.int32)
    return Work(f"{n:,} x 16", (n,), (64,), [rows, out], lambda: np.array_equal(out, np.sort(rows, axis=1)))


CASES: Final = (
    Case("saxpy", "32-bit floats", _saxpy, 4_000_000, 1_024),
    Case("matmul", "tiles in LDS, barriers", _matmul, 512, 32),
    Case("mandelbrot", "64-bit floats, EXEC masks", _mandelbrot, 256, 16),
    Case("histogram", "atomics on LDS and memory", _histogram, 4_000_000, 4_096),
    Case("sort_private", "private memory (scratch)", _sort, 65_536, 64),
)
"""In the order in which they are shown."""
QUICK_DIVISORS: Final = {"matmul": 8, "mandelbrot": 8}
"""How much smaller `n` is in a hurry, where that counts squared."""
