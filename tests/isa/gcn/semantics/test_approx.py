"""Approximate operations: within the manuals' bounds of exact values (mpmath), and their special cases."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from random import Random
from typing import Any

import mpmath
import pytest

from tests.isa.gcn.semantics import float_oracle as fl
from tests.isa.gcn.semantics.alu_rig import OPS, Alu, forms, operation, vector_results
from tests.isa.gcn.semantics.float_oracle import BY_KIND, D, Env, Format, H, S, env_of

EXACT: dict[str, Callable[[Any], Any]] = {
    "rcp": lambda x: 1 / x,
    "rsq": lambda x: 1 / mpmath.sqrt(x),
    "sqrt": mpmath.sqrt,
    "exp": lambda x: mpmath.mpf(2) ** x,
    "log": lambda x: mpmath.log(x, 2),
    "sin": lambda x: mpmath.sin(2 * mpmath.pi * x),
    "cos": lambda x: mpmath.cos(2 * mpmath.pi * x),
}
BOUND = {"f32": Fraction(1), "f16": Fraction(51, 100), "f64": Fraction(1 << 29)}
"""Units in the last place."""
FINER = {"f32": Fraction(52, 100), "f16": Fraction(501, 1000), "f64": Fraction(3, 2)}
"""The error bounds that this model promises, in units of the last place."""
DOMAIN = {
    "rcp": (2.0**-120, 2.0**120), "rsq": (2.0**-120, 2.0**120), "sqrt": (2.0**-120, 2.0**120), "exp": (2.0**-30, 100.0),
    "log": (2.0**-120, 2.0**120), "sin": (2.0**-60, 256.0), "cos": (2.0**-60, 256.0),
}  # fmt: skip
HALF_DOMAIN = {
    "rcp": (2.0**-13, 2.0**13), "rsq": (2.0**-24, 6e4), "sqrt": (2.0**-24, 6e4), "exp": (2.0**-20, 13.9),
    "log": (2.0**-24, 6e4), "sin": (2.0**-11, 256.0), "cos": (2.0**-11, 256.0),
}  # fmt: skip


def samples(name: str, form: Format, count: int) -> list[int]:
    """Numbers spread over the domain by their logarithm, of both signs where that makes sense."""
    random = Random(name)
    low, high = (HALF_DOMAIN if form is H else DOMAIN)[name]
    found = []
    while len(found) < count:
        x = Fraction(low * (high / low) ** random.random())
        if name not in ("rsq", "sqrt", "log") and random.random() < 0.5:
            x = -x
        found.append(fl.encode(form, x, Env()))
    if name in ("sin", "cos"):
        found[:16] = [fl.encode(form, Fraction(k, 8), Env()) for k in range(-8, 8)]
    if name == "log":
        one = form.bias << form.digits
        found[:16] = [one + k for k in range(-8, 8)]
    return found


def error(form: Format, got: int, exact: Any) -> Fraction:
    """Distance in units in the last place of the exact value."""
    exact = Fraction(int(mpmath.floor(exact * mpmath.mpf(2) ** 1300)), 1 << 1300)
    if exact == 0:
        return abs(fl.value(form, got)) / Fraction(2) ** (form.least - form.digits)
    unit = Fraction(2) ** (max(fl.log2_floor(abs(exact)), form.least) - form.digits)
    return abs(fl.value(form, got) - exact) / unit


@pytest.mark.parametrize("kind", ["f16", "f32", "f64"])
@pytest.mark.parametrize("name", EXACT)
def test_error_is_within_the_bound(name: str, kind: str) -> None:
    if kind == "f64" and name not in ("rcp", "rsq", "sqrt"):
        return
    form = BY_KIND[kind]
    alu = Alu("gfx900")
    with mpmath.workprec(1500):
        for at in range(4):
            values = samples(name, form, 64) if at == 0 else samples(f"{name}", form, 64 * (at + 1))[-64:]
            alu.set_v(2, values, form.width)
            alu.run(f"v_{name}_{kind} {'v[0:1], v[2:3]' if kind == 'f64' else 'v0, v2'}")
            for a, got in zip(values, alu.v(0, form.width), strict=True):
                got &= (1 << form.width) - 1
                x = fl.value(form, a)
                exact = EXACT[name](mpmath.mpf(x.numerator) / x.denominator)
                if abs(exact) < mpmath.mpf(2) ** (-1200):
                    exact = mpmath.mpf(0)
                wrong = error(form, got, exact)
                assert wrong <= FINER[kind] <= BOUND[kind], f"{name} of {a:#x} = {got:#x}: {float(wrong)} ULP"


INF, NAN, MINUS = 0x7F800000, 0x7FC00000, 0x80000000
ONE = 0x3F800000
SPECIAL = {
    # operation: {source: result}
    "rcp": {0: INF, MINUS: MINUS | INF, INF: 0, MINUS | INF: MINUS, 1: INF, 0x807FFFFF: MINUS | INF,
            0x7E800000: 0x00800000,
            0x7E800001: 0, 0xFF000000: MINUS, 0x7F812345: NAN},
    "rcp_iflag": {0: INF, INF: 0, 0x40000000: 0x3F000000},
    "rsq": {0: INF, MINUS: MINUS | INF, INF: 0, MINUS | ONE: NAN, MINUS | INF: NAN, 1: INF, 0x80000001: MINUS | INF,
            0x40800000: 0x3F000000},
    "sqrt": {0: 0, MINUS: MINUS, INF: INF, MINUS | ONE: NAN, 1: 0, 0x80000001: MINUS, 0x40800000: 0x40000000},
    "exp": {0: ONE, MINUS: ONE, INF: INF, MINUS | INF: 0, NAN: NAN, 1: ONE, 0x43000000: INF, 0xC2FC0000: 0x00800000,
            0xC2FC0001: 0, 0xC3160000: 0, 0x7F7FFFFF: INF, 0xFF7FFFFF: 0, 0x42FE0000: 0x7F000000},
    "log": {0: MINUS | INF, MINUS: MINUS | INF, INF: INF, MINUS | ONE: NAN, MINUS | INF: NAN, 1: MINUS | INF, ONE: 0,
            0x00800000: 0xC2FC0000, 0x40000000: ONE},
    "sin": {0: 0, MINUS: MINUS, INF: NAN, NAN: NAN, 0x3E800000: ONE, 0x3F000000: 0, 0x43800000: 0, 0x43800001: 0,
            0xC3800001: 0,
            0x7F7FFFFF: 0, 1: 0, 0xBE800000: MINUS | ONE},
    "cos": {0: ONE, MINUS: ONE, INF: NAN, NAN: NAN, 0x3E800000: 0, 0x3F000000: MINUS | ONE, 0x43800000: ONE,
            0x43800001: ONE,
            0x7F7FFFFF: ONE, 1: ONE},
}  # fmt: skip
SPECIAL["log_legacy"], SPECIAL["exp_legacy"] = SPECIAL["log"], SPECIAL["exp"]
SPECIAL7 = {
    "log_clamp": {0: 0xFF7FFFFF, INF: INF, ONE: 0},
    "rcp_clamp": {0: 0x7F7FFFFF, MINUS: 0xFF7FFFFF, 0x40000000: 0x3F000000},
    "rcp_legacy": {0: 0, MINUS: MINUS, INF: 0, 0x40000000: 0x3F000000},
    "rsq_clamp": {0: 0x7F7FFFFF, MINUS: 0xFF7FFFFF, MINUS | ONE: NAN},
    "rsq_legacy": {0: 0, 0x40800000: 0x3F000000},
}  # fmt: skip


@pytest.mark.parametrize("mode", [0x3F0, 0x3C0, 0x3C5])
@pytest.mark.parametrize(
    ("gpu", "name"), [*(("gfx900", name) for name in SPECIAL), *(("gfx700", name) for name in SPECIAL7)]
)
def test_special_values(gpu: str, name: str, mode: int) -> None:
    cases = (SPECIAL | SPECIAL7)[name]
    op = operation(f"v_{name}_f32", gpu)
    column = [*cases, *[ONE] * (64 - len(cases))]
    found = vector_results(op, forms(op)[0], [column], gpu, mode)
    for (source, expected), (got,) in zip(cases.items(), found, strict=False):
        assert got == expected, f"{name} of {source:#x} = {got:#x}, not {expected:#x}"


def test_clamped_doubles_of_gfx7() -> None:
    alu = Alu("gfx700")
    alu.set_v(2, [0, 1 << 63] * 32, 64)
    alu.run("v_rcp_clamp_f64 v[0:1], v[2:3]")
    assert alu.v(0, 64)[:2] == [D.infinity - 1, D.sign | D.infinity - 1]
    alu.run("v_rsq_clamp_f64 v[0:1], v[2:3]")
    assert alu.v(0, 64)[:2] == [D.infinity - 1, D.sign | D.infinity - 1]


@pytest.mark.parametrize("mode", [0x3F0, 0x300])
def test_halves_follow_mode_for_denormals(mode: int) -> None:
    alu = Alu("gfx900", mode)
    alu.set_v(2, [0x0001, 0x0200, 0x7B00] + [0x3C00] * 61)
    alu.run("v_rcp_f16 v0, v2", "v_sqrt_f16 v1, v2")
    env = env_of(mode, H)
    for a, got in zip((0x0001, 0x0200, 0x7B00), alu.v(0), strict=False):
        assert got == fl.div(H, 0x3C00, a, env)
    assert alu.v(1)[0] == fl.sqrt(H, 0x0001, env)


def test_every_approximate_operation_says_so() -> None:
    for op in OPS:
        word = op.name.split("_")[1]
        if op.name.startswith("v_") and word in EXACT:
            assert op.accuracy.kind == "approximate"
            assert op.accuracy.bound
    assert {op.accuracy.bound for op in OPS if op.name.endswith("_f32") and op.name.startswith("v_rcp")} == {"1 ULP"}


def test_sqrt_f32_is_correctly_rounded() -> None:
    alu = Alu("gfx900")
    values = samples("sqrt", S, 64)
    alu.set_v(2, values)
    alu.run("v_sqrt_f32 v0, v2")
    assert alu.v(0) == [fl.sqrt(S, a, Env()) for a in values]
