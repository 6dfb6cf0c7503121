"""Sum, Fletcher's first example: the 64-bit sum of a column, as its VHDL computes it."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from understudy.device.fletcher.job import Job
from understudy.device.fletcher.kernel import Handshake, kernel

SLICE_ROWS = 1 << 25
"""256 MiB of numbers: 10 ms or so, between two of which a host can stop it."""


@kernel(
    "sum",
    read={"ExampleBatch": [("number", pa.int64())]},
    handshake=Handshake(idle_when_done=True, restartable=False),
)
def sum_numbers(job: Job) -> Iterator[None]:
    """Result: the sum of all numbers, which wraps around in 64 bits. An empty range never finishes, as in hardware."""
    first, last = job.rows()
    if first == last:
        job.hang(f"Sum waits for the last of its rows, and {first} to {last} is none")
    total = 0
    for part in job.slices(rows=SLICE_ROWS):
        total += pc.sum(part.column(0)).as_py() or 0  # pyarrow's wraps around too
        yield
    job.result = total
