"""The integer part of the algebra as LLVM IR, for scalars and chunks alike."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from understudy.ir.builder import Text, Value
from understudy.ir.integers import IntegerOps, signed

_FOLD: Final = IntegerOps()


def _plain(name: str, word: str) -> Callable[..., Value]:
    """An operation on two integers, done at once where both are known."""
    fold = getattr(_FOLD, name)

    def method(self: IntegerEmitter, w: int, a: Value, b: Value) -> Value:
        if a.number is not None and b.number is not None:
            return self.text.number(w, fold(w, a.number, b.number))
        return self._binary(word, w, a, b, w)

    return method


def _compare(word: str) -> Callable[..., Value]:
    """A comparison, of width 1."""
    return lambda self, w, a, b: self._binary(f"icmp {word}", w, a, b, 1)


def _pick(word: str) -> Callable[..., Value]:
    """The smaller or larger one."""
    return lambda self, w, a, b: self._intrinsic(word, w, a, b)


def _count(word: str, *more: str) -> Callable[..., Value]:
    """An operation on one integer."""
    return lambda self, w, a: self._intrinsic(word, w, a, more=more)


class IntegerEmitter:
    """Integer operations; `text` is where they are written."""

    text: Text

    add = _plain("add", "add")
    sub = _plain("sub", "sub")
    mul = _plain("mul", "mul")
    and_ = _plain("and_", "and")
    or_ = _plain("or_", "or")
    xor = _plain("xor", "xor")
    shl = _plain("shl", "shl")
    lshr = _plain("lshr", "lshr")
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

    def const(self, w: int, n: int) -> Value:
        """The number n."""
        return self.text.number(w, n)

    def _binary(self, word: str, w: int, a: Value, b: Value, result: int) -> Value:
        vec = a.vec or b.vec
        x, y = self.text.bits(a, vec), self.text.bits(b, vec)
        made = Value(result, vec, self.text.let(f"{word} {self.text.itype(w, vec)} {x}, {y}"))
        made.made = word, a, b
        return made

    def not_(self, w: int, a: Value) -> Value:
        """~a."""
        if a.number is not None:
            return self.text.number(w, ~a.number)
        ones = self.text.literal(w, (1 << w) - 1, a.vec)
        return Value(w, a.vec, self.text.let(f"xor {self.text.itype(w, a.vec)} {self.text.bits(a)}, {ones}"))

    def select(self, w: int, c: Value, a: Value, b: Value) -> Value:
        """A if c else b."""
        if c.number is not None:
            return a if c.number else b
        text = self.text
        vec = c.vec or a.vec or b.vec
        alike = a.fmt == b.fmt and a.is_canonical == b.is_canonical
        if a.real and b.real and alike and a.number is None and b.number is None:
            kind = text.ftype(a.fmt, vec)
            x, y = text.floating(a, a.fmt, vec), text.floating(b, b.fmt, vec)
            real = text.let(f"select {text.itype(1, c.vec)} {text.bits(c)}, {kind} {x}, {kind} {y}")
            return Value(w, vec, real=real, fmt=a.fmt, is_canonical=a.is_canonical and b.is_canonical)
        kind = text.itype(w, vec)
        x, y = text.bits(a, vec), text.bits(b, vec)
        return Value(w, vec, text.let(f"select {text.itype(1, c.vec)} {text.bits(c)}, {kind} {x}, {kind} {y}"))

    def zext(self, to: int, w: int, a: Value) -> Value:
        """Widen with zeros."""
        return a if to == w else self._cast("zext", to, w, a, lambda n: n)

    def sext(self, to: int, w: int, a: Value) -> Value:
        """Widen with the sign."""
        return a if to == w else self._cast("sext", to, w, a, lambda n: signed(w, n))

    def trunc(self, to: int, w: int, a: Value) -> Value:
        """The low bits."""
        return a if to == w else self._cast("trunc", to, w, a, lambda n: n)

    def _cast(self, word: str, to: int, w: int, a: Value, fold: Callable[[int], int]) -> Value:
        if a.number is not None:
            return self.text.number(to, fold(a.number))
        text = self.text
        name = text.let(f"{word} {text.itype(w, a.vec)} {text.bits(a)} to {text.itype(to, a.vec)}")
        made = Value(to, a.vec, name)
        made.made = word, a, a
        return made

    def _intrinsic(self, name: str, w: int, *values: Value, more: tuple[str, ...] = ()) -> Value:
        text = self.text
        vec = any(value.vec for value in values)
        kind = text.itype(w, vec)
        arguments = [f"{kind} {text.bits(value, vec)}" for value in values]
        return Value(w, vec, text.call(kind, f"llvm.{name}.{text.suffix(f'i{w}', vec)}", *arguments, *more))
