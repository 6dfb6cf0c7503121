"""Data and number formats of buffers and images: conversion between register values and memory contents.

Values are words of 32 bits. Components are represented as registers hold them (binary32 bits or 32-bit
integers), and memory contents as dwords, beginning with the lowest byte. A data format is named with its
highest component first: in 2_10_10_10 the first component (x, red) is the lowest 10 bits, the fourth the
highest 2.

Reads are exact: the result is the binary32 number nearest to the component's value. Writes clamp to the
format's range, convert NaN to 0, and round to nearest even (Choice ``gcn/format-write``)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, Final, cast

import numpy as np
import numpy.typing as npt

from softcard.core.errors import BeyondModel
from softcard.isa.gcn.semantics import fp
from softcard.isa.gcn.word import Word
from softcard.isa.word import Value

Lanes = npt.NDArray[Any]

UNORM, SNORM, USCALED, SSCALED, UINT, SINT, SNORM_OGL, FLOAT, SRGB = 0, 1, 2, 3, 4, 5, 6, 7, 9
NUMBER_NAMES: Final = {
    0: "unorm", 1: "snorm", 2: "uscaled", 3: "sscaled", 4: "uint", 5: "sint", 6: "snorm_ogl", 7: "float", 9: "srgb",
}  # fmt: skip
INTEGERS: Final = (UINT, SINT)
"""The number formats whose components are integers in registers."""

# fmt: off
BUFFER_WIDTHS: Final[dict[int, tuple[int, ...]]] = {
    1:  (8,),
    2:  (16,),
    3:  (8, 8),
    4:  (32,),
    5:  (16, 16),
    6:  (11, 11, 10),
    7:  (10, 11, 11),
    8:  (2, 10, 10, 10),
    9:  (10, 10, 10, 2),
    10: (8, 8, 8, 8),
    11: (32, 32),
    12: (16, 16, 16, 16),
    13: (32, 32, 32),
    14: (32, 32, 32, 32),
}
"""The component widths in bits of buffer data formats, lowest bits first."""
IMAGE_WIDTHS: Final[dict[int, tuple[int, ...]]] = BUFFER_WIDTHS | {
    16: (5, 6, 5),
    17: (5, 5, 5, 1),
    18: (1, 5, 5, 5),
    19: (4, 4, 4, 4),
    20: (24, 8),
    21: (8, 24),
    22: (32, 8, 24),
    24: (9, 9, 9, 5),
    57: (4, 4),
    58: (5, 5, 6),
}
"""The component widths in bits of image data formats, lowest bits first.

Format 24 is the shared-exponent format; format 22 has 24 unused bits.
"""
# fmt: on
SHARED_EXPONENT: Final = 24
UNUSED_HIGH: Final = 22
ONE: Final = fp.power("s", 0)
TABLED: Final = 8
"""The largest width in bits of a component for whose sRGB conversion tables are used."""


def widths(dfmt: int, *, image: bool) -> tuple[int, ...]:
    """Return the component widths of data format `dfmt`; () for 0, the empty format.

    If `image` is True, it is a data format of images, else of buffers. Raise `BeyondModel` if it is not
    modelled."""
    if dfmt == 0:
        return ()
    table = IMAGE_WIDTHS if image else BUFFER_WIDTHS
    found = table.get(dfmt)
    if found is None:
        raise BeyondModel(f"data format {dfmt} of {'images' if image else 'buffers'} is not modelled")
    return found


def element_bytes(dfmt: int, *, image: bool) -> int:
    """Return the size in bytes of one element in a data format of images, or of buffers if `image` is False."""
    return sum(widths(dfmt, image=image)) // 8


def split(words: Sequence[Word], layout: Sequence[int]) -> list[Word]:
    """Return the components of elements as unsigned integers.

    `words` are the elements' dwords, `layout` the widths of the components.
    """
    parts, at = [], 0
    for width in layout:
        word, low = divmod(at, 32)
        parts.append(words[word][low + width - 1 : low])
        at += width
    return parts


def join(parts: Sequence[Word], layout: Sequence[int]) -> list[Word]:
    """Return the dwords of elements from their components; `layout` has the widths of the components."""
    words = [parts[0].const(0) for _ in range(max(sum(layout) // 32, 1))]
    at = 0
    for part, width in zip(parts, layout, strict=True):
        word, low = divmod(at, 32)
        kept = part[width - 1 : 0]
        words[word] = words[word] | kept << low if low else kept
        at += width
    return words


def signed(a: Word, width: int) -> Word:
    """Convert an unsigned integer of `width` bits to a signed one (two's complement)."""
    half = 1 << width - 1
    return a if width == 32 else (a ^ half) - half


def half_bits(a: Word) -> Word:
    """Convert binary16 bits to binary32 bits; payloads of NaNs are kept."""
    sign, size = a[15:15] << 31, a[14:0]
    normal = (size << 13) + (112 << 23)
    special = size << 13 | fp.infinity("s")
    tiny = size.ffrom_int("s", False, "raw").fmul(a.const(fp.power("s", -24)), "raw")
    return sign | fp.choose([(size < 0x400, tiny), (size < 0x7C00, normal)], special)


def to_half(a: Word) -> Word:
    """Convert binary32 bits to binary16 bits, rounded to the nearest.

    NaNs become quiet and keep the upper bits of their payload.
    """
    nan = a[31:31] << 15 | a[22:13] | fp.quiet_nan("h")
    return fp.is_nan(a).select(nan, a.fconvert("h", "raw").zext(32))


def to_small(a: Word, width: int) -> Word:
    """Convert binary32 bits to an unsigned float of `width` bits, 11 or 10.

    Negative numbers become 0, too large ones infinity."""
    fraction = width - 5
    drop = fp.FRACTION["s"] - fraction
    up = a + ((1 << drop - 1) - 1) + a[drop:drop]
    normal = ((up >> drop) - (112 << fraction)).umin(31 << fraction)
    tiny = nearest(a.umin(fp.power("s", -14)), 1 << 14 + fraction)
    nan = (a[22:13] | fp.quiet_nan("h")) >> 10 - fraction
    return fp.choose([(fp.is_nan(a), nan), (a.slt(0), a.const(0)), (a < fp.power("s", -14), tiny)], normal)


def nearest(a: Word, scale: int, bits: int = 22) -> Word:
    """Return the integer nearest to a float times `scale`; it may be negative and has at most `bits` bits.

    The function adds a number whose last place has the weight 1. Therefore the exact product is rounded to an
    integer in one step."""
    t = "s" if bits <= 22 else "d"
    wide = a if t == "s" else a.fconvert("d", "raw")
    units = fp.power(t, fp.FRACTION[t]) + (1 << fp.FRACTION[t] - 1)
    total = wide.fma(wide.const(_pattern(t, scale)), wide.const(units), "raw")
    return (total - units).to(32)


def _pattern(t: str, n: float) -> int:
    """Return the bits of the float `n` in format `t`, which represents `n` exactly."""
    return int(np.array(n, np.float32).view(np.uint32)) if t == "s" else fp.pattern(float(n))


def by_lane(a: Word, function: Callable[[Lanes], Lanes]) -> Word:
    """Apply a NumPy function to the 64 lanes of a 32-bit value. Only engines that compute with NumPy support this."""
    if not isinstance(a.value, (int, np.ndarray)):
        raise BeyondModel("the JIT engine does not support sRGB: use the reference engine")
    return Word(a.algebra, 32, cast("Value", function(lanes(a))))


def lanes(v: Word) -> Lanes:
    """Return a 32-bit value as an array of 64 lanes. Only operations that are `concrete` (see `Op`) may call this."""
    value: object = v.known(32, "a component")
    return value if isinstance(value, np.ndarray) else np.full(64, value, np.uint32)


def numbers(a: Lanes) -> Lanes:
    """Convert binary32 bits to binary64 numbers."""
    with np.errstate(invalid="ignore"):
        return a.astype(np.uint32).view(np.float32).astype(np.float64)


def bits_of(a: Lanes) -> Lanes:
    """Convert binary64 numbers to binary32 bits, rounded to the nearest."""
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        return a.astype(np.float32).view(np.uint32)


def srgb_to_linear(c: Lanes) -> Lanes:
    """Apply the sRGB transfer function to float64 numbers."""
    return np.where(c <= 0.04045, c / 12.92, ((c + 0.055) / 1.055) ** 2.4)


def linear_to_srgb(c: Lanes) -> Lanes:
    """Apply the inverse of the sRGB transfer function to float64 numbers."""
    return np.where(c <= 0.0031308, c * 12.92, 1.055 * c ** (1 / 2.4) - 0.055)


def _srgb_component(c: Lanes, width: int) -> Lanes:
    """Convert numbers between 0 and 1, as binary32 bits, to the nearest sRGB component of `width` bits."""
    return np.rint(linear_to_srgb(numbers(c)) * float((1 << width) - 1)).astype(np.uint32)


@cache
def _srgb_numbers(width: int) -> tuple[int, ...]:
    """Return the binary32 bits of each sRGB component of `width` bits."""
    top = (1 << width) - 1
    return tuple(bits_of(srgb_to_linear(np.arange(top + 1) / float(top))).tolist())


@cache
def srgb_steps(width: int) -> tuple[int, ...]:
    """Return, for each sRGB component of `width` bits, the least number that converts to it, as binary32 bits.

    The numbers are between 0 and 1."""
    wanted = np.arange(1 << width, dtype=np.uint32)
    least = np.zeros(len(wanted), np.uint32)
    for bit in range(ONE.bit_length() - 1, -1, -1):
        below = least + np.uint32((1 << bit) - 1)  # only bits below this one may be missing
        least += np.where(_srgb_component(np.minimum(below, np.uint32(ONE)), width) < wanted, np.uint32(1 << bit), 0)
    return tuple(least.tolist())


def _last_below(a: Word, steps: tuple[int, ...]) -> Word:
    """Return the index of the last of the ascending `steps` that is not above `a`, or 0 if all are above.

    The number of steps is a power of two.
    """
    number, size = a.const(0), len(steps) // 2
    while size:
        number = (a >= (number + size).entry(steps)).select(number + size, number)
        size //= 2
    return number


def read_component(a: Word, width: int, nfmt: int, position: int) -> Word:
    """Convert a component, an unsigned integer of `width` bits, to a register value.

    `position` is the number of the component; 3 is alpha.
    """
    top = (1 << width) - 1
    if nfmt == UINT or (width == 32 and nfmt in (SINT, FLOAT)):
        return a
    if nfmt == SINT:
        return signed(a, width)
    if nfmt == FLOAT and width in (10, 11, 16):
        return half_bits(a << 15 - width if width < 16 else a)
    if nfmt == USCALED:
        return a.ffrom_int("s", False, "raw")
    if nfmt == SSCALED:
        return signed(a, width).ffrom_int("s", True, "raw")
    if width < 32 and nfmt == SRGB and position < 3:
        if width <= TABLED:
            return a.entry(_srgb_numbers(width))
        return by_lane(a, lambda n: bits_of(srgb_to_linear(n / float(top))))
    if width < 32 and nfmt in (UNORM, SRGB):
        return ratio(a, top)
    if width < 32 and nfmt == SNORM:
        most = (1 << width - 1) - 1 or 1
        return ratio(signed(a, width).smax(-most), most)
    if width < 32 and nfmt == SNORM_OGL:
        return ratio((signed(a, width) << 1) + 1, top)
    raise unknown(nfmt, width)


def ratio(a: Word, n: int) -> Word:
    """Divide a signed integer of at most 24 bits by `n`, also of at most 24 bits.

    Both are exact as floats, so the quotient is rounded once.
    """
    return a.ffrom_int("s", True, "raw").fdiv(a.const(_pattern("s", n)), "raw")


def unknown(nfmt: int, width: int) -> BeyondModel:
    """Return the error that number format `nfmt` is not modelled for components of `width` bits."""
    return BeyondModel(
        f"number format {nfmt} ({NUMBER_NAMES.get(nfmt, 'reserved')}) of {width}-bit components is not modelled"
    )


def clamped(a: Word, high: int, low: int = 0) -> Word:
    """Clamp the float `a` to the range of the bit patterns `low` to `high`; NaN becomes 0.

    The lower bound is 0 or the negative of the upper bound.
    """
    small = (fp.magnitude(a) > high).select(low, a) if low else a.const(0)
    return fp.choose([(fp.is_nan(a), a.const(0)), (a.slt(0), small), (a > high, a.const(high))], a)


def write_component(a: Word, width: int, nfmt: int, position: int) -> Word:
    """Convert a register value to a component of `width` bits; the higher bits of the result are unspecified.

    `position` is the number of the component; 3 is alpha.
    """
    top = (1 << width) - 1
    if width == 32 and nfmt in (UINT, SINT, FLOAT):
        return a
    if nfmt == UINT:
        return a.umin(top)
    if nfmt == SINT:
        half = 1 << width - 1
        return a.smax(-half).smin(half - 1)
    if nfmt == FLOAT and width == 16:
        return to_half(a)
    if nfmt == FLOAT and width in (10, 11):
        return to_small(a, width)
    if width < 32 and nfmt == SRGB and position < 3:
        held = clamped(a, ONE)
        if width <= TABLED:
            return _last_below(held, srgb_steps(width))
        return by_lane(held, lambda n: _srgb_component(n, width))
    if width < 32 and nfmt in (UNORM, SRGB):
        return nearest(clamped(a, ONE), top, width)
    if width < 32 and nfmt == SNORM:
        return nearest(clamped(a, ONE, ONE | fp.sign_bit("s")), (1 << width - 1) - 1 or 1, width)
    raise unknown(nfmt, width)


def read_shared_exponent(words: Sequence[Word]) -> list[Word]:
    """Return the three components of the format 5_9_9_9: 9-bit mantissas with a shared 5-bit exponent, bias 15."""
    *mantissas, exponent = split(words, IMAGE_WIDTHS[SHARED_EXPONENT])
    scale = exponent + (fp.bias("s") - 24) << fp.FRACTION["s"]
    return [m.ffrom_int("s", False, "raw").fmul(scale, "raw") for m in mantissas]


def write_shared_exponent(parts: Sequence[Word]) -> list[Word]:
    """Return the dword of three components in the format 5_9_9_9.

    The largest component determines the exponent; mantissas are rounded to the nearest."""
    colours = [clamped(p, _pattern("s", 511 / 512 * 2.0**16)) for p in parts[:3]]
    largest = colours[0].umax(colours[1]).umax(colours[2])
    exponent = ((largest >> fp.FRACTION["s"]) - (fp.bias("s") - 16)).smax(0)
    up = _scaled(largest, exponent)[9:9]
    exponent = exponent + up
    return join([*(_scaled(c, exponent) for c in colours), exponent], IMAGE_WIDTHS[SHARED_EXPONENT])


def _scaled(a: Word, exponent: Word) -> Word:
    """Return the mantissa of the float `a` for the shared exponent `exponent`, rounded to an integer."""
    scale = fp.bias("s") + 24 - exponent << fp.FRACTION["s"]
    return nearest(a.fmul(scale, "raw"), 1)


def one(nfmt: int) -> int:
    """Return the register value that represents 1 in a number format."""
    return 1 if nfmt in INTEGERS else ONE


def read(dfmt: int, nfmt: int, words: Sequence[Word], *, image: bool) -> list[Word]:
    """Convert an element to the four components that registers receive; `words` are its dwords.

    Components that the format does not have are 0, 0, 0, 1 for x, y, z, w. `image` is True if `dfmt` is a data
    format of images, False if it is one of buffers."""
    layout = widths(dfmt, image=image)
    if dfmt == SHARED_EXPONENT and image:
        parts = read_shared_exponent(words)
    else:
        raw = split(words, layout)[: 2 if dfmt == UNUSED_HIGH else 4]
        parts = [read_component(a, w, nfmt, k) for k, (a, w) in enumerate(zip(raw, layout, strict=False))]
    missing = [words[0].const(one(nfmt) if k == 3 else 0) for k in range(len(parts), 4)]
    return parts + missing


def write(dfmt: int, nfmt: int, components: Sequence[Word], *, image: bool) -> list[Word]:
    """Convert components to the dwords of an element; small elements are the low bits of a dword.

    There must be at least as many components as the format has. `image` is True if `dfmt` is a data format of
    images, False if it is one of buffers."""
    layout = widths(dfmt, image=image)
    if dfmt == SHARED_EXPONENT and image:
        return write_shared_exponent(components)
    parts = [write_component(a, w, nfmt, k) for k, (a, w) in enumerate(zip(components, layout, strict=False))]
    return join(parts, layout)


def to_d16(nfmt: int, a: Word) -> Word:
    """Return the 16 bits that a d16 load writes: a binary16 number, or the low half of an integer."""
    return a[15:0] if nfmt in INTEGERS else to_half(a)


def from_d16(nfmt: int, a: Word) -> Word:
    """Return as a register value the component that a d16 store reads from the low half of `a`.

    It is a binary16 number, or an integer if `nfmt` is an integer format."""
    a = a[15:0]
    if nfmt == SINT:
        return signed(a, 16)
    return a if nfmt == UINT else half_bits(a)
