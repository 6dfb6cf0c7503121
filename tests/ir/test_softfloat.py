"""engine.floats against two oracles that share nothing with it: NumPy's hardware arithmetic, and exact rationals."""

from __future__ import annotations

from fractions import Fraction
from math import isqrt
from random import Random

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from softcard.core.errors import ModelBug
from softcard.ir import softfloat
from softcard.ir.softfloat import CANONICAL_NAN, DZ, FORMATS, NV, NX, OF, RDN, RMM, RNE, RTZ, RUP, UF

MODES = (RNE, RTZ, RDN, RUP, RMM)
WIDTH = {"s": 32, "d": 64}
FRACTION = {"s": 23, "d": 52}
UINT = {"s": np.uint32, "d": np.uint64}
FLOAT = {"s": np.float32, "d": np.float64}


def sign_bit(fmt: str) -> int:
    return 1 << (WIDTH[fmt] - 1)


def infinity(fmt: str) -> int:
    return ((1 << (WIDTH[fmt] - 1 - FRACTION[fmt])) - 1) << FRACTION[fmt]


def hard(fmt: str) -> list[int]:
    """Positive patterns around every edge of the format, then their negatives."""
    inf, one = infinity(fmt), infinity(fmt) >> 1 & ~((1 << FRACTION[fmt]) - 1)
    normal, quiet = 1 << FRACTION[fmt], 1 << (FRACTION[fmt] - 1)
    ulp = normal
    edges = [0, 1, 2, 3, normal - 2, normal - 1, normal, normal + 1, 2 * normal - 1, 2 * normal, 3 * normal]
    edges += [one - 1, one, one + 1, one + 2, one + ulp, one + ulp + ulp // 2, one - ulp, one | (normal - 1)]
    edges += [one + k * ulp for k in (22, 23, 24, 25, 30, 31, 32, 51, 52, 53, 54, 62, 63, 64)]
    edges += [one + 31 * ulp - 1, one + 32 * ulp - 1, one + 63 * ulp - 1, one + 64 * ulp - 1]
    edges += [inf - 1, inf - 2, inf - normal, inf, inf | quiet, inf | quiet | 5, inf | 1, inf | (quiet - 1)]
    edges = [e for e in edges if 0 <= e < sign_bit(fmt)]
    return [*edges, *(e | sign_bit(fmt) for e in edges)]


def patterns(fmt: str) -> st.SearchStrategy[int]:
    near = st.builds(lambda h, d: (h + d) % (1 << WIDTH[fmt]), st.sampled_from(hard(fmt)), st.integers(-3, 3))
    return st.one_of(st.sampled_from(hard(fmt)), near, st.integers(0, (1 << WIDTH[fmt]) - 1))


def some(fmt: str, seed: int, count: int) -> list[int]:
    """Seeded patterns: half of them hard, half anything."""
    random, edges = Random(seed), hard(fmt)
    return [random.choice(edges) if random.random() < 0.5 else random.getrandbits(WIDTH[fmt]) for _ in range(count)]


# The exact oracle: a format is the list of its magnitudes in order, and rounding looks for neighbours in it.


def magnitude(fmt: str, m: int) -> Fraction:
    """Value of a positive pattern; the pattern of infinity counts as the next power of two."""
    exponent, fraction = m >> FRACTION[fmt], m & ((1 << FRACTION[fmt]) - 1)
    bias = (1 << (WIDTH[fmt] - FRACTION[fmt] - 2)) - 1
    significand = fraction + (1 << FRACTION[fmt] if exponent else 0)
    power = max(exponent, 1) - bias - FRACTION[fmt]
    return Fraction(significand << power) if power >= 0 else Fraction(significand, 1 << -power)


def exact(fmt: str, a: int) -> Fraction:
    value = magnitude(fmt, a & ~sign_bit(fmt))
    return -value if a & sign_bit(fmt) else value


def neighbour(fmt: str, q: Fraction, negative: bool, rm: int) -> int:
    """Pattern of the magnitude that rounding `q` > 0 chooses, with overflow to the pattern of infinity."""
    low, high = 0, infinity(fmt)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if magnitude(fmt, middle) <= q else (low, middle)
    if magnitude(fmt, low) == q:
        return low
    twice, both = 2 * q, magnitude(fmt, low) + magnitude(fmt, high)
    nearest = high if twice > both or (twice == both and (rm == RMM or high % 2 == 0)) else low
    return {RNE: nearest, RMM: nearest, RTZ: low, RDN: high if negative else low, RUP: low if negative else high}[rm]


def rounded(fmt: str, q: Fraction, rm: int) -> tuple[int, int]:
    """The oracle's result for the number `q` != 0."""
    negative, size = q < 0, abs(q)
    sign = sign_bit(fmt) if negative else 0
    found = neighbour(fmt, size, negative, rm) if size < magnitude(fmt, infinity(fmt)) else infinity(fmt)
    if found == infinity(fmt):
        away = rm in (RNE, RMM) or (rm == RDN and negative) or (rm == RUP and not negative)
        return sign | (found if away else found - 1), OF | NX
    if magnitude(fmt, found) == size:
        return sign | found, 0
    least, far = magnitude(fmt, 1 << FRACTION[fmt]), Fraction(2) ** 120
    tiny = size < least and magnitude(fmt, neighbour(fmt, size * far, negative, rm)) < least * far
    return sign | found, NX | UF if tiny else NX


def finite(fmt: str, *operands: int) -> bool:
    return all(a & infinity(fmt) != infinity(fmt) for a in operands)


def check_exact(fmt: str, rm: int, a: int, b: int, c: int) -> None:
    """All arithmetic on finite operands against exact rationals; zero results are checked elsewhere."""
    if not finite(fmt, a, b, c):
        return
    x, y, z = exact(fmt, a), exact(fmt, b), exact(fmt, c)
    cases = [
        (softfloat.add(fmt, a, b, rm), x + y),
        (softfloat.sub(fmt, a, b, rm), x - y),
        (softfloat.mul(fmt, a, b, rm), x * y),
        (softfloat.fma(fmt, a, b, c, rm), x * y + z),
    ]
    if y:
        cases.append((softfloat.div(fmt, a, b, rm), x / y))
    for got, value in cases:
        if value:
            assert got == rounded(fmt, value, rm), (fmt, rm, hex(a), hex(b), hex(c), value)
        else:
            assert got in ((0, 0), (sign_bit(fmt), 0))
    if x > 0:
        assert softfloat.sqrt(fmt, a, rm) == rounded(fmt, root(x), rm), (fmt, rm, hex(a))


def root(q: Fraction) -> Fraction:
    """The square root of `q` > 0 if rational, else a number so close that no rounding can tell it apart."""
    scaled = q * 4**700
    whole = scaled.numerator // scaled.denominator
    near = isqrt(whole)
    return (near + (Fraction(0) if near * near == scaled else Fraction(1, 2))) / 2**700


@pytest.mark.slow
@pytest.mark.parametrize("fmt", "sd")
@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_arithmetic_equals_exact_rationals(fmt: str, data: st.DataObject) -> None:
    a, b, c = (data.draw(patterns(fmt)) for _ in range(3))
    for rm in MODES:
        check_exact(fmt, rm, a, b, c)


@pytest.mark.parametrize("fmt", "sd")
def test_arithmetic_equals_exact_rationals_on_hard_values(fmt: str) -> None:
    pool = some(fmt, 1, 900)
    for n, (a, b, c) in enumerate(zip(pool, pool[300:], pool[600:], strict=False)):
        check_exact(fmt, MODES[n % 5], a, b, c)


@pytest.mark.slow
@pytest.mark.parametrize("fmt", "sd")
def test_ties_and_the_edge_of_underflow(fmt: str) -> None:
    """Products around half an ulp, half the least subnormal and the least normal number."""
    one = infinity(fmt) >> 1 & ~((1 << FRACTION[fmt]) - 1)
    half = one - (1 << FRACTION[fmt])
    normal = 1 << FRACTION[fmt]
    for a in (1, 2, 3, 5, normal - 1, normal, normal + 1, 2 * normal - 1, 2 * normal + 1, infinity(fmt) - 1):
        for b in (half, half + 1, half - 1, half - 2, one + 1, one - 1, one - 2, one + normal):
            for sign in (0, sign_bit(fmt)):
                for rm in MODES:
                    check_exact(fmt, rm, a | sign, b, 1)


@pytest.mark.parametrize("fmt", "sd")
def test_least_normal_is_not_tiny_when_rounding_reaches_it(fmt: str) -> None:
    """(1 - u) * least normal rounds to the least normal number; tiny only if precision alone would not carry."""
    normal = 1 << FRACTION[fmt]
    one = infinity(fmt) >> 1 & ~(normal - 1)
    assert softfloat.mul(fmt, normal, one - 1, RUP) == (normal, NX | UF)
    quarter = one - 2 * normal
    assert softfloat.fma(fmt, 1, quarter, normal - 1, RNE) == (normal - 1, NX | UF)
    almost = softfloat.sub(fmt, normal, 1, RNE)[0]
    five_eighths = one - normal + normal // 4
    assert softfloat.fma(fmt, 1, five_eighths, almost, RNE) == (normal, NX | UF)
    nearly_one = one - 1
    assert softfloat.fma(fmt, 1, nearly_one, almost, RNE) == (normal, NX)


@pytest.mark.parametrize("fmt", "sd")
@pytest.mark.parametrize("name", ["add", "sub", "mul", "div"])
def test_equals_numpy(fmt: str, name: str) -> None:
    a, b = some(fmt, 2, 6000), some(fmt, 3, 6000)
    ufunc = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide}[name]
    with np.errstate(all="ignore"):
        result = ufunc(np.array(a, UINT[fmt]).view(FLOAT[fmt]), np.array(b, UINT[fmt]).view(FLOAT[fmt]))
    expected = np.where(np.isnan(result), UINT[fmt](CANONICAL_NAN[fmt]), result.view(UINT[fmt]))
    operation = getattr(softfloat, name)
    assert [operation(fmt, x, y, RNE)[0] for x, y in zip(a, b, strict=True)] == expected.tolist()


@pytest.mark.parametrize("fmt", "sd")
def test_sqrt_equals_numpy(fmt: str) -> None:
    a = some(fmt, 4, 6000)
    with np.errstate(all="ignore"):
        result = np.sqrt(np.array(a, UINT[fmt]).view(FLOAT[fmt]))
    expected = np.where(np.isnan(result), UINT[fmt](CANONICAL_NAN[fmt]), result.view(UINT[fmt]))
    assert [softfloat.sqrt(fmt, x, RNE)[0] for x in a] == expected.tolist()


@pytest.mark.parametrize(("fmt", "to"), ["sd", "ds"])
def test_convert_equals_numpy(fmt: str, to: str) -> None:
    a = some(fmt, 5, 6000)
    with np.errstate(all="ignore"):
        result = np.array(a, UINT[fmt]).view(FLOAT[fmt]).astype(FLOAT[to])
    expected = np.where(np.isnan(result), UINT[to](CANONICAL_NAN[to]), result.view(UINT[to]))
    assert [softfloat.convert(to, fmt, x, RNE)[0] for x in a] == expected.tolist()


@settings(max_examples=500, deadline=None)
@given(a=patterns("d"), rm=st.sampled_from(MODES))
@example(a=0x36A0000000000000, rm=RNE)  # half the least binary32 subnormal: a tie to zero
@example(a=0x380FFFFFF0000000, rm=RNE)  # the tie just below the least normal binary32
def test_narrowing_equals_exact_rationals(a: int, rm: int) -> None:
    if finite("d", a) and exact("d", a):
        assert softfloat.convert("s", "d", a, rm) == rounded("s", exact("d", a), rm)


@pytest.mark.parametrize("fmt", "sd")
@settings(max_examples=500, deadline=None)
@given(data=st.data())
def test_to_int_equals_exact_rationals(fmt: str, data: st.DataObject) -> None:
    a, rm = data.draw(patterns(fmt)), data.draw(st.sampled_from(MODES))
    if not finite(fmt, a):
        return
    q = exact(fmt, a)
    floor, rest = q.numerator // q.denominator, q - q.numerator // q.denominator
    away = floor + 1 if q > 0 else floor
    nearest = floor + (rest > Fraction(1, 2))
    if rest == Fraction(1, 2):
        nearest = away if rm == RMM else floor + floor % 2
    whole = {RNE: nearest, RMM: nearest, RTZ: int(q), RDN: floor, RUP: floor + (rest > 0)}[rm]
    for width in (32, 64):
        for signed in (False, True):
            low, high = (-(1 << width - 1), (1 << width - 1) - 1) if signed else (0, (1 << width) - 1)
            got = softfloat.to_int(width, signed, fmt, a, rm)
            clipped = min(max(whole, low), high)
            flags = NV if clipped != whole else NX if rest else 0
            assert got == (clipped % (1 << width), flags), (width, signed, hex(a), rm)


@pytest.mark.parametrize("fmt", "sd")
@settings(max_examples=300, deadline=None)
@given(
    v=st.one_of(
        st.integers(0, 2**64 - 1),
        st.builds(lambda k, d: (1 << k) + d & 2**64 - 1, st.integers(0, 64), st.integers(-3, 3)),
    ),
    rm=st.sampled_from(MODES),
)
def test_from_int_equals_exact_rationals(fmt: str, v: int, rm: int) -> None:
    for width in (32, 64):
        low = v % (1 << width)
        for signed in (False, True):
            number = low - (1 << width) if signed and low >> width - 1 else low
            expected = rounded(fmt, Fraction(number), rm) if number else (0, 0)
            assert softfloat.from_int(fmt, width, signed, v, rm) == expected


@pytest.mark.parametrize("fmt", "sd")
def test_integer_ends(fmt: str) -> None:
    inf, minus = infinity(fmt), sign_bit(fmt)
    for nan in (CANONICAL_NAN[fmt], inf | 1, minus | inf | 1, minus | CANONICAL_NAN[fmt]):
        assert softfloat.to_int(32, True, fmt, nan, RNE) == (0x7FFFFFFF, NV)
        assert softfloat.to_int(32, False, fmt, nan, RNE) == (0xFFFFFFFF, NV)
        assert softfloat.to_int(64, True, fmt, nan, RNE) == (2**63 - 1, NV)
        assert softfloat.to_int(64, False, fmt, nan, RNE) == (2**64 - 1, NV)
    assert softfloat.to_int(32, True, fmt, inf, RNE) == (0x7FFFFFFF, NV)
    assert softfloat.to_int(32, True, fmt, minus | inf, RNE) == (0x80000000, NV)
    assert softfloat.to_int(64, False, fmt, minus | inf, RNE) == (0, NV)
    assert softfloat.to_int(64, False, fmt, minus | 1, RTZ) == (0, NX)
    assert softfloat.to_int(64, False, fmt, minus | 1, RDN) == (0, NV)
    assert softfloat.to_int(32, True, fmt, minus, RNE) == (0, 0)


@pytest.mark.parametrize("fmt", "sd")
def test_signs_of_zero(fmt: str) -> None:
    minus, one = sign_bit(fmt), infinity(fmt) >> 1 & ~((1 << FRACTION[fmt]) - 1)
    for rm in MODES:
        cancel = (minus if rm == RDN else 0, 0)
        assert softfloat.add(fmt, one, one | minus, rm) == cancel
        assert softfloat.sub(fmt, one, one, rm) == cancel
        assert softfloat.fma(fmt, one, one, one | minus, rm) == cancel
        assert softfloat.add(fmt, 0, minus, rm) == cancel
        assert softfloat.add(fmt, minus, minus, rm) == (minus, 0)
        assert softfloat.add(fmt, 0, 0, rm) == (0, 0)
        assert softfloat.fma(fmt, minus, one, minus, rm) == (minus, 0)
        assert softfloat.fma(fmt, 0, one, minus, rm) == cancel
        assert softfloat.mul(fmt, minus, one, rm) == (minus, 0)
        assert softfloat.mul(fmt, minus, one | minus, rm) == (0, 0)
        assert softfloat.div(fmt, minus, one, rm) == (minus, 0)
        assert softfloat.sqrt(fmt, minus, rm) == (minus, 0)


@pytest.mark.parametrize("fmt", "sd")
def test_infinities_and_division_by_zero(fmt: str) -> None:
    inf, minus, nan = infinity(fmt), sign_bit(fmt), CANONICAL_NAN[fmt]
    one = inf >> 1 & ~((1 << FRACTION[fmt]) - 1)
    assert softfloat.add(fmt, inf, minus | inf, RNE) == (nan, NV)
    assert softfloat.sub(fmt, inf, inf, RNE) == (nan, NV)
    assert softfloat.add(fmt, minus | inf, one, RNE) == (minus | inf, 0)
    assert softfloat.mul(fmt, inf, 0, RNE) == (nan, NV)
    assert softfloat.mul(fmt, inf, minus | one, RNE) == (minus | inf, 0)
    assert softfloat.div(fmt, 0, minus, RNE) == (nan, NV)
    assert softfloat.div(fmt, inf, inf, RNE) == (nan, NV)
    assert softfloat.div(fmt, one, minus, RNE) == (minus | inf, DZ)
    assert softfloat.div(fmt, inf, 0, RNE) == (inf, 0)
    assert softfloat.div(fmt, one, minus | inf, RNE) == (minus, 0)
    assert softfloat.sqrt(fmt, inf, RNE) == (inf, 0)
    assert softfloat.sqrt(fmt, minus | inf, RNE) == (nan, NV)
    assert softfloat.sqrt(fmt, minus | 1, RNE) == (nan, NV)
    assert softfloat.fma(fmt, inf, one, minus | inf, RNE) == (nan, NV)
    assert softfloat.fma(fmt, inf, minus | one, minus | inf, RNE) == (minus | inf, 0)
    assert softfloat.fma(fmt, one, one, minus | inf, RNE) == (minus | inf, 0)


@pytest.mark.parametrize("fmt", "sd")
def test_nans(fmt: str) -> None:
    inf, nan = infinity(fmt), CANONICAL_NAN[fmt]
    payload, signalling = nan | 0x123 | sign_bit(fmt), inf | 0x123
    for operation in (softfloat.add, softfloat.sub, softfloat.mul, softfloat.div):
        for other in (0, inf, payload):
            assert operation(fmt, payload, other, RNE) == (nan, 0)
            assert operation(fmt, other, signalling, RNE) == (nan, NV)
    assert softfloat.sqrt(fmt, payload, RNE) == (nan, 0)
    assert softfloat.sqrt(fmt, signalling, RNE) == (nan, NV)
    assert softfloat.fma(fmt, 0, 1, payload, RNE) == (nan, 0)
    assert softfloat.fma(fmt, inf, 0, payload, RNE) == (nan, NV)
    assert softfloat.fma(fmt, signalling, 1, 0, RNE) == (nan, NV)
    for to in "sd":
        assert softfloat.convert(to, fmt, payload, RNE) == (CANONICAL_NAN[to], 0)
        assert softfloat.convert(to, fmt, signalling, RNE) == (CANONICAL_NAN[to], NV)
    assert softfloat.is_nan(fmt, payload)
    assert not softfloat.is_snan(fmt, payload)
    assert softfloat.is_snan(fmt, signalling)
    assert not softfloat.is_nan(fmt, inf)


@pytest.mark.parametrize("fmt", "sd")
def test_minimum_and_maximum(fmt: str) -> None:
    minus, nan, payload, signalling = sign_bit(fmt), CANONICAL_NAN[fmt], CANONICAL_NAN[fmt] | 5, infinity(fmt) | 5
    for a, b in ((0, minus), (minus, 0)):
        assert softfloat.minimum(fmt, a, b) == (minus, 0)
        assert softfloat.maximum(fmt, a, b) == (0, 0)
    for operation in (softfloat.minimum, softfloat.maximum):
        assert operation(fmt, payload, 1) == (1, 0)
        assert operation(fmt, 1, payload) == (1, 0)
        assert operation(fmt, signalling, 1) == (1, NV)
        assert operation(fmt, 1, signalling) == (1, NV)
        assert operation(fmt, payload, payload) == (nan, 0)
        assert operation(fmt, payload, signalling) == (nan, NV)


@pytest.mark.parametrize("fmt", "sd")
def test_comparisons_and_extremes_equal_exact_rationals(fmt: str) -> None:
    for a, b in zip(some(fmt, 6, 3000), some(fmt, 7, 3000), strict=True):
        if softfloat.is_nan(fmt, a) or softfloat.is_nan(fmt, b):
            loud = NV if softfloat.is_snan(fmt, a) or softfloat.is_snan(fmt, b) else 0
            assert softfloat.eq(fmt, a, b) == (0, loud)
            assert softfloat.lt(fmt, a, b) == (0, NV)
            assert softfloat.le(fmt, a, b) == (0, NV)
            continue
        x, y = exact(fmt, a), exact(fmt, b)
        assert softfloat.eq(fmt, a, b) == (int(x == y), 0)
        assert softfloat.lt(fmt, a, b) == (int(x < y), 0)
        assert softfloat.le(fmt, a, b) == (int(x <= y), 0)
        if x != y:
            assert softfloat.minimum(fmt, a, b) == (a if x < y else b, 0)
            assert softfloat.maximum(fmt, a, b) == (b if x < y else a, 0)


@pytest.mark.parametrize("fmt", "sd")
def test_classify(fmt: str) -> None:
    inf, minus, normal = infinity(fmt), sign_bit(fmt), 1 << FRACTION[fmt]
    ordered = [minus | inf, minus | normal, minus | 1, minus, 0, normal - 1, inf - 1, inf, inf | 1, inf | normal // 2]
    assert [softfloat.classify(fmt, a) for a in ordered] == [1 << n for n in range(10)]
    assert softfloat.classify(fmt, minus | inf | 1) == 1 << 8
    assert softfloat.classify(fmt, minus | CANONICAL_NAN[fmt]) == 1 << 9


def test_overflow_goes_to_infinity_or_the_largest_number_by_mode() -> None:
    for fmt in "sd":
        big, minus = infinity(fmt) - 1, sign_bit(fmt)
        for rm in MODES:
            up = infinity(fmt) if rm in (RNE, RUP, RMM) else big
            down = infinity(fmt) if rm in (RNE, RDN, RMM) else big
            assert softfloat.add(fmt, big, big, rm) == (up, OF | NX)
            assert softfloat.add(fmt, minus | big, minus | big, rm) == (minus | down, OF | NX)


def test_constants_of_the_formats() -> None:
    assert CANONICAL_NAN == {"h": 0x7E00, "s": 0x7FC00000, "d": 0x7FF8000000000000}
    assert {letter: f.inf for letter, f in FORMATS.items()} == {"h": 0x7C00, "s": 0x7F800000, "d": 0x7FF0000000000000}


def test_a_reserved_rounding_mode_is_our_bug() -> None:
    with pytest.raises(ModelBug, match="rounding mode is 5, expected one of RNE, RTZ, RDN, RUP, RMM and ROD"):
        softfloat.div("s", 0x3F800000, 0x40400000, 5)
