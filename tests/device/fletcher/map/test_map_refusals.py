"""Designs that the generator refuses: one mistake each, with the message and the rule."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from softcard.core.errors import RuleError, SoftcardError, WireError
from softcard.device.fletcher.map.build import fletcher_map
from softcard.device.fletcher.map.registers import parse_custom
from tests.device.fletcher.designs import I16, ONE, UTF8, Batch, field, items, schema, struct

IN_LAST_WORD = "would begin in the last bus word of custom register"


def refused(*batches: Batch, **options: Any) -> str:
    with pytest.raises(RuleError) as caught:
        fletcher_map(batches, **options)
    return str(caught.value)


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (pa.bool_(), "a is of type bool, which the generator refuses"),
        (struct(field("b", pa.large_utf8())), "a.b is of type large_string, which the generator refuses"),
        (pa.binary(4), "a is of type fixed_size_binary[4], which the generator refuses"),
        (items(pa.binary(4)), "a is of type list<item: fixed_size_binary[4] not null>, which the generator refuses"),
        (
            pa.list_(field("item", pa.binary(4), epc="2")),
            "a is of type list<item: fixed_size_binary[4] not null>, which the generator refuses",
        ),
        (struct(), "a is a struct without members, expected one or more"),
    ],
    ids=str,
)
def test_supported_types(kind: pa.DataType, message: str) -> None:
    found = refused(schema(field("x"), field("a", kind)))
    place = "at field 1 (a), at RecordBatch R, [fletcher/supported-types: generator: Fletchgen 0.0.20]"
    assert found == f"{message}, {place}"


@pytest.mark.parametrize(
    ("batches", "custom", "message"),
    [
        ([schema(field("l", items(UTF8)))], [], "two registers would have the name R_l_offsets"),
        (
            [schema(field("a"), field("A"))],
            [],
            "two registers would have the name R_a_values and R_A_values, which are the same in VHDL",
        ),
        ([ONE], ["c:8:start"], "two registers would have the name start"),
        (
            [ONE],
            ["c:8:profile_clear"],
            "two registers would have the name profile_clear and Profile_clear, which are the same in VHDL",
        ),
        ([schema(field("a"), field("a_cmd"))], [], "two ports of the kernel would have the name R_a_cmd"),
        ([ONE], ["c:8:kcd"], "two ports of the kernel would have the name kcd"),
        ([ONE], ["s:8:x", "c:8:x_write"], "two ports of the register file would have the name x_write"),
    ],
)
def test_unique_names(batches: list[pa.Schema], custom: list[str], message: str) -> None:
    found = refused(*batches, custom=custom)
    assert found == f"{message}, [fletcher/unique-names: generator: Fletchgen 0.0.20]"


@pytest.mark.parametrize(
    ("batch", "name"),
    [
        (schema(field("a-b")), "R_a-b_values"),
        (schema(field("é")), "R_é_values"),
        (schema(field("a"), name="1R"), "1R_firstidx"),
        (schema(field("a\nb")), "R_a\\nb_values"),
    ],
)
def test_name_letters(batch: pa.Schema, name: str) -> None:
    found = refused(batch)
    assert found.startswith(f"register name '{name}' must be an ASCII letter followed by letters, digits and _")
    assert "fletcher/name-letters" in found


def test_words_of_yaml_are_no_names() -> None:
    assert "register name 'off' is a reserved word in YAML, choose another" in refused(ONE, custom=["c:8:off"])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"offset": 6}, "offset is 0x6, expected a multiple of 4 below 0x100000000"),
        ({"offset": 4, "bus_width": 64}, "offset is 0x4, expected a multiple of 8 below 0x100000000"),
        ({"offset": -4}, "offset is -0x4, expected a multiple of 4 below 0x100000000"),
        ({"offset": 1 << 32}, "offset is 0x100000000, expected a multiple of 4 below 0x100000000"),
        ({"offset": (1 << 32) - 16}, "the register map ends at 0x100000018, after the last 32-bit address"),
    ],
)
def test_map_offset(options: dict[str, int], message: str) -> None:
    assert refused(ONE, **options) == f"{message}, [fletcher/map-offset: generator: Fletchgen 0.0.20]"


@pytest.mark.parametrize(
    ("custom", "bus_width", "message"),
    [
        (["c:833:x"], 32, "custom register x needs 27 words of the bus, expected 26 or fewer"),
        (["c:8:x", "s:64:z"], 64, f"Profile_enable at 0x2c {IN_LAST_WORD} z at 0x24: widen or reorder the registers"),
        (["c:65:x", "c:1:y"], 64, f"y at 0x2c {IN_LAST_WORD} x at 0x20: widen or reorder the registers"),
    ],
)
def test_bus_words(custom: list[str], bus_width: int, message: str) -> None:
    found = refused(ONE, custom=custom, bus_width=bus_width)
    assert found == f"{message}, [fletcher/bus-words: generator: Fletchgen 0.0.20]"


@pytest.mark.parametrize(
    ("batch", "message"),
    [
        (schema(field("a", epc="four")), "fletcher_epc of a is 'four', expected a number"),
        (schema(field("a", UTF8, lepc="-1")), "fletcher_lepc of a is '-1', expected a number"),
        (schema(field("a", epc="9" * 20)), f"fletcher_epc of a is '{'9' * 20}', expected a number"),
        (schema(field("a", struct(field("x")), epc="2")),
         "fletcher_epc of a is '2', expected 1 or less for a struct<x: int16 not null>"),
        (schema(field("a", items(struct(field("x"))), lepc="2")),
         "fletcher_lepc of a is '2', expected 1 or less for a list<item: struct<x: int16 not null> not null>"),
        (schema(field("p", struct(field("a", epc="x")))), "fletcher_epc of a is 'x', expected a number"),
    ],
)  # fmt: skip
def test_field_metadata(batch: pa.Schema, message: str) -> None:
    found = refused(batch)
    assert found.startswith(f"{message}, at field 0 (")
    assert found.endswith("[fletcher/field-metadata: generator: Fletchgen 0.0.20]")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "custom register '': expected <behavior>:<width>:<name>[:0x<init>] with behavior c or s"),
        ("q:8:x", "custom register 'q:8:x': expected <behavior>:<width>:<name>[:0x<init>] with behavior c or s"),
        ("c:8:x-y", "custom register 'c:8:x-y': expected <behavior>:<width>:<name>[:0x<init>] with behavior c or s; "
         "the generator would silently use 'c:8:x' only"),
        ("c:8:x:12", "the generator would silently use 'c:8:x:' only"),
        ("c:0:x", "custom register 'c:0:x': the width is 0, expected 1 to 65536"),
        ("c:65537:x", "custom register 'c:65537:x': the width is 65537, expected 1 to 65536"),
        ("c:" + "9" * 90 + ":x", f"the width is {'9' * 20}, expected 1 to 65536"),
        ("c:4:x:0x10", "custom register 'c:4:x:0x10': the initial value 0x10 does not fit 4 bits"),
    ],
)  # fmt: skip
def test_custom_syntax(text: str, message: str) -> None:
    with pytest.raises(RuleError) as caught:
        parse_custom(text)
    assert message in str(caught.value)
    assert str(caught.value).endswith("[fletcher/custom-syntax: Custom registers]")


def test_custom_text_is_read() -> None:
    found = parse_custom("c:32:my_reg:0xDEADBEEF")
    assert (found.behaviour, found.width, found.name, found.init) == ("c", 32, "my_reg", 0xDEADBEEF)
    assert parse_custom("s:8:x:").init is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"profile": "hardware"}, "profile is 'hardware', expected one of fletchgen, runtime, spec"),
        ({"bus_width": 16}, "the bus has 16 bits, expected 32 or 64"),
    ],
)
def test_arguments_that_mean_nothing(options: dict[str, Any], message: str) -> None:
    with pytest.raises(WireError, match=message):
        fletcher_map([ONE], **options)


def test_names_that_are_no_text() -> None:
    odd = pa.schema([field("a")], metadata={b"fletcher_name": b"\xff"})
    for profile in ("fletchgen", "runtime", "spec"):
        with pytest.raises(WireError, match="fletcher_name is not valid UTF-8: invalid start byte at byte 0"):
            fletcher_map([odd], profile=profile)


def test_nesting_without_end() -> None:
    kind = I16
    for _ in range(2000):
        kind = items(kind)
    for profile in ("fletchgen", "runtime", "spec"):
        with pytest.raises(SoftcardError, match="nested deeper than 64 levels"):
            fletcher_map([schema(field("a", kind))], profile=profile)
