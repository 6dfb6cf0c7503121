"""Bits of one register and the others of a second, in some lanes: optimised code does what the reference does."""

from __future__ import annotations

import pytest

from softcard.engine.gcn.reference.engine import ReferenceEngine
from softcard.engine.gcn.tiered.engine import JitEngine
from softcard.engine.gcn.tiered.translation import Tier
from tests.engine.gcn.jit.test_contiguous import every_lanes
from tests.engine.gcn.programs import dwords, program

FILL = """
v_lshlrev_b32 v1, 3, v0
v_mov_b32 v2, 0
v_add_co_u32 v1, vcc, 0x200000, v1
v_mul_u32_u24 v3, 0x12345, v1
v_mul_lo_u32 v4, v3, v3
v_not_b32 v3, v3
"""
"""v[1:2]: a place of each lane's own, v3 and v4: numbers."""
STORE = "global_store_dwordx2 v[1:2], v[3:4], off"
CHOICES = {
    "v_bfi_b32": "v_bfi_b32 {0}, s6, v3, v4",
    "v_bfi_b32, the other way": "v_bfi_b32 {0}, s7, v3, v4",
    "v_and_b32 and v_or_b32": "v_and_b32 v5, s6, v3|v_and_b32 v6, s7, v4|v_or_b32 {0}, v5, v6",
    "v_and_or_b32": "v_and_b32 v5, s6, v3|v_and_or_b32 {0}, s7, v4, v5",
    "exclusive or": "v_xor_b32 v5, v3, v4|v_and_b32 v5, s6, v5|v_xor_b32 {0}, v5, v4",
}


@every_lanes
@pytest.mark.parametrize("target", ["v3", "v4"])
@pytest.mark.parametrize("choice", CHOICES)
def test_in_lanes_of_exec_and_by_a_condition(choice: str, target: str, lanes: int) -> None:
    made = CHOICES[choice].format(target)
    masks = "s_brev_b32 s6, -2|s_mov_b32 s7, 0x80000000|"
    some = f"s_mov_b32 s4, 0x0ff0a5f3|s_mov_b32 s5, 0x9|s_mov_b64 exec, s[4:5]|{made}|s_mov_b64 exec, -1"
    chosen = f"{CHOICES[choice].format('v7')}|v_cmp_lt_u32 vcc, 21, v0|v_cndmask_b32 {target}, {target}, v7, vcc"
    for text in (some, chosen):
        found = []
        for engine in (ReferenceEngine(), JitEngine(1, Tier.OPTIMISED, lanes=lanes)):
            dispatch = program("|".join([*FILL.split("\n"), masks + text, STORE, "s_endpgm"]), "gfx900")
            engine.run(dispatch)
            found.append(dwords(dispatch, 128))
        assert found[0] == found[1]
