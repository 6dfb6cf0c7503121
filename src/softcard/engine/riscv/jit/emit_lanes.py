"""The operations of `isa.riscv.algebra.Algebra` in LLVM IR over vectors of elements of a register group.

The semantics of element-wise vector instructions use these operations. The module also has loops over single
elements."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from softcard.engine.riscv.jit.emit_control import Control
from softcard.engine.riscv.jit.emit_float import SUFFIX, Floats
from softcard.engine.riscv.jit.emit_integer import Integers
from softcard.engine.riscv.jit.emit_registers import BITS, CANONICAL, TYPE, FloatValue, Representations
from softcard.ir.builder import Text
from softcard.ir.composed import Composed
from softcard.ir.operand import Operand

# ---- elements one by one ---------------------------------------------------------------------------------------------
# Elements one by one: loops over numbers, and buffers that hold elements; masks in parts.


WORD: Final = 64
"""The number of mask bits that are expanded to lanes at once on processors without mask registers.

LLVM 22 generates wrong code for lanes of 8 bits if more bits are expanded at once.
"""


@contextmanager
def each_number(text: Text, count: Operand) -> Iterator[Operand]:
    """Emit the code of the `with` block as a loop that counts from 0 to `count` - 1; yield the loop's counter.

    `count` and the counter have 64 bits."""
    before, head, body, done = text.label, text.fresh("each"), text.fresh("do"), text.fresh("done")
    text.jump(head)
    text.start(head)
    place = len(text.lines)
    k = text.define("i64", "")
    text.branch(k < count, body, done)
    text.start(body)
    yield k
    following = k + 1
    text.lines[place] = f"  {k} = phi i64 [ 0, %{before} ], [ {following}, %{text.label} ]"
    text.jump(head)
    text.start(done)


def buffer(text: Text, size: int, number: int = 0) -> Operand:
    """Return the address of a buffer of `size` bytes in the function's frame. Each `number` names a separate buffer."""
    name = f"%buffer{size}_{number}"
    return text.slot(f"  {name}", f"[{size} x i8]", ", align 64")


def place(text: Text, base: Operand, width: int, k: Operand) -> Operand:
    """Return the address of element `k` in the array at `base`, whose elements have `width` bits."""
    return base.element(f"i{width}", k)


def joined(text: Text, parts: list[Operand]) -> Operand:
    """Return the concatenation of vectors of `WORD` bits each; their count is a power of two."""
    size = WORD
    while len(parts) > 1:
        numbers = ", ".join(f"i32 {k}" for k in range(2 * size))
        pairs = zip(parts[::2], parts[1::2], strict=True)
        parts = [text.shuffle(a, f"<{2 * size} x i32> <{numbers}>", b) for a, b in pairs]
        size *= 2
    return parts[0]


# ---- lanes -----------------------------------------------------------------------------------------------------------


ONE: Final = {"s": 0x3F80_0000, "d": 0x3FF0_0000_0000_0000}
"""The bits of 1.0 in each format, which replace the operands in inactive lanes: operations on 1.0 raise no flag."""


def _one_by_one(word: str) -> Callable[..., Operand]:
    """Return a method that applies an operation lane by lane, for operations that processors have only for scalars."""

    def operation(self: LaneIntegers, w: int, a: Operand, b: Operand) -> Operand:
        text, ty = self.text, self.type(w)
        places = [buffer(text, max(self.lanes * w // 8, 1), number) for number in range(2)]
        for operand, at in zip((a, b), places, strict=True):
            at.store(operand, align=1)
        with each_number(text, text.word(self.lanes)) as k:
            at, other = (place(text, each, w, k) for each in places)
            one, two = (each.load(f"i{w}") for each in (at, other))
            at.store(one.binary(word, two))
        return places[0].load(ty, align=1)

    return operation


class LaneIntegers(Integers):
    """The integer operations in LLVM IR over vectors of `lanes` elements."""

    def __init__(self, text: Text, lanes: int) -> None:
        super().__init__(text)
        self.lanes = lanes

    udiv = _one_by_one("udiv")
    urem = _one_by_one("urem")
    sdiv = _one_by_one("sdiv")
    srem = _one_by_one("srem")

    def type(self, w: int) -> str:
        """Return the LLVM type of elements of `w` bits."""
        return f"<{self.lanes} x i{w}>"

    def const(self, w: int, n: int) -> Operand:
        """Return a vector with the number `n` in all lanes."""
        return self.text.operand(self.type(w), f"splat (i{w} {Integers.const(self, w, n)})")


def _one_by_one_unless_all_are_shifted_alike(word: str) -> Callable[..., Operand]:
    each, batches = _one_by_one(word), getattr(Integers, word)

    def operation(self: LaneIntegers, w: int, a: Operand, b: Operand) -> Operand:
        return batches(self, w, a, b) if b.startswith("splat") else each(self, w, a, b)

    return operation


class ApartIntegers(LaneIntegers):
    """The integer operations for processors that cannot shift elements by different amounts (before AVX2).

    For such processors LLVM expands these shifts to conversions between integers and floats, which raise the invalid
    flag.
    """

    shl = _one_by_one_unless_all_are_shifted_alike("shl")
    lshr = _one_by_one_unless_all_are_shifted_alike("lshr")
    ashr = _one_by_one_unless_all_are_shifted_alike("ashr")


class LaneRepresentations(Representations):
    """Vectors of floats in the representations of `floatreps`; lanes outside of the mask `active` hold 1.0."""

    def __init__(self, text: Text, ints: LaneIntegers, active: Operand) -> None:
        super().__init__(text, ints)
        self.lanes = ints.lanes
        self.active = active

    def type(self, fmt: str) -> str:
        """Return the LLVM type of float vectors of a format."""
        return f"<{self.lanes} x {TYPE[fmt]}>"

    def nan(self, fmt: str) -> Operand:
        """Return the canonical NaN in all lanes."""
        return self.text.operand(self.type(fmt), f"splat ({TYPE[fmt]} {CANONICAL})")

    def f_from_bits(self, fmt: str, v: Operand) -> FloatValue:
        """Return the floats with these bit patterns."""
        w = BITS[fmt]
        return super().f_from_bits(fmt, self.ints.select(w, self.active, v, self.ints.const(w, ONE[fmt])))


class LaneFloats(Floats):
    """The float operations in LLVM IR over vectors."""

    representations: LaneRepresentations

    def type(self, fmt: str) -> str:
        """Return the LLVM type of float vectors of a format."""
        return self.representations.type(fmt)

    def suffix(self, fmt: str) -> str:
        """Return the type suffix of an intrinsic's name for a format."""
        return f"v{self.representations.lanes}{SUFFIX[fmt]}"

    def int_suffix(self) -> str:
        """Return the type suffix of an intrinsic on vectors of 64-bit integers."""
        return f"v{self.representations.lanes}i64"

    def any(self, condition: Operand) -> Operand:
        """Return an i1 that is 1 if a condition holds in some lane."""
        lanes = self.representations.lanes
        return self.text.call("i1", f"llvm.vector.reduce.or.v{lanes}i1", f"<{lanes} x i1> {condition}")

    def int_to_f(self, fmt: str, w: int, signed: bool, v: Operand, rm: int) -> FloatValue:
        """Convert from integers; inactive lanes convert 0."""
        v = self.ints.select(w, self.representations.active, v, self.ints.const(w, 0))
        return super().int_to_f(fmt, w, signed, v, rm)

    def trunc(self, to: int, w: int, a: Operand) -> Operand:
        """Return the low `to` bits of each element."""
        return self.ints.trunc(to, w, a)

    def fma(self, fmt: str, a: FloatValue, b: FloatValue, c: FloatValue, rm: int) -> FloatValue:
        """Return a * b + c.

        Hosts differ in the flags if some `c` is a NaN; in that case a side exit lets the reference engine execute the
        instruction.
        """
        if not self.fused:
            self.control.side(self.text.flag(True))
        nan = c.name.is_unordered(c.name)
        self.control.side(self.any(nan))
        return self._rounded("fma", fmt, (a, b, c))


class RawFloats(Representations):
    """Float representations in which the bits of a NaN are read unchanged, not as those of the canonical NaN."""

    def f_bits(self, fmt: str, v: FloatValue) -> Operand:
        """Return the bit pattern of a float."""
        bits = super().f_bits(fmt, v)
        self.float_of[bits] = v
        return bits


class Scalars(Composed, floats=Floats, representations=RawFloats, ints=Integers):
    """The operations that element-wise functions use, for one element."""

    def __init__(self, text: Text, control: Control, fused: bool) -> None:
        self.ints = Integers(text)
        self.representations = RawFloats(text, self.ints)
        self.floats = Floats(text, self.ints, self.representations, control, fused)


class Lanes(Composed, floats=LaneFloats, representations=LaneRepresentations, ints=LaneIntegers):
    """The operations that element-wise functions use, for `lanes` elements at once.

    `active` is the mask of the active lanes.
    """

    def __init__(self, text: Text, control: Control, features: frozenset[str], lanes: int, active: Operand) -> None:
        self.ints = LaneIntegers(text, lanes) if "avx2" in features else ApartIntegers(text, lanes)
        self.representations = LaneRepresentations(text, self.ints, active)
        self.floats = LaneFloats(text, self.ints, self.representations, control, "fma" in features)
