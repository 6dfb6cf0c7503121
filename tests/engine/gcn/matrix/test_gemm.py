"""A whole matrix product with matrix instructions, LDS and accumulation registers, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from softcard.cli.demo_gemm import GROUP, TILE, gemm
from softcard.host.hsa.gpu import Gpu
from softcard.image.assembly.files import assemble_code_object

AGENTS = ("gfx908", "gfx90a", "gfx942", "gfx950")


@pytest.mark.parametrize("check", ["", "init", "races"])
@pytest.mark.parametrize("agent", AGENTS)
def test_a_product_of_matrices(agent: str, check: str) -> None:
    rows, columns, depth = TILE, 2 * TILE, 64
    rng = np.random.default_rng(1)
    a = rng.integers(-8, 9, (rows, depth)).astype(np.float16)
    b = rng.integers(-8, 9, (columns, depth)).astype(np.float16)
    wanted = a.astype(np.float32) @ b.astype(np.float32).T
    with Gpu.open(agent, check=check, threads=1, on_finding="keep") as gpu:
        kernel = gpu.load(assemble_code_object(gemm(agent), agent))
        for _ in range(3):
            c = np.zeros((rows, columns), np.float32)
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
