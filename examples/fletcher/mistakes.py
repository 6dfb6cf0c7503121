"""What becomes of a host's mistakes: the register, and the clause of the document, by name."""

import numpy as np
import pyarrow as pa

from softcard import Platform, SoftcardError
from softcard.fletcher import Context, Kernel, find

SUM, FILTER = find("sum"), find("filter")


def wrong_address() -> None:
    """A buffer's register holds no address of device memory."""
    with Platform(SUM) as platform:
        for register, value in ((5, 4), (6, 0x5000), (7, 0), (0, 1), (0, 0)):
            platform.write_mmio(register, value)
        platform.read_mmio(1)


def too_many_rows() -> None:
    """The index range goes on past the end of the RecordBatch."""
    batch = pa.record_batch([pa.array([1, -3, 3, -7])], schema=SUM.schemas[0])
    with Platform(SUM) as platform, Context(platform) as context:
        context.queue_record_batch(batch)
        context.enable()
        kernel = Kernel(context)
        kernel.write_metadata()
        kernel.set_range(0, 0, 5)
        kernel.start()
        kernel.wait_for_finish()


def wrong_order() -> None:
    """RecordBatches are queued in another order than the hardware has them."""
    given = {schema.metadata[b"fletcher_name"]: schema for schema in FILTER.schemas}
    rows = [pa.array(np.arange(4)), pa.array(["a", "b", "c", "d"])]
    with Platform(FILTER) as platform, Context(platform) as context:
        for name in (b"Out", b"In"):
            context.queue_record_batch(pa.record_batch(rows, schema=given[name]))
        context.enable()


for number, mistake in enumerate((wrong_address, too_many_rows, wrong_order), 1):
    try:
        mistake()
    except SoftcardError as error:
        print(f"{number}. {error}")
