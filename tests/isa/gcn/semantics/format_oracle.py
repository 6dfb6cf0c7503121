"""Data and number formats in exact arithmetic: fractions and integers, no floating point but the final rounding."""

from __future__ import annotations

import math
import struct
from fractions import Fraction

LAYOUTS = {
    1: (8,), 2: (16,), 3: (8, 8), 4: (32,), 5: (16, 16), 6: (11, 11, 10), 7: (10, 11, 11), 8: (2, 10, 10, 10),
    9: (10, 10, 10, 2), 10: (8,) * 4, 11: (32, 32), 12: (16,) * 4, 13: (32,) * 3, 14: (32,) * 4,
    16: (5, 6, 5), 17: (5, 5, 5, 1), 18: (1, 5, 5, 5), 19: (4, 4, 4, 4), 57: (4, 4),
}  # fmt: skip
UNORM, SNORM, USCALED, SSCALED, UINT, SINT, SNORM_OGL, FLOAT, SRGB = 0, 1, 2, 3, 4, 5, 6, 7, 9
INTEGERS = (UINT, SINT)


def half_even(x: Fraction) -> int:
    """The nearest integer, ties to even."""
    return round(x)


def single(x: Fraction) -> int:
    """binary32 bits of the number nearest to `x`."""
    if x == 0:
        return 0
    sign, x = (1 << 31 if x < 0 else 0), abs(x)
    exponent = math.floor(math.log2(x.numerator) - math.log2(x.denominator))
    while x >= Fraction(2) ** (exponent + 1):
        exponent += 1
    while x < Fraction(2) ** exponent:
        exponent -= 1
    exponent = max(exponent, -126)
    mantissa = half_even(x / Fraction(2) ** (exponent - 23))
    # A mantissa of 2**24 carries into the exponent, one below 2**23 is denormal: both by plain addition.
    bits = (exponent + 126 << 23) + mantissa
    return sign | min(bits, 0x7F80_0000)


def value(bits: int) -> Fraction | None:
    """The number that binary32 bits mean; None for NaN and infinities."""
    x = struct.unpack("<f", bits.to_bytes(4, "little"))[0]
    return Fraction(x) if math.isfinite(x) else None


def signed(width: int, n: int) -> int:
    return n - (1 << width) if n >> width - 1 else n


def unsigned_small(width: int, n: int) -> int:
    """binary32 bits of an unsigned float with 5 exponent bits."""
    mantissa = width - 5
    exponent, fraction = n >> mantissa, n & (1 << mantissa) - 1
    if exponent == 31:
        return 0x7F80_0000 | fraction << 23 - mantissa
    if exponent == 0:
        return single(Fraction(fraction, 1 << mantissa + 14))
    return single((1 + Fraction(fraction, 1 << mantissa)) * Fraction(2) ** (exponent - 15))


def half(n: int) -> int:
    """binary32 bits of a binary16 number."""
    return (n >> 15) << 31 | unsigned_small(15, n & 0x7FFF)


def read(width: int, nfmt: int, n: int, position: int = 0) -> int | None:
    """Return the register value of a component; None if there is no such format."""
    if nfmt == UINT:
        return n
    if nfmt == SINT:
        return signed(width, n) & 0xFFFF_FFFF
    if nfmt == USCALED:
        return single(Fraction(n))
    if nfmt == SSCALED:
        return single(Fraction(signed(width, n)))
    if nfmt == FLOAT and width in (10, 11, 16, 32):
        return n if width == 32 else half(n) if width == 16 else unsigned_small(width, n)
    if nfmt == FLOAT:
        return None
    if width == 32:
        return None
    if nfmt == UNORM or (nfmt == SRGB and position == 3):
        return single(Fraction(n, (1 << width) - 1))
    if nfmt == SNORM:
        return single(max(Fraction(signed(width, n), max((1 << width - 1) - 1, 1)), Fraction(-1)))
    if nfmt == SNORM_OGL:
        return single(Fraction(2 * signed(width, n) + 1, (1 << width) - 1))
    if nfmt == SRGB:
        c = n / ((1 << width) - 1)
        return single(Fraction(c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4))
    return None


def nearest_small(width: int, mantissa: int, x: Fraction) -> int:
    """The unsigned float code nearest to a number that is not negative; infinity where it is too large."""
    if x == 0:
        return 0
    exponent = -14
    while exponent < 15 and x >= Fraction(2) ** (exponent + 1):
        exponent += 1
    scaled = half_even(x / Fraction(2) ** (exponent - mantissa))
    return min((exponent + 14 << mantissa) + scaled, 31 << mantissa)


def write(width: int, nfmt: int, bits: int) -> int | None:
    """The component for what a register holds (no NaN); None where there is no such format."""
    if width == 32 and nfmt in (UINT, SINT, FLOAT):
        return bits
    if nfmt == UINT:
        return min(bits, (1 << width) - 1)
    if nfmt == SINT:
        return max(min(signed(32, bits), (1 << width - 1) - 1), -(1 << width - 1)) & (1 << width) - 1
    if width == 32:
        return None
    x = value(bits)
    infinite = x is None
    x = Fraction(-(1 << 200) if bits >> 31 else 1 << 200) if x is None else x
    if nfmt == UNORM:
        return half_even(min(max(x, Fraction(0)), Fraction(1)) * ((1 << width) - 1))
    if nfmt == SNORM:
        return half_even(min(max(x, Fraction(-1)), Fraction(1)) * max((1 << width - 1) - 1, 1)) & (1 << width) - 1
    if nfmt == FLOAT and width == 16:
        return (bits >> 31) << 15 | (0x7C00 if infinite else nearest_small(16, 10, abs(x)))
    if nfmt == FLOAT and width in (10, 11):
        return 0 if x < 0 else nearest_small(width, width - 5, x)
    return None


def to_half(bits: int) -> int:
    """binary16 bits nearest to binary32 bits; a NaN becomes quiet and keeps its upper payload."""
    if bits & 0x7FFF_FFFF > 0x7F80_0000:
        return bits >> 16 & 0x8000 | 0x7E00 | bits >> 13 & 0x1FF
    made = write(16, FLOAT, bits)
    assert made is not None
    return made


def split(dfmt: int, element: int) -> list[int]:
    """The components of an element."""
    parts = []
    for width in LAYOUTS[dfmt]:
        parts.append(element & (1 << width) - 1)
        element >>= width
    return parts


def size(dfmt: int) -> int:
    """Bytes of an element."""
    return sum(LAYOUTS[dfmt]) // 8
