"""Words of a hart: integers with the operations of RISC-V's algebra."""

from __future__ import annotations

from collections.abc import Callable
from typing import Self, cast

from understudy.isa import word
from understudy.isa.riscv.algebra import Ops
from understudy.isa.word import Value


class Word(word.Word):
    """An integer of a width. Divisors must not be zero; a signed quotient must not overflow."""

    __slots__ = ()
    algebra: Ops

    def __invert__(self) -> Self:
        if self.width == 1:
            return type(self)(self.algebra, 1, self.algebra.not1(self.value))
        return self ^ -1

    def udiv(self, other: Self | int) -> Self:
        """Unsigned quotient."""
        return self._binary("udiv", other)

    def urem(self, other: Self | int) -> Self:
        """Unsigned remainder."""
        return self._binary("urem", other)

    def sdiv(self, other: Self | int) -> Self:
        """Signed quotient, rounded to zero."""
        return self._binary("sdiv", other)

    def srem(self, other: Self | int) -> Self:
        """Signed remainder, of the sign of the dividend."""
        return self._binary("srem", other)

    def _counted(self, operation: str) -> Self:
        return type(self)(self.algebra, self.width, getattr(self.algebra, operation)(self.width, self.value))

    def ctlz(self) -> Self:
        """Zeros above the highest 1; the width where there is none."""
        return self._counted("ctlz")

    def cttz(self) -> Self:
        """Zeros below the lowest 1; the width where there is none."""
        return self._counted("cttz")

    def ctpop(self) -> Self:
        """How many bits are 1."""
        return self._counted("ctpop")

    def bswap(self) -> Self:
        """The bytes in the opposite order."""
        return self._counted("bswap")

    def clmul(self, other: Self) -> Self:
        """Carry-less product of two 64-bit words, 128 bits."""
        product = self.algebra.clmul(self.known(64, "clmul"), other.known(64, "clmul"))
        return type(self)(self.algebra, 128, product)


Binary = Callable[[Word, Word], Word]
"""An operation on two words."""


def on_values(f: Binary, w: int) -> Callable[[Ops, Value, Value], Value]:
    """`f` of words of `w` bits as a function ``(o, a, b)`` of an algebra and two of its values."""
    return recorded(f, w, w)


def recorded(f: Callable[..., Word | tuple[Word, ...]], *widths: int) -> Callable[..., Value]:
    """`f` of words of these widths as a function of an algebra and of its values; it may give a tuple of words.

    What `f` asks of the algebra is written down once, so that the words cost nothing when an instruction executes.
    """
    names = _Names()
    operands = [f"a{k}" for k in range(len(widths))]
    result = f(*(Word(cast("Ops", names), w, cast("Value", name)) for w, name in zip(widths, operands, strict=True)))
    values = ", ".join(str(word.value) for word in (result if isinstance(result, tuple) else (result,)))
    found: dict[str, Callable[..., Value]] = {}
    head = f"def meaning({', '.join(['o', *operands])}):"
    exec("\n    ".join([head, *names.lines, f"return {values}"]), found)
    return found["meaning"]


class _Names:
    """An algebra whose values are names; `lines` are the operations that it was asked for."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def __getattr__(self, operation: str) -> Callable[..., str]:
        def ask(*operands: int | str) -> str:
            self.lines.append(f"t{len(self.lines)} = o.{operation}({', '.join(map(str, operands))})")
            return f"t{len(self.lines) - 1}"

        return ask
