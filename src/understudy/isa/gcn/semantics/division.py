"""The three helpers of float division: scale the operands, multiply-add and scale back, fix special cases up.

A compiler's division is: scale both operands, estimate by v_rcp and fused steps, v_div_fmas, v_div_fixup. What the
manuals leave out is chosen such that this gives correctly rounded quotients (``gcn/div-scale``, ``gcn/div-fmas``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from understudy.isa.gcn.algebra import Value
from understudy.isa.gcn.insn import Meaning
from understudy.isa.gcn.semantics import fp
from understudy.isa.gcn.semantics.floating import exponent


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


def field(o: Any, t: str, a: Value) -> Value:
    """The biased exponent."""
    w = fp.WIDTH[t]
    return o.lshr(w, fp.magnitude(o, t, a), o.const(w, fp.FRACTION[t]))


def quotient_is_tiny(o: Any, t: str, a: Value, b: Value) -> Value:
    """Whether |a / b| is below the normal numbers; both finite, not 0."""
    w = fp.WIDTH[t]
    least = o.const(w, 1 - fp.bias(t))
    difference = o.sub(w, exponent(o, t, a), exponent(o, t, b))
    # Equal exponents: the quotient of the fractions decides.
    less = o.ult(w, fraction(o, t, a), fraction(o, t, b))
    return o.or_(1, o.slt(w, difference, least), o.and_(1, o.eq(w, difference, least), less))


def fraction(o: Any, t: str, a: Value) -> Value:
    """The digits below the leading one, a denormal's leading one not counted."""
    w = fp.WIDTH[t]
    digits = fp.magnitude(o, t, a)
    up = o.sub(w, o.ctlz(w, digits), o.const(w, w - fp.FRACTION[t] - 1))
    up = o.select(w, fp.is_tiny(o, t, a), o.and_(w, up, o.const(w, w - 1)), o.const(w, 0))
    return o.and_(w, o.shl(w, digits, up), o.const(w, (1 << fp.FRACTION[t]) - 1))


def div_scale(t: str) -> Meaning:
    """a (the denominator b or the numerator c) scaled for a division; and whether v_div_fmas must scale back."""
    w, limits = fp.WIDTH[t], LIMITS[t]

    def meaning(o: Any, a: Value, b: Value, c: Value) -> tuple[Value, Value]:
        a, b, c = (o.fflush(t, x) for x in (a, b, c))
        is_b, is_c = o.eq(w, a, b), o.eq(w, a, c)
        up, down = (o.fldexp(t, a, o.const(32, n)) for n in (limits.scale, -limits.scale))
        near = o.sle(w, o.const(w, limits.near), o.sub(w, field(o, t, c), field(o, t, b)))
        inverse_tiny = o.ult(w, o.const(w, fp.power(t, fp.bias(t) - 1)), fp.magnitude(o, t, b))
        tiny = quotient_is_tiny(o, t, c, b)
        cases = (
            # condition                                                        value                       scale back
            (o.or_(1, fp.is_zero(o, t, b), fp.is_zero(o, t, c)),               o.const(w, fp.quiet_nan(t)),  0),
            (not_finite(o, t, b, c),                                           a,                          0),
            (near,                                                             o.select(w, is_b, up, a),   1),
            (fp.is_tiny(o, t, b),                                              up,                         0),
            (o.and_(1, inverse_tiny, tiny),                                    o.select(w, is_b, down, a), 1),
            (inverse_tiny,                                                     down,                       0),
            (tiny,                                                             o.select(w, is_c, up, a),   1),
            (o.ule(w, field(o, t, c), o.const(w, limits.tiny)),                up,                         0),
        )  # fmt: skip
        result = fp.choose(o, t, *((condition, value) for condition, value, _ in cases), a)
        flag = o.const(1, 0)
        for condition, _, back in reversed(cases):
            flag = o.select(1, condition, o.const(1, back), flag)
        return result, flag

    return meaning


def not_finite(o: Any, t: str, a: Value, b: Value) -> Value:
    """Either is infinite or a NaN."""
    w = fp.WIDTH[t]
    return fp.either(o, *(o.ule(w, o.const(w, fp.infinity(t)), fp.magnitude(o, t, x)) for x in (a, b)))


def div_fmas(t: str) -> Meaning:
    """a * b + c, where the flag is set times 2**scale if |c| >= 2, else times 2**-scale, rounded once."""
    w, limits = fp.WIDTH[t], LIMITS[t]

    def meaning(o: Any, a: Value, b: Value, c: Value, flag: Value) -> Value:
        plain = o.fma(t, a, b, c)
        large = o.ule(w, o.const(w, fp.power(t, 1)), fp.magnitude(o, t, c))
        up = o.fldexp(t, plain, o.const(32, limits.scale))
        down = o.fldexp(t, plain, o.const(32, -limits.scale))
        if o.mode.keeps(t)[1]:
            normal = o.ule(w, o.const(w, fp.power(t, 1 - fp.bias(t) + limits.scale)), fp.magnitude(o, t, plain))
            down = o.select(w, normal, down, DENORMAL[t](o, a, b, c))
        return o.select(w, flag, o.select(w, large, up, down), plain)

    return meaning


# A sum that becomes denormal when it is scaled must not have been rounded before, or not so that it misleads.
def denormal32(o: Any, a: Value, b: Value, c: Value) -> Value:
    """(a * b + c) * 2**-64 in binary32: the product is exact in binary64, the sum rounded to odd there."""
    a, b, c = (o.fconvert("d", "s", x) for x in (a, b, c))
    total, error = two_sum(o, o.fmul("d", a, b, "raw"), c)
    even = o.eq(64, o.and_(64, total, o.const(64, 1)), o.const(64, 0))
    total = nudged(o, total, error, even)
    return o.fconvert("s", "d", o.fmul("d", total, o.const(64, fp.power("d", -64)), "raw"))


def denormal64(o: Any, a: Value, b: Value, c: Value) -> Value:
    """(a * b + c) * 2**-128 in binary64, far away from denormals until the end."""
    away = 256
    a, b, c = (o.fflush("d", x) for x in (a, b, c))
    a, c = (o.fmul("d", x, o.const(64, fp.power("d", away)), "raw") for x in (a, c))
    nearest = o.fma("d", a, b, c, "raw")
    # The digits that the result will lose: half a unit that is none, or (rounding otherwise) nothing that is something.
    lost = o.sub(64, o.const(64, 128 + away + 1), field(o, "d", nearest))
    lost = o.umin(64, o.smax(64, lost, o.const(64, 1)), o.const(64, 54))
    one = o.const(64, 1)
    unit = o.shl(64, one, lost)
    digits = o.or_(64, o.and_(64, nearest, o.const(64, (1 << 52) - 1)), o.const(64, 1 << 52))
    rest = o.and_(64, digits, o.sub(64, unit, one))
    misleading = o.lshr(64, unit, one) if o.mode.round64 == 0 else o.const(64, 0)
    nearest = nudged(o, nearest, fma_error(o, a, b, c, nearest), o.eq(64, rest, misleading))
    return o.fldexp("d", nearest, o.const(32, -128 - away))


DENORMAL: Final = {"s": denormal32, "d": denormal64}


def nudged(o: Any, nearest: Value, error: Value, where: Value) -> Value:
    """One place from `nearest` towards nearest + error, where that is another number and `where` holds."""
    beyond = o.eq(1, fp.is_negative(o, "d", error), fp.is_negative(o, "d", nearest))
    moved = o.select(64, beyond, o.add(64, nearest, o.const(64, 1)), o.sub(64, nearest, o.const(64, 1)))
    return o.select(64, o.and_(1, where, o.not_(1, fp.is_zero(o, "d", error))), moved, nearest)


def fma_error(o: Any, a: Value, b: Value, c: Value, nearest: Value) -> Value:
    """Sign and non-zeroness of a * b + c - nearest (Boldo, Muller, "Exact and approximated error of the FMA", 2011)."""
    product = o.fmul("d", a, b, "raw")
    low = o.fma("d", a, b, fp.neg(o, "d", product), "raw")
    first, rest = two_sum(o, c, low)
    second, tail = two_sum(o, product, first)
    main = o.fadd("d", o.fsub("d", second, nearest, "raw"), tail, "raw")
    return o.fadd("d", main, rest, "raw")


def two_sum(o: Any, a: Value, b: Value) -> tuple[Value, Value]:
    """a + b in binary64, and its error (Knuth)."""
    total = o.fadd("d", a, b, "raw")
    virtual = o.fsub("d", total, a, "raw")
    left = o.fsub("d", a, o.fsub("d", total, virtual, "raw"), "raw")
    return total, o.fadd("d", left, o.fsub("d", b, virtual, "raw"), "raw")


def div_fixup(t: str) -> Meaning:
    """The quotient a of c / b with its special cases: NaNs, 0 / 0, infinities, overflow and underflow, and its sign."""
    w = fp.WIDTH[t]

    def meaning(o: Any, a: Value, b: Value, c: Value) -> Value:
        a, b, c = (o.fflush(t, x) for x in (a, b, c))
        sign = o.xor(w, fp.sign_of(o, t, b), fp.sign_of(o, t, c))
        infinity = o.or_(w, sign, o.const(w, fp.infinity(t)))
        zero_b, zero_c = fp.is_zero(o, t, b), fp.is_zero(o, t, c)
        infinite_b, infinite_c = fp.is_infinite(o, t, b), fp.is_infinite(o, t, c)
        undefined = o.const(w, fp.quiet_nan(t) | fp.sign_bit(t))
        rules = [
            (fp.is_nan(o, t, c), fp.quiet(o, t, c)),
            (fp.is_nan(o, t, b), fp.quiet(o, t, b)),
            (o.or_(1, o.and_(1, zero_b, zero_c), o.and_(1, infinite_b, infinite_c)), undefined),
            (o.or_(1, zero_b, infinite_c), infinity),
            (o.or_(1, infinite_b, zero_c), sign),
        ]
        if t in LIMITS:
            difference = o.sub(w, field(o, t, c), field(o, t, b))
            rules.append((o.slt(w, difference, o.const(w, LIMITS[t].lost)), underflow(o, t, sign)))
            # Quotients beyond the largest number have become NaNs on the way.
            rules.append((fp.is_nan(o, t, a), infinity))
        return fp.choose(o, t, *rules, o.or_(w, sign, fp.magnitude(o, t, a)))

    return meaning


def underflow(o: Any, t: str, sign: Value) -> Value:
    """The least denormal times a half or less, rounded as MODE says."""
    keeps, rounding = o.mode.keeps(t)[1], o.mode.rounding(t)
    w = fp.WIDTH[t]
    if not keeps or rounding in (0, 3):
        return sign
    away = o.eq(w, sign, o.const(w, 0 if rounding == 1 else fp.sign_bit(t)))
    return o.or_(w, sign, o.zext(w, 1, away))
