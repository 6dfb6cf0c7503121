"""The checker: every case in which generator and run-time library disagree is told, and none where they agree."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from softcard.core.errors import WireError
from softcard.device.fletcher.map.build import fletcher_map
from softcard.device.fletcher.map.checker import Moved, Severity, check_design
from tests.device.fletcher.designs import (
    I16,
    ONE,
    UTF8,
    Batch,
    Recorded,
    field,
    items,
    recorded_maps,
    schema,
    struct,
)


def batch(made: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([], each.type) for each in made], schema=made)


def reported(*batches: Batch, custom: tuple[str, ...] = ()) -> list[str]:
    return [str(finding) for finding in check_design(batches, custom=custom).findings]


def only(*batches: Batch, **options: Any) -> str:
    (finding,) = reported(*batches, **options)
    return finding


# ---- agreement -----------------------------------------------------------------------------------------------------


def test_a_design_on_which_both_agree() -> None:
    found = check_design([ONE, schema(field("s", UTF8, True), name="W", mode="write")], custom=["c:32:x"])
    assert found.agree
    assert (found.findings, found.moved, found.queue_order) == ((), (), ("R", "W"))
    assert found.generator is not None
    assert found.runtime is not None
    assert found.generator.size_bytes == found.runtime.size_bytes


# ---- the four inconsistencies --------------------------------------------------------------------------------------


def test_batch_order_differs() -> None:
    first, last = schema(field("x"), name="B"), schema(field("x"), name="Aout", mode="write")
    found = check_design([last, first])
    assert [str(finding) for finding in found.findings] == [
        "error: RecordBatches are queued as Aout, B, but the hardware has B, Aout: queue them in that order "
        "[fletcher/batch-order]"
    ]
    assert not found.agree
    assert found.moved[0] == Moved("B_firstidx", 16, 24)
    assert check_design([first, last]).agree


def test_same_implementation() -> None:
    made = schema(field("p", struct(field("x", I16, True))), field("l", items(I16, True)))
    found = check_design([made])
    tells = (
        "is a nullable child: the run-time library passes its validity buffer, for which the generator has no register "
        "where it is given a schema, but one where it is given a RecordBatch [fletcher/same-implementation]"
    )
    assert [str(each) for each in found.findings] == [f"error: R.p.x: {tells}", f"error: R.l (list items): {tells}"]
    assert [each for each in found.moved if each.generator is None] == [
        Moved("R_p_x_validity", None, 24),
        Moved("R_l_validity", None, 48),
    ]
    assert check_design([batch(made)]).agree


@pytest.mark.parametrize("kind", [items(UTF8), items(items(I16))], ids=str)
def test_lists_within_lists(kind: pa.DataType) -> None:
    assert only(schema(field("l", kind))) == (
        "error: R.l: 2 buffers would be called R_l_offsets, so the generator stops; the run-time library passes "
        "3 buffers [fletcher/unique-names]"
    )


def test_nullable_items_of_a_nullable_list() -> None:
    made = schema(field("l", items(I16, True), True))
    assert "R.l (list items): is a nullable child" in only(made)
    assert only(batch(made)) == (
        "error: R.l: 2 buffers would be called R_l_validity, so the generator stops; the run-time library passes "
        "4 buffers [fletcher/unique-names]"
    )


REFUSED = "which the generator refuses; the run-time library passes"


@pytest.mark.parametrize(
    ("made", "tells"),
    [
        (field("x", pa.bool_()), f"R.x: is of type bool, {REFUSED} 0 buffers"),
        (field("x", pa.bool_(), True), f"R.x: is of type bool, {REFUSED} 1 buffer of"),
        (
            field("x", pa.list_(field("item"), 2)),
            f"R.x: is of type fixed_size_list<item: int16 not null>[2], {REFUSED}",
        ),
        (field("x", items(pa.large_utf8())), f"R.x: is of type large_string, {REFUSED} 1 buffer of"),
        (field("x", struct(field("a"), field("b", pa.bool_()))), f"R.x.b: is of type bool, {REFUSED} 1 buffer of"),
        (
            field("x", pa.null(), True),
            "R.x: is of type null, which crashes the run-time library [fletcher/truncated-batch]",
        ),
    ],
    ids=lambda value: str(value)[:20],
)
def test_types_that_end_a_record_batch(made: pa.Field, tells: str) -> None:
    first, second = reported(schema(made, field("last")))
    assert first.startswith(f"error: {tells}")
    text = "R.last: is not passed by the run-time library, which stops at an earlier field"
    assert second == f"error: {text} [fletcher/truncated-batch]"


@pytest.mark.parametrize(
    ("kind", "tells"),
    [
        (
            pa.binary(4),
            "a is of type fixed_size_binary[4], which the generator refuses; the run-time library passes 1 buffer",
        ),
        (struct(), "a is a struct without members, expected one or more; the run-time library passes 0 buffers"),
    ],
    ids=str,
)
def test_types_that_only_the_generator_refuses(kind: pa.DataType, tells: str) -> None:
    assert only(schema(field("a", kind))) == f"error: R.a: {tells} [fletcher/supported-types]"


PAIR = (field("a"), field("b"))


@pytest.mark.parametrize(
    ("kind", "streams"),
    [
        (I16, 1),
        (struct(*PAIR), 1),
        (struct(field("x", struct(*PAIR))), 1),
        (UTF8, 2),
        (pa.binary(), 2),
        (items(I16), 2),
        (items(struct(*PAIR)), 2),
        (struct(field("s", UTF8)), 3),
        (struct(field("v", items(I16))), 3),
    ],
    ids=str,
)
def test_profiled_fields(kind: pa.DataType, streams: int) -> None:
    """As GHDL found with what Fletchgen 0.0.20 makes of such fields, read or written, with any elements per cycle."""
    for metadata in ({"epc": "4"}, {}) if kind in (I16, UTF8) else ({},):
        found = reported(schema(field("x", kind, profile="true", **metadata)))
        if streams == 1:
            assert found == []
        else:
            assert found == [
                f"error: R.x: is profiled and has {streams} streams: the generator's VHDL for it does not compile "
                "[fletcher/profiled-fields]"
            ]
    assert reported(schema(field("x", kind))) == []
    assert [
        each for each in reported(schema(field("x", kind, profile="true", ignore="true"))) if "compile" in each
    ] == []


def test_extension_types_are_none_of_the_run_times() -> None:
    """Measured: it passes nothing of such an array; the generator, which sees the storage in a file, has registers."""
    first, second = reported(schema(field("x", pa.json_()), field("last")))
    assert first.startswith("error: R.x: is of type extension<arrow.json")
    assert "which the run-time library does not know; the run-time library passes 0 buffers of the field" in first
    assert second.startswith("error: R.last: is not passed by the run-time library")


# ---- names, custom registers, notes --------------------------------------------------------------------------------


def test_names_of_record_batches() -> None:
    nameless = ONE.remove_metadata()
    assert only(nameless, ONE) == (
        "error: RB0: has no fletcher_name: the generator skips it, the run-time library gives it registers "
        "[fletcher/schema-name]"
    )
    twice = "schemas have this name: the generator uses one, the run-time library 2 [fletcher/schema-name]"
    assert only(ONE, ONE) == f"error: R: 2 {twice}"
    different = reported(ONE, schema(field("b")))
    assert different == [
        "error: R: 2 different schemas have this name: the generator stops with an error [fletcher/schema-name]"
    ]


def test_whatever_else_stops_the_generator() -> None:
    assert only(schema(field("a-b"))).startswith(
        "error: the generator stops: register name 'R_a-b_values' must be an ASCII"
    )
    assert only(ONE, custom=("c:8:start",)) == (
        "error: the generator stops: two registers would have the name start [fletcher/unique-names]"
    )
    assert "custom register 'x': expected <behavior>" in reported(ONE, custom=("x",))[0]


@pytest.mark.parametrize(
    ("made", "tells"),
    [
        (field("values"), "values: the generator names a register R_valuesvalues, where R_values_values would"),
        (field("a", ignore="true"), "a: is ignored by the generator, but its 1 buffer has a register"),
    ],
)
def test_notes_about_fields(made: pa.Field, tells: str) -> None:
    found = check_design([schema(made)])
    assert found.agree
    assert [f"R.{tells}" in str(each) for each in found.findings] == [True]
    assert found.findings[0].severity is Severity.NOTE


def test_notes_about_custom_registers() -> None:
    assert reported(ONE, custom=("s:8:st", "c:64:w:0x10")) == [
        "note: w: init 0x10 is lost: the generator reads it as decimal, and hardware starts with 0 "
        "[fletcher/custom-syntax]",
        "note: w: SetArguments can set it only if it also writes st, which the kernel sets [fletcher/custom-behavior]",
        "note: w: takes items 1 to 2 of SetArguments, lowest 32 bits first [fletcher/custom-size]",
    ]


# ---- no case left out ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("record", recorded_maps(), ids=lambda record: record.name)
def test_agrees_where_the_maps_do_and_only_there(record: Recorded) -> None:
    found = check_design(record.inputs, **record.options)
    if record.fields is None:
        assert not found.agree
    if found.agree:
        maps = [fletcher_map(record.inputs, profile=profile, **record.options) for profile in ("fletchgen", "runtime")]
        places = [[(slot.address, slot.path, slot.kind) for slot in plan.buffers] for plan in maps]
        assert places[0] == places[1]
        assert [each.address for each in maps[0].customs] == [each.address for each in maps[1].customs]


KINDS = st.recursive(
    st.sampled_from([I16, UTF8, pa.float64(), pa.bool_(), pa.binary(2)]),
    lambda inner: st.one_of(
        st.builds(items, inner, st.booleans()),
        st.lists(st.tuples(inner, st.booleans()), max_size=3).map(
            lambda members: struct(*(field(f"m{n}", kind, nullable) for n, (kind, nullable) in enumerate(members)))
        ),
    ),
    max_leaves=6,
)


@given(st.lists(st.lists(st.tuples(KINDS, st.booleans()), max_size=3), max_size=3))
def test_agreement_means_equal_buffers(design: list[list[tuple[pa.DataType, bool]]]) -> None:
    schemas = [
        schema(*(field(f"f{n}", kind, nullable) for n, (kind, nullable) in enumerate(fields)), name=f"B{number}")
        for number, fields in enumerate(design)
    ]
    found = check_design(schemas)
    assert found.agree == (found.generator is not None and found.runtime is not None and not found.moved)


def test_what_is_no_schema() -> None:
    with pytest.raises(WireError, match="cannot read an Arrow schema from a value of type object"):
        check_design([object()])
