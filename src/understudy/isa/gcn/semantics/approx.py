"""The operations that hardware only approximates: reciprocals, roots, exponentials, logarithms, sines.

The manuals give an error bound, not the bits. These meanings compute in binary64 by steps that every engine does alike,
with an error of little more than half a unit in the last place: within every bound. Special values are the manuals'.
binary32 forms flush denormals whatever MODE says, the others follow it (Choice ``gcn/approximations``).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import reduce
from typing import Final

from understudy.isa.gcn.insn import Accuracy
from understudy.isa.gcn.semantics import fp
from understudy.isa.gcn.semantics.fp import Real, real
from understudy.isa.gcn.word import Word

MANUAL: Final = "Vega ISA manual, VOP1 opcodes"
ONE_ULP: Final = {"accuracy": Accuracy("approximate", "1 ULP", MANUAL)}
HALF_ULP: Final = {"accuracy": Accuracy("approximate", "0.51 ULP", MANUAL)}
COARSE: Final = {"accuracy": Accuracy("approximate", "2**29 ULP", MANUAL)}
SINE: Final = {"accuracy": Accuracy("approximate", "1 ULP (the manual gives no bound)", MANUAL)}
SINE_LIMIT: Final = 256
"""Revolutions; beyond them a sine is 0, a cosine 1."""

Function = Callable[[Word], Word]
Doubles = Callable[[Real], Real]
"""A function of a finite, normal binary64 value."""
INFINITY: Final = math.inf
NAN: Final = fp.quiet_nan("d")


def polynomial(x: Real, coefficients: Sequence[float]) -> Real:
    """Horner's scheme; the constant coefficient first."""
    *rest, last = coefficients
    return reduce(lambda result, c: result * x + c, reversed(rest), x.const(last))


# ---- reciprocal and roots --------------------------------------------------------------------------------------------
def rcp_f32(a: Word) -> Word:
    """1 / a; where that is denormal, 0 of its sign."""
    one = a.const(fp.power("s", 0))
    a = fp.zero_if_tiny(a)
    under = fp.magnitude(a) > fp.power("s", 126)
    finite = fp.magnitude(a) < fp.infinity("s")
    inverse = one.fdiv(under.select(one, a), "raw")
    lost = under & finite | fp.is_infinite(a)
    return fp.choose([(fp.is_nan(a), fp.quiet_nan("s")), (lost, fp.sign_of(a))], inverse)


def sqrt_f32(a: Word) -> Word:
    """Square root."""
    return fp.zero_if_tiny(a).fsqrt("raw")


def rsq_f32(a: Word) -> Word:
    """1 / square root."""
    return inverse_root(widened(a)).fconvert("s", "raw")


def inverse_root(a: Real) -> Real:
    """1 / square root, binary64."""
    return 1.0 / a.sqrt()


def rcp_f64(a: Word) -> Word:
    """1 / a."""
    return a.const(fp.power("d", 0)).fdiv(a)


def sqrt_f64(a: Word) -> Word:
    """Square root."""
    return a.fsqrt()


def rsq_f64(a: Word) -> Word:
    """1 / square root."""
    return rcp_f64(a.fsqrt())


def rcp_double(a: Real) -> Real:
    """1 / a for `half`."""
    return 1.0 / a


# ---- from and to binary64 --------------------------------------------------------------------------------------------
def widened(a: Word) -> Real:
    """A binary32 (denormals flushed) or binary16 number (as MODE says) in binary64."""
    return real((fp.zero_if_tiny(a) if a.width == 32 else a.fflush()).fconvert("d", "raw"))


def narrowed(t: str, a: Real) -> Word:
    """A binary64 number in binary32 (0 of its sign where it is below normal) or binary16 (denormals as MODE says)."""
    if t == "h":
        return a.bits.fconvert("h", None, 0)
    below = fp.magnitude(a) < 2.0**-126
    return below.select(fp.sign_of(a), a).bits.fconvert("s", "raw")


def of_double(f: Doubles) -> Function:
    """`f` in binary64."""
    return lambda a: narrowed(a.format, f(widened(a)))


# ---- exponential and logarithm ---------------------------------------------------------------------------------------
EXP2: Final = tuple(math.log(2) ** k / math.factorial(k) for k in range(10))
"""2**x for |x| <= 0.5, within 1e-11."""
LOG2: Final = tuple(2 / math.log(2) / (2 * k + 1) for k in range(8))
"""log2((1 + s) / (1 - s)) / s in s * s, for |s| <= 0.172, within 1e-13."""
MAGIC: Final = 1.5 * 2.0**52
"""Added to a number, leaves its integer in the low bits."""
ROOT_HALF: Final = fp.pattern(math.sqrt(0.5))


def whole(a: Real) -> tuple[Real, Word]:
    """The nearest integer of a number up to 2**50: as a float, and as bits whose low ones are the integer's."""
    shifted = a + MAGIC
    return shifted - MAGIC, shifted.bits


def exp2(a: Real) -> Real:
    """2**a; far outside of every smaller format's range infinity and 0."""
    beyond = fp.magnitude(a) > 1000.0
    x = beyond.select(0.0, a)
    integer, shifted = whole(x)
    part = polynomial(x - integer, EXP2)
    extreme = fp.is_negative(a).select(a.const(0.0), INFINITY)
    return fp.choose([(fp.is_nan(a), NAN), (beyond, extreme)], real(part.bits + (shifted << 52)))


def log2(a: Real) -> Real:
    """log2(a); -infinity of 0, NaN of what is below."""
    nan, zero, negative, infinite = fp.is_nan(a), fp.is_zero(a), fp.is_negative(a), fp.is_infinite(a)
    x = fp.either(nan, negative, zero, infinite).select(1.0, a).bits
    # x = m * 2**k with m between the roots of 0.5 and 2.
    k = (x - ROOT_HALF).sra(52)
    m = real(x - (k << 52))
    s = (m - 1.0) / (m + 1.0)
    result = real(k.trunc(32).ffrom_int("d", True, "raw")) + s * polynomial(s * s, LOG2)
    return fp.choose([(nan, NAN), (zero, -INFINITY), (negative, NAN), (infinite, a)], result)


# ---- sine and cosine of revolutions ----------------------------------------------------------------------------------
SIN: Final = tuple((-1) ** k * (2 * math.pi) ** (2 * k + 1) / math.factorial(2 * k + 1) for k in range(9))
"""sin(2 * pi * x) / x in x * x, for |x| <= 0.25, within 1e-13."""


def turns(*, cosine: bool) -> Doubles:
    """sin or cos of 2 * pi * a; 0 or 1 beyond the domain, NaN of an infinity."""

    def function(a: Real) -> Real:
        size = fp.magnitude(a)
        beyond = size > float(SINE_LIMIT)
        x = beyond.select(0.0, a)
        x -= whole(x)[0]
        if cosine:
            x = 0.25 - fp.magnitude(x)
        # Beyond a quarter the sine comes back: sin(pi - x) = sin(x).
        back = fp.magnitude(x) > 0.25
        x = back.select(fp.copysign(x.const(0.5), x) - x, x)
        rules: list[tuple[Word, Real | float]] = [(size >= INFINITY, NAN), (beyond, 1.0 if cosine else 0.0)]
        if not cosine:
            rules.append((fp.is_zero(a), a))
        return fp.choose(rules, x * polynomial(x * x, SIN))

    return function


# ---- forms of GFX7 ---------------------------------------------------------------------------------------------------
def clamped(f: Function) -> Function:
    """Infinite results become the largest finite number of their sign."""

    def limited(a: Word) -> Word:
        result = f(a)
        return fp.is_infinite(result).select(fp.copysign(result.const(fp.largest(a.format)), result), result)

    return limited


def above_minus_infinity(f: Function) -> Function:
    """A result of -infinity becomes the lowest finite number."""

    def limited(a: Word) -> Word:
        result, sign = f(a), fp.sign_bit(a.format)
        return (result == sign | fp.infinity(a.format)).select(sign | fp.largest(a.format), result)

    return limited


def legacy(f: Function) -> Function:
    """Infinite results become 0 of their sign."""

    def limited(a: Word) -> Word:
        result = f(a)
        return fp.is_infinite(result).select(fp.sign_of(result), result)

    return limited
