"""v_trig_preop_f64: digits of 2 / pi for the reduction of large arguments."""

from __future__ import annotations

from typing import Any, Final

from understudy.isa.gcn.algebra import Value

TWO_OVER_PI: Final = int(
    "145f306dc9c882a53f84eafa3ea69bb81b6c52b3278872083fca2c757bd778ac36e48dc74849ba5c00c925dd413a32439fc3bd63962534e7dd"
    "1046bea5d768909d338e04d68befc827323ac7306a673e93908bf177bf250763ff12fffbc0b301fde5e2316b414da3eda6cfd9e4f96136e9e8"
    "c7ecd3cbfd45aea4f758fd7cbe2f67a0e73ef14a525d4d7f6bf623f1aba10ac06608df8f6",
    16,
)
"""The first 1201 bits behind the point."""
DIGITS: Final = 1201
CHUNK: Final = 53
"""Bits of one result."""
WORDS: Final = tuple((TWO_OVER_PI << 64 * 21 - DIGITS) >> 64 * (20 - k) & (1 << 64) - 1 for k in range(21))
"""Sixty-four bits each, the first ones first, zeros behind the last."""
FIRST_LARGE: Final = 1077
"""Biased exponent beyond which digits are skipped."""
FIRST_HUGE: Final = 1968
"""Biased exponent from which the result is 2**128 times as large."""


def preop(o: Any, a: Value, segment: Value) -> Value:
    """53 bits of 2 / pi from bit 53 * segment[4:0] on, further for large a, as a number of their weight."""
    exponent = o.and_(32, o.trunc(32, 64, o.lshr(64, a, o.const(64, 52))), o.const(32, 0x7FF))
    shift = o.mul(32, o.and_(32, segment, o.const(32, 31)), o.const(32, CHUNK))
    over = o.smax(32, o.const(32, 0), o.sub(32, exponent, o.const(32, FIRST_LARGE)))
    shift = o.add(32, shift, over)
    at = o.lshr(32, shift, o.const(32, 6))
    first, second = word(o, at), word(o, o.add(32, at, o.const(32, 1)))
    by = o.zext(64, 32, o.and_(32, shift, o.const(32, 63)))
    # Both shifts of the second word, that by 64 - by made in two steps.
    rest = o.lshr(64, o.lshr(64, second, o.const(64, 1)), o.sub(64, o.const(64, 63), by))
    digits = o.lshr(64, o.or_(64, o.shl(64, first, by), rest), o.const(64, 64 - CHUNK))
    scale = o.sub(32, o.const(32, -CHUNK), shift)
    huge = o.ule(32, o.const(32, FIRST_HUGE), exponent)
    scale = o.add(32, scale, o.select(32, huge, o.const(32, 128), o.const(32, 0)))
    return o.fldexp("d", o.ffrom_int("d", 64, False, digits), scale)


def word(o: Any, at: Value) -> Value:
    """Word `at` of the digits, 0 behind the last."""
    found = o.const(64, 0)
    for k, bits in enumerate(WORDS):
        found = o.select(64, o.eq(32, at, o.const(32, k)), o.const(64, bits), found)
    return found
