"""The integer operations as LLVM IR, for scalars and for lane vectors."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Final

from softcard.ir.builder import Halves, LaneText, Value
from softcard.ir.integers import IntegerOps, signed

_FOLD: Final = IntegerOps()
ZERO: Final = Value(32, False, number=0)
"""The constant 0 as the low or high half of an address."""


def _plain(name: str, word: str) -> Callable[..., Value]:
    """Return a method that emits the LLVM operation `word` on two integers.

    If both are constant, the method returns the constant result instead.
    """
    fold = getattr(_FOLD, name)

    def method(self: Integers, w: int, a: Value, b: Value) -> Value:
        if a.number is not None and b.number is not None:
            return self.text.number(w, fold(w, a.number, b.number))
        return self._binary(word, w, a, b, w)

    return method


def _compare(word: str) -> Callable[..., Value]:
    """Return a method that emits the LLVM comparison `word`, whose result has width 1."""
    return lambda self, w, a, b: self._binary(f"icmp {word}", w, a, b, 1)


def _pick(word: str) -> Callable[..., Value]:
    """Return a method that emits the LLVM intrinsic `word`, a minimum or maximum."""

    def operation(self: Integers, w: int, a: Value, b: Value) -> Value:
        made = self._intrinsic(word, w, a, b)
        made.made = word, a, b
        return made

    return operation


def _count(word: str, *more: str) -> Callable[..., Value]:
    """Return a method that emits the LLVM intrinsic `word` on one integer, such as a count of bits.

    `more` are further arguments of the intrinsic.
    """
    return lambda self, w, a: self._intrinsic(word, w, a, more=more)


class Integers:
    """The integer operations, emitted into `text`.

    The 32-bit halves of per-lane 64-bit sums are tracked, since addresses are computed in this way.
    """

    def __init__(self, text: LaneText) -> None:
        self.text = text

    sub = _plain("sub", "sub")
    mul = _plain("mul", "mul")
    and_ = _plain("and_", "and")
    xor = _plain("xor", "xor")
    ashr = _plain("ashr", "ashr")
    eq = _compare("eq")
    ne = _compare("ne")
    ult = _compare("ult")
    ule = _compare("ule")
    slt = _compare("slt")
    sle = _compare("sle")
    umin = _pick("umin")
    umax = _pick("umax")
    smin = _pick("smin")
    smax = _pick("smax")
    ctlz = _count("ctlz", "i1 false")
    cttz = _count("cttz", "i1 false")
    ctpop = _count("ctpop")
    bitreverse = _count("bitreverse")
    _add = _plain("add", "add")
    _or = _plain("or_", "or")
    _shl = _plain("shl", "shl")
    _lshr = _plain("lshr", "lshr")

    def entry(self, w: int, a: Value, table: tuple[int, ...]) -> Value:
        """Emit the load of the element with index `a` of `table`, which becomes a constant of the module."""
        if a.number is not None:
            return self.text.number(w, table[a.number])
        text, lanes, kind = self.text, self.text.lanes, self.text.itype(w, True)
        row = ", ".join(f"i32 {number}" for number in table)
        name = f"table{zlib.crc32(row.encode()):08x}"
        text.declarations[name] = f"@{name} = internal unnamed_addr constant [{len(table)} x i32] [{row}]"
        places = text.pointer(f"@{name}").element("i32", text.bits(a, True))
        every = f"{text.itype(1, True)} splat (i1 true)"
        gather = f"llvm.masked.gather.v{lanes}i32.v{lanes}p0"
        return Value(
            w, True, text.call(kind, gather, f"<{lanes} x ptr> align 4 {places}", every, f"{kind} zeroinitializer")
        )

    def const(self, w: int, n: int) -> Value:
        """Return the constant n."""
        return self.text.number(w, n)

    def add(self, w: int, a: Value, b: Value) -> Value:
        """Emit the sum of two integers."""
        made = self._add(w, a, b)
        vector, scalar = (a, b) if a.vec else (b, a)
        if w == 64 and vector.halves is not None and not scalar.vec:
            low, high, plus = vector.halves
            made.halves = Halves(low, high, scalar if plus is None else self.add(64, plus, scalar))
        return made

    def or_(self, w: int, a: Value, b: Value) -> Value:
        """Emit the bitwise or."""
        made = self._or(w, a, b)
        x, y = a.halves, b.halves
        if x is not None and y is not None and x.high is ZERO and y.low is ZERO and x.plus is None and y.plus is None:
            made.halves = self._summed(x.low, y.high)
        return made

    def shl(self, w: int, a: Value, b: Value) -> Value:
        """Emit a shift to the left."""
        made = self._shl(w, a, b)
        if w == 64 and a.halves is not None and a.halves.plus is None and b.number is not None and a.vec:
            made.halves = self._shifted(a.halves.low, a.halves.high, b.number)
        return made

    def _shifted(self, low: Value, high: Value, by: int) -> Halves | None:
        """Return the halves of a 64-bit value after a shift to the left by the constant `by`.

        Return None unless `by` is 1 to 32.
        """
        if by == 32:
            return Halves(ZERO, low)
        if not 0 < by < 32:
            return None
        left, right = self.const(32, by), self.const(32, 32 - by)
        carried = ZERO if low is ZERO else self.lshr(32, low, right)
        if high is not ZERO:
            carried = self._or(32, self._shl(32, high, left), carried)
        return Halves(ZERO if low is ZERO else self._shl(32, low, left), carried)

    def lshr(self, w: int, a: Value, b: Value) -> Value:
        """Emit a shift to the right that fills with zeros."""
        made = self._lshr(w, a, b)
        if a.halves is not None and a.halves.plus is None and b.number == 32:
            made.halves = Halves(a.halves.high, ZERO)
        return made

    def _summed(self, low: Value, high: Value) -> Halves:
        """Return the halves of a 64-bit value with its scalar summands separated and added up.

        If the halves were not computed as sums with carry, return them unchanged."""
        plus = None
        while (found := _carried(low, high)) is not None:
            low, high, scalars = found
            wide = [self.zext(64, 32, scalar) for scalar in scalars]
            part = self.or_(64, wide[0], self.shl(64, wide[1], self.const(64, 32)))
            plus = part if plus is None else self.add(64, plus, part)
        return Halves(low, ZERO if high.number == 0 else high, plus)

    def _binary(self, word: str, w: int, a: Value, b: Value, result: int) -> Value:
        vec = a.vec or b.vec
        x, y = self.text.bits(a, vec), self.text.bits(b, vec)
        comparison, _, test = word.partition(" ")
        made = Value(result, vec, x.compare(test, y) if test else x.binary(comparison, y))
        made.made = word, a, b
        return made

    def not_(self, w: int, a: Value) -> Value:
        """Emit the bitwise complement."""
        if a.number is not None:
            return self.text.number(w, ~a.number)
        ones = self.text.literal(w, (1 << w) - 1, a.vec)
        return Value(w, a.vec, self.text.bits(a) ^ ones)

    def select(self, w: int, c: Value, a: Value, b: Value) -> Value:
        """Emit a selection: a if c, else b."""
        if c.number is not None:
            return a if c.number else b
        text = self.text
        vec = c.vec or a.vec or b.vec
        alike = a.fmt == b.fmt and a.is_canonical == b.is_canonical
        if a.real and b.real and alike and a.number is None and b.number is None:
            x, y = text.floating(a, a.fmt, vec), text.floating(b, b.fmt, vec)
            real = text.bits(c).select(x, y)
            return Value(w, vec, real=real, fmt=a.fmt, is_canonical=a.is_canonical and b.is_canonical)
        x, y = text.bits(a, vec), text.bits(b, vec)
        return Value(w, vec, text.bits(c).select(x, y))

    def zext(self, to: int, w: int, a: Value) -> Value:
        """Emit an extension with zeros, from `w` to `to` bits."""
        if to == w:
            return a
        made = self._cast("zext", to, w, a, lambda n: n)
        if (to, w) == (64, 32) and a.vec:
            made.halves = Halves(a, ZERO)
        return made

    def sext(self, to: int, w: int, a: Value) -> Value:
        """Emit an extension with the sign, from `w` to `to` bits."""
        return a if to == w else self._cast("sext", to, w, a, lambda n: signed(w, n))

    def trunc(self, to: int, w: int, a: Value) -> Value:
        """Emit a truncation from `w` to `to` bits."""
        if to == w:
            return a
        if to == 32 and a.halves is not None and a.halves.plus is None:
            return a.halves.low
        return self._cast("trunc", to, w, a, lambda n: n)

    def _cast(self, word: str, to: int, w: int, a: Value, fold: Callable[[int], int]) -> Value:
        if a.number is not None:
            return self.text.number(to, fold(a.number))
        text = self.text
        name = text.bits(a).cast(word, text.itype(to, a.vec))
        made = Value(to, a.vec, name)
        made.made = word, a, a
        return made

    def _intrinsic(self, name: str, w: int, *values: Value, more: tuple[str, ...] = ()) -> Value:
        text = self.text
        vec = any(value.vec for value in values)
        kind = text.itype(w, vec)
        arguments = [f"{kind} {text.bits(value, vec)}" for value in values]
        return Value(w, vec, text.call(kind, f"llvm.{name}.{text.suffix(f'i{w}', vec)}", *arguments, *more))


def _carried(low: Value, high: Value) -> tuple[Value, Value, tuple[Value, Value]] | None:
    """Return the halves of a 64-bit value before two scalars were added to them with a carry, and these scalars.

    Return None unless the halves have the form ``low = x + s``, ``high = y + t + (low < s)``, as v_add_co and
    v_addc_co compute them."""
    if low.made is None or low.made[0] != "add" or high.made is None or high.made[0] != "add":
        return None
    for inner, carry in (high.made[1:], high.made[:0:-1]):
        if carry.made is None or carry.made[0] != "zext":
            continue
        less = carry.made[1].made
        if less is None or less[0] != "icmp ult" or less[1] is not low or less[2] not in low.made[1:]:
            continue
        first = split_sum(low.made)
        second = split_sum(inner.made) if inner.made is not None and inner.made[0] == "add" else None
        if first is not None and second is not None:
            return first[0], second[0], (first[1], second[1])
    return None


def split_sum(made: tuple[str, Value, Value]) -> tuple[Value, Value] | None:
    """Return the per-lane summand and the scalar summand of a sum; None if neither summand is a scalar.

    `made` describes the sum: the name of the operation, and its two operands.
    """
    _, a, b = made
    if b.scalar is not None:
        return a, b.scalar
    return (b, a.scalar) if a.scalar is not None else None
