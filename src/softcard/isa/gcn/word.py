"""Words of a wave: scalar or per-lane values with the operations of `isa.gcn.algebra`, including float ones.

A float is a bit pattern whose width selects the format: binary16, binary32 or binary64.
"""

from __future__ import annotations

from typing import Final, Self, cast

from softcard.isa import word
from softcard.isa.gcn.algebra import WaveAlgebra
from softcard.isa.gcn.state import Mode

FORMAT: Final = {16: "h", 32: "s", 64: "d"}
"""The names of the float formats by width in bits."""


class Word(word.Word):
    """A scalar of the wave, or one value per lane. `isa.gcn.algebra` describes the parameter `env` of methods."""

    __slots__ = ()
    algebra: WaveAlgebra[word.Value, word.Value]

    @property
    def mode(self) -> Mode:
        """The MODE register at this instruction."""
        return self.algebra.mode

    @property
    def number(self) -> int:
        """The value of a scalar as an int, in engines that compute with plain numbers, such as the reference engine."""
        return int(cast("int", self.value))

    # ---- integers ------------------------------------------------------------------------------------------------
    def __invert__(self) -> Self:
        return self._unary("not_")

    def __le__(self, other: Self | int) -> Self:
        return self._compared("ule", other)

    def __ge__(self, other: Self | int) -> Self:
        return (other if isinstance(other, word.Word) else self.const(other))._compared("ule", self)

    def sle(self, other: Self | int) -> Self:
        """Return 1 (width 1) if self <= other, signed."""
        return self._compared("sle", other)

    def umin(self, other: Self | int) -> Self:
        """Return the smaller of two values, unsigned."""
        return self._binary("umin", other)

    def umax(self, other: Self | int) -> Self:
        """Return the larger of two values, unsigned."""
        return self._binary("umax", other)

    def smin(self, other: Self | int) -> Self:
        """Return the smaller of two values, signed."""
        return self._binary("smin", other)

    def smax(self, other: Self | int) -> Self:
        """Return the larger of two values, signed."""
        return self._binary("smax", other)

    def ctlz(self) -> Self:
        """Return the number of zeros above the highest 1 bit; the width if there are only zeros."""
        return self._unary("ctlz")

    def cttz(self) -> Self:
        """Return the number of zeros below the lowest 1 bit; the width if there are only zeros."""
        return self._unary("cttz")

    def ctpop(self) -> Self:
        """Return the number of bits that are 1."""
        return self._unary("ctpop")

    def bitreverse(self) -> Self:
        """Reverse the order of the bits."""
        return self._unary("bitreverse")

    def entry(self, table: tuple[int, ...]) -> Self:
        """Return the entry of `table`, which holds 32-bit numbers, whose index is this word's value."""
        return type(self)(self.algebra, 32, self.algebra.entry(32, self.known(32, "a number of an entry"), table))

    def _unary(self, name: str) -> Self:
        return type(self)(self.algebra, self.width, getattr(self.algebra, name)(self.width, self.value))

    # ---- floats --------------------------------------------------------------------------------------------------
    def fadd(self, other: Self, env: str | None = None) -> Self:
        """Return self + other."""
        return self._float("fadd", other, env)

    def fsub(self, other: Self, env: str | None = None) -> Self:
        """Return self - other."""
        return self._float("fsub", other, env)

    def fmul(self, other: Self, env: str | None = None) -> Self:
        """Return self * other."""
        return self._float("fmul", other, env)

    def fdiv(self, other: Self, env: str | None = None) -> Self:
        """Return self / other."""
        return self._float("fdiv", other, env)

    def fma(self, times: Self, plus: Self, env: str | None = None) -> Self:
        """Return self * times + plus with one rounding."""
        operands = self.value, self._operand("fma", times), self._operand("fma", plus)
        return self._like(self.algebra.fma(self.format, *operands, env))

    def fsqrt(self, env: str | None = None) -> Self:
        """Return the square root."""
        return self._like(self.algebra.fsqrt(self.format, self.value, env))

    def feq(self, other: Self) -> Self:
        """Return 1 (width 1) if self == other as floats; 0 if one is a NaN."""
        return self._ordered("feq", other)

    def flt(self, other: Self) -> Self:
        """Return 1 (width 1) if self < other as floats; 0 if one is a NaN."""
        return self._ordered("flt", other)

    def fle(self, other: Self) -> Self:
        """Return 1 (width 1) if self <= other as floats; 0 if one is a NaN."""
        return self._ordered("fle", other)

    def funo(self, other: Self) -> Self:
        """Return 1 if either operand is a NaN, else 0; width 1."""
        return self._ordered("funo", other)

    def fflush(self) -> Self:
        """Return a zero of the same sign for a denormal if MODE flushes denormal inputs, else the word itself."""
        return self._like(self.algebra.fflush(self.format, self.value))

    def fround(self, kind: str) -> Self:
        """Return the value rounded to an integral one; `kind` is "trunc", "ceil", "floor" or "even"."""
        return self._like(self.algebra.fround(self.format, self.value, kind))

    def fldexp(self, n: Word | int, env: str | None = None) -> Self:
        """Return self * 2**n with one rounding; `n` is signed, 32 bits."""
        power = self.algebra.const(32, n) if isinstance(n, int) else n.known(32, "the power of fldexp")
        return self._like(self.algebra.fldexp(self.format, self.value, power, env))

    def fconvert(self, to: str, env: str | None = None, rounding: int | None = None) -> Self:
        """Convert to the float format `to`, with MODE's rounding for that format or the rounding mode `rounding`."""
        width = {"h": 16, "s": 32, "d": 64}[to]
        return type(self)(self.algebra, width, self.algebra.fconvert(to, self.format, self.value, env, rounding))

    def ffrom_int(self, to: str, signed: bool, env: str | None = None) -> Self:
        """Return this integer as a float of format `to`; the integer is two's complement if `signed` is True."""
        width = {"h": 16, "s": 32, "d": 64}[to]
        return type(self)(self.algebra, width, self.algebra.ffrom_int(to, self.width, signed, self.value, env))

    def fto_int(self, width: int, signed: bool) -> Self:
        """Convert to an integer of `width` bits, rounded towards zero and saturated; a NaN gives 0."""
        return type(self)(self.algebra, width, self.algebra.fto_int(self.format, width, signed, self.value))

    @property
    def format(self) -> str:
        """The float format that this word's width selects."""
        return FORMAT[self.width]

    def _like(self, value: word.Value) -> Self:
        return type(self)(self.algebra, self.width, value)

    def _float(self, name: str, other: Self, env: str | None) -> Self:
        return self._like(getattr(self.algebra, name)(self.format, self.value, self._operand(name, other), env))

    def _ordered(self, name: str, other: Self) -> Self:
        value = getattr(self.algebra, name)(self.format, self.value, self._operand(name, other))
        return type(self)(self.algebra, 1, value)
