"""The speed of matrix instructions and of matrix products.

Whole products on the engine: the demo's kernel, with A and B in LDS and C in accumulation registers. And the machine
code of single instructions, called in a loop on registers with random numbers of usual sizes, in CPU time
of one thread; the peer is NumPy's sgemm of 1024 x 1024 in the same run. Denormals, infinities and NaN take slower code.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Sequence
from typing import Any, Final

os.environ["OPENBLAS_NUM_THREADS"] = "1"  # read when NumPy is imported

import numpy as np
import numpy.typing as npt

from harness import Row, alternate, cpu, main
from softcard.cli.demo_gemm import GROUP, TILE, gemm
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
PRODUCTS: Final = {"gfx908": 55.0, "gfx90a": 45.0, "gfx942": 14.0}
"""The same of whole products."""
WARM: Final = 8
"""The launches after which the code is optimised."""


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


def product(agent: str, rounds: int, target: float | None) -> Row:
    """Measure a whole product on the engine, in optimised code."""
    rng = np.random.default_rng(1)
    a, b = (rng.integers(-8, 9, (SIDE, SIDE)).astype(np.float16) for _ in range(2))
    c, x = np.zeros((SIDE, SIDE), np.float32), rng.standard_normal((SIDE, SIDE)).astype(np.float32)
    grid, arguments = (SIDE // TILE * GROUP, SIDE // TILE), [a, b, c, np.uint32(SIDE), np.uint32(SIDE)]
    with Gpu.open(agent, threads=1) as gpu:
        kernel = gpu.load(assemble_code_object(gemm(agent), agent))

        def ours() -> float:
            return cpu(lambda: gpu.run(kernel, "gemm", grid, (GROUP, 1), arguments))

        for _ in range(WARM):
            ours()
        mine, peer = alternate(rounds, ours, lambda: cpu(lambda: x @ x))
    if not np.array_equal(c, a.astype(np.float32) @ b.astype(np.float32).T):
        raise SystemExit(f"mfma: the product on {agent} is wrong")
    best, typical, rival = (2 * SIDE**3 / seconds / 1e9 for seconds in (mine.best, mine.median, peer.best))
    what = f"GEMM of halves, {SIDE}^3 ({agent})"
    return Row(QUESTION, what, "GFLOP/s", best, typical, "NumPy sgemm", rival, target, absolute=True)


def measure(quick: bool) -> Sequence[Row]:
    """Return a row for each instruction."""
    share = 1.0 if register_words(host_features()) == 8 else 1 / 3
    loop = link(ObjectCache(), repeated).function(repeated.name, ctypes.c_uint64, *[ctypes.c_uint64] * 7)
    rounds = 3 if quick else 7
    rows = [product(agent, rounds, target * share) for agent, target in PRODUCTS.items()]
    return rows + [one(matrices()[key], rounds, target and target * share, loop) for key, target in TARGETS.items()]


if __name__ == "__main__":
    main(measure, "Matrix instructions on one thread")
