"""LDS below M0, as GFX6 to GFX8 have it: lanes that lie beyond read 0 and store nothing, however a chunk lies."""

from __future__ import annotations

import pytest

from softcard.engine.gcn.tiered.translation import Tier
from tests.engine.gcn.jit.test_contiguous import every_lanes, outcomes
from tests.engine.gcn.jit.test_gathers import every_tier, jit
from tests.engine.gcn.rig import DATA

BOUNDS = ("-1", "0", "3", "0x84", "0x87", "0x200", "0x7fd")
BASES = {
    "side by side": "v_lshlrev_b32_e32 v1, 2, v0",
    "by 8": "v_lshlrev_b32_e32 v1, 3, v0",
    "by 16": "v_lshlrev_b32_e32 v1, 4, v0",
    "bytes": "v_add_u32_e32 v1, vcc, 3, v0",
    "not aligned": "v_lshlrev_b32_e32 v1, 2, v0 | v_add_u32_e32 v1, vcc, 2, v1",
    "one place": "v_mov_b32_e32 v1, 0x84",
    "backwards": "v_sub_u32_e32 v1, vcc, 63, v0 | v_lshlrev_b32_e32 v1, 2, v1",
    "below 0": "v_lshlrev_b32_e32 v1, 2, v0 | v_add_u32_e32 v1, vcc, -64, v1",
}
FILL = """
v_lshlrev_b32_e32 v1, 5, v0
v_mul_u32_u24_e32 v10, 0x10305, v0
v_mul_u32_u24_e32 v11, 0x20507, v0
v_mul_u32_u24_e32 v12, 0x30709, v0
v_mul_u32_u24_e32 v13, 0x4090b, v0
ds_write_b128 v1, v[10:13]
ds_write_b128 v1, v[11:14] offset:16
"""
READS = """
ds_read_b32 v10, v1
ds_read2_b32 v[12:13], v1 offset0:3 offset1:96
ds_read_b64 v[14:15], v1 offset:8
ds_read_b32 v11, v1 offset:66
ds_read_u8 v16, v1 offset:257
ds_read_i16 v17, v1 offset:130
ds_read_b128 v[20:23], v1 offset:512
ds_write2_b32 v1, v10, v11 offset0:1 offset1:63
ds_write_b8 v1, v12 offset:33
ds_read2_b64 v[24:27], v1 offset1:40
ds_read_b96 v[28:30], v1 offset:96
"""
SHOWN = (*range(10, 18), *range(20, 31))
SHOW = "\n".join(f"v_add_u32_e32 v8, vcc, 4, v8\nflat_store_dword v[8:9], v{n}" for n in SHOWN)


@pytest.mark.one_in(5)
@every_lanes
@every_tier
@pytest.mark.parametrize("base", BASES)
def test_what_lies_beyond_m0(lanes: int, tier: Tier, base: str) -> None:
    for number, bound in enumerate(BOUNDS):
        mask = ("-1", "0x7f0f0f0e")[number % 2]
        text = f"""
        v_mov_b32_e32 v14, v0
        s_mov_b32 m0, -1
        {FILL}
        s_mov_b32 m0, {bound}
        s_waitcnt lgkmcnt(0)
        {BASES[base]}
        s_mov_b64 exec, {mask}
        {READS}
        s_waitcnt lgkmcnt(0)
        v_lshlrev_b32_e32 v8, 7, v0
        v_add_u32_e32 v8, vcc, {DATA:#x}, v8
        v_mov_b32_e32 v9, 0
        {SHOW}
        s_endpgm
        """
        (expected,) = outcomes(text, name="gfx803")
        assert expected[0].isdigit(), expected[0]
        assert outcomes(text, jit(lanes, tier), "gfx803") == [expected, expected]
