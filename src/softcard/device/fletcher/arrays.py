"""Arrow arrays in device memory: built from buffer addresses without copying the data, and written to buffers.

Values that the host wrote are not trusted. Every address, length and offset is checked before it is passed to pyarrow.
Each array contains only the requested rows: it has offset 0, and buffers of exactly the needed size.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from softcard.core.errors import BeyondModel, RuleError, SoftcardError
from softcard.core.rule import Rule
from softcard.device.fletcher.map.flatten import BufferKind, type_of
from softcard.device.fletcher.map.layout import BatchLayout, BufferSlot
from softcard.device.fletcher.rules import BUFFER_ADDRESS, BUFFER_FORMAT, INDEX_ORDER, NO_NULLS

OFFSET_BYTES: Final = 4
MAX_ALIGNMENT: Final = 8
CHECKED_AT_ONCE: Final = 1 << 16
"""The number of offsets that are compared at a time.

It is small enough that the temporary arrays of a comparison stay in the processor's cache.
"""
MAX_OFFSET: Final = (1 << 31) - 1

Node = tuple[int, ...]
Bytes = NDArray[np.uint8]


class Memory(Protocol):
    """The operations of device memory that the conversion of Arrow arrays needs."""

    def extent(self, address: int) -> int | None:
        """Return the number of bytes from `address` to the end of the allocation that contains it, or None.

        None means that no allocation contains `address`.
        """

    def view(self, address: int, size: int) -> memoryview:
        """Return `size` bytes at `address`, without a copy."""


def rebuild(layout: BatchLayout, addresses: Sequence[int], memory: Memory, first: int, last: int) -> pa.RecordBatch:
    """Return rows `first` to `last` (exclusive) of a RecordBatch in device memory.

    `layout` describes the RecordBatch; `addresses` are those of the buffers in `layout.buffers`, in the same order. The
    arrays share device memory (choice fletcher/zero-copy). Raise `RuleError` with the register's name if an address,
    the index range or offsets are wrong, and `BeyondModel` for types that Fletcher does not support.
    """
    if first > last:
        raise RuleError(
            f"{layout.name}_firstidx is {first} and {layout.name}_lastidx is {last}, expected first <= last",
            rule=INDEX_ORDER,
        )
    reader = _Reader(layout, addresses, memory)
    columns = [reader.array(field.type, (index,), first, last) for index, field in enumerate(layout.schema)]
    return pa.RecordBatch.from_arrays(columns, schema=layout.schema)


def store(
    layout: BatchLayout,
    addresses: Sequence[int],
    memory: Memory,
    first: int,
    batch: pa.RecordBatch,
    *,
    continues: bool = False,
) -> None:
    """Write `batch` as rows `first`, `first + 1`, ... of a RecordBatch in device memory.

    `addresses` are those of the buffers in `layout.buffers`. With `continues`, this call continues an earlier
    one: the first new offset is the end offset of the row before `first`. Otherwise offsets start at 0, as in the
    first command of a hardware writer. Everything is checked before the first byte is written; the errors are
    those of `rebuild`."""
    _check_schema(layout, batch)
    writer = _Writer(layout, addresses, memory)
    for index, column in enumerate(batch.columns):
        writer.array(column, (index,), first, continues)
    for view, data in writer.writes:
        view[:] = data.cast("B")


def as_rows(layout: BatchLayout, rows: pa.RecordBatch | Mapping[str, Any] | Sequence[Any]) -> pa.RecordBatch:
    """Return `rows`, which a kernel wants to write, as a RecordBatch.

    `rows` is a RecordBatch, or columns by name or in the schema's order. Raise `RuleError` unless they match the
    schema.
    """
    if isinstance(rows, pa.RecordBatch):
        return rows
    names, schema = layout.schema.names, layout.schema
    given = rows.keys() if isinstance(rows, Mapping) else names[: len(rows)]
    if set(given) != set(names) or len(rows) != len(names):
        shown = ", ".join(given) if isinstance(rows, Mapping) else f"{len(rows)} columns"
        shown = shown or "no columns"
        text = f"the kernel writes {shown} to RecordBatch {layout.name}, expected the fields {', '.join(names)}"
        raise RuleError(text, rule=BUFFER_FORMAT)
    columns = []
    for field, column in zip(schema, map(rows.get, names) if isinstance(rows, Mapping) else rows, strict=True):
        try:
            columns.append(_column(column, field.type))
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            text = f"{layout.name}.{field.name} cannot be written, expected values of type {field.type}: {error}"
            raise RuleError(text, rule=BUFFER_FORMAT) from None
    lengths = {len(column) for column in columns}
    if len(lengths) > 1:
        text = f"the columns for {layout.name} have {', '.join(map(str, sorted(lengths)))} rows"
        raise RuleError(f"{text}, expected the same number of rows in each", rule=BUFFER_FORMAT)
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _column(column: Any, type_: pa.DataType) -> pa.Array:
    """Return `column` as an array of type `type_`; raise an error for an Arrow array of another type."""
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    if not isinstance(column, pa.Array):
        return pa.array(column, type_)
    if column.type != type_:
        raise TypeError(f"the array is of type {column.type}")
    return column


def _check_schema(layout: BatchLayout, batch: pa.RecordBatch) -> None:
    expected = [(field.name, field.type) for field in layout.schema]
    given = [(field.name, field.type) for field in batch.schema]
    if expected != given:
        shown = [
            "{" + ", ".join(type_of(field, named=True) for field in schema) + "}"
            for schema in (layout.schema, batch.schema)
        ]
        text = f"the kernel writes a RecordBatch with the fields {shown[1]} to {layout.name}, expected {shown[0]}"
        raise RuleError(text, rule=BUFFER_FORMAT)


@dataclass(frozen=True, slots=True)
class _Buffer:
    """A buffer of an Arrow array in device memory, and the register that holds its address."""

    slot: BufferSlot
    address: int
    memory: Memory

    def error(self, message: str, rule: Rule) -> SoftcardError:
        """Return an error about the buffer, with `message` and the name of the buffer's register."""
        text = f"{self.slot.name} = {self.address:#x}: {message}"
        return RuleError(text, rule=rule).at("register", f"{self.slot.address:#x}", self.slot.name)

    @property
    def extent(self) -> int:
        """The number of bytes from the buffer's address to the end of the allocation that contains it."""
        extent = self.memory.extent(self.address)
        if extent is None:
            raise self.error("no device memory is allocated at this address", BUFFER_ADDRESS)
        return extent

    def view(self, start: int, size: int, what: str) -> memoryview:
        """Return `size` bytes from byte `start` of the buffer; `what` is their description in error messages."""
        extent = self.extent
        if start + size > extent:
            raise self.error(
                f"{what} end at byte {start + size}, but the allocation has {extent} bytes", BUFFER_ADDRESS
            )
        if not size:
            return memoryview(bytearray())
        return self.memory.view(self.address + start, size)

    def elements(self, width: int, first: int, last: int, what: str) -> memoryview:
        """Return elements `first` to `last` (exclusive) of the buffer, of `width` bytes each.

        `what` is their description in error messages.
        """
        alignment = min(width & -width, MAX_ALIGNMENT)
        if alignment and self.address % alignment:
            raise self.error(f"the address must be a multiple of {alignment}, the width of the elements", BUFFER_FORMAT)
        return self.view(first * width, (last - first) * width, f"{what} {first} to {last}, {width} bytes each,")


class _Buffers:
    """The buffers of a RecordBatch in device memory.

    Each one is identified by its array (the array's position in the schema) and its kind: validity, offsets or
    values."""

    def __init__(self, layout: BatchLayout, addresses: Sequence[int], memory: Memory) -> None:
        self._layout = layout
        pairs = zip(layout.buffers, addresses, strict=True)
        self._buffers = {(slot.node, slot.kind): _Buffer(slot, address, memory) for slot, address in pairs}

    def get(self, node: Node, kind: BufferKind) -> _Buffer | None:
        """Return the buffer of kind `kind` of the array at `node`.

        Return None if the design's register map has no register for this buffer."""
        return self._buffers.get((node, kind))

    def need(self, node: Node, kind: BufferKind, type_: pa.DataType) -> _Buffer:
        """Return the buffer of kind `kind` of the array at `node`, which is of type `type_`.

        Raise `BeyondModel` if the design's register map has no register for this buffer."""
        found = self._buffers.get((node, kind))
        if found is None:
            raise self.beyond(node, type_)
        return found

    def beyond(self, node: Node, type_: pa.DataType) -> BeyondModel:
        """Return a `BeyondModel` error, which says that Fletcher does not support the buffers of type `type_`."""
        field = self._layout.schema.field(node[0]).name
        error = BeyondModel(f"{self._layout.name}.{field}: Fletcher does not support arrays of {type_}")
        return error.at("field", field)


class _Reader(_Buffers):
    """The builder of Arrow arrays from device memory; each array has offset 0 and exactly the requested rows."""

    def array(self, type_: pa.DataType, node: Node, first: int, last: int) -> pa.Array:
        """Return rows `first` to `last` (exclusive) of the array at `node`."""
        rows = last - first
        width = element_width(type_)
        if not rows:
            self._check(type_, node)
            return pa.array([], type_)
        validity = self._validity(node, first, last)
        if width is not None:
            buffer = self.need(node, "values", type_)
            values = pa.py_buffer(buffer.elements(width, first, last, "rows"))
            return _sound(pa.Array.from_buffers(type_, rows, [validity, values]), buffer)
        if is_text(type_):
            return self._text(type_, node, first, last, validity)
        if pa.types.is_list(type_):
            return self._list(type_, node, first, last, validity)
        if is_nested(type_):
            members = [self.array(type_.field(i).type, (*node, i), first, last) for i in range(type_.num_fields)]
            return pa.Array.from_buffers(type_, rows, [validity], children=members)
        raise self.beyond(node, type_)

    def _check(self, type_: pa.DataType, node: Node) -> None:
        """Raise `BeyondModel` if Fletcher does not support the type, or a type inside it."""
        if is_nested(type_):
            for index in range(type_.num_fields):
                self._check(type_.field(index).type, (*node, index))
        elif element_width(type_) is None and not is_text(type_):
            raise self.beyond(node, type_)

    def _text(self, type_: pa.DataType, node: Node, first: int, last: int, validity: pa.Buffer | None) -> pa.Array:
        """Return rows `first` to `last` (exclusive) of an array of utf8 or binary type.

        Offsets are not copied, since they count from the start of the whole character buffer.
        """
        offsets, raw = self._offsets(node, first, last, type_)
        buffer = self.need(node, "values", type_)
        begin, end = int(offsets[0]), int(offsets[-1])
        chars = buffer.view(0, end, f"the characters of rows {first} to {last}") if end > begin else memoryview(b"")
        if end > begin:
            values = pa.py_buffer(chars)
        else:  # no characters: every row is empty
            raw, values = pa.py_buffer(bytes(raw.size)), pa.py_buffer(b"")
        array = pa.Array.from_buffers(type_, last - first, [validity, raw, values])
        return _sound(array, buffer)

    def _list(self, type_: pa.DataType, node: Node, first: int, last: int, validity: pa.Buffer | None) -> pa.Array:
        """Return rows `first` to `last` (exclusive) of an array of lists.

        The child array has only the elements of these rows. Offsets that do not start at 0 are therefore copied and
        changed.
        """
        offsets, raw = self._offsets(node, first, last, type_)
        begin, end = int(offsets[0]), int(offsets[-1])
        items = self.array(type_.value_type, (*node, 0), begin, end)
        if begin:
            raw = pa.py_buffer(offsets - np.int32(begin))
        return pa.Array.from_buffers(type_, last - first, [validity, raw], children=[items])

    def _offsets(self, node: Node, first: int, last: int, type_: pa.DataType) -> tuple[NDArray[np.int32], pa.Buffer]:
        """Return the validated offsets of rows `first` to `last` (exclusive), with the end of the last row.

        They are returned as a NumPy array and as the Arrow buffer that it views.
        """
        buffer = self.need(node, "offsets", type_)
        view = buffer.elements(OFFSET_BYTES, first, last + 1, "offsets")
        offsets = np.frombuffer(view, dtype="<i4")
        if offsets[0] < 0:
            raise buffer.error(f"the offset of row {first} is {offsets[0]}, expected 0 or more", BUFFER_FORMAT)
        for start in range(0, last - first, CHECKED_AT_ONCE):
            part = offsets[start : start + CHECKED_AT_ONCE + 1]
            falls = part[1:] < part[:-1]
            if falls.any():
                row = int(falls.argmax())
                text = (
                    f"the offset of row {first + start + row + 1} is {part[row + 1]}, expected at least {part[row]}, "
                    "the "
                    "offset before it"
                )
                raise buffer.error(text, BUFFER_FORMAT)
        return offsets, pa.py_buffer(view)

    def _validity(self, node: Node, first: int, last: int) -> pa.Buffer | None:
        """Return the validity bitmap of rows `first` to `last` (exclusive); None if all of them are valid."""
        buffer = self.get(node, "validity")
        if buffer is None or buffer.extent == 0:  # choice fletcher/empty-validity
            return None
        start = first // 8
        view = buffer.view(start, -(-last // 8) - start, f"the validity bits of rows {first} to {last}")
        if first % 8:
            bits = np.unpackbits(np.frombuffer(view, np.uint8), bitorder="little")[first % 8 :]
            return pa.py_buffer(np.packbits(bits[: last - first], bitorder="little"))
        return pa.py_buffer(view)


class _Writer(_Buffers):
    """The collector of all bytes to write to the buffers of a RecordBatch; it does not write them itself."""

    def __init__(self, layout: BatchLayout, addresses: Sequence[int], memory: Memory) -> None:
        super().__init__(layout, addresses, memory)
        self.writes: list[tuple[memoryview, memoryview]] = []

    def array(self, array: pa.Array, node: Node, first: int, continues: bool) -> None:
        """Collect the bytes of `array`, which become rows `first`, `first + 1`, ... of the array at `node`.

        With `continues`, the first new offset is the end offset of the row before `first`; otherwise it is 0."""
        type_, rows = array.type, len(array)
        width = element_width(type_)
        if width is None and not is_text(type_) and not is_nested(type_):
            raise self.beyond(node, type_)
        self._validity(array, node, first)
        if width is not None:
            target = self.need(node, "values", type_).elements(width, first, first + rows, "rows")
            self.writes.append((target, _cut(array.buffers()[1], array.offset * width, rows * width)))
        elif pa.types.is_struct(type_):
            for index in range(type_.num_fields):
                self.array(array.field(index), (*node, index), first, continues)
        else:
            self._lengths(array, node, first, continues)

    def _lengths(self, array: pa.Array, node: Node, first: int, continues: bool) -> None:
        """Collect the bytes of an array whose rows have lengths, that is, texts or lists.

        These are the bytes of the offsets, and then those of the characters or items."""
        type_, rows = array.type, len(array)
        buffer = self.need(node, "offsets", type_)
        base = self._base(buffer, first) if continues else 0
        own = _own_offsets(array)
        begin, end = int(own[0]), int(own[-1])
        if base + end - begin > MAX_OFFSET:
            raise buffer.error(f"{base + end - begin} elements are too many for 32-bit offsets", BUFFER_FORMAT)
        target = buffer.elements(OFFSET_BYTES, first, first + rows + 1, "offsets")
        self.writes.append((target, (own + np.int32(base - begin)).data))
        if not is_text(type_):
            self.array(array.values.slice(begin, end - begin), (*node, 0), base, continues or base > 0)
        elif end > begin:
            chars = self.need(node, "values", type_)
            what = f"the characters of rows {first} to {first + rows}"
            view = chars.view(base, end - begin, what)
            self.writes.append((view, _cut(array.buffers()[2], begin, end - begin)))

    def _base(self, buffer: _Buffer, first: int) -> int:
        """Return the offset at which the elements of row `first` begin, which is where the row before it ends."""
        view = buffer.elements(OFFSET_BYTES, first, first + 1, "offsets")
        base = int.from_bytes(view, "little", signed=True)
        if base < 0:
            raise buffer.error(f"the offset of row {first} is {base}, expected 0 or more", BUFFER_FORMAT)
        return base

    def _validity(self, array: pa.Array, node: Node, first: int) -> None:
        buffer, rows = self.get(node, "validity"), len(array)
        if buffer is None or not rows:
            if array.null_count:
                field = self._layout.schema.field(node[0]).name
                raise RuleError(
                    f"{self._layout.name}.{field}: the column has {array.null_count} nulls, but the register map has "
                    "no validity buffer for it",
                    rule=NO_NULLS,
                )
            return
        start, end = first // 8, -(-(first + rows) // 8)
        what = f"the validity bits of rows {first} to {first + rows}"
        view = buffer.view(start, end - start, what)
        bits = np.unpackbits(np.frombuffer(view, np.uint8), bitorder="little")
        bits[first % 8 : first % 8 + rows] = array.is_valid().to_numpy(zero_copy_only=False)
        self.writes.append((view, np.packbits(bits, bitorder="little").data))


def element_width(type_: pa.DataType) -> int | None:
    """Return the size in bytes of an element of a fixed-width type.

    Return None for other types and for types whose elements have no bytes.
    """
    if pa.types.is_fixed_size_binary(type_):
        return int(type_.byte_width) or None
    if pa.types.is_decimal128(type_):
        return 16
    if pa.types.is_boolean(type_) or not (pa.types.is_primitive(type_) or pa.types.is_temporal(type_)):
        return None
    if pa.types.is_duration(type_) or pa.types.is_interval(type_):
        return None
    return int(type_.bit_width) // 8


def is_text(type_: pa.DataType) -> bool:
    """Return True for the types utf8 and binary, whose arrays have an offsets and a character buffer."""
    return bool(pa.types.is_string(type_) or pa.types.is_binary(type_))


def is_nested(type_: pa.DataType) -> bool:
    """Return True for a list, or for a struct with members.

    A struct without members has no child array that limits its rows.
    """
    return bool(pa.types.is_list(type_) or (pa.types.is_struct(type_) and type_.num_fields))


def _sound(array: pa.Array, values: _Buffer) -> pa.Array:
    """Return `array`; raise an error if its values are not valid for its type.

    The checked values are UTF-8 texts, dates of whole days, times of a day, and decimals within their precision.
    The error message names the register of the buffer `values`."""
    types = pa.types
    if (
        types.is_string(array.type)
        or types.is_decimal(array.type)
        or types.is_date64(array.type)
        or types.is_time(array.type)
    ):
        try:
            array.validate(full=True)
        except pa.ArrowInvalid as error:
            raise values.error(f"the values are not valid for type {array.type}: {error}", BUFFER_FORMAT) from None
    return array


def _own_offsets(array: pa.Array) -> NDArray[np.int32]:
    """Return the offsets of `array`, an array that pyarrow created in this process, without validation."""
    buffer = array.buffers()[1]
    if buffer is None or not len(array):
        return np.zeros(1, np.int32)
    return np.frombuffer(buffer, dtype="<i4")[array.offset : array.offset + len(array) + 1]


def _cut(buffer: pa.Buffer | None, start: int, size: int) -> memoryview:
    return memoryview(b"") if buffer is None or not size else memoryview(buffer)[start : start + size]
