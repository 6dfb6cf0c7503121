"""The integer part of the algebra over Python integers."""

from __future__ import annotations


def signed(w: int, a: int) -> int:
    """The two's-complement reading of a `w`-bit number."""
    return a - (1 << w) if a >> (w - 1) else a


class IntegerOps:
    """Integer operations of the algebra on Python ints in 0 .. 2**w - 1."""

    def const(self, w: int, n: int) -> int:
        """The number n."""
        return n & ((1 << w) - 1)

    def add(self, w: int, a: int, b: int) -> int:
        """a + b."""
        return (a + b) & ((1 << w) - 1)

    def sub(self, w: int, a: int, b: int) -> int:
        """a - b."""
        return (a - b) & ((1 << w) - 1)

    def mul(self, w: int, a: int, b: int) -> int:
        """a * b."""
        return (a * b) & ((1 << w) - 1)

    def and_(self, w: int, a: int, b: int) -> int:
        """a & b."""
        return a & b

    def or_(self, w: int, a: int, b: int) -> int:
        """a | b."""
        return a | b

    def xor(self, w: int, a: int, b: int) -> int:
        """a ^ b."""
        return a ^ b

    def not_(self, w: int, a: int) -> int:
        """Every bit inverted."""
        return a ^ (1 << w) - 1

    def shl(self, w: int, a: int, n: int) -> int:
        """a << n."""
        return (a << n) & ((1 << w) - 1)

    def lshr(self, w: int, a: int, n: int) -> int:
        """a >> n."""
        return a >> n

    def ashr(self, w: int, a: int, n: int) -> int:
        """a >> n with the sign."""
        return (signed(w, a) >> n) & ((1 << w) - 1)

    def udiv(self, w: int, a: int, b: int) -> int:
        """Unsigned a / b."""
        return a // b

    def urem(self, w: int, a: int, b: int) -> int:
        """Unsigned a % b."""
        return a % b

    def sdiv(self, w: int, a: int, b: int) -> int:
        """Signed a / b toward zero."""
        x, y = signed(w, a), signed(w, b)
        quotient = abs(x) // abs(y)
        return (quotient if (x < 0) == (y < 0) else -quotient) & ((1 << w) - 1)

    def srem(self, w: int, a: int, b: int) -> int:
        """Signed remainder with the sign of a."""
        x, y = signed(w, a), signed(w, b)
        remainder = abs(x) % abs(y)
        return (-remainder if x < 0 else remainder) & ((1 << w) - 1)

    def ctlz(self, w: int, a: int) -> int:
        """Zeros above the highest 1."""
        return w - a.bit_length()

    def cttz(self, w: int, a: int) -> int:
        """Zeros below the lowest 1."""
        return (a & -a).bit_length() - 1 if a else w

    def ctpop(self, w: int, a: int) -> int:
        """How many bits are 1."""
        return a.bit_count()

    def bswap(self, w: int, a: int) -> int:
        """The bytes in the opposite order."""
        return int.from_bytes(a.to_bytes(w // 8, "little"), "big")

    def clmul(self, a: int, b: int) -> int:
        """Carry-less 64 x 64 -> 128."""
        product = 0
        while b:
            low = b & -b
            product ^= a * low
            b ^= low
        return product

    def eq(self, w: int, a: int, b: int) -> int:
        """a == b."""
        return int(a == b)

    def ne(self, w: int, a: int, b: int) -> int:
        """a != b."""
        return int(a != b)

    def ult(self, w: int, a: int, b: int) -> int:
        """Unsigned a < b."""
        return int(a < b)

    def slt(self, w: int, a: int, b: int) -> int:
        """Signed a < b."""
        return int(signed(w, a) < signed(w, b))

    def select(self, w: int, c: int, a: int, b: int) -> int:
        """A if c else b."""
        return a if c else b

    def not1(self, c: int) -> int:
        """The opposite."""
        return c ^ 1

    def zext(self, to: int, w: int, a: int) -> int:
        """Widen with zeros."""
        return a

    def sext(self, to: int, w: int, a: int) -> int:
        """Widen with the sign."""
        return signed(w, a) & ((1 << to) - 1)

    def trunc(self, to: int, w: int, a: int) -> int:
        """The low bits."""
        return a & ((1 << to) - 1)
