"""Small programs of what seldom occurs: both engines agree, and translated code executes every instruction itself."""

from __future__ import annotations

import numpy as np
import pytest

from softcard.isa.gcn.asm.assembler import assemble
from softcard.isa.gcn.target import target
from tests.agree.gcn.bench import DATA, Start, Translated, differences, engines, on_reference
from tests.agree.gcn.test_once_wrong import FLUSH, LANES, state

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
    "vector_registers_relative_to_m0": (
        "gfx900",
        "s_set_gpr_idx_on s40, gpr_idx(SRC0)\nv_mov_b32 v10, v12\ns_set_gpr_idx_off\nv_add_f32 v11, v10, v12\n"
        "s_set_gpr_idx_on s40, gpr_idx(DST)\nv_add_f32 v20, v11, v15\nv_cmp_lt_f32 vcc, v12, v11\n"
        "v_lshlrev_b64 v[24:25], 3, v[12:13]\ns_set_gpr_idx_mode gpr_idx(SRC0,SRC1,DST)\nv_add_u32 v30, v12, v13\n"
        "s_set_gpr_idx_idx 3\nv_mad_f32 v32, v12, v13, v14\ns_mov_b32 m0, 0xf002\nv_mad_f32 v36, v12, v13, v14\n"
        "global_store_dword v[0:1], v22, off\ns_set_gpr_idx_off\nv_mov_b32 v13, s40",
        state(s40=2, v12=LANES, v13=2 * LANES, v14=3 * LANES, v15=5, exec_=0x00FF_FFFF_FF00_3333),
    ),
    "vector_registers_relative_to_m0_in_a_loop": (
        "gfx803",
        "s_mov_b32 s40, 7\ns_set_gpr_idx_on s40, gpr_idx(DST)\nv_add_f32 v20, v12, v13\ns_set_gpr_idx_off\n"
        "v_add_f32 v13, v13, v20\ns_sub_u32 s40, s40, 1\ns_cmp_gt_i32 s40, 0\ns_cbranch_scc1 65529",
        state(v12=LANES, v13=1),
    ),
    "vector_instructions_that_are_skipped": (
        "gfx700",
        "s_setvskip -1, 3\nv_mov_b32 v10, 5\nv_cmp_eq_u32 vcc, v10, v10\ns_mov_b32 s40, 4\n"
        "flat_store_dword v[0:1], v10\ns_setvskip 0, 3\nv_mov_b32 v11, s40",
        state(),
    ),
    "mode_from_a_register": (
        "gfx803",
        "s_setreg_b32 hwreg(HW_REG_MODE, 0, 8), s40\nv_add_f32 v10, v12, v13\n"
        "s_setreg_b32 hwreg(HW_REG_MODE, 4, 2), s41\nv_mul_f32 v11, v12, v13\n"
        "s_getreg_b32 s42, hwreg(HW_REG_MODE)\ns_setvskip s40, 0\nv_mov_b32 v14, 1",
        state(s40=0x0F, s41=3, v12=0x3F80_0001, v13=0x0080_0001 + LANES),
    ),
    "mode_from_a_register_of_a_known_value": (
        "gfx803",
        "s_mov_b32 s40, 1\ns_setvskip s40, 0\nv_mov_b32 v10, 1\ns_setvskip s40, 1\nv_mov_b32 v11, 2",
        state(v10=LANES, v11=LANES),
    ),
    "mode_from_constants": (
        "gfx900",
        "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 4, 2), 0\nv_mul_f32 v10, v12, v13\n"
        "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 4, 2), 3\nv_mul_f32 v11, v12, v13\n"
        "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 0, 2), 2\nv_add_f32 v14, v12, v13\n"
        "s_setreg_imm32_b32 hwreg(HW_REG_TRAPSTS, 3, 4), 5\ns_getreg_b32 s40, hwreg(HW_REG_TRAPSTS)",
        state(v12=0x3F80_0001, v13=0x0040_0001 + LANES),
    ),
    "mode_that_only_the_first_turn_changes": (
        "gfx900",
        "s_mov_b32 s40, 3\nv_mul_f32 v10, v12, v13\ns_setreg_imm32_b32 hwreg(HW_REG_MODE, 4, 2), 0\n"
        "v_mul_f32 v11, v12, v13\nv_add_f32 v12, v12, v10\ns_sub_u32 s40, s40, 1\ns_cmp_gt_i32 s40, 0\n"
        "s_cbranch_scc1 65528",
        state(v12=0x3F80_0001, v13=0x0040_0001 + LANES),
    ),
    "hardware_registers": (
        "gfx900",
        "s_cmp_eq_u32 s40, s40\ns_getreg_b32 s41, hwreg(HW_REG_STATUS)\nv_cmp_lt_u32 vcc, v12, 5\n"
        "s_getreg_b32 s42, hwreg(HW_REG_STATUS)\ns_mov_b64 vcc, 0\ns_getreg_b32 s43, hwreg(HW_REG_STATUS, 9, 3)\n"
        "s_getreg_b32 s44, hwreg(HW_REG_HW_ID)\ns_getreg_b32 s45, hwreg(HW_REG_LDS_ALLOC)\n"
        "s_getreg_b32 s46, hwreg(HW_REG_IB_STS)\ns_getreg_b32 s47, hwreg(HW_REG_SH_MEM_BASES, 16, 16)\n"
        "s_getreg_b32 s48, hwreg(HW_REG_SH_MEM_BASES)\ns_mov_b64 exec, 0\ns_getreg_b32 s49, hwreg(HW_REG_STATUS)",
        state(s40=1, v12=LANES),
    ),
    "clocks": (
        "gfx803",
        "s_mov_b32 s50, 3\ns_memtime s[40:41]\nv_mov_b32 v10, s40\ns_sleep 1\ns_memrealtime s[42:43]\n"
        "s_sub_u32 s50, s50, 1\ns_cmp_gt_i32 s50, 0\ns_cbranch_scc1 65528\ns_memtime s[44:45]",
        state(),
    ),
    "float_atomics_whatever_mode_says": (
        "gfx900",
        "v_and_b32 v16, 60, v16\nds_add_f32 v16, v12\nds_add_rtn_f32 v10, v16, v13\nds_min_rtn_f32 v11, v16, v14\n"
        "ds_max_f32 v16, v15 offset:64\nds_max_rtn_f32 v17, v16, v12 offset:64\nds_cmpst_rtn_f32 v18, v16, v19, v13\n"
        "ds_min_rtn_f64 v[20:21], v16, v[12:13] offset:128\nds_max_rtn_f64 v[22:23], v16, v[14:15] offset:128\n"
        "ds_read_b32 v24, v16\nv_add_f32 v25, v12, v12",
        state(FLUSH | 5, v12=LANES, v13=0x8000_0001 + LANES, v14=np.where(LANES & 1, 0x7F80_0001, 0x3F80_0000 + LANES),
              v15=np.where(LANES & 3, 0, 0x8000_0000), v16=4 * LANES, v19=np.where(LANES & 1, 0x8000_0000, LANES)),
    ),
    "float_atomics_on_memory": (
        "gfx700",
        "flat_atomic_fmax v10, v[0:1], v12 glc\nflat_atomic_fmin v11, v[0:1], v13 glc\n"
        "flat_atomic_fcmpswap v14, v[0:1], v[12:13] glc\nflat_load_dword v15, v[0:1]",
        state(v12=LANES, v13=0xC000_0000),
    ),
    "lanes_that_are_sent": (
        "gfx803",
        "ds_permute_b32 v10, v12, v13\nds_permute_b32 v14, v15, v13 offset:8\ns_mov_b64 exec, s[40:41]\n"
        "ds_permute_b32 v16, v15, v13\nds_permute_b32 v13, v15, v13\nds_permute_b32 v15, v15, v15",
        state(s40=0x0FF0_F00F, s41=0x8000_0001, v12=4 * LANES ^ 20, v13=LANES, v15=4 * (LANES * 7 % 19), v16=1),
    ),
    "stores_of_the_wave": (
        "gfx803",
        "s_movk_i32 m0, 0x100\ns_store_dwordx4 s[40:43], s[4:5], 0x10\ns_buffer_store_dwordx4 s[40:43], s[4:7], 0x20\n"
        "s_load_dwordx8 s[44:51], s[4:5], 0x20\ns_store_dwordx2 s[42:43], s[4:5], m0\n"
        "s_load_dword s52, s[4:5], 0x104",
        state(s4=DATA & 0xFFFF_FFFF, s5=DATA >> 32, s6=40, s40=1, s41=2, s42=3, s43=4),
    ),
    "atomics_of_the_wave": (
        "gfx900",
        "s_atomic_add s40, s[4:5], 0x10 glc\ns_atomic_cmpswap_x2 s[44:47], s[4:5], 0x18 glc\n"
        "s_atomic_smax_x2 s[42:43], s[4:5], 0x18\ns_buffer_atomic_inc s41, s[4:7], 0x20 glc\n"
        "s_buffer_atomic_swap s48, s[4:7], 0x40 glc\ns_load_dwordx8 s[52:59], s[4:5], 0x10",
        state(s4=DATA & 0xFFFF_FFFF, s5=DATA >> 32, s6=40, s40=1, s41=9, s42=3, s43=0x7FFF_FFFF, s48=5),
    ),
    "lanes_that_are_counted": (
        "gfx700",
        "s_mov_b32 m0, 64\nds_append v10 offset:8\nds_consume v11 offset:12\nds_append v12 offset:4 gds\n"
        "s_mov_b64 exec, s[40:41]\nds_append v13 offset:8\nds_ordered_count v14, v15 offset0:8 offset1:0 gds\n"
        "ds_ordered_count v16, v15 offset0:8 offset1:16 gds\nds_consume v17",
        state(s40=0x0FF0_F000, s41=0x8000_0001, v15=LANES, exec_=0xFFFF_FFFF_0000_FFFF),
    ),
    "accesses_to_lds_that_meet": (
        "gfx803",
        "s_movk_i32 m0, 1024\nds_wrxchg2_rtn_b32 v[10:11], v16, v12, v13 offset0:1 offset1:2\n"
        "ds_wrxchg2st64_rtn_b64 v[12:15], v16, v[12:13], v[14:15] offset0:0 offset1:1\n"
        "ds_add_src2_u32 v17 offset:3\nds_write_src2_b64 v17 offset:32768\nds_min_src2_f32 v16 offset:32766\n"
        "ds_wrap_rtn_b32 v18, v19, v20, v21\nds_condxchg32_rtn_b64 v[16:17], v16, v[12:13]\n"
        "ds_add_src2_f32 v19 offset:1",
        state(v12=LANES * 0x0840_1021, v13=3 * LANES, v14=5 * LANES, v15=7 * LANES, v16=4 * (LANES * 7 % 19),
              v17=(LANES % 5 << 17) + 8 * (LANES % 11), v19=4 * (LANES % 3), v20=0x1000_0000, v21=0x0300_0000,
              exec_=0x00FF_FFFF_FF00_3333),
    ),
    "lanes_that_change_one_place": (
        "gfx900",
        "ds_add_rtn_u32 v10, v16, v12\nds_min_rtn_f32 v11, v17, v13 offset:64\nds_add_rtn_f32 v14, v17, v13\n"
        "ds_cmpst_rtn_b64 v[18:19], v16, v[20:21], v[12:13]\nds_dec_rtn_u32 v15, v22, v12\n"
        "ds_max_rtn_i64 v[24:25], v26, v[12:13]",
        state(v12=LANES * 0x0840_1021, v13=0x3F80_0000 + (LANES << 19), v16=40, v17=np.where(LANES & 16, 8, 3000),
              v20=LANES, v22=4 * (LANES % 3), v26=0xFFFF_FFF8, exec_=0x00FF_FFFF_FF00_3333),
    ),
    "lanes_that_change_one_dword_of_memory": (
        "gfx900",
        "global_atomic_inc v10, v[2:3], v12, off glc\n"
        "global_atomic_cmpswap_x2 v[14:15], v[2:3], v[16:19], off offset:4 glc\nflat_atomic_umax v11, v[2:3], v12 glc\n"
        "global_atomic_sub_x2 v[2:3], v[12:13], off offset:4\n"
        "global_atomic_add v20, v[22:23], v12, off glc",
        state(v2=DATA + 60, v12=LANES * 3, v13=1, v16=0x55, v17=LANES, v18=0x11, v19=0x12,
              v22=DATA + np.where(LANES & 48, 8, 4096), exec_=0x00FF_FFFF_FF00_3333),
    ),
    "dwords_of_a_buffer_and_beyond": (
        "gfx803",
        "s_buffer_load_dwordx4 s[40:43], s[4:7], 0x0\ns_buffer_load_dwordx16 s[44:59], s[4:7], 0x8\n"
        "s_mov_b32 s60, 0x24\ns_buffer_load_dword s61, s[4:7], s60\ns_buffer_load_dwordx2 s[62:63], s[4:7], 0x20\n"
        "s_mov_b32 s6, 0\ns_buffer_load_dword s64, s[4:7], 0x0",
        state(s4=DATA & 0xFFFF_FFFF, s5=DATA >> 32, s6=40, s44=7, s64=9),
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
