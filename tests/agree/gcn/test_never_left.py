"""Small programs of what seldom occurs: both engines agree, and translated code executes every instruction itself."""

from __future__ import annotations

import pytest

from tests.agree.gcn.bench import Start, Translated, differences, engines, on_reference
from tests.agree.gcn.test_once_wrong import LANES, state
from understudy.isa.gcn.asm.assembler import assemble
from understudy.isa.gcn.target import target

PROGRAMS: dict[str, tuple[str, str, Start]] = {
    "scalar_registers_by_number": (
        "gfx803",
        "s_mov_b32 m0, 3\ns_movrels_b32 s50, s40\ns_movreld_b32 s44, s41\ns_add_u32 s51, s47, s44\n"
        "s_mov_b32 m0, 2\ns_movrels_b64 s[52:53], s[40:41]\ns_movreld_b64 s[54:55], s[42:43]\ns_mov_b64 vcc, s[56:57]",
        state(s40=1, s41=2, s42=3, s43=4, s44=5, s47=6, s56=7, s57=8),
    ),
    "scalar_registers_by_number_that_is_none": (
        "gfx900",
        "s_movk_i32 m0, 105\ns_movrels_b32 s50, s1\ns_movreld_b32 s1, s40\ns_movrels_b64 s[52:53], s[0:1]\n"
        "s_movreld_b64 s[0:1], s[40:41]\ns_movrels_b32 s54, vcc_lo\ns_mov_b32 m0, -6\ns_movrels_b32 s55, vcc_lo",
        state(s40=1, s41=2, s100=3),
    ),
    "scalar_register_written_by_number_in_a_loop": (
        "gfx700",
        "s_mov_b32 m0, 0\ns_mov_b32 s50, 8\ns_movreld_b32 s60, s50\ns_add_u32 m0, m0, 1\nv_add_f32 v12, v12, s63\n"
        "s_sub_u32 s50, s50, 1\ns_cmp_gt_i32 s50, 0\ns_cbranch_scc1 65530",
        state(s60=1, v12=LANES),
    ),
    "vector_registers_by_number": (
        "gfx803",
        "s_mov_b32 m0, 2\nv_add_f32 v14, v14, v15\nv_movrels_b32 v10, v12\nv_movreld_b32 v20, v10\n"
        "v_movrelsd_b32 v24, v20\nv_add_f32 v11, v22, v26\nv_movreld_b32 v28, s40\nv_movreld_b32 v29, 1.0",
        state(s40=77, v14=LANES, v15=2 * LANES, v20=3, v22=4, exec_=0x5555_FFFF_0000_1234),
    ),
    "vector_registers_by_number_that_is_none": (
        "gfx700",
        "s_movk_i32 m0, 250\nv_movrels_b32 v10, v12\nv_movreld_b32 v12, v10\ns_mov_b32 m0, -1\n"
        "v_movrels_b32 v11, v0\nv_movreld_b32 v0, v12\nv_movrels_b32 v13, v13\nv_movreld_b32 v15, v13",
        state(v12=LANES, v13=2 * LANES, exec_=0xFFFF_0000_FFFF_FFFF),
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def every() -> list[Translated]:
    """All widths and tiers."""
    return engines()


@pytest.mark.parametrize("case", PROGRAMS)
def test_translated_code_does_all_of(case: str, every: list[Translated]) -> None:
    name, lines, start = PROGRAMS[case]
    code = assemble(target(name), lines + "\ns_endpgm\n")
    expected = on_reference(name, code, start)
    assert not expected.error
    for engine in every:
        assert not differences(expected, engine(name, code, start)), engine
        assert not engine.stepped, engine
