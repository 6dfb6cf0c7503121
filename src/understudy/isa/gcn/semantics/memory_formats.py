"""Data and number formats of buffers and images: what registers hold, and what memory holds.

Values are arrays of uint32, one item per lane: components as registers hold them (binary32 bits or 32-bit integers),
and memory as dwords from the lowest byte on. A data format is named with its highest component first: in 2_10_10_10 the
first component (x, red) is the lowest 10 bits, the fourth the highest 2.

Reads are exact: the binary32 number nearest to the component's value. Writes clamp to the format's range, NaN as 0, and
round to the nearest, ties to even (Choice ``gcn/format-write``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from understudy.core.errors import BeyondModel

Lanes = npt.NDArray[Any]

UNORM, SNORM, USCALED, SSCALED, UINT, SINT, SNORM_OGL, FLOAT, SRGB = 0, 1, 2, 3, 4, 5, 6, 7, 9
NUMBER_NAMES: Final = {
    0: "unorm", 1: "snorm", 2: "uscaled", 3: "sscaled", 4: "uint", 5: "sint", 6: "snorm_ogl", 7: "float", 9: "srgb",
}  # fmt: skip
INTEGERS: Final = (UINT, SINT)
"""Number formats whose registers hold integers."""

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
"""Component widths of data formats, lowest bits first."""
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
"""Images have these too; 24 is the shared-exponent format, 22 has 24 unused bits."""
# fmt: on
SHARED_EXPONENT: Final = 24
UNUSED_HIGH: Final = 22
ONE: Final = 0x3F80_0000


def widths(dfmt: int, *, image: bool) -> tuple[int, ...]:
    """Component widths of a data format; () for 0, the format of nothing; `BeyondModel` for those not modelled."""
    if dfmt == 0:
        return ()
    table = IMAGE_WIDTHS if image else BUFFER_WIDTHS
    found = table.get(dfmt)
    if found is None:
        raise BeyondModel(f"data format {dfmt} of {'images' if image else 'buffers'} is not modelled")
    return found


def element_bytes(dfmt: int, *, image: bool) -> int:
    """Bytes of one element."""
    return sum(widths(dfmt, image=image)) // 8


def bits_of(a: Lanes) -> Lanes:
    """float64 numbers as binary32 bits, rounded to the nearest."""
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        return a.astype(np.float32).view(np.uint32)


def numbers(a: Lanes) -> Lanes:
    """binary32 bits as float64 numbers."""
    with np.errstate(invalid="ignore"):
        return a.astype(np.uint32).view(np.float32).astype(np.float64)


def split(words: Sequence[Lanes], layout: Sequence[int]) -> list[Lanes]:
    """The components of elements whose dwords are `words`, as unsigned integers (uint32)."""
    parts, at = [], 0
    for width in layout:
        word, low = divmod(at, 32)
        mask = np.uint32((1 << width) - 1)
        parts.append(words[word] >> np.uint32(low) & mask)
        at += width
    return parts


def join(parts: Sequence[Lanes], layout: Sequence[int]) -> list[Lanes]:
    """The dwords of elements with these components."""
    words: list[Lanes] = [np.zeros_like(parts[0]) for _ in range(max(sum(layout) // 32, 1))]
    at = 0
    for part, width in zip(parts, layout, strict=True):
        word, low = divmod(at, 32)
        words[word] |= (part & np.uint32((1 << width) - 1)) << np.uint32(low)
        at += width
    return words


def signed(a: Lanes, width: int) -> Lanes:
    """Unsigned integers of `width` bits as two's complement (int64)."""
    half = np.int64(1) << np.int64(width - 1)
    return (a.astype(np.int64) ^ half) - half


def small_float(a: Lanes, width: int) -> Lanes:
    """Unsigned floats of 11 or 10 bits (5 of them exponent), or binary16, as binary32 bits."""
    if width == 16:
        return half_bits(a)
    mantissa = width - 5
    return half_bits(a << np.uint32(10 - mantissa))


def half_bits(a: Lanes) -> Lanes:
    """binary16 bits as binary32 bits; payloads of NaNs are kept."""
    a = a.astype(np.uint32)
    sign, exponent, fraction = a >> 15 & 1, a >> 10 & 31, a & 0x3FF
    normal = (exponent + 112) << 23 | fraction << 13
    special = np.uint32(0x7F80_0000) | fraction << 13
    tiny = bits_of(fraction.astype(np.float64) * 2.0**-24)
    return sign << 31 | np.where(exponent == 0, tiny, np.where(exponent == 31, special, normal)).astype(np.uint32)


def to_half(a: Lanes) -> Lanes:
    """binary32 bits as binary16 bits, rounded to the nearest; NaNs become quiet and keep the upper payload."""
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        rounded = a.astype(np.uint32).view(np.float32).astype(np.float16).view(np.uint16).astype(np.uint32)
    nan = (a & 0x7FFF_FFFF) > 0x7F80_0000
    return np.where(nan, a >> 16 & 0x8000 | 0x7E00 | a >> 13 & 0x3FF, rounded).astype(np.uint32)


def srgb_to_linear(c: Lanes) -> Lanes:
    """The sRGB transfer function, float64."""
    return np.where(c <= 0.04045, c / 12.92, ((c + 0.055) / 1.055) ** 2.4)


def linear_to_srgb(c: Lanes) -> Lanes:
    """Its inverse."""
    return np.where(c <= 0.0031308, c * 12.92, 1.055 * c ** (1 / 2.4) - 0.055)


def read_component(a: Lanes, width: int, nfmt: int, position: int) -> Lanes:
    """What a register gets from a component, an unsigned integer of `width` bits; `position` 3 is alpha."""
    top = float((1 << width) - 1)
    if nfmt == UINT or (width == 32 and nfmt in (SINT, FLOAT)):
        return a
    if nfmt == SINT:
        return signed(a, width).astype(np.uint32)
    if nfmt == FLOAT and width in (10, 11, 16):
        return small_float(a, width)
    if nfmt == USCALED:
        return bits_of(a.astype(np.float64))
    if nfmt == SSCALED:
        return bits_of(signed(a, width).astype(np.float64))
    if width < 32 and nfmt in (UNORM, SRGB):
        c = a / top
        return bits_of(srgb_to_linear(c) if nfmt == SRGB and position < 3 else c)
    if width < 32 and nfmt == SNORM:
        return bits_of(np.maximum(signed(a, width) / float((1 << width - 1) - 1 or 1), -1.0))
    if width < 32 and nfmt == SNORM_OGL:
        return bits_of((2 * signed(a, width) + 1) / top)
    raise unknown(nfmt, width)


def unknown(nfmt: int, width: int) -> BeyondModel:
    """The error for a number format that components of `width` bits do not have."""
    return BeyondModel(
        f"number format {nfmt} ({NUMBER_NAMES.get(nfmt, 'reserved')}) of {width}-bit components is not modelled"
    )


def quantised(c: Lanes, low: float, high: float, scale: float) -> Lanes:
    """Numbers clamped, scaled and rounded to the nearest integer, NaN as 0; as uint32."""
    c = np.clip(np.nan_to_num(c, nan=0.0, posinf=high, neginf=low), low, high)
    return np.rint(c * scale).astype(np.int64).astype(np.uint32)


def write_small_float(a: Lanes, width: int) -> Lanes:
    """binary32 bits as unsigned floats of 11 or 10 bits: negative numbers become 0, too large ones infinity."""
    mantissa = width - 5
    c = numbers(a)
    _, exponent = np.frexp(np.where(np.isfinite(c), c, 0.0))
    step = np.exp2(np.maximum(exponent - 1, -14).astype(np.float64) - mantissa)
    with np.errstate(invalid="ignore"):
        rounded = bits_of(np.where(np.isfinite(c), np.rint(c / step) * step, c))
    half = to_half(rounded)
    return np.where((half & 0x8000 != 0) & (half & 0x7FFF <= 0x7C00), 0, half & 0x7FFF).astype(np.uint32) >> (
        10 - mantissa
    )


def write_component(a: Lanes, width: int, nfmt: int, position: int) -> Lanes:
    """The component of `width` bits for what a register holds."""
    if width == 32 and nfmt in (UINT, SINT, FLOAT):
        return a
    if nfmt == UINT:
        return np.minimum(a, np.uint32((1 << width) - 1))
    if nfmt == SINT:
        half = 1 << width - 1
        return np.clip(a.view(np.int32), -half, half - 1).astype(np.uint32)
    if nfmt == FLOAT and width == 16:
        return to_half(a)
    if nfmt == FLOAT and width in (10, 11):
        return write_small_float(a, width)
    if width < 32 and nfmt in (UNORM, SRGB):
        c = np.clip(np.nan_to_num(numbers(a), nan=0.0, posinf=1.0, neginf=0.0), 0.0, 1.0)
        return quantised(linear_to_srgb(c) if nfmt == SRGB and position < 3 else c, 0.0, 1.0, (1 << width) - 1)
    if width < 32 and nfmt == SNORM:
        return quantised(numbers(a), -1.0, 1.0, (1 << width - 1) - 1 or 1)
    raise unknown(nfmt, width)


def read_shared_exponent(words: Sequence[Lanes]) -> list[Lanes]:
    """Three mantissas of 9 bits, one exponent of 5, biased by 15 (5_9_9_9)."""
    *mantissas, exponent = split(words, IMAGE_WIDTHS[SHARED_EXPONENT])
    scale = np.exp2(exponent.astype(np.float64) - 24)
    return [bits_of(m * scale) for m in mantissas]


def write_shared_exponent(parts: Sequence[Lanes]) -> list[Lanes]:
    """The inverse: the exponent is the largest component's, mantissas are rounded to the nearest."""
    top = 511 / 512 * 2.0**16
    colours = [np.clip(np.nan_to_num(numbers(p), nan=0.0, posinf=top, neginf=0.0), 0.0, top) for p in parts[:3]]
    largest = np.maximum(np.maximum(colours[0], colours[1]), colours[2])
    exponent = np.where(largest > 0, np.maximum(np.frexp(largest)[1], -15), -15) + 15
    exponent += np.rint(largest / np.exp2(exponent - 24.0)) >= 512
    mantissas = [np.rint(c / np.exp2(exponent - 24.0)).astype(np.uint32) for c in colours]
    return join([*mantissas, exponent.astype(np.uint32)], IMAGE_WIDTHS[SHARED_EXPONENT])


def one(nfmt: int) -> int:
    """What a component that is 1 reads as."""
    return 1 if nfmt in INTEGERS else ONE


def read(dfmt: int, nfmt: int, words: Sequence[Lanes], *, image: bool) -> list[Lanes]:
    """The four components that registers get; those the format does not have are 0, 0, 0, 1."""
    layout = widths(dfmt, image=image)
    if dfmt == SHARED_EXPONENT and image:
        parts = read_shared_exponent(words)
    else:
        raw = split(words, layout)[: 2 if dfmt == UNUSED_HIGH else 4]
        parts = [read_component(a, w, nfmt, k) for k, (a, w) in enumerate(zip(raw, layout, strict=False))]
    missing = [np.full_like(parts[0], one(nfmt) if k == 3 else 0) for k in range(len(parts), 4)]
    return parts + missing


def write(dfmt: int, nfmt: int, components: Sequence[Lanes], *, image: bool) -> list[Lanes]:
    """The dwords of elements with these components, at least as many as the format has; the low bits of small ones."""
    layout = widths(dfmt, image=image)
    if dfmt == SHARED_EXPONENT and image:
        return write_shared_exponent(components)
    parts = [write_component(a, w, nfmt, k) for k, (a, w) in enumerate(zip(components, layout, strict=False))]
    return join(parts, layout)


def to_d16(nfmt: int, a: Lanes) -> Lanes:
    """What a d16 load keeps of a component: a binary16 number, or the low half of an integer."""
    return a & np.uint32(0xFFFF) if nfmt in INTEGERS else to_half(a)


def from_d16(nfmt: int, a: Lanes) -> Lanes:
    """The component that a d16 store means by the low half of `a`."""
    a = a & np.uint32(0xFFFF)
    if nfmt == SINT:
        return signed(a, 16).astype(np.uint32)
    return a if nfmt == UINT else half_bits(a)
