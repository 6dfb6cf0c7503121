"""Random RecordBatches, the same ones from a seed with any pyarrow: slices, bitmaps of all kinds, nested types.

Also the host program of the real Fletcher run-time (Python 3.9) that brings those of the seeds FIRST to LAST to a
device, with a read of the status register behind each.
"""

import random
import sys

import pyarrow as pa

FIXED = (pa.int8(), pa.uint16(), pa.int32(), pa.float64(), pa.date32(), pa.timestamp("us"), pa.decimal128(12, 2))
BYTES = {FIXED[0]: 1, FIXED[1]: 2, FIXED[2]: 4, FIXED[3]: 8, FIXED[4]: 4, FIXED[5]: 8, FIXED[6]: 16}


def random_batch(seed):
    """A RecordBatch, itself a slice of a larger one in half of the cases."""
    draw = random.Random(seed)
    rows = draw.randrange(12)
    fields = [
        pa.field(f"f{number}", random_type(draw, 3), draw.randrange(3) > 0) for number in range(draw.randrange(1, 5))
    ]
    before, behind = draw.randrange(2) * draw.randrange(20), draw.randrange(2) * draw.randrange(20)
    arrays = [random_array(draw, field.type, before + rows + behind) for field in fields]
    schema = pa.schema(fields).with_metadata({b"fletcher_name": b"R", b"fletcher_mode": b"read"})
    return pa.RecordBatch.from_arrays(arrays, schema=schema).slice(before, rows)


def random_type(draw, depth):
    """A type of Fletcher's, lists and structs at most `depth` deep."""
    kind = draw.randrange(6 if depth else 4)
    if kind < 2:
        return FIXED[draw.randrange(len(FIXED))]
    if kind < 4:
        return pa.utf8() if kind == 2 else pa.binary()
    if kind == 4:
        return pa.list_(pa.field("item", random_type(draw, depth - 1), draw.randrange(2) > 0))
    members = range(draw.randrange(1, 4))
    return pa.struct([pa.field(f"m{each}", random_type(draw, depth - 1), draw.randrange(2) > 0) for each in members])


def random_array(draw, kind, rows):
    """An array of that many rows: in half of the cases a slice of a longer one."""
    before, behind = draw.randrange(2) * draw.randrange(12), draw.randrange(2) * draw.randrange(12)
    size = before + rows + behind
    buffers, children = [random_validity(draw, size)], None
    if kind in BYTES:
        values = (draw.randrange(1 << min(20, 8 * BYTES[kind] - 1)) for _ in range(size))  # some of every type
        buffers.append(pa.py_buffer(b"".join(value.to_bytes(BYTES[kind], "little") for value in values)))
    elif pa.types.is_struct(kind):
        children = [random_array(draw, kind[index].type, size) for index in range(kind.num_fields)]
    else:
        ends = [draw.randrange(3)]
        for _ in range(size):
            ends.append(ends[-1] + draw.randrange(4))
        buffers.append(pa.array(ends, pa.int32()).buffers()[1])
        if pa.types.is_list(kind):
            children = [random_array(draw, kind.value_type, ends[-1] + draw.randrange(3))]
        else:
            buffers.append(pa.py_buffer(bytes(97 + draw.randrange(26) for _ in range(ends[-1]))))
    return pa.Array.from_buffers(kind, size, buffers, children=children).slice(before, rows)


def random_validity(draw, size):
    """No bitmap, one of valid rows alone, one with one null, or any."""
    kind = draw.randrange(4)
    if kind == 0:
        return None
    bits = [1] * size if kind < 3 else [draw.randrange(2) for _ in range(size)]
    if kind == 2 and size:
        bits[draw.randrange(size)] = 0
    packed = bytearray(-(-size // 8))
    for index, bit in enumerate(bits):
        packed[index // 8] |= bit << index % 8
    return pa.py_buffer(bytes(packed))


def main(first, last):
    """Be a host."""
    import pyfletcher

    platform = pyfletcher.Platform("softcard")
    platform.init()
    for seed in range(first, last):
        context = pyfletcher.Context(platform)
        context.queue_record_batch(random_batch(seed))
        context.enable()
        platform.read_mmio(1, "uint")
        del context


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
