"""Kernels and RecordBatches that the tests of the host library share."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from softcard.device.fletcher.job import Job
from softcard.device.fletcher.kernel import kernel, named_schema
from softcard.host.fletcher.platform import Context, Kernel, Platform

NUMBER = named_schema("ExampleBatch", [("number", pa.int64())])


@kernel("Sum", read={"ExampleBatch": [("number", pa.int64())]})
def add_up(job: Job) -> Any:
    return pc.sum(job.batch()["number"]).as_py()


@kernel("Upper", read={"In": [("s", pa.string())]}, write={"Out": [("s", pa.string())]}, custom=["c:32:limit"])
def upper(job: Job) -> int:
    batch = job.batch()
    column = pc.utf8_upper(batch["s"]).slice(0, job.control("limit"))
    job.write("Out", pa.record_batch([column], schema=pa.schema([pa.field("s", pa.string(), False)])))
    return len(column)


def numbers(*values: int) -> pa.RecordBatch:
    return pa.record_batch([pa.array(values, pa.int64())], schema=NUMBER)


def run(batch: Any, **options: Any) -> int:
    with Platform(add_up, **options) as platform, Context(platform) as context:
        context.queue_record_batch(batch)
        context.enable()
        kernel = Kernel(context)
        kernel.start()
        kernel.wait_for_finish()
        found: int = kernel.get_return("int64")
        return found
