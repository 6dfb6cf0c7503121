"""Meanings that take registers apart into bytes: sums of differences, permutation, alignment, interpolation."""

from __future__ import annotations

from typing import Any, Final

from understudy.isa.gcn.algebra import Value
from understudy.isa.gcn.insn import Meaning
from understudy.isa.gcn.semantics import integer as n


def part(o: Any, bits: int, k: int, a: Value) -> Value:
    """Item `k` of `bits` bits of a 32-bit value, as 32 bits."""
    moved = o.lshr(32, a, o.const(32, bits * k)) if k else a
    return o.and_(32, moved, o.const(32, (1 << bits) - 1)) if bits < 32 else moved


def differences(bits: int, *, masked: bool = False, shift: int = 0) -> Meaning:
    """The sum of |a - b| over items of `bits` bits, shifted left; `masked`: only where b's item is not 0."""

    def meaning(o: Any, a: Value, b: Value) -> Value:
        total = o.const(32, 0)
        for k in range(32 // bits):
            x, y = part(o, bits, k, a), part(o, bits, k, b)
            difference = n.absolute_difference(o, 32, x, y)
            if masked:
                difference = o.select(32, o.eq(32, y, o.const(32, 0)), o.const(32, 0), difference)
            total = o.add(32, total, difference)
        return o.shl(32, total, o.const(32, shift)) if shift else total

    return meaning


def plus(f: Meaning) -> Meaning:
    """`f` of two sources plus the third."""
    return lambda o, a, b, c: o.add(32, f(o, a, b), c)


def plus_clamped(f: Meaning) -> Meaning:
    """Likewise, at most 2**32 - 1."""
    limited = n.saturating(n.add_carry, -1)
    return lambda o, a, b, c: limited(o, f(o, a, b), c)[0]


def windows(o: Any, a: Value) -> list[Value]:
    """The four runs of four bytes that begin at bytes 0 to 3 of a 64-bit value."""
    return [o.trunc(32, 64, o.lshr(64, a, o.const(64, 8 * k)) if k else a) for k in range(4)]


def quad16(f: Meaning, *, clamped: bool = False) -> Meaning:
    """`f` of each window of a with b, plus the four halves of c: four halves."""

    def meaning(o: Any, a: Value, b: Value, c: Value) -> Value:
        result = o.const(64, 0)
        for k, window in enumerate(windows(o, a)):
            addend = o.and_(32, o.trunc(32, 64, o.lshr(64, c, o.const(64, 16 * k))), o.const(32, 0xFFFF))
            total = o.add(32, f(o, window, b), addend)
            limit = o.const(32, 0xFFFF)
            total = o.umin(32, total, limit) if clamped else o.and_(32, total, limit)
            result = o.or_(64, result, o.shl(64, o.zext(64, 32, total), o.const(64, 16 * k)))
        return result

    return meaning


def quad32(f: Meaning, *, clamped: bool = False) -> Meaning:
    """`f` of each window of a with b, plus the four dwords of c: four dwords."""
    one = (plus_clamped if clamped else plus)(f)
    return lambda o, a, b, c: [one(o, window, b, addend) for window, addend in zip(windows(o, a), c, strict=True)]


def lerp(o: Any, a: Value, b: Value, c: Value) -> Value:
    """(a + b + c's lowest bit) / 2 of every byte."""
    result = o.const(32, 0)
    for k in range(4):
        rounding = o.and_(32, part(o, 8, k, c), o.const(32, 1))
        total = o.add(32, o.add(32, part(o, 8, k, a), part(o, 8, k, b)), rounding)
        result = o.or_(32, result, o.shl(32, o.lshr(32, total, o.const(32, 1)), o.const(32, 8 * k)))
    return result


def align(unit: int) -> Meaning:
    """The low 32 bits of {a, b} shifted right by c units of 1 or 8 bits."""

    def meaning(o: Any, a: Value, b: Value, c: Value) -> Value:
        wide = o.or_(64, o.shl(64, o.zext(64, 32, a), o.const(64, 32)), o.zext(64, 32, b))
        count = o.mul(32, o.and_(32, c, o.const(32, 32 // unit - 1)), o.const(32, unit))
        return o.trunc(32, 64, o.lshr(64, wide, o.zext(64, 32, count)))

    return meaning


SIGNS: Final = {8: 15, 9: 31, 10: 47, 11: 63}
"""Selectors of v_perm_b32 that repeat a bit of {a, b}."""


def perm(o: Any, a: Value, b: Value, c: Value) -> Value:
    """Every byte of c selects: 0 to 7 a byte of {a, b}, 8 to 11 the sign of one of its halves, 12 zeros, more ones."""
    wide = o.or_(64, o.shl(64, o.zext(64, 32, a), o.const(64, 32)), o.zext(64, 32, b))
    result = o.const(32, 0)
    for k in range(4):
        selector = part(o, 8, k, c)
        at = o.shl(32, o.and_(32, selector, o.const(32, 7)), o.const(32, 3))
        byte = o.and_(32, o.trunc(32, 64, o.lshr(64, wide, o.zext(64, 32, at))), o.const(32, 0xFF))
        byte = o.select(32, o.ult(32, o.const(32, 7), selector), o.const(32, 0xFF), byte)
        byte = o.select(32, o.eq(32, selector, o.const(32, 12)), o.const(32, 0), byte)
        for number, bit in SIGNS.items():
            sign = o.trunc(1, 64, o.lshr(64, wide, o.const(64, bit)))
            repeated = o.select(32, sign, o.const(32, 0xFF), o.const(32, 0))
            byte = o.select(32, o.eq(32, selector, o.const(32, number)), repeated, byte)
        result = o.or_(32, result, o.shl(32, byte, o.const(32, 8 * k)))
    return result
