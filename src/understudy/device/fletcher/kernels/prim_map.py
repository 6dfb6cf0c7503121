"""PrimMap: absolute values plus a constant, column by column, in 8 bits."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import numpy as np
import pyarrow as pa

from understudy.device.fletcher.job import Job
from understudy.device.fletcher.kernel import Kernel, kernel

ROWS_AS_BUILT: Final = 4
"""The example stops after that many rows, whatever its index ranges are."""


def _mapped(job: Job, batch: pa.RecordBatch) -> pa.RecordBatch:
    """abs(A) + add and abs(B) + add; abs(-128) is -128 in 8 bits."""
    add = np.uint8(job.control("add"))
    columns = [np.abs(column.to_numpy()).view(np.uint8) + add for column in batch.columns]
    return pa.RecordBatch.from_arrays([pa.array(c.view(np.int8)) for c in columns], schema=job.map.batch("W").schema)


_made = kernel(
    "prim_map",
    read={"R": [("A", pa.int8()), ("B", pa.int8())]},
    write={"W": [("C", pa.int8()), ("D", pa.int8())]},
    custom=("c:8:add", "s:32:sum"),
)


@_made
def prim_map(job: Job) -> Iterator[None]:
    """C = abs(A) + add and D = abs(B) + add for all rows. Neither the register sum nor the result is driven."""
    for part in job.slices("R"):
        job.write("W", _mapped(job, part))
        yield


@_made
def _as_built(job: Job) -> None:
    """The same for four rows, as the example does it."""
    first, last = job.rows("R")
    if last - first < ROWS_AS_BUILT:
        job.hang(f"PrimMap waits for {ROWS_AS_BUILT} rows, and {first} to {last} are {last - first}")
    job.write("W", _mapped(job, job.batch("R").slice(0, ROWS_AS_BUILT)))


PRIM_MAP_AS_BUILT: Final[Kernel] = replace(_as_built, name="prim_map_as_built")
