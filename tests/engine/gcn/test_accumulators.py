"""Accumulation registers on all tiers: a loop that keeps them, with and without the check of definedness."""

from __future__ import annotations

import numpy as np
import pytest

from softcard.host.hsa.gpu import Gpu
from softcard.image.assembly.files import assemble_code_object

KERNEL = """
.amdgcn_target "amdgcn-amd-amdhsa--gfx908"
.text
k:
    s_load_dwordx2 s[4:5], s[0:1], 0x0
    v_lshlrev_b32 v2, 2, v0
    v_accvgpr_write_b32 a3, v0
    s_mov_b32 s6, 0
again:
    v_accvgpr_read_b32 v3, a3
    v_add_u32 v3, v3, v3
    v_accvgpr_write_b32 a3, v3
    s_add_u32 s6, s6, 1
    s_cmp_lt_u32 s6, 5
    s_cbranch_scc1 again
    v_accvgpr_read_b32 v4, a3
    {}
    s_waitcnt lgkmcnt(0)
    global_store_dword v2, v4, s[4:5]
    s_endpgm
.rodata
.p2align 6
.amdhsa_kernel k
  .amdhsa_user_sgpr_kernarg_segment_ptr 1
  .amdhsa_next_free_vgpr 16
  .amdhsa_next_free_sgpr 16
  .amdhsa_kernarg_size 8
.end_amdhsa_kernel
"""
UNDEFINED = "v_accvgpr_read_b32 v5, a9\n v_add_u32 v4, v4, v5"


@pytest.mark.parametrize("check", ["", "init"])
@pytest.mark.parametrize(("engine", "runs"), [("reference", 1), ("jit", 40)])
def test_a_loop_doubles_an_accumulation_register(engine: str, runs: int, check: str) -> None:
    with Gpu.open("gfx908", check=check, engine=engine, threads=1, on_finding="keep") as gpu:
        kernel = gpu.load(assemble_code_object(KERNEL.format("")))
        for _ in range(runs):  # more often than the tiers need to change
            out = np.zeros(64, np.uint32)
            gpu.run(kernel, "k", 64, 64, [out])
            assert out.tolist() == [32 * lane for lane in range(64)]
        assert not gpu.findings


@pytest.mark.parametrize(("engine", "runs"), [("reference", 1), ("jit", 20)])
def test_an_undefined_accumulation_register_is_found(engine: str, runs: int) -> None:
    with Gpu.open("gfx908", check="init", engine=engine, threads=1, on_finding="keep") as gpu:
        kernel = gpu.load(assemble_code_object(KERNEL.format(UNDEFINED)))
        for _ in range(runs):
            gpu.run(kernel, "k", 64, 64, [np.zeros(64, np.uint32)])
        assert {found.name for found in gpu.findings} == {"init/undefined-result"}
