"""The three helpers of float division: scale the operands, multiply-add and scale back, fix special cases up.

A compiler's division is: scale both operands, estimate by v_rcp and fused steps, v_div_fmas, v_div_fixup. What the
manuals leave out is chosen such that this gives correctly rounded quotients (``gcn/div-scale``, ``gcn/div-fmas``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from understudy.isa.gcn.semantics import fp
from understudy.isa.gcn.semantics.floating import biased_exponent, normalized
from understudy.isa.gcn.semantics.fp import Real, real
from understudy.isa.gcn.word import Word


@dataclass(frozen=True, slots=True)
class Limits:
    """Numbers of one format.

    `scale`: the power of two that operands are scaled by. `near`: the difference of exponents from which on a quotient
    comes near overflow. `tiny`: the biased exponent up to which a numerator has too few digits below it. `lost`: the
    difference of exponents below which a quotient is less than half the least denormal.
    """

    scale: int
    near: int
    tiny: int
    lost: int


LIMITS: Final = {"s": Limits(64, 96, 23, -150), "d": Limits(128, 768, 53, -1075)}


def quotient_is_tiny(a: Word, b: Word) -> Word:
    """Whether |a / b| is below the normal numbers; both finite, not 0."""
    least = 1 - fp.bias(a.format)
    (a, of_a), (b, of_b) = exponent_and_fraction(a), exponent_and_fraction(b)
    difference = a - b
    # Equal exponents: the quotient of the fractions decides.
    return difference.slt(least) | (difference == least) & (of_a < of_b)


def exponent_and_fraction(a: Word) -> tuple[Word, Word]:
    """The biased exponent, of a denormal that of its leading one, and the digits below the leading one."""
    up, digits = normalized(a, fp.is_tiny(a))
    return biased_exponent(a).umax(1) - up, digits


def div_scale(a: Word, b: Word, c: Word) -> tuple[Word, Word]:
    """a (the denominator b or the numerator c) scaled for a division; and whether v_div_fmas must scale back."""
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
    """Infinite or a NaN."""
    return fp.magnitude(a) >= fp.infinity(a.format)


def div_fmas(a: Word, b: Word, c: Word, flag: Word) -> Word:
    """a * b + c, where the flag is set times 2**scale if |c| >= 2, else times 2**-scale, rounded once."""
    t, scale = a.format, LIMITS[a.format].scale
    plain = a.fma(b, c)
    large = fp.magnitude(c) >= fp.power(t, 1)
    up, down = plain.fldexp(scale), plain.fldexp(-scale)
    if a.mode.keeps(t)[1]:
        normal = fp.magnitude(plain) >= fp.power(t, 1 - fp.bias(t) + scale)
        down = normal.select(down, DENORMAL[t](a, b, c))
    return flag.select(large.select(up, down), plain)


# A sum that becomes denormal when it is scaled must not have been rounded before, or not so that it misleads.
def denormal32(a: Word, b: Word, c: Word) -> Word:
    """(a * b + c) * 2**-64 in binary32: the product is exact in binary64, the sum rounded to odd there."""
    x, y, z = (real(v.fconvert("d")) for v in (a, b, c))
    total, error = two_sum(x * y, z)
    total = nudged(total, error, total & 1 == 0)
    return (total * 2.0**-64).bits.fconvert("s")


def denormal64(a: Word, b: Word, c: Word) -> Word:
    """(a * b + c) * 2**-128 in binary64, far away from denormals until the end."""
    away = 256
    x, y, z = (real(v.fflush()) for v in (a, b, c))
    x, z = x * 2.0**away, z * 2.0**away
    nearest = x.fma(y, z, "raw")
    # The digits that the result will lose: half a unit that is none, or (rounding otherwise) nothing that is something.
    lost = (128 + away + 1 - biased_exponent(nearest.bits)).smax(1).umin(54)
    unit = 1 << lost
    rest = (nearest.bits[51:0] | 1 << 52) & unit - 1
    misleading = unit >> 1 if a.mode.round64 == 0 else unit.const(0)
    return nudged(nearest, fma_error(x, y, z, nearest), rest == misleading).bits.fldexp(-128 - away)


DENORMAL: Final = {"s": denormal32, "d": denormal64}


def nudged(nearest: Real, error: Real, where: Word) -> Real:
    """One place from `nearest` towards nearest + error, where that is another number and `where` holds."""
    beyond = fp.is_negative(error) == fp.is_negative(nearest)
    moved = beyond.select(nearest.bits + 1, nearest.bits - 1)
    return (where & ~fp.is_zero(error)).select(real(moved), nearest)


def fma_error(a: Real, b: Real, c: Real, nearest: Real) -> Real:
    """Sign and non-zeroness of a * b + c - nearest (Boldo, Muller, "Exact and approximated error of the FMA", 2011)."""
    product = a * b
    first, rest = two_sum(c, a.fma(b, fp.neg(product), "raw"))
    second, tail = two_sum(product, first)
    return second - nearest + tail + rest


def two_sum(a: Real, b: Real) -> tuple[Real, Real]:
    """a + b in binary64, and its error (Knuth)."""
    total = a + b
    virtual = total - a
    return total, a - (total - virtual) + (b - virtual)


def div_fixup(a: Word, b: Word, c: Word) -> Word:
    """The quotient a of c / b with its special cases: NaNs, 0 / 0, infinities, overflow and underflow, and its sign."""
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
    """The least denormal times a half or less, rounded as MODE says."""
    t = sign.format
    keeps, rounding = sign.mode.keeps(t)[1], sign.mode.rounding(t)
    if not keeps or rounding in (0, 3):
        return sign
    away = sign == (0 if rounding == 1 else fp.sign_bit(t))
    return sign | away.zext(sign.width)
