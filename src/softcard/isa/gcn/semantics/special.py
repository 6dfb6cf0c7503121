"""The semantics of v_trig_preop_f64 (bits of 2 / pi for the range reduction of large arguments), and of v_cube*."""

from __future__ import annotations

from typing import Final

from softcard.isa.gcn.semantics import fp
from softcard.isa.gcn.word import Word

TWO_OVER_PI: Final = int(
    "145f306dc9c882a53f84eafa3ea69bb81b6c52b3278872083fca2c757bd778ac36e48dc74849ba5c00c925dd413a32439fc3bd63962534e7dd"
    "1046bea5d768909d338e04d68befc827323ac7306a673e93908bf177bf250763ff12fffbc0b301fde5e2316b414da3eda6cfd9e4f96136e9e8"
    "c7ecd3cbfd45aea4f758fd7cbe2f67a0e73ef14a525d4d7f6bf623f1aba10ac06608df8f6",
    16,
)
"""The first 1201 bits of 2 / pi after the binary point."""
DIGITS: Final = 1201
CHUNK: Final = 53
"""The number of bits of 2 / pi in the result of one instruction."""
WORDS: Final = tuple((TWO_OVER_PI << 64 * 21 - DIGITS) >> 64 * (20 - k) & (1 << 64) - 1 for k in range(21))
"""The bits of 2 / pi in words of 64 bits, highest first, with zeros after the last bit."""
FIRST_LARGE: Final = 1077
"""The largest biased exponent of the argument for which no bits of 2 / pi are skipped."""
FIRST_HUGE: Final = 1968
"""The least biased exponent of the argument for which the result is scaled up by 2**128."""


def preop(a: Word, segment: Word) -> Word:
    """Return 53 bits of 2 / pi, starting at bit 53 * segment[4:0], as a float with the weight of these bits.

    If the exponent of `a` is large, the bits start correspondingly later. If it is very large, the result is
    multiplied by 2**128."""
    exponent = (a >> 52).trunc(32)[10:0]
    shift = segment[4:0] * CHUNK + (exponent - FIRST_LARGE).smax(0)
    at, by = shift >> 6, shift[5:0].zext(64)
    # Both shifts of the second word, that by 64 - by made in two steps.
    digits = (word(at) << by | word(at + 1) >> 1 >> 63 - by) >> 64 - CHUNK
    huge = exponent >= FIRST_HUGE
    return digits.ffrom_int("d", False).fldexp(-CHUNK - shift + huge.select(shift.const(128), 0))


def word(at: Word) -> Word:
    """Return word number `at` of the bits of 2 / pi in `WORDS`; 0 if `at` is past the last word."""
    found = at.constant(64, 0)
    for k, bits in enumerate(WORDS):
        found = (at == k).select(bits, found)
    return found


# ---- cube maps -------------------------------------------------------------------------------------------------------
# Semantics of v_cube*: the point at which a direction (x, y, z) meets a face of a cube map.


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
