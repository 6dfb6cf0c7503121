"""v_cube*: where a direction (x, y, z) lands on the faces of a cube map."""

from __future__ import annotations

from typing import Final

from understudy.isa.gcn.semantics import fp
from understudy.isa.gcn.word import Word

FACES: Final = (0x00000000, 0x3F800000, 0x40000000, 0x40400000, 0x40800000, 0x40A00000)
"""0.0 to 5.0."""


def below(a: Word) -> Word:
    """a < 0."""
    return a.flt(a.const(0))


def pick(x: Word, y: Word, z: Word, by_z: Word, by_y: Word, by_x: Word) -> Word:
    """One of three by the major axis: z where it is one, else y, else x."""
    ax, ay, az = map(fp.magnitude, (x, y, z))
    return fp.choose([(ax.fle(az) & ay.fle(az), by_z), (ax.fle(ay), by_y)], by_x)


def face(x: Word, y: Word, z: Word) -> Word:
    """v_cubeid_f32: 0 to 5 for +x, -x, +y, -y, +z, -z."""
    by_x, by_y, by_z = (below(a).select(a.const(FACES[2 * k + 1]), FACES[2 * k]) for k, a in enumerate((x, y, z)))
    return pick(x, y, z, by_z, by_y, by_x)


def s_coordinate(x: Word, y: Word, z: Word) -> Word:
    """v_cubesc_f32."""
    return pick(x, y, z, below(z).select(fp.neg(x), x), x, below(x).select(z, fp.neg(z)))


def t_coordinate(x: Word, y: Word, z: Word) -> Word:
    """v_cubetc_f32."""
    minus_y = fp.neg(y)
    return pick(x, y, z, minus_y, below(y).select(fp.neg(z), z), minus_y)


def major(x: Word, y: Word, z: Word) -> Word:
    """v_cubema_f32: twice the major coordinate."""
    return pick(x, y, z, z, y, x).fmul(x.const(fp.power("s", 1)))
