"""The integer part of an algebra once more, over values with marks, by the same part of an engine's algebra."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from understudy.engine.marks import mark as rules
from understudy.engine.marks.mark import Mark, Marks


class Marked:
    """A value of the engine's, and its mark of each kind; `number` where it is a constant."""

    __slots__ = ("marks", "number", "value")

    def __init__(self, value: Any, marks: tuple[Marks, ...], number: int | None = None) -> None:
        self.value = value
        self.marks = marks
        self.number = number

    def __int__(self) -> int:
        return int(self.value)


class Listener(Protocol):
    """One kind of mark, on one engine, as far as integers know it."""

    def tell(self, what: str, mark: Mark, where: Any = None) -> None:
        """What is marked may do what it should not."""


class MarkedIntegers:
    """`isa.word.IntegerAlgebra` over `Marked` values, by an engine's algebra `base` and its kinds of marks."""

    def __init__(self, base: Any, kinds: Sequence[Listener]) -> None:
        self.base = base
        self.none: tuple[Marks, ...] = (None,) * len(kinds)
        self._listeners = tuple(kinds)

    # ---- parts of operations -------------------------------------------------------------------------------------
    def _plain(self, value: Any) -> Marked:
        return Marked(value, self.none)

    def _each(self, rule: Callable[..., Marks], *operands: Marked) -> tuple[Marks, ...]:
        """What a rule makes of the operands' marks, for each kind."""
        if all(operand.marks is self.none for operand in operands):
            return self.none
        return tuple(rule(*marks) for marks in zip(*(operand.marks for operand in operands), strict=True))

    def _opaque(self, w: int, value: Any, *operands: Marked) -> Marked:
        return Marked(value, self._each(lambda *marks: rules.opaque(self.base, w, *marks), *operands))

    def _tell(self, what: str, v: Marked, where: Marked | None = None) -> None:
        """A value decides something."""
        if v.marks is self.none:
            return
        for kind, own in zip(self._listeners, v.marks, strict=True):
            if own is not None:
                kind.tell(what, own, None if where is None else where.value)

    # ---- integers ------------------------------------------------------------------------------------------------
    def const(self, w: int, n: int) -> Marked:
        """The number `n` modulo 2**w."""
        return Marked(self.base.const(w, n), self.none, int(n) & (1 << w) - 1)

    def _bitwise(self, name: str, w: int, a: Marked, b: Marked) -> Marked:
        o = self.base
        value = getattr(o, name)(w, a.value, b.value)
        return Marked(value, self._each(lambda x, y: rules.bitwise(o, w, x, y), a, b))

    def xor(self, w: int, a: Marked, b: Marked) -> Marked:
        """Bitwise exclusive or."""
        return self._bitwise("xor", w, a, b)

    def and_(self, w: int, a: Marked, b: Marked) -> Marked:
        """Bitwise and."""
        o = self.base
        marks = self._each(lambda x, y: rules.conjunction(o, w, a.value, x, b.value, y), a, b)
        return Marked(o.and_(w, a.value, b.value), marks)

    def or_(self, w: int, a: Marked, b: Marked) -> Marked:
        """Bitwise or."""
        o = self.base
        marks = self._each(lambda x, y: rules.disjunction(o, w, a.value, x, b.value, y), a, b)
        return Marked(o.or_(w, a.value, b.value), marks)

    def not_(self, w: int, a: Marked) -> Marked:
        """Every bit inverted."""
        return Marked(self.base.not_(w, a.value), a.marks)

    def _carried(self, name: str, w: int, a: Marked, b: Marked) -> Marked:
        o = self.base
        value = getattr(o, name)(w, a.value, b.value)
        return Marked(value, self._each(lambda x, y: rules.carried(o, w, x, y), a, b))

    def add(self, w: int, a: Marked, b: Marked) -> Marked:
        """Sum."""
        return self._carried("add", w, a, b)

    def sub(self, w: int, a: Marked, b: Marked) -> Marked:
        """Difference."""
        return self._carried("sub", w, a, b)

    def mul(self, w: int, a: Marked, b: Marked) -> Marked:
        """Product."""
        return self._carried("mul", w, a, b)

    def _shifted(self, name: str, w: int, a: Marked, n: Marked) -> Marked:
        o = self.base
        marks = self._each(lambda x, y: rules.shifted(o, name, w, x, n.value, n.number, y), a, n)
        return Marked(getattr(o, name)(w, a.value, n.value), marks)

    def shl(self, w: int, a: Marked, n: Marked) -> Marked:
        """Shift left."""
        return self._shifted("shl", w, a, n)

    def lshr(self, w: int, a: Marked, n: Marked) -> Marked:
        """Shift right with zeros."""
        return self._shifted("lshr", w, a, n)

    def ashr(self, w: int, a: Marked, n: Marked) -> Marked:
        """Shift right with the sign."""
        return self._shifted("ashr", w, a, n)

    def select(self, w: int, c: Marked, a: Marked, b: Marked) -> Marked:
        """`a` where c is 1, else `b`."""
        o = self.base
        marks = self._each(lambda z, x, y: rules.chosen(o, w, c.value, z, x, y), c, a, b)
        return Marked(o.select(w, c.value, a.value, b.value), marks)

    def zext(self, to: int, w: int, a: Marked) -> Marked:
        """Widen with zeros."""
        o = self.base
        return Marked(o.zext(to, w, a.value), self._each(lambda x: rules.widened(o, "zext", to, w, x), a))

    def sext(self, to: int, w: int, a: Marked) -> Marked:
        """Widen with the sign."""
        o = self.base
        return Marked(o.sext(to, w, a.value), self._each(lambda x: rules.widened(o, "sext", to, w, x), a))

    def trunc(self, to: int, w: int, a: Marked) -> Marked:
        """The low bits."""
        o = self.base
        return Marked(o.trunc(to, w, a.value), self._each(lambda x: rules.narrowed(o, to, w, x), a))


def binary(name: str, narrow: bool = False) -> Callable[..., Marked]:
    """An operation of two integers, each bit of whose result depends on all of both."""

    def operation(self: MarkedIntegers, w: int, a: Marked, b: Marked) -> Marked:
        value = getattr(self.base, name)(w, a.value, b.value)
        return self._opaque(1 if narrow else w, value, a, b)

    return operation


def unary(name: str) -> Callable[..., Marked]:
    """An operation of one integer, each bit of whose result depends on all of it."""

    def operation(self: MarkedIntegers, w: int, a: Marked) -> Marked:
        return self._opaque(w, getattr(self.base, name)(w, a.value), a)

    return operation


for _name in ("eq", "ne", "ult", "ule", "slt", "sle"):
    setattr(MarkedIntegers, _name, binary(_name, narrow=True))
for _name in ("ctlz", "cttz", "ctpop"):
    setattr(MarkedIntegers, _name, unary(_name))
