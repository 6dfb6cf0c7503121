"""Bit patterns of floats: what meanings need besides arithmetic. `t` is a format: "h", "s" or "d"."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import reduce
from operator import or_
from typing import Final, Self, TypeVar

from understudy.isa.gcn.word import Word
from understudy.isa.word import Value

WIDTH: Final = {"h": 16, "s": 32, "d": 64}
FRACTION: Final = {"h": 10, "s": 23, "d": 52}
"""Fraction bits."""
W = TypeVar("W", bound=Word)


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


def neg(a: W) -> W:
    """The other sign, NaNs too."""
    return a ^ sign_bit(a.format)


def magnitude(a: W) -> W:
    """Sign 0, NaNs too."""
    return a & sign_bit(a.format) - 1


def sign_of(a: W) -> W:
    """-0 where `a` is negative, else +0."""
    return a & sign_bit(a.format)


def copysign(a: W, sign: W) -> W:
    """`a` with the sign of the pattern `sign`."""
    return magnitude(a) | sign_of(sign)


def is_negative(a: Word) -> Word:
    """Width 1: the sign bit."""
    return a.slt(0)


def is_nan(a: Word) -> Word:
    """Width 1."""
    return magnitude(a) > infinity(a.format)


def is_infinite(a: Word) -> Word:
    """Width 1."""
    return magnitude(a) == infinity(a.format)


def is_zero(a: Word) -> Word:
    """Width 1: +0 or -0."""
    return magnitude(a) == 0


def is_tiny(a: Word) -> Word:
    """Width 1: denormal or zero."""
    return magnitude(a) < 1 << FRACTION[a.format]


def is_signalling(a: Word) -> Word:
    """Width 1: a NaN without the quiet bit."""
    return is_nan(a) & (magnitude(a) < quiet_nan(a.format))


def quiet(a: W) -> W:
    """A NaN with the quiet bit set, the rest of it kept."""
    return a | quiet_bit(a.format)


def zero_if_tiny(a: W) -> W:
    """Denormals become zero of their sign, whatever MODE says."""
    return is_tiny(a).select(sign_of(a), a)


def either(*conditions: Word) -> Word:
    """Width 1: any of them."""
    return reduce(or_, conditions)


def choose(rules: Sequence[tuple[Word, W | float]], result: W) -> W:
    """The value of the first rule ``(condition, value)`` that holds, else `result`; all are computed."""
    for condition, value in reversed(rules):
        result = condition.select(value, result)
    return result


class Real(Word):
    """A binary64 number in the steps of an approximation, rounded to nearest with denormals kept ("raw").

    + - * / are arithmetic, with words or Python floats. Everything else is as of bits: & | ^ and comparisons, which
    sort magnitudes as they sort numbers; a float there stands for its pattern.
    """

    __slots__ = ()

    @property
    def bits(self) -> Word:
        """The pattern, for integer arithmetic."""
        return Word(self.algebra, self.width, self.value)

    def const(self, n: float) -> Self:
        """A number; an int is a pattern."""
        return super().const(pattern(n))

    def sqrt(self) -> Self:
        """Square root."""
        return self.fsqrt("raw")

    def __add__(self, other: Self | float) -> Self:
        return self.fadd(self._number(other), "raw")

    def __sub__(self, other: Self | float) -> Self:
        return self.fsub(self._number(other), "raw")

    def __rsub__(self, other: float) -> Self:
        return self._number(other) - self

    def __mul__(self, other: Self | float) -> Self:
        return self.fmul(self._number(other), "raw")

    def __truediv__(self, other: Self | float) -> Self:
        return self.fdiv(self._number(other), "raw")

    def __rtruediv__(self, other: float) -> Self:
        return self._number(other) / self

    def __lt__(self, other: Self | float) -> Self:
        return self._compared("ult", other)

    def __gt__(self, other: Self | float) -> Self:
        return self._pattern(other)._compared("ult", self)

    def __ge__(self, other: Self | float) -> Self:
        return self._pattern(other)._compared("ule", self)

    def _pattern(self, n: Self | float) -> Self:
        return n if isinstance(n, Word) else self.const(n)

    def _number(self, n: Self | float) -> Self:
        return n if isinstance(n, Word) else self.const(float(n))

    def _operand(self, name: str, other: object) -> Value:
        return super()._operand(name, pattern(other) if isinstance(other, float) else other)


def real(a: Word) -> Real:
    """A binary64 pattern as a number to calculate with."""
    return Real(a.algebra, 64, a.known(64, "a binary64 number"))


def pattern(n: float) -> int:
    """The binary64 pattern of a float; an int is one."""
    return n if isinstance(n, int) else int(struct.unpack("<Q", struct.pack("<d", n))[0])
