"""Masks, sign extension, alignment and float bits."""

import math
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from understudy.core import words


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


def test_bit_field_counts_as_documents_do():
    assert words.bit_field(0xC010_0800, 15, 8) == 0x08
    assert words.bit_field(0xC010_0800, 31, 30) == 3


@given(st.integers(-(1 << 70), 1 << 70), st.sampled_from([1, 4, 24, 4096]))
def test_alignment(value, alignment):
    up, down = words.align_up(value, alignment), words.align_down(value, alignment)
    assert down <= value <= up
    assert up % alignment == down % alignment == 0
    assert up - down in (0, alignment)
    assert words.is_aligned(value, alignment) == (up == down)


@pytest.mark.parametrize(
    ("to_bits", "from_bits", "one", "infinity", "nan"),
    [
        (words.f16_bits, words.f16_from_bits, 0x3C00, 0x7C00, 0x7E00),
        (words.f32_bits, words.f32_from_bits, 0x3F80_0000, 0x7F80_0000, 0x7FC0_0000),
        (words.f64_bits, words.f64_from_bits, 0x3FF0_0000_0000_0000, 0x7FF0_0000_0000_0000, 0x7FF8_0000_0000_0000),
    ],
    ids=["f16", "f32", "f64"],
)
def test_float_bits(to_bits, from_bits, one, infinity, nan):
    assert (to_bits(1.0), from_bits(one)) == (one, 1.0)
    assert to_bits(math.inf) == infinity
    assert to_bits(-math.nan) == to_bits(math.nan) == nan
    assert math.isnan(from_bits(nan))
    assert math.copysign(1.0, from_bits(to_bits(-0.0))) == -1.0


def test_what_is_too_large_for_a_format_becomes_infinity():
    assert words.f32_bits(1e39) == 0x7F80_0000
    assert words.f32_bits(-1e39) == 0xFF80_0000
    assert words.f16_bits(65520.0) == 0x7C00
    assert words.f16_bits(65519.0) == 0x7BFF


@given(st.integers(0, 0xFFFF_FFFF))
def test_f32_bits_survive_the_trip(bits):
    number = words.f32_from_bits(bits)
    assert math.isnan(number) or words.f32_bits(number) == bits


@given(st.floats(width=32, allow_nan=False))
def test_f32_bits_are_those_of_memory(number):
    assert words.f32_bits(number).to_bytes(4, "little") == struct.pack("<f", number)
