"""Float semantics that several encodings share: functions of words, whose width selects the format."""

from __future__ import annotations

from collections.abc import Callable

from softcard.isa.gcn.semantics import fp
from softcard.isa.gcn.word import Word

FLUSHES_FROM = 9
"""The first generation whose minima and maxima flush denormals as MODE says; on earlier ones they never flush."""

add, sub, mul, fma = Word.fadd, Word.fsub, Word.fmul, Word.fma
"""The arithmetic functions a + b, a - b, a * b, and a * b + c with one rounding."""


def mad(a: Word, b: Word, c: Word) -> Word:
    """Return a * b + c with two roundings; denormals are always flushed."""
    return a.fmul(b, "flush").fadd(c, "flush")


def mul_legacy(a: Word, b: Word, env: str | None = None) -> Word:
    """Return a * b, but +0 if one operand is a zero or a flushed denormal, even if the other is infinite or a NaN."""
    flushes = env == "flush" or not a.mode.keeps_denormals("s")[0]
    none = fp.either(*(fp.is_zero(fp.zero_if_tiny(x) if flushes else x) for x in (a, b)))
    return none.select(0, a.fmul(b, env))


def mad_legacy(a: Word, b: Word, c: Word) -> Word:
    """Return `mul_legacy` plus c; denormals are always flushed."""
    return mul_legacy(a, b, "flush").fadd(c, "flush")


def mullit(a: Word, b: Word, c: Word) -> Word:
    """Return `mul_legacy` of a and b, or the lowest finite number if c is not above 0 or is a NaN."""
    return c.const(0).flt(c).select(mul_legacy(a, b), fp.sign_bit("s") | fp.largest("s"))


# ---- minima and maxima -----------------------------------------------------------------------------------------------
def order(a: Word) -> Word:
    """Return an integer of the format's width that compares (signed) like the float; -0 is below +0."""
    return a ^ (a.sra(a.width - 1) & fp.sign_bit(a.format) - 1)


def below(a: Word, b: Word) -> Word:
    """Return 1 (width 1) if a < b, where -0 is below +0; neither operand is a NaN."""
    return order(a).slt(order(b))


def extreme(*, largest: bool) -> Callable[[Word, Word, int], Word]:
    """Return the function of the smaller of two numbers, or of the larger one if `largest` is True.

    A number is preferred to a NaN. But if MODE.IEEE is set and an operand is a signalling NaN, the result is that NaN,
    made quiet.
    """

    def semantics(a: Word, b: Word, level: int) -> Word:
        if level >= FLUSHES_FROM:
            a, b = a.fflush(), b.fflush()
        rules = [(fp.is_nan(a), b), (fp.is_nan(b), a), (below(b, a) if largest else below(a, b), a)]
        if a.mode.ieee:
            rules = [(fp.is_signalling(x), fp.quiet(x)) for x in (a, b)] + rules
        return fp.choose(rules, b)

    return semantics


MIN, MAX = extreme(largest=False), extreme(largest=True)


def min_legacy(a: Word, b: Word) -> Word:
    """Return a if a < b, else b. So the result is b if either operand is a NaN."""
    return a.flt(b).select(a, b)


def max_legacy(a: Word, b: Word) -> Word:
    """Return a if a >= b, else b."""
    return b.fle(a).select(a, b)


def min3(a: Word, b: Word, c: Word, level: int) -> Word:
    """Return the smallest of three numbers by the rules of generation `level`."""
    return MIN(MIN(a, b, level), c, level)


def max3(a: Word, b: Word, c: Word, level: int) -> Word:
    """Return the largest of three numbers by the rules of generation `level`."""
    return MAX(MAX(a, b, level), c, level)


def median3(a: Word, b: Word, c: Word, level: int) -> Word:
    """Return the median of three numbers by the rules of generation `level`; if one is a NaN, the smallest number."""
    middle = MAX(MIN(a, b, level), MIN(MAX(a, b, level), c, level), level)
    return fp.either(*map(fp.is_nan, (a, b, c))).select(min3(a, b, c, level), middle)


# ---- rounding, parts -------------------------------------------------------------------------------------------------
def minimum(a: Word, b: Word) -> Word:
    """Return the smaller operand, where -0 is below +0; if an operand is a NaN, return it, made quiet."""
    a, b = a.fflush(), b.fflush()
    return fp.choose([*((fp.is_nan(x), fp.quiet(x)) for x in (a, b)), (below(a, b), a)], b)


def maximum(a: Word, b: Word) -> Word:
    """Return the larger operand, where -0 is below +0; if an operand is a NaN, return it, made quiet."""
    a, b = a.fflush(), b.fflush()
    return fp.choose([*((fp.is_nan(x), fp.quiet(x)) for x in (a, b)), (below(b, a), a)], b)


def minimum3(a: Word, b: Word, c: Word) -> Word:
    """Return the smallest of three operands; if one is a NaN, return it, made quiet."""
    return minimum(minimum(a, b), c)


def maximum3(a: Word, b: Word, c: Word) -> Word:
    """Return the largest of three operands; if one is a NaN, return it, made quiet."""
    return maximum(maximum(a, b), c)


def two(one: Callable[..., Word]) -> Callable[..., Word]:
    """Return a function that applies `one` to the low halves of 64-bit sources, and to the high halves."""

    def semantics(*sources: Word) -> Word:
        low, high = (a.trunc(32) for a in sources), (a[63:32].trunc(32) for a in sources)
        return one(*low).zext(64) | one(*high).zext(64) << 32

    return semantics


def rounded(kind: str) -> Callable[[Word], Word]:
    """Return the function that rounds a float to an integral one; `kind` is "trunc", "ceil", "floor" or "even"."""
    return lambda a: a.fround(kind)


def fract(a: Word) -> Word:
    """Return a - floor(a), but at most the largest float below 1 (Choice ``gcn/fract-below-one``)."""
    part, one = a.fsub(a.fround("floor")), fp.power(a.format, 0)
    return (part == one).select(one - 1, part)


def normal(a: Word) -> tuple[Word, Word]:
    """Return (m, e) with `a` = m * 2**e, where m is normal even if `a` is a denormal.

    Both have the width of `a`. If `a` is not a denormal, the result is (`a`, 0)."""
    t = a.format
    tiny = fp.is_tiny(a)
    up, digits = normalized(a, tiny)
    scaled = fp.sign_of(a) | digits | 1 << fp.FRACTION[t]
    return tiny.select(scaled, a), tiny.select(-up, 0)


def normalized(a: Word, tiny: Word) -> tuple[Word, Word]:
    """Return the left shift that makes the denormal `a` normal, and its fraction bits after that shift.

    In lanes outside of the mask `tiny` the shift is 0.
    """
    size = fp.FRACTION[a.format]
    fraction = fp.magnitude(a)
    up = tiny.select(fraction.ctlz() - (a.width - size - 1) & a.width - 1, 0)
    return up, fraction << up & (1 << size) - 1


def exponent(a: Word) -> Word:
    """Return floor(log2(|a|)) as an integer of the format's width; `a` is finite and not 0."""
    scaled, shift = normal(a)
    # A denormal's digits went up by -shift places above exponent field 1.
    return biased_exponent(scaled) - fp.bias(a.format) + shift


def biased_exponent(a: Word) -> Word:
    """Return the biased exponent field of a float."""
    return fp.magnitude(a) >> fp.FRACTION[a.format]


def special(a: Word) -> Word:
    """Return 1 (width 1) if `a` is zero, infinite or a NaN."""
    return fp.either(fp.is_zero(a), fp.is_infinite(a), fp.is_nan(a))


def frexp_exp(a: Word) -> Word:
    """Return the exponent e of a = m * 2**e with 0.5 <= |m| < 1; 0 for zeros, infinities and NaNs.

    It has 32 bits, or 16 bits for binary16.
    """
    a = a.fflush()
    return special(a).select(0, (exponent(a) + 1).trunc(min(a.width, 32)))


def frexp_mant(a: Word) -> Word:
    """Return the mantissa m of a = m * 2**e with 0.5 <= |m| < 1.

    Zeros and infinities are returned unchanged, NaNs made quiet.
    """
    t = a.format
    a = a.fflush()
    half = normal(a)[0] & (fp.sign_bit(t) | (1 << fp.FRACTION[t]) - 1) | fp.power(t, -1)
    return fp.choose([(fp.is_nan(a), fp.quiet(a)), (special(a), a)], half)


def ldexp(a: Word, n: Word) -> Word:
    """Return a * 2**n; `n` is a signed integer of 32 bits, or 16 bits for binary16."""
    return a.fldexp(n.sext(32))


# ---- comparisons -----------------------------------------------------------------------------------------------------
def classify(a: Word, mask: Word) -> Word:
    """Return 1 if the bit of `mask` for the class of `a` is set.

    Bits 0 to 9 are signalling NaN, quiet NaN, -infinity, -normal, -denormal, -0, +0, +denormal, +normal, +infinity.
    """
    negative = fp.is_negative(a)

    def bit(below: int, above: int) -> Word:
        return negative.select(mask.const(below), above)

    rules: list[tuple[Word, Word | float]] = [
        (fp.is_signalling(a), 0),
        (fp.is_nan(a), 1),
        (fp.is_infinite(a), bit(2, 9)),
        (fp.is_zero(a), bit(5, 6)),
        (fp.is_tiny(a), bit(4, 7)),
    ]
    return (mask >> fp.choose(rules, bit(3, 8))).trunc(1)
