"""Float meanings that several families share. `t` is a format: "h", "s" or "d"."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from understudy.isa.gcn.algebra import Value
from understudy.isa.gcn.insn import Meaning
from understudy.isa.gcn.semantics import fp

FLUSHES_FROM = 9
"""The first generation whose minima and maxima flush denormals as MODE says; earlier ones pass them on."""


def add(t: str) -> Meaning:
    """a + b."""
    return lambda o, a, b: o.fadd(t, a, b)


def sub(t: str) -> Meaning:
    """a - b."""
    return lambda o, a, b: o.fsub(t, a, b)


def mul(t: str) -> Meaning:
    """a * b."""
    return lambda o, a, b: o.fmul(t, a, b)


def fma(t: str) -> Meaning:
    """a * b + c with one rounding."""
    return lambda o, a, b, c: o.fma(t, a, b, c)


def mad(t: str) -> Meaning:
    """a * b + c with two roundings; denormals are always flushed."""
    return lambda o, a, b, c: o.fadd(t, o.fmul(t, a, b, "flush"), c, "flush")


def mul_legacy(o: Any, a: Value, b: Value, env: str | None = None) -> Value:
    """a * b, but +0 where either is a zero (or a denormal that is flushed), whatever the other is."""
    zero = o.const(32, 0)
    flushed = fp.zero_if_tiny if env == "flush" or not o.mode.keeps("s")[0] else lambda o, t, a: a
    none = o.or_(1, *(fp.is_zero(o, "s", flushed(o, "s", x)) for x in (a, b)))
    return o.select(32, none, zero, o.fmul("s", a, b, env))


def mad_legacy(o: Any, a: Value, b: Value, c: Value) -> Value:
    """`mul_legacy` plus c; denormals are always flushed."""
    return o.fadd("s", mul_legacy(o, a, b, "flush"), c, "flush")


def mullit(o: Any, a: Value, b: Value, c: Value) -> Value:
    """`mul_legacy`, but the lowest finite number where c is not above 0 (or a NaN)."""
    lowest = o.const(32, fp.sign_bit("s") | fp.largest("s"))
    return o.select(32, o.flt("s", o.const(32, 0), c), mul_legacy(o, a, b), lowest)


# ---- minima and maxima -----------------------------------------------------------------------------------------------
def order(o: Any, t: str, a: Value) -> Value:
    """An integer of the format's width that sorts as the float does, -0 below +0."""
    w = fp.WIDTH[t]
    negative = o.ashr(w, a, o.const(w, w - 1))
    return o.xor(w, a, o.and_(w, negative, o.const(w, fp.sign_bit(t) - 1)))


def below(o: Any, t: str, a: Value, b: Value) -> Value:
    """a < b for numbers, -0 below +0."""
    return o.slt(fp.WIDTH[t], order(o, t, a), order(o, t, b))


def extreme(t: str, *, largest: bool) -> Meaning:
    """The smaller (larger) number; a NaN loses against a number, but with IEEE set a signalling one wins, quieted."""

    def meaning(o: Any, a: Value, b: Value, level: int) -> Value:
        if level >= FLUSHES_FROM:
            a, b = o.fflush(t, a), o.fflush(t, b)
        first = below(o, t, b, a) if largest else below(o, t, a, b)
        rules = [(fp.is_nan(o, t, a), b), (fp.is_nan(o, t, b), a), (first, a)]
        if o.mode.ieee:
            rules = [(fp.is_signalling(o, t, x), fp.quiet(o, t, x)) for x in (a, b)] + rules
        return fp.choose(o, t, *rules, b)

    return meaning


def extreme_legacy(*, largest: bool) -> Meaning:
    """a where it is smaller (not smaller), else b: so b wherever one is a NaN."""
    return lambda o, a, b: o.select(32, o.fle("s", b, a) if largest else o.flt("s", a, b), a, b)


def extreme3(t: str, *, largest: bool) -> Meaning:
    """Of three."""
    of_two = extreme(t, largest=largest)
    return lambda o, a, b, c, level: of_two(o, of_two(o, a, b, level), c, level)


def median3(t: str) -> Meaning:
    """The middle one of three; the smallest where one is a NaN."""
    low, high, lowest = extreme(t, largest=False), extreme(t, largest=True), extreme3(t, largest=False)

    def meaning(o: Any, a: Value, b: Value, c: Value, level: int) -> Value:
        smaller, larger = low(o, a, b, level), high(o, a, b, level)
        middle = high(o, smaller, low(o, larger, c, level), level)
        nan = fp.either(o, *(fp.is_nan(o, t, x) for x in (a, b, c)))
        return o.select(fp.WIDTH[t], nan, lowest(o, a, b, c, level), middle)

    return meaning


# ---- rounding, parts -------------------------------------------------------------------------------------------------
def rounded(t: str, kind: str) -> Meaning:
    """To an integral value: kind "trunc", "ceil", "floor" or "even"."""
    return lambda o, a: o.fround(t, a, kind)


def fract(t: str) -> Meaning:
    """a - floor(a), at most the largest number below 1 (Choice ``gcn/fract-below-one``)."""

    def meaning(o: Any, a: Value) -> Value:
        part = o.fsub(t, a, o.fround(t, a, "floor"))
        one = fp.power(t, 0)
        reached = o.eq(fp.WIDTH[t], part, o.const(fp.WIDTH[t], one))
        return o.select(fp.WIDTH[t], reached, o.const(fp.WIDTH[t], one - 1), part)

    return meaning


def normal(o: Any, t: str, a: Value) -> tuple[Value, Value]:
    """A denormal times 2**width as a normal number and -width; any other number and 0 (both in the format's width)."""
    w = fp.WIDTH[t]
    tiny = fp.is_tiny(o, t, a)
    # The leading one of the fraction moves to the place of the implied one.
    fraction = fp.magnitude(o, t, a)
    up = o.sub(w, o.ctlz(w, fraction), o.const(w, w - fp.FRACTION[t] - 1))
    up = o.select(w, tiny, o.and_(w, up, o.const(w, w - 1)), o.const(w, 0))
    digits = o.and_(w, o.shl(w, fraction, up), o.const(w, (1 << fp.FRACTION[t]) - 1))
    scaled = o.or_(w, o.or_(w, fp.sign_of(o, t, a), digits), o.const(w, 1 << fp.FRACTION[t]))
    return o.select(w, tiny, scaled, a), o.select(w, tiny, o.sub(w, o.const(w, 0), up), o.const(w, 0))


def exponent(o: Any, t: str, a: Value) -> Value:
    """floor(log2(|a|)) of a finite number that is not 0, in the format's width."""
    w = fp.WIDTH[t]
    scaled, shift = normal(o, t, a)
    field = o.lshr(w, fp.magnitude(o, t, scaled), o.const(w, fp.FRACTION[t]))
    # A denormal's digits went up by -shift places above exponent field 1.
    return o.add(w, o.sub(w, field, o.const(w, fp.bias(t))), shift)


def special(o: Any, t: str, a: Value) -> Value:
    """Width 1: zero, infinite or a NaN."""
    return fp.either(o, fp.is_zero(o, t, a), fp.is_infinite(o, t, a), fp.is_nan(o, t, a))


def frexp_exp(t: str) -> Meaning:
    """The exponent of a = m * 2**e with 0.5 <= |m| < 1; 0 for 0, infinities and NaNs. 32 bits, 16 for binary16."""
    w = fp.WIDTH[t]
    out = 16 if t == "h" else 32

    def meaning(o: Any, a: Value) -> Value:
        a = o.fflush(t, a)
        e = o.add(w, exponent(o, t, a), o.const(w, 1))
        return o.select(out, special(o, t, a), o.const(out, 0), e if w == out else o.trunc(out, w, e))

    return meaning


def frexp_mant(t: str) -> Meaning:
    """The m of a = m * 2**e with 0.5 <= |m| < 1; 0, infinities and NaNs stay."""
    w = fp.WIDTH[t]

    def meaning(o: Any, a: Value) -> Value:
        a = o.fflush(t, a)
        scaled, _ = normal(o, t, a)
        kept = o.const(w, fp.sign_bit(t) | (1 << fp.FRACTION[t]) - 1)
        half = o.or_(w, o.and_(w, scaled, kept), o.const(w, fp.power(t, -1)))
        return fp.choose(o, t, (fp.is_nan(o, t, a), fp.quiet(o, t, a)), (special(o, t, a), a), half)

    return meaning


def ldexp(t: str) -> Meaning:
    """a * 2**n; n is signed, 16 bits for binary16."""
    return lambda o, a, n: o.fldexp(t, a, o.sext(32, 16, n) if t == "h" else n)


# ---- comparisons -----------------------------------------------------------------------------------------------------
def compare(t: str, f: Callable[..., Value]) -> Meaning:
    """`f(o, t, a, b)`."""
    return lambda o, a, b: f(o, t, a, b)


def classify(t: str) -> Meaning:
    """Whether the class of a is in the mask b: bits 0 to 9 are signalling NaN, quiet NaN, -infinity, -normal,
    -denormal, -0, +0, +denormal, +normal, +infinity.
    """

    def meaning(o: Any, a: Value, mask: Value) -> Value:
        negative = fp.is_negative(o, t, a)
        number = partial(o.const, 32)
        classes = (
            (fp.is_signalling(o, t, a), number(0)),
            (fp.is_nan(o, t, a), number(1)),
            (fp.is_infinite(o, t, a), o.select(32, negative, number(2), number(9))),
            (fp.is_zero(o, t, a), o.select(32, negative, number(5), number(6))),
            (fp.is_tiny(o, t, a), o.select(32, negative, number(4), number(7))),
        )
        bit = o.select(32, negative, number(3), number(8))
        for condition, value in reversed(classes):
            bit = o.select(32, condition, value, bit)
        return o.trunc(1, 32, o.lshr(32, mask, bit))

    return meaning
