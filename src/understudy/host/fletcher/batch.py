"""RecordBatches as the run-time library sees them: which buffers it passes on, in which order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, SupportsIndex

import pyarrow as pa

from understudy.core.errors import BeyondModel, WireError
from understudy.device.fletcher.arrays import rebuild
from understudy.device.fletcher.map.build import fletcher_map
from understudy.device.fletcher.map.flatten import FlatBuffer, Reading, Shape, flatten_schema, shape, storage
from understudy.device.fletcher.map.layout import BatchLayout

_OFFSET_BYTES: Final = 4
_KINDS: Final = {"validity": 0, "offsets": 1}


@dataclass(frozen=True, slots=True)
class HostBuffer:
    """One buffer: its place in the schema, and its bytes (None where Arrow has no such buffer), whole and unsliced."""

    flat: FlatBuffer
    data: pa.Buffer | None

    @property
    def size(self) -> int:
        """Bytes."""
        return 0 if self.data is None else int(self.data.size)


def as_batch(source: Any) -> pa.RecordBatch:
    """A RecordBatch of any Arrow producer: pyarrow's own, or what speaks Arrow's C data or stream interface.

    `WireError` for what is none, `BeyondModel` for tables of several chunks, which would need a copy.
    """
    if isinstance(source, pa.RecordBatch):
        return source
    try:
        if hasattr(source, "__arrow_c_array__"):
            return pa.record_batch(source)
        if isinstance(source, pa.Table) or hasattr(source, "__arrow_c_stream__"):
            return _only_chunk(pa.table(source))
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise WireError(f"a {type(source).__name__} that gives no RecordBatch: {error}") from None
    raise WireError(f"a {type(source).__name__}, expected a RecordBatch or another Arrow producer")


def buffers_of(batch: pa.RecordBatch) -> tuple[HostBuffer, ...]:
    """The buffers of a RecordBatch in the run-time's order: of nullable fields and children a validity buffer too."""
    found = []
    for flat in flatten_schema(batch.schema, Reading.RUNTIME).buffers:
        array = batch.column(flat.node[0])
        for index in flat.node[1:]:
            array = _child(array, index)
        found.append(HostBuffer(flat, _buffer(array, flat.kind)))
    return tuple(found)


def empty_batch(schema: pa.Schema, rows: int, elements: int = 0) -> pa.RecordBatch:
    """A RecordBatch of zeros for a kernel to write to: `rows` rows, and room for `elements` elements below each list or
    string: the characters, or items, of all rows together."""
    for name, number in (("rows", rows), ("elements", elements)):
        if not isinstance(number, SupportsIndex) or number.__index__() < 0:
            raise WireError(f"{name} {number!r} of an empty RecordBatch, expected an integer of 0 or more")
    columns = [_empty(storage(field.type), field.nullable, rows, elements) for field in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


class HostCopies:
    """Buffers copied back from the device, by device address, as `rebuild` wants memory."""

    def __init__(self, copies: dict[int, bytes]) -> None:
        self._copies = copies

    def extent(self, address: int) -> int | None:
        """Bytes from `address` on."""
        copy = self._copies.get(address)
        return None if copy is None else len(copy)

    def view(self, address: int, size: int) -> memoryview:
        """The bytes."""
        start = next(base for base, copy in self._copies.items() if base <= address <= base + len(copy))
        return memoryview(self._copies[start])[address - start :][:size]


def batch_of(schema: pa.Schema, rows: int, addresses: Sequence[int], copies: dict[int, bytes]) -> pa.RecordBatch:
    """`rows` rows made of buffers that came back from the device; errors name the buffer."""
    layout: BatchLayout = fletcher_map([schema], profile="runtime").batches[0]
    return rebuild(layout, addresses, HostCopies(copies), 0, rows)


def _only_chunk(table: pa.Table) -> pa.RecordBatch:
    batches = table.to_batches()
    if len(batches) > 1:
        raise BeyondModel(f"a table of {len(batches)} chunks, expected one: combine_chunks() makes a copy that has one")
    return batches[0] if batches else pa.RecordBatch.from_pylist([], schema=table.schema)


def _child(array: pa.Array, index: int) -> pa.Array:
    """Child arrays whole, without what the parent's slice cuts off: the run-time passes buffers on as they are."""
    return array.values if shape(array.type) is Shape.LIST else array.field(index)


def _buffer(array: pa.Array, kind: str) -> pa.Buffer | None:
    """A buffer of an array, None where it has none; rows without nulls count as without a validity buffer."""
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
    raise BeyondModel(f"{kind}: Fletcher has no such arrays")
