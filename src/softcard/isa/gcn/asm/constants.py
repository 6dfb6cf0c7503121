"""Registers and constants in assembly text: conversion to operand codes, inline constants or literals."""

from __future__ import annotations

import re
import struct
from functools import cache
from typing import Final

from softcard.core.errors import WireError
from softcard.isa.gcn.encoding.operands import (
    ACC0,
    FLOATS,
    HALVES,
    INLINE_FIRST,
    INVERSE_2PI,
    INVERSE_2PI_64,
    LDS_DIRECT,
    LITERAL,
    NO_REGISTER,
    PACKED_PAIRS,
    SGPRS,
    TTMP,
    VGPR0,
    WHOLE,
    scalars,
)
from softcard.isa.gcn.target import Target

SHORT: Final = ("f16", "u16", "i16", "b16")
"""The types of operands whose constants have 16 bits; constants of packed types have 32."""
MASK32: Final = 0xFFFF_FFFF
MASK64: Final = 0xFFFF_FFFF_FFFF_FFFF
UPPER_HALF: Final = 0xFFFF_FFFF_0000_0000
_HALVES: Final = {bits: code for code, bits in HALVES.items()}
_SINGLES: Final = {struct.unpack("<I", struct.pack("<f", float(text)))[0]: code for code, text in FLOATS.items()}
_DOUBLES: Final = {
    struct.unpack("<Q", struct.pack("<d", float(text)))[0]: code
    for code, text in (FLOATS | {INVERSE_2PI: INVERSE_2PI_64}).items()
}
"""The operand codes of the inline float constants, by their bits as binary64."""
_REGISTER: Final = re.compile(r"(v|a|s|ttmp)(?:(\d+)|\[(\d+):(\d+)\])")
MAX_DIGITS: Final = 1000
"""The largest number of digits of an accepted number."""


def literal(value: int, words: int = 1, type_: str = "b32") -> str:
    """Return the text of a literal constant in hexadecimal.

    The number is written as ``lit(number)`` if the number alone would be parsed as an inline constant."""
    text = f"{value:#x}"
    return text if constant(text, words, type_) == LITERAL else f"lit({text})"


def register(target: Target, text: str) -> tuple[int, int] | None:
    """Return the operand code and the number of words of the register `text`; None if it is not a register name.

    Raise `WireError` if the register's number is out of range."""
    found = _REGISTER.fullmatch(text)
    if found is None or (found[1] == "a" and not target.matrix):
        return _named(target.encoding).get(text)
    kind, first, last = found[1], index(found[2] or found[3]), index(found[2] or found[4])
    base, count = {
        "v": (VGPR0, 256),
        "a": (ACC0, 256),
        "s": (0, SGPRS[target.encoding]),
        "ttmp": (TTMP[target.encoding], 124 - TTMP[target.encoding]),
    }[kind]
    if not first <= last < count:
        raise WireError(
            f"register {text} must be in the range {kind}0 to {kind}{count - 1}"
            + (f" on {target}" if kind not in "va" else "")
        )
    return base + first, last - first + 1


@cache
def _named(level: int) -> dict[str, tuple[int, int]]:
    """Return the operand code and the number of words of each special register, by name.

    For status bits, which are valid operands of any width, the number of words is 0."""
    found = {name: (code, 0 if code > NO_REGISTER else 1) for code, name in scalars(level, 1).items()}
    found |= {name.removeprefix("src_"): place for name, place in found.items()}
    found |= {name: (code, 2) for name, code in WHOLE[level].items()}
    return found | dict.fromkeys(("src_lds_direct", "lds_direct"), (LDS_DIRECT, 1))


def constant(text: str, words: int, type_: str) -> int | None:
    """Return the operand code of a constant: that of an inline constant, or 255 for a literal; None for other texts.

    Constants are compared by value, not as text. A float is first rounded to the operand's format. An integer may
    be the value of an integer inline constant, or the bits of a float inline constant of the operand's width.
    Raise `WireError` for a float that the format cannot represent."""
    if text.startswith("lit("):
        return LITERAL
    number = integer(text)
    if number is None:
        value = _float(text)
        return None if value is None else _inline_float(value, words, type_)
    return _inline_integer(number, words, type_)


def operand_constant(text: str, slot_words: int, type_: str) -> int | None:
    """Return the result of `constant` for an operand of `slot_words` words, whose constants may have fewer words."""
    if type_ in PACKED_PAIRS or (slot_words > 1 and type_ == "f32"):
        return constant(text, 1, "f32")
    return constant(text, 2, type_) if type_ == "f64" else constant(text, slot_words, type_)


def _inline_float(value: float, words: int, type_: str) -> int:
    """Return the code of the inline constant that equals a float in the operand's format; 255 if there is none."""
    bits = float_bits(value, words, type_)
    kept = bits & UPPER_HALF if type_ == "f64" else bits  # the value of a double's literal
    if bits <= 64:  # the smallest denormals have the bits of inline integers
        return INLINE_FIRST + bits
    if not kept:
        return INLINE_FIRST
    if words == 2:
        return _DOUBLES.get(bits) or _DOUBLES.get(kept, LITERAL)
    return (_HALVES if is_half(type_) else _SINGLES).get(bits, LITERAL)


def _inline_integer(number: int, words: int, type_: str) -> int:
    """Return the code of the inline constant that equals an integer; 255 if there is none.

    A negative integer may be written in two's complement, with the operand's width or with 64 bits."""
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
    """Return the small negative integer (-16 to -1) that `number` represents in two's complement.

    A number in two's complement has 64 bits, or also 32 bits if the operand has 32 bits. All other numbers are
    returned unchanged."""
    if MASK64 - 16 < number <= MASK64:
        return number - MASK64 - 1
    is_word = words == 1 and type_ not in SHORT
    return number - MASK32 - 1 if is_word and MASK32 - 16 < number <= MASK32 else number


def literal_value(text: str, words: int, type_: str) -> int:
    """Return the 32 bits of a literal constant; a float is converted to the format of the operand.

    Raise `WireError` if the constant does not fit into 32 bits."""
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
    """Return the integer in `text`, decimal or hexadecimal with 0x; None for other texts.

    Raise `WireError` if `text` is longer than any operand can be."""
    if len(text) > MAX_DIGITS:
        raise WireError(f"the operand has {len(text)} characters, expected at most {MAX_DIGITS}")
    try:
        return int(text, 0)
    except ValueError:
        return None


def index(digits: str) -> int:
    """Return the value of decimal digits; for too many digits, a number larger than every register number."""
    return int(digits) if len(digits) <= MAX_DIGITS else 1 << 64


def number(text: str, top: int, what: str) -> int:
    """Return the number in `text`; raise `WireError` if it is not from 0 to `top`.

    `what` is the description of the number in the error message."""
    value = integer(text.strip())
    if value is None or not 0 <= value <= top:
        raise WireError(f"{what} {text.strip()!r} must be a number from 0 to {top:#x}")
    return value


_DECIMAL: Final = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?", re.IGNORECASE)
_HEXADECIMAL: Final = re.compile(r"[-+]?0x[\da-f]*\.?[\da-f]*p[-+]?\d+", re.IGNORECASE)


def _float(text: str) -> float | None:
    """Return the float in `text`, decimal or as C's hexadecimal floats; None for other texts."""
    try:
        if _DECIMAL.fullmatch(text):
            return float(text)
        return float.fromhex(text) if _HEXADECIMAL.fullmatch(text) else None
    except (ValueError, OverflowError):
        return None


def is_half(type_: str) -> bool:
    """Return True if constants of the operand type `type_` are binary16."""
    return type_ in ("f16", "h16")


def float_bits(value: float, words: int, type_: str) -> int:
    """Return the bits of a float rounded to the operand's format; `WireError` if it overflows or underflows."""
    is_short = type_ in SHORT or is_half(type_)
    form, least = ("<d", 0.0) if words == 2 else ("<e", 2.0**-14) if is_short else ("<f", 2.0**-126)
    try:
        (rounded,) = struct.unpack(form, packed := struct.pack(form, value))
    except OverflowError:
        raise WireError(f"{value} overflows in an operand of type {type_}") from None
    if rounded != value and abs(rounded) < least:
        text = f"{value} underflows in an operand of type {type_}"
        raise WireError(f"{text}, expected a magnitude of at least {least:g}, or a number that the type represents")
    if words == 1 and not is_half(type_):  # 16-bit integers read a half of the binary32 number
        packed = struct.pack("<f", value)
    return int.from_bytes(packed, "little")
