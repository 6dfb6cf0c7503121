"""v_cube*: where a direction (x, y, z) lands on the faces of a cube map."""

from __future__ import annotations

from typing import Any, Final

from understudy.isa.gcn.algebra import Value
from understudy.isa.gcn.semantics import fp

FACES: Final = (0x00000000, 0x3F800000, 0x40000000, 0x40400000, 0x40800000, 0x40A00000)
"""0.0 to 5.0."""


def axes(o: Any, x: Value, y: Value, z: Value) -> tuple[Value, Value]:
    """Whether z is the major axis, and whether y is where z is not."""
    ax, ay, az = (fp.magnitude(o, "s", a) for a in (x, y, z))
    return o.and_(1, o.fle("s", ax, az), o.fle("s", ay, az)), o.fle("s", ax, ay)


def below(o: Any, a: Value) -> Value:
    """a < 0."""
    return o.flt("s", a, o.const(32, 0))


def pick(o: Any, x: Value, y: Value, z: Value, by_z: Value, by_y: Value, by_x: Value) -> Value:
    """One of three by the major axis."""
    is_z, is_y = axes(o, x, y, z)
    return fp.choose(o, "s", (is_z, by_z), (is_y, by_y), by_x)


def face(o: Any, x: Value, y: Value, z: Value) -> Value:
    """v_cubeid_f32: 0 to 5 for +x, -x, +y, -y, +z, -z."""
    numbers = [o.const(32, bits) for bits in FACES]
    choices = [o.select(32, below(o, a), numbers[2 * k + 1], numbers[2 * k]) for k, a in enumerate((x, y, z))]
    return pick(o, x, y, z, choices[2], choices[1], choices[0])


def s_coordinate(o: Any, x: Value, y: Value, z: Value) -> Value:
    """v_cubesc_f32."""
    by_z = o.select(32, below(o, z), fp.neg(o, "s", x), x)
    by_x = o.select(32, below(o, x), z, fp.neg(o, "s", z))
    return pick(o, x, y, z, by_z, x, by_x)


def t_coordinate(o: Any, x: Value, y: Value, z: Value) -> Value:
    """v_cubetc_f32."""
    minus_y = fp.neg(o, "s", y)
    by_y = o.select(32, below(o, y), fp.neg(o, "s", z), z)
    return pick(o, x, y, z, minus_y, by_y, minus_y)


def major(o: Any, x: Value, y: Value, z: Value) -> Value:
    """v_cubema_f32: twice the major coordinate."""
    return o.fmul("s", pick(o, x, y, z, z, y, x), o.const(32, fp.power("s", 1)))
