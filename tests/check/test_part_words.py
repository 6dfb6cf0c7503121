"""Atomics of 16 bits at the end of an array: loops of swaps of the dword around the last element, as on a card."""

from __future__ import annotations

import numpy as np
import pytest

from softcard.core.errors import AccessFault
from softcard.host.hsa.gpu import Gpu
from softcard.image.assembly.files import assemble_code_object

KERNEL = """
.amdgcn_target "amdgcn-amd-amdhsa--gfx900"
.text
k:
    s_load_dwordx2 s[8:9], s[0:1], 0x0
    s_mov_b64 s[6:7], 0
    v_lshlrev_b32_e32 v6, 1, v0
    v_and_b32_e32 v4, -4, v6
    v_and_b32_e32 v5, 2, v6
    v_lshlrev_b32_e32 v5, 3, v5
    v_lshlrev_b32_e64 v8, v5, 1
    s_waitcnt lgkmcnt(0)
    {}
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
"""Each lane has an element of 16 bits: v4 is where its dword begins, v8 has the element's lowest bit."""
LOAD = "global_load_dword v1, v4, s[8:9]|s_waitcnt vmcnt(0)|"
LOOP = f"""{LOAD}again:|v_add_u32_e32 v0, v1, v8|{{}}
global_atomic_cmpswap v2, v4, v[0:1], s[8:9] glc|s_waitcnt vmcnt(0)|
v_cmp_eq_u32_e32 vcc, v2, v1|s_or_b64 s[6:7], vcc, s[6:7]|v_mov_b32_e32 v1, v2|s_andn2_b64 exec, exec, s[6:7]|
s_cbranch_execnz again"""


def run(
    body: str, count: int, *, engine: str = "jit", is_own: bool = False, check: str = "memory"
) -> tuple[list[int], list[str]]:
    """Return an array of halves, which was 0, after a kernel, and the findings; `is_own`: NumPy has made it."""
    with Gpu.open("gfx900", check=check, engine=engine, threads=1) as gpu:
        x = np.zeros(count, np.uint16) if is_own else gpu.zeros(count, np.uint16)
        gpu.run(assemble_code_object(KERNEL.format(body.replace("|", "\n"))), "k", grid=count, group=count, args=[x])
        return x.tolist(), [each.name for each in gpu.findings]


@pytest.mark.parametrize("engine", ["reference", "jit"])
@pytest.mark.parametrize("is_own", [False, True])
@pytest.mark.parametrize("check", ["", "memory", "all"])
def test_an_odd_number_of_halves(engine: str, is_own: bool, check: str) -> None:
    for count in (1, 3, 4):
        assert run(LOOP.format(""), count, engine=engine, is_own=is_own, check=check) == ([1] * count, [])


@pytest.mark.parametrize(
    ("body", "found"),
    [
        pytest.param(LOAD, ["read"], id="load of the dword"),
        pytest.param("v_mov_b32_e32 v1, 7|global_store_dword v4, v1, s[8:9]", ["write"], id="store of the dword"),
        pytest.param("global_atomic_add v4, v8, s[8:9]", ["atomic"], id="sum of the dword"),
        pytest.param(LOOP.format("v_add_u32_e32 v0, 0x10000, v0|"), ["atomic"], id="swap that changes what is behind"),
        pytest.param(LOAD + "global_load_dword v3, v4, s[8:9] offset:4", ["read", "read"], id="load of what is behind"),
    ],
)
def test_other_accesses_of_the_dword_are_out_of_bounds(body: str, found: list[str]) -> None:
    with Gpu.open("gfx900", check="memory", threads=1) as gpu:
        code = assemble_code_object(KERNEL.format(body.replace("|", "\n")))
        gpu.run(code, "k", grid=1, group=1, args=[gpu.zeros(1, np.uint16)])
        assert [(each.name, each.access) for each in gpu.findings] == [("memory/out-of-bounds", each) for each in found]


def test_exact_arrays_end_with_their_last_byte() -> None:
    code = assemble_code_object(KERNEL.format(LOAD.replace("|", "\n")))
    with Gpu.open("gfx900", exact=True) as gpu, pytest.raises(AccessFault, match="no memory there"):
        gpu.run(code, "k", grid=1, group=1, args=[np.zeros(1, np.uint16)])
