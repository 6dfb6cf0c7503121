"""Machine words as Python ints: masks, sign extension, alignment, and floats seen as their bits.

An unsigned word is a Python int from 0 to ``2**bits - 1``; only `signed` gives negative numbers.
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
    """`value` modulo 2**8."""
    return value & U8


def u16(value: int) -> int:
    """`value` modulo 2**16."""
    return value & U16


def u32(value: int) -> int:
    """`value` modulo 2**32."""
    return value & U32


def u64(value: int) -> int:
    """`value` modulo 2**64."""
    return value & U64


def mask(bits: int) -> int:
    """The word of `bits` ones."""
    return (1 << bits) - 1


def signed(value: int, bits: int) -> int:
    """The low `bits` bits of `value` read as a two's-complement number."""
    value &= mask(bits)
    return value - (1 << bits) if value >> (bits - 1) else value


def sext(value: int, bits: int, to: int = 64) -> int:
    """The low `bits` bits of `value` widened to an unsigned word of `to` bits with copies of the top bit."""
    return signed(value, bits) & mask(to)


def bit_field(word: int, high: int, low: int) -> int:
    """Bits `high` .. `low` of `word`, in the order in which documents write them."""
    return word >> low & mask(high - low + 1)


def align_up(value: int, alignment: int) -> int:
    """The smallest multiple of `alignment` that is not below `value`."""
    return -(-value // alignment) * alignment


def align_down(value: int, alignment: int) -> int:
    """The largest multiple of `alignment` that is not above `value`."""
    return value // alignment * alignment


def is_aligned(value: int, alignment: int) -> bool:
    """Whether `value` is a multiple of `alignment`."""
    return value % alignment == 0


def f16_bits(value: float) -> int:
    """Bits of the binary16 nearest to `value`; too large becomes infinity, every NaN the quiet one 0x7e00."""
    return _float_bits("<e", "<H", value, 0x7E00)


def f32_bits(value: float) -> int:
    """Bits of the binary32 nearest to `value`; too large becomes infinity, every NaN the quiet one 0x7fc00000."""
    return _float_bits("<f", "<I", value, 0x7FC0_0000)


def f64_bits(value: float) -> int:
    """Bits of a Python float, which is a binary64; every NaN gives the quiet one 0x7ff8000000000000."""
    return _float_bits("<d", "<Q", value, 0x7FF8_0000_0000_0000)


def f16_from_bits(bits: int) -> float:
    """The number with these binary16 bits; a NaN's payload is lost."""
    return float(struct.unpack("<e", struct.pack("<H", bits))[0])


def f32_from_bits(bits: int) -> float:
    """The number with these binary32 bits; a NaN's payload is lost."""
    return float(struct.unpack("<f", struct.pack("<I", bits))[0])


def f64_from_bits(bits: int) -> float:
    """The number with these binary64 bits; a NaN's payload may be lost."""
    return float(struct.unpack("<d", struct.pack("<Q", bits))[0])


def _float_bits(float_code: str, word_code: str, value: float, nan: int) -> int:
    # Python converts NaNs as the host's processor does, so they are made canonical here to keep results portable.
    if math.isnan(value):
        return nan
    try:
        packed = struct.pack(float_code, value)
    except OverflowError:
        packed = struct.pack(float_code, math.copysign(math.inf, value))
    return int(struct.unpack(word_code, packed)[0])
