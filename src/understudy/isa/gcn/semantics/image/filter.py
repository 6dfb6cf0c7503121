"""From coordinates to texels and weights: addressing modes and filters of one axis.

Coordinates and weights are binary64. A sampled value is the sum of texels times weights; the sum is rounded once
(Choice ``gcn/filter-weights``), and where it is no number, it is the quiet NaN.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from understudy.isa.gcn.semantics import fp
from understudy.isa.gcn.semantics.image.resource import (
    BORDER,
    HALF_BORDER,
    MIRROR,
    MIRROR_BORDER,
    MIRROR_CLAMP,
    MIRROR_HALF_BORDER,
    WRAP,
)
from understudy.isa.gcn.word import Word

ONE: Final = fp.power("d", 0)
HALF: Final = fp.power("d", -1)
FAR: Final = fp.power("d", 30)
"""Coordinates beyond are as good as this one."""
Lanes = Word | bool
"""Lanes that something is true of: all, none, or those of a word of width 1."""


@dataclass(frozen=True, slots=True)
class Tap:
    """One texel of each lane along an axis: its index, whether the image has it (else: border), and its weight.

    None: all lanes have it; the weight is 1.
    """

    index: Word
    there: Word | None = None
    weight: Word | None = None


def either(lanes: Lanes, a: Word, b: Word) -> Word:
    """`a` in these lanes, `b` in the others."""
    return lanes.select(a, b) if isinstance(lanes, Word) else a if lanes else b


def wide(a: Word) -> Word:
    """binary32 as binary64, whatever MODE says of denormals."""
    size = fp.magnitude(a)
    tiny = size.ffrom_int("d", False, "raw").fmul(a.constant(64, fp.power("d", -149)), "raw")
    return fp.is_tiny(a).select(tiny | fp.sign_of(a).zext(64) << 32, a.fconvert("d", "raw"))


def narrow(a: Word) -> Word:
    """binary64 as binary32, rounded to the nearest, whatever MODE says of denormals."""
    size, units = fp.magnitude(a), fp.power("d", fp.FRACTION["d"])
    tiny = (size.fma(size.const(fp.power("d", 149)), size.const(units), "raw") - units).trunc(32)
    tiny |= a[63:63].trunc(32) << 31
    return (size < fp.power("d", -126)).select(tiny, a.fconvert("s", "raw"))


def clean(u: Word) -> Word:
    """Coordinates without NaN (0) and infinity."""
    far = fp.magnitude(u) > FAR
    return fp.choose([(fp.is_nan(u), u.const(0)), (far, fp.copysign(u.const(FAR), u))], u)


def integer(u: Word) -> Word:
    """A float that is an integer of 32 bits: a sum whose last place is 1 has it in its lower half."""
    units = fp.power("d", fp.FRACTION["d"]) + (1 << fp.FRACTION["d"] - 1)
    return u.fadd(u.const(units), "raw").trunc(32)


def remainder(index: Word, size: Word) -> Word:
    """An index modulo a size, from 0 on: no quotient of integers of 32 bits is so near to one that rounding errs."""
    quotient = index.ffrom_int("d", True, "raw").fdiv(size.ffrom_int("d", False, "raw"), "raw")
    return index - integer(quotient.fround("floor")) * size


def address(index: Word, size: Word, mode: int) -> tuple[Word, Word | None]:
    """What an addressing mode makes of texel indices: indices, and whether the image has them (None: all)."""
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
    """The two texels around coordinate `u` (in texels) along an axis; the second weighs 0 in lanes without `linear`.

    One of weight 1 where no lane is `linear`.
    """
    u = clean(u)
    if mode in (HALF_BORDER, MIRROR_HALF_BORDER):
        extent = size.ffrom_int("d", False, "raw")
        end = either(linear, extent, extent - 1)  # or the number before it
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
