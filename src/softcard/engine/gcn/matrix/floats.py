"""Operations on vectors of 32-bit floats and integers that `Operand` does not have, as LLVM intrinsics."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from softcard.ir import llvm
from softcard.ir.builder import Text
from softcard.ir.operand import Operand, element_type, with_lanes

_LETTERS: Final = {"float": "f32", "double": "f64"}


class VectorText(Text):
    """An LLVM IR text (see `Text`) with operations on vectors of `lanes` 32-bit elements."""

    def __init__(self, lanes: int) -> None:
        super().__init__()
        self.lanes = lanes
        self.floats = f"<{lanes} x float>"
        self.ints = f"<{lanes} x i32>"

    def intrinsic(self, name: str, *operands: Operand) -> Operand:
        """Emit a call of an LLVM intrinsic whose operands and result have the same type; return the result."""
        kind = operands[0].type
        element = element_type(kind) if kind.startswith("<") else kind
        count = kind[1 : kind.index(" ")] if kind.startswith("<") else ""
        suffix = (f"v{count}" if count else "") + _LETTERS.get(element, element)
        return self.call(kind, f"llvm.{name}.{suffix}", *(each.typed for each in operands))

    def fma(self, a: Operand, b: Operand, c: Operand) -> Operand:
        """Return a * b + c with one rounding."""
        return self.intrinsic("fma", a, b, c)

    def larger(self, a: Operand, b: Operand) -> Operand:
        """Return the larger of two floats, neither of which may be NaN."""
        return a.compare_floats("ogt", b).select(a, b)

    def smaller_word(self, a: Operand, most: int) -> Operand:
        """Return the unsigned minimum of an integer and the constant `most`."""
        return self.intrinsic("umin", a, self.constant(a.type, most))

    def larger_word(self, a: Operand, b: Operand) -> Operand:
        """Return the unsigned maximum of two integers."""
        return self.intrinsic("umax", a, b)

    def real(self, bits: Operand) -> Operand:
        """Return 32-bit integers reinterpreted as floats."""
        return bits.bitcast(with_lanes(bits.type, "float"))

    def bits(self, real: Operand) -> Operand:
        """Return floats reinterpreted as 32-bit integers."""
        return real.bitcast(with_lanes(real.type, "i32"))

    def pattern(self, bits: int) -> Operand:
        """Return a vector with the float of bit pattern `bits` in every lane."""
        return self.real(self.constant(self.ints, bits))

    def spread(self, value: Operand, lanes: int = 0) -> Operand:
        """Return a vector with a scalar in every lane; if `lanes` is 0, it has the text's default vector length."""
        count = lanes or self.lanes
        one = self.operand(f"<{count} x {value.type}>", "poison").with_lane(0, value)
        return self.shuffle(one, f"<{count} x i32> zeroinitializer")

    def held(self, value: Operand) -> Operand:
        """Return `value` in a form that LLVM cannot analyse.

        LLVM therefore keeps it in a register instead of computing it again."""
        if not llvm.is_x86():
            return value
        return self.define(value.type, f'call {value.type} asm "", "=v,0"({value.typed})')

    def canonical(self, value: Operand) -> Operand:
        """Return the bits of floats, with every NaN replaced by the canonical NaN."""
        if element_type(value.type) == "double":
            wide = value.bitcast(with_lanes(value.type, "i64"))
            return value.is_unordered(value).select(self.constant(wide.type, 0x7FF8 << 48), wide)
        bits = self.bits(value)
        return value.is_unordered(value).select(self.constant(bits.type, 0x7FC0_0000), bits)

    @contextmanager
    def loop(self, count: int, step: int = 1) -> Iterator[Operand]:
        """Emit a loop; the context manager's value is the loop variable: 0, `step`, ... below `count`."""
        before, body, end = self.label, self.fresh("loop"), self.fresh("end")
        if count <= step:
            yield self.word(0)
            return
        self.jump(body)
        self.start(body)
        at = len(self.lines)
        self.put("")
        number = self.word(f"%{self.fresh('n')}")
        yield number
        following = number + step
        last = self.label
        self.lines[at] = f"  {number} = phi i64 [ 0, %{before} ], [ {following}, %{last} ]"
        self.branch(following < count, body, end)
        self.start(end)


def total(values: list[Operand], add: Callable[[Operand, Operand], Operand]) -> Operand:
    """Return the sum of `values`, added pairwise as a balanced tree with `add`."""
    while len(values) > 1:
        pairs = [add(*values[at : at + 2]) if at + 1 < len(values) else values[at] for at in range(0, len(values), 2)]
        values = pairs
    return values[0]
