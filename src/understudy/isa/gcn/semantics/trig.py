"""v_trig_preop_f64: digits of 2 / pi for the reduction of large arguments."""

from __future__ import annotations

from typing import Final

from understudy.isa.gcn.word import Word

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


def preop(a: Word, segment: Word) -> Word:
    """53 bits of 2 / pi from bit 53 * segment[4:0] on, further for large a, as a number of their weight."""
    exponent = (a >> 52).trunc(32)[10:0]
    shift = segment[4:0] * CHUNK + (exponent - FIRST_LARGE).smax(0)
    at, by = shift >> 6, shift[5:0].zext(64)
    # Both shifts of the second word, that by 64 - by made in two steps.
    digits = (word(at) << by | word(at + 1) >> 1 >> 63 - by) >> 64 - CHUNK
    huge = exponent >= FIRST_HUGE
    return digits.ffrom_int("d", False).fldexp(-CHUNK - shift + huge.select(shift.const(128), 0))


def word(at: Word) -> Word:
    """Word `at` of the digits, 0 behind the last."""
    found = at.constant(64, 0)
    for k, bits in enumerate(WORDS):
        found = (at == k).select(bits, found)
    return found
