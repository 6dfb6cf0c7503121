"""A kernel sees the rows that a RecordBatch has, or its host is told: slices, and nulls that no buffer tells of."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from softcard.core.errors import RuleError
from softcard.core.lint import LintError, LintWarning
from softcard.device.fletcher.device import FletcherDevice
from softcard.device.fletcher.kernel import Kernel as VirtualKernel
from softcard.device.fletcher.kernel import named_schema
from softcard.device.fletcher.map.build import fletcher_map
from softcard.device.fletcher.rules import INDEX_RANGE
from softcard.host.fletcher.platform import Context, Kernel, Platform, unsliced
from tests.attach.fletcher.random_batches import random_batch
from tests.host.fletcher.rig import NUMBER, numbers, run

SEEDS = range(500)


def seen(batch: pa.RecordBatch, rows: tuple[int, int] | None = None, **options: Any) -> list[dict[str, Any]]:
    """The rows that a kernel finds where `batch` is queued; passed whole, where the host names `rows`."""
    found: list[list[dict[str, Any]]] = []
    kernel = VirtualKernel("look", lambda job: found.append(job.batch().to_pylist()))
    device = FletcherDevice(fletcher_map([batch.schema], profile="runtime"), kernel, **options)
    with Platform(device) as platform, Context(platform) as context:
        context.queue_record_batch(batch, whole=rows is not None)
        context.enable()
        handle = Kernel(context)
        if rows is not None:
            handle.write_metadata()
            handle.set_range(0, *rows)
        handle.start()
        handle.wait_for_finish()
    return found[0]


def one(field: pa.Field, array: pa.Array) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([array], schema=named_schema("R", pa.schema([field])))


# ---- slices ----------------------------------------------------------------------------------------------------------


def test_chunks_of_a_table() -> None:
    table = pa.Table.from_batches([numbers(*range(1000))])
    chunks = table.to_batches(max_chunksize=100)
    assert run(chunks[0]) == sum(range(100))
    with pytest.raises(RuleError) as caught:
        run(chunks[3])
    assert caught.value.rule is INDEX_RANGE
    assert caught.value.message == (
        "ExampleBatch.number starts at element 300 of its buffers, but the run-time library passes whole buffers "
        "with rows 0 to 100: queue a copy, softcard.fletcher.unsliced(batch), or queue it with whole=True "
        "and call the kernel's set_range(0, 300, 400) after write_metadata()"
    )
    assert sum(run(unsliced(chunk)) for chunk in chunks) == sum(range(1000))


def test_a_slice_passed_whole_and_named_by_the_host() -> None:
    assert seen(numbers(1, 2, 3, 4).slice(2, 2), (2, 4)) == [{"number": 3}, {"number": 4}]


def test_the_hardware_sees_the_wrong_rows() -> None:
    """As with the real run-time, which tells nobody."""
    with pytest.warns(LintWarning, match=r"wrong-rows: ExampleBatch.number starts at element 2 .*fletcher/index-range"):
        assert run(numbers(1, 2, 3, 4).slice(2, 2), profile="hardware") == 1 + 2
    with pytest.raises(LintError, match="starts at element 2 of its buffers"):
        run(numbers(1, 2, 3, 4).slice(2, 2), profile="hardware", lints="raise")


@pytest.mark.parametrize("batch", [numbers(1, 2, 3).slice(0, 2), numbers(1, 2, 3).slice(2, 0), numbers()])
def test_slices_that_start_at_the_first_row_or_have_none(batch: pa.RecordBatch) -> None:
    assert seen(batch) == batch.to_pylist()


ITEM = pa.field("item", pa.int16(), False)
WORDS = pa.array(["a", "bc", "def"])
PAIR = pa.field("r", pa.struct([pa.field("x", pa.int8(), False), pa.field("s", pa.string(), False)]), False)


@pytest.mark.parametrize(
    ("field", "array", "place", "ways"),
    [
        (pa.field("s", pa.string(), False), WORDS.slice(1), "R.s starts at element 1 ", 2),
        (pa.field("s", pa.string()), pa.array(["a", None, "b"]).slice(1), "R.s starts at element 1 ", 2),
        (
            pa.field("v", pa.list_(ITEM), False),
            pa.ListArray.from_arrays(pa.array([0, 1, 2], pa.int32()), pa.array([7, 8, 9], pa.int16()).slice(1)),
            "R.v (list items) starts at element 1 ",
            1,
        ),
        (
            PAIR,
            pa.StructArray.from_arrays(
                [pa.array([1, 2], pa.int8()), WORDS.slice(1)], fields=[PAIR.type.field(0), PAIR.type.field(1)]
            ),
            "R.r.s starts at element 1 ",
            1,
        ),
        (
            PAIR,
            pa.StructArray.from_arrays(
                [pa.array([1, 2, 3], pa.int8()), WORDS], fields=[PAIR.type.field(0), PAIR.type.field(1)]
            ).slice(2),
            "R.r starts at element 2 ",
            2,
        ),
    ],
    ids=["text", "nullable text", "list items", "a member", "a struct"],
)
def test_slices_of_all_kinds(field: pa.Field, array: pa.Array, place: str, ways: int) -> None:
    batch = one(field, array.cast(field.type) if field.name == "v" else array)
    with pytest.raises(RuleError) as caught:
        seen(batch)
    assert caught.value.message.startswith(place)
    assert ("whole=True" in caught.value.message) == (ways == 2)
    assert seen(unsliced(batch)) == batch.to_pylist()


# ---- nulls -----------------------------------------------------------------------------------------------------------


def test_nulls_that_no_buffer_has() -> None:
    batch = pa.RecordBatch.from_arrays([pa.array([1, None])], schema=NUMBER)
    with pytest.raises(RuleError) as caught:
        run(batch)
    assert str(caught.value) == (
        "ExampleBatch.number has 1 null, but is not nullable: no validity buffer is passed, and the kernel would take "
        "them for values; fill them (fill_null), or let the field be nullable, at column number, "
        "[fletcher/no-nulls: Schema derived registers]"
    )
    assert run(batch, profile="hardware", lints="off") == 1
    assert run(batch.slice(0, 1)) == 1


def test_nulls_inside() -> None:
    lists = pa.field("v", pa.list_(ITEM), False)
    with pytest.raises(RuleError, match=r"R.v \(list items\) has 1 null"):
        seen(one(lists, pa.array([[1], [None, 2]], lists.type)))
    inner = pa.field("r", pa.struct([pa.field("x", pa.int8(), False)]))
    with pytest.raises(RuleError, match=r"R.r.x has 1 null"):
        seen(one(inner, pa.array([{"x": 1}, {"x": None}, None], inner.type)))


def test_nulls_below_nulls_are_nobodys() -> None:
    """A member of a row that is null itself may be null too."""
    field = pa.field("r", pa.struct([pa.field("x", pa.int8(), False)]))
    members, validity = [pa.array([1, None], pa.int8())], pa.py_buffer(b"\x01")
    batch = one(field, pa.Array.from_buffers(field.type, 2, [validity], children=members))
    assert batch.column(0).field(0).null_count == 1
    assert seen(batch) == [{"r": {"x": 1}}, {"r": None}]


def test_what_a_kernel_writes_to_may_hold_anything() -> None:
    schema = named_schema("W", [("x", pa.int8())], "write")
    batch = pa.RecordBatch.from_arrays([pa.array([None, 1], pa.int8())], schema=schema)
    device = FletcherDevice(fletcher_map([schema]), VirtualKernel("idle", lambda job: None))
    with Platform(device) as platform, Context(platform) as context:
        context.queue_record_batch(batch)
        context.enable()
        assert context.num_buffers() == 1


# ---- any RecordBatch -------------------------------------------------------------------------------------------------


def test_rows_are_seen_or_refused() -> None:
    """Nothing in between; what the refusal offers as a way out is one."""
    refused = named = 0
    for seed in SEEDS:
        batch = random_batch(seed)
        text = refusal(batch, seed)
        refused += bool(text)
        if "starts at element" in text:
            copied = refusal(unsliced(batch), seed)
            assert not copied or NULLS in copied, f"seed {seed}: {copied}"
            if "whole=True" in text:
                start = batch.column(0).offset
                assert NULLS in copied or not refusal(batch, seed, (start, start + batch.num_rows)), f"seed {seed}"
                named += 1
        else:
            assert not text or NULLS in text, f"seed {seed}: {text}"
    assert 50 < refused < len(SEEDS) - 50
    assert named > 10


NULLS = ", but is not nullable"


def refusal(batch: pa.RecordBatch, seed: int, rows: tuple[int, int] | None = None) -> str:
    """Return the reason for which `batch` is refused; "" if a kernel sees its rows."""
    try:
        found = seen(batch, rows)
    except RuleError as error:
        return error.message
    assert found == batch.to_pylist(), f"seed {seed}"
    return ""
