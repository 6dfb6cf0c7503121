"""StringRead and listprim, examples whose hardware prints what it reads: here each line is an event of the device."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from understudy.device.fletcher.job import Job
from understudy.device.fletcher.kernel import Handshake, kernel

SLICE_ROWS = 1 << 12

VECTOR = pa.list_(pa.field("item", pa.int16(), nullable=False))


def _print_all(job: Job, name: str) -> Iterator[None]:
    for part in job.slices(name, rows=SLICE_ROWS):
        for row in part.column(0).to_pylist():
            job.say(str(row))
        yield


@kernel(
    "string_read",
    read={"StringRead": pa.schema([pa.field("Name", pa.utf8(), nullable=False, metadata={"fletcher_epc": "4"})])},
    handshake=Handshake(idle_when_done=False),
)
def string_read(job: Job) -> Iterator[None]:
    """Say every string. The result is not driven, and done comes without idle."""
    return _print_all(job, "StringRead")


@kernel("listprim", read={"src": [("vec", VECTOR)]}, write={"dst": [("vec", VECTOR)]})
def listprim(job: Job) -> Iterator[None]:
    """Say every vector. The example's write path is unfinished: dst stays as it is."""
    return _print_all(job, "src")
