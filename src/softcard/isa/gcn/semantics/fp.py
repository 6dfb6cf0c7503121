"""Operations on the bit patterns of floats, other than arithmetic. `t` is a format: "h", "s" or "d"."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import reduce
from operator import or_
from typing import Final, Self, TypeVar

from softcard.isa.gcn.word import Word
from softcard.isa.word import Value

WIDTH: Final = {"h": 16, "s": 32, "d": 64}
FRACTION: Final = {"h": 10, "s": 23, "d": 52}
"""The number of fraction bits of each format."""
W = TypeVar("W", bound=Word)


def sign_bit(t: str) -> int:
    """Return the bit pattern of -0."""
    return 1 << WIDTH[t] - 1


def infinity(t: str) -> int:
    """Return the bit pattern of +infinity, which is also the mask of the exponent field."""
    return (1 << WIDTH[t] - 1) - (1 << FRACTION[t])


def quiet_bit(t: str) -> int:
    """Return the fraction bit that distinguishes quiet NaNs from signalling ones."""
    return 1 << FRACTION[t] - 1


def quiet_nan(t: str) -> int:
    """Return the bit pattern of the canonical NaN."""
    return infinity(t) | quiet_bit(t)


def largest(t: str) -> int:
    """Return the bit pattern of the largest finite number."""
    return infinity(t) - 1


def bias(t: str) -> int:
    """Return the bias of the exponent field."""
    return (1 << WIDTH[t] - FRACTION[t] - 2) - 1


def power(t: str, n: int) -> int:
    """Return the bit pattern of 2**n, which is a normal number."""
    return n + bias(t) << FRACTION[t]


def neg(a: W) -> W:
    """Return the value with the opposite sign, also for NaNs."""
    return a ^ sign_bit(a.format)


def magnitude(a: W) -> W:
    """Return the value with the sign bit cleared, also for NaNs."""
    return a & sign_bit(a.format) - 1


def sign_of(a: W) -> W:
    """Return a zero with the sign of `a`: -0 if the sign bit is set, else +0."""
    return a & sign_bit(a.format)


def copysign(a: W, sign: W) -> W:
    """Return `a` with the sign bit of the bit pattern `sign`."""
    return magnitude(a) | sign_of(sign)


def is_negative(a: Word) -> Word:
    """Return the sign bit of `a` as a word of width 1."""
    return a.slt(0)


def is_nan(a: Word) -> Word:
    """Return 1 (width 1) if `a` is a NaN."""
    return magnitude(a) > infinity(a.format)


def is_infinite(a: Word) -> Word:
    """Return 1 (width 1) if `a` is infinite."""
    return magnitude(a) == infinity(a.format)


def is_zero(a: Word) -> Word:
    """Return 1 (width 1) if `a` is +0 or -0."""
    return magnitude(a) == 0


def is_tiny(a: Word) -> Word:
    """Return 1 (width 1) if `a` is denormal or zero."""
    return magnitude(a) < 1 << FRACTION[a.format]


def is_signalling(a: Word) -> Word:
    """Return 1 (width 1) if `a` is a NaN without the quiet bit."""
    return is_nan(a) & (magnitude(a) < quiet_nan(a.format))


def quiet(a: W) -> W:
    """Return a NaN with the quiet bit set; other bits are unchanged."""
    return a | quiet_bit(a.format)


def zero_if_tiny(a: W) -> W:
    """Return a zero with the sign of `a` if `a` is a denormal, regardless of MODE; return other values unchanged."""
    return is_tiny(a).select(sign_of(a), a)


def either(*conditions: Word) -> Word:
    """Return 1 (width 1) if any of the conditions is 1."""
    return reduce(or_, conditions)


def choose(rules: Sequence[tuple[Word, W | float]], result: W) -> W:
    """Return the value of the first rule ``(condition, value)`` whose condition is 1, else `result`, in each lane.

    All values are computed, also those that are not selected."""
    for condition, value in reversed(rules):
        result = condition.select(value, result)
    return result


class Real(Word):
    """A binary64 number with arithmetic operators, for the steps of approximations.

    The operators + - * / round to nearest and keep denormals (env "raw"); an operand may be a Python float. The
    bit operators & | ^ and the comparisons work on the bit pattern; a Python float as an operand stands for its
    pattern. Comparisons of patterns order non-negative numbers correctly."""

    __slots__ = ()

    @property
    def bits(self) -> Word:
        """The bit pattern as a word, for integer arithmetic."""
        return Word(self.algebra, self.width, self.value)

    def const(self, n: float) -> Self:
        """Return a constant: a float by its value, an int as a bit pattern."""
        return super().const(pattern(n))

    def sqrt(self) -> Self:
        """Return the square root."""
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
    """Return a binary64 bit pattern as a `Real`, which has arithmetic operators."""
    return Real(a.algebra, 64, a.known(64, "a binary64 number"))


def pattern(n: float) -> int:
    """Return the bit pattern of a float as binary64; return an int, which is a pattern already, unchanged."""
    return n if isinstance(n, int) else int(struct.unpack("<Q", struct.pack("<d", n))[0])
