"""RecordBatches as the run-time library sees them: any Arrow producer, whole buffers, its order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from softcard.core.errors import BeyondModel, RuleError, WireError
from softcard.device.fletcher.job import Job
from softcard.device.fletcher.kernel import kernel
from softcard.host.fletcher.batch import as_batch, buffers_of
from softcard.host.fletcher.platform import Context, Kernel, Platform
from tests.host.fletcher.rig import NUMBER, numbers, run

# ---- Arrow producers ------------------------------------------------------------------------------------------------


class Producer:
    """Speaks Arrow's C data interface, and nothing else."""

    def __init__(self, batch: pa.RecordBatch) -> None:
        self._batch = batch

    def __arrow_c_array__(self, requested_schema: Any = None) -> Any:
        return self._batch.__arrow_c_array__(requested_schema)


class StreamProducer:
    """Speaks Arrow's C stream interface, and nothing else."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self._table.__arrow_c_stream__(requested_schema)


BATCH = numbers(1, 2, 3)
TABLE = pa.Table.from_batches([BATCH])


@pytest.mark.parametrize("source", [BATCH, TABLE, Producer(BATCH), StreamProducer(TABLE)])
def test_any_arrow_producer_is_taken(source: Any) -> None:
    assert run(source) == 6


def test_an_empty_table_is_an_empty_batch() -> None:
    assert as_batch(TABLE.slice(0, 0)).num_rows == 0
    assert as_batch(pa.table({"x": pa.chunked_array([], pa.int8())})).schema.names == ["x"]


def test_producers_that_are_none() -> None:
    with pytest.raises(WireError, match="expected a RecordBatch or another Arrow producer, not a list"):
        as_batch([1, 2])
    with pytest.raises(BeyondModel, match="the table has 2 chunks, expected one: make a copy with combine_chunks"):
        as_batch(pa.concat_tables([TABLE, TABLE]))

    class Broken:
        def __arrow_c_array__(self, requested_schema: Any = None) -> Any:
            return 1, 2

    with pytest.raises(WireError, match="cannot make a RecordBatch from a Broken"):
        as_batch(Broken())


def test_rows_reach_the_kernel_without_a_copy() -> None:
    values = np.arange(4)
    seen: list[int] = []

    @kernel(read={"ExampleBatch": [("number", pa.int64())]})
    def look(job: Job) -> None:
        seen.append(job.batch()["number"].buffers()[1].address)

    with Platform(look) as platform, Context(platform) as context:
        context.queue_record_batch(pa.record_batch([pa.array(values)], schema=NUMBER))
        context.enable()
        handle = Kernel(context)
        handle.start()
        handle.wait_for_finish()
    assert seen == [values.ctypes.data]


# ---- the run-time's view of a RecordBatch ---------------------------------------------------------------------------


def test_buffers_come_in_the_runtimes_order() -> None:
    item = pa.struct([pa.field("x", pa.int16(), False), pa.field("n", pa.string())])
    batch = pa.record_batch(
        [pa.array([[{"x": 1, "n": "ab"}, {"x": 2, "n": None}], []], pa.list_(pa.field("item", item, False)))],
        schema=pa.schema([pa.field("ll", pa.list_(pa.field("item", item, False)))]),
    )
    found = [("_".join(buffer.flat.path), buffer.flat.kind, buffer.size) for buffer in buffers_of(batch)]
    assert found == [
        ("ll", "validity", 0),
        ("ll", "offsets", 12),
        ("ll_x", "values", 4),
        ("ll_n", "validity", 1),
        ("ll_n", "offsets", 12),
        ("ll_n", "values", 2),
    ]


def test_extension_types_end_what_is_passed() -> None:
    """Measured on the real run-time: it knows none, so that nothing of the field or of a later one is passed."""
    columns = [pa.array([1], pa.int8()), pa.array([b"\1" * 16], pa.uuid()), pa.array([2], pa.int8())]
    batch = pa.record_batch(columns, names=["a", "id", "b"])
    assert [(buffer.flat.path, buffer.flat.kind) for buffer in buffers_of(batch)] == [
        (("a",), "validity"),
        (("a",), "values"),
        (("id",), "validity"),
    ]


def test_extension_types_are_refused_before_the_kernel_starts() -> None:
    @kernel(read={"In": [("text", pa.json_())]})
    def look(job: Job) -> None:
        job.batch()

    with Platform(look) as platform, Context(platform) as context:
        context.queue_record_batch(pa.record_batch([pa.array(["{}"], pa.json_())], schema=look.schemas[0]))
        with pytest.raises(
            RuleError,
            match=r"In.text is of type extension<arrow.json.*>, .*for an extension array, its storage.*truncated-batch",
        ):
            context.enable()
