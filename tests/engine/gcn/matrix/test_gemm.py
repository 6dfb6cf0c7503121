"""A whole matrix product with matrix instructions, LDS and accumulation registers, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from softcard.cli.demo_gemm import GROUP, KINDS, TILE, gemm
from softcard.host.hsa.gpu import Gpu
from softcard.image.assembly.files import assemble_code_object

AGENTS = ("gfx908", "gfx90a", "gfx942", "gfx950")


FP8 = {"gfx942": 0x40, "gfx950": 0x38}
"""The code of 1.0 in FP8; 0.5, 2 and 4 are 8 codes apart."""


def encoded(kind: str, agent: str, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Numbers from -8 to 8 as elements of the kind, and their values."""
    if kind == "fp8":
        powers = numbers % 4
        return (FP8[agent] + 8 * (powers - 1) + 128 * (numbers < 0)).astype(np.uint8), np.sign(numbers + 0.5) * 2.0 ** (
            powers - 1
        )
    if kind == "bf16":
        return (numbers.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16), numbers.astype(float)
    types = {"f16": np.float16, "f32": np.float32, "f64": np.float64, "i8": np.int8}
    return numbers.astype(types[kind]), numbers.astype(float)


OTHERS = [
    (agent, kind)
    for kind in KINDS
    for agent in AGENTS
    if kind != "f16" and (agent, kind) not in [("gfx908", "bf16"), ("gfx908", "f64")]
    and not (kind == "fp8" and agent in ("gfx908", "gfx90a"))
]  # fmt: skip


@pytest.mark.parametrize(("agent", "kind"), OTHERS)
def test_products_of_other_types(agent: str, kind: str) -> None:
    product_of(agent, "memory,waits", kind)


@pytest.mark.parametrize("check", ["", "init", "races", "waits"])
@pytest.mark.parametrize("agent", AGENTS)
def test_a_product_of_matrices(agent: str, check: str) -> None:
    product_of(agent, check, "f16")


def product_of(agent: str, check: str, kind: str) -> None:
    rows, columns, depth = TILE, 2 * TILE, 64
    rng = np.random.default_rng(1)
    a, x = encoded(kind, agent, rng.integers(-8, 9, (rows, depth)))
    b, y = encoded(kind, agent, rng.integers(-8, 9, (columns, depth)))
    wanted = x @ y.T
    result = {"i8": np.int32, "f64": np.float64}.get(kind, np.float32)
    with Gpu.open(agent, check=check, threads=1, on_finding="keep") as gpu:
        kernel = gpu.load(assemble_code_object(gemm(agent, kind), agent))
        for _ in range(3):
            c = np.zeros((rows, columns), result)
            grid = columns // TILE * GROUP, rows // TILE
            gpu.run(kernel, "gemm", grid, (GROUP, 1), [a, b, c, np.uint32(depth), np.uint32(columns)])
            assert (c == wanted).all()
        assert not gpu.findings


@pytest.mark.parametrize("engine", ["reference", "jit"])
def test_an_accumulator_that_was_not_cleared_is_found(engine: str) -> None:
    text = gemm("gfx908").replace("    v_accvgpr_write_b32 a5, 0\n", "")
    with Gpu.open("gfx908", check="init", engine=engine, threads=1, on_finding="keep") as gpu:
        kernel = gpu.load(assemble_code_object(text, "gfx908"))
        a = np.ones((TILE, 32), np.float16)
        for _ in range(2):
            c = np.zeros((TILE, TILE), np.float32)
            gpu.run(kernel, "gemm", (GROUP, 1), (GROUP, 1), [a, a, c, np.uint32(32), np.uint32(TILE)])
        assert {found.name for found in gpu.findings} == {"init/undefined-result"}
