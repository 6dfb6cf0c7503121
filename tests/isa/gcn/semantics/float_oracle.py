"""IEEE 754 arithmetic over `Fraction`, as the GCN manuals qualify it: rounding and denormals of MODE, canonical NaNs.

Nothing here knows the engines: numbers are sign, and a fraction or "inf" or "nan".
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from math import isqrt

NEAREST, UP, DOWN, ZERO = range(4)


@dataclass(frozen=True)
class Format:
    """A binary interchange format."""

    width: int
    digits: int
    """Fraction bits."""

    @property
    def bias(self) -> int:
        return (1 << self.width - self.digits - 2) - 1

    @property
    def infinity(self) -> int:
        return (1 << self.width - 1) - (1 << self.digits)

    @property
    def nan(self) -> int:
        return self.infinity | 1 << self.digits - 1

    @property
    def sign(self) -> int:
        return 1 << self.width - 1

    @property
    def least(self) -> int:
        """Exponent of the least normal number."""
        return 1 - self.bias


H, S, D = Format(16, 10), Format(32, 23), Format(64, 52)
BY_KIND = {"f16": H, "f32": S, "f64": D}


@dataclass(frozen=True)
class Env:
    """Rounding, and whether denormal inputs and results are kept."""

    rounding: int = NEAREST
    inputs: bool = True
    results: bool = True


def env_of(mode: int, f: Format) -> Env:
    """The MODE fields of a format."""
    shift = 0 if f is S else 2
    denormals = mode >> 4 + shift & 3
    return Env(mode >> shift & 3, bool(denormals & 1), bool(denormals & 2))


FLUSHING = Env(NEAREST, False, False)


def is_nan(f: Format, bits: int) -> bool:
    return bits & ~f.sign > f.infinity


def is_signalling(f: Format, bits: int) -> bool:
    return is_nan(f, bits) and not bits >> f.digits - 1 & 1


def is_inf(f: Format, bits: int) -> bool:
    return bits & ~f.sign == f.infinity


def is_denormal(f: Format, bits: int) -> bool:
    return 0 < bits & ~f.sign < 1 << f.digits


def negative(f: Format, bits: int) -> bool:
    return bool(bits & f.sign)


def flush(f: Format, bits: int, keep: bool = False) -> int:
    """A denormal as zero of its sign."""
    return bits & f.sign if is_denormal(f, bits) and not keep else bits


@cache
def power(exponent: int) -> Fraction:
    """Of two."""
    return Fraction(2) ** exponent


def value(f: Format, bits: int) -> Fraction:
    """A finite number."""
    exponent = bits >> f.digits & (1 << f.width - f.digits - 1) - 1
    digits = bits & (1 << f.digits) - 1
    if exponent:
        digits |= 1 << f.digits
    scale = max(exponent, 1) - f.bias - f.digits
    magnitude = digits * power(scale)
    return -magnitude if negative(f, bits) else magnitude


def log2_floor(x: Fraction) -> int:
    """floor(log2(x)) of a positive number."""
    guess = x.numerator.bit_length() - x.denominator.bit_length()
    return guess if x >= power(guess) else guess - 1


def round_int(x: Fraction, rounding: int) -> int:
    """A number to an integer."""
    low = x.numerator // x.denominator
    rest = x - low
    if rest == 0 or rounding == DOWN:
        return low
    if rounding == UP:
        return low + 1
    if rounding == ZERO:
        return low + 1 if x < 0 else low
    if rest == Fraction(1, 2):
        return low + (low & 1)
    return low + (rest > Fraction(1, 2))


def encode(f: Format, x: Fraction, env: Env, zero_negative: bool = False) -> int:
    """A number rounded to the format; `zero_negative`: the sign of an exact 0."""
    if x == 0:
        return f.sign if zero_negative else 0
    sign = f.sign if x < 0 else 0
    exponent = log2_floor(abs(x))
    # Tiny: below the normal numbers after rounding as if exponents had no end.
    last = power(exponent - f.digits)
    unlimited = abs(round_int(x / last, env.rounding)) * last
    if unlimited < power(f.least) and not env.results:
        return sign
    unit = power(max(exponent, f.least) - f.digits)
    magnitude = abs(round_int(x / unit, env.rounding)) * unit
    if magnitude == 0:
        return sign
    exponent = log2_floor(magnitude)
    if exponent > f.bias:
        to_infinity = env.rounding == NEAREST or env.rounding == (DOWN if sign else UP)
        return sign | (f.infinity if to_infinity else f.infinity - 1)
    if exponent < f.least:
        return sign | int(magnitude / power(f.least - f.digits))
    digits = int(magnitude / power(exponent - f.digits)) - (1 << f.digits)
    return sign | exponent + f.bias << f.digits | digits


def prepared(f: Format, env: Env, *sources: int) -> list[int]:
    return [flush(f, bits, env.inputs) for bits in sources]


def fma(f: Format, a: int, b: int, c: int, env: Env) -> int:
    """a * b + c."""
    a, b, c = prepared(f, env, a, b, c)
    if any(is_nan(f, x) for x in (a, b, c)):
        return f.nan
    product_negative = negative(f, a) ^ negative(f, b)
    if is_inf(f, a) or is_inf(f, b):
        if not (a & ~f.sign and b & ~f.sign):
            return f.nan
        if is_inf(f, c) and negative(f, c) != product_negative:
            return f.nan
        return f.infinity | (f.sign if product_negative else 0)
    if is_inf(f, c):
        return c
    product, addend = value(f, a) * value(f, b), value(f, c)
    if product == 0 and addend == 0 and product_negative == negative(f, c):
        zero = product_negative
    else:
        zero = env.rounding == DOWN
    return encode(f, product + addend, env, zero)


def add(f: Format, a: int, b: int, env: Env) -> int:
    return fma(f, a, f.bias << f.digits, b, env)


def sub(f: Format, a: int, b: int, env: Env) -> int:
    return add(f, a, b if is_nan(f, b) else b ^ f.sign, env)


def mul(f: Format, a: int, b: int, env: Env) -> int:
    a, b = prepared(f, env, a, b)
    if is_nan(f, a) or is_nan(f, b):
        return f.nan
    sign = (a ^ b) & f.sign
    if is_inf(f, a) or is_inf(f, b):
        return f.infinity | sign if a & ~f.sign and b & ~f.sign else f.nan
    return encode(f, value(f, a) * value(f, b), env, bool(sign))


def div(f: Format, a: int, b: int, env: Env) -> int:
    a, b = prepared(f, env, a, b)
    sign = (a ^ b) & f.sign
    if is_nan(f, a) or is_nan(f, b) or (is_inf(f, a) and is_inf(f, b)) or not (a & ~f.sign or b & ~f.sign):
        return f.nan
    if is_inf(f, a) or not b & ~f.sign:
        return f.infinity | sign
    if is_inf(f, b):
        return sign
    return encode(f, value(f, a) / value(f, b), env, bool(sign))


def sqrt(f: Format, a: int, env: Env) -> int:
    """Square root: truncated far beyond the format's digits, a last digit telling whether it is exact."""
    (a,) = prepared(f, env, a)
    if is_nan(f, a) or (negative(f, a) and a & ~f.sign):
        return f.nan
    if not a & ~f.sign or is_inf(f, a):
        return a
    scale = 2 * (f.bias + f.digits + f.digits)
    scaled = value(f, a) * power(scale)
    root = isqrt(int(scaled))
    exact = root * root == scaled
    return encode(f, (Fraction(root) + (0 if exact else Fraction(1, 2))) / power(scale // 2), env)


def convert(to: Format, f: Format, a: int, env: Env) -> int:
    """Another format; `env` has the input side of `f`, rounding and results of `to`."""
    (a,) = prepared(f, env, a)
    sign = to.sign if negative(f, a) else 0
    if is_nan(f, a):
        return to.nan
    if is_inf(f, a):
        return to.infinity | sign
    return encode(to, value(f, a), env, bool(sign))


def to_integral(f: Format, a: int, rounding: int, env: Env) -> int:
    """Rounded to an integer, as a float."""
    (a,) = prepared(f, env, a)
    if is_nan(f, a):
        return f.nan
    if is_inf(f, a):
        return a
    return encode(f, Fraction(round_int(value(f, a), rounding)), Env(), negative(f, a))


def to_int(f: Format, a: int, w: int, is_signed: bool, rounding: int = ZERO) -> int:
    """Saturated; NaN is 0."""
    low, high = (-(1 << w - 1), (1 << w - 1) - 1) if is_signed else (0, (1 << w) - 1)
    if is_nan(f, a):
        return 0
    if is_inf(f, a):
        return low if negative(f, a) else high
    return min(max(round_int(value(f, a), rounding), low), high)


def ldexp(f: Format, a: int, n: int, env: Env) -> int:
    """a * 2**n."""
    (a,) = prepared(f, env, a)
    if is_nan(f, a):
        return f.nan
    if is_inf(f, a) or not a & ~f.sign:
        return a
    # Beyond these nothing changes any more.
    n = min(max(n, -5000), 5000)
    return encode(f, value(f, a) * power(n), env)


def order(f: Format, bits: int) -> int:
    """Sorts as the numbers do, -0 below +0."""
    magnitude = bits & ~f.sign
    return -magnitude - 1 if negative(f, bits) else magnitude


def less(f: Format, a: int, b: int, env: Env) -> bool:
    a, b = prepared(f, env, a, b)
    if is_nan(f, a) or is_nan(f, b):
        return False
    return extended(f, a) < extended(f, b)


def equal(f: Format, a: int, b: int, env: Env) -> bool:
    a, b = prepared(f, env, a, b)
    return not is_nan(f, a) and not is_nan(f, b) and extended(f, a) == extended(f, b)


def extended(f: Format, bits: int) -> Fraction:
    """A number; infinities as something larger than all others."""
    if is_inf(f, bits):
        return Fraction(-1 if negative(f, bits) else 1) * Fraction(2) ** 5000
    return value(f, bits)


HARD = {
    H: (
        0x0000, 0x8000, 0x0001, 0x83FF, 0x0400, 0x8400, 0x3C00, 0xBC00, 0x3800, 0x3555, 0x3BFF, 0x7BFF, 0xFBFF, 0x7C00,
        0xFC00, 0x7E00, 0xFE01, 0x7D01, 0xFC01, 0x4248, 0x6400, 0x5BF8,
    ),
    S: (
        0x00000000, 0x80000000, 0x00000001, 0x807FFFFF, 0x00800000, 0x80800000, 0x00800001, 0x3F800000, 0xBF800000,
        0x3F000000, 0x3EAAAAAB, 0x3F7FFFFF, 0x3F800001, 0x40490FDB, 0x4B800001, 0x4EFFFFFF, 0x4F000000, 0xCF000000,
        0x4F800000, 0x5F000000, 0x7E800001, 0x7F7FFFFF, 0xFF7FFFFF, 0x7F800000, 0xFF800000, 0x7FC00000, 0xFFC12345,
        0x7F800001, 0xFFA00000, 0x3FC00000, 0x40200000, 0x34000000,
    ),
    D: (
        0, 1 << 63, 1, (1 << 63) | (1 << 52) - 1, 1 << 52, 0x3FF0000000000000, 0xBFF0000000000000, 0x3FE0000000000000,
        0x3FEFFFFFFFFFFFFF, 0x3FF0000000000001, 0x400921FB54442D18, 0x41DFFFFFFFC00000, 0xC1E0000000000000,
        0x41EFFFFFFFE00000,
        0x41F0000000000000, 0x4330000000000001, 0x47EFFFFFE0000000, 0x47EFFFFFF0000000, 0x3810000000000000,
        0x36A0000000000000, 0x3690000000000001, 0x7FEFFFFFFFFFFFFF, 0xFFEFFFFFFFFFFFFF, 0x7FF0000000000000,
        0xFFF0000000000000, 0x7FF8000000000000, 0xFFF8000012345678, 0x7FF0000000000001, 0x4004000000000000,
    ),
}  # fmt: skip
"""Numbers that break things, by format."""
