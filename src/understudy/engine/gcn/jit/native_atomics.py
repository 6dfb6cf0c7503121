"""Atomic operations of translated code: lane after lane, lowest first, on host memory.

Where memory of the host is less aligned than the guest's address the reference engine does them: no host promises more.
LDS belongs to one thread: the waves of a work-group take turns.
"""

from __future__ import annotations

from typing import Final

from understudy.engine.gcn.jit.layout import ATOMICS
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
    if space == LDS:
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
        return d
    if operation == CMPSWAP:
        return d if old == c else old
    if operation == ADD:
        return old + d
    if operation == SUB:
        return old - d
    if operation == RSUB:
        return d - old
    if operation == SMIN:
        return old if signed(old << free) < signed(d << free) else d
    if operation == UMIN:
        return min(old, d)
    if operation == SMAX:
        return old if signed(old << free) > signed(d << free) else d
    if operation == UMAX:
        return max(old, d)
    if operation == AND:
        return old & d
    if operation == OR:
        return old | d
    if operation == XOR:
        return old ^ d
    if operation == INC:
        return 0 if old >= d else old + 1
    if operation == DEC:
        return d if old == 0 or old > d else old - 1
    if operation == WRAP:
        return old - c if old >= c else old + d
    if operation == FADD:
        return add_floats(old, d) if free else add_doubles(old, d)
    if operation == FMIN:
        return d if is_less(d << free, old << free, free) else old
    if operation == FMAX:
        return d if is_less(old << free, d << free, free) else old
    if operation == FCMPSWAP:
        return d if is_equal(old << free, c << free, free) else old
    return old & ~c | d


@inlined
def is_less(a: int, b: int, free: int) -> int:
    """Whether one float is less than another, in the upper bits of words, whatever the host is set to."""
    below = (~a if a >= SIGN else a ^ SIGN) < (~b if b >= SIGN else b ^ SIGN)
    return below & ((a | b) & ~SIGN != 0) & is_number(a, free) & is_number(b, free)


@inlined
def is_equal(a: int, b: int, free: int) -> int:
    """Whether two floats are equal, likewise."""
    return ((a == b) | ((a | b) & ~SIGN == 0)) & is_number(a, free) & is_number(b, free)


@inlined
def is_number(a: int, free: int) -> int:
    """Whether a float is no NaN, likewise."""
    return a & ~SIGN <= (INFINITY32 << 32 if free else INFINITY64)
