"""Words: values of an algebra with their width and with operators, as manuals write them: ``(a[15:0] + b) << 3``.

A `Word` is one value of an engine's algebra, whose operations it asks for; a plain int beside it stands for a constant
of its width. Two widths that do not agree are a `ModelBug` where the operation is written. Nothing of a word can be
looked at: ``if a == b`` is refused, because ``a == b`` is a word too.
"""

from __future__ import annotations

from typing import Protocol, Self, TypeVar

from understudy.core.errors import ModelBug

V = TypeVar("V")


class Value:
    """What an engine computes with: a number, lanes, the name of a value in LLVM IR. Meanings cannot look into it."""


class IntegerAlgebra(Protocol[V]):
    """The integer operations of every engine; operands and result have width `w` unless said otherwise."""

    def const(self, w: int, n: int) -> V:
        """The number `n` modulo 2**w."""

    def add(self, w: int, a: V, b: V) -> V:
        """a + b modulo 2**w."""

    def sub(self, w: int, a: V, b: V) -> V:
        """a - b modulo 2**w."""

    def mul(self, w: int, a: V, b: V) -> V:
        """a * b modulo 2**w."""

    def and_(self, w: int, a: V, b: V) -> V:
        """Bitwise and."""

    def or_(self, w: int, a: V, b: V) -> V:
        """Bitwise or."""

    def xor(self, w: int, a: V, b: V) -> V:
        """Bitwise exclusive or."""

    def shl(self, w: int, a: V, n: V) -> V:
        """Shift left; `n` must be below `w` (mask it first)."""

    def lshr(self, w: int, a: V, n: V) -> V:
        """Shift right with zeros; `n` below `w`."""

    def ashr(self, w: int, a: V, n: V) -> V:
        """Shift right with the sign; `n` below `w`."""

    def eq(self, w: int, a: V, b: V) -> V:
        """a == b, width 1."""

    def ne(self, w: int, a: V, b: V) -> V:
        """a != b, width 1."""

    def ult(self, w: int, a: V, b: V) -> V:
        """Unsigned a < b, width 1."""

    def slt(self, w: int, a: V, b: V) -> V:
        """Signed a < b, width 1."""

    def select(self, w: int, c: V, a: V, b: V) -> V:
        """`a` where the width-1 value `c` is 1, else `b`; both have been computed."""

    def zext(self, to: int, w: int, a: V) -> V:
        """Widen from `w` to `to` bits with zeros."""

    def sext(self, to: int, w: int, a: V) -> V:
        """Widen with copies of the sign bit."""

    def trunc(self, to: int, w: int, a: V) -> V:
        """The low `to` bits."""


W = TypeVar("W", bound="Word")


class Word:
    """`width` bits of an algebra; operators are unsigned unless their name says otherwise."""

    __slots__ = ("algebra", "value", "width")
    __hash__ = None  # type: ignore[assignment]
    algebra: IntegerAlgebra[Value]

    def __init__(self, algebra: IntegerAlgebra[Value], width: int, value: Value) -> None:
        self.algebra = algebra
        self.width = width
        self.value = value

    def __repr__(self) -> str:
        return f"<{self.width} bits: {self.value}>"

    def __bool__(self) -> bool:
        raise ModelBug("a meaning cannot branch on a word: it is known only when the instruction runs")

    def const(self, n: int) -> Self:
        """The constant `n` of this width."""
        return type(self)(self.algebra, self.width, self.algebra.const(self.width, n))

    def constant(self, width: int, n: int) -> Self:
        """The number `n` in `width` bits."""
        return type(self)(self.algebra, width, self.algebra.const(width, n))

    def known(self, width: int, what: str) -> Value:
        """The value, for an operation `what` that wants `width` bits."""
        if self.width != width:
            raise ModelBug(f"{what} takes {width} bits, not {self.width}")
        return self.value

    def _operand(self, name: str, other: object) -> Value:
        if isinstance(other, Word):
            if other.width != self.width:
                raise ModelBug(f"{name} of {self.width} bits with {other.width} bits")
            return other.value
        if not isinstance(other, int):
            raise ModelBug(f"{name} of {self.width} bits with {other!r}")
        return self.algebra.const(self.width, other)

    def _binary(self, name: str, other: Self | int) -> Self:
        value = getattr(self.algebra, name)(self.width, self.value, self._operand(name, other))
        return type(self)(self.algebra, self.width, value)

    def _compared(self, name: str, other: object) -> Self:
        value = getattr(self.algebra, name)(self.width, self.value, self._operand(name, other))
        return type(self)(self.algebra, 1, value)

    # ---- arithmetic, bits and shifts (by less than the width) ----------------------------------------------------
    def __add__(self, other: Self | int) -> Self:
        return self._binary("add", other)

    __radd__ = __add__

    def __sub__(self, other: Self | int) -> Self:
        return self._binary("sub", other)

    def __rsub__(self, other: int) -> Self:
        return self.const(other) - self

    def __neg__(self) -> Self:
        return 0 - self

    def __mul__(self, other: Self | int) -> Self:
        return self._binary("mul", other)

    def __and__(self, other: Self | int) -> Self:
        return self._binary("and_", other)

    def __or__(self, other: Self | int) -> Self:
        return self._binary("or_", other)

    def __xor__(self, other: Self | int) -> Self:
        return self._binary("xor", other)

    def __lshift__(self, n: Self | int) -> Self:
        return self._binary("shl", n)

    def __rlshift__(self, a: int) -> Self:
        return self.const(a) << self

    def __rshift__(self, n: Self | int) -> Self:
        return self._binary("lshr", n)

    def __rrshift__(self, a: int) -> Self:
        return self.const(a) >> self

    def sra(self, n: Self | int) -> Self:
        """Shift right with the sign."""
        return self._binary("ashr", n)

    # ---- comparisons: words of width 1 ---------------------------------------------------------------------------
    def __eq__(self, other: object) -> Self:  # type: ignore[override]
        return self._compared("eq", other)

    def __ne__(self, other: object) -> Self:  # type: ignore[override]
        return self._compared("ne", other)

    def __lt__(self, other: Self | int) -> Self:
        return self._compared("ult", other)

    def __gt__(self, other: Self | int) -> Self:
        return (other if isinstance(other, Word) else self.const(other))._compared("ult", self)

    def slt(self, other: Self | int) -> Self:
        """Signed self < other."""
        return self._compared("slt", other)

    def select(self, a: W | float, b: W | float) -> W:
        """`a` where this word of width 1 is 1, else `b`; at least one of them is a word."""
        like = a if isinstance(a, Word) else b
        if not isinstance(like, Word):
            raise ModelBug("select of two constants: their width is not known")
        condition = self.known(1, "the condition of a select")
        value = self.algebra.select(like.width, condition, like._operand("select", a), like._operand("select", b))
        return type(like)(self.algebra, like.width, value)

    # ---- parts and other widths ----------------------------------------------------------------------------------
    def __getitem__(self, bits: slice | int) -> Self:
        """``a[31]``: one bit, of width 1. ``a[22:16]``: these bits moved down, as wide as `a` is."""
        if isinstance(bits, int):
            return (self >> bits if bits else self).trunc(1)
        high, low = bits.start, bits.stop
        if not self.width > high >= low >= 0:
            raise ModelBug(f"a word of {self.width} bits has no bits {high}:{low}")
        moved = self >> low if low else self
        return moved if high == self.width - 1 else moved & (1 << high - low + 1) - 1

    def zext(self, to: int) -> Self:
        """Widened to `to` bits with zeros."""
        return self._resized("zext", to, self.width, to)

    def sext(self, to: int) -> Self:
        """Widened to `to` bits with copies of the sign bit."""
        return self._resized("sext", to, self.width, to)

    def trunc(self, to: int) -> Self:
        """The low `to` bits."""
        return self._resized("trunc", to, to, self.width)

    def extended(self, to: int, signed: bool) -> Self:
        """Widened with the sign or with zeros."""
        return self.sext(to) if signed else self.zext(to)

    def to(self, width: int) -> Self:
        """Of another width: the low bits, or zeros above."""
        return self.zext(width) if width > self.width else self.trunc(width)

    def _resized(self, name: str, to: int, less: int, more: int) -> Self:
        if less > more:
            raise ModelBug(f"{name} of {self.width} bits to {to}")
        if to == self.width:
            return self
        return type(self)(self.algebra, to, getattr(self.algebra, name)(to, self.width, self.value))
