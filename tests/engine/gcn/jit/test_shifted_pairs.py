"""Shifts of 64 bits, which are written as two of 32 where that is known when code is made, and addresses of them."""

from __future__ import annotations

import pytest

from softcard.engine.gcn.tiered.translation import Tier
from tests.engine.gcn.jit.test_contiguous import every_lanes, outcomes
from tests.engine.gcn.jit.test_gathers import every_tier, jit
from tests.engine.gcn.rig import DATA

BY = (0, 1, 2, 31, 32, 33, 63, 64)


@every_lanes
@every_tier
@pytest.mark.parametrize("high", ["v_mul_lo_u32 v2, v1, v1", "v_mov_b32_e32 v2, 0", "v_mov_b32_e32 v2, v1"])
def test_both_halves(lanes: int, tier: Tier, high: str) -> None:
    """To the left, to the right, and there and back, by numbers of all kinds."""
    lines = ["v_mul_u32_u24_e32 v1, 0xfedcb7, v0", "v_xor_b32_e32 v1, 0x80000001, v1", high]
    for n, by in enumerate(BY):
        at = 10 + 8 * n
        lines += [
            f"v_lshlrev_b64 v[{at}:{at + 1}], {by}, v[1:2]",
            f"v_lshrrev_b64 v[{at + 2}:{at + 3}], {by}, v[1:2]",
            f"v_lshrrev_b64 v[{at + 4}:{at + 5}], {by}, v[{at}:{at + 1}]",
            f"v_lshlrev_b64 v[{at + 6}:{at + 7}], {by}, v[{at + 2}:{at + 3}]",
        ]
    lines += [f"v_mul_u32_u24_e32 v8, 4, v0 | v_add_u32_e32 v8, {DATA:#x}, v8 | v_mov_b32_e32 v9, 0"]
    for n in range(8 * len(BY)):
        lines += [f"global_store_dword v[8:9], v{10 + n}, off", "v_add_u32_e32 v8, 0x100, v8"]
    text = " | ".join([*lines, "s_endpgm"])
    (expected,) = outcomes(text)
    assert expected[0].isdigit(), expected[0]
    assert outcomes(text, jit(lanes, tier)) == [expected, expected]


@every_lanes
@every_tier
@pytest.mark.parametrize("by", [2, 3, 12])
@pytest.mark.parametrize("upper", ["0", "0x40000000", "lane"])
def test_addresses(lanes: int, tier: Tier, by: int, upper: str) -> None:
    """base + (index << n), where the index has an upper half that the shift drops or not: then nothing is there."""
    text = f"""
    s_mov_b32 s4, {DATA + 0x4000:#x}
    s_mov_b32 s5, 0
    v_lshrrev_b32_e32 v1, {max(0, 3 * (by - 3))}, v0
    v_mov_b32_e32 v2, {"0" if upper == "lane" else upper}
    {"v_lshrrev_b32_e32 v2, 5, v0" if upper == "lane" else ""}
    v_lshlrev_b64 v[3:4], {by}, v[1:2]
    v_mov_b32_e32 v7, s5
    v_add_co_u32_e32 v3, vcc, s4, v3
    v_addc_co_u32_e32 v4, vcc, v7, v4, vcc
    global_load_dword v10, v[3:4], off
    v_mul_u32_u24_e32 v8, 4, v0
    v_add_u32_e32 v8, {DATA:#x}, v8
    v_mov_b32_e32 v9, 0
    global_store_dword v[8:9], v10, off
    s_endpgm
    """
    (expected,) = outcomes(text)
    assert expected[0].isdigit() is (upper == "0" or (upper != "lane" and by > 1)), expected[0]
    assert outcomes(text, jit(lanes, tier)) == [expected, expected]
