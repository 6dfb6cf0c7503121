"""The mapping of Arrow schemas to buffers, and to the hardware streams that can be profiled.

Buffers and streams are listed depth first, in register order. Fletcher's generator, its run-time library and its
specification interpret a schema differently (`Reading`); `checker` reports the differences.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from typing import Final, Literal

import pyarrow as pa

from softcard.core.errors import BeyondModel, RuleError, SoftcardError
from softcard.device.fletcher.rules import BUFFER_ORDER, FIELD_METADATA, SUPPORTED_TYPES, TRUNCATED_BATCH

BufferKind = Literal["validity", "offsets", "values"]
Path = tuple[str, ...]
Node = tuple[int, ...]

MAX_TEXT: Final = 100
"""The maximum number of characters of a type's name in a message."""
MAX_DIGITS: Final = 19
"""The number of decimal digits that always fit in 64 bits."""
VALUES_PER_CYCLE: Final = b"fletcher_epc"
LENGTHS_PER_CYCLE: Final = b"fletcher_lepc"
_NUMBER: Final = re.compile(rb"\s*\+?([0-9]+)")


class Reading(Enum):
    """The sets of rules by which a schema is flattened to buffers.

    The generator has two of them; the run-time library and the Fletcher specification have one each."""

    SCHEMA = "schema"
    """The generator's rules for schemas: children have no validity buffers."""
    BATCH = "batch"
    """The generator's rules for RecordBatches: all fields from the first unsupported one on are ignored."""
    RUNTIME = "runtime"
    """The run-time library's rules: those of BATCH, but extension types are unsupported as well.

    The generator never gets extension types, because they are not stored in files.
    """
    DOCUMENT = "document"
    """The rules of the Fletcher specification, for every type that it describes."""


_RECORDED: Final = (Reading.BATCH, Reading.RUNTIME)
"""The sets of rules that need a RecordBatch with its buffers, not only its schema."""


class Shape(Enum):
    """The memory layouts of Arrow types."""

    FIXED = "fixed"
    BINARY = "binary"
    LIST = "list"
    STRUCT = "struct"
    NULL = "null"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class FlatBuffer:
    """One buffer of a field of a schema.

    `path` has the names of the field and of its nested fields; list items have no name in it. `node` has the
    indices of the field and of its nested fields, including those of list items."""

    path: Path
    node: Node
    kind: BufferKind


@dataclass(frozen=True, slots=True)
class FlatStream:
    """A hardware stream of a field. The names of its registers consist of the field's name and `parts`.

    `node` identifies the array whose elements the stream carries: the field itself, list items (child 0), or
    struct members. The characters of a string count as its child 0."""

    parts: Path
    path: Path
    node: Node


@dataclass(frozen=True, slots=True)
class Flattened:
    """The buffers of a schema.

    Some rules (`Reading`) drop the first field of an unsupported type and all later fields. In this case, `cut`
    has the name and type of the first dropped field."""

    buffers: tuple[FlatBuffer, ...]
    cut: tuple[Path, str] | None = None


def _ids(names: str) -> frozenset[int]:
    return frozenset(getattr(pa.lib, f"Type_{name}") for name in names.split())


_NUMBERS: Final = "UINT8 INT8 UINT16 INT16 UINT32 INT32 UINT64 INT64 HALF_FLOAT FLOAT DOUBLE"
_FIXED: Final = _ids(f"{_NUMBERS} DATE32 DATE64 TIMESTAMP TIME32 TIME64 DECIMAL128 FIXED_SIZE_BINARY")
_BINARY: Final = _ids("STRING BINARY")
_LIST: Final = _ids("LIST")
_STRUCT: Final = _ids("STRUCT")
_FIXED_SIZE_BINARY: Final = _ids("FIXED_SIZE_BINARY")
_NULL: Final = _ids("NA")
# Types that the document describes and neither implementation supports.
_MORE_FIXED: Final = _ids("BOOL DURATION DECIMAL256 INTERVAL_MONTH_DAY_NANO")
_MORE_BINARY: Final = _ids("LARGE_STRING LARGE_BINARY")
_MORE_LIST: Final = _ids("LARGE_LIST MAP")
_FIXED_SIZE_LIST: Final = _ids("FIXED_SIZE_LIST")


def shape(kind: pa.DataType) -> Shape:
    """Return the memory layout that Fletcher's generator and run-time library use for type `kind`.

    Return OTHER if they do not support the type."""
    number = kind.id
    if number in _FIXED:
        return Shape.FIXED
    if number in _BINARY:
        return Shape.BINARY
    if number in _LIST:
        return Shape.LIST
    if number in _STRUCT:
        return Shape.STRUCT
    return Shape.NULL if number in _NULL else Shape.OTHER


def storage(kind: pa.DataType) -> pa.DataType:
    """Return the type that is stored in memory for `kind`: the storage type of an extension type, otherwise `kind`."""
    while isinstance(kind, pa.BaseExtensionType):
        kind = kind.storage_type
    return kind


def type_of(field: pa.Field, *, named: bool = False) -> str:
    """Return a field's type as Arrow writes it, such as ``int32 not null``.

    If `named`, the field's name precedes it.
    """
    text = type_text(field.type) + ("" if field.nullable else " not null")
    return f"{field.name}: {text}" if named else text


def type_text(kind: pa.DataType) -> str:
    """Return a type's name for a message, shortened if it is long."""
    text = str(kind)
    return text if len(text) <= MAX_TEXT else f"{text[:MAX_TEXT]}..."


def has_metadata(field: pa.Field, key: bytes, value: bytes = b"true") -> bool:
    """Return True if the field's metadata has exactly the value `value` for `key`."""
    metadata = field.metadata
    return bool(metadata) and metadata.get(key) == value


def is_ignored(field: pa.Field) -> bool:
    """Return True if Fletcher's generator creates no stream for the field (metadata ``fletcher_ignore``).

    The field's buffers still have registers."""
    return has_metadata(field, b"fletcher_ignore")


def is_profiled(field: pa.Field) -> bool:
    """Return True if the field's streams have profile counters (metadata ``fletcher_profile``).

    An ignored field has no streams, so the result is False.
    """
    return has_metadata(field, b"fletcher_profile") and not is_ignored(field)


def flatten_schema(schema: pa.Schema, reading: Reading) -> Flattened:
    """Return the buffers of all fields of `schema` by the rules `reading`, in the order of their registers.

    Raise `RuleError` for types that the generator rejects (SCHEMA) or that crash the run-time library (BATCH), and
    `BeyondModel` for types that the Fletcher specification does not cover.
    """
    walk = _Walk(reading)
    for index, field in enumerate(schema):
        try:
            walk.field(field, (field.name,), (index,))
        except _Cut as cut:
            return Flattened(tuple(walk.buffers), (cut.path, type_text(cut.kind)))
        except SoftcardError as error:
            raise error.at("field", f"{index}", field.name) from None
    return Flattened(tuple(walk.buffers))


class _Cut(Exception):  # never leaves this module
    def __init__(self, path: Path, kind: pa.DataType) -> None:
        self.path = path
        self.kind = kind


class _Walk:
    """The collector of a schema's buffers. It visits the schema's fields depth first."""

    def __init__(self, reading: Reading) -> None:
        self.buffers: list[FlatBuffer] = []
        self._reading = reading
        self._children = reading is not Reading.SCHEMA
        """True if child arrays have validity buffers."""

    def field(self, field: pa.Field, path: Path, node: Node) -> None:
        """Collect the buffers of a field or child, its validity buffer first."""
        kind = field.type if self._reading is Reading.RUNTIME else storage(field.type)
        if field.nullable and (self._children or len(node) == 1):
            if kind.id in _NULL and self._reading is not Reading.SCHEMA:
                return self._null(path)
            self.buffers.append(FlatBuffer(path, node, "validity"))
        self.type(kind, path, node)
        return None

    def type(self, kind: pa.DataType, path: Path, node: Node) -> None:
        """Collect the buffers of a field of type `kind`, except for its validity buffer."""
        match shape(kind):
            case Shape.FIXED:
                self.buffers.append(FlatBuffer(path, node, "values"))
            case Shape.BINARY:
                self.buffers += (FlatBuffer(path, node, "offsets"), FlatBuffer(path, node, "values"))
            case Shape.LIST:
                self.buffers.append(FlatBuffer(path, node, "offsets"))
                self.field(kind.field(0), path, (*node, 0))
            case Shape.STRUCT:
                for index in range(kind.num_fields):
                    member = kind.field(index)
                    self.field(member, (*path, member.name), (*node, index))
            case _:
                self._other(kind, path, node)

    def _null(self, path: Path) -> None:
        if self._reading in _RECORDED:
            raise RuleError(
                f"{_dotted(path)} is of type null, which crashes the run-time library", rule=TRUNCATED_BATCH
            )
        # The document: a null array has no buffers.

    def _other(self, kind: pa.DataType, path: Path, node: Node) -> None:
        """Handle a type that Fletcher's generator and run-time library do not support.

        The Fletcher specification covers some of these types."""
        if self._reading in _RECORDED:
            raise _Cut(path, kind)
        if self._reading is Reading.SCHEMA:
            raise RuleError(
                f"{_dotted(path)} is of type {type_text(kind)}, which the generator refuses", rule=SUPPORTED_TYPES
            )
        if kind.id in _MORE_FIXED:
            self.buffers.append(FlatBuffer(path, node, "values"))
        elif kind.id in _MORE_BINARY:
            self.buffers += (FlatBuffer(path, node, "offsets"), FlatBuffer(path, node, "values"))
        elif kind.id in _MORE_LIST:
            self.buffers.append(FlatBuffer(path, node, "offsets"))
            self.field(kind.field(0), path, (*node, 0))
        elif kind.id in _FIXED_SIZE_LIST:
            self.field(kind.field(0), path, (*node, 0))
        elif kind.id not in _NULL:
            raise BeyondModel(
                f"{_dotted(path)} is of type {type_text(kind)}, "
                "expected only types with validity, offsets, values and children as buffers",
                rule=BUFFER_ORDER,
            )


def field_streams(field: pa.Field, index: int) -> tuple[FlatStream, ...]:
    """Return the streams of field number `index` of a schema, in the order of their stream index."""
    name, kind = field.name, storage(field.type)
    found = [FlatStream((), (name,), (index,))]
    inner = _stream_children if is_list_of_primitives(kind) else _inner_streams
    inner(kind, (), (name,), (index,), found)
    return tuple(found)


def _inner_streams(kind: pa.DataType, parts: Path, path: Path, node: Node, found: list[FlatStream]) -> None:
    """Append to `found` the streams for a value of type `kind`, except for the stream that encloses the value.

    A string or a list of fixed-width values has a stream of its own. A value of another type is transferred
    in the enclosing stream; only the streams of its list items or struct members are appended."""
    if is_list_of_primitives(kind):
        found.append(FlatStream(parts, path, node))
        _stream_children(kind, parts, path, node, found)
        return
    match shape(kind):
        case Shape.LIST:
            _stream_children(kind, parts, path, node, found)
        case Shape.STRUCT:
            for index in range(kind.num_fields):
                member = kind.field(index)
                name = member.name
                _inner_streams(storage(member.type), (*parts, name), (*path, name), (*node, index), found)


def _stream_children(kind: pa.DataType, parts: Path, path: Path, node: Node, found: list[FlatStream]) -> None:
    """Append to `found` the stream of a list's items or a string's characters, and the streams inside it."""
    if shape(kind) is Shape.BINARY:
        name = "chars" if pa.types.is_string(kind) else "bytes"
        found.append(FlatStream((*parts, name), (*path, name), (*node, 0)))
        return
    item = kind.field(0)
    name = item.name
    own = FlatStream((*parts, name), (*path, name), (*node, 0))
    found.append(own)
    _inner_streams(storage(item.type), (*own.parts, "data"), own.path, own.node, found)


def is_list_of_primitives(kind: pa.DataType) -> bool:
    """Return True if values of type `kind` inside another type have their own stream.

    Such types are strings and lists of fixed-width values."""
    match shape(kind):
        case Shape.BINARY:
            return True
        case Shape.LIST:
            return shape(storage(kind.value_type)) is Shape.FIXED
        case _:
            return False


def check_streams(field: pa.Field) -> None:
    """Raise `RuleError` for a field for which Fletcher's generator cannot create a stream.

    Such fields are structs without members, fields with invalid metadata, and fields of type fixed_size_binary
    whose elements are transferred one per cycle."""
    todo = [field]
    while todo:
        child = todo.pop()
        kind = storage(child.type)
        is_struct, flat_list = kind.id in _STRUCT, is_list_of_primitives(kind)
        holds = storage(kind.value_type) if flat_list and kind.id in _LIST else kind
        if holds.id in _FIXED_SIZE_BINARY and count_per_cycle(child, VALUES_PER_CYCLE) in (None, 1):
            raise RuleError(
                f"{child.name} is of type {type_text(kind)}, which the generator refuses", rule=SUPPORTED_TYPES
            )
        if is_struct and not kind.num_fields:
            raise RuleError(f"{child.name} is a struct without members, expected one or more", rule=SUPPORTED_TYPES)
        if child.metadata:
            _check_counts(child, 1 if is_struct or (kind.id in _LIST and not flat_list) else None)
        if is_struct or not flat_list:
            todo += [kind.field(index) for index in range(kind.num_fields)]


def _check_counts(field: pa.Field, most: int | None) -> None:
    """Raise an error for an invalid number of elements or lengths per cycle in the field's metadata.

    `most` is the maximum number, or None for no limit."""
    for key in (VALUES_PER_CYCLE, LENGTHS_PER_CYCLE):
        number = count_per_cycle(field, key)
        if most is not None and number is not None and number > most:
            shown, kind = _shown_count(field, key), type_text(field.type)
            raise RuleError(f"{shown}, expected {most} or less for a {kind}", rule=FIELD_METADATA)


def count_per_cycle(field: pa.Field, key: bytes) -> int | None:
    """Return the number of elements or lengths per cycle in the field's metadata; None if it is missing.

    `key` is the metadata's key. Raise `RuleError` for a text that is not a number."""
    text = (field.metadata or {}).get(key)
    if not text:
        return None
    number = _NUMBER.match(text)
    if number is None or len(number[1]) > MAX_DIGITS:
        raise RuleError(f"{_shown_count(field, key)}, expected a number", rule=FIELD_METADATA)
    return int(number[1])


def _shown_count(field: pa.Field, key: bytes) -> str:
    text = field.metadata[key][:20].decode("utf-8", "replace")
    return f"{key.decode()} of {field.name} is {text!r}"


def _dotted(path: Path) -> str:
    return ".".join(path)
