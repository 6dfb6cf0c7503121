"""The algebra over LLVM IR, integer part: every operation writes one or a few lines of IR text."""

from __future__ import annotations


class IntegerEmitter:
    """Values are names of IR values or decimal literals; `lines` is the text so far."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.tail: list[str] = []
        self.counter = 0
        self.helpers: set[str] = set()

    def line(self, text: str) -> None:
        """Append one instruction."""
        self.lines.append("  " + text)

    def value(self, text: str) -> str:
        """Append ``name = text`` and give the name."""
        self.counter += 1
        name = f"%t{self.counter}"
        self.lines.append(f"  {name} = {text}")
        return name

    def label(self, stem: str) -> str:
        """A fresh block name."""
        self.counter += 1
        return f"{stem}{self.counter}"

    def const(self, w: int, n: int) -> str:
        """The number n, as a signed literal."""
        n &= (1 << w) - 1
        return str(n - (1 << w) if w > 1 and n >> (w - 1) else n)

    def add(self, w: int, a: str, b: str) -> str:
        """a + b."""
        return a if b == "0" else b if a == "0" else self.value(f"add i{w} {a}, {b}")

    def sub(self, w: int, a: str, b: str) -> str:
        """a - b."""
        return self.value(f"sub i{w} {a}, {b}")

    def mul(self, w: int, a: str, b: str) -> str:
        """a * b."""
        return self.value(f"mul i{w} {a}, {b}")

    def and_(self, w: int, a: str, b: str) -> str:
        """a & b."""
        return self.value(f"and i{w} {a}, {b}")

    def or_(self, w: int, a: str, b: str) -> str:
        """a | b."""
        return self.value(f"or i{w} {a}, {b}")

    def xor(self, w: int, a: str, b: str) -> str:
        """a ^ b."""
        return self.value(f"xor i{w} {a}, {b}")

    def shl(self, w: int, a: str, n: str) -> str:
        """a << n."""
        return self.value(f"shl i{w} {a}, {n}")

    def lshr(self, w: int, a: str, n: str) -> str:
        """a >> n."""
        return self.value(f"lshr i{w} {a}, {n}")

    def ashr(self, w: int, a: str, n: str) -> str:
        """a >> n with the sign."""
        return self.value(f"ashr i{w} {a}, {n}")

    def udiv(self, w: int, a: str, b: str) -> str:
        """Unsigned a / b."""
        return self.value(f"udiv i{w} {a}, {b}")

    def urem(self, w: int, a: str, b: str) -> str:
        """Unsigned a % b."""
        return self.value(f"urem i{w} {a}, {b}")

    def sdiv(self, w: int, a: str, b: str) -> str:
        """Signed a / b."""
        return self.value(f"sdiv i{w} {a}, {b}")

    def srem(self, w: int, a: str, b: str) -> str:
        """Signed a % b."""
        return self.value(f"srem i{w} {a}, {b}")

    def clmul(self, a: str, b: str) -> str:
        """Carry-less 64 x 64 -> 128."""
        self.helpers.add("clmul")
        return self.value(f"call i128 @clmul(i64 {a}, i64 {b})")

    def eq(self, w: int, a: str, b: str) -> str:
        """a == b."""
        return self.value(f"icmp eq i{w} {a}, {b}")

    def ne(self, w: int, a: str, b: str) -> str:
        """a != b."""
        return self.value(f"icmp ne i{w} {a}, {b}")

    def ult(self, w: int, a: str, b: str) -> str:
        """Unsigned a < b."""
        return self.value(f"icmp ult i{w} {a}, {b}")

    def slt(self, w: int, a: str, b: str) -> str:
        """Signed a < b."""
        return self.value(f"icmp slt i{w} {a}, {b}")

    def select(self, w: int, c: str, a: str, b: str) -> str:
        """A if c else b."""
        return self.value(f"select i1 {c}, i{w} {a}, i{w} {b}")

    def not1(self, c: str) -> str:
        """The opposite."""
        return self.value(f"xor i1 {c}, 1")

    def zext(self, to: int, w: int, a: str) -> str:
        """Widen with zeros."""
        return a if a == "0" or to == w else self.value(f"zext i{w} {a} to i{to}")

    def sext(self, to: int, w: int, a: str) -> str:
        """Widen with the sign."""
        return a if a == "0" or to == w else self.value(f"sext i{w} {a} to i{to}")

    def trunc(self, to: int, w: int, a: str) -> str:
        """The low bits."""
        return a if a == "0" or to == w else self.value(f"trunc i{w} {a} to i{to}")


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
