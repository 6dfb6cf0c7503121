"""What the streams of a RecordBatch carry, counted on its arrays (see profiler.py for the model)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from understudy.core.errors import RuleError
from understudy.device.fletcher.map.flatten import (
    LENGTHS_PER_CYCLE,
    VALUES_PER_CYCLE,
    Shape,
    count_per_cycle,
    is_list_of_primitives,
    shape,
)


@dataclass(frozen=True, slots=True)
class Traffic:
    """What one stream moves. `packets` counts the lists that end in it; None where it is not below a list."""

    elements: int
    transfers: int
    packets: int | None


def traffic(node: tuple[int, ...], schema: pa.Schema, batch: pa.RecordBatch) -> Traffic:
    """What the stream of the array at `node` carries for all rows of `batch`."""
    field = schema.field(node[0])
    kind = field.type
    array: Any = batch.column(node[0])
    count = len(array)
    lists: NDArray[np.int64] | None = None
    is_values = shape(kind) in (Shape.FIXED, Shape.STRUCT)
    for index in node[1:]:
        above = kind
        if not is_list_of_primitives(above):  # those say it for their elements too
            field = above.field(index)
        if shape(above) is Shape.STRUCT:
            array = array.field(index)
        else:
            offsets = own_offsets(array)
            lists = np.diff(offsets)
            count = int(offsets[-1] - offsets[0])
            if shape(above) is Shape.BINARY:
                is_values = True
                break
            array = array.values.slice(int(offsets[0]), count)
        kind = above.field(index).type
        is_values = shape(kind) in (Shape.FIXED, Shape.STRUCT)
    per_cycle = _per_cycle(field, VALUES_PER_CYCLE if is_values else LENGTHS_PER_CYCLE)
    if lists is None:
        return Traffic(count, -(-count // per_cycle), None)
    return Traffic(count, int(np.maximum(-(-lists // per_cycle), 1).sum()), len(lists))


def own_offsets(array: Any) -> NDArray[np.int64]:
    """The offsets of the rows of a list or string array, and the end of the last one."""
    buffer = array.buffers()[1]
    if not len(array) or buffer is None:
        return np.zeros(1, np.int64)
    return np.frombuffer(buffer, np.int32)[array.offset : array.offset + len(array) + 1].astype(np.int64)


def _per_cycle(field: pa.Field, key: bytes) -> int:
    """A number among a field's metadata; 1 where it is missing or none."""
    try:
        return max(count_per_cycle(field, key) or 1, 1)
    except RuleError:
        return 1
