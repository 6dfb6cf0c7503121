"""Masks, sign extension, alignment and float bits."""

import math
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from softcard.core import words


@pytest.mark.parametrize(
    ("narrow", "bits"),
    [(words.u8, 8), (words.u16, 16), (words.u32, 32), (words.u64, 64)],
    ids=["u8", "u16", "u32", "u64"],
)
def test_unsigned_words_wrap(narrow, bits):
    assert narrow(-1) == (1 << bits) - 1
    assert narrow(1 << bits) == 0
    assert narrow(5) == 5


@given(st.integers(1, 128), st.integers())
def test_signed_is_congruent_and_in_range(bits, value):
    number = words.signed(value, bits)
    assert -(1 << bits - 1) <= number < 1 << bits - 1
    assert (number - value) % (1 << bits) == 0


@pytest.mark.parametrize(
    ("value", "bits", "to", "expected"),
    [
        (0x80, 8, 64, 0xFFFF_FFFF_FFFF_FF80),
        (0x7F, 8, 64, 0x7F),
        (0x1800, 12, 32, 0xFFFF_F800),
        (0xFFFF_FFFF, 32, 64, 0xFFFF_FFFF_FFFF_FFFF),
    ],
)
def test_sext(value, bits, to, expected):
    assert words.sext(value, bits, to) == expected


@given(st.integers(-(1 << 70), 1 << 70), st.sampled_from([1, 4, 24, 4096]))
def test_alignment(value, alignment):
    up, down = words.align_up(value, alignment), words.align_down(value, alignment)
    assert down <= value <= up
    assert up % alignment == down % alignment == 0
    assert up - down in (0, alignment)
    assert words.is_aligned(value, alignment) == (up == down)


def test_float_bits():
    assert words.f64_bits(1.0) == 0x3FF0_0000_0000_0000
    assert words.f64_bits(-0.0) == 1 << 63
    assert words.f64_bits(math.inf) == 0x7FF0_0000_0000_0000
    assert words.f64_bits(-math.nan) == words.f64_bits(math.nan) == 0x7FF8_0000_0000_0000


@given(st.floats(allow_nan=False))
def test_float_bits_are_those_of_memory(number):
    assert words.f64_bits(number).to_bytes(8, "little") == struct.pack("<d", number)
