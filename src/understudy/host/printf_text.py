"""What kernels printed, as text: the records of a printf buffer, each by its format.

A record is the number of its format and its arguments, each in as many bytes as the format says. Conversions are those
of OpenCL C (6.15.14): C's, and vectors (``%v4hlf``); a string stands in its record.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Mapping
from itertools import accumulate, pairwise
from typing import Final

from understudy.image.printf_format import PrintfFormat

_CONVERSION: Final = re.compile(
    r"%(?P<flags>[-+ #0]*)(?P<width>\*|\d+)?(?:\.(?P<precision>\*|\d*))?"
    r"(?:v(?P<elements>2|3|4|8|16))?(?P<length>hh|hl|h|ll|l|j|z|t|L)?(?P<kind>[diouxXeEfFgGaAcsp%])"
)
_LENGTHS: Final = {"hh": 1, "h": 2, "hl": 4, "l": 8, "ll": 8, "j": 8, "z": 8, "t": 8}
"""Bytes of a number by its length modifier."""
_ENDS_STRING: Final = re.compile(rb"[^\0-\x08\x0e-\x1f\x7f]{1,3}\0+")
"""The last dword of a string that is not short: 1 to 3 characters, and what follows them."""
_FLOATS: Final = {2: "<e", 4: "<f", 8: "<d"}
_MOST_DIGITS: Final = 1 << 12
"""Of a width or precision; a larger one is not taken."""


def text_of(data: bytes, formats: Mapping[int, PrintfFormat], end: str = "") -> str:
    """All records of a buffer as text, `end` behind each; a record that no format is known of ends it, and says so."""
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
    """The bytes in which a format's arguments stand in its records: less than its sizes say for short strings.

    A string is the same in all of them: what differs in its last dword is the next argument, and so is what ends no
    string. One record with a number that reads as text may deceive.
    """
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
    """A format with its arguments; a conversion that has none left, or that is none, stands as it is."""
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
        shape = "%" + "".join(dict.fromkeys(flags)) + (width or "")
        shape += "" if precision is None else f".{precision or 0}"
        return _converted(shape, found["kind"], found["length"] or "", int(found["elements"] or 0), raw)

    return _CONVERSION.sub(convert, text)


def _converted(shape: str, kind: str, length: str, elements: int, raw: bytes) -> str:
    if kind == "s":
        return (shape + "s") % raw.split(b"\0", 1)[0].decode("utf-8", "replace")
    one = _integer if kind in "diouxXcp" else _real
    if not elements:
        return one(shape, kind, raw[: _LENGTHS.get(length, len(raw))] if one is _integer else raw)
    size = _LENGTHS.get(length, len(raw) // (4 if elements == 3 else elements))
    return ",".join(one(shape, kind, raw[at : at + size]) for at in range(0, elements * size, size))


def _integer(shape: str, kind: str, raw: bytes) -> str:
    value = int.from_bytes(raw, "little", signed=kind in "di")
    if kind == "c":
        return (shape.split(".")[0] + "s") % chr(value & 0xFF)
    if kind == "p":
        return (shape + "s") % f"{value:#x}"
    if kind == "o" and "#" in shape:
        return (shape.replace("#", "") + "s") % (f"0{value:o}" if value else "0")
    if not value:
        shape = shape.replace("#", "")
    return (shape + ("d" if kind == "u" else kind)) % value


def _real(shape: str, kind: str, raw: bytes) -> str:
    code = _FLOATS.get(len(raw))
    value = struct.unpack(code, raw)[0] if code else math.nan
    if kind in "aA":
        text = _hexadecimal(value, shape.partition(".")[2])
        return (shape.partition(".")[0] + "s") % (text.upper() if kind == "A" else text)
    return str((shape + kind) % value)


def _hexadecimal(value: float, precision: str) -> str:
    """C's ``%a``: the fewest digits that are exact, or as many as `precision` says."""
    text = value.hex()
    if not precision or not math.isfinite(value):
        return re.sub(r"\.?0*p", "p", text)
    digits = min(int(precision), 13)
    fraction, exponent = math.frexp(abs(value))
    whole, rest = divmod(round(fraction * 2 * 16.0**digits), 16**digits)
    tail = (f".{rest:0{digits}x}" if digits else "") + "0" * (int(precision) - digits)
    return f"{'-' if text.startswith('-') else ''}0x{whole}{tail}p{exponent - 1 if value else 0:+d}"
