"""Integer semantics that several encodings share: functions of words, whose width selects the variant."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from softcard.isa.gcn.insn import Computation, Function
from softcard.isa.gcn.word import Word

R = TypeVar("R")


def count(n: Word, w: int) -> Word:
    """Return the low bits of the shift count `n` that a shift of a `w`-bit value uses.

    They are 4 bits for `w` = 16, 5 for 32 and 6 for 64."""
    return n.to(w) & w - 1


def shl(a: Word, n: Word) -> Word:
    """Shift `a` left by the low bits of `n` (see `count`)."""
    return a << count(n, a.width)


def lshr(a: Word, n: Word) -> Word:
    """Shift `a` right by the low bits of `n` (see `count`) and insert zeros."""
    return a >> count(n, a.width)


def ashr(a: Word, n: Word) -> Word:
    """Shift `a` right by the low bits of `n` (see `count`) and insert copies of the sign bit."""
    return a.sra(count(n, a.width))


def shift_right(signed: bool, a: Word, n: Word | int) -> Word:
    """Shift right and insert copies of the sign bit if `signed`, else zeros; `n` is below the width."""
    return a.sra(n) if signed else a >> n


def reverse(semantics: Callable[..., R]) -> Callable[..., R]:
    """Return a function like `semantics` with its first two sources exchanged."""
    return lambda a, b, *more: semantics(b, a, *more)


# ---- sums with carry -------------------------------------------------------------------------------------------------
def add_carry(a: Word, b: Word) -> tuple[Word, Word]:
    """Return the sum, and the carry: 1 if the sum is 2**width or more."""
    total = a + b
    return total, total < a


def sub_borrow(a: Word, b: Word) -> tuple[Word, Word]:
    """Return the difference a - b, and the borrow: 1 if b > a."""
    return a - b, a < b


def addc(a: Word, b: Word, c: Word) -> tuple[Word, Word]:
    """Return the sum of a, b and the carry-in c, and the carry-out: 1 if the sum is 2**width or more."""
    total, first = add_carry(a, b)
    result, second = add_carry(total, c.zext(32))
    return result, first | second


def subb(a: Word, b: Word, c: Word) -> tuple[Word, Word]:
    """Return a - b minus the borrow-in c, and the borrow-out: 1 if b + c > a."""
    difference, first = sub_borrow(a, b)
    result, second = sub_borrow(difference, c.zext(32))
    return result, first | second


def saturating(semantics: Callable[..., tuple[Word, Word]], limit: int) -> Callable[..., tuple[Word, Word]]:
    """Return a function like `semantics`, but with the result `limit` if there is a carry or borrow."""

    def clamped(*sources: Word) -> tuple[Word, Word]:
        result, carry = semantics(*sources)
        return carry.select(limit, result), carry

    return clamped


def signed_sum(a: Word, b: Word) -> tuple[Word, Word]:
    """Return the sum a + b, and 1 if there is a signed overflow."""
    total = a + b
    return total, ((total ^ a) & (total ^ b)).slt(0)


def signed_difference(a: Word, b: Word) -> tuple[Word, Word]:
    """Return the difference a - b, and 1 if there is a signed overflow."""
    difference = a - b
    return difference, ((a ^ b) & (a ^ difference)).slt(0)


# ---- products --------------------------------------------------------------------------------------------------------
def product(signed: bool, a: Word, b: Word) -> Word:
    """Return the 64-bit product of two 32-bit numbers, which are in two's complement if `signed` is True."""
    return a.extended(64, signed) * b.extended(64, signed)


def mul_hi(signed: bool) -> Callable[[Word, Word], Word]:
    """Return the function of the upper half of a product of two 32-bit numbers."""
    return lambda a, b: product(signed, a, b)[63:32].trunc(32)


def low24(signed: bool, a: Word) -> Word:
    """Return the low 24 bits of `a`, sign-extended to 32 bits if `signed`, else zero-extended."""
    return shift_right(signed, a << 8, 8)


def shifted_sum(a: Word, b: Word, c: Word) -> Word:
    """Return (a << b[2:0]) + c, 64 bits."""
    return (a << b[2:0].zext(64)) + c


def shifted_bytes(*, signed: bool) -> Computation:
    """Return the function that shifts a and b right by c[4:0], saturates each to a byte, and packs both."""
    least, most = (-128, 127) if signed else (0, 255)

    def semantics(a: Word, b: Word, c: Word) -> Word:
        low, high = (x.sra(c[4:0]).smin(most).smax(least) & 0xFF for x in (a, b))
        return (low | high << 8).trunc(16)

    return semantics


def mul24(signed: bool) -> Callable[[Word, Word], Word]:
    """Return the function of the low 32 bits of the product of the low 24 bits of two numbers."""
    return lambda a, b: low24(signed, a) * low24(signed, b)


def mul_hi24(signed: bool) -> Callable[[Word, Word], Word]:
    """Return the function of bits 47:32 of the product of two 24-bit numbers, sign- or zero-extended to 32 bits."""
    return lambda a, b: mul_hi(signed)(low24(signed, a), low24(signed, b))


def mad(a: Word, b: Word, c: Word) -> Word:
    """Return a * b + c."""
    return a * b + c


# ---- bits ------------------------------------------------------------------------------------------------------------
def bitfield_mask(w: int) -> Callable[[Word, Word], Word]:
    """Return the function of two 32-bit sources that makes a mask of `size` ones, shifted left by `start`.

    `size` is in the low bits of the first source, `start` in the low bits of the second."""
    return lambda size, start: (1 << count(size, w)) - 1 << count(start, w)


def extract(signed: bool, a: Word, start: Word, size: Word) -> Word:
    """Return `size` bits of `a` from bit `start` on, sign-extended if `signed`, else zero-extended.

    `start` is below the width. Size 0 gives 0; a size beyond the top bit gives all bits from `start` on.
    """
    # Shift left to the top, then right again; a shift by the width (size 0) is not possible.
    size = size.umin(a.width)
    none = size == 0
    gap = none.select(0, a.width - size)
    result = shift_right(signed, shift_right(signed, a, start) << gap, gap)
    return none.select(0, result)


def first_bit(low: bool, of: Callable[[Word], Word] = lambda a: a) -> Callable[[Word], Word]:
    """Return a function that finds the first bit that is 1, from the lowest bit (`low`) or from the highest.

    The function applies `of` to its source first. It returns a 32-bit word: the distance of the bit from the end
    at which the search starts, or -1 if no bit is 1."""

    def semantics(a: Word) -> Word:
        a = of(a)
        return (a == 0).select(-1, (a.cttz() if low else a.ctlz()).to(32))

    return semantics


def sign_changes(a: Word) -> Word:
    """Return a word in which a bit is 1 if the same bit of `a` differs from the sign bit of `a`."""
    return a ^ a.sra(a.width - 1)


def absolute_difference(a: Word, b: Word) -> Word:
    """Return |a - b| of unsigned numbers."""
    return a.umax(b) - a.umin(b)


def bit_count(a: Word, b: Word) -> Word:
    """Return b plus the number of ones in a."""
    return a.ctpop() + b


def by_truth_table(a: Word, b: Word, c: Word, table: int) -> Word:
    """Return the bitwise function of a, b and c that `table` defines: its bit 4a + 2b + c is the result."""
    return of_rows([table >> row & 1 for row in range(8)], (a, b, c))


def of_rows(rows: Sequence[int], sources: Sequence[Word]) -> Word:
    """Apply a truth table to each bit of the sources.

    The result bit is the entry of `rows` (0 or 1) whose index is formed by the source bits, the first source highest.
    """
    source, *others = sources
    low, high = rows[: len(rows) // 2], rows[len(rows) // 2 :]
    if low == high:
        return of_rows(low, others) if others else source.const(-low[0])
    if not others:
        return source if high[0] else ~source
    without, with_ = of_rows(low, others), of_rows(high, others)
    if all(p != q for p, q in zip(low, high, strict=True)):
        return source ^ without
    if not any(low) or not any(high):
        return source & with_ if any(high) else ~source & without
    if all(low) or all(high):
        return source | without if all(high) else ~source | with_
    return source & with_ | ~source & without


# ---- saturation ------------------------------------------------------------------------------------------------------
def clamp(w: int, signed: bool, a: Word) -> Word:
    """Saturate a signed 64-bit number to the range of `w`-bit numbers, signed or unsigned; return `w` bits."""
    least, most = (-1 << w - 1, (1 << w - 1) - 1) if signed else (0, (1 << w) - 1)
    return a.smin(most).smax(least).trunc(w)


def clamped(w: int, signed: bool, f: Function) -> Function:
    """Return a function that applies `f` to its sources extended to 64 bits, and saturates the result to `w` bits."""
    return lambda *sources: clamp(w, signed, f(*(a.extended(64, signed) for a in sources)))


def clamped24(signed: bool, *, plus: bool) -> Function:
    """Return the function of the product of two 24-bit numbers, saturated to 32 bits.

    With `plus`, a third 32-bit source is added before saturation.
    """

    def semantics(a: Word, b: Word, *c: Word) -> Word:
        wide = product(signed, low24(signed, a), low24(signed, b))
        return clamp(32, signed, wide + c[0].extended(64, signed) if plus else wide)

    return semantics


# ---- lanes -----------------------------------------------------------------------------------------------------------
def mbcnt(*, upper: bool) -> Callable[[Word, Word], Word]:
    """Return the function of b plus the number of ones in a that belong to lanes below the executing lane.

    If `upper` is True, the bits of a represent lanes 32 to 63, else lanes 0 to 31."""

    def semantics(a: Word, b: Word) -> Word:
        below = (1 << Word(a.algebra, 32, a.algebra.lane_id()).zext(64)) - 1
        return (a & (below[63:32] if upper else below).trunc(32)).ctpop() + b

    return semantics
