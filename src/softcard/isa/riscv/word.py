"""Words of a hart: integers with the operations of `isa.riscv.algebra` as methods and operators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Self, cast

from softcard.isa import word
from softcard.isa.riscv.algebra import Ops
from softcard.isa.word import Value


class Word(word.Word):
    """An integer of a given width. Divisors must not be zero, and signed quotients must not overflow."""

    __slots__ = ()
    algebra: Ops

    def __invert__(self) -> Self:
        if self.width == 1:
            return type(self)(self.algebra, 1, self.algebra.not1(self.value))
        return self ^ -1

    def udiv(self, other: Self | int) -> Self:
        """Return the unsigned quotient."""
        return self._binary("udiv", other)

    def urem(self, other: Self | int) -> Self:
        """Return the unsigned remainder."""
        return self._binary("urem", other)

    def sdiv(self, other: Self | int) -> Self:
        """Return the signed quotient, rounded to zero."""
        return self._binary("sdiv", other)

    def srem(self, other: Self | int) -> Self:
        """Return the signed remainder, with the sign of the dividend."""
        return self._binary("srem", other)

    def _counted(self, operation: str) -> Self:
        return type(self)(self.algebra, self.width, getattr(self.algebra, operation)(self.width, self.value))

    def ctlz(self) -> Self:
        """Return the number of zeros above the highest 1 bit; the width if there are only zeros."""
        return self._counted("ctlz")

    def cttz(self) -> Self:
        """Return the number of zeros below the lowest 1 bit; the width if there are only zeros."""
        return self._counted("cttz")

    def ctpop(self) -> Self:
        """Return the number of bits that are 1."""
        return self._counted("ctpop")

    def bswap(self) -> Self:
        """Reverse the order of the bytes."""
        return self._counted("bswap")

    def clmul(self, other: Self) -> Self:
        """Return the carry-less product of two 64-bit words, as a word of 128 bits."""
        product = self.algebra.clmul(self.known(64, "clmul"), other.known(64, "clmul"))
        return type(self)(self.algebra, 128, product)


Binary = Callable[[Word, Word], Word]
"""A function of two words that returns a word."""


def on_values(f: Binary, w: int) -> Callable[[Ops, Value, Value], Value]:
    """Convert a function of two words of `w` bits to a function ``(o, a, b)`` of an algebra and two of its values."""
    return recorded(f, w, w)


def recorded(f: Callable[..., Word | tuple[Word, ...]], *widths: int) -> Callable[..., Value]:
    """Convert a function of words of the given widths to a function ``(o, ...)`` of an algebra and its values.

    The result of `f` may be a tuple of words. `f` runs only once, to record its operations on the algebra.
    Executing an instruction repeats only these operations, without words."""
    names = _Names()
    operands = [f"a{k}" for k in range(len(widths))]
    result = f(*(Word(cast("Ops", names), w, cast("Value", name)) for w, name in zip(widths, operands, strict=True)))
    values = ", ".join(str(word.value) for word in (result if isinstance(result, tuple) else (result,)))
    found: dict[str, Callable[..., Value]] = {}
    head = f"def semantics({', '.join(['o', *operands])}):"
    exec("\n    ".join([head, *names.lines, f"return {values}"]), found)
    return found["semantics"]


class _Names:
    """An algebra that records operations: its values are variable names, and `lines` are the statements."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def __getattr__(self, operation: str) -> Callable[..., str]:
        def call(*operands: int | str) -> str:
            self.lines.append(f"t{len(self.lines)} = o.{operation}({', '.join(map(str, operands))})")
            return f"t{len(self.lines) - 1}"

        return call
