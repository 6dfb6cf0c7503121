"""Semantics of operations that hardware approximates: reciprocals, roots, exponentials, logarithms, sines.

The manuals give an error bound, not the bits. These semantics compute in binary64, in steps that give the same bits in
every engine. Their error is little more than half a unit in the last place, which is within every bound. Special values
are those of the manuals. binary32 forms flush denormals regardless of MODE; the others follow MODE (Choice
``gcn/approximations``).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import reduce
from typing import Final

from softcard.isa.gcn.insn import Accuracy
from softcard.isa.gcn.semantics import fp
from softcard.isa.gcn.semantics.fp import Real, real
from softcard.isa.gcn.word import Word

MANUAL: Final = "Vega ISA manual, VOP1 opcodes"
ONE_ULP: Final = {"accuracy": Accuracy("approximate", "1 ULP", MANUAL)}
HALF_ULP: Final = {"accuracy": Accuracy("approximate", "0.51 ULP", MANUAL)}
COARSE: Final = {"accuracy": Accuracy("approximate", "2**29 ULP", MANUAL)}
SINE: Final = {"accuracy": Accuracy("approximate", "1 ULP (the manual gives no bound)", MANUAL)}
SINE_LIMIT: Final = 256
"""The argument, in revolutions, beyond which the sine is 0 and the cosine is 1."""

Function = Callable[[Word], Word]
Doubles = Callable[[Real], Real]
"""A function from a finite, normal binary64 value to another one."""
INFINITY: Final = math.inf
NAN: Final = fp.quiet_nan("d")


def polynomial(x: Real, coefficients: Sequence[float]) -> Real:
    """Evaluate a polynomial by Horner's scheme; the constant coefficient comes first."""
    *rest, last = coefficients
    return reduce(lambda result, c: result * x + c, reversed(rest), x.const(last))


# ---- reciprocal and roots --------------------------------------------------------------------------------------------
def rcp_f32(a: Word) -> Word:
    """Return 1 / a in binary32; a denormal result becomes a zero of the same sign."""
    one = a.const(fp.power("s", 0))
    a = fp.zero_if_tiny(a)
    under = fp.magnitude(a) > fp.power("s", 126)
    finite = fp.magnitude(a) < fp.infinity("s")
    inverse = one.fdiv(under.select(one, a), "raw")
    lost = under & finite | fp.is_infinite(a)
    return fp.choose([(fp.is_nan(a), fp.quiet_nan("s")), (lost, fp.sign_of(a))], inverse)


def sqrt_f32(a: Word) -> Word:
    """Return the square root in binary32."""
    return fp.zero_if_tiny(a).fsqrt("raw")


def rsq_f32(a: Word) -> Word:
    """Return 1 / the square root of a, in binary32."""
    return inverse_root(widened(a)).fconvert("s", "raw")


def inverse_root(a: Real) -> Real:
    """Return 1 / the square root of a binary64 number."""
    return 1.0 / a.sqrt()


def rcp_f64(a: Word) -> Word:
    """Return 1 / a in binary64."""
    return a.const(fp.power("d", 0)).fdiv(a)


def sqrt_f64(a: Word) -> Word:
    """Return the square root in binary64."""
    return a.fsqrt()


def rsq_f64(a: Word) -> Word:
    """Return 1 / the square root of a, in binary64."""
    return rcp_f64(a.fsqrt())


def rcp_double(a: Real) -> Real:
    """Return 1 / a; the binary16 reciprocal is computed with it."""
    return 1.0 / a


# ---- from and to binary64 --------------------------------------------------------------------------------------------
def widened(a: Word) -> Real:
    """Widen a binary32 or binary16 number to binary64.

    Denormals of binary32 are flushed; those of binary16 are treated as MODE says.
    """
    return real((fp.zero_if_tiny(a) if a.width == 32 else a.fflush()).fconvert("d", "raw"))


def narrowed(t: str, a: Real) -> Word:
    """Round a binary64 number to format `t`, binary32 or binary16.

    In binary32 a denormal result becomes a zero of the same sign. In binary16 MODE determines if it is kept."""
    if t == "h":
        return a.bits.fconvert("h", None, 0)
    below = fp.magnitude(a) < 2.0**-126
    return below.select(fp.sign_of(a), a).bits.fconvert("s", "raw")


def of_double(f: Doubles) -> Function:
    """Return a function of binary32 or binary16 numbers that computes `f` in binary64 and rounds the result."""
    return lambda a: narrowed(a.format, f(widened(a)))


# ---- exponential and logarithm ---------------------------------------------------------------------------------------
EXP2: Final = tuple(math.log(2) ** k / math.factorial(k) for k in range(10))
"""The coefficients of 2**x for |x| <= 0.5, with an error below 1e-11."""
LOG2: Final = tuple(2 / math.log(2) / (2 * k + 1) for k in range(8))
"""The coefficients of log2((1 + s) / (1 - s)) / s in s * s, for |s| <= 0.172, with an error below 1e-13."""
MAGIC: Final = 1.5 * 2.0**52
"""A number whose addition rounds a float to an integer and leaves the integer in the low bits."""
ROOT_HALF: Final = fp.pattern(math.sqrt(0.5))


def whole(a: Real) -> tuple[Real, Word]:
    """Return the whole number nearest to `a` (|a| up to 2**50) twice: as a float, and in the low bits of a word."""
    shifted = a + MAGIC
    return shifted - MAGIC, shifted.bits


def exp2(a: Real) -> Real:
    """Return 2**a; if |a| is above 1000, infinity or 0, as binary32 and binary16 have no such numbers."""
    beyond = fp.magnitude(a) > 1000.0
    x = beyond.select(0.0, a)
    integer, shifted = whole(x)
    part = polynomial(x - integer, EXP2)
    extreme = fp.is_negative(a).select(a.const(0.0), INFINITY)
    return fp.choose([(fp.is_nan(a), NAN), (beyond, extreme)], real(part.bits + (shifted << 52)))


def log2(a: Real) -> Real:
    """Return log2(a): -infinity for 0, NaN for negative numbers."""
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
"""The coefficients of sin(2 * pi * x) / x in x * x, for |x| <= 0.25, with an error below 1e-13."""


def turns(*, cosine: bool) -> Doubles:
    """Return the function sin(2 * pi * a), or cos(2 * pi * a) if `cosine` is True.

    Beyond `SINE_LIMIT` the sine is 0 and the cosine is 1; for an infinity the result is NaN.
    """

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
    """Return a function like `f` with infinite results replaced by the largest finite number of the same sign."""

    def limited(a: Word) -> Word:
        result = f(a)
        return fp.is_infinite(result).select(fp.copysign(result.const(fp.largest(a.format)), result), result)

    return limited


def above_minus_infinity(f: Function) -> Function:
    """Return a function like `f` with a result of -infinity replaced by the lowest finite number."""

    def limited(a: Word) -> Word:
        result, sign = f(a), fp.sign_bit(a.format)
        return (result == sign | fp.infinity(a.format)).select(sign | fp.largest(a.format), result)

    return limited


def legacy(f: Function) -> Function:
    """Return a function like `f` with infinite results replaced by 0 of the same sign."""

    def limited(a: Word) -> Word:
        result = f(a)
        return fp.is_infinite(result).select(fp.sign_of(result), result)

    return limited
