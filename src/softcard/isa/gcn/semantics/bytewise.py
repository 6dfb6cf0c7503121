"""Semantics that split registers into bytes: sums of differences, permutation, alignment, interpolation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from softcard.isa.gcn.insn import Computation, Function
from softcard.isa.gcn.semantics import integer as n
from softcard.isa.gcn.word import Word

Difference = Callable[[Word, Word], Word]


def differences(bits: int, *, masked: bool = False, shift: int = 0) -> Difference:
    """Return a function of a and b: the sum of |a - b| over their fields of `bits` bits, shifted left by `shift`.

    With `masked`, fields whose value in b is 0 are left out.
    """

    def semantics(a: Word, b: Word) -> Word:
        total = a.const(0)
        for low in range(0, 32, bits):
            x, y = a[low + bits - 1 : low], b[low + bits - 1 : low]
            difference = n.absolute_difference(x, y)
            total += (y == 0).select(0, difference) if masked else difference
        return total << shift if shift else total

    return semantics


def plus(f: Difference) -> Function:
    """Return the function f(a, b) + c."""
    return lambda a, b, c: f(a, b) + c


def plus_clamped(f: Difference) -> Function:
    """Return the function f(a, b) + c, saturated at 2**32 - 1."""
    limited = n.saturating(n.add_carry, -1)
    return lambda a, b, c: limited(f(a, b), c)[0]


def windows(a: Word) -> list[Word]:
    """Return the four groups of four adjacent bytes that begin at bytes 0 to 3 of a 64-bit value."""
    return [(a >> at if at else a).trunc(32) for at in (0, 8, 16, 24)]


def quad16(f: Difference, *, clamped: bool = False) -> Function:
    """Return a function of a, b, c whose result is four 16-bit sums, packed into 64 bits.

    Each sum is `f` of a four-byte window of the 64-bit a and the 32-bit b, plus a 16-bit field of c. If
    `clamped` is True, the sums are saturated."""

    def semantics(a: Word, b: Word, c: Word) -> Word:
        result = c.const(0)
        for at, window in zip((0, 16, 32, 48), windows(a), strict=True):
            total = f(window, b) + (c >> at).trunc(32)[15:0]
            result |= (total.umin(0xFFFF) if clamped else total[15:0]).zext(64) << at
        return result

    return semantics


def quad32(f: Difference, *, clamped: bool = False) -> Computation:
    """Return a function of a, b, c whose result is four 32-bit sums.

    Each sum is `f` of a four-byte window of the 64-bit a and the 32-bit b, plus a dword of c. If `clamped` is
    True, the sums are saturated."""
    one = (plus_clamped if clamped else plus)(f)

    def semantics(a: Word, b: Word, c: Sequence[Word]) -> list[Word]:
        return [one(window, b, addend) for window, addend in zip(windows(a), c, strict=True)]

    return semantics


def lerp(a: Word, b: Word, c: Word) -> Word:
    """Return (a + b + the lowest bit of c) / 2 for every byte."""
    result = a.const(0)
    for at in (0, 8, 16, 24):
        x, y, z = (v[at + 7 : at] for v in (a, b, c))
        result |= (x + y + z[0:0] >> 1) << at
    return result


def align(unit: int) -> Function:
    """Return the function {a, b} >> (c * `unit`); the low 32 bits are the result, and `unit` is 1 or 8 bits."""
    return lambda a, b, c: (joined(a, b) >> ((c & 32 // unit - 1) * unit).zext(64)).trunc(32)


def joined(a: Word, b: Word) -> Word:
    """Return {a, b}: 64 bits with a in the upper half."""
    return a.zext(64) << 32 | b.zext(64)


SIGNS: Final = {8: 15, 9: 31, 10: 47, 11: 63}
"""The selector values of v_perm_b32 that repeat a sign bit, with the number of that bit in {a, b}."""


def perm(a: Word, b: Word, c: Word) -> Word:
    """Return four bytes, each selected by a byte of c.

    A selector of 0 to 7 selects a byte of {a, b}, 8 to 11 repeats the sign bit of one of its 16-bit halves, 12 gives a
    byte of zeros, and a larger value a byte of ones.
    """
    wide = joined(a, b)
    result = a.const(0)
    for at in (0, 8, 16, 24):
        selector = c[at + 7 : at]
        byte = (wide >> (selector[2:0] << 3).zext(64)).trunc(32)[7:0]
        byte = (selector > 7).select(0xFF, byte)
        byte = (selector == 12).select(0, byte)
        for number, bit in SIGNS.items():
            byte = (selector == number).select(wide[bit].select(a.const(0xFF), 0), byte)
        result |= byte << at
    return result
