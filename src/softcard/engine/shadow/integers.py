"""Integer operations on values with shadow bits, built from the integer operations of an engine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from softcard.engine.shadow import bits as rules
from softcard.engine.shadow.bits import OptionalShadow, ShadowBits


class Shadowed:
    """A value of an engine, with its shadow bits for each kind of shadow, for example undefined bits.

    `number` is the value if it is a constant, else None."""

    __slots__ = ("number", "shadows", "value")

    def __init__(self, value: Any, shadows: tuple[OptionalShadow, ...], number: int | None = None) -> None:
        self.value = value
        self.shadows = shadows
        self.number = number

    def __int__(self) -> int:
        return int(self.value)


class Listener(Protocol):
    """The interface that receives reports for one kind of shadow on one engine.

    A report says that a value with shadow bits is used, for example as an address or a branch condition."""

    def report(self, what: str, shadow: ShadowBits, where: Any = None) -> None:
        """Report a forbidden use of a value with the shadow bits `shadow`.

        `what` describes the use, such as a branch; `where` is the address concerned, if any."""


class ShadowedIntegers:
    """An implementation of `isa.word.IntegerAlgebra` on values with shadow bits.

    `base` is the engine's implementation for plain values. `kinds` has one listener for each kind of shadow."""

    def __init__(self, base: Any, kinds: Sequence[Listener]) -> None:
        self.base = base
        self.none: tuple[OptionalShadow, ...] = (None,) * len(kinds)
        self._listeners = tuple(kinds)

    # ---- parts of operations -------------------------------------------------------------------------------------
    def _plain(self, value: Any) -> Shadowed:
        return Shadowed(value, self.none)

    def _each(self, rule: Callable[..., OptionalShadow], *operands: Shadowed) -> tuple[OptionalShadow, ...]:
        """Apply a propagation rule to the operands' shadow bits; return the results, one for each kind of shadow."""
        if all(operand.shadows is self.none for operand in operands):
            return self.none
        return tuple(rule(*shadows) for shadows in zip(*(operand.shadows for operand in operands), strict=True))

    def _opaque(self, w: int, value: Any, *operands: Shadowed) -> Shadowed:
        return Shadowed(value, self._each(lambda *shadows: rules.opaque(self.base, w, *shadows), *operands))

    def _report(self, what: str, v: Shadowed, where: Shadowed | None = None) -> None:
        """Report the use `what` of the value `v`, such as a branch condition, if the value has shadow bits.

        Each kind of shadow that the value has goes to its listener. `where` is the address concerned, if any."""
        if v.shadows is self.none:
            return
        for kind, own in zip(self._listeners, v.shadows, strict=True):
            if own is not None:
                kind.report(what, own, None if where is None else where.value)

    # ---- integers ------------------------------------------------------------------------------------------------
    def const(self, w: int, n: int) -> Shadowed:
        """Return the constant `n` modulo 2**w as a `w`-bit value without shadow bits."""
        return Shadowed(self.base.const(w, n), self.none, int(n) & (1 << w) - 1)

    def _bitwise(self, name: str, w: int, a: Shadowed, b: Shadowed) -> Shadowed:
        o = self.base
        value = getattr(o, name)(w, a.value, b.value)
        return Shadowed(value, self._each(lambda x, y: rules.bitwise(o, w, x, y), a, b))

    def xor(self, w: int, a: Shadowed, b: Shadowed) -> Shadowed:
        """Return the bitwise exclusive or."""
        return self._bitwise("xor", w, a, b)

    def and_(self, w: int, a: Shadowed, b: Shadowed) -> Shadowed:
        """Return the bitwise and."""
        o = self.base
        shadows = self._each(lambda x, y: rules.conjunction(o, w, a.value, x, b.value, y), a, b)
        return Shadowed(o.and_(w, a.value, b.value), shadows)

    def or_(self, w: int, a: Shadowed, b: Shadowed) -> Shadowed:
        """Return the bitwise or."""
        o = self.base
        shadows = self._each(lambda x, y: rules.disjunction(o, w, a.value, x, b.value, y), a, b)
        return Shadowed(o.or_(w, a.value, b.value), shadows)

    def not_(self, w: int, a: Shadowed) -> Shadowed:
        """Return the value with every bit inverted."""
        return Shadowed(self.base.not_(w, a.value), a.shadows)

    def _carried(self, name: str, w: int, a: Shadowed, b: Shadowed) -> Shadowed:
        o = self.base
        value = getattr(o, name)(w, a.value, b.value)
        return Shadowed(value, self._each(lambda x, y: rules.carried(o, w, x, y), a, b))

    def add(self, w: int, a: Shadowed, b: Shadowed) -> Shadowed:
        """Return the sum."""
        return self._carried("add", w, a, b)

    def sub(self, w: int, a: Shadowed, b: Shadowed) -> Shadowed:
        """Return the difference."""
        return self._carried("sub", w, a, b)

    def mul(self, w: int, a: Shadowed, b: Shadowed) -> Shadowed:
        """Return the product."""
        return self._carried("mul", w, a, b)

    def _shifted(self, name: str, w: int, a: Shadowed, n: Shadowed) -> Shadowed:
        o = self.base
        shadows = self._each(lambda x, y: rules.shifted(o, name, w, x, n.value, n.number, y), a, n)
        return Shadowed(getattr(o, name)(w, a.value, n.value), shadows)

    def shl(self, w: int, a: Shadowed, n: Shadowed) -> Shadowed:
        """Return `a` shifted left by `n` bits."""
        return self._shifted("shl", w, a, n)

    def lshr(self, w: int, a: Shadowed, n: Shadowed) -> Shadowed:
        """Return `a` shifted right by `n` bits, filled with zeros."""
        return self._shifted("lshr", w, a, n)

    def ashr(self, w: int, a: Shadowed, n: Shadowed) -> Shadowed:
        """Return `a` shifted right by `n` bits, filled with the sign bit."""
        return self._shifted("ashr", w, a, n)

    def select(self, w: int, c: Shadowed, a: Shadowed, b: Shadowed) -> Shadowed:
        """Return `a` if `c` is 1, else `b`."""
        o = self.base
        shadows = self._each(lambda z, x, y: rules.chosen(o, w, c.value, z, x, y), c, a, b)
        return Shadowed(o.select(w, c.value, a.value, b.value), shadows)

    def zext(self, to: int, w: int, a: Shadowed) -> Shadowed:
        """Return the value extended with zeros."""
        o = self.base
        return Shadowed(o.zext(to, w, a.value), self._each(lambda x: rules.widened(o, "zext", to, w, x), a))

    def sext(self, to: int, w: int, a: Shadowed) -> Shadowed:
        """Return the value extended with its sign."""
        o = self.base
        return Shadowed(o.sext(to, w, a.value), self._each(lambda x: rules.widened(o, "sext", to, w, x), a))

    def trunc(self, to: int, w: int, a: Shadowed) -> Shadowed:
        """Return the low `to` bits of a value."""
        o = self.base
        return Shadowed(o.trunc(to, w, a.value), self._each(lambda x: rules.narrowed(o, to, w, x), a))


def binary(name: str, narrow: bool = False) -> Callable[..., Shadowed]:
    """Return a method for `ShadowedIntegers` that applies the operation `name` to two integers.

    Each bit of its result counts as dependent on all bits of both operands. With `narrow`, the result has
    width 1."""

    def operation(self: ShadowedIntegers, w: int, a: Shadowed, b: Shadowed) -> Shadowed:
        value = getattr(self.base, name)(w, a.value, b.value)
        return self._opaque(1 if narrow else w, value, a, b)

    return operation


def unary(name: str) -> Callable[..., Shadowed]:
    """Return a method for `ShadowedIntegers` that applies the operation `name` to one integer.

    Each bit of its result counts as dependent on all bits of the operand."""

    def operation(self: ShadowedIntegers, w: int, a: Shadowed) -> Shadowed:
        return self._opaque(w, getattr(self.base, name)(w, a.value), a)

    return operation


for _name in ("eq", "ne", "ult", "ule", "slt", "sle"):
    setattr(ShadowedIntegers, _name, binary(_name, narrow=True))
for _name in ("ctlz", "cttz", "ctpop"):
    setattr(ShadowedIntegers, _name, unary(_name))
