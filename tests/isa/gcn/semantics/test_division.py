"""v_div_scale, v_div_fmas and v_div_fixup: in compilers' sequences they must give correctly rounded quotients."""

from __future__ import annotations

from itertools import product
from random import Random

import pytest

from tests.isa.gcn.semantics import float_oracle as fl
from tests.isa.gcn.semantics.alu_rig import Alu
from tests.isa.gcn.semantics.float_oracle import D, Env, Format, H, S

F32 = (
    "v_div_scale_f32 v3, s[4:5], v2, v2, v1",
    "v_div_scale_f32 v4, vcc, v1, v2, v1",
    "v_rcp_f32_e32 v5, v3",
    "{on}",
    "v_fma_f32 v6, -v3, v5, 1.0",
    "v_fma_f32 v5, v6, v5, v5",
    "v_mul_f32_e32 v6, v4, v5",
    "v_fma_f32 v7, -v3, v6, v4",
    "v_fma_f32 v6, v7, v5, v6",
    "v_fma_f32 v3, -v3, v6, v4",
    "{off}",
    "v_div_fmas_f32 v3, v3, v5, v6",
    "v_div_fixup_f32 v0, v3, v2, v1",
)
"""v0 = v1 / v2 as LLVM writes it; denormals are switched on for the middle part where they are off."""
F64 = (
    "v_div_scale_f64 v[6:7], s[4:5], v[4:5], v[4:5], v[2:3]",
    "v_rcp_f64_e32 v[8:9], v[6:7]",
    "v_fma_f64 v[10:11], -v[6:7], v[8:9], 1.0",
    "v_fma_f64 v[8:9], v[8:9], v[10:11], v[8:9]",
    "v_fma_f64 v[10:11], -v[6:7], v[8:9], 1.0",
    "v_fma_f64 v[8:9], v[8:9], v[10:11], v[8:9]",
    "v_div_scale_f64 v[10:11], vcc, v[2:3], v[4:5], v[2:3]",
    "v_mul_f64 v[12:13], v[10:11], v[8:9]",
    "v_fma_f64 v[6:7], -v[6:7], v[12:13], v[10:11]",
    "v_div_fmas_f64 v[6:7], v[6:7], v[8:9], v[12:13]",
    "v_div_fixup_f64 v[0:1], v[6:7], v[4:5], v[2:3]",
)


def pairs(form: Format, count: int, seed: int) -> list[tuple[int, int]]:
    """Numerators and denominators: all hard ones, and random ones whose quotients often come near the format's ends."""
    random = Random(seed)
    found = list(product(fl.HARD[form], repeat=2))
    exponents = form.infinity >> form.digits
    while len(found) < count or len(found) % 64:
        a = random.randrange(exponents)
        b = random.choice(
            (
                random.randrange(exponents),
                min(exponents - 1, max(0, a + random.choice((1, -1)) * form.bias + random.randrange(-30, 30))),
            )
        )
        signs = random.getrandbits(2)
        digits = random.getrandbits(form.digits), random.getrandbits(form.digits)
        found.append(
            (
                a << form.digits | digits[0] | (signs & 1) * form.sign,
                b << form.digits | digits[1] | (signs >> 1) * form.sign,
            )
        )
    return found


def same(form: Format, got: int, expected: int) -> bool:
    """Equal, all NaNs alike."""
    return got == expected or (fl.is_nan(form, got) and fl.is_nan(form, expected))


@pytest.mark.parametrize(("mode", "keeps"), [(0x3F0, True), (0x3C0, False)])
def test_compiled_f32_division_is_correctly_rounded(mode: int, keeps: bool) -> None:
    rows = pairs(S, 64 * 50, 1)
    env = Env(fl.NEAREST, keeps, keeps)
    on, off = (
        ("s_nop 0",) * 2
        if keeps
        else ("s_setreg_imm32_b32 hwreg(HW_REG_MODE, 4, 2), 3", "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 4, 2), 0")
    )
    alu = Alu("gfx900", mode)
    for at in range(0, len(rows), 64):
        batch = rows[at : at + 64]
        alu.set_v(1, [a for a, _ in batch])
        alu.set_v(2, [b for _, b in batch])
        alu.run(*(text.format(on=on, off=off) for text in F32))
        for (a, b), got in zip(batch, alu.v(0), strict=True):
            assert same(S, got, fl.div(S, a, b, env)), f"{a:#x} / {b:#x} = {got:#x}"


@pytest.mark.parametrize("gpu", ["gfx700", "gfx803"])
def test_compiled_f64_division_is_correctly_rounded(gpu: str) -> None:
    rows = pairs(D, 64 * 50, 2)
    alu = Alu(gpu)
    for at in range(0, len(rows), 64):
        batch = rows[at : at + 64]
        alu.set_v(2, [a for a, _ in batch], 64)
        alu.set_v(4, [b for _, b in batch], 64)
        alu.run(*F64)
        for (a, b), got in zip(batch, alu.v(0, 64), strict=True):
            assert same(D, got, fl.div(D, a, b, Env())), f"{a:#x} / {b:#x} = {got:#x}"


def test_compiled_f16_division_is_within_a_place() -> None:
    """Compilers divide halves by way of binary32 and v_div_fixup_f16."""
    rows = list(product(fl.HARD[H], repeat=2))
    rows = rows[: len(rows) // 64 * 64]
    alu = Alu("gfx900")
    for at in range(0, len(rows), 64):
        batch = rows[at : at + 64]
        alu.set_v(1, [a for a, _ in batch])
        alu.set_v(2, [b for _, b in batch])
        alu.run(
            "v_cvt_f32_f16_e32 v3, v2",
            "v_cvt_f32_f16_e32 v4, v1",
            "v_rcp_f32_e32 v3, v3",
            "v_mul_f32_e32 v3, v4, v3",
            "v_cvt_f16_f32_e32 v3, v3",
            "v_div_fixup_f16 v0, v3, v2, v1",
        )
        for (a, b), got in zip(batch, alu.v(0), strict=True):
            expected = fl.div(H, a, b, Env())
            got &= 0xFFFF
            assert same(H, got, expected) or abs(got - expected) == 1, f"{a:#x} / {b:#x} = {got:#x}, not {expected:#x}"


def test_fixup_of_special_cases() -> None:
    alu = Alu()
    inf, nan, one, two = 0x7F800000, 0x7FC00000, 0x3F800000, 0x40000000
    minus = 0x80000000
    cases = [
        # quotient, denominator, numerator: result
        (one, two, 0x7F801234, 0x7FC01234),
        (one, 0xFF801234, two, 0xFFC01234),
        (one, 0, minus, 0xFFC00000),
        (one, inf, minus | inf, 0xFFC00000),
        (one, minus, two, minus | inf),
        (nan, two, minus | inf, minus | inf),
        (nan, inf, minus | one, minus),
        (nan, one, minus, minus),
        (minus | one, two, two, one),
        (one, minus | two, two, minus | one),
        (one, 0x7F000000, 0x00800000, 0),
        (one, 0x7F000000, 0x80800000, minus),
    ]
    alu.set_v(1, [a for a, _, _, _ in cases] + [0] * (64 - len(cases)))
    alu.set_v(2, [b for _, b, _, _ in cases] + [0] * (64 - len(cases)))
    alu.set_v(3, [c for _, _, c, _ in cases] + [0] * (64 - len(cases)))
    alu.run("v_div_fixup_f32 v0, v1, v2, v3")
    assert [hex(n) for n in alu.v(0)[: len(cases)]] == [hex(d) for _, _, _, d in cases]


@pytest.mark.parametrize(("mode", "result"), [(0x3F0, 0), (0x3F5, 1), (0x3FA, 0), (0x3FF, 0)])
def test_fixup_rounds_what_underflows_as_mode_says(mode: int, result: int) -> None:
    alu = Alu(mode=mode)
    alu.set_v(1, [0x3F800000] * 64)
    alu.set_v(2, [0x7F000000] * 64)
    alu.set_v(3, [0x00800000] * 64)
    alu.run("v_div_fixup_f32 v0, v1, v2, v3")
    assert alu.v(0)[0] == result
