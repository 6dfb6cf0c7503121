"""A host program of the real Fletcher run-time (Python 3.9): one RecordBatch of all kinds of types."""

import datetime

import numpy
import pyarrow as pa
import pyfletcher

POINT = pa.struct([pa.field("x", pa.int32(), False), pa.field("name", pa.utf8())])
DAY = datetime.date(2026, 11, 21)
COLUMNS = [
    (pa.field("number", pa.int64()), [1, None, -3, 4]),
    (pa.field("text", pa.utf8(), False), ["", "Bilbo", "\u017dofie", "x" * 70]),
    (pa.field("word", pa.utf8()), [None, "a", None, "bc"]),
    (pa.field("half", pa.float32()), [0.5, 1.5, 2.5, 3.5]),
    (pa.field("day", pa.date32(), False), [DAY] * 4),
    (pa.field("tag", pa.binary(3), False), [b"abc", b"\0\0\0", b"xyz", b"123"]),
    (pa.field("list", pa.list_(pa.field("item", pa.int16()))), [[1, None], None, [], [3]]),
    (pa.field("point", POINT), [{"x": 1, "name": "n"}, None, {"x": 3, "name": None}, {"x": 4, "name": ""}]),
    (pa.field("points", pa.list_(pa.field("item", POINT, False)), False), [[], [{"x": 1, "name": None}] * 2, [], []]),
    (
        pa.field("lists", pa.list_(pa.field("item", pa.list_(pa.field("item", pa.uint8(), False))))),
        [[[1, 2], None, []], None, [], [[3]]],
    ),
]
schema = pa.schema([field for field, _ in COLUMNS])
schema = schema.with_metadata({b"fletcher_name": b"Types", b"fletcher_mode": b"read"})
arrays = [pa.array(values, field.type) for field, values in COLUMNS]
batch = pa.RecordBatch.from_arrays(arrays, schema=schema)

platform = pyfletcher.Platform("softcard")
platform.init()
context = pyfletcher.Context(platform)
context.queue_record_batch(batch)
context.enable()
kernel = pyfletcher.Kernel(context)
kernel.start()
kernel.poll_until_done()
print(context.num_buffers(), kernel.get_return(numpy.dtype(numpy.uint64)))
for field, values in COLUMNS:
    print(field.name, values)
