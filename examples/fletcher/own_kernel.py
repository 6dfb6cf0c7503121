"""A kernel of one's own: the largest number of a column, slice by slice.

    softcard serve fletcher --kernel examples/fletcher/own_kernel.py:largest --socket /tmp/fletcher.sock

Run as a program it does the same within one process.
"""

from collections.abc import Generator

import pyarrow as pa
import pyarrow.compute as pc

from softcard.fletcher import Job, kernel


@kernel("largest", read={"ExampleBatch": [("number", pa.int64())]})
def largest(job: Job) -> Generator[None, None, int | None]:
    """Result: the largest number."""
    found = None
    for part in job.slices(rows=1 << 20):
        best = pc.max(part["number"]).as_py()
        found = best if found is None else max(found, best)
        yield
    return found


if __name__ == "__main__":
    from softcard import Platform
    from softcard.fletcher import Context, Kernel

    batch = pa.record_batch([pa.array([3, 17, -5])], schema=largest.schemas[0])
    with Platform(largest) as platform, Context(platform) as context:
        context.queue_record_batch(batch)
        context.enable()
        run = Kernel(context)
        run.start()
        run.wait_for_finish()
        print("largest:", run.get_return("int64"))
