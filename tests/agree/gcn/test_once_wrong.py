"""Small programs on which translated code once went another way than the reference engine."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from softcard.core.errors import BeyondModel
from softcard.engine.gcn.reference.engine import Stepper
from softcard.isa.gcn.asm.assembler import assemble
from softcard.isa.gcn.target import target
from tests.agree.gcn.bench import CODE, DATA, DEVICE, ROWS, Start, Translated, differences, engines, on_reference

NEAREST, UP, DOWN, ZERO = 0x3F0, 0x3F5, 0x3FA, 0x3FF
"""MODE with all denormals kept."""
FLUSH = 0x300
"""MODE that flushes all denormals."""
LANES = np.arange(64, dtype=np.uint32)


def state(mode: int = NEAREST, exec_: int = (1 << 64) - 1, **registers: Any) -> Start:
    """Registers by name: v1=..., s2=...; v0 and v1 are addresses of dwords side by side."""
    sgprs, vgprs = np.zeros(104, np.uint32), np.zeros((ROWS, 64), np.uint32)
    vgprs[0] = DATA + 4 * LANES
    for name, value in registers.items():
        (vgprs if name[0] == "v" else sgprs)[int(name[1:])] = value
    return Start(sgprs, vgprs, np.arange(4096, dtype=np.uint32).view(np.uint8), exec_, mode, 0xFFFF_FFFF)


PROGRAMS: dict[str, tuple[str, str, Start]] = {
    "negation_moved_out_of_a_product": (
        "gfx900", "v_mad_f32 v10, -v11, v12, v13", state(UP, v11=0xE603D4B7, v12=0x80972731),
    ),
    "constant_half_of_a_mixed_product": (
        "gfx900", "v_mad_mix_f32 v10, s33, -2.0, v11 op_sel_hi:[1,1,1]", state(0xB2, exec_=1 << 60),
    ),
    "constant_half_above_a_half": (
        "gfx906", "v_fma_mix_f32 v10, v11, neg(-4.0), v12 op_sel:[0,1,0] op_sel_hi:[1,1,0]", state(v11=0x961B6D08),
    ),
    "literal_that_is_source_and_constant": (
        "gfx906", "v_madmk_f32 v10, 0x3fc00000, 0x3fc00000, v11\nv_madak_f32 v12, 0x3fc00000, v11, 0x3fc00000",
        state(v11=0x3F80_0000 + LANES),
    ),
    "multiplication_by_one_flushes": (
        "gfx900", "v_mul_f32 v10, 1.0, v11\nv_add_f32 v12, v11, v13", state(FLUSH, v11=0x0040_0000, v13=0x8000_0000),
    ),
    "constant_denormal_added_to_nothing": (
        "gfx700", "v_mad_legacy_f32 v10, src_scc, v11, -|58|", state(0x3C0, v11=0x4000_0000),
    ),
    **{
        f"index_mode_set_by_{source}": (
            gpu, f"s_set_gpr_idx_on {source}, gpr_idx(SRC0)\nv_mov_b32 v10, v11\ns_set_gpr_idx_off",
            state(v11=LANES, v12=5, v13=7),
        )
        for gpu, source in (("gfx803", "src_execz"), ("gfx803", "src_vccz"), ("gfx803", "src_scc"),
                            ("gfx900", "src_shared_base"), ("gfx803", "vcc_lo"))
    },
    "constants_that_flush": ("gfx900", "v_add_f32 v10, 1, 2\nv_fract_f64 v[12:13], 53", state(FLUSH)),
    "nan_that_is_only_chosen": (
        "gfx900", "v_div_scale_f32 v10, vcc, v11, v12, v11", state(v11=0x7F80_0001, v12=0x3F80_0000),
    ),
    "ldexp_of_a_denormal": (
        "gfx900", "v_ldexp_f64 v[10:11], v[12:13], v14", state(0x370, v13=2, v14=65),
    ),
    "ldexp_far_down_rounds_once": (
        "gfx900", "v_ldexp_f64 v[10:11], v[12:13], v14", state(0x3BA, v13=0xB66B05F5, v14=0x807065AA),
    ),
    "zero_from_an_unsigned_integer": ("gfx803", "v_cvt_f64_u32 v[10:11], v12\nv_cvt_f32_u32 v13, v12", state(DOWN)),
    "half_that_is_tiny_before_rounding": ("gfx803", "v_cvt_f16_f32 v10, v11", state(0x175, v11=0x387F_F001)),
    "half_that_overflows_with_fp16_ovfl": (
        "gfx900", "v_mad_f16 v10, v11, v11, v11\nv_madak_f16 v12, v11, v11, 0x7bff", state(0x80_03F0, v11=0x7BFF),
    ),
    "huge_intermediate_with_fp16_ovfl": (
        "gfx900", "v_exp_f16_e64 v10, v11 mul:2\nv_exp_f16_e32 v12, v11", state(0x80_01D3, v11=0x5800 + (LANES << 3)),
    ),
    "setreg_that_changes_nothing": ("gfx900", "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 4, 4), 15", state()),
    "scc_read_before_it_is_written": (
        "gfx900", "s_cmp_eq_u32 s40, s40\nv_lshl_or_b32 v10, v11, src_scc, s41\ns_not_b32 s40, -1", state(v11=3),
    ),
    "computed_jump_to_an_odd_address": ("gfx900", "s_mov_b32 s40, 45\ns_mov_b32 s41, 0\ns_setpc_b64 s[40:41]", state()),
    "no_such_hardware_register": ("gfx900", "s_getreg_b32 s40, 9", state()),
    "stores_that_overlap": (
        "gfx900", "global_store_dwordx4 v[0:1], v[12:15], off\nds_write_b128 v16, v[12:15]",
        state(v12=LANES, v13=100 + LANES, v14=200 + LANES, v15=300 + LANES, v16=4 * LANES),
    ),
    "two_stores_that_overlap": (
        "gfx900", "ds_write2_b32 v16, v12, v13 offset0:0 offset1:8", state(v12=LANES, v13=100 + LANES, v16=4 * LANES),
    ),
    "load_and_store_of_one_instruction": ("gfx900", "ds_add_src2_u32 v16 offset:5", state(v16=4 * LANES)),
    "atomic_before_an_access_that_is_left_over": (
        "gfx900", "ds_add_u32 v16, v12\nglobal_load_dword v10, v[14:15], off",
        state(v12=1, v16=4 * (LANES & 3), v14=np.where(LANES == 40, DEVICE, DATA)),
    ),
    "register_read_before_a_mask_is_written_over_it": (
        "gfx900", "global_load_dword v10, v[14:15], off\nv_mov_b32 v11, s55\nv_cmp_eq_u32 s[54:55], v12, v12",
        state(s55=77, v14=np.where(LANES == 40, DEVICE, DATA)),
    ),
    "mask_and_exec_of_a_segment_that_is_left": (
        "gfx900", "global_load_dword v10, v[14:15], off\nv_cmpx_lt_u32 vcc, v12, v13\nv_mov_b32 v11, 5",
        state(v12=LANES, v13=40, v14=np.where(LANES == 20, DEVICE, DATA)),
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def every() -> list[Translated]:
    """All widths and tiers."""
    return engines()


@pytest.mark.parametrize("case", PROGRAMS)
def test_both_engines_agree_on(case: str, every: list[Translated]) -> None:
    name, lines, start = PROGRAMS[case]
    code = assemble(target(name), lines + "\ns_endpgm\n")
    expected = on_reference(name, code, start)
    for engine in every:
        assert not differences(expected, engine(name, code, start)), engine


@pytest.mark.parametrize("limit", [1, 2, 3, 5, 6, 7, 10, 13, 16, 18, 19, 20, 21, 22])
def test_step_limit_is_exact(limit: int, every: list[Translated]) -> None:
    lines = "s_mov_b32 s40, 3\ns_branch 1\ns_nop 0\nv_mov_b32 v10, s40\ns_sub_u32 s40, s40, 1\ns_cmp_gt_i32 s40, 0"
    code = assemble(
        target("gfx900"), lines + "\ns_cbranch_scc1 65531\ns_cbranch_scc0 1\ns_nop 0\ns_sethalt 0\ns_endpgm\n"
    )
    expected = on_reference("gfx900", code, state(), limit)
    assert not differences(expected, every[0]("gfx900", code, state(), limit))


@pytest.mark.parametrize("limit", [1, 2, 3, 5, 8, 9, 100, 101])
@pytest.mark.parametrize("between", ["s_nop 0", "s_sethalt 0", "v_mov_b32 v10, s40"])
def test_step_limit_is_exact_between_pauses(between: str, limit: int, every: list[Translated]) -> None:
    code = assemble(target("gfx900"), f"s_sleep 1\ns_add_u32 s40, s40, 1\ns_sleep 1\n{between}\ns_branch 65531\n")
    expected = on_reference("gfx900", code, state(), limit)
    assert expected.parts["retired"] == limit + (limit + 2) // 3 + (limit + 1) // 3
    for engine in every[:2]:
        assert not differences(expected, engine("gfx900", code, state(), limit)), engine


def test_steps_run_out_where_no_code_is_translated(every: list[Translated]) -> None:
    code = assemble(target("gfx900"), "s_sethalt 0\ns_branch 65534\n")
    expected = on_reference("gfx900", code, state(), 100)
    assert expected.error.startswith("StepLimit")
    assert not differences(expected, every[0]("gfx900", code, state(), 100))


def test_places_that_share_a_row_of_the_code_table(every: list[Translated]) -> None:
    # MODE and pc are such that both entries of one region have the same home.
    lines = ["s_mov_b32 s41, 20"]
    lines += [
        f"s_setreg_imm32_b32 hwreg(HW_REG_MODE, 0, 8), {n % 256:#x}\ns_sethalt 0\nv_mov_b32 v10, s41" for n in range(40)
    ]
    code = assemble(target("gfx900"), "\n".join([*lines, "s_endpgm", ""]))
    expected = on_reference("gfx900", code, state())
    for engine in every:
        assert not differences(expected, engine("gfx900", code, state())), engine


def test_code_written_by_the_kernel_counts_after_the_cache_is_invalidated(every: list[Translated]) -> None:
    lines = (
        "s_mov_b32 s40, 2", "s_mov_b32 exec_lo, 1", "s_mov_b32 exec_hi, 0", "v_mov_b32 v20, s50", "v_mov_b32 v21, 0",
        "v_mov_b32 v22, s51", "s_nop 0", "v_mov_b32 v10, 1", "global_store_dword v[20:21], v22, off", "s_icache_inv",
        "s_sub_u32 s40, s40, 1", "s_cmp_gt_i32 s40, 0", "s_cbranch_scc1 65528", "s_endpgm",
    )  # fmt: skip
    code = assemble(target("gfx900"), "\n".join(lines) + "\n")
    start = state(s50=CODE + 28, s51=0x7E14_0285)  # v_mov_b32 v10, 5
    expected = on_reference("gfx900", code, start)
    assert expected.parts["vgpr"][10, 0] == 5
    for engine in every:
        assert not differences(expected, engine("gfx900", code, start)), engine


def test_translators_never_read_code_where_reading_has_effects(every: list[Translated]) -> None:
    """They look ahead, and read again: what a device gives depends on how often it was read."""
    world = every[0].world
    world.device.log.clear()
    with pytest.raises(BeyondModel, match="instructions outside of RAM cannot be translated, at pc 0x380000"):
        Stepper(world.dispatch("gfx900", state(), 1)).fetch(DEVICE)
    assert world.device.log == []
    code = assemble(target("gfx900"), f"s_mov_b32 s40, {DEVICE:#x}\ns_mov_b32 s41, 0\ns_setpc_b64 s[40:41]\n")
    expected = on_reference("gfx900", code, state())
    assert expected.error.startswith("IllegalInstruction")
    for engine in every:
        assert not differences(expected, engine("gfx900", code, state())), engine
