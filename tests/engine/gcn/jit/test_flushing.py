"""Denormals are flushed, also where LLVM sees more of the numbers than the emitter and could fold the operation."""

from __future__ import annotations

import pytest

from softcard.engine.gcn.reference.engine import ReferenceEngine
from softcard.engine.gcn.tiered.translation import Tier
from tests.engine.gcn.jit.test_jit import engine, every_way, store
from tests.engine.gcn.programs import dwords, program

ONE = "v_ffbl_b32_e32 v2, 50 | "
"""The number 1, as LLVM finds: the least denormal."""
FLUSH: dict[str, str] = {
    "sum": ONE + "v_add_f32_e32 v2, 0, v2",
    "sum with what is not below 0": "v_add_u32_e32 v2, 1, v0 | v_add_f32_e64 v2, abs(v2), 0",
    "difference": ONE + "v_sub_f32_e32 v2, v2, v0",
    "difference of what is not below 0": "v_add_u32_e32 v2, 1, v0 | v_sub_f32_e64 v2, abs(v2), -abs(v3)",
    "product": ONE + "v_mul_f32_e32 v2, 1.0, v2",
    "product plus 0": ONE + "v_mad_f32 v2, v2, 1.0, 0",
    "product with 0 plus a number": ONE + "v_mac_f32_e32 v2, 0, v3",
    "rounded once": ONE + "v_fma_f32 v2, v2, 1.0, 0",
    "comparison": ONE + "v_cmp_lt_f32_e32 vcc, 0, v2 | v_cndmask_b32_e64 v2, 0, 1, vcc",
    "comparison with what is not below 0": "v_add_u32_e32 v2, 1, v0 | v_cmp_lg_f32_e64 vcc, abs(v2), 0 | "
    "v_cndmask_b32_e64 v2, 0, 1, vcc",
    "widened": ONE + "v_cvt_f64_f32_e32 v[2:3], v2 | v_mov_b32_e32 v2, v3",
    "narrowed": "v_ffbl_b32_e32 v4, 50 | v_mul_u32_u24_e32 v3, 0x37d000, v4 | v_lshlrev_b32_e32 v3, 8, v3 | "
    "v_mov_b32_e32 v2, 0 | v_cvt_f32_f64_e32 v2, v[2:3]",
    "sum of 64 bits": ONE + "v_mov_b32_e32 v3, 0 | v_add_f64 v[2:3], v[2:3], 0",
    "product of 64 bits": ONE + "v_mov_b32_e32 v3, 0 | v_mul_f64 v[2:3], v[2:3], 1.0",
}
"""Instructions whose result is 0 in v2 where denormals are flushed."""
ALWAYS = ("product plus 0", "product with 0 plus a number")
"""Those that flush whatever MODE says."""
FLUSHING, KEEPING = 0x00, 0xF0


@pytest.mark.parametrize("what", FLUSH)
@every_way
def test_what_is_flushed(what: str, tier: Tier, lanes: int) -> None:
    for mode, zero in ((FLUSHING, True), (KEEPING, what in ALWAYS)):
        found = []
        for one in (ReferenceEngine(), engine(tier=tier, lanes=lanes)):
            dispatch = program(FLUSH[what] + "\n" + store(2), mode=mode)
            one.run(dispatch)
            found.append(dwords(dispatch, 64))
        assert found[0] == found[1]
        assert (max(found[0]) == 0) is zero, "what the case is there for"


@every_way
def test_integers_become_floats_in_every_width(tier: Tier, lanes: int) -> None:
    """Vectors of 16 bits are too short for a register where few lanes make a chunk."""
    for text in ("v_cvt_f16_u16_e32 v2, v0", "v_cvt_f32_u32_e32 v2, v0", "v_cvt_f64_u32_e32 v[1:2], v0"):
        found = []
        for one in (ReferenceEngine(), engine(tier=tier, lanes=lanes)):
            dispatch = program(text + "\n" + store(2), mode=FLUSHING | 0xF)
            one.run(dispatch)
            found.append(dwords(dispatch, 64))
        assert found[0] == found[1]
