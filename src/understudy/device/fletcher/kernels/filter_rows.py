"""Filters: rows of one RecordBatch that meet a condition, to another one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from understudy.core.words import signed
from understudy.device.fletcher.job import Job
from understudy.device.fletcher.kernel import Kernel, SchemaLike, kernel

Keep = Callable[[Job, pa.RecordBatch], pa.Array]
"""Which rows of a slice stay: a Boolean for each."""


def filter_kernel(name: str, schema: SchemaLike, keep: Keep, custom: tuple[str, ...] = (), doc: str = "") -> Kernel:
    """A kernel that copies the rows of In that `keep` chooses to Out, of the same `schema`; the result counts them."""

    def run(job: Job) -> Iterator[None]:
        for part in job.slices("In"):
            kept = part.filter(keep(job, part))
            job.write("Out", pa.RecordBatch.from_arrays(kept.columns, schema=job.map.batch("Out").schema))
            job.result += kept.num_rows
            yield

    run.__doc__ = doc
    return kernel(name, read={"In": schema}, write={"Out": schema}, custom=custom)(run)


def _between(job: Job, part: pa.RecordBatch) -> pa.Array:
    low, high = (pa.scalar(signed(job.control(name), 64), pa.int64()) for name in ("low", "high"))
    return pc.and_(pc.greater_equal(part["key"], low), pc.less(part["key"], high))


FILTER: Final = filter_kernel(
    "filter",
    [("key", pa.int64()), ("text", pa.utf8())],
    _between,
    ("c:64:low", "c:64:high"),
    "Copy rows with low <= key < high, both signed. The result counts them.",
)
"""See its `doc`."""
