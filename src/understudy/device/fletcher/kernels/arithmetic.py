"""Arithmetic on columns: one result for each row of two columns."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np
import pyarrow as pa

from understudy.core.errors import RuleError
from understudy.device.fletcher.job import Job
from understudy.device.fletcher.kernel import kernel
from understudy.device.fletcher.rules import CUSTOM_CONTROL

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
"""By their number in the register operation."""


@kernel(
    "arithmetic",
    read={"In": [("a", pa.int64()), ("b", pa.int64())]},
    write={"Out": [("c", pa.int64())]},
    custom=("c:8:operation",),
)
def arithmetic(job: Job) -> Iterator[None]:
    """Column c = a op b in 64 bits, wrapping around: op is + - * min max and or xor for operation 0 to 7.

    The result is the number of rows.
    """
    number = job.control("operation")
    if number >= len(OPERATIONS):
        raise RuleError(f"operation is {number}, expected 0 to {len(OPERATIONS) - 1}", rule=CUSTOM_CONTROL)
    for part in job.slices("In"):
        values = OPERATIONS[number](part["a"].to_numpy(), part["b"].to_numpy())
        job.write("Out", pa.RecordBatch.from_arrays([pa.array(values)], schema=job.map.batch("Out").schema))
        job.result += part.num_rows
        yield
