"""Conversion of a texture coordinate to texels and weights along one axis: addressing modes and filters.

Coordinates and weights are binary64. A sampled value is the sum of texels times weights, rounded once (Choice
``gcn/filter-weights``); a NaN becomes the quiet NaN.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from softcard.isa.gcn.semantics import fp
from softcard.isa.gcn.semantics.image.resource import (
    BORDER,
    HALF_BORDER,
    MIRROR,
    MIRROR_BORDER,
    MIRROR_CLAMP,
    MIRROR_HALF_BORDER,
    WRAP,
)
from softcard.isa.gcn.word import Word

ONE: Final = fp.power("d", 0)
HALF: Final = fp.power("d", -1)
FAR: Final = fp.power("d", 30)
"""The limit to which coordinates are clamped; larger ones would give the same texels."""
Lanes = Word | bool
"""A set of lanes: True for all, False for none, or a word of width 1 with a bit for each."""


@dataclass(frozen=True, slots=True)
class Tap:
    """One texel of each lane along an axis: its `index`, its flag `there`, and its `weight`.

    `there` is 1 if the texel lies in the image; otherwise the border colour is used. A flag `there` of None means
    1 in all lanes, and so does a `weight` of None."""

    index: Word
    there: Word | None = None
    weight: Word | None = None


def either(lanes: Lanes, a: Word, b: Word) -> Word:
    """Return `a` in the lanes of the set `lanes`, `b` in the others."""
    return lanes.select(a, b) if isinstance(lanes, Word) else a if lanes else b


def wide(a: Word) -> Word:
    """Convert binary32 to binary64, with denormals kept regardless of MODE."""
    size = fp.magnitude(a)
    tiny = size.ffrom_int("d", False, "raw").fmul(a.constant(64, fp.power("d", -149)), "raw")
    return fp.is_tiny(a).select(tiny | fp.sign_of(a).zext(64) << 32, a.fconvert("d", "raw"))


def narrow(a: Word) -> Word:
    """Convert binary64 to binary32, rounded to the nearest, with denormals kept regardless of MODE."""
    size, units = fp.magnitude(a), fp.power("d", fp.FRACTION["d"])
    tiny = (size.fma(size.const(fp.power("d", 149)), size.const(units), "raw") - units).trunc(32)
    tiny |= a[63:63].trunc(32) << 31
    return (size < fp.power("d", -126)).select(tiny, a.fconvert("s", "raw"))


def clean(u: Word) -> Word:
    """Return coordinates with NaNs replaced by 0, and large or infinite ones clamped to +-`FAR`."""
    far = fp.magnitude(u) > FAR
    return fp.choose([(fp.is_nan(u), u.const(0)), (far, fp.copysign(u.const(FAR), u))], u)


def integer(u: Word) -> Word:
    """Convert a binary64 number with an integral value to a 32-bit integer.

    The function adds a number so large that the integer appears in the low bits of the sum.
    """
    units = fp.power("d", fp.FRACTION["d"]) + (1 << fp.FRACTION["d"] - 1)
    return u.fadd(u.const(units), "raw").trunc(32)


def remainder(index: Word, size: Word) -> Word:
    """Return `index` modulo `size`, from 0 to size - 1.

    The division is done in floats: the quotient of 32-bit integers is never so close to an integer that rounding
    changes the result.
    """
    quotient = index.ffrom_int("d", True, "raw").fdiv(size.ffrom_int("d", False, "raw"), "raw")
    return index - integer(quotient.fround("floor")) * size


def address(index: Word, size: Word, mode: int) -> tuple[Word, Word | None]:
    """Apply the addressing mode `mode` to texel indices.

    Return the resulting indices, and a word that is 1 if the texel lies in the image (None if all do).
    """
    if mode == WRAP:
        return remainder(index, size), None
    if mode == MIRROR:
        turned = remainder(index, size << 1)
        return turned.umin((size << 1) - 1 - turned), None
    if mode in (MIRROR_CLAMP, MIRROR_HALF_BORDER, MIRROR_BORDER):
        index = index.slt(0).select(~index, index)
    kept = index.smax(0).smin(size - 1)
    bordered = mode in (BORDER, HALF_BORDER, MIRROR_HALF_BORDER, MIRROR_BORDER)
    return kept, index < size if bordered else None


def taps(u: Word, size: Word, mode: int, linear: Lanes, offset: Word | None) -> list[Tap]:
    """Return the texels along one axis that contribute to the sample at coordinate `u`, which is in texels.

    They are the two neighbours of `u`; in lanes outside of the set `linear` the second has weight 0. If
    `linear` is False, return one texel of weight 1. `size` is the number of texels along the axis, `mode` the
    addressing mode, and `offset` is added to texel indices."""
    u = clean(u)
    if mode in (HALF_BORDER, MIRROR_HALF_BORDER):
        extent = size.ffrom_int("d", False, "raw")
        end = either(linear, extent, extent - 1)  # without a filter, the largest number below it
        u = fp.magnitude(u) if mode == MIRROR_HALF_BORDER else u
        u = fp.choose([(u.slt(0), u.const(0)), (u > end, end)], u)
    start = either(linear, u.fsub(u.const(HALF), "raw"), u)
    first = start.fround("floor")
    index = integer(first) if offset is None else integer(first) + offset
    if linear is False:
        return [Tap(*address(index, size, mode))]
    fraction = either(linear, start.fsub(first, "raw"), u.const(0))
    weights = u.const(ONE).fsub(fraction, "raw"), fraction
    return [Tap(*address(index + k, size, mode), weight) for k, weight in enumerate(weights)]
