"""The integer operations of `isa.riscv.algebra.Algebra` in LLVM IR: each operation emits one or a few lines of text."""

from __future__ import annotations

from collections.abc import Callable

from softcard.ir.builder import Text
from softcard.ir.operand import Operand


def _binary(word: str) -> Callable[..., Operand]:
    """Return a method that emits the LLVM instruction `word` on two numbers of `w` bits."""
    return lambda self, w, a, b: a.binary(word, b)


def _comparison(test: str) -> Callable[..., Operand]:
    """Return a method that emits a comparison of two numbers of `w` bits with the LLVM predicate `test`."""
    return lambda self, w, a, b: a.compare(test, b)


def _counted(name: str, *more: str) -> Callable[..., Operand]:
    """Return a method that emits an LLVM intrinsic, named `name`, on one number; `more` are further arguments."""

    def operation(self: Integers, w: int, a: Operand) -> Operand:
        ty = self.type(w)
        return self.text.call(ty, f"llvm.{name}.{ty}", f"{ty} {a}", *more)

    return operation


def _cast(word: str) -> Callable[..., Operand]:
    """Return a method that emits the LLVM conversion `word`, which changes the width of a number."""

    def cast(self: Integers, to: int, w: int, a: Operand) -> Operand:
        if a == "0":
            return self.const(to, 0)
        return a if to == w else a.cast(word, self.type(to))

    return cast


class Integers:
    """The integer operations in LLVM IR. A value is the name of an IR value, or a decimal literal.

    `uses_clmul` is True if the emitted module needs the function `clmul`.
    """

    def __init__(self, text: Text) -> None:
        self.text = text
        self.uses_clmul = False

    def type(self, w: int) -> str:
        """Return the LLVM type of values of `w` bits."""
        return f"i{w}"

    sub = _binary("sub")
    mul = _binary("mul")
    and_ = _binary("and")
    or_ = _binary("or")
    xor = _binary("xor")
    shl = _binary("shl")
    lshr = _binary("lshr")
    ashr = _binary("ashr")
    udiv = _binary("udiv")
    urem = _binary("urem")
    sdiv = _binary("sdiv")
    srem = _binary("srem")
    ctlz = _counted("ctlz", "i1 false")
    cttz = _counted("cttz", "i1 false")
    ctpop = _counted("ctpop")
    bswap = _counted("bswap")
    eq = _comparison("eq")
    ne = _comparison("ne")
    ult = _comparison("ult")
    slt = _comparison("slt")
    zext = _cast("zext")
    sext = _cast("sext")
    trunc = _cast("trunc")

    def const(self, w: int, n: int) -> Operand:
        """Return the number `n` as a signed decimal literal."""
        n &= (1 << w) - 1
        return self.text.operand(self.type(w), str(n - (1 << w) if w > 1 and n >> (w - 1) else n))

    def add(self, w: int, a: Operand, b: Operand | int) -> Operand:
        """Return a + b."""
        if isinstance(b, int):
            b = self.const(w, b)
        return a if b == "0" else b if a == "0" else (a + b)

    def not_(self, w: int, a: Operand) -> Operand:
        """Return the value with every bit inverted."""
        return a ^ self.const(w, -1)

    def clmul(self, a: Operand, b: Operand) -> Operand:
        """Return the carry-less product, 64 x 64 -> 128 bits."""
        self.uses_clmul = True
        return self.text.invoke("i128", "@clmul", a, b)

    def select(self, w: int, c: Operand, a: Operand | int, b: Operand | int) -> Operand:
        """Return a if c is 1, else b."""
        return c.select(a, b, self.type(w))

    def not1(self, c: Operand) -> Operand:
        """Return the negation of an i1."""
        return c ^ self.const(1, 1)


CLMUL_PORTABLE = """
define internal i128 @clmul(i64 %a, i64 %b) #1 {
entry:
  %wide = zext i64 %a to i128
  br label %loop
loop:
  %n = phi i64 [ 0, %entry ], [ %n1, %loop ]
  %p = phi i128 [ 0, %entry ], [ %p1, %loop ]
  %bit = lshr i64 %b, %n
  %odd = trunc i64 %bit to i1
  %nw = zext i64 %n to i128
  %term = shl i128 %wide, %nw
  %pick = select i1 %odd, i128 %term, i128 0
  %p1 = xor i128 %p, %pick
  %n1 = add i64 %n, 1
  %more = icmp ult i64 %n1, 64
  br i1 %more, label %loop, label %done
done:
  ret i128 %p1
}
"""

CLMUL_X86 = """
declare <2 x i64> @llvm.x86.pclmulqdq(<2 x i64>, <2 x i64>, i8)
define internal i128 @clmul(i64 %a, i64 %b) #1 {
  %va = insertelement <2 x i64> zeroinitializer, i64 %a, i64 0
  %vb = insertelement <2 x i64> zeroinitializer, i64 %b, i64 0
  %p = call <2 x i64> @llvm.x86.pclmulqdq(<2 x i64> %va, <2 x i64> %vb, i8 0)
  %r = bitcast <2 x i64> %p to i128
  ret i128 %r
}
"""
