"""Reading registers and constants: names to operand codes, numbers to inline constants or literals."""

from __future__ import annotations

import re
import struct
from functools import cache
from typing import Final

from understudy.core.errors import WireError
from understudy.isa.gcn.encoding.operands import (
    FLOATS,
    HALVES,
    INLINE_FIRST,
    INVERSE_2PI,
    INVERSE_2PI_64,
    LDS_DIRECT,
    LITERAL,
    NO_REGISTER,
    SGPRS,
    TTMP,
    VGPR0,
    WHOLE,
    scalars,
)
from understudy.isa.gcn.target import Target

SHORT: Final = ("f16", "u16", "i16", "b16")
"""Types of operands of 16 bits; packed ones have 32."""
MASK32: Final = 0xFFFF_FFFF
MASK64: Final = 0xFFFF_FFFF_FFFF_FFFF
UPPER_HALF: Final = 0xFFFF_FFFF_0000_0000
_HALVES: Final = {bits: code for code, bits in HALVES.items()}
_SINGLES: Final = {struct.unpack("<I", struct.pack("<f", float(text)))[0]: code for code, text in FLOATS.items()}
_DOUBLES: Final = {
    struct.unpack("<Q", struct.pack("<d", float(text)))[0]: code
    for code, text in (FLOATS | {INVERSE_2PI: INVERSE_2PI_64}).items()
}
"""Codes of the float constants by their bits in each format."""
_REGISTER: Final = re.compile(r"(v|s|ttmp)(?:(\d+)|\[(\d+):(\d+)\])")


def literal(value: int, words: int = 1, type_: str = "b32") -> str:
    """Text of a literal constant: hex, inside ``lit()`` where the bare number would mean an inline constant."""
    text = f"{value:#x}"
    return text if constant(text, words, type_) == LITERAL else f"lit({text})"


def register(target: Target, text: str) -> tuple[int, int] | None:
    """(operand code, words) of a register's name, None where `text` is none; `WireError` for one out of range."""
    found = _REGISTER.fullmatch(text)
    if found is None:
        return _named(target.level).get(text)
    kind, first, last = found[1], int(found[2] or found[3]), int(found[2] or found[4])
    base, count = {
        "v": (VGPR0, 256),
        "s": (0, SGPRS[target.level]),
        "ttmp": (TTMP[target.level], 124 - TTMP[target.level]),
    }[kind]
    if not first <= last < count:
        raise WireError(f"{text} must be of {kind}0 to {kind}{count - 1}" + (f" on {target}" if kind != "v" else ""))
    return base + first, last - first + 1


@cache
def _named(level: int) -> dict[str, tuple[int, int]]:
    """Code and words of the special registers; status sources, which have any width, have 0 words."""
    found = {name: (code, 0 if code > NO_REGISTER else 1) for code, name in scalars(level, 1).items()}
    found |= {name.removeprefix("src_"): place for name, place in found.items()}
    found |= {name: (code, 2) for name, code in WHOLE[level].items()}
    return found | dict.fromkeys(("src_lds_direct", "lds_direct"), (LDS_DIRECT, 1))


def constant(text: str, words: int, type_: str) -> int | None:
    """The operand code of a constant's text: inline where one has the value, 255 for a literal, None for no constant.

    Values are compared, in the operand's width and format, not texts: floats as they are rounded to it, integers as
    themselves and as the bits of a float. `WireError` for floats that the format does not have.
    """
    if text.startswith("lit("):
        return LITERAL
    number = integer(text)
    if number is None:
        value = _float(text)
        return None if value is None else _inline_float(value, words, type_)
    return _inline_integer(number, words, type_)


def _inline_float(value: float, words: int, type_: str) -> int:
    """The code of the constant that a float is in the operand's format; 255 where there is none."""
    bits = float_bits(value, words, type_)
    kept = bits & UPPER_HALF if type_ == "f64" else bits  # what a double's literal would hold
    if bits <= 64:  # of the smallest numbers, too, which have the bits of integers
        return INLINE_FIRST + bits
    if not kept:
        return INLINE_FIRST
    if words == 2:
        return _DOUBLES.get(bits) or _DOUBLES.get(kept, LITERAL)
    return (_HALVES if is_half(type_) else _SINGLES).get(bits, LITERAL)


def _inline_integer(number: int, words: int, type_: str) -> int:
    """Likewise for an integer, which may be written with all bits of the operand, or with 64."""
    if -16 <= (small := _signed(number, words, type_)) <= 64:
        return INLINE_FIRST + small if small >= 0 else 192 - small
    if words == 2:
        wide = number << 32 if type_ == "f64" and abs(number) < 1 << 32 else number
        return _DOUBLES.get(wide & MASK64, LITERAL)
    if is_half(type_):
        return _HALVES.get(number, LITERAL)
    is_word = type_ not in SHORT and -(1 << 31) <= number <= MASK32
    return _SINGLES.get(number & MASK32, LITERAL) if is_word else LITERAL


def _signed(number: int, words: int, type_: str) -> int:
    """An integer that is written without a sign though it has one: in 64 bits, or in the operand's 32."""
    if MASK64 - 16 < number <= MASK64:
        return number - MASK64 - 1
    is_word = words == 1 and type_ not in SHORT
    return number - MASK32 - 1 if is_word and MASK32 - 16 < number <= MASK32 else number


def literal_value(text: str, words: int, type_: str) -> int:
    """The 32 literal bits of a constant's text; floats become bits of the operand's type.

    `WireError` if they do not fit.
    """
    bare = text.removeprefix("lit(").rstrip(")") if text.startswith("lit(") else text
    number = integer(bare)
    if number is None:
        value = _float(bare)
        if value is None:
            raise WireError(f"{text!r} must be a number")
        if words == 2 and type_ != "f64":
            raise WireError(f"{text} must be an inline constant: a literal of {type_} is an integer")
        number = float_bits(value, words, type_) >> (32 if words == 2 else 0)  # a double's literal is its upper half
    number = _signed(number, 2, type_)
    if type_.endswith("16") and -(1 << 15) <= number < 0:
        number &= 0xFFFF
    if not -(1 << 31) <= number < 1 << 32:
        raise WireError(f"{text} must fit into 32 bits")
    return number & 0xFFFF_FFFF


def integer(text: str) -> int | None:
    """The integer that `text` writes, decimal or 0x hex, or None."""
    try:
        return int(text, 0)
    except ValueError:
        return None


def number(text: str, top: int, what: str) -> int:
    """A number from 0 to `top`; `WireError` that calls it `what`."""
    value = integer(text.strip())
    if value is None or not 0 <= value <= top:
        raise WireError(f"{what} {text.strip()!r} must be a number from 0 to {top:#x}")
    return value


_DECIMAL: Final = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?", re.IGNORECASE)
_HEXADECIMAL: Final = re.compile(r"[-+]?0x[\da-f]*\.?[\da-f]*p[-+]?\d+", re.IGNORECASE)


def _float(text: str) -> float | None:
    """The float that `text` writes, decimal or as C's hexadecimal floats, or None."""
    try:
        if _DECIMAL.fullmatch(text):
            return float(text)
        return float.fromhex(text) if _HEXADECIMAL.fullmatch(text) else None
    except (ValueError, OverflowError):
        return None


def is_half(type_: str) -> bool:
    """Whether constants of a type are binary16."""
    return type_ in ("f16", "h16")


def float_bits(value: float, words: int, type_: str) -> int:
    """The bits of a float rounded to the operand's format; `WireError` where it is too large or too small for it."""
    is_short = type_ in SHORT or is_half(type_)
    form, least = ("<d", 0.0) if words == 2 else ("<e", 2.0**-14) if is_short else ("<f", 2.0**-126)
    try:
        (rounded,) = struct.unpack(form, packed := struct.pack(form, value))
    except OverflowError:
        raise WireError(f"{value} does not fit into the operand's {type_}") from None
    if rounded != value and abs(rounded) < least:
        raise WireError(f"{value} is too small for the operand's {type_}")
    if words == 1 and not is_half(type_):  # 16-bit integers read a half of the binary32 number
        packed = struct.pack("<f", value)
    return int.from_bytes(packed, "little")
