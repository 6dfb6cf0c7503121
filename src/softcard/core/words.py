"""Machine words as Python ints: masks, sign extension, alignment, and the bits of floats.

An unsigned word is a Python int from 0 to ``2**bits - 1``; only `signed` returns negative numbers.
"""

from __future__ import annotations

import math
import struct
from typing import Final

U8: Final = 0xFF
U16: Final = 0xFFFF
U32: Final = 0xFFFF_FFFF
U64: Final = 0xFFFF_FFFF_FFFF_FFFF


def u8(value: int) -> int:
    """Return `value` modulo 2**8."""
    return value & U8


def u16(value: int) -> int:
    """Return `value` modulo 2**16."""
    return value & U16


def u32(value: int) -> int:
    """Return `value` modulo 2**32."""
    return value & U32


def u64(value: int) -> int:
    """Return `value` modulo 2**64."""
    return value & U64


def mask(bits: int) -> int:
    """Return a word with the low `bits` bits set: ``2**bits - 1``."""
    return (1 << bits) - 1


def signed(value: int, bits: int) -> int:
    """Return the low `bits` bits of `value` as a two's-complement number."""
    value &= mask(bits)
    return value - (1 << bits) if value >> (bits - 1) else value


def sext(value: int, bits: int, to: int = 64) -> int:
    """Sign-extend the low `bits` bits of `value` to `to` bits; return the result as an unsigned word."""
    return signed(value, bits) & mask(to)


def align_up(value: int, alignment: int) -> int:
    """Return the smallest multiple of `alignment` that is not below `value`."""
    return -(-value // alignment) * alignment


def align_down(value: int, alignment: int) -> int:
    """Return the largest multiple of `alignment` that is not above `value`."""
    return value // alignment * alignment


def is_aligned(value: int, alignment: int) -> bool:
    """Return True if `value` is a multiple of `alignment`."""
    return value % alignment == 0


def f64_bits(value: float) -> int:
    """Return the bits of a Python float as binary64. Every NaN is converted to the quiet NaN 0x7ff8000000000000."""
    # Python converts NaNs as the host's processor does: they are made canonical here to keep results portable.
    if math.isnan(value):
        return 0x7FF8_0000_0000_0000
    return int(struct.unpack("<Q", struct.pack("<d", value))[0])
