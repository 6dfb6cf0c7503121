"""The algebra over LLVM IR, integer part: every operation writes one or a few lines of IR text."""

from __future__ import annotations

from collections.abc import Callable

from understudy.ir.builder import Text


def _binary(word: str) -> Callable[..., str]:
    """An operation on two numbers of `w` bits."""
    return lambda self, w, a, b: self.text.let(f"{word} {self.type(w)} {a}, {b}")


def _counted(name: str, *more: str) -> Callable[..., str]:
    """An operation on one number that LLVM has an intrinsic for."""

    def operation(self: Integers, w: int, a: str) -> str:
        ty = self.type(w)
        return self.text.call(ty, f"llvm.{name}.{ty}", f"{ty} {a}", *more)

    return operation


def _cast(word: str) -> Callable[..., str]:
    """An operation that changes the width."""

    def cast(self: Integers, to: int, w: int, a: str) -> str:
        return a if a == "0" or to == w else self.text.let(f"{word} {self.type(w)} {a} to {self.type(to)}")

    return cast


class Integers:
    """Values are names of IR values or decimal literals. `uses_clmul`: whether the module needs that function."""

    def __init__(self, text: Text) -> None:
        self.text = text
        self.uses_clmul = False

    def type(self, w: int) -> str:
        """The type of values of `w` bits."""
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
    eq = _binary("icmp eq")
    ne = _binary("icmp ne")
    ult = _binary("icmp ult")
    slt = _binary("icmp slt")
    zext = _cast("zext")
    sext = _cast("sext")
    trunc = _cast("trunc")

    def const(self, w: int, n: int) -> str:
        """The number n, as a signed literal."""
        n &= (1 << w) - 1
        return str(n - (1 << w) if w > 1 and n >> (w - 1) else n)

    def add(self, w: int, a: str, b: str) -> str:
        """a + b."""
        return a if b == "0" else b if a == "0" else self.text.let(f"add {self.type(w)} {a}, {b}")

    def not_(self, w: int, a: str) -> str:
        """Every bit inverted."""
        return self.text.let(f"xor {self.type(w)} {a}, {self.const(w, -1)}")

    def clmul(self, a: str, b: str) -> str:
        """Carry-less 64 x 64 -> 128."""
        self.uses_clmul = True
        return self.text.let(f"call i128 @clmul(i64 {a}, i64 {b})")

    def select(self, w: int, c: str, a: str, b: str) -> str:
        """A if c else b."""
        return self.text.let(f"select {self.type(1)} {c}, {self.type(w)} {a}, {self.type(w)} {b}")

    def not1(self, c: str) -> str:
        """The opposite."""
        return self.text.let(f"xor {self.type(1)} {c}, {self.const(1, 1)}")


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
