"""The operations that hardware only approximates: reciprocals, roots, exponentials, logarithms, sines.

The manuals give an error bound, not the bits. These meanings compute in binary64 by steps that every engine does alike,
with an error of little more than half a unit in the last place: within every bound. Special values are the manuals'.
binary32 forms flush denormals whatever MODE says, the others follow it (Choice ``gcn/approximations``).
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Sequence
from typing import Any, Final

from understudy.isa.gcn.algebra import Scalar, Value
from understudy.isa.gcn.insn import Accuracy, Meaning
from understudy.isa.gcn.semantics import fp

MANUAL: Final = "Vega ISA manual, VOP1 opcodes"
ONE_ULP: Final = {"accuracy": Accuracy("approximate", "1 ULP", MANUAL)}
HALF_ULP: Final = {"accuracy": Accuracy("approximate", "0.51 ULP", MANUAL)}
COARSE: Final = {"accuracy": Accuracy("approximate", "2**29 ULP", MANUAL)}
SINE: Final = {"accuracy": Accuracy("approximate", "1 ULP (the manual gives no bound)", MANUAL)}
SINE_LIMIT: Final = 256
"""Revolutions; beyond them a sine is 0, a cosine 1."""

Doubles = Callable[[Any, Value], Value]
"""A function of a finite, normal binary64 value."""


def number(o: Any, x: float) -> Scalar:
    """A binary64 constant."""
    return o.const(64, struct.unpack("<Q", struct.pack("<d", x))[0])


def polynomial(o: Any, x: Value, coefficients: Sequence[float]) -> Value:
    """Horner's scheme; the constant coefficient first."""
    *rest, result = (number(o, c) for c in coefficients)
    for c in reversed(rest):
        result = o.fadd("d", o.fmul("d", result, x, "raw"), c, "raw")
    return result


# ---- reciprocal and roots --------------------------------------------------------------------------------------------
def rcp_f32(o: Any, a: Value) -> Value:
    """1 / a; where that is denormal, 0 of its sign."""
    a = fp.zero_if_tiny(o, "s", a)
    under = o.ult(32, o.const(32, fp.power("s", 126)), fp.magnitude(o, "s", a))
    finite = o.ult(32, fp.magnitude(o, "s", a), o.const(32, fp.infinity("s")))
    inverse = o.fdiv("s", o.const(32, fp.power("s", 0)), o.select(32, under, o.const(32, fp.power("s", 0)), a), "raw")
    lost = o.or_(1, o.and_(1, under, finite), fp.is_infinite(o, "s", a))
    return fp.choose(
        o, "s", (fp.is_nan(o, "s", a), o.const(32, fp.quiet_nan("s"))), (lost, fp.sign_of(o, "s", a)), inverse
    )


def sqrt_f32(o: Any, a: Value) -> Value:
    """Square root."""
    return o.fsqrt("s", fp.zero_if_tiny(o, "s", a), "raw")


def rsq_f32(o: Any, a: Value) -> Value:
    """1 / square root."""
    return o.fconvert("s", "d", inverse_root(o, widened(o, "s", a)), "raw")


def inverse_root(o: Any, a: Value) -> Value:
    """1 / square root, binary64."""
    return o.fdiv("d", number(o, 1.0), o.fsqrt("d", a, "raw"), "raw")


def rcp_f64(o: Any, a: Value) -> Value:
    """1 / a."""
    return o.fdiv("d", number(o, 1.0), a)


def sqrt_f64(o: Any, a: Value) -> Value:
    """Square root."""
    return o.fsqrt("d", a)


def rsq_f64(o: Any, a: Value) -> Value:
    """1 / square root."""
    return o.fdiv("d", number(o, 1.0), o.fsqrt("d", a))


def rcp_double(o: Any, a: Value) -> Value:
    """1 / a for `half`."""
    return o.fdiv("d", number(o, 1.0), a, "raw")


def sqrt_double(o: Any, a: Value) -> Value:
    """Square root for `half`."""
    return o.fsqrt("d", a, "raw")


# ---- from and to binary64 --------------------------------------------------------------------------------------------
def widened(o: Any, t: str, a: Value) -> Value:
    """A binary32 (denormals flushed) or binary16 number (as MODE says) in binary64."""
    return o.fconvert("d", t, fp.zero_if_tiny(o, "s", a) if t == "s" else o.fflush("h", a), "raw")


def narrowed(o: Any, t: str, a: Value) -> Value:
    """A binary64 number in binary32 (0 of its sign where it is below normal) or binary16 (denormals as MODE says)."""
    if t == "h":
        return o.fconvert("h", "d", a, None, 0)
    below = o.ult(64, fp.magnitude(o, "d", a), o.const(64, fp.power("d", -126)))
    return o.fconvert("s", "d", o.select(64, below, fp.sign_of(o, "d", a), a), "raw")


def of_double(t: str, f: Doubles) -> Meaning:
    """`f` in binary64 of a source of format `t`."""
    return lambda o, a: narrowed(o, t, f(o, widened(o, t, a)))


# ---- exponential and logarithm ---------------------------------------------------------------------------------------
EXP2: Final = tuple(math.log(2) ** k / math.factorial(k) for k in range(10))
"""2**x for |x| <= 0.5, within 1e-11."""
LOG2: Final = tuple(2 / math.log(2) / (2 * k + 1) for k in range(8))
"""log2((1 + s) / (1 - s)) / s in s * s, for |s| <= 0.172, within 1e-13."""
MAGIC: Final = 1.5 * 2.0**52
"""Added to a number, leaves its integer in the low bits."""
ROOT_HALF: Final = struct.unpack("<Q", struct.pack("<d", math.sqrt(0.5)))[0]


def whole(o: Any, a: Value) -> tuple[Value, Value]:
    """The nearest integer of a number up to 2**50: as a float, and as one whose low bits are the integer's."""
    shifted = o.fadd("d", a, number(o, MAGIC), "raw")
    return o.fsub("d", shifted, number(o, MAGIC), "raw"), shifted


def exp2(o: Any, a: Value) -> Value:
    """2**a; far outside of every smaller format's range infinity and 0."""
    beyond = o.ult(64, number(o, 1000.0), fp.magnitude(o, "d", a))
    x = o.select(64, beyond, number(o, 0.0), a)
    integer, shifted = whole(o, x)
    part = polynomial(o, o.fsub("d", x, integer, "raw"), EXP2)
    extreme = o.select(64, fp.is_negative(o, "d", a), number(o, 0.0), o.const(64, fp.infinity("d")))
    rules = ((fp.is_nan(o, "d", a), o.const(64, fp.quiet_nan("d"))), (beyond, extreme))
    return fp.choose(o, "d", *rules, o.add(64, part, o.shl(64, shifted, o.const(64, 52))))


def log2(o: Any, a: Value) -> Value:
    """log2(a); -infinity of 0, NaN of what is below."""
    zero, negative = fp.is_zero(o, "d", a), fp.is_negative(o, "d", a)
    odd = fp.either(o, fp.is_nan(o, "d", a), negative, zero, fp.is_infinite(o, "d", a))
    x = o.select(64, odd, number(o, 1.0), a)
    # x = m * 2**k with m between the roots of 0.5 and 2.
    k = o.ashr(64, o.sub(64, x, o.const(64, ROOT_HALF)), o.const(64, 52))
    m = o.sub(64, x, o.shl(64, k, o.const(64, 52)))
    one = number(o, 1.0)
    s = o.fdiv("d", o.fsub("d", m, one, "raw"), o.fadd("d", m, one, "raw"), "raw")
    part = o.fmul("d", s, polynomial(o, o.fmul("d", s, s, "raw"), LOG2), "raw")
    result = o.fadd("d", o.ffrom_int("d", 32, True, o.trunc(32, 64, k), "raw"), part, "raw")
    nan = o.const(64, fp.quiet_nan("d"))
    minus = o.const(64, fp.infinity("d") | fp.sign_bit("d"))
    rules = ((fp.is_nan(o, "d", a), nan), (zero, minus), (negative, nan), (fp.is_infinite(o, "d", a), a))
    return fp.choose(o, "d", *rules, result)


# ---- sine and cosine of revolutions ----------------------------------------------------------------------------------
SIN: Final = tuple((-1) ** k * (2 * math.pi) ** (2 * k + 1) / math.factorial(2 * k + 1) for k in range(9))
"""sin(2 * pi * x) / x in x * x, for |x| <= 0.25, within 1e-13."""


def turns(*, cosine: bool) -> Doubles:
    """sin or cos of 2 * pi * a; 0 or 1 beyond the domain, NaN of an infinity."""

    def function(o: Any, a: Value) -> Value:
        size = fp.magnitude(o, "d", a)
        beyond = o.ult(64, number(o, float(SINE_LIMIT)), size)
        x = o.select(64, beyond, number(o, 0.0), a)
        x = o.fsub("d", x, whole(o, x)[0], "raw")
        if cosine:
            x = o.fsub("d", number(o, 0.25), fp.magnitude(o, "d", x), "raw")
        # Beyond a quarter the sine comes back: sin(pi - x) = sin(x).
        quarter = fp.copysign(o, "d", number(o, 0.5), x)
        back = o.ult(64, number(o, 0.25), fp.magnitude(o, "d", x))
        x = o.select(64, back, o.fsub("d", quarter, x, "raw"), x)
        result = o.fmul("d", x, polynomial(o, o.fmul("d", x, x, "raw"), SIN), "raw")
        rules = [
            (o.ule(64, o.const(64, fp.infinity("d")), size), o.const(64, fp.quiet_nan("d"))),
            (beyond, number(o, 1.0 if cosine else 0.0)),
        ]
        if not cosine:
            rules.append((fp.is_zero(o, "d", a), a))
        return fp.choose(o, "d", *rules, result)

    return function


# ---- forms of GFX7 ---------------------------------------------------------------------------------------------------
def clamped(t: str, meaning: Meaning) -> Meaning:
    """Infinite results become the largest finite number of their sign."""

    def limited(o: Any, a: Value) -> Value:
        result = meaning(o, a)
        finite = fp.copysign(o, t, fp.const(o, t, fp.largest(t)), result)
        return o.select(fp.WIDTH[t], fp.is_infinite(o, t, result), finite, result)

    return limited


def above_minus_infinity(t: str, meaning: Meaning) -> Meaning:
    """A result of -infinity becomes the lowest finite number."""

    def limited(o: Any, a: Value) -> Value:
        result = meaning(o, a)
        w, lowest = fp.WIDTH[t], fp.const(o, t, fp.sign_bit(t) | fp.largest(t))
        return o.select(w, o.eq(w, result, fp.const(o, t, fp.sign_bit(t) | fp.infinity(t))), lowest, result)

    return limited


def legacy(meaning: Meaning) -> Meaning:
    """Infinite results become 0 of their sign."""

    def limited(o: Any, a: Value) -> Value:
        result = meaning(o, a)
        return o.select(32, fp.is_infinite(o, "s", result), fp.sign_of(o, "s", result), result)

    return limited
