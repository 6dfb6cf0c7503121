"""Instruction tables: operand text, reading it back, and refusals."""

from __future__ import annotations

import pytest

from softcard.core.errors import ModelBug, WireError
from softcard.isa.pattern import Kind, Pattern
from softcard.isa.riscv.rows import InsnTable, Operand, Row

KINDS = {"a": Kind("a", 2), "b": Kind("b", 2)}


def number(text: str, pc: int | None) -> int:
    return int(text, 0)


OPERANDS = {
    "a": Operand("a", lambda n, pc: str(n), number),
    "b": Operand("b", lambda n, pc: str(n) if n else "", number, absent=0),
    "to": Operand("a", lambda n, pc: hex(n + (pc or 0)), lambda text, pc: int(text, 0) - (pc or 0)),
}


def row(name: str, pattern: str, operands: str) -> Row[None]:
    return Row(name, Pattern.parse(pattern, 8, KINDS), operands, None)


TABLE = InsnTable(
    [row("one", "0001 a b", "a, (b)"), row("two", "0010 a b", "a[, b]"), row("go", "0011 a 00", "to")], OPERANDS
)


def test_mapping() -> None:
    assert [r.name for r in TABLE] == ["one", "two", "go"]
    assert len(TABLE) == 3
    assert "one" in TABLE
    assert "three" not in TABLE
    assert str(TABLE["one"]) == "one"
    assert TABLE.find(0b0010_0000) is TABLE["two"]
    assert TABLE.find(0) is None


@pytest.mark.parametrize(
    ("name", "word", "text"),
    [
        ("one", 0b0001_1001, "2,(1)"),
        ("two", 0b0010_1001, "2,1"),
        ("two", 0b0010_1000, "2"),
        ("go", 0b0011_1000, "0x12"),
    ],
)
def test_text_and_back(name: str, word: int, text: str) -> None:
    assert TABLE.text(TABLE[name], word, 0x10) == text
    assert TABLE.encode(name, TABLE.read(TABLE[name], text, 0x10)) == word


def test_blanks_do_not_count() -> None:
    assert TABLE.read(TABLE["one"], " 2 ,( 1 )") == {"a": 2, "b": 1}


def test_unknown_mnemonic_is_refused() -> None:
    with pytest.raises(WireError, match="unknown instruction 'three'"):
        TABLE.encode("three", {})


def test_operands_of_another_form_are_refused() -> None:
    with pytest.raises(WireError, match=r"one needs operands 'a, \(b\)', not '2,1'"):
        TABLE.read(TABLE["one"], "2,1")


def test_operand_of_another_kind_is_refused() -> None:
    with pytest.raises(WireError, match="two: 'x' is not valid for operand b"):
        TABLE.read(TABLE["two"], "1,x")


def test_a_mnemonic_stands_once() -> None:
    with pytest.raises(ModelBug, match="mnemonic one is declared twice"):
        InsnTable([row("one", "0001 a b", "a"), row("one", "0010 a b", "a")], OPERANDS)


def test_overlapping_rows_are_refused() -> None:
    with pytest.raises(ModelBug, match=r"second \(000- a b\) and first \(0001 a b\) must differ in a fixed bit"):
        InsnTable([row("first", "0001 a b", "a"), row("second", "000- a b", "a")], OPERANDS)
