"""Register maps: equal to the generator's and to what the run-time library writes; and the document's text."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

from softcard.core.errors import BeyondModel, RuleError, SoftcardError, WireError
from softcard.device.fletcher.map.build import fletcher_map
from softcard.device.fletcher.map.layout import CustomRegister, Mode
from softcard.device.fletcher.map.registers import PROFILE_COUNTERS, address_space
from tests.device.fletcher.designs import (
    I16,
    ONE,
    UTF8,
    VECTORS,
    Recorded,
    addresses,
    decoded,
    field,
    items,
    map_fields,
    recorded_maps,
    schema,
    struct,
)

MADE = [record for record in recorded_maps() if record.fields is not None]
STOPPED = [record for record in recorded_maps() if record.fields is None]
WRITES = json.loads((VECTORS / "writes.json").read_text(encoding="utf-8"))
FIRST_BUFFER, BUFFER_STEP = 0x1_0000_0000, 0x1000
EVERYTHING = schema(
    field("s", UTF8, True, profile="true"),
    field("l", items(struct(field("x"), field("n", UTF8))), profile="true"),
    name="All",
)


# ---- real maps and real runs ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("record", MADE, ids=lambda record: record.name)
def test_equals_the_generators_map(record: Recorded) -> None:
    assert map_fields(fletcher_map(record.inputs, **record.options)) == record.fields


@pytest.mark.parametrize("record", STOPPED, ids=lambda record: record.name)
def test_refuses_what_the_generator_refuses(record: Recorded) -> None:
    with pytest.raises(RuleError) as caught:
        fletcher_map(record.inputs, **record.options)
    assert caught.value.rule is not None


def test_enough_kinds_of_maps_were_recorded() -> None:
    assert len(MADE) > 80
    assert len(STOPPED) > 40


@pytest.mark.parametrize("record", WRITES, ids=lambda record: record["name"])
def test_equals_what_the_run_time_library_writes(record: dict[str, list[str]]) -> None:
    batches = decoded(record["batches"])
    plan = fletcher_map(batches, profile="runtime")
    expected = []
    for layout, batch in zip(plan.batches, batches, strict=True):
        expected += [(layout.first_index, 0), (layout.last_index, batch.num_rows)]
    for number, slot in enumerate(plan.buffers):
        value = FIRST_BUFFER + BUFFER_STEP * number
        expected += [(slot.address, value & 0xFFFF_FFFF), (slot.address + 4, value >> 32)]
    assert [f"{plan.register_index(address)} {value}" for address, value in expected] == record["writes"]


# ---- the document's rules ------------------------------------------------------------------------------------------


def test_derived_registers() -> None:
    few, many = fletcher_map([ONE]), fletcher_map([ONE, EVERYTHING], custom=["c:8:x"])
    assert few.fields[:7] == many.fields[:7]
    assert few.size_bytes < many.size_bytes


def test_register_width() -> None:
    plan = fletcher_map([EVERYTHING], profile="spec", custom=["c:16:cat"])
    assert {each.width for each in plan.fields} == {1, 16, 32}
    assert all(each.address % 4 == 0 for each in plan.fields)


def test_byte_address() -> None:
    plan = fletcher_map([ONE], offset=64)
    assert [plan.register_index(address) for address in (plan.control, plan.status, plan.result)] == [0, 1, 2]
    assert plan.register_index(plan.batches[0].first_index) == 4


def test_default_registers() -> None:
    found = addresses(fletcher_map([ONE], profile="spec"))
    assert [found[name] for name in ("start", "idle", "return0", "return1")] == [0, 4, 8, 12]
    result = fletcher_map([ONE]).by_name["result"]
    assert (result.address, result.width, result.behaviour) == (8, 64, "status")


def test_control_bits() -> None:
    plan = fletcher_map([ONE])
    found = [(each.name, each.lsb, each.behaviour) for each in plan.fields if each.address == plan.control]
    assert found == [("start", 0, "strobe"), ("stop", 1, "strobe"), ("reset", 2, "strobe")]
    spec = fletcher_map([ONE], profile="spec")
    assert {each.behaviour for each in spec.fields if each.address == spec.control} == {"control"}


def test_status_bits() -> None:
    plan = fletcher_map([ONE])
    found = [(each.name, each.lsb, each.behaviour) for each in plan.fields if each.address == plan.status]
    assert found == [("idle", 0, "status"), ("busy", 1, "status"), ("done", 2, "status")]


def test_buffer_order() -> None:
    plan = fletcher_map([schema(field("s", UTF8, True), field("l", items(I16), True))])
    assert [(slot.path, slot.kind) for slot in plan.buffers] == [
        (("s",), "validity"),
        (("s",), "offsets"),
        (("s",), "values"),
        (("l",), "validity"),
        (("l",), "offsets"),
        (("l",), "values"),
    ]
    assert [slot.node for slot in plan.buffers[3:]] == [(1,), (1,), (1, 0)]


def test_depth_first() -> None:
    inner = struct(field("x"), field("n", UTF8))
    plan = fletcher_map([schema(field("a", struct(field("l", items(inner)), field("y"))), field("z"))])
    names = "R_a_l_offsets R_a_l_x_values R_a_l_n_offsets R_a_l_n_values R_a_y_values R_z_values"
    assert [slot.name for slot in plan.buffers] == names.split()
    assert len({(slot.node, slot.kind) for slot in plan.buffers}) == len(plan.buffers)


def test_index_registers() -> None:
    found = fletcher_map([schema(field("x"), name=name) for name in "ABC"]).batches
    assert [(batch.name, batch.first_index, batch.last_index) for batch in found] == [
        ("A", 16, 20),
        ("B", 24, 28),
        ("C", 32, 36),
    ]
    spec = addresses(fletcher_map([schema(field("x"), name=name) for name in "CA"], profile="spec"))
    assert (spec["RB0_FIRSTIDX"], spec["RB1_LASTIDX"]) == (16, 28)


@pytest.mark.parametrize("count", [1, 2, 5])
def test_buffer_registers(count: int) -> None:
    batches = [schema(field("s", UTF8), name=f"B{index}") for index in range(count)]
    for profile in ("fletchgen", "runtime", "spec"):
        plan = fletcher_map(batches, profile=profile)
        assert [slot.address for slot in plan.buffers] == [16 + 4 * (2 * count + 2 * m) for m in range(2 * count)]
    assert addresses(plan)["buffer1_address_high"] == 16 + 4 * (2 * count + 3)


def test_custom_behavior() -> None:
    plan = fletcher_map([ONE], custom=["c:16:cat", "s:64:dog"])
    assert [plan.by_name[name].behaviour for name in ("cat", "dog")] == ["control", "status"]
    assert plan.custom("dog") == CustomRegister("dog", 64, "s", None, 36)


def test_custom_place() -> None:
    plan = fletcher_map([ONE], custom=["c:16:cat", "s:64:dog", "s:32:fish"])
    first = plan.buffers[-1].address + 8
    assert [each.address - first for each in plan.customs] == [0, 4, 12]


@pytest.mark.parametrize(("width", "size"), [(1, 4), (32, 4), (33, 8), (64, 8), (65, 12), (128, 16)])
def test_custom_size(width: int, size: int) -> None:
    assert address_space(width) == size
    plan = fletcher_map([ONE], custom=[f"c:{width}:x", "c:1:y"])
    assert plan.custom("y").address - plan.custom("x").address == size


@pytest.mark.parametrize(
    ("metadata", "count"),
    [({"profile": "true"}, 1), ({"profile": "True"}, 0), ({}, 0), ({"profile": "true", "ignore": "true"}, 0)],
)
def test_profile_field(metadata: dict[str, str], count: int) -> None:
    plan = fletcher_map([schema(field("a", **metadata))])
    assert len(plan.streams) == count


def test_profile_place() -> None:
    plan = fletcher_map([EVERYTHING], custom=["c:64:x"])
    assert plan.profile_enable == plan.custom("x").address + 8
    assert plan.profile_clear == plan.profile_enable + 4
    assert plan.streams[0].address == plan.profile_clear + 4
    assert plan.offset + plan.size_bytes == plan.streams[-1].address + 24
    assert (plan.by_name["Profile_enable"].behaviour, plan.by_name["Profile_clear"].behaviour) == ("control", "strobe")


def test_profiling_registers_without_profiling() -> None:
    for profile in ("fletchgen", "runtime"):
        assert fletcher_map([ONE], profile=profile).profile_enable == 32
    spec = fletcher_map([ONE], profile="spec")
    assert (spec.profile_enable, spec.profile_clear) == (None, None)
    assert "Profile_enable" not in spec.by_name


def test_profile_counters() -> None:
    plan = fletcher_map([schema(field("a", profile="true"))])
    names = [f"Profile_R_a_0_{name}" for name in PROFILE_COUNTERS]
    assert [each.name for each in plan.fields[-6:]] == names
    assert " ".join(PROFILE_COUNTERS) == "elements valids readies transfers packets cycles"
    assert [each.address for each in plan.fields[-6:]] == list(range(40, 64, 4))
    spec = fletcher_map([schema(field("a", profile="true"))], profile="spec")
    assert spec.fields[-1].name == "R_a_0_cycles"


def test_profile_streams() -> None:
    plan = fletcher_map([EVERYTHING])
    assert [(each.name, each.path, each.node) for each in plan.streams] == [
        ("Profile_All_s_0", ("s",), (0,)),
        ("Profile_All_s_chars_1", ("s", "chars"), (0, 0)),
        ("Profile_All_l_0", ("l",), (1,)),
        ("Profile_All_l_item_1", ("l", "item"), (1, 0)),
        ("Profile_All_l_item_data_n_2", ("l", "item", "n"), (1, 0, 1)),
        ("Profile_All_l_item_data_n_chars_3", ("l", "item", "n", "chars"), (1, 0, 1, 0)),
    ]
    assert [each.name for each in fletcher_map([EVERYTHING], profile="spec").streams][:2] == ["All_s_0", "All_s_1"]


def test_streams_of_lists_within_lists() -> None:
    plan = fletcher_map([schema(field("l", items(UTF8), profile="true"))], profile="runtime")
    names = ["Profile_R_l_0", "Profile_R_l_item_1", "Profile_R_l_item_data_2", "Profile_R_l_item_data_chars_3"]
    assert [each.name for each in plan.streams] == names


# ---- generator and run-time library --------------------------------------------------------------------------------


def test_batch_order() -> None:
    batches = [schema(field("x"), name=name, mode=mode) for name, mode in
               (("Z", "write"), ("b", "read"), ("B", "read"), ("A", "write"))]  # fmt: skip
    with pytest.raises(RuleError):
        fletcher_map(batches)  # b and B
    order = [batch.name for batch in fletcher_map([batches[0], batches[1], batches[3]]).batches]
    assert order == ["b", "A", "Z"]
    assert [batch.mode for batch in fletcher_map(batches[:2]).batches] == [Mode.READ, Mode.WRITE]


def test_queue_order() -> None:
    batches = [schema(field("x"), name="Z", mode="write"), ONE, ONE, ONE.remove_metadata()]
    assert [batch.name for batch in fletcher_map(batches, profile="runtime").batches] == ["Z", "R", "R", "RB3"]


def test_schema_name() -> None:
    assert fletcher_map([ONE.remove_metadata()]).batches == ()
    assert len(fletcher_map([ONE, ONE]).batches) == 1
    with pytest.raises(RuleError, match="two different schemas are called R") as caught:
        fletcher_map([ONE, schema(field("b"))])
    assert caught.value.rule is not None
    assert caught.value.rule.id == "fletcher/schema-name"


def test_truncated_batch() -> None:
    cut = schema(field("a"), field("b", pa.bool_(), True), field("c"))
    plan = fletcher_map([cut, schema(field("x"), name="S")], profile="runtime")
    assert [slot.name for slot in plan.buffers] == ["R_a_values", "R_b_validity", "S_x_values"]
    with pytest.raises(RuleError, match=r"x of type null|x is of type null, which crashes the run-time library"):
        fletcher_map([schema(field("x", pa.null(), True))], profile="runtime")


def test_a_record_batch_flattens_nullable_children() -> None:
    made = schema(field("p", struct(field("x", I16, True))))
    batch = pa.RecordBatch.from_arrays([pa.array([{"x": 1}], made.field(0).type)], schema=made)
    assert [slot.kind for slot in fletcher_map([made]).buffers] == ["values"]
    for given in ([batch], [made, batch], [batch, made]):
        assert [slot.kind for slot in fletcher_map(given).buffers] == ["validity", "values"]


def test_a_wide_bus_keeps_addresses() -> None:
    narrow, wide = (fletcher_map([EVERYTHING], custom=["c:8:x", "c:8:y"], bus_width=bits) for bits in (32, 64))
    assert addresses(narrow) == addresses(wide)
    assert [(wide.by_name[name].lsb, narrow.by_name[name].lsb) for name in ("done", "start", "All_lastidx")] == [
        (34, 2),
        (0, 0),
        (32, 0),
    ]


# ---- the document's types ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "buffers"),
    [
        (pa.bool_(), "values"),
        (pa.duration("s"), "values"),
        (pa.decimal256(50), "values"),
        (pa.large_utf8(), "offsets values"),
        (pa.large_list(field("item", I16, True)), "offsets validity values"),
        (pa.map_(UTF8, I16), "offsets offsets values validity values"),
        (pa.list_(field("item"), 3), "values"),
        (items(items(UTF8)), "offsets offsets offsets values"),
        (struct(), ""),
        (struct(field("x", I16, True), field("y", struct(field("z", pa.bool_())), True)),
         "validity values validity values"),
        (pa.uuid(), "values"),
    ],
    ids=str,
)  # fmt: skip
def test_the_document_has_words_for(kind: pa.DataType, buffers: str) -> None:
    plan = fletcher_map([schema(field("a", kind))], profile="spec")
    assert [slot.kind for slot in plan.buffers] == buffers.split()
    nullable = fletcher_map([schema(field("a", kind, True))], profile="spec")
    assert [slot.kind for slot in nullable.buffers] == ["validity", *buffers.split()]


def test_a_null_array_has_no_buffers() -> None:
    assert fletcher_map([schema(field("a", pa.null(), True))], profile="spec").buffers == ()


@pytest.mark.parametrize(
    "kind",
    [
        pa.dictionary(pa.int8(), UTF8),
        pa.dense_union([field("x")]),
        pa.string_view(),
        pa.list_view(field("x")),
        pa.run_end_encoded(pa.int32(), I16),
    ],
    ids=str,
)
def test_the_document_has_no_words_for(kind: pa.DataType) -> None:
    with pytest.raises(
        BeyondModel, match=r"expected only types with validity, offsets, values and children as buffers.*field 0 \(a\)"
    ):
        fletcher_map([schema(field("a", kind, True))], profile="spec")


def test_extension_types_are_their_storage() -> None:
    json_type = pa.json_()
    assert [slot.kind for slot in fletcher_map([schema(field("a", json_type))]).buffers] == ["offsets", "values"]


# ---- finding things ------------------------------------------------------------------------------------------------


def test_batches_and_registers_by_name() -> None:
    plan = fletcher_map([ONE], custom=["c:8:cat"])
    assert plan.batch("R") is plan.batches[0]
    assert plan.custom("cat").width == 8
    with pytest.raises(WireError, match=r"the register map has no RecordBatch Q \(it has: R\)"):
        plan.batch("Q")
    with pytest.raises(WireError, match=r"the register map has no custom register dog \(it has: cat\)"):
        plan.custom("dog")
    with pytest.raises(WireError, match=r"it has: none"):
        fletcher_map([ONE]).custom("dog")


def test_any_schema_exporter_is_a_schema() -> None:
    class Exporter:
        def __arrow_c_schema__(self) -> object:
            return ONE.__arrow_c_schema__()

    assert fletcher_map([Exporter()]) == fletcher_map([ONE])
    with pytest.raises(SoftcardError, match="cannot read an Arrow schema from a value of type int"):
        fletcher_map([3])
