"""The atomic operations of translated code, executed on host memory lane by lane, from the lowest lane.

If the host address is less aligned than the guest address, the reference engine executes the atomic, since
hosts have no atomics on unaligned memory. LDS needs no host atomics: the waves of a work-group run one at a
time."""

from __future__ import annotations

from typing import Final

from softcard.engine.gcn.jit.layout import ATOMICS, CHECKED, REPORTED
from softcard.engine.gcn.jit.native_memory import BEYOND, LDS, NOWHERE, note_beyond, reach, within
from softcard.ir.native import A32, A64, U32, U64, add_doubles, add_floats, inlined, lowest_bit, native, signed
from softcard.isa.gcn.state import LDS_BASE, LDS_SIZE, WORDS_AT

SIGN: Final = 1 << 63
INFINITY32: Final = 0x7F80_0000
INFINITY64: Final = 0x7FF0_0000_0000_0000

SWAP, CMPSWAP, ADD, SUB, RSUB, SMIN, UMIN, SMAX, UMAX, AND, OR, XOR, INC, DEC, MSKOR, WRAP = range(16)
FADD, FMIN, FMAX, FCMPSWAP, HADD, BADD = range(16, len(ATOMICS))


@native
def atomic(
    wave: int, space: int, operation: int, size: int, a: int, d: int, c: int, o: int, mask: int, first: int
) -> int:
    """Execute an atomic for the lanes of a mask; return 0, or 1 if the reference engine has to execute it.

    `a`, `d`, `c` and `o` are the host addresses of arrays with one 64-bit word for each lane: guest addresses,
    data, second data and old values (the result). The addresses of all lanes are resolved before the first lane
    changes memory. `first` is unused."""
    if space == LDS and U64.at(wave + WORDS_AT)[CHECKED] != REPORTED:
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
    """Execute an atomic on the work-group's own LDS, which no other thread accesses.

    `atomic` describes the arguments."""
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
        else:
            note_beyond(wave, at, size, 1)
        U64.at(o)[lane] = old


@native
def change32(operation: int, place: int, d: int, c: int) -> int:
    """Execute an atomic on the dword at host address `place`; return the old value.

    `d` is the data and `c` the second data.
    """
    old = A32.load(place)
    while True:
        found = A32.compare_exchange(place, old, changed(operation, old, d, c, 32))
        if found == old:
            return old
        old = found


@native
def change64(operation: int, place: int, d: int, c: int) -> int:
    """Execute an atomic on the quadword at host address `place`; return the old value.

    `d` is the data and `c` the second data.
    """
    old = A64.load(place)
    while True:
        found = A64.compare_exchange(place, old, changed(operation, old, d, c, 0))
        if found == old:
            return old
        old = found


@inlined
def changed(operation: int, old: int, d: int, c: int, free: int) -> int:
    """Return the new value of memory after atomic `operation`.

    `old` is the old value, `d` the data and `c` the second data. A value narrower than 64 bits is in the low bits
    of its 64-bit word; `free` is the number of unused high bits."""
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
    if operation == FCMPSWAP:
        return change_fcmpswap(old, d, c, free)
    if operation == HADD:
        return change_hadd(old, d, c, free)
    return change_badd(old, d, c, free)


@inlined
def change_swap(old: int, d: int, c: int, free: int) -> int:
    """Return the new value of "swap": the data."""
    return d


@inlined
def change_cmpswap(old: int, d: int, c: int, free: int) -> int:
    """Return the new value of "cmpswap": the data if memory holds the second data, else the old value."""
    return d if old == c else old


@inlined
def change_add(old: int, d: int, c: int, free: int) -> int:
    """Return the new value of "add": the sum."""
    return old + d


@inlined
def change_sub(old: int, d: int, c: int, free: int) -> int:
    """Return the new value of "sub": the difference old - d."""
    return old - d


@inlined
def change_rsub(old: int, d: int, c: int, free: int) -> int:
    """Return the new value of "rsub": the difference d - old."""
    return d - old


@inlined
def change_smin(old: int, d: int, c: int, free: int) -> int:
    """Return the new value of "smin": the signed minimum of the old value and the data."""
    return old if signed(old << free) < signed(d << free) else d


@inlined
def change_umin(old: int, d: int, c: int, free: int) -> int:
    """Return the new value of "umin": the unsigned minimum of the old value and the data."""
    return min(old, d)


@inlined
def change_smax(old: int, d: int, c: int, free: int) -> int:
    """Return the new value of "smax": the signed maximum of the old value and the data."""
    return old if signed(old << free) > signed(d << free) else d


@inlined
def change_umax(old: int, d: int, c: int, free: int) -> int:
    """Return the new value of "umax": the unsigned maximum of the old value and the data."""
    return max(old, d)


@inlined
def change_and(old: int, d: int, c: int, free: int) -> int:
    """Return the new value of "and": the bitwise and of the old value and the data."""
    return old & d


@inlined
def change_or(old: int, d: int, c: int, free: int) -> int:
    """Return the new value of "or": the bitwise or of the old value and the data."""
    return old | d


@inlined
def change_xor(old: int, d: int, c: int, free: int) -> int:
    """Return the new value of "xor": the bitwise exclusive or of the old value and the data."""
    return old ^ d


@inlined
def change_inc(old: int, d: int, c: int, free: int) -> int:
    """Return the new value of "inc": the old value plus 1, or 0 if the old value is at least the data."""
    return 0 if old >= d else old + 1


@inlined
def change_dec(old: int, d: int, c: int, free: int) -> int:
    """Return the new value of "dec": the old value minus 1, or the data if it was 0 or above the data."""
    return d if old == 0 or old > d else old - 1


@inlined
def change_mskor(old: int, d: int, c: int, free: int) -> int:
    """Return the new value of "mskor": the old value without the bits set in `c` and with the bits set in `d`."""
    return old & ~c | d


@inlined
def change_wrap(old: int, d: int, c: int, free: int) -> int:
    """Return the new value of "wrap": old - c if old is at least c, else old + d."""
    return old - c if old >= c else old + d


@inlined
def change_fadd(old: int, d: int, c: int, free: int) -> int:
    """Return the new value of "fadd": the sum of the old value and the data as floats."""
    return add_floats(old, d) if free else add_doubles(old, d)


@inlined
def change_fmin(old: int, d: int, c: int, free: int) -> int:
    """Return the new value of "fmin": the minimum of the old value and the data as floats."""
    return d if is_less(d << free, old << free, free) else old


@inlined
def change_fmax(old: int, d: int, c: int, free: int) -> int:
    """Return the new value of "fmax": the maximum of the old value and the data as floats."""
    return d if is_less(old << free, d << free, free) else old


@inlined
def change_fcmpswap(old: int, d: int, c: int, free: int) -> int:
    """Return the new value of "fcmpswap": the data if memory equals the second data as a float, else the old value."""
    return d if is_equal(old << free, c << free, free) else old


@inlined
def change_hadd(old: int, d: int, c: int, free: int) -> int:
    """Return the new value of "hadd": the sums of two pairs of packed binary16 numbers."""
    low = half_of(add_floats(float_of(old & 0xFFFF), float_of(d & 0xFFFF)))
    return low | half_of(add_floats(float_of(old >> 16), float_of(d >> 16))) << 16


@inlined
def float_of(half: int) -> int:
    """Return a binary16 number converted to binary32; the argument and the result are bit patterns."""
    sign, rest = (half & 0x8000) << 16, half & 0x7FFF
    if rest >= 0x7C00:
        return sign | INFINITY32 | (rest & 0x3FF) << 13
    if rest >= 0x400:
        return sign | (rest << 13) + (112 << 23)
    return sign | add_floats((rest << 13) + (113 << 23), 113 << 23 | 1 << 31)  # exact


@inlined
def half_of(number: int) -> int:
    """Return a binary32 number converted to binary16, rounded to nearest even; both are bit patterns.

    If the binary32 is the sum of two binary16 numbers, the binary16 result is the correctly rounded sum."""
    sign, rest = number >> 16 & 0x8000, number & 0x7FFF_FFFF
    if rest > INFINITY32:
        return 0x7E00
    if rest >= 0x477F_F000:
        return sign | 0x7C00
    if rest < 113 << 23:
        return sign | add_floats(rest, 126 << 23) - (126 << 23)
    return sign | rest - (112 << 23) + 0xFFF + (rest >> 13 & 1) >> 13


@inlined
def change_badd(old: int, d: int, c: int, free: int) -> int:
    """Return the new value of "badd": the sums of two pairs of packed bfloat16 numbers."""
    low = bfloat_of(add_floats(old << 16 & 0xFFFF_0000, d << 16 & 0xFFFF_0000))
    return low | bfloat_of(add_floats(old & 0xFFFF_0000, d & 0xFFFF_0000)) << 16


@inlined
def bfloat_of(number: int) -> int:
    """Return a binary32 number converted to bfloat16, rounded to nearest even; both are bit patterns.

    If the number is a NaN, it must be the canonical NaN."""
    return number + 0x7FFF + (number >> 16 & 1) >> 16


@inlined
def is_less(a: int, b: int, free: int) -> int:
    """Return 1 if float `a` is less than float `b`, else 0.

    Each is a bit pattern in the high bits of a 64-bit word: binary32 if `free` is not 0, else binary64. The
    host's floating-point control has no influence."""
    below = (a ^ (signed(a) >> 63 | SIGN)) < (b ^ (signed(b) >> 63 | SIGN))
    return below & ((a | b) & ~SIGN != 0) & is_number(a, free) & is_number(b, free)


@inlined
def is_equal(a: int, b: int, free: int) -> int:
    """Return 1 if two floats, in the high bits of 64-bit words, are equal; `is_less` describes the parameters."""
    return ((a == b) | ((a | b) & ~SIGN == 0)) & is_number(a, free) & is_number(b, free)


@inlined
def is_number(a: int, free: int) -> int:
    """Return 1 if a float, in the high bits of a 64-bit word, is not a NaN; `is_less` describes the parameters."""
    return a & ~SIGN <= (INFINITY32 << 32 if free else INFINITY64)


CHANGES: Final = (
    change_swap, change_cmpswap, change_add, change_sub, change_rsub, change_smin, change_umin, change_smax,
    change_umax, change_and, change_or, change_xor, change_inc, change_dec, change_mskor, change_wrap, change_fadd,
    change_fmin, change_fmax, change_fcmpswap, change_hadd, change_badd,
)  # fmt: skip
"""The functions that compute an atomic's new value, by the number of the operation."""
