"""RecordBatches as Fletcher's run-time library treats them.

This module determines the buffers that the library passes on, their order, and the rows that a kernel sees.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final, Protocol, SupportsIndex, TypeAlias

import pyarrow as pa

from softcard.core.display import count
from softcard.core.errors import BeyondModel, RuleError, WireError
from softcard.device.fletcher.arrays import rebuild
from softcard.device.fletcher.map.build import fletcher_map
from softcard.device.fletcher.map.flatten import FlatBuffer, Reading, Shape, flatten_schema, shape, storage
from softcard.device.fletcher.map.layout import BatchLayout
from softcard.device.fletcher.rules import INDEX_RANGE, NO_NULLS

_OFFSET_BYTES: Final = 4
_KINDS: Final = {"validity": 0, "offsets": 1}


@dataclass(frozen=True, slots=True)
class HostBuffer:
    """One unsliced Arrow buffer: its position in the schema, and its bytes.

    `data` is None if the array has no such buffer."""

    flat: FlatBuffer
    data: pa.Buffer | None

    @property
    def size(self) -> int:
        """The size of the buffer in bytes."""
        return 0 if self.data is None else int(self.data.size)


class ArrowArray(Protocol):
    """An object with the Arrow C data interface."""

    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[object, object]: ...


class ArrowStream(Protocol):
    """An object with the Arrow C stream interface."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...


ArrowSource: TypeAlias = pa.RecordBatch | pa.Table | ArrowArray | ArrowStream
"""Any producer of Arrow data."""


def as_batch(source: ArrowSource) -> pa.RecordBatch:
    """Return a RecordBatch from any Arrow producer: pyarrow, or an object with Arrow's C data or stream interface.

    Raise `WireError` for other objects, and `BeyondModel` for tables of several chunks, which would need a copy.
    """
    if isinstance(source, pa.RecordBatch):
        return source
    try:
        if hasattr(source, "__arrow_c_array__"):
            return pa.record_batch(source)
        if isinstance(source, pa.Table) or hasattr(source, "__arrow_c_stream__"):
            return _only_chunk(pa.table(source))
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise WireError(f"cannot make a RecordBatch from a {type(source).__name__}: {error}") from None
    raise WireError(f"expected a RecordBatch or another Arrow producer, not a {type(source).__name__}")


def buffers_of(batch: pa.RecordBatch) -> tuple[HostBuffer, ...]:
    """Return the buffers of a RecordBatch in the order in which Fletcher's run-time library passes them.

    Nullable fields and nullable children have a validity buffer in this list even if they contain no nulls."""
    found = []
    for flat in flatten_schema(batch.schema, Reading.RUNTIME).buffers:
        array = batch.column(flat.node[0])
        for index in flat.node[1:]:
            array = _child(array, index)
        found.append(HostBuffer(flat, _buffer(array, flat.kind)))
    return tuple(found)


def empty_batch(schema: pa.Schema, rows: int, elements: int = 0) -> pa.RecordBatch:
    """Return a RecordBatch of zeros for a kernel to write to.

    It has `rows` rows. Each list or string column has room for `elements` items or characters, summed over all rows.
    """
    for name, number in (("rows", rows), ("elements", elements)):
        if not isinstance(number, SupportsIndex) or number.__index__() < 0:
            raise WireError(f"{name} of an empty RecordBatch is {number!r}, expected an integer of 0 or more")
    columns = [_empty(storage(field.type), field.nullable, rows, elements) for field in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


class HostCopies:
    """Buffers that were copied back from the device, by device address.

    The class implements the memory interface that the function `rebuild` needs."""

    def __init__(self, copies: dict[int, bytes]) -> None:
        self._copies = copies

    def extent(self, address: int) -> int | None:
        """Return the number of bytes from `address` to the end of its buffer, or None outside of all buffers."""
        copy = self._copies.get(address)
        return None if copy is None else len(copy)

    def view(self, address: int, size: int) -> memoryview:
        """Return the `size` bytes at the device address `address`, taken from the buffer that contains them."""
        start = next(base for base, copy in self._copies.items() if base <= address <= base + len(copy))
        return memoryview(self._copies[start])[address - start :][:size]


def batch_of(schema: pa.Schema, rows: int, addresses: Sequence[int], copies: dict[int, bytes]) -> pa.RecordBatch:
    """Return a RecordBatch of `rows` rows, made of buffers that were copied back from the device.

    `addresses` contains the device address of each buffer, and `copies` the bytes by address. Errors name the buffer.
    """
    layout: BatchLayout = fletcher_map([schema], profile="runtime").batches[0]
    return rebuild(layout, addresses, HostCopies(copies), 0, rows)


def _only_chunk(table: pa.Table) -> pa.RecordBatch:
    batches = table.to_batches()
    if len(batches) > 1:
        raise BeyondModel(f"the table has {len(batches)} chunks, expected one: make a copy with combine_chunks()")
    return batches[0] if batches else pa.RecordBatch.from_pylist([], schema=table.schema)


def _child(array: pa.Array, index: int) -> pa.Array:
    """Return a child array without applying the parent's slice.

    Fletcher's run-time library passes whole buffers on, regardless of slices.
    """
    return array.values if shape(array.type) is Shape.LIST else array.field(index)


def _buffer(array: pa.Array, kind: str) -> pa.Buffer | None:
    """Return the buffer of kind `kind` of an array.

    Return None if the array lacks such a buffer, or if it is a validity buffer and the array contains no nulls.
    """
    if kind == "validity" and not array.null_count:
        return None
    buffers = array.buffers()
    if kind == "values" and shape(array.type) is Shape.BINARY:
        return buffers[2]
    found: pa.Buffer | None = buffers[_KINDS.get(kind, 1)]
    return found


def _empty(kind: pa.DataType, nullable: bool, rows: int, elements: int) -> pa.Array:
    validity = pa.py_buffer(bytes(-(-rows // 8))) if nullable else None
    nulls = rows if nullable else 0
    match shape(kind):
        case Shape.FIXED:
            values = pa.py_buffer(bytes(rows * kind.byte_width))
            return pa.Array.from_buffers(kind, rows, [validity, values], nulls)
        case Shape.BINARY:
            offsets, chars = pa.py_buffer(bytes((rows + 1) * _OFFSET_BYTES)), pa.py_buffer(bytes(elements))
            return pa.Array.from_buffers(kind, rows, [validity, offsets, chars], nulls)
        case Shape.LIST:
            offsets = pa.py_buffer(bytes((rows + 1) * _OFFSET_BYTES))
            item = kind.field(0)
            items = _empty(storage(item.type), item.nullable, elements, elements)
            return pa.Array.from_buffers(kind, rows, [validity, offsets], nulls, children=[items])
        case Shape.STRUCT:
            members = [kind.field(index) for index in range(kind.num_fields)]
            children = [_empty(storage(each.type), each.nullable, rows, elements) for each in members]
            return pa.Array.from_buffers(kind, rows, [validity], nulls, children=children)
    raise BeyondModel(f"Fletcher does not support arrays of {kind}")


# ---- rows of a kernel ------------------------------------------------------------------------------------------------
# Checks that a kernel sees the rows that a RecordBatch has.
#
# The run-time passes buffers on as they are, and rows 0 to `num_rows`. If a column starts later in its buffers (it is a
# slice), or has nulls without a validity buffer, the kernel would silently read other values.


@dataclass(frozen=True, slots=True)
class Level:
    """An unsliced array inside a column, and the range of its elements that belong to the RecordBatch's rows.

    The range is `first` to `last`, without `last`."""

    name: str
    is_items: bool
    """True if the array lies below a list, so that its elements are not the rows."""
    field: pa.Field
    array: pa.Array
    first: int
    last: int


def unsliced(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return a copy of `batch` in which all columns and nested arrays start at the first element of their buffers."""
    return pa.ipc.read_record_batch(batch.serialize(), batch.schema)


def levels(batch: pa.RecordBatch) -> Iterator[Level]:
    """Yield all arrays of a RecordBatch as `Level` objects, depth first.

    The items of a list column are omitted if the RecordBatch's rows contain no item."""
    return chain.from_iterable(map(_levels, _columns(batch)))


def check_slices(name: str, batch: pa.RecordBatch, index: int) -> None:
    """Raise a `RuleError` if a column of `batch` does not start at the first element of its buffers.

    `name` and `index` are the name and the number of the RecordBatch in the queue."""
    found = tuple(levels(batch))
    sliced = next((level for level in found if level.array.offset), None)
    if sliced is None:
        return
    start, rows = sliced.array.offset, batch.num_rows
    way = f"queue a copy, softcard.fletcher.unsliced(batch){_range_way(found, index, rows)}"
    what = f"{_place(name, sliced)} starts at element {start} of its buffers"
    error = f"{what}, but the run-time library passes whole buffers with rows 0 to {rows}: {way}"
    raise RuleError(error, rule=INDEX_RANGE).at("column", sliced.name)


def check_nulls(name: str, batch: pa.RecordBatch) -> None:
    """Raise a `RuleError` if a row contains a null and the null's field has no validity buffer."""
    for column in _columns(batch):
        if any(map(_has_hidden_nulls, _levels(column))):
            _check_nulls(column, name)


def plain(array: pa.Array) -> pa.Array:
    """Return the array that is stored in memory: for an extension type its storage, otherwise the array itself."""
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
    """Return advice, for an error message, to select the rows by `Kernel.set_range`.

    Return "" if one row range cannot select them: columns start at different elements, or list items do not start
    at element 0."""
    starts = {level.array.offset for level in found if not level.is_items}
    if len(starts) > 1 or any(level.array.offset for level in found if level.is_items):
        return ""
    start = starts.pop()
    then = f"set_range({index}, {start}, {start + rows}) after write_metadata()"
    return f", or queue it with whole=True and call the kernel's {then}"


def _has_hidden_nulls(level: Level) -> bool:
    """Return True if an array may contain nulls although its field has no validity buffer.

    Nulls below a row that is itself null are included.
    """
    return not level.field.nullable and level.array.slice(level.first, level.last - level.first).null_count > 0


def _check_nulls(level: Level, batch: str) -> None:
    """Raise a `RuleError` if an array without validity buffer contains nulls below parents that are not null.

    The kernel would read such nulls as values. `batch` is the name of the RecordBatch.
    """
    array = level.array
    if array.null_count and not level.field.nullable:
        raise RuleError(
            f"{_place(batch, level)} has {count(array.null_count, 'null')}, but is not nullable: no validity buffer is "
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
