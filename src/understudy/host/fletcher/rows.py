"""Whether a kernel would see the rows that a RecordBatch has.

The run-time passes buffers on as they are, and rows 0 to `num_rows`. Where a column starts later in its buffers (it is
a slice), or has nulls and no validity buffer, the kernel would read something else, and nobody would be told.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain

import pyarrow as pa

from understudy.core.errors import RuleError
from understudy.core.shown import count
from understudy.device.fletcher.map.flatten import Shape, shape
from understudy.device.fletcher.rules import INDEX_RANGE, NO_NULLS


@dataclass(frozen=True, slots=True)
class Level:
    """An array somewhere in a column, whole, and which of its elements the RecordBatch's rows have."""

    name: str
    is_items: bool
    """Whether it lies below a list: then its elements are not the rows."""
    field: pa.Field
    array: pa.Array
    first: int
    last: int


def unsliced(batch: pa.RecordBatch) -> pa.RecordBatch:
    """A copy whose columns, and what is inside them, start at the first element of their buffers."""
    return pa.ipc.read_record_batch(batch.serialize(), batch.schema)


def levels(batch: pa.RecordBatch) -> Iterator[Level]:
    """All arrays of a RecordBatch, depth first, those that no row has anything of left out."""
    return chain.from_iterable(map(_levels, _columns(batch)))


def check_slices(name: str, batch: pa.RecordBatch, index: int) -> None:
    """`RuleError` where a column of `batch`, number `index` in the queue, starts behind the first element."""
    found = tuple(levels(batch))
    sliced = next((level for level in found if level.array.offset), None)
    if sliced is None:
        return
    start, rows = sliced.array.offset, batch.num_rows
    way = f"queue a copy, understudy.host.fletcher.unsliced(batch){_range_way(found, index, rows)}"
    what = f"{_place(name, sliced)} starts at element {start} of its buffers"
    error = f"{what}, which the run-time passes whole with rows 0 to {rows}: expected a start at 0; {way}"
    raise RuleError(error, rule=INDEX_RANGE).at("column", sliced.name)


def check_nulls(name: str, batch: pa.RecordBatch) -> None:
    """`RuleError` where a row has a null that no validity buffer tells of."""
    for column in _columns(batch):
        if any(map(_has_hidden_nulls, _levels(column))):
            _check_nulls(column, name)


def plain(array: pa.Array) -> pa.Array:
    """The array that lies in memory: of an extension type its storage."""
    return array.storage if isinstance(array, pa.ExtensionArray) else array


def _columns(batch: pa.RecordBatch) -> Iterator[Level]:
    if batch.num_rows:
        for field, column in zip(batch.schema, batch.columns, strict=True):
            yield Level(field.name, False, field, plain(column), 0, batch.num_rows)


def _levels(level: Level) -> Iterator[Level]:
    yield level
    array, first, last = level.array, level.first, level.last
    if shape(array.type) is Shape.STRUCT:
        for number in range(array.type.num_fields):
            field = array.type.field(number)
            name = f"{level.name}.{field.name}"
            yield from _levels(Level(name, level.is_items, field, plain(array.field(number)), first, last))
    elif shape(array.type) is Shape.LIST:
        begin, end = array.offsets[first].as_py(), array.offsets[last].as_py()
        if end > begin:
            yield from _levels(Level(level.name, True, array.type.value_field, plain(array.values), begin, end))


def _range_way(found: tuple[Level, ...], index: int, rows: int) -> str:
    """How to name the rows instead: possible where all columns start at the same element."""
    starts = {level.array.offset for level in found if not level.is_items}
    if len(starts) > 1 or any(level.array.offset for level in found if level.is_items):
        return ""
    start = starts.pop()
    then = f"set_range({index}, {start}, {start + rows}) after write_metadata()"
    return f", or queue it with whole=True and call the kernel's {then}"


def _has_hidden_nulls(level: Level) -> bool:
    """Whether there may be nulls that no validity buffer tells of; those of rows that are null themselves count too."""
    return not level.field.nullable and level.array.slice(level.first, level.last - level.first).null_count > 0


def _check_nulls(level: Level, batch: str) -> None:
    """Only what no null above hides matters: the rest nobody reads."""
    array = level.array
    if array.null_count and not level.field.nullable:
        raise RuleError(
            f"{_place(batch, level)} has {count(array.null_count, 'null')}, and is not nullable: no validity buffer is "
            "passed, and the kernel would take them for values; fill them (fill_null), or let the field be nullable",
            rule=NO_NULLS,
        ).at("column", level.name)
    valid = array.drop_null() if array.null_count else array
    if shape(array.type) is Shape.STRUCT:
        for number in range(array.type.num_fields):
            field = array.type.field(number)
            member = plain(valid.field(number))
            _check_nulls(Level(f"{level.name}.{field.name}", level.is_items, field, member, 0, len(member)), batch)
    elif shape(array.type) is Shape.LIST:
        items = plain(valid.flatten())
        _check_nulls(Level(level.name, True, array.type.value_field, items, 0, len(items)), batch)


def _place(batch: str, level: Level) -> str:
    return f"{batch}.{level.name}" + (" (list items)" if level.is_items else "")
