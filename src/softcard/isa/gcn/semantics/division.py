"""Semantics of the three helpers of float division: v_div_scale, v_div_fmas and v_div_fixup.

Compilers divide as follows: scale both operands (v_div_scale), estimate the quotient with v_rcp and fused
multiply-adds, then execute v_div_fmas and v_div_fixup. What the manuals leave open is defined so that this
sequence gives correctly rounded quotients (Choices ``gcn/div-scale``, ``gcn/div-fmas``)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from softcard.isa.gcn.semantics import fp
from softcard.isa.gcn.semantics.floating import biased_exponent, normalized
from softcard.isa.gcn.semantics.fp import Real, real
from softcard.isa.gcn.word import Word


@dataclass(frozen=True, slots=True)
class Limits:
    """The constants of division in one float format.

    - `scale`: the exponent of the power of two by which operands are scaled
    - `near`: the least difference of exponents for which a quotient may come close to overflow
    - `tiny`: the largest biased exponent for which a numerator is too small for the fused steps and is scaled up
    - `lost`: the difference of exponents below which a quotient is less than half the least denormal"""

    scale: int
    near: int
    tiny: int
    lost: int


LIMITS: Final = {"s": Limits(64, 96, 23, -150), "d": Limits(128, 768, 53, -1075)}


def quotient_is_tiny(a: Word, b: Word) -> Word:
    """Return 1 if |a / b| is below the smallest normal number; a and b are finite and not 0."""
    least = 1 - fp.bias(a.format)
    (a, of_a), (b, of_b) = exponent_and_fraction(a), exponent_and_fraction(b)
    difference = a - b
    # Equal exponents: the quotient of the fractions decides.
    return difference.slt(least) | (difference == least) & (of_a < of_b)


def exponent_and_fraction(a: Word) -> tuple[Word, Word]:
    """Return the biased exponent of a number, and the fraction bits below its leading 1 bit.

    For a denormal, the exponent is that of its leading 1 bit."""
    up, digits = normalized(a, fp.is_tiny(a))
    return biased_exponent(a).umax(1) - up, digits


def div_scale(a: Word, b: Word, c: Word) -> tuple[Word, Word]:
    """Return `a` scaled for a division c / b, and 1 if v_div_fmas must scale the quotient back.

    `a` is the denominator b or the numerator c.
    """
    t, limits = a.format, LIMITS[a.format]
    a, b, c = (x.fflush() for x in (a, b, c))
    none = a.constant(32, 0)
    up, down = none.const(limits.scale), none.const(-limits.scale)
    up_for_b, down_for_b, up_for_c = (a == b).select(up, none), (a == b).select(down, none), (a == c).select(up, none)
    near = a.const(limits.near).sle(biased_exponent(c) - biased_exponent(b))
    inverse_tiny = fp.magnitude(b) > fp.power(t, fp.bias(t) - 1)
    tiny = quotient_is_tiny(c, b)
    is_zero = fp.is_zero(b) | fp.is_zero(c)
    cases = (
        # condition                             scaled       scale back
        (is_zero,                               none,        0),
        (not_finite(b) | not_finite(c),         none,        0),
        (near,                                  up_for_b,    1),
        (fp.is_tiny(b),                         up,          0),
        (inverse_tiny & tiny,                   down_for_b,  1),
        (inverse_tiny,                          down,        0),
        (tiny,                                  up_for_c,    1),
        (biased_exponent(c) <= limits.tiny,     up,          0),
    )  # fmt: skip
    power = fp.choose([(condition, value) for condition, value, _ in cases], none)
    scaled = (power == 0).select(a, a.fldexp(power))
    back = fp.choose([(condition, back) for condition, _, back in cases], near.const(0))
    return is_zero.select(fp.quiet_nan(t), scaled), back


def not_finite(a: Word) -> Word:
    """Return 1 (width 1) if `a` is infinite or a NaN."""
    return fp.magnitude(a) >= fp.infinity(a.format)


def div_fmas(a: Word, b: Word, c: Word, flag: Word) -> Word:
    """Return a * b + c with one rounding; scale the result back if `flag` is set.

    The scale is 2**scale (see `Limits`) if |c| >= 2, else 2**-scale.
    """
    t, scale = a.format, LIMITS[a.format].scale
    plain = a.fma(b, c)
    large = fp.magnitude(c) >= fp.power(t, 1)
    up, down = plain.fldexp(scale), plain.fldexp(-scale)
    if a.mode.keeps_denormals(t)[1]:
        normal = fp.magnitude(plain) >= fp.power(t, 1 - fp.bias(t) + scale)
        down = normal.select(down, DENORMAL[t](a, b, c))
    return flag.select(large.select(up, down), plain)


# A sum that becomes denormal by scaling must not be rounded before, unless that cannot change the result.
def denormal32(a: Word, b: Word, c: Word) -> Word:
    """Return (a * b + c) * 2**-64 in binary32, correctly rounded for denormal results.

    The product is exact in binary64, and the sum is rounded to odd in binary64.
    """
    x, y, z = (real(v.fconvert("d")) for v in (a, b, c))
    total, error = two_sum(x * y, z)
    total = nudged(total, error, total & 1 == 0)
    return (total * 2.0**-64).bits.fconvert("s")


def denormal64(a: Word, b: Word, c: Word) -> Word:
    """Return (a * b + c) * 2**-128 in binary64; all steps but the last one avoid denormals."""
    away = 256
    x, y, z = (real(v.fflush()) for v in (a, b, c))
    x, z = x * 2.0**away, z * 2.0**away
    nearest = x.fma(y, z, "raw")
    # The digits that the result will lose: half a unit, rounded to something or nothing, depends on all of them.
    lost = (128 + away + 1 - biased_exponent(nearest.bits)).smax(1).umin(54)
    unit = 1 << lost
    rest = (nearest.bits[51:0] | 1 << 52) & unit - 1
    misleading = unit >> 1 if a.mode.round64 == 0 else unit.const(0)
    return nudged(nearest, fma_error(x, y, z, nearest), rest == misleading).bits.fldexp(-128 - away)


DENORMAL: Final = {"s": denormal32, "d": denormal64}


def nudged(nearest: Real, error: Real, where: Word) -> Real:
    """Move `nearest` by one unit in the last place towards nearest + error.

    Lanes change only if they are in the mask `where` and their `error` is not 0.
    """
    beyond = fp.is_negative(error) == fp.is_negative(nearest)
    moved = beyond.select(nearest.bits + 1, nearest.bits - 1)
    return (where & ~fp.is_zero(error)).select(real(moved), nearest)


def fma_error(a: Real, b: Real, c: Real, nearest: Real) -> Real:
    """Return a number with the sign of a * b + c - nearest, or 0 if that difference is 0.

    Source: Boldo, Muller, "Exact and approximated error of the FMA", 2011.
    """
    product = a * b
    first, rest = two_sum(c, a.fma(b, fp.neg(product), "raw"))
    second, tail = two_sum(product, first)
    return second - nearest + tail + rest


def two_sum(a: Real, b: Real) -> tuple[Real, Real]:
    """Return a + b in binary64, and the error of the sum (Knuth's algorithm)."""
    total = a + b
    virtual = total - a
    return total, a - (total - virtual) + (b - virtual)


def div_fixup(a: Word, b: Word, c: Word) -> Word:
    """Return `a`, an approximate quotient c / b, with the correct sign and with special cases replaced.

    The special cases are NaNs, 0 / 0, infinities, overflow and underflow.
    """
    t = a.format
    a, b, c = (x.fflush() for x in (a, b, c))
    sign = fp.sign_of(b) ^ fp.sign_of(c)
    infinity = sign | fp.infinity(t)
    zero_b, zero_c = fp.is_zero(b), fp.is_zero(c)
    infinite_b, infinite_c = fp.is_infinite(b), fp.is_infinite(c)
    rules: list[tuple[Word, Word | float]] = [
        (fp.is_nan(c), fp.quiet(c)),
        (fp.is_nan(b), fp.quiet(b)),
        (zero_b & zero_c | infinite_b & infinite_c, fp.quiet_nan(t) | fp.sign_bit(t)),
        (zero_b | infinite_c, infinity),
        (infinite_b | zero_c, sign),
    ]
    if t in LIMITS:
        difference = biased_exponent(c) - biased_exponent(b)
        rules.append((difference.slt(LIMITS[t].lost), underflow(sign)))
        # Quotients beyond the largest number have become NaNs on the way.
        rules.append((fp.is_nan(a), infinity))
    return fp.choose(rules, sign | fp.magnitude(a))


def underflow(sign: Word) -> Word:
    """Return the result of a quotient that is at most half the least denormal, rounded as MODE says.

    `sign` is a zero with the sign of the result.
    """
    t = sign.format
    keeps, rounding = sign.mode.keeps_denormals(t)[1], sign.mode.rounding(t)
    if not keeps or rounding in (0, 3):
        return sign
    away = sign == (0 if rounding == 1 else fp.sign_bit(t))
    return sign | away.zext(sign.width)
