"""The float algebra of lanes against exact integer arithmetic, in every rounding and denormal mode."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from fractions import Fraction
from random import Random
from typing import Any

import numpy as np
import pytest

from softcard.core.errors import ModelBug
from softcard.engine.gcn.reference.lane_float import BITS, LaneFloats, fma64, odd_sum, quiet
from softcard.engine.gcn.reference.lane_integer import UNSIGNED
from softcard.ir import softfloat
from softcard.ir.softfloat import CANONICAL_NAN, FORMATS, RDN, RNE, RTZ, RUP, UF
from softcard.isa.gcn.state import LANES, Mode

ROUNDING = {0: RNE, 1: RUP, 2: RDN, 3: RTZ}
"""What the numbers of MODE mean, as the manuals list them."""
MODES = [(rounding, denormals) for rounding in range(4) for denormals in range(4)]


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with quiet():
        yield


def algebra(rounding: int = 0, denormals: int = 3, **more: Any) -> LaneFloats:
    """In MODE the same for all formats."""
    made = LaneFloats()
    made.mode = Mode(rounding, rounding, denormals, denormals, **more)
    return made


def hard(fmt: str) -> list[int]:
    """Patterns around every edge of the format, both signs."""
    f = FORMATS[fmt]
    one, n, p = (f.inf // f.hidden // 2) * f.hidden, f.hidden, f.precision
    edges = [0, 1, 2, 3, n // 2, n - 2, n - 1, n, n + 1, 2 * n - 1, 2 * n, one - 1, one, one + 1, one + n // 2]
    edges += [one | (n - 1), f.inf - 1, f.inf - 2, f.inf - n, f.inf, f.inf | f.quiet, f.inf | 1, f.inf | f.quiet | 5]
    edges += [one + k * n for k in (p - 2, p - 1, p, p + 1) if one + k * n < f.inf]
    edges += [one - k * n for k in (p - 2, p - 1, p, p + 1) if one - k * n > 0]
    return [*edges, *(e | f.sign for e in edges)]


def pattern(fmt: str, random: Random) -> int:
    f, kind = FORMATS[fmt], random.random()
    if kind < 0.4:
        return random.choice(hard(fmt))
    if kind < 0.6:
        return (random.choice(hard(fmt)) + random.randint(-3, 3)) % (1 << BITS[fmt])
    if kind < 0.8:
        exponent = f.inf // f.hidden // 2 + random.randint(-4, 4)
        return random.getrandbits(1) * f.sign | exponent * f.hidden | random.getrandbits(f.precision - 1)
    return random.getrandbits(BITS[fmt])


def patterns(fmt: str, seed: int) -> list[int]:
    random = Random(seed)
    return [pattern(fmt, random) for _ in range(LANES)]


def lanes(w: int, values: list[int]) -> Any:
    return np.array(values, UNSIGNED[w])


def keep(fmt: str, a: int, kept: bool) -> int:
    """An operand as MODE lets it in."""
    f = FORMATS[fmt]
    return a if kept or a & f.inf else a & f.sign


def leave(fmt: str, result: softfloat.Result, kept: bool) -> int:
    """A result as MODE lets it out: tiny after rounding becomes zero."""
    f, (bits, flags) = FORMATS[fmt], result
    return bits if kept or not (flags & UF or bits & ~f.sign < f.hidden) else bits & f.sign


ARITHMETIC: dict[str, tuple[Callable[..., softfloat.Result], int]] = {
    "fadd": (softfloat.add, 2),
    "fsub": (softfloat.sub, 2),
    "fmul": (softfloat.mul, 2),
    "fdiv": (softfloat.div, 2),
    "fsqrt": (softfloat.sqrt, 1),
    "fma": (softfloat.fma, 3),
}


@pytest.mark.parametrize("fmt", FORMATS)
@pytest.mark.parametrize("name", ARITHMETIC)
def test_arithmetic_in_every_mode(name: str, fmt: str) -> None:
    function, count = ARITHMETIC[name]
    for seed, (rounding, denormals) in enumerate(MODES * 3):
        o = algebra(rounding, denormals)
        operands = [patterns(fmt, 100 * seed + k) for k in range(count)]
        got = getattr(o, name)(fmt, *(lanes(BITS[fmt], a) for a in operands)).tolist()
        for lane, values in enumerate(zip(*operands, strict=True)):
            kept = [keep(fmt, a, bool(denormals & 1)) for a in values]
            expected = leave(fmt, function(fmt, *kept, ROUNDING[rounding]), bool(denormals & 2))
            assert got[lane] == expected, (rounding, denormals, [hex(a) for a in values])


def tiny_products(fmt: str) -> list[tuple[int, int]]:
    """Factors whose product lies next to the smallest normal number."""
    f, random = FORMATS[fmt], Random(7)
    bias = f.inf // f.hidden // 2
    pairs = []
    for _ in range(10 * LANES):
        low = random.getrandbits(f.precision - 1) if random.random() < 0.5 else f.hidden - 1 - random.getrandbits(2)
        a = bias // 2 * f.hidden | low
        # b so that a * b is the smallest normal number, as nearly as can be.
        _, mant, exp = softfloat._unpack(f, a)
        target = Fraction(2) ** (f.lsb + f.precision - 1) / (mant * Fraction(2) ** exp)
        scaled = 0
        while target < 1:
            target, scaled = target * 2, scaled - 1
        b = softfloat.convert(fmt, "d", int(np.float64(float(target)).view(np.uint64)), RNE)[0]
        b = softfloat.scale(fmt, b, scaled, RNE)[0] + random.randint(-2, 2)
        pairs.append((a, b))
    return pairs


@pytest.mark.parametrize("fmt", FORMATS)
@pytest.mark.parametrize("rounding", range(4))
def test_tininess_is_checked_after_rounding(fmt: str, rounding: int) -> None:
    o, pairs, corner = algebra(rounding, 1), tiny_products(fmt), 0
    for at in range(0, len(pairs), LANES):
        a, b = ([pair[k] for pair in pairs[at : at + LANES]] for k in (0, 1))
        got = o.fmul(fmt, lanes(BITS[fmt], a), lanes(BITS[fmt], b)).tolist()
        for lane, values in enumerate(zip(a, b, strict=True)):
            bits, flags = result = softfloat.mul(fmt, *values, ROUNDING[rounding])
            corner += bits == FORMATS[fmt].hidden and bool(flags & UF)
            assert got[lane] == leave(fmt, result, False), [hex(v) for v in values]
    if rounding in (0, 1) and fmt != "d":
        assert corner > 0


@pytest.mark.parametrize("fmt", FORMATS)
def test_environments(fmt: str) -> None:
    w, f = BITS[fmt], FORMATS[fmt]
    o, one_below = algebra(2, 3), lanes(w, [f.hidden - 1] * LANES)
    one = (f.inf // f.hidden // 2) * f.hidden
    assert o.fadd(fmt, one_below, 0).tolist() == [f.hidden - 1] * LANES
    assert o.fadd(fmt, one_below, 0, "flush").tolist() == [0] * LANES
    assert o.fadd(fmt, one, 1) == one
    assert o.fadd(fmt, one | f.sign, 1 | f.sign) == (one | f.sign) + 1
    assert o.fadd(fmt, one | f.sign, 1 | f.sign, "flush") == one | f.sign
    assert o.fadd(fmt, one | f.sign, 1 | f.sign, "raw") == one | f.sign
    flushing = algebra(2, 0)
    assert flushing.fadd(fmt, one_below, 0, "raw").tolist() == [f.hidden - 1] * LANES
    with pytest.raises(ModelBug, match="a float environment must be None, 'flush' or 'raw', not 'x'"):
        o.fadd(fmt, one_below, 0, "x")


def test_mode_has_two_sets_of_bits() -> None:
    o = LaneFloats()
    o.mode = Mode(round32=3, round64=1, denorm32=0, denorm64=3)
    assert o.environment("s") == (RTZ, False, False, False)
    assert o.environment("d") == (RUP, True, True, False)
    assert o.environment("h") == (RUP, True, True, False)


@pytest.mark.parametrize("fmt", FORMATS)
def test_scalars_give_ints(fmt: str) -> None:
    o, f = algebra(), FORMATS[fmt]
    one = (f.inf // f.hidden // 2) * f.hidden
    results = [
        o.fadd(fmt, one, one), o.fma(fmt, one, one, 0), o.fsqrt(fmt, one), o.feq(fmt, one, one),
        o.fround(fmt, one, "ceil"), o.fldexp(fmt, one, 1), o.fconvert("s", fmt, one), o.ffrom_int(fmt, 32, True, 5),
        o.fto_int(fmt, 32, True, one), o.fflush(fmt, 1),
    ]  # fmt: skip
    assert all(type(r) is int for r in results)
    assert results[:2] == [one + f.hidden, one]


@pytest.mark.parametrize("fmt", FORMATS)
@pytest.mark.parametrize("denormals", range(4))
def test_comparisons(fmt: str, denormals: int) -> None:
    o, kept = algebra(0, denormals), bool(denormals & 1)
    for seed in range(6):
        a, b = patterns(fmt, seed), patterns(fmt, seed + 50)
        b[:8] = a[:8]
        results = [
            getattr(o, name)(fmt, lanes(BITS[fmt], a), lanes(BITS[fmt], b)) for name in ("feq", "flt", "fle", "funo")
        ]
        assert all(r.dtype == np.bool_ for r in results)
        for lane, (x, y) in enumerate(zip(a, b, strict=True)):
            x, y = keep(fmt, x, kept), keep(fmt, y, kept)
            expected = [softfloat.eq(fmt, x, y)[0], softfloat.lt(fmt, x, y)[0], softfloat.le(fmt, x, y)[0]]
            expected.append(int(softfloat.is_nan(fmt, x) or softfloat.is_nan(fmt, y)))
            assert [int(r[lane]) for r in results] == expected


def value(fmt: str, bits: int) -> Fraction:
    negative, mant, exp = softfloat._unpack(FORMATS[fmt], bits)
    return (-1) ** negative * mant * Fraction(2) ** exp


INTEGRAL: dict[str, Callable[[Fraction], int]] = {
    "trunc": int,
    "floor": lambda x: x.numerator // x.denominator,
    "ceil": lambda x: -(-x.numerator // x.denominator),
    "even": round,
}


@pytest.mark.parametrize("fmt", FORMATS)
@pytest.mark.parametrize("kind", INTEGRAL)
def test_rounding_to_integral_values(kind: str, fmt: str) -> None:
    f = FORMATS[fmt]
    for seed, denormals in enumerate((0, 1, 2, 3)):
        a = patterns(fmt, seed)
        got = algebra(0, denormals).fround(fmt, lanes(BITS[fmt], a), kind).tolist()
        for lane, bits in enumerate(a):
            bits = keep(fmt, bits, bool(denormals & 1))
            if bits & f.inf == f.inf:
                expected = CANONICAL_NAN[fmt] if softfloat.is_nan(fmt, bits) else bits
            else:
                whole = INTEGRAL[kind](value(fmt, bits))
                expected = softfloat.from_int(fmt, 2048, False, abs(whole), RNE)[0] | bits & f.sign
            assert got[lane] == expected, hex(bits)
    with pytest.raises(ModelBug, match="must be one of trunc, ceil, floor, even, not 'up'"):
        algebra().fround(fmt, 0, "up")


@pytest.mark.parametrize("fmt", FORMATS)
def test_scaling_by_powers_of_two(fmt: str) -> None:
    random = Random(5)
    for seed, (rounding, denormals) in enumerate(MODES * 2):
        a = patterns(fmt, seed)
        n = [random.choice((0, 1, -1, 31, random.randint(-2200, 2200), random.randint(-60, 60), -(2**31))) for _ in a]
        got = (
            algebra(rounding, denormals)
            .fldexp(fmt, lanes(BITS[fmt], a), lanes(32, [k & 0xFFFF_FFFF for k in n]))
            .tolist()
        )
        for lane, bits in enumerate(a):
            result = softfloat.scale(fmt, keep(fmt, bits, bool(denormals & 1)), n[lane], ROUNDING[rounding])
            assert got[lane] == leave(fmt, result, bool(denormals & 2)), (hex(bits), n[lane])


@pytest.mark.parametrize("to", FORMATS)
@pytest.mark.parametrize("fmt", FORMATS)
def test_conversions_between_formats(fmt: str, to: str) -> None:
    for seed, (rounding, denormals) in enumerate(MODES * 2):
        a = patterns(fmt, seed)
        o = algebra(rounding, denormals)
        got = o.fconvert(to, fmt, lanes(BITS[fmt], a)).tolist()
        other = o.fconvert(to, fmt, lanes(BITS[fmt], a), "raw", 3).tolist()
        for lane, bits in enumerate(a):
            result = softfloat.convert(to, fmt, keep(fmt, bits, bool(denormals & 1)), ROUNDING[rounding])
            assert got[lane] == leave(to, result, bool(denormals & 2)), hex(bits)
            assert other[lane] == softfloat.convert(to, fmt, bits, RTZ)[0], hex(bits)


@pytest.mark.parametrize("w", [16, 32, 64])
@pytest.mark.parametrize("is_signed", [False, True])
@pytest.mark.parametrize("fmt", FORMATS)
def test_conversions_from_and_to_integers(fmt: str, is_signed: bool, w: int) -> None:
    random = Random(w)
    for seed, (rounding, denormals) in enumerate(MODES):
        o = algebra(rounding, denormals)
        numbers = [
            random.choice((0, 1, 2 ** (w - 1), 2 ** (w - 1) - 1, 2**w - 1, random.getrandbits(w))) for _ in range(LANES)
        ]
        numbers[:20] = [random.getrandbits(random.randint(1, w)) for _ in range(20)]
        got = o.ffrom_int(fmt, w, is_signed, lanes(w, numbers)).tolist()
        assert got == [softfloat.from_int(fmt, w, is_signed, n, ROUNDING[rounding])[0] for n in numbers]
        a = patterns(fmt, seed)
        whole = o.fto_int(fmt, w, is_signed, lanes(BITS[fmt], a))
        assert whole.dtype == UNSIGNED[w]
        assert whole.tolist() == [
            0 if softfloat.is_nan(fmt, bits) else softfloat.to_int(w, is_signed, fmt, bits, RTZ)[0] for bits in a
        ]


def test_flushing_alone_keeps_all_other_bits() -> None:
    a = lanes(32, [0x0000_0001, 0x807F_FFFF, 0x0080_0000, 0x7F80_0001, 0xFFC0_1234, 0x8000_0000, 0x3F80_0000, 0] * 8)
    assert algebra(0, 3).fflush("s", a) is a
    assert algebra(0, 2).fflush("s", a).tolist()[:6] == [
        0,
        0x8000_0000,
        0x80_0000,
        0x7F80_0001,
        0xFFC0_1234,
        0x8000_0000,
    ]


def test_halves_may_be_limited_to_the_largest_finite_one() -> None:
    big, inf, one = 0x7BFF, 0x7C00, 0x3C00
    o = algebra(0, 3, fp16_overflow=True)
    assert o.fadd("h", big, big) == big
    assert o.fmul("h", big, 0xC000) == big | 0x8000
    assert o.fconvert("h", "s", 0x7F00_0000) == big
    assert o.fadd("h", inf, one) == inf
    assert o.fdiv("h", one, 0) == inf
    assert o.fadd("s", 0x7F7F_FFFF, 0x7F7F_FFFF) == 0x7F80_0000
    assert algebra().fadd("h", big, big) == inf


def test_sums_rounded_to_odd() -> None:
    random = Random(3)
    for _ in range(40):
        a = np.array([random.choice((-1, 1)) * random.random() * 2.0 ** random.randint(-60, 60) for _ in range(LANES)])
        b = np.array([random.choice((-1, 1)) * random.random() * 2.0 ** random.randint(-60, 60) for _ in range(LANES)])
        for x, y, got in zip(a.tolist(), b.tolist(), odd_sum(a, b).tolist(), strict=True):
            exact = Fraction(x) + Fraction(y)
            if Fraction(got) != exact:
                assert int(np.float64(got).view(np.uint64)) & 1
                assert abs(Fraction(got) - exact) < abs(Fraction(float(np.nextafter(got, np.inf))) - Fraction(got))


def test_fused_multiply_add_reports_where_it_is_unsure() -> None:
    a, b = np.full(LANES, 1.5), np.full(LANES, 3.0)
    c = np.zeros(LANES)
    a[0], b[1], a[2], b[3], c[4], c[5] = 2.0**600, 2.0**-600, 0.0, np.nan, 2.0**1010, -4.5
    unsure = fma64(a, b, c)[1]
    assert unsure.tolist() == [True] * 6 + [False] * (LANES - 6)


def test_nothing_warns() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for fmt in FORMATS:
            for rounding, denormals in MODES:
                o, w = algebra(rounding, denormals), BITS[fmt]
                a = [lanes(w, patterns(fmt, k)) for k in range(3)]
                o.fma(fmt, *a)
                o.fdiv(fmt, a[0], a[1])
                o.fsqrt(fmt, a[0])
                o.fto_int(fmt, 64, True, a[0])
                o.fto_int(fmt, 16, False, a[0])
                o.fldexp(fmt, a[0], lanes(32, [0x7FFF_FFFF] * LANES))
                o.fconvert("h", fmt, a[0])
