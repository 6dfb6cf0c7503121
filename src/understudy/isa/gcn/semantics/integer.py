"""Integer meanings that several families share. `w` is the width of operands and result unless said otherwise."""

from __future__ import annotations

from typing import Any

from understudy.isa.gcn.algebra import Value
from understudy.isa.gcn.insn import Meaning


def op(name: str, w: int) -> Meaning:
    """An operation of the algebra on operands of width `w`."""
    return lambda o, *sources: getattr(o, name)(w, *sources)


def count(o: Any, w: int, n: Value) -> Value:
    """A shift count: only its low bits matter (5 of 32, 6 of 64, 4 of 16)."""
    return o.and_(w, n, o.const(w, w - 1))


def count_of(o: Any, w: int, n: Value) -> Value:
    """The 32-bit value `n` as a shift count of width `w`."""
    return count(o, w, n if w == 32 else o.zext(w, 32, n) if w > 32 else o.trunc(w, 32, n))


def shl(o: Any, w: int, a: Value, n: Value) -> Value:
    """Shift left by a count of any size. Likewise lshr and ashr."""
    return o.shl(w, a, count(o, w, n))


def lshr(o: Any, w: int, a: Value, n: Value) -> Value:
    """Logical shift right."""
    return o.lshr(w, a, count(o, w, n))


def ashr(o: Any, w: int, a: Value, n: Value) -> Value:
    """Arithmetic shift right."""
    return o.ashr(w, a, count(o, w, n))


def reverse(meaning: Meaning) -> Meaning:
    """The first two sources exchanged."""
    return lambda o, a, b, *more: meaning(o, b, a, *more)


# ---- sums with carry -------------------------------------------------------------------------------------------------
def add_carry(o: Any, a: Value, b: Value) -> tuple[Value, Value]:
    """32-bit sum, and whether it is 2**32 or more."""
    total = o.add(32, a, b)
    return total, o.ult(32, total, a)


def sub_borrow(o: Any, a: Value, b: Value) -> tuple[Value, Value]:
    """32-bit difference, and whether b > a."""
    return o.sub(32, a, b), o.ult(32, a, b)


def addc(o: Any, a: Value, b: Value, c: Value) -> tuple[Value, Value]:
    """`add_carry` with a carry in."""
    total, first = add_carry(o, a, b)
    result, second = add_carry(o, total, o.zext(32, 1, c))
    return result, o.or_(1, first, second)


def subb(o: Any, a: Value, b: Value, c: Value) -> tuple[Value, Value]:
    """`sub_borrow` with a borrow in."""
    difference, first = sub_borrow(o, a, b)
    result, second = sub_borrow(o, difference, o.zext(32, 1, c))
    return result, o.or_(1, first, second)


def saturating(meaning: Meaning, limit: int) -> Meaning:
    """A sum or difference with carry, `limit` where there is one."""

    def clamped(o: Any, *sources: Value) -> tuple[Value, Value]:
        result, carry = meaning(o, *sources)
        return o.select(32, carry, o.const(32, limit), result), carry

    return clamped


def signed_sum(o: Any, w: int, a: Value, b: Value) -> tuple[Value, Value]:
    """Sum, and signed overflow."""
    total = o.add(w, a, b)
    same = o.and_(w, o.xor(w, total, a), o.xor(w, total, b))
    return total, o.slt(w, same, o.const(w, 0))


def signed_difference(o: Any, w: int, a: Value, b: Value) -> tuple[Value, Value]:
    """Difference, and signed overflow."""
    difference = o.sub(w, a, b)
    other = o.and_(w, o.xor(w, a, b), o.xor(w, a, difference))
    return difference, o.slt(w, other, o.const(w, 0))


# ---- products --------------------------------------------------------------------------------------------------------
def product(o: Any, signed: bool, a: Value, b: Value) -> Value:
    """64-bit product of two 32-bit numbers."""
    extend = o.sext if signed else o.zext
    return o.mul(64, extend(64, 32, a), extend(64, 32, b))


def mul_hi(signed: bool) -> Meaning:
    """The upper half of the product."""
    return lambda o, a, b: o.trunc(32, 64, o.lshr(64, product(o, signed, a, b), o.const(64, 32)))


def low24(o: Any, signed: bool, a: Value) -> Value:
    """The low 24 bits, extended to 32."""
    eight = o.const(32, 8)
    return (o.ashr if signed else o.lshr)(32, o.shl(32, a, eight), eight)


def mul24(signed: bool) -> Meaning:
    """Low 32 bits of the product of 24-bit numbers."""
    return lambda o, a, b: o.mul(32, low24(o, signed, a), low24(o, signed, b))


def mul_hi24(signed: bool) -> Meaning:
    """Bits 47:32 of the product of 24-bit numbers, extended."""
    return lambda o, a, b: mul_hi(signed)(o, low24(o, signed, a), low24(o, signed, b))


# ---- bits ------------------------------------------------------------------------------------------------------------
def bitfield_mask(w: int) -> Meaning:
    """`size` ones shifted left by `start`, both taken from the low bits of 32-bit sources."""

    def meaning(o: Any, size: Value, start: Value) -> Value:
        one = o.const(w, 1)
        ones = o.sub(w, o.shl(w, one, count_of(o, w, size)), one)
        return o.shl(w, ones, count_of(o, w, start))

    return meaning


def extract(o: Any, w: int, signed: bool, a: Value, start: Value, size: Value) -> Value:
    """`size` bits of `a` from bit `start` (below w), extended; size 0 gives 0, w or more all above start."""
    bits = o.const(w, w)
    size = o.umin(w, size, bits)
    # Left to the top, then right again; a shift by w (size 0) is made in two steps.
    shifted = o.lshr(w, a, start) if not signed else o.ashr(w, a, start)
    gap = o.sub(w, bits, size)
    all_gone = o.eq(w, size, o.const(w, 0))
    gap = o.select(w, all_gone, o.const(w, 0), gap)
    result = (o.ashr if signed else o.lshr)(w, o.shl(w, shifted, gap), gap)
    return o.select(w, all_gone, o.const(w, 0), result)


def first_bit(w: int, low: bool, a_of: Any = lambda o, w, a: a) -> Meaning:
    """Position of the first one from below (`low`) or above, -1 without one; 32 bits. `a_of` prepares the source."""

    def meaning(o: Any, a: Value) -> Value:
        a = a_of(o, w, a)
        place = (o.cttz if low else o.ctlz)(w, a)
        place = place if w == 32 else o.trunc(32, w, place)
        return o.select(32, o.eq(w, a, o.const(w, 0)), o.const(32, -1), place)

    return meaning


def sign_changes(o: Any, w: int, a: Value) -> Value:
    """Ones below the sign's run: where a bit differs from the sign bit."""
    return o.xor(w, a, o.ashr(w, a, o.const(w, w - 1)))


def absolute_difference(o: Any, w: int, a: Value, b: Value) -> Value:
    """|a - b|, unsigned."""
    return o.sub(w, o.umax(w, a, b), o.umin(w, a, b))


# ---- saturation ------------------------------------------------------------------------------------------------------
def clamp_signed(o: Any, w: int, a: Value) -> Value:
    """A signed 64-bit number as one of `w` bits, the nearest one where it does not fit."""
    top = (1 << w - 1) - 1
    return o.trunc(w, 64, o.smax(64, o.const(64, -top - 1), o.smin(64, a, o.const(64, top))))


def clamp_unsigned(o: Any, w: int, a: Value) -> Value:
    """A signed 64-bit number as an unsigned one of `w` bits, the nearest one where it does not fit."""
    return o.trunc(w, 64, o.smax(64, o.const(64, 0), o.smin(64, a, o.const(64, (1 << w) - 1))))


def clamped(w: int, signed: bool, f: Meaning) -> Meaning:
    """`f` on the sources extended to 64 bits, its result saturated to `w` bits."""

    def meaning(o: Any, *sources: Value) -> Value:
        wide = f(o, *((o.sext if signed else o.zext)(64, w, a) for a in sources))
        return (clamp_signed if signed else clamp_unsigned)(o, w, wide)

    return meaning


def clamped24(signed: bool, *, plus: bool) -> Meaning:
    """The product of 24-bit numbers, with a third 32-bit source added (`plus`), saturated."""

    def meaning(o: Any, a: Value, b: Value, *c: Value) -> Value:
        wide = product(o, signed, low24(o, signed, a), low24(o, signed, b))
        if plus:
            wide = o.add(64, wide, (o.sext if signed else o.zext)(64, 32, c[0]))
        return (clamp_signed if signed else clamp_unsigned)(o, 32, wide)

    return meaning


def bit_count(o: Any, a: Value, b: Value) -> Value:
    """b plus the ones of a."""
    return o.add(32, o.ctpop(32, a), b)


# ---- lanes -----------------------------------------------------------------------------------------------------------
def lanes_below(o: Any, upper: bool) -> Value:
    """The lower or upper 32 bits of the mask of all lanes below this one."""
    one = o.const(64, 1)
    mask = o.sub(64, o.shl(64, one, o.zext(64, 32, o.lane_id())), one)
    return o.trunc(32, 64, o.lshr(64, mask, o.const(64, 32)) if upper else mask)


def mbcnt(*, upper: bool) -> Meaning:
    """b plus the bits of a that stand for lanes below this one."""
    return lambda o, a, b: o.add(32, o.ctpop(32, o.and_(32, a, lanes_below(o, upper))), b)
