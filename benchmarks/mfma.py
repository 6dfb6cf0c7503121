"""The speed of matrix instructions and of matrix products.

Whole products on the engine: the demo's kernel, with A and B in LDS and C in accumulation registers; how many times
as long they take with checks; the first launch of a kernel of 2,000 instructions; and one work-group with K = 3072
under `races`, from its first launch on. And the machine code of single instructions, called in a loop on registers
with random numbers of usual sizes. All in CPU time of one thread; the peer is NumPy's sgemm of 1024 x 1024 in the
same run. Denormals, infinities and NaN take slower code.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Sequence
from typing import Any, Final

os.environ["OPENBLAS_NUM_THREADS"] = "1"  # read when NumPy is imported

import numpy as np
import numpy.typing as npt

from harness import Row, alternate, cpu, main, optimised, repeat
from softcard.cli.demo_gemm import GROUP, KINDS, TILE, gemm
from softcard.engine.gcn.matrix import library
from softcard.host.hsa.gpu import Gpu
from softcard.image.assembly.files import assemble_code_object
from softcard.ir.lanes import register_words
from softcard.ir.llvm import host_features
from softcard.ir.native import call, link, native
from softcard.ir.object_cache import ObjectCache
from softcard.isa.gcn.semantics.matrix.table import Matrix, Type, matrices

QUESTION: Final = "mfma"
SIDE: Final = 1024
TARGETS: Final = {
    ("gfx908", "v_mfma_f32_32x32x8f16"): 55.0,
    ("gfx908", "v_mfma_f32_16x16x16f16"): None,
    ("gfx90a", "v_mfma_f32_32x32x8f16"): 45.0,
    ("gfx90a", "v_mfma_f32_32x32x8bf16_1k"): 45.0,
    ("gfx90a", "v_mfma_f32_16x16x16f16"): None,
    ("gfx90a", "v_mfma_f64_16x16x4f64"): 10.0,
    ("gfx942", "v_mfma_f32_32x32x8_f16"): 14.0,
    ("gfx942", "v_mfma_f32_16x16x16_f16"): None,
    ("gfx942", "v_mfma_f32_32x32x8_bf16"): 14.0,
    ("gfx942", "v_mfma_f32_16x16x16_bf16"): None,
    ("gfx942", "v_mfma_f32_32x32x16_fp8_fp8"): 18.0,
    ("gfx942", "v_mfma_f32_16x16x32_fp8_fp8"): None,
    ("gfx942", "v_mfma_f32_32x32x16_bf8_bf8"): 18.0,
    ("gfx942", "v_mfma_f32_32x32x4_xf32"): None,
    ("gfx942", "v_mfma_f32_32x32x2_f32"): 20.0,
    ("gfx942", "v_mfma_f32_16x16x4_f32"): 20.0,
    ("gfx942", "v_mfma_f64_16x16x4_f64"): 10.0,
    ("gfx942", "v_mfma_i32_32x32x16_i8"): 40.0,
    ("gfx942", "v_smfmac_f32_32x32x16_f16"): None,
    ("gfx950", "v_mfma_f32_32x32x16_f16"): None,
    ("gfx950", "v_mfma_f32_32x32x64_f8f6f4"): None,
    ("gfx950", "v_mfma_scale_f32_32x32x64_f8f6f4"): None,
}
"""GFLOP/s with AVX-512; a third without."""
PRODUCTS: Final = {
    ("gfx908", "f16"): 55.0,
    ("gfx908", "f32"): 20.0,
    ("gfx908", "i8"): 40.0,
    ("gfx90a", "f16"): 45.0,
    ("gfx90a", "bf16"): 45.0,
    ("gfx90a", "f32"): 20.0,
    ("gfx90a", "f64"): 10.0,
    ("gfx90a", "i8"): 40.0,
    ("gfx942", "f16"): 14.0,
    ("gfx942", "bf16"): 14.0,
    ("gfx942", "fp8"): 18.0,
    ("gfx942", "f32"): 20.0,
    ("gfx942", "f64"): 10.0,
    ("gfx942", "i8"): 40.0,
    ("gfx950", "f16"): None,
    ("gfx950", "fp8"): None,
}
"""The same of whole products."""
CHECKED: Final = (("gfx908", "f16"), ("gfx90a", "f64"), ("gfx942", "f32"), ("gfx942", "fp8"), ("gfx942", "i8"))
CHECKS: Final = {"races": 4.0, "memory,init,races,waits,sync": 6.0}
"""Settings of checks, and how many times as long a product may take with them."""
CHECKED_SIDE: Final = 512
FP8_BIAS: Final = {"gfx942": 8, "gfx950": 7}
LONG_DEPTH: Final = 3072
LONG_SECONDS: Final = 5.0
FIRST_INSTRUCTIONS: Final = 2000
FIRST_MILLISECONDS: Final = 50.0
WARM: Final = 16
"""The launches after which the code is optimised, if the optimisation of code may end after each of them."""
WARM_CHECKED: Final = 40
"""The number of launches with checks before those that are measured.

Code with checks is compiled quickly at first, and optimised after some million instructions, one region at a time.
"""


@native
def repeated(function: int, a: int, b: int, c: int, d: int, shape: int, count: int) -> int:
    """Call a compiled instruction `count` times."""
    for _number in range(count):
        call(function, a, b, c, d, shape)
    return 0


def elements(rng: np.random.Generator, kind: Type, registers: int) -> npt.NDArray[Any]:
    """Return registers of random elements."""
    count = 64 * registers * 32 // kind.bits
    numbers = rng.standard_normal(count)
    match kind:
        case Type.F16:
            return numbers.astype(np.float16).view(np.uint32)
        case Type.BF16:
            return (numbers.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16).view(np.uint32)
        case Type.F32 | Type.XF32:
            return numbers.astype(np.float32).view(np.uint32)
        case Type.F64:
            words = numbers.view(np.uint32).reshape(-1, 64, 2)
            return np.ascontiguousarray(words.transpose(0, 2, 1)).reshape(-1)
        case Type.I8 | Type.I32:
            return rng.integers(0, 1 << 32, 64 * registers, dtype=np.uint32)
    codes = rng.integers(0x28, 0x50, count, dtype=np.uint8) | rng.integers(0, 2, count, dtype=np.uint8) << 7
    return codes.view(np.uint32)


def one(matrix: Matrix, rounds: int, target: float | None, loop: Any) -> Row:
    """Measure one instruction."""
    rng = np.random.default_rng(1)
    kernel = library.of(matrix)
    code, _ = library.compiled(kernel)
    shapes = library.shapes(kernel)
    index = np.full(64, 0x4444_4444, np.uint32)
    shapes.own.index = index.ctypes.data
    scales = np.full(64, 127, np.uint32)
    if matrix.is_scaled:
        shapes.own.scale_a = shapes.own.scale_b = scales.ctypes.data
    a, b = elements(rng, matrix.a, matrix.a_registers), elements(rng, matrix.b, matrix.b_registers)
    c = elements(rng, matrix.d, matrix.d_registers)
    d = np.zeros_like(c)
    places = [each.ctypes.data for each in (a, b, c, d)]
    operations = 2 * matrix.m * matrix.n * matrix.kept * matrix.blocks
    count = 1 + 20_000_000 // operations
    x = rng.standard_normal((SIDE, SIDE)).astype(np.float32)

    def ours() -> float:
        return cpu(lambda: loop(code.address(kernel.name), *places, ctypes.addressof(shapes), count)) / count

    def sgemm() -> float:
        return cpu(lambda: x @ x)

    mine, peer = alternate(rounds, ours, sgemm)
    best, typical = operations / mine.best / 1e9, operations / mine.median / 1e9
    what, rival = f"{matrix.name} ({matrix.processor})", 2 * SIDE**3 / peer.best / 1e9
    return Row(QUESTION, what, "GFLOP/s", best, typical, "NumPy sgemm", rival, target, absolute=True)


def encoded(agent: str, kind: str, numbers: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return integers as elements of a kind of product."""
    match kind:
        case "bf16":
            return (numbers.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
        case "fp8":
            exponent = np.floor(np.log2(np.maximum(np.abs(numbers), 1))).astype(int)
            fraction = (np.abs(numbers) << 3 >> exponent) - 8
            codes = (exponent + FP8_BIAS[agent] << 3) + fraction + 128 * (numbers < 0)
            return np.where(numbers, codes, 0).astype(np.uint8)
    types = {"f16": np.float16, "f32": np.float32, "f64": np.float64, "i8": np.int8}
    return numbers.astype(types[kind])


class Product:
    """A product of `rows` x `depth` by `depth` x `rows` elements on an agent."""

    def __init__(self, agent: str, kind: str, rows: int, depth: int, check: str = "") -> None:
        rng = np.random.default_rng(1)
        x, y = (rng.integers(-8, 9, (rows, depth)) for _ in range(2))
        self.wanted = x.astype(float) @ y.T.astype(float)
        self.c = np.zeros((rows, rows), {"i8": np.int32, "f64": np.float64}.get(kind, np.float32))
        self.what = f"{kind} ({agent})"
        self.operations = 2 * rows * rows * depth
        self._arguments = [encoded(agent, kind, x), encoded(agent, kind, y), self.c, np.uint32(depth), np.uint32(rows)]
        self._grid = rows // TILE * GROUP, rows // TILE
        self._gpu = Gpu.open(agent, threads=1, check=check)
        self._kernel = self._gpu.load(assemble_code_object(gemm(agent, kind), agent))

    def run(self) -> float:
        """Return the CPU seconds of a launch."""
        return cpu(lambda: self._gpu.run(self._kernel, "gemm", self._grid, (GROUP, 1), self._arguments))

    def close(self) -> None:
        """Close the device; end the program if the last result was wrong, or if a check reported something."""
        findings = list(self._gpu.findings)
        self._gpu.close()
        if not np.array_equal(self.c, self.wanted) or findings:
            raise SystemExit(f"mfma: the product of {self.what} is wrong: {findings}")


def product(agent: str, kind: str, rounds: int, target: float | None) -> Row:
    """Measure a whole product on the engine, in optimised code."""
    one, x = Product(agent, kind, SIDE, SIDE), np.random.default_rng(1).standard_normal((SIDE, SIDE)).astype(np.float32)
    for _ in range(WARM):
        one.run()
        optimised()
    mine, peer = alternate(rounds, one.run, lambda: cpu(lambda: x @ x))
    one.close()
    best, typical, rival = (2 * SIDE**3 / seconds / 1e9 for seconds in (mine.best, mine.median, peer.best))
    what = f"GEMM of {one.what}, {SIDE}^3"
    return Row(QUESTION, what, "GFLOP/s", best, typical, "NumPy sgemm", rival, target, absolute=True)


def checked(agent: str, kind: str, rounds: int) -> Sequence[Row]:
    """Measure how many times as long a product takes with checks."""
    size = CHECKED_SIDE, SIDE
    sides = [Product(agent, kind, *size), *(Product(agent, kind, *size, check) for check in CHECKS)]
    for _ in range(WARM_CHECKED):
        for each in sides:
            each.run()
        optimised()
    plain, *others = alternate(rounds, *(each.run for each in sides))
    for each in sides:
        each.close()
    return [
        Row(
            QUESTION, f"GEMM of {kind} ({agent}) with {check}", "x", samples.best / plain.best,
            samples.median / plain.median, target=target, lower=True, absolute=True,
        )
        for samples, (check, target) in zip(others, CHECKS.items(), strict=True)
    ]  # fmt: skip


def first_launch(rounds: int) -> Row:
    """Measure the first launch of a long kernel: one iteration whose multiplications are repeated."""
    text, agent = gemm("gfx942"), "gfx942"
    begin, end = text.index("    ds_read_b64"), text.index("    v_add_u32 v5, 64, v5")
    repeated_part = text[begin:end]
    count = 1 + (FIRST_INSTRUCTIONS - text.count("\n    ")) // repeated_part.count("\n")
    code = assemble_code_object(text[:end] + repeated_part * count + text[end:], agent)
    a = np.zeros((TILE, KINDS["f16"].depth), np.float16)
    c = np.zeros((TILE, TILE), np.float32)
    arguments = [a, a, c, np.uint32(a.shape[1]), np.uint32(TILE)]

    def launch() -> float:
        with Gpu.open(agent, threads=1) as gpu:
            kernel = gpu.load(code)
            return cpu(lambda: gpu.run(kernel, "gemm", (GROUP, 1), (GROUP, 1), arguments))

    launch()  # compiles the matrix instruction, once for each machine
    samples = repeat(rounds, launch)
    best, typical = 1e3 * samples.best, 1e3 * samples.median
    what = f"first launch of {FIRST_INSTRUCTIONS:,} instructions (gfx942)"
    return Row(QUESTION, what, "ms", best, typical, target=FIRST_MILLISECONDS, lower=True, absolute=True)


def long_tile() -> Row:
    """Measure one work-group with a long loop under `races`, with the compilation of its code."""
    one = Product("gfx942", "fp8", TILE, LONG_DEPTH, "races")
    seconds = one.run()
    one.close()
    what = f"first launch of one work-group of fp8, K = {LONG_DEPTH}, with races (gfx942)"
    return Row(QUESTION, what, "s", seconds, seconds, target=LONG_SECONDS, lower=True, absolute=True)


def measure(quick: bool) -> Sequence[Row]:
    """Return a row for each instruction."""
    share = 1.0 if register_words(host_features()) == 8 else 1 / 3
    loop = link(ObjectCache(), repeated).function(repeated.name, ctypes.c_uint64, *[ctypes.c_uint64] * 7)
    rounds = 3 if quick else 7
    rows = [long_tile(), first_launch(rounds)]
    rows += [product(*key, rounds, target and target * share) for key, target in PRODUCTS.items()]
    rows += [row for key in CHECKED for row in checked(*key, rounds)]
    return rows + [one(matrices()[key], rounds, target and target * share, loop) for key, target in TARGETS.items()]


if __name__ == "__main__":
    main(measure, "Matrix instructions on one thread")
