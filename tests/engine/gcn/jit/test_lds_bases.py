"""Accesses to LDS from one base: what is known of how its lanes lie is known of base + scalar, and nothing else."""

from __future__ import annotations

import pytest

from softcard.engine.gcn.tiered.translation import Tier
from tests.engine.gcn.jit.test_contiguous import every_lanes, outcomes
from tests.engine.gcn.jit.test_gathers import every_tier, jit
from tests.engine.gcn.rig import DATA

LDS_BYTES = 2048
FILL = """
v_lshlrev_b32_e32 v1, 4, v0
v_mul_u32_u24_e32 v10, 0x10305, v0
v_mul_u32_u24_e32 v11, 0x20507, v0
v_mul_u32_u24_e32 v12, 0x30709, v0
v_mul_u32_u24_e32 v13, 0x4090b, v0
ds_write_b128 v1, v[10:13]
ds_write_b128 v1, v[11:14] offset:1024
s_mov_b32 s4, 24
s_movk_i32 s5, 0xff00
s_mov_b32 s6, 0x20000
"""
READS = """
ds_read_b32 v10, v1
ds_read_b32 v11, v1 offset:64
ds_read2_b32 v[12:13], v1 offset0:3 offset1:200
v_add_u32_e32 v2, s4, v1
ds_read_b64 v[14:15], v2 offset:8
ds_read_b32 v16, v2
v_add_u32_e32 v3, s5, v2
ds_read_u8 v17, v3 offset:257
v_add_u32_e32 v3, s6, v3
ds_read_b32 v18, v3 offset:4
v_subrev_u32_e32 v3, s6, v3
ds_read_b128 v[20:23], v3 offset:512
ds_write2_b32 v1, v10, v11 offset0:1 offset1:255
ds_read2_b64 v[24:27], v1 offset1:40
"""
SHOW = "\n".join(
    f"global_store_dword v[8:9], v{n}, off offset:{4 * (n - 10)}" for n in (*range(10, 19), *range(20, 28))
)
BASES = {
    "side by side": "v_lshlrev_b32_e32 v1, 2, v0",
    "by 8": "v_lshlrev_b32_e32 v1, 3, v0",
    "by 16": "v_lshlrev_b32_e32 v1, 4, v0",
    "bytes": "v_add_u32_e32 v1, 3, v0",
    "one place": "v_mov_b32_e32 v1, 0x84",
    "one place for each four": "v_lshrrev_b32_e32 v1, 2, v0 | v_lshlrev_b32_e32 v1, 4, v1",
    "backwards": "v_sub_u32_e32 v1, 63, v0 | v_lshlrev_b32_e32 v1, 2, v1",
    "below 0": "v_lshlrev_b32_e32 v1, 2, v0 | v_add_u32_e32 v1, -64, v1",
    "all below 0": "v_mov_b32_e32 v1, -12",
    "to the end": f"v_lshlrev_b32_e32 v1, 2, v0 | v_add_u32_e32 v1, {LDS_BYTES - 256}, v1",
    "one apart": "v_lshlrev_b32_e32 v1, 2, v0 | v_cmp_eq_u32_e32 vcc, 21, v0 | v_addc_co_u32_e32 v1, vcc, 0, v1, vcc",
}


@pytest.mark.one_in(5)
@every_lanes
@every_tier
@pytest.mark.parametrize("base", BASES)
def test_all_that_is_read_from_a_base(lanes: int, tier: Tier, base: str) -> None:
    for mask in ("-1", "0x7f0f0f0e"):
        text = f"""
        v_mov_b32_e32 v14, v0
        {FILL}
        s_waitcnt lgkmcnt(0)
        {BASES[base]}
        s_mov_b64 exec, {mask}
        {READS}
        s_waitcnt lgkmcnt(0)
        v_lshlrev_b32_e32 v8, 7, v0
        v_add_u32_e32 v8, {DATA:#x}, v8
        v_mov_b32_e32 v9, 0
        {SHOW}
        s_endpgm
        """
        (expected,) = outcomes(text)
        assert expected[0].isdigit(), expected[0]
        assert outcomes(text, jit(lanes, tier)) == [expected, expected]
