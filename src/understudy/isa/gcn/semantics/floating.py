"""Float meanings that several families share: functions of words, whose width is the format's."""

from __future__ import annotations

from collections.abc import Callable

from understudy.isa.gcn.semantics import fp
from understudy.isa.gcn.word import Word

FLUSHES_FROM = 9
"""The first generation whose minima and maxima flush denormals as MODE says; earlier ones pass them on."""

add, sub, mul, fma = Word.fadd, Word.fsub, Word.fmul, Word.fma
"""a + b, a - b, a * b; a * b + c with one rounding."""


def mad(a: Word, b: Word, c: Word) -> Word:
    """a * b + c with two roundings; denormals are always flushed."""
    return a.fmul(b, "flush").fadd(c, "flush")


def mul_legacy(a: Word, b: Word, env: str | None = None) -> Word:
    """a * b, but +0 where either is a zero (or a denormal that is flushed), whatever the other is."""
    flushes = env == "flush" or not a.mode.keeps("s")[0]
    none = fp.either(*(fp.is_zero(fp.zero_if_tiny(x) if flushes else x) for x in (a, b)))
    return none.select(0, a.fmul(b, env))


def mad_legacy(a: Word, b: Word, c: Word) -> Word:
    """`mul_legacy` plus c; denormals are always flushed."""
    return mul_legacy(a, b, "flush").fadd(c, "flush")


def mullit(a: Word, b: Word, c: Word) -> Word:
    """`mul_legacy`, but the lowest finite number where c is not above 0 (or a NaN)."""
    return c.const(0).flt(c).select(mul_legacy(a, b), fp.sign_bit("s") | fp.largest("s"))


# ---- minima and maxima -----------------------------------------------------------------------------------------------
def order(a: Word) -> Word:
    """An integer of the format's width that sorts as the float does, -0 below +0."""
    return a ^ (a.sra(a.width - 1) & fp.sign_bit(a.format) - 1)


def below(a: Word, b: Word) -> Word:
    """a < b for numbers, -0 below +0."""
    return order(a).slt(order(b))


def extreme(*, largest: bool) -> Callable[[Word, Word, int], Word]:
    """The smaller (larger) number; a NaN loses against a number, but with IEEE set a signalling one wins, quieted."""

    def meaning(a: Word, b: Word, level: int) -> Word:
        if level >= FLUSHES_FROM:
            a, b = a.fflush(), b.fflush()
        rules = [(fp.is_nan(a), b), (fp.is_nan(b), a), (below(b, a) if largest else below(a, b), a)]
        if a.mode.ieee:
            rules = [(fp.is_signalling(x), fp.quiet(x)) for x in (a, b)] + rules
        return fp.choose(rules, b)

    return meaning


MIN, MAX = extreme(largest=False), extreme(largest=True)


def min_legacy(a: Word, b: Word) -> Word:
    """a where it is smaller, else b: so b wherever one is a NaN."""
    return a.flt(b).select(a, b)


def max_legacy(a: Word, b: Word) -> Word:
    """a where it is not smaller, else b."""
    return b.fle(a).select(a, b)


def min3(a: Word, b: Word, c: Word, level: int) -> Word:
    """The smallest of three."""
    return MIN(MIN(a, b, level), c, level)


def max3(a: Word, b: Word, c: Word, level: int) -> Word:
    """The largest of three."""
    return MAX(MAX(a, b, level), c, level)


def median3(a: Word, b: Word, c: Word, level: int) -> Word:
    """The middle one of three; the smallest where one is a NaN."""
    middle = MAX(MIN(a, b, level), MIN(MAX(a, b, level), c, level), level)
    return fp.either(*map(fp.is_nan, (a, b, c))).select(min3(a, b, c, level), middle)


# ---- rounding, parts -------------------------------------------------------------------------------------------------
def rounded(kind: str) -> Callable[[Word], Word]:
    """To an integral value: kind "trunc", "ceil", "floor" or "even"."""
    return lambda a: a.fround(kind)


def fract(a: Word) -> Word:
    """a - floor(a), at most the largest number below 1 (Choice ``gcn/fract-below-one``)."""
    part, one = a.fsub(a.fround("floor")), fp.power(a.format, 0)
    return (part == one).select(one - 1, part)


def normal(a: Word) -> tuple[Word, Word]:
    """A denormal times 2**width as a normal number and -width; any other number and 0 (both in the format's width)."""
    t = a.format
    tiny = fp.is_tiny(a)
    up, digits = normalized(a, tiny)
    scaled = fp.sign_of(a) | digits | 1 << fp.FRACTION[t]
    return tiny.select(scaled, a), tiny.select(-up, 0)


def normalized(a: Word, tiny: Word) -> tuple[Word, Word]:
    """How far a denormal's leading one is from the place of the implied one (else 0), and the digits moved up so."""
    size = fp.FRACTION[a.format]
    fraction = fp.magnitude(a)
    up = tiny.select(fraction.ctlz() - (a.width - size - 1) & a.width - 1, 0)
    return up, fraction << up & (1 << size) - 1


def exponent(a: Word) -> Word:
    """floor(log2(|a|)) of a finite number that is not 0, in the format's width."""
    scaled, shift = normal(a)
    # A denormal's digits went up by -shift places above exponent field 1.
    return biased_exponent(scaled) - fp.bias(a.format) + shift


def biased_exponent(a: Word) -> Word:
    """The exponent field."""
    return fp.magnitude(a) >> fp.FRACTION[a.format]


def special(a: Word) -> Word:
    """Width 1: zero, infinite or a NaN."""
    return fp.either(fp.is_zero(a), fp.is_infinite(a), fp.is_nan(a))


def frexp_exp(a: Word) -> Word:
    """The exponent of a = m * 2**e with 0.5 <= |m| < 1; 0 for 0, infinities and NaNs. 32 bits, 16 for binary16."""
    a = a.fflush()
    return special(a).select(0, (exponent(a) + 1).trunc(min(a.width, 32)))


def frexp_mant(a: Word) -> Word:
    """The m of a = m * 2**e with 0.5 <= |m| < 1; 0, infinities and NaNs stay."""
    t = a.format
    a = a.fflush()
    half = normal(a)[0] & (fp.sign_bit(t) | (1 << fp.FRACTION[t]) - 1) | fp.power(t, -1)
    return fp.choose([(fp.is_nan(a), fp.quiet(a)), (special(a), a)], half)


def ldexp(a: Word, n: Word) -> Word:
    """a * 2**n; n is signed, 16 bits for binary16."""
    return a.fldexp(n.sext(32))


# ---- comparisons -----------------------------------------------------------------------------------------------------
def classify(a: Word, mask: Word) -> Word:
    """Whether the class of a is in the mask: bits 0 to 9 are signalling NaN, quiet NaN, -infinity, -normal, -denormal,
    -0, +0, +denormal, +normal, +infinity.
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
