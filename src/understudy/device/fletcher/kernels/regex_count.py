"""Regular expressions: how many lines of text match each of the host's patterns."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from understudy.core.errors import RuleError
from understudy.device.fletcher.job import Job
from understudy.device.fletcher.kernel import kernel
from understudy.device.fletcher.rules import BUFFER_FORMAT

SLICE_ROWS = 1 << 16


@kernel(
    "regex_count",
    read={"Patterns": [("pattern", pa.utf8())], "Text": [("line", pa.utf8())]},
    write={"Counts": [("lines", pa.uint64())]},
)
def regex_count(job: Job) -> Iterator[None]:
    """Counts: for each pattern (RE2 syntax, found anywhere) the lines of Text that match. The result is their sum."""
    patterns = job.batch("Patterns").column(0).to_pylist()
    counts = np.zeros(len(patterns), np.uint64)
    for part in job.slices("Text", rows=SLICE_ROWS):
        for index, pattern in enumerate(patterns):
            try:
                found = pc.match_substring_regex(part.column(0), pattern)
            except pa.ArrowInvalid as error:
                raise RuleError(f"pattern {index}, {pattern!r}: {error}", rule=BUFFER_FORMAT) from None
            counts[index] += np.uint64(found.true_count)
            job.result = int(counts.sum())
            yield
    job.write("Counts", pa.RecordBatch.from_arrays([pa.array(counts)], schema=job.map.batch("Counts").schema))
