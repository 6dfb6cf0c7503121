"""Semantics of v_cube*: the point at which a direction (x, y, z) meets a face of a cube map."""

from __future__ import annotations

from typing import Final

from softcard.isa.gcn.semantics import fp
from softcard.isa.gcn.word import Word

FACES: Final = (0x00000000, 0x3F800000, 0x40000000, 0x40400000, 0x40800000, 0x40A00000)
"""The face numbers 0.0 to 5.0 as binary32 bits."""


def below(a: Word) -> Word:
    """Return 1 (width 1) if a < 0."""
    return a.flt(a.const(0))


def pick(x: Word, y: Word, z: Word, by_z: Word, by_y: Word, by_x: Word) -> Word:
    """Return `by_z`, `by_y` or `by_x`, depending on the major axis, the one with the largest magnitude.

    If magnitudes are equal, z precedes y, and y precedes x.
    """
    ax, ay, az = map(fp.magnitude, (x, y, z))
    return fp.choose([(ax.fle(az) & ay.fle(az), by_z), (ax.fle(ay), by_y)], by_x)


def face(x: Word, y: Word, z: Word) -> Word:
    """Execute v_cubeid_f32: return 0 to 5 for the faces +x, -x, +y, -y, +z, -z."""
    by_x, by_y, by_z = (below(a).select(a.const(FACES[2 * k + 1]), FACES[2 * k]) for k, a in enumerate((x, y, z)))
    return pick(x, y, z, by_z, by_y, by_x)


def s_coordinate(x: Word, y: Word, z: Word) -> Word:
    """Execute v_cubesc_f32: return the S coordinate, before division, of direction (x, y, z) on its cube face."""
    return pick(x, y, z, below(z).select(fp.neg(x), x), x, below(x).select(z, fp.neg(z)))


def t_coordinate(x: Word, y: Word, z: Word) -> Word:
    """Execute v_cubetc_f32: return the T coordinate, before division, of direction (x, y, z) on its cube face."""
    minus_y = fp.neg(y)
    return pick(x, y, z, minus_y, below(y).select(fp.neg(z), z), minus_y)


def major(x: Word, y: Word, z: Word) -> Word:
    """Execute v_cubema_f32: return twice the coordinate along the major axis."""
    return pick(x, y, z, z, y, x).fmul(x.const(fp.power("s", 1)))
