"""Results tell how many instructions left translated code, and the logger hears of each kernel."""

from __future__ import annotations

import logging

import numpy as np
import pytest

from softcard import Gpu, RefSi
from softcard.amdcl2 import demo_program, load
from softcard.gcn import assemble
from softcard.hsa import bare_code_object, demo_code
from softcard.isa.gcn.target import target
from softcard.refsi import demo_kernels
from softcard.riscv import RV64, assemble_program

LOOP = "s_mov_b32 s8, {rounds}\nagain:\n{body}\ns_sub_u32 s8, s8, 1\ns_cmp_lg_u32 s8, 0\ns_cbranch_scc1 again\ns_endpgm"
ROUNDS = 1000


def kernel(body: str, rounds: int = ROUNDS) -> bytes:
    return bare_code_object(assemble(target("gfx900"), LOOP.format(rounds=rounds, body=body)), "gfx900", sgprs=16)


@pytest.mark.parametrize("threads", [1, 2])
def test_each_launch_has_its_own_count(threads: int) -> None:
    """Also launches in flight together, launches that the device knows, and packets that nobody waits for."""
    with Gpu.open("gfx900", threads=threads) as gpu:
        leaves, stays = gpu.load(kernel("s_icache_inv")), gpu.load(kernel("s_nop 0"))
        expected = [gpu.run(each, "kernel", 64, 64) for each in (leaves, stays)]
        assert expected[0].interpreted >= ROUNDS
        assert expected[1].interpreted < ROUNDS // 10
        for _ in range(3):
            gpu.dispatch(leaves.kernels["kernel"], 64, 64)
            flying = [gpu.dispatch(each.kernels["kernel"], 64, 64) for each in (leaves, stays, leaves)]
            results = [each.wait() for each in reversed(flying)]
            assert [each.interpreted >= ROUNDS for each in results] == [True, False, True]


def test_both_engines_agree_but_for_that() -> None:
    results = []
    for engine in ("jit", "reference"):
        with load(demo_program("tonga", 200406), engine) as program:
            arrays = np.ones(256, np.float32), np.ones(256, np.float32)
            results.append(program.kernel("saxpy").run(256, 64, [*arrays, 2.0]))
    assert results[0] == results[1]
    assert results[0].interpreted == 0
    assert results[1].interpreted == results[1].instructions > 0


def test_harts_run_machine_code_when_they_are_warm() -> None:
    with RefSi.open() as device:
        device.load_elf(demo_kernels())
        arrays = [device.zeros(4 * 20_000, np.int32) for _ in range(3)]
        cold, warm = (device.launch("vector_add", 4, [*arrays, 20_000]) for _ in range(2))
    assert cold.interpreted < cold.instructions // 20
    assert warm.interpreted <= cold.interpreted


def test_the_logger_hears_of_each_kernel(caplog: pytest.LogCaptureFixture) -> None:
    with Gpu.open("gfx900", engine="reference") as gpu:
        gpu.run(demo_code("gfx900"), "saxpy", 64, 64, [2.0, gpu.zeros(64), gpu.zeros(64)])
        assert not caplog.records
        with caplog.at_level(logging.DEBUG, "softcard"):
            result = gpu.run(demo_code("gfx900"), "saxpy", 64, 64, [2.0, gpu.zeros(64), gpu.zeros(64)])
    assert [(each.name, each.getMessage()) for each in caplog.records] == [("softcard", repr(result)[1:-1])]


def test_a_program_by_itself_has_that_count_too() -> None:
    program = assemble_program(".globl _start\n_start: li a0, 6\nli a7, 93\necall\n")
    one, other = (RV64.run(program, engine=engine) for engine in ("reference", "jit"))
    assert one == other
    assert one.interpreted == one.instructions - 1  # the call that ends it
