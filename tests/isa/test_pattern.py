"""Bit patterns: parsing, fields, overlaps, and the refusals of each."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from softcard.core.errors import ModelBug, WireError
from softcard.isa.pattern import Kind, Pattern, PatternTree

KINDS = {
    "r": Kind("r", 3),
    "q'": Kind("q", 2, bias=4),
    "imm": Kind("imm", signed=True),
    "nz": Kind("imm", never=(0,)),
}


def parse(text: str, width: int = 8) -> Pattern:
    return Pattern.parse(text, width, KINDS)


def test_fixed_bits_and_ignored_bits() -> None:
    pattern = parse("01-- 10 11")
    assert (pattern.mask, pattern.match) == (0b1100_1111, 0b0100_1011)
    assert pattern.matches(0b0111_1011)
    assert not pattern.matches(0b0111_1010)
    assert pattern.encode({}) == 0b0100_1011


def test_fields_take_their_width_and_bias_from_their_kind() -> None:
    pattern = parse("r 000 q'")
    assert pattern.decode(0b101_000_11) == {"r": 5, "q": 7}
    assert pattern.encode({"r": 5, "q": 7}) == 0b101_000_11
    assert pattern.encode({}) == 0
    assert pattern.decode(0) == {"r": 0, "q": 4}


def test_scattered_signed_field() -> None:
    pattern = parse("imm[5|2:1] 00 imm[4:3] 1")
    assert pattern.decode(0b101_00_10_1) == {"imm": -32 + 16 + 2}
    assert pattern.encode({"imm": -14}) == 0b101_00_10_1


@given(st.integers(0, 255))
def test_encode_undoes_decode(word: int) -> None:
    pattern = parse("imm[5|2:1] r imm[4:3]")
    assert pattern.encode(pattern.decode(word)) == word


def test_forbidden_values_do_not_match() -> None:
    pattern = parse("0000 r!={2,5} 1")
    assert [r for r in range(8) if pattern.matches(r << 1 | 1)] == [0, 1, 3, 4, 6, 7]
    assert not parse("nz[4:3] 000 nz[2:0]").matches(0)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"imm": 1}, "imm = 1 cannot be encoded, expected a value from -32 to 30 in steps of 2"),
        ({"imm": 32}, "imm = 32 cannot be encoded, expected a value from -32 to 30 in steps of 2"),
        ({"x": 1}, "unknown field x, expected imm"),
    ],
)
def test_values_that_do_not_fit_are_refused(fields: dict[str, int], message: str) -> None:
    with pytest.raises(WireError, match=message):
        parse("imm[5|2:1] 00 imm[4:3] 1").encode(fields)


def test_reserved_value_is_refused() -> None:
    with pytest.raises(WireError, match="r = 2 is reserved in this encoding"):
        parse("0000 r!=2 1").encode({"r": 2})


def test_unsigned_range_is_named_with_its_bias() -> None:
    with pytest.raises(WireError, match="q = 3 cannot be encoded, expected a value from 4 to 7"):
        parse("r 000 q'").encode({"q": 3})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0101 r", "pattern '0101 r' has 7 bits, expected 8"),
        ("0101 r 00", "pattern '0101 r 00' has 9 bits, expected 8"),
        ("0101 z 0", "'z' must be bits or a known field"),
        ("0101 r[", r"'r\[' must be bits or a known field"),
        ("0101 imm", "the bits of 'imm' must be given"),
    ],
)
def test_bad_pattern_is_our_bug(text: str, message: str) -> None:
    with pytest.raises(ModelBug, match=message):
        parse(text)


def test_overlap_is_refused_by_both_names() -> None:
    with pytest.raises(
        ModelBug, match=r"second \(0000 r 1\) and first \(r 00001\) must differ in a fixed bit: the word 0x1 matches"
    ):
        PatternTree([(parse("r 00001"), "first"), (parse("0000 r 1"), "second")])


def test_one_table_has_one_width() -> None:
    with pytest.raises(ModelBug, match="b has 8 bits, but a 4: all patterns of a table must have the same width"):
        PatternTree([(parse("0001", 4), "a"), (parse("00010001"), "b")])


def test_a_forbidden_value_keeps_patterns_apart() -> None:
    tree = PatternTree([(parse("0000 r!=2 1"), "any"), (parse("0000 010 1"), "two")])
    assert [tree.find(r << 1 | 1) for r in range(4)] == ["any", "any", "two", "any"]
    assert tree.find(0) is None
    assert tree.find(0xFF) is None


@given(st.integers(0, 255))
def test_tree_agrees_with_trying_each_pattern(word: int) -> None:
    texts = ["00 r 001", "00 r 010", "01 imm[3:0] 11", "01 imm[3:0] 0 0", "1 r!={0,7} 0000", "1 000 0000", "1111 0000"]
    rows = [(parse(text), text) for text in texts]
    matching = [text for pattern, text in rows if pattern.matches(word)]
    assert len(matching) <= 1
    assert PatternTree(rows).find(word) == (matching[0] if matching else None)
