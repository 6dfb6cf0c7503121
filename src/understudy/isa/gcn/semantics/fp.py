"""Bit patterns of floats: what meanings need besides arithmetic. `t` is a format: "h", "s" or "d"."""

from __future__ import annotations

from typing import Any, Final

from understudy.isa.gcn.algebra import Scalar, Value

WIDTH: Final = {"h": 16, "s": 32, "d": 64}
FRACTION: Final = {"h": 10, "s": 23, "d": 52}
"""Fraction bits."""
FORMAT: Final = {16: "h", 32: "s", 64: "d"}


def sign_bit(t: str) -> int:
    """The pattern of -0."""
    return 1 << WIDTH[t] - 1


def infinity(t: str) -> int:
    """The pattern of +infinity; also the mask of the exponent field."""
    return (1 << WIDTH[t] - 1) - (1 << FRACTION[t])


def quiet_bit(t: str) -> int:
    """The fraction bit that tells quiet NaNs from signalling ones."""
    return 1 << FRACTION[t] - 1


def quiet_nan(t: str) -> int:
    """The canonical NaN."""
    return infinity(t) | quiet_bit(t)


def largest(t: str) -> int:
    """The largest finite number."""
    return infinity(t) - 1


def bias(t: str) -> int:
    """Of the exponent field."""
    return (1 << WIDTH[t] - FRACTION[t] - 2) - 1


def power(t: str, n: int) -> int:
    """The pattern of 2**n, a normal number."""
    return n + bias(t) << FRACTION[t]


def const(o: Any, t: str, bits: int) -> Scalar:
    """A pattern as a value."""
    return o.const(WIDTH[t], bits)


def neg(o: Any, t: str, a: Value) -> Value:
    """The other sign, NaNs too."""
    return o.xor(WIDTH[t], a, const(o, t, sign_bit(t)))


def magnitude(o: Any, t: str, a: Value) -> Value:
    """Sign 0, NaNs too."""
    return o.and_(WIDTH[t], a, const(o, t, sign_bit(t) - 1))


def sign_of(o: Any, t: str, a: Value) -> Value:
    """-0 where `a` is negative, else +0."""
    return o.and_(WIDTH[t], a, const(o, t, sign_bit(t)))


def copysign(o: Any, t: str, a: Value, sign: Value) -> Value:
    """`a` with the sign of the pattern `sign`."""
    return o.or_(WIDTH[t], magnitude(o, t, a), sign_of(o, t, sign))


def is_negative(o: Any, t: str, a: Value) -> Value:
    """Width 1: the sign bit."""
    return o.slt(WIDTH[t], a, const(o, t, 0))


def is_nan(o: Any, t: str, a: Value) -> Value:
    """Width 1."""
    return o.ult(WIDTH[t], const(o, t, infinity(t)), magnitude(o, t, a))


def is_infinite(o: Any, t: str, a: Value) -> Value:
    """Width 1."""
    return o.eq(WIDTH[t], magnitude(o, t, a), const(o, t, infinity(t)))


def is_zero(o: Any, t: str, a: Value) -> Value:
    """Width 1: +0 or -0."""
    return o.eq(WIDTH[t], magnitude(o, t, a), const(o, t, 0))


def is_tiny(o: Any, t: str, a: Value) -> Value:
    """Width 1: denormal or zero."""
    return o.ult(WIDTH[t], magnitude(o, t, a), const(o, t, 1 << FRACTION[t]))


def is_signalling(o: Any, t: str, a: Value) -> Value:
    """Width 1: a NaN without the quiet bit."""
    silent = o.ult(WIDTH[t], magnitude(o, t, a), const(o, t, quiet_nan(t)))
    return o.and_(1, is_nan(o, t, a), silent)


def quiet(o: Any, t: str, a: Value) -> Value:
    """A NaN with the quiet bit set, the rest of it kept."""
    return o.or_(WIDTH[t], a, const(o, t, quiet_bit(t)))


def zero_if_tiny(o: Any, t: str, a: Value) -> Value:
    """Denormals become zero of their sign, whatever MODE says."""
    return o.select(WIDTH[t], is_tiny(o, t, a), sign_of(o, t, a), a)


def either(o: Any, *conditions: Value) -> Value:
    """Width 1: any of them."""
    first, *others = conditions
    for condition in others:
        first = o.or_(1, first, condition)
    return first


def choose(o: Any, t: str, *rules: Any) -> Value:
    """The value of the first rule ``(condition, value)`` that holds, else the last argument; all are computed."""
    *pairs, result = rules
    for condition, value in reversed(pairs):
        result = o.select(WIDTH[t], condition, value, result)
    return result
