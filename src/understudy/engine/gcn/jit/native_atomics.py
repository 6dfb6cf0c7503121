"""Atomic operations of translated code: lane after lane, lowest first, on host memory.

Where memory of the host is less aligned than the guest's address the reference engine does them: no host promises more.
LDS belongs to one thread: the waves of a work-group take turns.
"""

from __future__ import annotations

from typing import Final

from understudy.engine.gcn.jit.layout import ATOMICS, CHECKED
from understudy.engine.gcn.jit.native_memory import BEYOND, LDS, NOWHERE, reach, within
from understudy.ir.native import A32, A64, U32, U64, add_doubles, add_floats, inlined, lowest_bit, native, signed
from understudy.isa.gcn.state import LDS_BASE, LDS_SIZE, WORDS_AT

SIGN: Final = 1 << 63
INFINITY32: Final = 0x7F80_0000
INFINITY64: Final = 0x7FF0_0000_0000_0000

SWAP, CMPSWAP, ADD, SUB, RSUB, SMIN, UMIN, SMAX, UMAX, AND, OR, XOR, INC, DEC, MSKOR, WRAP = range(16)
FADD, FMIN, FMAX, FCMPSWAP = range(16, len(ATOMICS))


@native
def atomic(
    wave: int, space: int, operation: int, size: int, a: int, d: int, c: int, o: int, mask: int, first: int
) -> int:
    """Addresses, data, second data and old values are 64-bit words of each lane; 1 where that cannot be done here.

    Places are found for all lanes before the first of them changes. `first` is of no interest.
    """
    if space == LDS and not U64.at(wave + WORDS_AT)[CHECKED]:
        own(wave, operation, size, a, d, c, o, mask)
        return 0
    addresses, data, second, old = U64.at(a), U64.at(d), U64.at(c), U64.at(o)
    left = mask
    while left:
        lane = lowest_bit(left)
        left &= left - 1
        host = reach(wave, space, addresses[lane], size, 1)
        if addresses[lane] & size - 1 or host == NOWHERE or (host != BEYOND and host & size - 1):
            return 1
        old[lane] = host
    while mask:
        lane = lowest_bit(mask)
        mask &= mask - 1
        place = old[lane]
        if place == BEYOND:
            old[lane] = 0
        elif size == 8:
            old[lane] = change64(operation, place, data[lane], second[lane])
        else:
            old[lane] = change32(operation, place, data[lane] & 0xFFFF_FFFF, second[lane] & 0xFFFF_FFFF)
    return 0


@inlined
def own(wave: int, operation: int, size: int, a: int, d: int, c: int, o: int, mask: int) -> None:
    """The same on LDS, which no other thread looks at."""
    words = U64.at(wave + WORDS_AT)
    base, room = words[LDS_BASE], words[LDS_SIZE]
    while mask:
        lane = lowest_bit(mask)
        mask &= mask - 1
        at, data, second = U64.at(a)[lane], U64.at(d)[lane], U64.at(c)[lane]
        old = 0
        if within(at, size, room):
            if size == 8:
                old = U64[base + at]
                U64[base + at] = changed(operation, old, data, second, 0)
            else:
                old = U32[base + at]
                U32[base + at] = changed(operation, old, data & 0xFFFF_FFFF, second & 0xFFFF_FFFF, 32)
        U64.at(o)[lane] = old


@native
def change32(operation: int, place: int, d: int, c: int) -> int:
    """One operation on a dword; what it was."""
    old = A32.load(place)
    while True:
        found = A32.compare_exchange(place, old, changed(operation, old, d, c, 32))
        if found == old:
            return old
        old = found


@native
def change64(operation: int, place: int, d: int, c: int) -> int:
    """The same on a quadword."""
    old = A64.load(place)
    while True:
        found = A64.compare_exchange(place, old, changed(operation, old, d, c, 0))
        if found == old:
            return old
        old = found


@inlined
def changed(operation: int, old: int, d: int, c: int, free: int) -> int:
    """What memory becomes, of its old value, the data and the second data; `free`: bits of a word that it has not."""
    if operation == SWAP:
        return change_swap(old, d, c, free)
    if operation == CMPSWAP:
        return change_cmpswap(old, d, c, free)
    if operation == ADD:
        return change_add(old, d, c, free)
    if operation == SUB:
        return change_sub(old, d, c, free)
    if operation == RSUB:
        return change_rsub(old, d, c, free)
    if operation == SMIN:
        return change_smin(old, d, c, free)
    if operation == UMIN:
        return change_umin(old, d, c, free)
    if operation == SMAX:
        return change_smax(old, d, c, free)
    if operation == UMAX:
        return change_umax(old, d, c, free)
    if operation == AND:
        return change_and(old, d, c, free)
    if operation == OR:
        return change_or(old, d, c, free)
    if operation == XOR:
        return change_xor(old, d, c, free)
    if operation == INC:
        return change_inc(old, d, c, free)
    if operation == DEC:
        return change_dec(old, d, c, free)
    if operation == MSKOR:
        return change_mskor(old, d, c, free)
    if operation == WRAP:
        return change_wrap(old, d, c, free)
    if operation == FADD:
        return change_fadd(old, d, c, free)
    if operation == FMIN:
        return change_fmin(old, d, c, free)
    if operation == FMAX:
        return change_fmax(old, d, c, free)
    return change_fcmpswap(old, d, c, free)


@inlined
def change_swap(old: int, d: int, c: int, free: int) -> int:
    """What it is given."""
    return d


@inlined
def change_cmpswap(old: int, d: int, c: int, free: int) -> int:
    """That, where memory holds the second data."""
    return d if old == c else old


@inlined
def change_add(old: int, d: int, c: int, free: int) -> int:
    """Sum."""
    return old + d


@inlined
def change_sub(old: int, d: int, c: int, free: int) -> int:
    """Difference."""
    return old - d


@inlined
def change_rsub(old: int, d: int, c: int, free: int) -> int:
    """Difference, the other way round."""
    return d - old


@inlined
def change_smin(old: int, d: int, c: int, free: int) -> int:
    """The smaller, signed."""
    return old if signed(old << free) < signed(d << free) else d


@inlined
def change_umin(old: int, d: int, c: int, free: int) -> int:
    """The smaller."""
    return min(old, d)


@inlined
def change_smax(old: int, d: int, c: int, free: int) -> int:
    """The larger, signed."""
    return old if signed(old << free) > signed(d << free) else d


@inlined
def change_umax(old: int, d: int, c: int, free: int) -> int:
    """The larger."""
    return max(old, d)


@inlined
def change_and(old: int, d: int, c: int, free: int) -> int:
    """Bits of both."""
    return old & d


@inlined
def change_or(old: int, d: int, c: int, free: int) -> int:
    """Bits of either."""
    return old | d


@inlined
def change_xor(old: int, d: int, c: int, free: int) -> int:
    """Bits of one."""
    return old ^ d


@inlined
def change_inc(old: int, d: int, c: int, free: int) -> int:
    """One more, up to the data."""
    return 0 if old >= d else old + 1


@inlined
def change_dec(old: int, d: int, c: int, free: int) -> int:
    """One less, down from the data."""
    return d if old == 0 or old > d else old - 1


@inlined
def change_mskor(old: int, d: int, c: int, free: int) -> int:
    """Bits of the second data replaced."""
    return old & ~c | d


@inlined
def change_wrap(old: int, d: int, c: int, free: int) -> int:
    """Less the second data, or more by the first."""
    return old - c if old >= c else old + d


@inlined
def change_fadd(old: int, d: int, c: int, free: int) -> int:
    """Sum of floats."""
    return add_floats(old, d) if free else add_doubles(old, d)


@inlined
def change_fmin(old: int, d: int, c: int, free: int) -> int:
    """The smaller float."""
    return d if is_less(d << free, old << free, free) else old


@inlined
def change_fmax(old: int, d: int, c: int, free: int) -> int:
    """The larger float."""
    return d if is_less(old << free, d << free, free) else old


@inlined
def change_fcmpswap(old: int, d: int, c: int, free: int) -> int:
    """The data, where memory is equal to the second data."""
    return d if is_equal(old << free, c << free, free) else old


@inlined
def is_less(a: int, b: int, free: int) -> int:
    """Whether one float is less than another, in the upper bits of words, whatever the host is set to."""
    below = (a ^ (signed(a) >> 63 | SIGN)) < (b ^ (signed(b) >> 63 | SIGN))
    return below & ((a | b) & ~SIGN != 0) & is_number(a, free) & is_number(b, free)


@inlined
def is_equal(a: int, b: int, free: int) -> int:
    """Whether two floats are equal, likewise."""
    return ((a == b) | ((a | b) & ~SIGN == 0)) & is_number(a, free) & is_number(b, free)


@inlined
def is_number(a: int, free: int) -> int:
    """Whether a float is no NaN, likewise."""
    return a & ~SIGN <= (INFINITY32 << 32 if free else INFINITY64)


CHANGES: Final = (
    change_swap, change_cmpswap, change_add, change_sub, change_rsub, change_smin, change_umin, change_smax,
    change_umax, change_and, change_or, change_xor, change_inc, change_dec, change_mskor, change_wrap, change_fadd,
    change_fmin, change_fmax, change_fcmpswap,
)  # fmt: skip
"""What memory becomes, by the number of the operation."""
