"""Integer meanings that several families share: functions of words, whose width says which form it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from understudy.isa.gcn.insn import Function
from understudy.isa.gcn.word import Word

R = TypeVar("R")


def count(n: Word, w: int) -> Word:
    """`n` as a count for shifts of `w` bits: only its low bits matter (4 of 16, 5 of 32, 6 of 64)."""
    return n.to(w) & w - 1


def shl(a: Word, n: Word) -> Word:
    """Shift left by a count of any size. Likewise lshr and ashr."""
    return a << count(n, a.width)


def lshr(a: Word, n: Word) -> Word:
    """Logical shift right."""
    return a >> count(n, a.width)


def ashr(a: Word, n: Word) -> Word:
    """Arithmetic shift right."""
    return a.sra(count(n, a.width))


def shift_right(signed: bool, a: Word, n: Word | int) -> Word:
    """With the sign or with zeros, by a count below the width."""
    return a.sra(n) if signed else a >> n


def reverse(meaning: Callable[..., R]) -> Callable[..., R]:
    """The first two sources exchanged."""
    return lambda a, b, *more: meaning(b, a, *more)


# ---- sums with carry -------------------------------------------------------------------------------------------------
def add_carry(a: Word, b: Word) -> tuple[Word, Word]:
    """Sum, and whether it is 2**width or more."""
    total = a + b
    return total, total < a


def sub_borrow(a: Word, b: Word) -> tuple[Word, Word]:
    """Difference, and whether b > a."""
    return a - b, a < b


def addc(a: Word, b: Word, c: Word) -> tuple[Word, Word]:
    """`add_carry` with a carry in."""
    total, first = add_carry(a, b)
    result, second = add_carry(total, c.zext(32))
    return result, first | second


def subb(a: Word, b: Word, c: Word) -> tuple[Word, Word]:
    """`sub_borrow` with a borrow in."""
    difference, first = sub_borrow(a, b)
    result, second = sub_borrow(difference, c.zext(32))
    return result, first | second


def saturating(meaning: Callable[..., tuple[Word, Word]], limit: int) -> Callable[..., tuple[Word, Word]]:
    """A sum or difference with carry, `limit` where there is one."""

    def clamped(*sources: Word) -> tuple[Word, Word]:
        result, carry = meaning(*sources)
        return carry.select(limit, result), carry

    return clamped


def signed_sum(a: Word, b: Word) -> tuple[Word, Word]:
    """Sum, and signed overflow."""
    total = a + b
    return total, ((total ^ a) & (total ^ b)).slt(0)


def signed_difference(a: Word, b: Word) -> tuple[Word, Word]:
    """Difference, and signed overflow."""
    difference = a - b
    return difference, ((a ^ b) & (a ^ difference)).slt(0)


# ---- products --------------------------------------------------------------------------------------------------------
def product(signed: bool, a: Word, b: Word) -> Word:
    """64-bit product of two 32-bit numbers."""
    return a.extended(64, signed) * b.extended(64, signed)


def mul_hi(signed: bool) -> Callable[[Word, Word], Word]:
    """The upper half of the product."""
    return lambda a, b: product(signed, a, b)[63:32].trunc(32)


def low24(signed: bool, a: Word) -> Word:
    """The low 24 bits, extended to 32."""
    return shift_right(signed, a << 8, 8)


def mul24(signed: bool) -> Callable[[Word, Word], Word]:
    """Low 32 bits of the product of 24-bit numbers."""
    return lambda a, b: low24(signed, a) * low24(signed, b)


def mul_hi24(signed: bool) -> Callable[[Word, Word], Word]:
    """Bits 47:32 of the product of 24-bit numbers, extended."""
    return lambda a, b: mul_hi(signed)(low24(signed, a), low24(signed, b))


def mad(a: Word, b: Word, c: Word) -> Word:
    """a * b + c."""
    return a * b + c


# ---- bits ------------------------------------------------------------------------------------------------------------
def bitfield_mask(w: int) -> Callable[[Word, Word], Word]:
    """`size` ones shifted left by `start`, both taken from the low bits of 32-bit sources."""
    return lambda size, start: (1 << count(size, w)) - 1 << count(start, w)


def extract(signed: bool, a: Word, start: Word, size: Word) -> Word:
    """`size` bits of `a` from bit `start` (below its width), extended; size 0 gives 0, many give all above start."""
    # Left to the top, then right again; a shift by the width (size 0) cannot be.
    size = size.umin(a.width)
    none = size == 0
    gap = none.select(0, a.width - size)
    result = shift_right(signed, shift_right(signed, a, start) << gap, gap)
    return none.select(0, result)


def first_bit(low: bool, of: Callable[[Word], Word] = lambda a: a) -> Callable[[Word], Word]:
    """Position of the first one from below (`low`) or above, -1 without one; 32 bits. `of` prepares the source."""

    def meaning(a: Word) -> Word:
        a = of(a)
        return (a == 0).select(-1, (a.cttz() if low else a.ctlz()).to(32))

    return meaning


def sign_changes(a: Word) -> Word:
    """Ones below the sign's run: where a bit differs from the sign bit."""
    return a ^ a.sra(a.width - 1)


def absolute_difference(a: Word, b: Word) -> Word:
    """|a - b|, unsigned."""
    return a.umax(b) - a.umin(b)


def bit_count(a: Word, b: Word) -> Word:
    """b plus the ones of a."""
    return a.ctpop() + b


# ---- saturation ------------------------------------------------------------------------------------------------------
def clamp(w: int, signed: bool, a: Word) -> Word:
    """A signed 64-bit number as a signed or unsigned one of `w` bits, the nearest one where it does not fit."""
    least, most = (-1 << w - 1, (1 << w - 1) - 1) if signed else (0, (1 << w) - 1)
    return a.smin(most).smax(least).trunc(w)


def clamped(w: int, signed: bool, f: Function) -> Function:
    """`f` on the sources extended to 64 bits, its result saturated to `w` bits."""
    return lambda *sources: clamp(w, signed, f(*(a.extended(64, signed) for a in sources)))


def clamped24(signed: bool, *, plus: bool) -> Function:
    """The product of 24-bit numbers, with a third 32-bit source added (`plus`), saturated."""

    def meaning(a: Word, b: Word, *c: Word) -> Word:
        wide = product(signed, low24(signed, a), low24(signed, b))
        return clamp(32, signed, wide + c[0].extended(64, signed) if plus else wide)

    return meaning


# ---- lanes -----------------------------------------------------------------------------------------------------------
def mbcnt(*, upper: bool) -> Callable[[Word, Word], Word]:
    """b plus the bits of a that stand for lanes below this one; `upper`: for lanes 32 to 63."""

    def meaning(a: Word, b: Word) -> Word:
        below = (1 << Word(a.algebra, 32, a.algebra.lane_id()).zext(64)) - 1
        return (a & (below[63:32] if upper else below).trunc(32)).ctpop() + b

    return meaning
