"""Kernels of general use: arithmetic on columns, filters, regular expressions, and sums by key."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from softcard.core.errors import RuleError
from softcard.core.words import signed
from softcard.device.fletcher.job import Job
from softcard.device.fletcher.kernel import Kernel, SchemaLike, kernel
from softcard.device.fletcher.rules import BUFFER_FORMAT, CUSTOM_CONTROL

# ---- arithmetic ------------------------------------------------------------------------------------------------------


OPERATIONS: Final[tuple[Callable[[Any, Any], Any], ...]] = (
    np.add,
    np.subtract,
    np.multiply,
    np.minimum,
    np.maximum,
    np.bitwise_and,
    np.bitwise_or,
    np.bitwise_xor,
)
"""The operations of the kernel "arithmetic", indexed by the value of its register `operation`."""


@kernel(
    "arithmetic",
    read={"In": [("a", pa.int64()), ("b", pa.int64())]},
    write={"Out": [("c", pa.int64())]},
    custom=("c:8:operation",),
)
def arithmetic(job: Job) -> Iterator[None]:
    """Compute column c = a op b in 64 bits, wrapping around; the result is the number of rows.

    The register operation selects op: 0 to 7 are +, -, *, min, max, and, or, xor."""
    number = job.control("operation")
    if number >= len(OPERATIONS):
        raise RuleError(f"operation is {number}, expected 0 to {len(OPERATIONS) - 1}", rule=CUSTOM_CONTROL)
    for part in job.slices("In"):
        values = OPERATIONS[number](part["a"].to_numpy(), part["b"].to_numpy())
        job.write("Out", pa.RecordBatch.from_arrays([pa.array(values)], schema=job.map.batch("Out").schema))
        job.result += part.num_rows
        yield


# ---- filters ---------------------------------------------------------------------------------------------------------
# Filters: rows of one RecordBatch that meet a condition, to another one.


Selection = Callable[[Job, pa.RecordBatch], pa.Array]
"""A function that selects the rows of a slice that a filter kernel copies.

It returns an array with one Boolean for each row: True to copy the row.
"""


def filter_kernel(
    name: str, schema: SchemaLike, keep: Selection, custom: tuple[str, ...] = (), doc: str = ""
) -> Kernel:
    """Return a kernel that copies the rows of In that `keep` selects to Out; its result is their number.

    Both RecordBatches have the schema `schema`. `custom` are the kernel's custom registers, and `doc` is its
    description."""

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
"""The kernel "filter", described by its `doc`."""


# ---- regular expressions ---------------------------------------------------------------------------------------------
# Regular expressions: the number of lines of text that match each of the host's patterns.


REGEX_SLICE_ROWS = 1 << 16


@kernel(
    "regex_count",
    read={"Patterns": [("pattern", pa.utf8())], "Text": [("line", pa.utf8())]},
    write={"Counts": [("lines", pa.uint64())]},
)
def regex_count(job: Job) -> Iterator[None]:
    """Write to Counts the number of lines of Text that match each pattern; the result is the sum of these numbers.

    The patterns have RE2 syntax and may match anywhere in a line."""
    patterns = job.batch("Patterns").column(0).to_pylist()
    counts = np.zeros(len(patterns), np.uint64)
    for part in job.slices("Text", rows=REGEX_SLICE_ROWS):
        for index, pattern in enumerate(patterns):
            try:
                found = pc.match_substring_regex(part.column(0), pattern)
            except pa.ArrowInvalid as error:
                raise RuleError(f"pattern {index}, {pattern!r}: {error}", rule=BUFFER_FORMAT) from None
            counts[index] += np.uint64(found.true_count)
            job.result = int(counts.sum())
            yield
    job.write("Counts", pa.RecordBatch.from_arrays([pa.array(counts)], schema=job.map.batch("Counts").schema))


# ---- group-by --------------------------------------------------------------------------------------------------------
# Group-by: sum and count of a column for each key.


GROUP_SLICE_ROWS = 1 << 20


@kernel(
    "group_by",
    read={"In": [("key", pa.int64()), ("value", pa.int64())]},
    write={"Out": [("key", pa.int64()), ("sum", pa.int64()), ("count", pa.int64())]},
)
def group_by(job: Job) -> Iterator[None]:
    """Write each key to Out once, in ascending order, with the wrapping sum and the count of its values.

    The result is the number of keys."""
    schema = job.map.batch("Out").schema
    groups = schema.empty_table()
    for part in job.slices("In", rows=GROUP_SLICE_ROWS):
        found = pa.Table.from_batches([part]).group_by("key").aggregate([("value", "sum"), ("value", "count")])
        found = found.select(["key", "value_sum", "value_count"]).rename_columns(schema.names)
        both = pa.concat_tables([groups, found.cast(groups.schema)])
        both = both.group_by("key").aggregate([("sum", "sum"), ("count", "sum")])
        groups = both.select(["key", "sum_sum", "count_sum"]).rename_columns(schema.names).cast(schema)
        job.result = groups.num_rows
        yield
    for batch in groups.sort_by("key").combine_chunks().to_batches():
        job.write("Out", pa.RecordBatch.from_arrays(batch.columns, schema=schema))
