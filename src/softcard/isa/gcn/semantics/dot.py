"""Dot products of the packed fields of two registers, plus a third operand."""

from __future__ import annotations

from softcard.isa.gcn.insn import Function
from softcard.isa.gcn.semantics import integer as n
from softcard.isa.gcn.word import Word


def items(bits: int, signed: bool, a: Word) -> list[Word]:
    """Return the fields of `bits` bits of the 32-bit register `a`, each zero- or sign-extended to 32 bits."""
    return [n.shift_right(signed, a << 32 - bits - at, 32 - bits) for at in range(0, 32, bits)]


def integers(bits: int, signed: bool, *, saturates: bool = False) -> Function:
    """Return the function of the sum of the products of the fields of a and b, plus c.

    The fields have `bits` bits. With `saturates`, the sum is saturated to 32 bits, else it is taken modulo 2**32.
    """

    def semantics(a: Word, b: Word, c: Word) -> Word:
        total = c.extended(64, signed)
        for x, y in zip(items(bits, signed, a), items(bits, signed, b), strict=True):
            total += n.product(signed, x, y)
        return n.clamp(32, signed, total) if saturates else total.trunc(32)

    return semantics


def f16(a: Word, b: Word, c: Word) -> Word:
    """Return c + the product of the low halves + the product of the high halves of a and b.

    The halves are binary16, c and the result binary32. Every sum is rounded, and denormals are flushed."""
    for x, y in ((a, b), (a[31:16], b[31:16])):
        product = x.trunc(16).fconvert("s").fmul(y.trunc(16).fconvert("s"), "flush")
        c = product.fadd(c, "flush")
    return c


def bf16_chain(a: Word, b: Word, c: Word) -> Word:
    """Return c + the product of the low halves + the product of the high halves of a and b, added in this order.

    The halves are bfloat16, c and the result binary32. Every sum is rounded, and denormals are flushed."""
    for x, y in ((a << 16, b << 16), (a & 0xFFFF_0000, b & 0xFFFF_0000)):
        c = x.fmul(y, "flush").fadd(c, "flush")
    return c


def bf16_together(a: Word, b: Word, c: Word) -> Word:
    """Return the sum of the two products of the bfloat16 halves of a and b, plus c.

    c and the result are binary32. Every sum is rounded, and denormals are flushed."""
    low, high = (a << 16).fmul(b << 16, "flush"), (a & 0xFFFF_0000).fmul(b & 0xFFFF_0000, "flush")
    return low.fadd(high, "flush").fadd(c, "flush")
