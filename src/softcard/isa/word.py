"""Words: values of a known width with operators; semantics are written as, for example, ``(a[15:0] + b) << 3``.

A `Word` holds one value of an engine's algebra; its operators call the operations of that algebra. A plain
int operand is a constant of the same width. An operator with operands of different widths raises a
`ModelBug`. The value of a word cannot be inspected: ``if a == b`` raises an error, because ``a == b`` is a
word too."""

from __future__ import annotations

from typing import Protocol, Self, TypeVar

from softcard.core.errors import ModelBug

V = TypeVar("V")


class Value:
    """The type of an engine's values, which semantics cannot inspect.

    Depending on the engine they are numbers, arrays of lanes, or names of LLVM IR values.
    """


class IntegerAlgebra(Protocol[V]):
    """The integer operations of every engine; operands and result have width `w` by default."""

    def const(self, w: int, n: int) -> V:
        """Return the number `n` modulo 2**w."""

    def add(self, w: int, a: V, b: V) -> V:
        """Return a + b modulo 2**w."""

    def sub(self, w: int, a: V, b: V) -> V:
        """Return a - b modulo 2**w."""

    def mul(self, w: int, a: V, b: V) -> V:
        """Return a * b modulo 2**w."""

    def and_(self, w: int, a: V, b: V) -> V:
        """Return the bitwise and."""

    def or_(self, w: int, a: V, b: V) -> V:
        """Return the bitwise or."""

    def xor(self, w: int, a: V, b: V) -> V:
        """Return the bitwise exclusive or."""

    def shl(self, w: int, a: V, n: V) -> V:
        """Shift left by `n`, which must be below `w`."""

    def lshr(self, w: int, a: V, n: V) -> V:
        """Shift right, filling with zeros; `n` must be below `w`."""

    def ashr(self, w: int, a: V, n: V) -> V:
        """Shift right, filling with copies of the sign bit; `n` must be below `w`."""

    def eq(self, w: int, a: V, b: V) -> V:
        """Return 1 (width 1) if a == b, else 0."""

    def ne(self, w: int, a: V, b: V) -> V:
        """Return 1 (width 1) if a != b, else 0."""

    def ult(self, w: int, a: V, b: V) -> V:
        """Return 1 (width 1) if a < b, unsigned, else 0."""

    def slt(self, w: int, a: V, b: V) -> V:
        """Return 1 (width 1) if a < b, signed, else 0."""

    def select(self, w: int, c: V, a: V, b: V) -> V:
        """Return `a` if the width-1 value `c` is 1, else `b`; both are computed in either case."""

    def zext(self, to: int, w: int, a: V) -> V:
        """Widen `a` from `w` to `to` bits by zero-extension."""

    def sext(self, to: int, w: int, a: V) -> V:
        """Widen `a` from `w` to `to` bits by sign-extension."""

    def trunc(self, to: int, w: int, a: V) -> V:
        """Return the low `to` bits of `a` as a value of that width."""


W = TypeVar("W", bound="Word")


class Word:
    """A value of `width` bits with operators; operations are unsigned unless their name says otherwise."""

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
        raise ModelBug("semantics cannot branch on a word: it is known only when the instruction runs")

    def const(self, n: int) -> Self:
        """Return the constant `n` of this width."""
        return type(self)(self.algebra, self.width, self.algebra.const(self.width, n))

    def constant(self, width: int, n: int) -> Self:
        """Return the constant `n` as a word of `width` bits."""
        return type(self)(self.algebra, width, self.algebra.const(width, n))

    def known(self, width: int, what: str) -> Value:
        """Return the engine's value of this word; raise `ModelBug` unless the word has `width` bits.

        `what` is the name of the operation in the error message."""
        if self.width != width:
            raise ModelBug(f"{what} needs {width} bits, not {self.width}")
        return self.value

    def _operand(self, name: str, other: object) -> Value:
        if isinstance(other, Word):
            if other.width != self.width:
                raise ModelBug(f"{name} has operands of {self.width} and {other.width} bits, expected the same width")
            return other.value
        if not isinstance(other, int):
            raise ModelBug(f"{name} has operands of {self.width} bits and {other!r}, expected a word or an integer")
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
        """Shift right and insert copies of the sign bit."""
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
        """Return 1 (width 1) if self < other, signed."""
        return self._compared("slt", other)

    def select(self, a: W | float, b: W | float) -> W:
        """Return `a` if this word, of width 1, is 1, else `b`.

        At least one of `a` and `b` is a word; a number is a constant of the same width.
        """
        like = a if isinstance(a, Word) else b
        if not isinstance(like, Word):
            raise ModelBug("select of two constants has no known width: make one of them a word")
        condition = self.known(1, "the condition of a select")
        value = self.algebra.select(like.width, condition, like._operand("select", a), like._operand("select", b))
        return type(like)(self.algebra, like.width, value)

    # ---- bit ranges and other widths ------------------------------------------------------------------------------
    def __getitem__(self, bits: slice | int) -> Self:
        """Return a bit of the word as a word of width 1 (``a[31]``), or a range of bits (``a[22:16]``).

        A range is shifted down to bit 0 and has the width of `a`."""
        if isinstance(bits, int):
            return (self >> bits if bits else self).trunc(1)
        high, low = bits.start, bits.stop
        if not self.width > high >= low >= 0:
            raise ModelBug(f"a word of {self.width} bits has no bits {high}:{low}")
        moved = self >> low if low else self
        return moved if high == self.width - 1 else moved & (1 << high - low + 1) - 1

    def zext(self, to: int) -> Self:
        """Widen to `to` bits with zeros."""
        return self._resized("zext", to, self.width, to)

    def sext(self, to: int) -> Self:
        """Widen to `to` bits with copies of the sign bit."""
        return self._resized("sext", to, self.width, to)

    def trunc(self, to: int) -> Self:
        """Return the low `to` bits as a word of that width."""
        return self._resized("trunc", to, to, self.width)

    def extended(self, to: int, signed: bool) -> Self:
        """Widen to `to` bits with copies of the sign bit if `signed`, else with zeros."""
        return self.sext(to) if signed else self.zext(to)

    def to(self, width: int) -> Self:
        """Convert to another width: truncate to the low bits, or widen with zeros."""
        return self.zext(width) if width > self.width else self.trunc(width)

    def _resized(self, name: str, to: int, less: int, more: int) -> Self:
        if less > more:
            raise ModelBug(f"{name} cannot convert {self.width} bits to {to} bits")
        if to == self.width:
            return self
        return type(self)(self.algebra, to, getattr(self.algebra, name)(to, self.width, self.value))
