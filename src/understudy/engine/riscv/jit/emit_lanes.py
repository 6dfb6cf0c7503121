"""The algebra over LLVM vectors: elements of a register group side by side, for functions of elements."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from understudy.engine.riscv.jit.emit_control import Control
from understudy.engine.riscv.jit.emit_elements import buffer, each_number, place
from understudy.engine.riscv.jit.emit_float import SUFFIX, Floats
from understudy.engine.riscv.jit.emit_integer import Integers
from understudy.engine.riscv.jit.emit_registers import BITS, CANONICAL, TYPE, Held, Representations
from understudy.ir.builder import Text
from understudy.ir.composed import Composed

ONE: Final = {"s": 0x3F80_0000, "d": 0x3FF0_0000_0000_0000}
"""What inactive lanes compute with, so that they raise nothing."""


def _one_by_one(word: str) -> Callable[..., str]:
    """An operation that processors have for single numbers only."""

    def operation(self: LaneIntegers, w: int, a: str, b: str) -> str:
        text, ty = self.text, self.type(w)
        places = [buffer(text, max(self.lanes * w // 8, 1), number) for number in range(2)]
        for operand, at in zip((a, b), places, strict=True):
            text.put(f"store {ty} {operand}, ptr {at}, align 1")
        with each_number(text, str(self.lanes)) as k:
            at, other = (place(text, each, w, k) for each in places)
            one, two = (text.let(f"load i{w}, ptr {each}") for each in (at, other))
            text.put(f"store i{w} {text.let(f'{word} i{w} {one}, {two}')}, ptr {at}")
        return text.let(f"load {ty}, ptr {places[0]}, align 1")

    return operation


class LaneIntegers(Integers):
    """Values have `lanes` elements."""

    def __init__(self, text: Text, lanes: int) -> None:
        super().__init__(text)
        self.lanes = lanes

    udiv = _one_by_one("udiv")
    urem = _one_by_one("urem")
    sdiv = _one_by_one("sdiv")
    srem = _one_by_one("srem")

    def type(self, w: int) -> str:
        """The type of elements of `w` bits."""
        return f"<{self.lanes} x i{w}>"

    def const(self, w: int, n: int) -> str:
        """The same number in all lanes."""
        return f"splat (i{w} {super().const(w, n)})"


def _one_by_one_unless_all_are_shifted_alike(word: str) -> Callable[..., str]:
    each, together = _one_by_one(word), getattr(Integers, word)

    def operation(self: LaneIntegers, w: int, a: str, b: str) -> str:
        return together(self, w, a, b) if b.startswith("splat") else each(self, w, a, b)

    return operation


class ApartIntegers(LaneIntegers):
    """On processors that do not shift elements by different amounts (before AVX2).

    LLVM makes such shifts of conversions between integers and floats there, which raise the invalid flag.
    """

    shl = _one_by_one_unless_all_are_shifted_alike("shl")
    lshr = _one_by_one_unless_all_are_shifted_alike("lshr")
    ashr = _one_by_one_unless_all_are_shifted_alike("ashr")


class LaneRepresentations(Representations):
    """Floats side by side; those outside of the mask `active` are ones."""

    def __init__(self, text: Text, ints: LaneIntegers, active: str) -> None:
        super().__init__(text, ints)
        self.lanes = ints.lanes
        self.active = active

    def type(self, fmt: str) -> str:
        """The type of floats."""
        return f"<{self.lanes} x {TYPE[fmt]}>"

    def nan(self, fmt: str) -> str:
        """The canonical NaN in all lanes."""
        return f"splat ({TYPE[fmt]} {CANONICAL})"

    def f_from_bits(self, fmt: str, v: str) -> Held:
        """The floats with these bit patterns."""
        w = BITS[fmt]
        return super().f_from_bits(fmt, self.ints.select(w, self.active, v, self.ints.const(w, ONE[fmt])))


class LaneFloats(Floats):
    """Arithmetic of floats side by side."""

    representations: LaneRepresentations

    def type(self, fmt: str) -> str:
        """The type of floats."""
        return self.representations.type(fmt)

    def suffix(self, fmt: str) -> str:
        """The end of an intrinsic's name."""
        return f"v{self.representations.lanes}{SUFFIX[fmt]}"

    def int_suffix(self) -> str:
        """The same of 64-bit integers."""
        return f"v{self.representations.lanes}i64"

    def any(self, condition: str) -> str:
        """Whether a condition holds in some lane."""
        lanes = self.representations.lanes
        return self.text.call("i1", f"llvm.vector.reduce.or.v{lanes}i1", f"<{lanes} x i1> {condition}")

    def int_to_f(self, fmt: str, w: int, signed: bool, v: str, rm: int) -> Held:
        """Convert from integers, those of inactive lanes being 0."""
        v = self.ints.select(w, self.representations.active, v, self.ints.const(w, 0))
        return super().int_to_f(fmt, w, signed, v, rm)

    def trunc(self, to: int, w: int, a: str) -> str:
        """The low bits."""
        return self.ints.trunc(to, w, a)

    def fma(self, fmt: str, a: Held, b: Held, c: Held, rm: int) -> Held:
        """a * b + c; where some `c` is a NaN, of which hosts differ in their flags, the reference engine does it."""
        if not self.fused:
            self.control.side("true")
        nan = self.text.let(f"fcmp uno {self.type(fmt)} {c.name}, {c.name}")
        self.control.side(self.any(nan))
        return self._rounded("fma", fmt, (a, b, c))


class RawFloats(Representations):
    """Floats of which bits are asked for stay known as such, with whatever NaN they are."""

    def f_bits(self, fmt: str, v: Held) -> str:
        """Bit pattern."""
        bits = super().f_bits(fmt, v)
        self.float_of[bits] = v
        return bits


class Scalars(Composed, floats=Floats, representations=RawFloats, ints=Integers):
    """What functions of elements ask for, for one element."""

    def __init__(self, text: Text, control: Control, fused: bool) -> None:
        self.ints = Integers(text)
        self.representations = RawFloats(text, self.ints)
        self.floats = Floats(text, self.ints, self.representations, control, fused)


class Lanes(Composed, floats=LaneFloats, representations=LaneRepresentations, ints=LaneIntegers):
    """What functions of elements ask for, for `lanes` elements of which the mask `active` takes part."""

    def __init__(self, text: Text, control: Control, features: frozenset[str], lanes: int, active: str) -> None:
        self.ints = LaneIntegers(text, lanes) if "avx2" in features else ApartIntegers(text, lanes)
        self.representations = LaneRepresentations(text, self.ints, active)
        self.floats = LaneFloats(text, self.ints, self.representations, control, "fma" in features)
