"""The conversion of a printf buffer, into which kernels have printed, to text.

A record in the buffer consists of the number of its format and the arguments, each in as many bytes as the format's
sizes give. Conversions are those of OpenCL C (6.15.14): the conversions of C and those of vectors (``%v4hlf``). A
string argument is stored inside its record.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Mapping
from itertools import accumulate, pairwise
from typing import Final, NamedTuple

from softcard.image.printf_format import PrintfFormat

# ---- text ------------------------------------------------------------------------------------------------------------


_CONVERSION: Final = re.compile(
    r"%(?P<flags>[-+ #0]*)(?P<width>\*|\d+)?(?:\.(?P<precision>\*|\d*))?"
    r"(?:v(?P<elements>2|3|4|8|16))?(?P<length>hh|hl|h|ll|l|j|z|t|L)?(?P<kind>[diouxXeEfFgGaAcsp%])"
)
_LENGTHS: Final = {"hh": 1, "h": 2, "hl": 4, "l": 8, "ll": 8, "j": 8, "z": 8, "t": 8}
"""The size in bytes of an argument that is a number, by the length modifier in its format."""
_ENDS_STRING: Final = re.compile(rb"[^\0-\x08\x0e-\x1f\x7f]{1,3}\0+")
"""The pattern of a string's last dword: 1 to 3 characters, then zeros up to the end of the dword."""
_FLOATS: Final = {2: "<e", 4: "<f", 8: "<d"}
_HEX_DIGITS: Final = 13
"""The number of hexadecimal digits after the point that represent a double exactly."""
_MOST_DIGITS: Final = 1 << 12
"""The largest supported width or precision; conversions with a larger one are copied unconverted."""


def text_of(data: bytes, formats: Mapping[int, PrintfFormat], end: str = "") -> str:
    """Return the text of all records of a printf buffer, each followed by `end`.

    A record with an unknown format number ends the text with a message about it."""
    records: list[tuple[int, bytes]] = []
    at, odd = 0, ""
    while at + 4 <= len(data):
        number = int.from_bytes(data[at : at + 4], "little")
        known = formats.get(number)
        if known is None:
            odd = f"<printf: no format {number}>\n"
            break
        end_at = at + 4 + sum(known.sizes)
        records.append((number, data[at + 4 : end_at]))
        at = end_at
    sizes = {
        number: _written(formats[number], [record for other, record in records if other == number])
        for number in {number for number, _ in records}
    }
    found = [formatted(formats[number].text, _split(record, sizes[number])) + end for number, record in records]
    return "".join(found) + odd


def _written(known: PrintfFormat, records: list[bytes]) -> tuple[int, ...]:
    """Return the byte sizes that the arguments of the format `known` have in `records`, the records of that format.

    A string argument may be stored in 4 bytes less than the format declares. It is the same string in all
    records. So if the last dword of its declared size differs between records, or cannot end a string, that
    dword belongs to the next argument. If there is only one record and its next argument looks like text, the
    result may be wrong."""
    conversions = list(_CONVERSION.finditer(known.text))
    kinds = [each["kind"] for each in conversions if each["kind"] != "%"]
    if not known.short_strings or "s" not in kinds or any("*" in each[0] for each in conversions):
        return known.sizes
    unused = min(len(record) - len(record.rstrip(b"\0")) for record in records)
    sizes: list[int] = []
    for size, kind in zip(known.sizes, kinds, strict=False):
        last = {record[sum(sizes) + size - 4 : sum(sizes) + size] for record in records}
        is_whole = len(last) == 1 and _ENDS_STRING.fullmatch(next(iter(last)))
        is_short = kind == "s" and size >= 8 and unused >= 4 and not is_whole
        unused -= 4 * is_short
        sizes.append(size - 4 * is_short)
    return (*sizes, *known.sizes[len(sizes) :])


def _split(record: bytes, sizes: tuple[int, ...]) -> list[bytes]:
    places = [0, *accumulate(sizes)]
    return [record[start:stop] for start, stop in pairwise(places)]


def formatted(text: str, arguments: list[bytes]) -> str:
    """Return `text` with each conversion replaced by its argument, as printf does.

    A conversion that is invalid or has no argument is copied unchanged.
    """
    left = iter(arguments)

    def convert(found: re.Match[str]) -> str:
        if found["kind"] == "%":
            return "%"
        flags, width, precision = found["flags"], found["width"], found["precision"]
        try:
            if width == "*":
                given = int.from_bytes(next(left), "little", signed=True)
                flags, width = flags + ("-" if given < 0 else ""), str(abs(given))
            if precision == "*":
                given = int.from_bytes(next(left), "little", signed=True)
                precision = None if given < 0 else str(given)
            raw = next(left)
        except StopIteration:
            return found[0]
        if max(int(width or 0), int(precision or 0)) > _MOST_DIGITS:
            return found[0]
        field = _Field(flags, int(width or 0), None if precision is None else int(precision or 0))
        return _converted(field, found["kind"], found["length"] or "", int(found["elements"] or 0), raw)

    return _CONVERSION.sub(convert, text)


class _Field(NamedTuple):
    """The flags, width and precision of a printf conversion; `precision` is None if the format has none."""

    flags: str
    width: int
    precision: int | None

    def sign(self, is_negative: bool) -> str:
        """Return the sign character of a number: "-", "+", a space, or nothing, as the flags require."""
        return "-" if is_negative else "+" if "+" in self.flags else " " if " " in self.flags else ""

    def padded(self, prefix: str, body: str, can_have_zeros: bool = False) -> str:
        """Return `prefix` (sign or base) and `body` of a number, padded to the width of the field.

        `can_have_zeros` allows the padding with zeros that the flag 0 requests.
        """
        if "-" in self.flags:
            return (prefix + body).ljust(self.width)
        if can_have_zeros and "0" in self.flags:
            return prefix + body.rjust(self.width - len(prefix), "0")
        return (prefix + body).rjust(self.width)


def _converted(field: _Field, kind: str, length: str, elements: int, raw: bytes) -> str:
    if kind == "s":
        return field.padded("", raw.split(b"\0", 1)[0][: field.precision].decode("utf-8", "replace"))
    one = _integer if kind in "diouxXcp" else _real
    if not elements:
        return one(field, kind, raw[: _LENGTHS.get(length, len(raw))] if one is _integer else raw)
    # Compilers widen the elements of vectors of 2 bytes, so their distance may exceed the size of an element.
    stride = len(raw) // (4 if elements == 3 else elements) or 1
    size = min(_LENGTHS.get(length, stride), stride)
    return ",".join(one(field, kind, raw[at : at + size]) for at in range(0, elements * stride, stride))


def _integer(field: _Field, kind: str, raw: bytes) -> str:
    """Return the text of a character, address or integer as in C11 7.21.6.1.

    `kind` is the conversion letter. For integers the precision is the least number of digits.
    """
    value = int.from_bytes(raw, "little", signed=kind in "di")
    if kind == "c":
        return field.padded("", chr(value & 0xFF))
    fewest = 1 if field.precision is None else field.precision
    digits = format(abs(value), {"o": "o", "x": "x", "X": "X", "p": "x"}.get(kind, "d")) if value else ""
    digits = digits.rjust(fewest, "0")
    prefix = field.sign(value < 0) if kind in "di" else "0x" if kind == "p" else ""
    if "#" in field.flags and kind == "o" and not digits.startswith("0"):
        digits = "0" + digits
    elif "#" in field.flags and kind in "xX" and value:
        prefix = "0" + kind
    return field.padded(prefix, digits, can_have_zeros=field.precision is None)


def _real(field: _Field, kind: str, raw: bytes) -> str:
    code = _FLOATS.get(len(raw))
    value = struct.unpack(code, raw)[0] if code else math.nan
    sign = field.sign(math.copysign(1, value) < 0)
    if not math.isfinite(value):
        text = "nan" if math.isnan(value) else "inf"
        return field.padded(sign, text.upper() if kind.isupper() else text)
    if kind in "aA":
        text = _hexadecimal(abs(value), field.precision, "#" in field.flags)
        prefix, text = ("0X", text.upper()) if kind == "A" else ("0x", text)
        return field.padded(sign + prefix, text, can_have_zeros=True)
    shape = "%" + ("#" if "#" in field.flags else "") + ("" if field.precision is None else f".{field.precision}")
    return field.padded(sign, (shape + kind) % abs(value), can_have_zeros=True)


def _hexadecimal(value: float, precision: int | None, has_point: bool) -> str:
    """Return a value's text as C's ``%a`` writes it, but without 0x.

    `precision` is the number of digits after the point; None selects the fewest digits that are exact. Rounding is to
    nearest, ties to even. As in the GNU C library, a number that is rounded up may begin with 2, and a subnormal number
    begins with 0.
    """
    _, exponent = math.frexp(value)
    exponent = max(exponent - 1, -1022) if value else 0
    mantissa = int(math.ldexp(value, 52 - exponent))
    digits = _HEX_DIGITS if precision is None else min(precision, _HEX_DIGITS)
    unit = 16 ** (_HEX_DIGITS - digits)
    mantissa, rest = divmod(mantissa, unit)
    mantissa += 2 * rest > unit or (2 * rest == unit and mantissa & 1)
    whole, tail = divmod(mantissa, 16**digits)
    text = f"{tail:0{digits}x}" if digits else ""
    text = text.rstrip("0") if precision is None else text + "0" * (precision - digits)
    return f"{whole}{'.' if text or has_point else ''}{text}p{exponent:+d}"


# ---- buffer ----------------------------------------------------------------------------------------------------------
# The buffer of kernels' ``printf``, in the layout of AMD's OpenCL device library.
#
# It begins with two dwords: the number of used bytes after them, and the number of bytes there are.


SIZE_BYTES: Final = 1 << 20
"""The size of the buffer; the minimum that OpenCL requires of devices with the full profile."""
_HEADER: Final = 8
EMPTY: Final = bytes(4) + (SIZE_BYTES - _HEADER).to_bytes(4, "little")
"""The header of an empty printf buffer."""


def used_bytes(header: bytes | memoryview) -> int:
    """Return the number of bytes from the start of a printf buffer that kernels have written, header included.

    `header` is the first dword of the buffer."""
    return min(_HEADER + int.from_bytes(header[:4], "little"), SIZE_BYTES)


def written(buffer: bytes | memoryview) -> bytes:
    """Return the bytes that kernels have written into a printf buffer, without its header.

    `buffer` has the used bytes of the printf buffer, or all of them."""
    return bytes(buffer[_HEADER : used_bytes(buffer)])
