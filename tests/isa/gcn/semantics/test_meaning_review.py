"""Results of an independent review of the manuals: expected values are written down from them, not computed."""

from __future__ import annotations

import pytest

from tests.isa.gcn.semantics.alu_rig import DEFAULT_MODE, FLUSH32, Alu

ROUND32_UP, ROUND64_UP = 1, 4
"""Bits of MODE: towards +infinity in binary32, or in binary64 and binary16."""


def one(text: str, *sources: int, gpu: str = "gfx900", mode: int = DEFAULT_MODE) -> int:
    """The 32-bit result in v0 of one instruction; sources of 64 bits go to v[2:3], others to v2, v4, v6."""
    alu = Alu(gpu, mode)
    for k, value in enumerate(sources):
        alu.set_v(2 + 2 * k, [value] * 64, 64)
    alu.run(text)
    return alu.v(0)[5]


@pytest.mark.parametrize("gpu", ["gfx700", "gfx803", "gfx900"])
def test_conversion_from_binary64_rounds_as_binary64_does(gpu: str) -> None:
    """LLVM sets the rounding of binary64 for llvm.fptrunc.round.f32.f64 and emits v_cvt_f32_f64."""
    above_one = 0x3FF0000000000001
    up = one("v_cvt_f32_f64_e32 v0, v[2:3]", above_one, gpu=gpu, mode=DEFAULT_MODE | ROUND64_UP)
    other = one("v_cvt_f32_f64_e32 v0, v[2:3]", above_one, gpu=gpu, mode=DEFAULT_MODE | ROUND32_UP)
    assert (up, other) == (0x3F800001, 0x3F800000)


def test_denormal_results_of_that_conversion_are_those_of_binary32() -> None:
    denormal = 0x3800000000000000
    assert one("v_cvt_f32_f64_e32 v0, v[2:3]", denormal) == 0x00400000
    assert one("v_cvt_f32_f64_e32 v0, v[2:3]", denormal, mode=FLUSH32) == 0


@pytest.mark.parametrize("mode", [DEFAULT_MODE, DEFAULT_MODE | ROUND32_UP | ROUND64_UP])
def test_normalised_integers_are_rounded_once_to_nearest(mode: int) -> None:
    """0x3F008000 * 65535 is 32895.498, in binary32 32895.5; (0.5 - 2**-25) * 32767 is 16383.499."""
    assert one("v_cvt_pknorm_u16_f32 v0, v2, v4", 0x3F008000, 0, mode=mode) == 0x807F
    assert one("v_cvt_pknorm_i16_f32 v0, v2, v4", 0x3EFFFFFF, 0, mode=mode) == 0x3FFF


@pytest.mark.parametrize(
    ("sources", "expected"),
    [
        ((0x80000000, 0x80000000, 0x00000000), 0x80000000),
        ((0x80000000, 0x00000000, 0xBF800000), 0x80000000),
        ((0x00000000, 0x80000000, 0x80000000), 0x80000000),
        ((0x00000000, 0x80000000, 0x3F800000), 0x00000000),
        ((0x40000000, 0x3F800000, 0x40400000), 0x40000000),
        ((0x7FC00000, 0x3F800000, 0x40400000), 0x3F800000),
    ],
)
@pytest.mark.parametrize("gpu", ["gfx700", "gfx900"])
def test_the_median_orders_zeros(gpu: str, sources: tuple[int, int, int], expected: int) -> None:
    """The first row was measured on a later chip; AMD's pseudo-code and LLVM's folding would give +0."""
    assert one("v_med3_f32 v0, v2, v4, v6", *sources, gpu=gpu) == expected


def test_the_median_distinguishes_denormals_where_maxima_do() -> None:
    assert one("v_med3_f32 v0, v2, v4, v6", 1, 2, 3, gpu="gfx803", mode=FLUSH32) == 2


def test_clamped_logarithms_have_no_negative_infinity() -> None:
    """Only -infinity becomes the lowest finite number."""
    found = [one("v_log_clamp_f32_e32 v0, v2", x, gpu="gfx700") for x in (0, 0x80000000, 0x7F800000, 0x40800000)]
    assert found == [0xFF7FFFFF, 0xFF7FFFFF, 0x7F800000, 0x40000000]


@pytest.mark.parametrize(("gpu", "name", "wide", "narrow"), [
    ("gfx900", "v_mad_mix", 0, 0),
    ("gfx906", "v_fma_mix", 0x33800000, 0x0200),
])  # fmt: skip
def test_mixed_multiply_adds_flush_halves_unless_they_are_fused(gpu: str, name: str, wide: int, narrow: int) -> None:
    """Mesa: v_mad_mix of GFX9 always flushes 16-bit denormals, sources and results; LLVM found the same."""
    one_, zero = 0x3F800000, 0
    text = f"{name}_f32 v0, v2, v4, v6 op_sel_hi:[0,1,0]"
    assert one(text, one_, 0x0001, zero, gpu=gpu) == wide
    assert one(f"{name}lo_f16 v0, v2, v4, v6", one_, 0x38000000, zero, gpu=gpu) & 0xFFFF == narrow
