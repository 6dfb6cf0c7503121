"""Meanings that take registers apart into bytes: sums of differences, permutation, alignment, interpolation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from understudy.isa.gcn.insn import Computation, Function
from understudy.isa.gcn.semantics import integer as n
from understudy.isa.gcn.word import Word

Difference = Callable[[Word, Word], Word]


def differences(bits: int, *, masked: bool = False, shift: int = 0) -> Difference:
    """The sum of |a - b| over items of `bits` bits, shifted left; `masked`: only where b's item is not 0."""

    def meaning(a: Word, b: Word) -> Word:
        total = a.const(0)
        for low in range(0, 32, bits):
            x, y = a[low + bits - 1 : low], b[low + bits - 1 : low]
            difference = n.absolute_difference(x, y)
            total += (y == 0).select(0, difference) if masked else difference
        return total << shift if shift else total

    return meaning


def plus(f: Difference) -> Function:
    """`f` of two sources plus the third."""
    return lambda a, b, c: f(a, b) + c


def plus_clamped(f: Difference) -> Function:
    """Likewise, at most 2**32 - 1."""
    limited = n.saturating(n.add_carry, -1)
    return lambda a, b, c: limited(f(a, b), c)[0]


def windows(a: Word) -> list[Word]:
    """The four runs of four bytes that begin at bytes 0 to 3 of a 64-bit value."""
    return [(a >> at if at else a).trunc(32) for at in (0, 8, 16, 24)]


def quad16(f: Difference, *, clamped: bool = False) -> Function:
    """`f` of each window of a with b, plus the four halves of c: four halves."""

    def meaning(a: Word, b: Word, c: Word) -> Word:
        result = c.const(0)
        for at, window in zip((0, 16, 32, 48), windows(a), strict=True):
            total = f(window, b) + (c >> at).trunc(32)[15:0]
            result |= (total.umin(0xFFFF) if clamped else total[15:0]).zext(64) << at
        return result

    return meaning


def quad32(f: Difference, *, clamped: bool = False) -> Computation:
    """`f` of each window of a with b, plus the four dwords of c: four dwords."""
    one = (plus_clamped if clamped else plus)(f)

    def meaning(a: Word, b: Word, c: Sequence[Word]) -> list[Word]:
        return [one(window, b, addend) for window, addend in zip(windows(a), c, strict=True)]

    return meaning


def lerp(a: Word, b: Word, c: Word) -> Word:
    """(a + b + c's lowest bit) / 2 of every byte."""
    result = a.const(0)
    for at in (0, 8, 16, 24):
        x, y, z = (v[at + 7 : at] for v in (a, b, c))
        result |= (x + y + z[0:0] >> 1) << at
    return result


def align(unit: int) -> Function:
    """The low 32 bits of {a, b} shifted right by c units of 1 or 8 bits."""
    return lambda a, b, c: (joined(a, b) >> ((c & 32 // unit - 1) * unit).zext(64)).trunc(32)


def joined(a: Word, b: Word) -> Word:
    """{a, b}: 64 bits, a above."""
    return a.zext(64) << 32 | b.zext(64)


SIGNS: Final = {8: 15, 9: 31, 10: 47, 11: 63}
"""Selectors of v_perm_b32 that repeat a bit of {a, b}."""


def perm(a: Word, b: Word, c: Word) -> Word:
    """Every byte of c selects: 0 to 7 a byte of {a, b}, 8 to 11 the sign of one of its halves, 12 zeros, more ones."""
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
