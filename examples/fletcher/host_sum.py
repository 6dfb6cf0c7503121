"""The Sum example's host program, with the names and the calls of the real run-time library, and no FPGA."""

import numpy as np
import pyarrow as pa

from softcard import Platform
from softcard.fletcher import Context, Kernel, find

design = find("sum")
batch = pa.record_batch([pa.array(np.arange(1_000_000))], schema=design.schemas[0])

with Platform(design) as platform, Context(platform) as context:
    context.queue_record_batch(batch)
    context.enable()
    kernel = Kernel(context)
    kernel.start()
    kernel.wait_for_finish()
    print(f"sum of {batch.num_rows:,} rows: {kernel.get_return(np.int64)}, status {kernel.get_status():#05b}")

    # done holds until the reset; a range that is set after the metadata stays
    small = pa.record_batch([pa.array([1, -3, 3, -7])], schema=design.schemas[0])
    with Context(platform) as other:
        other.queue_record_batch(small)
        other.enable()
        kernel = Kernel(other)
        kernel.reset()
        kernel.write_metadata()
        kernel.set_range(0, 1, 3)
        kernel.start()
        kernel.wait_for_finish()
        print(f"1 <= row < 3: {kernel.get_return(np.int64)}")
