"""A host program of the real Fletcher run-time (Python 3.9): the Sum example. Knows nothing of Softcard.

Arguments: the platform's name ("" to detect one), then the numbers.
"""

import sys

import numpy
import pyarrow
import pyfletcher

name, numbers = sys.argv[1], [int(text) for text in sys.argv[2:]]
schema = pyarrow.schema([pyarrow.field("number", pyarrow.int64(), False)])
schema = schema.with_metadata({b"fletcher_name": b"ExampleBatch", b"fletcher_mode": b"read"})
batch = pyarrow.RecordBatch.from_arrays([pyarrow.array(numbers, pyarrow.int64())], schema=schema)

platform = pyfletcher.Platform(name) if name else pyfletcher.Platform()
platform.init()
context = pyfletcher.Context(platform)
context.queue_record_batch(batch)
context.enable()
kernel = pyfletcher.Kernel(context)
kernel.reset()
kernel.start()
kernel.poll_until_done()
print("sum", kernel.get_return(numpy.dtype(numpy.int64)))
