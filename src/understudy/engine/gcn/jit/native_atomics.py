"""Atomic operations of translated code: lane after lane, lowest first, on host memory.

Where memory of the host is less aligned than the guest's address the reference engine does them: no host promises more.
"""

from __future__ import annotations

from understudy.engine.gcn.jit.layout import ATOMICS
from understudy.engine.gcn.jit.native_memory import BEYOND, NOWHERE, reach
from understudy.ir.native import A32, A64, U64, inlined, lowest_bit, native, signed

SWAP, CMPSWAP, ADD, SUB, RSUB, SMIN, UMIN, SMAX, UMAX, AND, OR, XOR, INC, DEC, MSKOR = range(len(ATOMICS))


@native
def atomic(
    wave: int, space: int, operation: int, size: int, a: int, d: int, c: int, o: int, mask: int, first: int
) -> int:
    """Addresses, data, second data and old values are 64-bit words of each lane; 1 where that cannot be done here.

    Places are found for all lanes before the first of them changes. `first` is of no interest.
    """
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
    return old & ~c | d
