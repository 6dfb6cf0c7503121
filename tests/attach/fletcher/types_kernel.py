"""A kernel that says what it reads, of types that buffers make hard: nulls, text, lists, structs, lists of both."""

import pyarrow as pa

from softcard.device.fletcher.kernel import kernel

POINT = pa.struct([pa.field("x", pa.int32(), False), pa.field("name", pa.utf8())])
FIELDS = [
    pa.field("number", pa.int64()),
    pa.field("text", pa.utf8(), False),
    pa.field("word", pa.utf8()),
    pa.field("half", pa.float32()),
    pa.field("day", pa.date32(), False),
    pa.field("tag", pa.binary(3), False),
    pa.field("list", pa.list_(pa.field("item", pa.int16()))),
    pa.field("point", POINT),
    pa.field("points", pa.list_(pa.field("item", POINT, False)), False),
    pa.field("lists", pa.list_(pa.field("item", pa.list_(pa.field("item", pa.uint8(), False))))),
]


@kernel("types", read={"Types": pa.schema(FIELDS)})
def types(job):
    """Say each column; the result is the number of rows."""
    batch = job.batch()
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        job.say(f"{name} {column.to_pylist()}")
    return batch.num_rows
