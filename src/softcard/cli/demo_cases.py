"""The kernels of `softcard demo`, with their data, launches and expected results; and kernels with mistakes."""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, Final, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from softcard.core.checks import FIDELITY, INIT, LANES, LEAKS, MEMORY, RACES, SYNC, WAITS
from softcard.core.errors import ModelBug, SoftcardError
from softcard.core.findings import Finding
from softcard.host.compiling import CompileError, NoCompiler
from softcard.host.hsa.gpu import Executable, Gpu, Local, demo_code
from softcard.host.refsi.buffer import Scalar
from softcard.host.refsi.refsi import RefSi
from softcard.image.assembly.files import assemble_code_object

# ---- all devices -----------------------------------------------------------------------------------------------------

SEED: Final = 2024
Device = TypeVar("Device")
Work = TypeVar("Work")


@dataclass(frozen=True, slots=True)
class Case(Generic[Device, Work]):
    """A demo kernel: its name, what it `shows`, and the function `setup` that prepares it for a size `n`.

    `jit_n` and `reference_n` are the sizes for the JIT engine and for the reference engine.
    """

    kernel: str
    shows: str
    setup: Callable[[Device, int], Work]
    jit_n: int
    reference_n: int


AnyCase = Case[Any, Any]
Measure = Callable[[AnyCase, str, int], tuple[str, int, float, bool]]
"""The type of a function that measures a case on an engine for a size `n`.

It returns the size, the instructions, the million instructions per second, and whether the results are right.
"""


def escape_times(n: int, limit: int) -> NDArray[np.uint32]:
    """Return the Mandelbrot set for n x n points: the steps until each point escapes, at most `limit`."""
    x, y = np.meshgrid(np.arange(n, dtype=np.float64), np.arange(n, dtype=np.float64))
    cr, ci = 3.0 * x / n - 2.25, 2.5 * y / n - 1.25
    zr, zi, steps = np.zeros_like(cr), np.zeros_like(cr), np.zeros((n, n), np.uint32)
    for _ in range(limit):
        inside = zr * zr + zi * zi < 4.0
        steps += inside
        zr, zi = np.where(inside, zr * zr - zi * zi + cr, zr), np.where(inside, 2 * zr * zi + ci, zi)
    return steps


# ---- RefSi and Fletcher ----------------------------------------------------------------------------------------------

HARTS: Final = 4
ALPHA: Final = np.float32(2.5)
REFSI_ESCAPE_LIMIT: Final = 2000


@dataclass(frozen=True, slots=True)
class RefsiWork:
    """A launch with its data on the device; `check` compares the result with NumPy's."""

    size: str
    instances: int | Sequence[int]
    arguments: Sequence[Any]
    check: Callable[[], bool]


def _ints(shape: int | tuple[int, ...], low: int, high: int, dtype: type[Scalar]) -> NDArray[Scalar]:
    values: NDArray[Scalar] = np.random.default_rng(SEED).integers(low, high, shape).astype(dtype)
    return values


def _vector_add(device: RefSi, n: int) -> RefsiWork:
    a, b = device.array(_ints(HARTS * n, -999, 999, np.int32)), device.array(_ints(HARTS * n, 0, 9, np.int32))
    c = device.zeros(HARTS * n, np.int32)
    return RefsiWork(f"{HARTS * n:,}", HARTS, [a, b, c, n], lambda: bool((c.array == a.array + b.array).all()))


def _saxpy(device: RefSi, n: int) -> RefsiWork:
    x, y = device.array(_ints(HARTS * n, -999, 999, np.float32)), device.array(_ints(HARTS * n, 0, 9, np.float32))
    expected = ALPHA * x.array + y.array
    return RefsiWork(f"{HARTS * n:,}", HARTS, [ALPHA, x, y, n], lambda: bool((y.array == expected).all()))


def _matmul(device: RefSi, n: int) -> RefsiWork:
    a, b = device.array(_ints((n, n), -9, 9, np.float32)), device.array(_ints((n, n), 0, 9, np.float32))
    c = device.zeros((n, n))
    return RefsiWork(f"{n} x {n}", n, [a, b, c, n], lambda: bool((c.array == a.array @ b.array).all()))


def _mandelbrot(device: RefSi, n: int) -> RefsiWork:
    out = device.zeros((n, n), np.uint32)
    return RefsiWork(
        f"{n} x {n}",
        (n, n),
        [out, n, n, REFSI_ESCAPE_LIMIT],
        lambda: bool((out.array == escape_times(n, REFSI_ESCAPE_LIMIT)).all()),
    )


def _histogram(device: RefSi, n: int) -> RefsiWork:
    data, bins = device.array(_ints(HARTS * n, 0, 256, np.uint8)), device.zeros(256, np.uint32)
    expected = np.bincount(data.array, minlength=256)
    return RefsiWork(f"{HARTS * n:,} bytes", HARTS, [data, bins, n], lambda: bool((bins.array == expected).all()))


def _crc32(device: RefSi, n: int) -> RefsiWork:
    data, out = device.array(_ints((HARTS, n), 0, 256, np.uint8)), device.zeros(HARTS, np.uint32)
    return RefsiWork(
        f"{HARTS * n:,} bytes",
        HARTS,
        [data, out, n],
        lambda: [int(crc) for crc in out.array] == [zlib.crc32(row.tobytes()) for row in data.array],
    )


def _barrier_sum(device: RefSi, n: int) -> RefsiWork:
    data, partial = device.array(_ints(n, -999, 999, np.int32)), device.zeros(HARTS, np.int64)
    total = device.zeros(1, np.int64)
    return RefsiWork(
        f"{n:,}", HARTS, [data, n, partial, total, HARTS], lambda: int(total.array[0]) == int(data.array.sum())
    )


REFSI_CASES: Final = (
    Case("vector_add", "32-bit integers", _vector_add, 1_000_000, 1_000),
    Case("vector_add_rvv", "vector instructions", _vector_add, 2_000_000, 10_000),
    Case("saxpy", "32-bit floats, fused", _saxpy, 1_000_000, 1_000),
    Case("matmul_f32", "one row per instance", _matmul, 192, 12),
    Case("mandelbrot", "64-bit floats, 2D grid", _mandelbrot, 64, 4),
    Case("histogram", "atomics shared by all harts", _histogram, 500_000, 1_000),
    Case("crc32", "integer bit by bit", _crc32, 500_000, 150),
    Case("barrier_sum", "barrier among harts", _barrier_sum, 4_000_000, 4_000),
)
"""All RefSi cases, in the order of the output."""


def fletcher_sum(rows: int) -> tuple[float, bool]:
    """Run Fletcher's Sum example on `rows` rows; return the time in seconds to the result, and True if it is right."""
    import pyarrow as pa

    from softcard.device.fletcher.kernels import find
    from softcard.host.fletcher.platform import Context, Kernel, Platform

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


# ---- AMD HSA ---------------------------------------------------------------------------------------------------------

AGENT: Final = "gfx900"
BINS: Final = 256
HSA_ESCAPE_LIMIT: Final = 500
FLAGS: Final = ("-ffp-contract=off",)
"""The compiler options: no fused multiply-add, so that results equal NumPy's."""


@dataclass(frozen=True, slots=True)
class HsaWork:
    """A launch with its data on the device; `check` compares the result with NumPy's."""

    size: str
    grid: tuple[int, ...]
    group: tuple[int, ...]
    arguments: Sequence[Any]
    check: Callable[[], bool]


def executable(gpu: Gpu) -> tuple[Executable, str]:
    """Return the loaded demo kernels and a text that names their source.

    They are compiled if a compiler is found, or else loaded from the shipped binary.
    """
    source = files("softcard").joinpath("data", "hsa_kernels.cl").read_text("utf-8")
    try:
        made = gpu.compile(source, options=FLAGS)
    except (NoCompiler, CompileError):
        return gpu.load(demo_code(AGENT)), "the binary that comes with Softcard"
    return made, "compiled just now"


def measure_hsa(case: Case[Gpu, HsaWork], engine: str, n: int, launches: int) -> tuple[str, int, float, bool]:
    """Run a case `launches` times on a GPU. Return its size, wave instructions, rate, and True for right results.

    The rate is in millions of wave instructions per second, for the fastest launch."""
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


def mistake() -> SoftcardError:
    """Run a kernel that stores to an unmapped address and return its error."""
    with Gpu.open(AGENT) as gpu:
        try:
            gpu.run(demo_code(AGENT), "broken", 64, args=[gpu.zeros(32), 32])
        except SoftcardError as error:
            return error
    raise ModelBug("a kernel stored to an unmapped address")


def _hsa_saxpy(gpu: Gpu, n: int) -> HsaWork:
    generator = np.random.default_rng(SEED)
    x, y = (gpu.array(generator.integers(-999, 999, n).astype(np.float32)) for _ in range(2))
    expected = np.float32(2.5) * x + y
    return HsaWork(f"{n:,}", (n,), (256,), [2.5, x, y], lambda: np.array_equal(y, expected))


def _hsa_matmul(gpu: Gpu, n: int) -> HsaWork:
    generator = np.random.default_rng(SEED)
    a, b = (gpu.array(generator.integers(-9, 9, (n, n)).astype(np.float32)) for _ in range(2))
    c = gpu.zeros((n, n))
    return HsaWork(f"{n} x {n}", (n, n), (16, 16), [a, b, c, n], lambda: np.array_equal(c, a @ b))


def _hsa_mandelbrot(gpu: Gpu, n: int) -> HsaWork:
    out = gpu.zeros((n, n), np.uint32)
    return HsaWork(
        f"{n} x {n}",
        (n, n),
        (16, 16),
        [out, n, HSA_ESCAPE_LIMIT],
        lambda: np.array_equal(out, escape_times(n, HSA_ESCAPE_LIMIT)),
    )


def _hsa_histogram(gpu: Gpu, n: int) -> HsaWork:
    data = gpu.array(np.random.default_rng(SEED).integers(0, BINS, n).astype(np.uint8))
    bins = gpu.zeros(BINS, np.int32)
    expected = np.bincount(data, minlength=BINS)
    arguments = [data, n, bins, Local(4 * BINS)]
    return HsaWork(f"{n:,} bytes", (max(n // 64, 256),), (256,), arguments, lambda: np.array_equal(bins, expected))


def _hsa_sort(gpu: Gpu, n: int) -> HsaWork:
    rows = gpu.array(np.random.default_rng(SEED).integers(-999, 999, (n, 16)).astype(np.int32))
    out = gpu.zeros((n, 16), np.int32)
    return HsaWork(f"{n:,} x 16", (n,), (64,), [rows, out], lambda: np.array_equal(out, np.sort(rows, axis=1)))


HSA_CASES: Final = (
    Case("saxpy", "32-bit floats", _hsa_saxpy, 4_000_000, 1_024),
    Case("matmul", "tiles in LDS, barriers", _hsa_matmul, 512, 32),
    Case("mandelbrot", "64-bit floats, EXEC masks", _hsa_mandelbrot, 256, 16),
    Case("histogram", "atomics on LDS and memory", _hsa_histogram, 4_000_000, 4_096),
    Case("sort_private", "private memory (scratch)", _hsa_sort, 65_536, 64),
)
"""All HSA cases, in the order of the output."""
QUICK_DIVISORS: Final = {"matmul": 8, "mandelbrot": 8}
"""The divisors of `n` for --quick, for kernels whose work grows with the square of `n` or faster."""


# ---- mistakes, by check ----------------------------------------------------------------------------------------------

KERNEL: Final = """
.amdgcn_target "amdgcn-amd-amdhsa--gfx900"
.text
{name}:
    s_load_dwordx2 s[4:5], s[0:1], 0x0
    v_lshlrev_b32_e32 v1, 2, v0
    s_waitcnt lgkmcnt(0)
    {body}
out:
    s_endpgm
.rodata
.p2align 6
.amdhsa_kernel {name}
    .amdhsa_user_sgpr_kernarg_segment_ptr 1
    .amdhsa_next_free_vgpr 8
    .amdhsa_next_free_sgpr 10
    .amdhsa_kernarg_size 8
.end_amdhsa_kernel
"""
STORE: Final = "global_store_dword v1, v2, s[4:5]"
BODIES: Final = {
    INIT: ("v_cmp_gt_u32_e32 vcc, v7, v0", "s_and_saveexec_b64 s[6:7], vcc", STORE),
    FIDELITY: (
        "v_cvt_f32_u32_e32 v2, v0",
        "v_rsq_f32_e32 v2, v2",
        "v_cmp_gt_f32_e32 vcc, 0.5, v2",
        "s_and_saveexec_b64 s[6:7], vcc",
        STORE,
    ),
    RACES: ("v_readfirstlane_b32 s6, v0", "v_mov_b32_e32 v1, 0", "v_mov_b32_e32 v2, s6", STORE),
    LANES: ("v_xor_b32_e32 v3, 4, v1", "global_load_dword v2, v3, s[4:5]", "s_waitcnt vmcnt(0)", STORE),
    WAITS: ("global_load_dword v2, v1, s[4:5]", "v_add_u32_e32 v2, v2, v2", STORE),
    SYNC: ("v_readfirstlane_b32 s6, v0", "s_cmp_lg_u32 s6, 0", "s_cbranch_scc1 out", "s_barrier"),
}
"""The assembly kernels that demonstrate the checks, by check.

Their mistakes are an uninitialised register, a branch on a rounded root, waves that store to the same address, lanes
that swap values in memory, a load whose result is used without a wait, and a wave that ends before a barrier.
"""


def _past_end(gpu: Gpu) -> None:
    """Run a kernel with one work-item more than the array has elements."""
    x, y = gpu.zeros(63), gpu.zeros(64)
    gpu.run(demo_code(AGENT), "saxpy", 64, args=[2.0, x, y])


def _leak(gpu: Gpu) -> None:
    """Allocate an array without freeing it."""
    gpu.zeros(1000)


def _assembled(check: str) -> Callable[[Gpu], None]:
    def run(gpu: Gpu) -> None:
        code = assemble_code_object(KERNEL.format(name=check, body="\n    ".join(BODIES[check])))
        gpu.run(code, check, 128, 128, [np.zeros(128, np.uint32)])

    return run


MISTAKES: Final[dict[str, Callable[[Gpu], None]]] = {
    MEMORY: _past_end,
    LEAKS: _leak,
    **{check: _assembled(check) for check in BODIES},
}
"""The functions that make one mistake each, by the check that finds the mistake."""


REQUIRED: Final = {LEAKS: MEMORY, LANES: RACES}
"""The check that another check requires in addition, by the latter's name."""


def check_findings() -> Iterator[tuple[str, Finding]]:
    """Yield the name of each check with the first finding on its example."""
    for check, mistake in MISTAKES.items():
        with Gpu.open(
            AGENT, check=f"{REQUIRED[check]},{check}" if check in REQUIRED else check, threads=1, on_finding="keep"
        ) as gpu:
            mistake(gpu)
        yield check, next(each for each in gpu.findings if isinstance(each, Finding))
