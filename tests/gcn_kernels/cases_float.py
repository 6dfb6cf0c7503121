"""Models of float.cl, divide.cl, half.cl and double.cl: NumPy, and exact fractions for what NumPy cannot do."""

from fractions import Fraction

import numpy as np

from tests.gcn_kernels.bench import In, Out, case
from tests.gcn_kernels.cases_integer import HARD64, N, ints, longs, rows

SINGLE, HALF, DOUBLE = np.float32, np.float16, np.float64
DIGITS = {SINGLE: (24, -149), HALF: (11, -24), DOUBLE: (53, -1074)}
"""Binary digits, and the exponent of the smallest number."""


def reals(rng: np.random.Generator, dtype: type, n: int = N, low: int = -8, high: int = 8) -> np.ndarray:
    """Normal numbers of many magnitudes, and some that are easy to get wrong; no denormals."""
    values = rng.uniform(1, 2, n) * 2.0 ** rng.integers(low, high, n) * rng.choice([-1, 1], n)
    some = [1.0, -1.0, 0.5, 1.5, 2.5, -2.5, 3.0, 0.0, -0.0, 100.0, -7.75]
    values[: len(some)] = some
    return values.astype(dtype)


def special(rng: np.random.Generator, dtype: type, n: int = N) -> np.ndarray:
    """With infinities and NaN."""
    values = reals(rng, dtype, n)
    values[::7] = rng.choice(np.array([np.inf, -np.inf, np.nan, 0.0, -0.0], dtype), len(values[::7]))
    return values


def rounded(dtype: type, value: Fraction) -> float:
    """A fraction to nearest even, by integers; overflow is infinite."""
    digits, least = DIGITS[dtype]
    if value == 0:
        return 0.0
    number = abs(value)
    exponent = number.numerator.bit_length() - number.denominator.bit_length()
    while Fraction(2) ** exponent > number:
        exponent -= 1
    unit = Fraction(2) ** max(exponent - digits + 1, least)
    units = round(number / unit)  # Python rounds halves to even
    with np.errstate(over="ignore"):
        result = float(units * unit) if units * unit < Fraction(2) ** 1024 else float("inf")
        return float(dtype(result)) * (1 if value > 0 else -1)


def fused(dtype: type, a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """a * b + c with one rounding."""
    triples = zip(a.tolist(), b.tolist(), c.tolist(), strict=True)
    exact = [Fraction(x) * Fraction(y) + Fraction(z) for x, y, z in triples]
    out = np.array([rounded(dtype, value) for value in exact], dtype)
    # An exact zero has the sign of its parts where these agree, else +.
    with np.errstate(all="ignore"):
        plain = (a * b + c).astype(dtype)
    zero = np.array([value == 0 for value in exact])
    out[zero] = plain[zero]
    return out


def floats(*parts: np.ndarray) -> np.ndarray:
    return np.concatenate(parts)


@case("float.cl", N)
def float_arith(rng):
    a, b = reals(rng, SINGLE), reals(rng, SINGLE)
    out = floats(a + b, a - b, a * b, (a + SINGLE(2)) * (b - SINGLE(0.5)) - a, -a * np.abs(b))
    return In(a), In(b), Out(out)


@case("float.cl", N)
def float_fma(rng):
    a, b, c = reals(rng, SINGLE, low=-3, high=2), reals(rng, SINGLE), reals(rng, SINGLE)
    s = np.zeros(N, SINGLE)
    for _ in range(8):
        s = fused(SINGLE, s, a, b)
    return In(a), In(b), In(c), Out(floats(fused(SINGLE, a, b, c), fused(SINGLE, -a, b, np.abs(c)), s))


@case("divide.cl", N, portable=False)
def float_divide(rng):
    a, b = reals(rng, SINGLE), reals(rng, SINGLE)
    a[a == 0] = 9
    b[b == 0] = 3
    return In(a), In(b), Out(floats(a / b, SINGLE(1) / a, a / SINGLE(3)))


@case("float.cl", N)
def float_compare(rng):
    a, b = special(rng, SINGLE), special(rng, SINGLE)
    b[::5] = a[::5]
    results = (a < b, a <= b, a > b, a >= b, a == b, a != b, ~(a < b), np.isnan(a) | np.isnan(b), np.isinf(a))
    return In(a), In(b), Out(sum(r.astype(np.uint32) << k for k, r in enumerate(results)).astype(np.uint32))


@case("float.cl", N)
def float_select(rng):
    a, b = reals(rng, SINGLE), reals(rng, SINGLE)
    a[a == 0], b[b == 0] = 3, 4
    a[::9] = np.nan
    b[1::9] = np.nan
    out = floats(np.where(a < b, a, b), np.fmin(a, b), np.fmax(a, b), np.fmax(np.fmin(a, SINGLE(1)), SINGLE(-1)))
    return In(a), In(b), Out(out)


@case("float.cl", N)
def float_convert(rng):
    a, b = reals(rng, SINGLE, high=30), ints(rng)
    whole = floats(a.astype(np.int32), np.abs(a).astype(np.uint32).view(np.int32))
    small = b.astype(np.int16).astype(SINGLE) + (b & 255).astype(SINGLE)
    return In(a), In(b), Out(whole), Out(floats(b.astype(SINGLE), b.view(np.uint32).astype(SINGLE), small, -a))


@case("float.cl", N)
def float_convert_long(rng):
    a, b = reals(rng, SINGLE, high=60), longs(rng)
    whole = floats(a.astype(np.int64), np.abs(a).astype(np.uint64).view(np.int64))
    # Through Python's exact integers: a conversion by way of binary64 would round twice.
    near = [rounded(SINGLE, Fraction(int(v))) for v in b] + [
        rounded(SINGLE, Fraction(int(v))) for v in b.view(np.uint64)
    ]
    return In(a), In(b), Out(whole), Out(np.array(near, SINGLE))


@case("float.cl", N, portable=False)
def float_round(rng):
    a = reals(rng, SINGLE, high=25)
    half_away = np.copysign(np.floor(np.abs(a.astype(DOUBLE)) + 0.5), a).astype(SINGLE)
    out = floats(np.floor(a), np.ceil(a), np.trunc(a), np.rint(a), half_away, np.copysign(SINGLE(1.5), a))
    # The expansion of round in LLVM 16 adds +0 at its end, so that its zeros are positive; later ones keep the sign.
    return In(a), Out(out, absolute=DOUBLE(5e-324))


@case("float.cl", N, portable=False)
def float_approximate(rng):
    a = np.abs(reals(rng, SINGLE, high=4)) + SINGLE(0.001)
    x = a.astype(DOUBLE)
    turns = 2 * np.pi * x
    out = floats(1 / x, 1 / np.sqrt(x), np.sqrt(x), 2**x, np.log2(x), 1 / x, np.sin(turns), np.cos(turns)).astype(
        SINGLE
    )
    return In(a), Out(out, ulps=3, absolute=4e-5)


@case("float.cl", N, portable=False)
def float_parts(rng):
    a, b = reals(rng, SINGLE), ints(rng)
    mantissa, exponent = np.frexp(a)
    fraction, scaled, middle = a - np.floor(a), np.ldexp(a, b & 15), np.clip(a, SINGLE(-1), SINGLE(2))
    classes = rows(exponent, np.isinf(a))
    return In(a), In(b), Out(floats(mantissa, scaled, fraction, middle)), Out(classes)


@case("float.cl", N)
def float_poly(rng):
    a = np.clip(reals(rng, SINGLE, low=-3, high=1), SINGLE(-1), SINGLE(1))
    y = np.full(N, 0.5, SINGLE)
    for _ in range(12):
        y = fused(SINGLE, y, a, np.full(N, 1.25, SINGLE))
        y = fused(SINGLE, y, a, np.full(N, -0.75, SINGLE))
        y = y * SINGLE(0.5) + a
    return In(a), Out(y)


@case("half.cl", N, portable=False)
def half_arith(rng):
    a, b = reals(rng, HALF, low=-4, high=6), reals(rng, HALF, low=-4, high=6)
    return In(a), In(b), Out(floats(a + b, a - b, a * b, -a + HALF(1.5)))


@case("half.cl", N, portable=False)
def half_packed(rng):
    a, b = reals(rng, HALF, 2 * N, -4, 6).reshape(N, 2), reals(rng, HALF, 2 * N, -4, 6).reshape(N, 2)
    return In(a), In(b), Out(floats(a + b, a * b[:, ::-1], a - b[:, ::-1]))


@case("half.cl", N, portable=False)
def half_convert(rng):
    a, b = reals(rng, SINGLE, low=-10, high=10), reals(rng, HALF, low=-8, high=8)
    h = floats(a.astype(HALF), a.astype(np.int32).astype(HALF))
    f = floats(b.astype(SINGLE), (a * SINGLE(0.333)).astype(HALF).astype(SINGLE))
    return In(a), In(b), Out(h), Out(f), Out(b.astype(np.int32))


@case("half.cl", N, portable=False)
def half_compare(rng):
    a, b = special(rng, HALF), special(rng, HALF)
    b[::5] = a[::5]
    out = (a < b) | (a == b).astype(np.uint16) << 1 | (a >= b).astype(np.uint16) << 2 | (a != b).astype(np.uint16) << 3
    return In(a), In(b), Out(out.astype(np.uint16))


@case("half.cl", N, portable=False, targets=("gfx803", "gfx900"))
def half_fma(rng):
    a, b, c = (reals(rng, HALF, low=-4, high=5) for _ in range(3))
    return In(a), In(b), In(c), Out(fused(HALF, a, b, c))


@case("double.cl", N)
def double_arith(rng):
    a, b = reals(rng, DOUBLE), reals(rng, DOUBLE)
    return In(a), In(b), Out(floats(a + b, a - b, a * b, (a + 1.0) * 0.3 - b * a))


@case("double.cl", N)
def double_divide(rng):
    a, b = reals(rng, DOUBLE, low=-300, high=300), reals(rng, DOUBLE, low=-300, high=300)
    b[b == 0] = 3
    with np.errstate(all="ignore"):
        return In(a), In(b), Out(floats(a / b, 1.0 / b))


@case("double.cl", N)
def double_convert(rng):
    a, b = reals(rng, DOUBLE, high=30), ints(rng)
    whole = floats(a.astype(np.int32), np.abs(a).astype(np.uint32).view(np.int32))
    wide = floats(b.astype(DOUBLE), b.view(np.uint32).astype(DOUBLE), (a * 1.1).astype(SINGLE).astype(DOUBLE))
    return In(a), In(b), Out(whole), Out(a.astype(SINGLE)), Out(wide)


@case("double.cl", N)
def double_convert_long(rng):
    a, b = reals(rng, DOUBLE, high=62), longs(rng)
    b[: len(HARD64)] = HARD64
    whole = floats(a.astype(np.int64), np.abs(a).astype(np.uint64).view(np.int64))
    near = [float(int(v)) for v in b] + [float(int(v)) for v in b.view(np.uint64)]
    return In(a), In(b), Out(whole), Out(np.array(near))


@case("double.cl", N)
def double_compare(rng):
    a, b = special(rng, DOUBLE), special(rng, DOUBLE)
    b[::5] = a[::5]
    results = (a < b, a == b, a >= b, ~(a > b))
    return In(a), In(b), Out(sum(r.astype(np.uint32) << k for k, r in enumerate(results)).astype(np.uint32))


@case("double.cl", N, portable=False)
def double_fma(rng):
    a, b, c = (reals(rng, DOUBLE) for _ in range(3))
    return In(a), In(b), In(c), Out(floats(fused(DOUBLE, a, b, c), fused(DOUBLE, -a, b, a)))


@case("double.cl", N, portable=False)
def double_round(rng):
    a = reals(rng, DOUBLE, high=55)
    return In(a), Out(floats(np.floor(a), np.ceil(a), np.trunc(a), np.rint(a), np.minimum(a, 2.0)))


@case("double.cl", N, portable=False)
def double_root(rng):
    a = np.abs(reals(rng, DOUBLE, low=-200, high=200))
    return In(a), Out(np.sqrt(a))


# -- where numbers end: denormals, overflow, infinities


def extremes(rng: np.random.Generator, dtype: type) -> np.ndarray:
    """Numbers of all magnitudes, among them denormals and what overflows, with infinities and NaN."""
    bits = np.dtype(dtype).itemsize * 8
    values = np.frombuffer(rng.bytes(N * bits // 8), dtype).copy()
    tiny = np.finfo(dtype).smallest_subnormal
    some = [tiny, -tiny, np.finfo(dtype).tiny, np.finfo(dtype).max, np.inf, -np.inf, np.nan, 0.0, -0.0, 1.0, -1.5]
    values[::2] = rng.choice(np.array(some, dtype), N // 2)
    values[1::4] = (rng.integers(1, 1 << np.finfo(dtype).nmant, len(values[1::4]))).astype(f"u{bits // 8}").view(dtype)
    return values


def arithmetic(dtype: type, a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, ...]:
    with np.errstate(all="ignore"):
        return a + b, a - b, a * b


@case("double.cl", N, portable=False, of="double_arith")
def double_extremes(rng):
    a, b = extremes(rng, DOUBLE), extremes(rng, DOUBLE)
    with np.errstate(all="ignore"):
        return In(a), In(b), Out(floats(*arithmetic(DOUBLE, a, b), (a + 1.0) * 0.3 - b * a))


@case("double.cl", N, portable=False, of="double_divide")
def double_divide_extremes(rng):
    a, b = extremes(rng, DOUBLE), extremes(rng, DOUBLE)
    with np.errstate(all="ignore"):
        return In(a), In(b), Out(floats(a / b, 1.0 / b))


@case("double.cl", N, portable=False, of="double_root")
def double_root_extremes(rng):
    a = extremes(rng, DOUBLE)
    with np.errstate(all="ignore"):
        return In(a), Out(np.sqrt(a))


@case("half.cl", N, portable=False, of="half_arith")
def half_extremes(rng):
    a, b = extremes(rng, HALF), extremes(rng, HALF)
    with np.errstate(all="ignore"):
        return In(a), In(b), Out(floats(*arithmetic(HALF, a, b), -a + HALF(1.5)))


@case("float.cl", N, portable=False, of="float_arith", targets=("gfx900",))
def float_extremes(rng):
    a, b = extremes(rng, SINGLE), extremes(rng, SINGLE)
    with np.errstate(all="ignore"):
        last = (a + SINGLE(2)) * (b - SINGLE(0.5)) - a
        return In(a), In(b), Out(floats(*arithmetic(SINGLE, a, b), last, -a * np.abs(b)))


def flushed(a: np.ndarray) -> np.ndarray:
    """Denormals as zeros of their sign: what GFX7 and GFX8 kernels ask for."""
    return np.where(np.abs(a) < np.finfo(SINGLE).tiny, np.copysign(SINGLE(0), a), a)


@case("float.cl", N, portable=False, of="float_arith", targets=("gfx700", "gfx803"))
def float_flushed(rng):
    a, b = extremes(rng, SINGLE), extremes(rng, SINGLE)
    x, y = flushed(a), flushed(b)
    with np.errstate(all="ignore"):
        parts = [flushed(part) for part in arithmetic(SINGLE, x, y)]
        product = flushed(flushed(x + SINGLE(2)) * flushed(y - SINGLE(0.5)))
        return In(a), In(b), Out(floats(*parts, flushed(product - x), flushed(-x * np.abs(y))))


@case("divide.cl", N, portable=False, of="float_divide", targets=("gfx900",))
def float_divide_extremes(rng):
    a, b = extremes(rng, SINGLE), extremes(rng, SINGLE)
    with np.errstate(all="ignore"):
        return In(a), In(b), Out(floats(a / b, SINGLE(1) / a, a / SINGLE(3)))
