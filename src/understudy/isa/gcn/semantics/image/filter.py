"""From coordinates to texels and weights: addressing modes and filters of one axis.

A sampled value is the sum of texels times weights; weights are exact and the sum is rounded once (Choice
``gcn/filter-weights``).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from understudy.isa.gcn.semantics.image.resource import (
    BORDER,
    HALF_BORDER,
    MIRROR,
    MIRROR_BORDER,
    MIRROR_CLAMP,
    MIRROR_HALF_BORDER,
    WRAP,
)
from understudy.isa.gcn.semantics.memory_formats import Lanes

FAR = float(1 << 30)
"""Coordinates beyond are as good as this one."""


@dataclass(frozen=True, slots=True)
class Tap:
    """One texel of each lane along an axis: its index, whether the image has it (else: border), and its weight."""

    index: Lanes
    there: Lanes
    weight: Lanes


def clean(u: Lanes) -> Lanes:
    """Coordinates without NaN (0) and infinity."""
    return np.asarray(np.clip(np.nan_to_num(u, nan=0.0, posinf=FAR, neginf=-FAR), -FAR, FAR))


def address(index: Lanes, size: int, mode: int) -> tuple[Lanes, Lanes]:
    """What an addressing mode makes of texel indices (int64): indices, and whether the image has them."""
    if mode == WRAP:
        return index % size, np.ones(64, bool)
    if mode == MIRROR:
        turned = index % (2 * size)
        return np.minimum(turned, 2 * size - 1 - turned), np.ones(64, bool)
    if mode in (MIRROR_CLAMP, MIRROR_HALF_BORDER, MIRROR_BORDER):
        index = np.where(index < 0, -1 - index, index)
    there = (index >= 0) & (index < size)
    kept = np.clip(index, 0, size - 1)
    bordered = mode in (BORDER, HALF_BORDER, MIRROR_HALF_BORDER, MIRROR_BORDER)
    return kept, there if bordered else np.ones(64, bool)


def taps(u: Lanes, size: int, mode: int, linear: Lanes, offset: Lanes) -> list[Tap]:
    """The two texels around coordinate `u` (in texels) along an axis; the second weighs 0 in lanes without `linear`."""
    u = clean(u)
    if mode in (HALF_BORDER, MIRROR_HALF_BORDER):
        u = np.abs(u) if mode == MIRROR_HALF_BORDER else u
        u = np.clip(u, 0.0, np.where(linear, float(size), np.nextafter(float(size), 0.0)))
    start = np.where(linear, u - 0.5, u)
    first = np.floor(start)
    fraction = np.where(linear, start - first, 0.0)
    index = first.astype(np.int64) + offset
    found = []
    for k, weight in enumerate((1.0 - fraction, fraction)):
        at, there = address(index + k, size, mode)
        found.append(Tap(at, there, weight))
    return found


def single(index: Lanes) -> list[Tap]:
    """An axis that is not filtered, at an index within the image."""
    return [Tap(index, np.ones(64, bool), np.ones(64))]
