"""Values from lanes that are not active: undefined to the check init where they matter, and nowhere else."""

from __future__ import annotations

import numpy as np
import pytest

from softcard.core.findings import Finding
from softcard.host.hsa.gpu import Gpu
from softcard.image.assembly.files import assemble_code_object

KERNEL = """
.amdgcn_target "amdgcn-amd-amdhsa--gfx900"
.text
k:
    s_load_dwordx2 s[8:9], s[0:1], 0x0
    v_lshlrev_b32_e32 v1, 2, v0
    v_mov_b32_e32 v3, 0
    v_mov_b32_e32 v4, 16
    s_mov_b64 s[10:11], exec
    {}
    s_waitcnt lgkmcnt(0)
    global_store_dword v1, v3, s[8:9]
    s_endpgm
.rodata
.p2align 6
.amdhsa_kernel k
  .amdhsa_user_sgpr_kernarg_segment_ptr 1
  .amdhsa_next_free_vgpr 12
  .amdhsa_next_free_sgpr 16
  .amdhsa_kernarg_size 8
.end_amdhsa_kernel
"""
"""Stores v3 of each lane; v4 names lane 4, as addresses of lanes go."""
SOME, ALL = "s_mov_b64 exec, {}|", "s_waitcnt lgkmcnt(0)|s_mov_b64 exec, s[10:11]"
TAKE = "ds_bpermute_b32 v3, v4, v0|"


def run(body: str, engine: str) -> tuple[list[int], list[Finding]]:
    """The results of a wave, and the findings."""
    with Gpu.open("gfx900", check="init", engine=engine, threads=1) as gpu:
        x = gpu.zeros(64, np.uint32)
        code = assemble_code_object(KERNEL.format(body.replace("|", "\n")))
        gpu.run(code, "k", grid=64, group=64, args=[x])
        return x.tolist(), list(gpu.findings)


@pytest.mark.parametrize("engine", ["reference", "jit"])
@pytest.mark.parametrize(
    ("body", "lanes"),
    [
        pytest.param(SOME.format("0xf") + TAKE + ALL, [0, 1, 2, 3], id="from an inactive lane"),
        pytest.param(SOME.format("0x5") + "ds_swizzle_b32 v3, v0 offset:0x041f|" + ALL, [0, 2], id="pattern of lanes"),
        pytest.param("ds_permute_b32 v3, v4, v0", [4], id="several lanes send to one"),
    ],
)
def test_what_an_inactive_lane_gives_is_undefined(body: str, lanes: list[int], engine: str) -> None:
    _, (found,) = run(body, engine)
    assert (found.name, found.count) == ("init/undefined-result", len(lanes))
    assert f"the first is element {lanes[0]}" in found.message


@pytest.mark.parametrize("engine", ["reference", "jit"])
@pytest.mark.parametrize(
    "body",
    [
        pytest.param(TAKE, id="from an active lane"),
        pytest.param(SOME.format("0x1f") + TAKE + ALL, id="from an active lane among few"),
        pytest.param("ds_swizzle_b32 v3, v0 offset:0x041f", id="pattern of active lanes"),
        pytest.param("v_xor_b32 v4, 4, v1|ds_permute_b32 v3, v4, v0", id="each lane sends to another one"),
        pytest.param(
            SOME.format("0xf") + TAKE + "s_waitcnt lgkmcnt(0)|v_cmp_gt_u32 vcc, 4, v0|v_cndmask_b32 v3, v3, v0, vcc|"
            + ALL,
            id="value that is not used",
        ),
        pytest.param(
            SOME.format("0xf") + "v_mov_b32_dpp v3, v0 row_shr:1 row_mask:0xf bank_mask:0xf bound_ctrl:0|" + ALL,
            id="DPP: 0 by the instruction",
        ),
        pytest.param(
            "v_writelane_b32 v5, s8, 9|" + SOME.format("1")
            + "v_readlane_b32 s12, v5, 9|v_mov_b32 v3, s12|v_xor_b32 v3, s8, v3|" + ALL,
            id="scalar register that was kept in a lane",
        ),
        pytest.param(
            "v_mov_b32 v5, v0|" + SOME.format("1") + "v_readlane_b32 s12, v5, 63|v_mov_b32 v3, s12|" + ALL,
            id="last lane of a reduction over all lanes",
        ),
        pytest.param(SOME.format("0") + "v_readfirstlane_b32 s12, v0|" + ALL, id="no lane at all"),
    ],
)  # fmt: skip
def test_code_of_compilers_has_no_finding(body: str, engine: str) -> None:
    assert run(body, engine)[1] == []


@pytest.mark.parametrize(
    ("take", "text"),
    [
        (SOME.format("0xf") + TAKE, ", which reads a lane that is not active or has no value"),
        ("ds_permute_b32 v3, v4, v0|", ", which sends several lanes to one or has no value"),
    ],
)
def test_a_finding_names_the_instruction(take: str, text: str) -> None:
    decides = "s_waitcnt lgkmcnt(0)|v_cmp_ne_u32 vcc, 7, v3|s_and_b64 exec, exec, vcc|"
    _, found = run(take + decides + ALL, "jit")
    assert [each.name for each in found][:1] == ["init/undefined-exec"]
    assert text in found[0].message
