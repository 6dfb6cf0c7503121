"""Group-by: sum and count of a column for each key."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from understudy.device.fletcher.job import Job
from understudy.device.fletcher.kernel import kernel

SLICE_ROWS = 1 << 20


@kernel(
    "group_by",
    read={"In": [("key", pa.int64()), ("value", pa.int64())]},
    write={"Out": [("key", pa.int64()), ("sum", pa.int64()), ("count", pa.int64())]},
)
def group_by(job: Job) -> Iterator[None]:
    """Out: each key once, in order, with the wrapping sum and the count of its values. The result counts the keys."""
    schema = job.map.batch("Out").schema
    groups = schema.empty_table()
    for part in job.slices("In", rows=SLICE_ROWS):
        found = pa.Table.from_batches([part]).group_by("key").aggregate([("value", "sum"), ("value", "count")])
        found = found.select(["key", "value_sum", "value_count"]).rename_columns(schema.names)
        both = pa.concat_tables([groups, found.cast(groups.schema)])
        both = both.group_by("key").aggregate([("sum", "sum"), ("count", "sum")])
        groups = both.select(["key", "sum_sum", "count_sum"]).rename_columns(schema.names).cast(schema)
        job.result = groups.num_rows
        yield
    for batch in groups.sort_by("key").combine_chunks().to_batches():
        job.write("Out", pa.RecordBatch.from_arrays(batch.columns, schema=schema))
