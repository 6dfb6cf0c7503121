"""The integer operations of instruction semantics, implemented on Python integers."""

from __future__ import annotations


def signed(w: int, a: int) -> int:
    """Return the `w`-bit number `a`, interpreted as two's complement."""
    return a - (1 << w) if a >> (w - 1) else a


class IntegerOps:
    """Integer operations on Python ints from 0 to 2**w - 1; in most methods `w` is the width in bits."""

    def const(self, w: int, n: int) -> int:
        """Return the constant `n` modulo 2**w."""
        return n & ((1 << w) - 1)

    def add(self, w: int, a: int, b: int) -> int:
        """Return a + b."""
        return (a + b) & ((1 << w) - 1)

    def sub(self, w: int, a: int, b: int) -> int:
        """Return a - b."""
        return (a - b) & ((1 << w) - 1)

    def mul(self, w: int, a: int, b: int) -> int:
        """Return a * b."""
        return (a * b) & ((1 << w) - 1)

    def and_(self, w: int, a: int, b: int) -> int:
        """Return a & b."""
        return a & b

    def or_(self, w: int, a: int, b: int) -> int:
        """Return a | b."""
        return a | b

    def xor(self, w: int, a: int, b: int) -> int:
        """Return a ^ b."""
        return a ^ b

    def not_(self, w: int, a: int) -> int:
        """Return the value with every bit inverted."""
        return a ^ (1 << w) - 1

    def shl(self, w: int, a: int, n: int) -> int:
        """Return a << n, modulo 2**w."""
        return (a << n) & ((1 << w) - 1)

    def lshr(self, w: int, a: int, n: int) -> int:
        """Return a >> n, filled with zeros."""
        return a >> n

    def ashr(self, w: int, a: int, n: int) -> int:
        """Return a >> n, filled with copies of the sign bit."""
        return (signed(w, a) >> n) & ((1 << w) - 1)

    def udiv(self, w: int, a: int, b: int) -> int:
        """Return a / b, unsigned."""
        return a // b

    def urem(self, w: int, a: int, b: int) -> int:
        """Return a % b, unsigned."""
        return a % b

    def sdiv(self, w: int, a: int, b: int) -> int:
        """Return a / b toward zero, signed."""
        x, y = signed(w, a), signed(w, b)
        quotient = abs(x) // abs(y)
        return (quotient if (x < 0) == (y < 0) else -quotient) & ((1 << w) - 1)

    def srem(self, w: int, a: int, b: int) -> int:
        """Return the signed remainder, with the sign of a."""
        x, y = signed(w, a), signed(w, b)
        remainder = abs(x) % abs(y)
        return (-remainder if x < 0 else remainder) & ((1 << w) - 1)

    def ctlz(self, w: int, a: int) -> int:
        """Return the number of zeros above the highest 1 bit."""
        return w - a.bit_length()

    def cttz(self, w: int, a: int) -> int:
        """Return the number of zeros below the lowest 1 bit."""
        return (a & -a).bit_length() - 1 if a else w

    def ctpop(self, w: int, a: int) -> int:
        """Return the number of bits that are 1."""
        return a.bit_count()

    def bswap(self, w: int, a: int) -> int:
        """Return the bytes in reverse order."""
        return int.from_bytes(a.to_bytes(w // 8, "little"), "big")

    def clmul(self, a: int, b: int) -> int:
        """Return the carry-less product, 64 x 64 -> 128 bits."""
        product = 0
        while b:
            low = b & -b
            product ^= a * low
            b ^= low
        return product

    def eq(self, w: int, a: int, b: int) -> int:
        """Return a == b."""
        return int(a == b)

    def ne(self, w: int, a: int, b: int) -> int:
        """Return a != b."""
        return int(a != b)

    def ult(self, w: int, a: int, b: int) -> int:
        """Return a < b, unsigned."""
        return int(a < b)

    def slt(self, w: int, a: int, b: int) -> int:
        """Return a < b, signed."""
        return int(signed(w, a) < signed(w, b))

    def select(self, w: int, c: int, a: int, b: int) -> int:
        """Return a if c is 1, else b."""
        return a if c else b

    def not1(self, c: int) -> int:
        """Return the negation of a width-1 value."""
        return c ^ 1

    def zext(self, to: int, w: int, a: int) -> int:
        """Widen a `w`-bit value to `to` bits with zeros."""
        return a

    def sext(self, to: int, w: int, a: int) -> int:
        """Widen a `w`-bit value to `to` bits with copies of the sign bit."""
        return signed(w, a) & ((1 << to) - 1)

    def trunc(self, to: int, w: int, a: int) -> int:
        """Return the low `to` bits of a value."""
        return a & ((1 << to) - 1)
