"""Names of events and stable forms of their values."""

import math

import pytest

from softcard.core.errors import ModelBug
from softcard.core.event import Event
from softcard.core.rule import Choice
from softcard.core.space import Unit
from softcard.trace.values import event_fields, is_hex, kebab, kind, plain
from tests.trace.sample import ERROR, RULE, Anything, DmaTransfer, Flags, How


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("DmaTransfer", "dma-transfer"),
        ("WriteReg64", "write-reg64"),
        ("HSASignal", "hsa-signal"),
        ("Event", "event"),
        ("Fill2D", "fill2-d"),
    ],
)
def test_kinds_are_class_names_in_kebab_case(name, expected):
    assert kebab(name) == expected


def test_fields_come_in_declaration_order():
    event = DmaTransfer(1, Unit(0), 2, (3,))
    assert kind(event) == "dma-transfer"
    assert list(event_fields(event)) == [("unit", Unit(0)), ("source", 2), ("sizes", (3,))]
    assert list(event_fields(Event(1))) == []


def test_hex_fields_are_known_by_their_last_word():
    assert all(map(is_hex, ("pc", "address", "source_address", "value")))
    assert not any(map(is_hex, ("size", "address_count", "spc", "id")))


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("n", 5, 5),
        ("pc", 5, "0x5"),
        ("address", (1, 2), ["0x1", "0x2"]),
        ("x", True, True),
        ("address", None, None),
        ("x", 1.5, 1.5),
        ("x", -math.inf, "-inf"),
        ("x", math.nan, "nan"),
        ("address", "here", "here"),
        ("x", b"\x01\xff", "01ff"),
        ("x", memoryview(b"\x02"), "02"),
        ("x", How.RETURN, "return"),
        ("x", Flags.A, "A"),
        ("x", Flags.A | Flags.B, "A|B"),
        ("x", RULE, "refsi/some-rule"),
        ("x", Choice("refsi/c", "g", "a", "r"), "refsi/c"),
        ("x", ERROR, "bad byte, at byte 0x10, [refsi/some-rule: Clause]"),
        ("x", {"pc": 16, "n": [1]}, {"pc": "0x10", "n": [1]}),
        ("x", Unit(3, 1), {"type": "unit", "kind": 3, "index": 1}),
    ],
)
def test_values_have_one_plain_form(name, value, expected):
    result = plain(name, value)
    assert result == expected
    assert type(result) is type(expected)


@pytest.mark.parametrize("value", [object(), {1, 2}, Unit])
def test_what_has_no_stable_form_is_refused(value):
    with pytest.raises(ModelBug) as caught:
        plain("thing", Anything(0, value).thing)
    assert str(caught.value) == (
        f"field thing of an event must hold numbers, text, bytes or records, not {type(value).__name__}"
    )
