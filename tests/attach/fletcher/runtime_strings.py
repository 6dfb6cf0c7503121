"""A host program of the real Fletcher run-time (Python 3.9): reads, arguments, several RecordBatches, results back.

SodaBeer: reads Hobbits, writes Beer and Soda; prints what came back.
"""

import numpy
import pyarrow
import pyfletcher

NAMES = ["Bilbo", "Sam", "Rosie", "Frodo", "Elanor", "Lobelia", "Merry", "Pippin"]
AGES = [111, 35, 32, 33, 1, 80, 37, 29]
LIMIT = 33
FIELDS = [pyarrow.field("name", pyarrow.utf8(), False), pyarrow.field("age", pyarrow.uint8(), False)]


def batch(name, mode, names, ages):
    schema = pyarrow.schema(FIELDS).with_metadata({"fletcher_name": name, "fletcher_mode": mode})
    arrays = [pyarrow.array(names, pyarrow.utf8()), pyarrow.array(ages, pyarrow.uint8())]
    return pyarrow.RecordBatch.from_arrays(arrays, schema=schema)


platform = pyfletcher.Platform("softcard")
platform.init()
context = pyfletcher.Context(platform)
# In the order of the hardware: to read first, then to write, each by name.
context.queue_record_batch(batch("Hobbits", "read", NAMES, AGES))
for name in ("Beer", "Soda"):
    context.queue_record_batch(batch(name, "write", ["." * 16] * 8, [0] * 8))
context.enable()
kernel = pyfletcher.Kernel(context)
kernel.set_arguments([LIMIT])
kernel.start()
kernel.poll_until_done()
counts = int(kernel.get_return(numpy.dtype(numpy.uint64)))
beers, sodas = counts & 0xFFFFFFFF, counts >> 32
print(beers, sodas)


def back(index, dtype, count):
    # The real Context.get_device_buffer raises a TypeError; buffers of up to a page lie two pages apart.
    data = platform.copy_device_to_host(0x100000000 + 0x2000 * index, numpy.dtype(dtype).itemsize * count)
    return numpy.frombuffer(bytearray(data), dtype=dtype)


for first, rows in ((3, beers), (6, sodas)):
    offsets = back(first, numpy.int32, rows + 1)
    characters = bytes(back(first + 1, numpy.uint8, int(offsets[-1])))
    ages = back(first + 2, numpy.uint8, rows)
    names = [characters[offsets[row] : offsets[row + 1]].decode() for row in range(rows)]
    print(*(f"{names[row]} {ages[row]}" for row in range(rows)), sep=", ")
