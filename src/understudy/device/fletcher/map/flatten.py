"""Arrow schemas flattened: to buffers, and to the streams that can be profiled. Depth first, in register order.

There are three readings of one schema, and they differ (`Reading`); `checker` tells where.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from typing import Final, Literal

import pyarrow as pa

from understudy.core.errors import BeyondModel, RuleError, UnderstudyError
from understudy.device.fletcher.rules import BUFFER_ORDER, CUT_BATCH, FIELD_METADATA, SUPPORTED_TYPES

BufferKind = Literal["validity", "offsets", "values"]
Path = tuple[str, ...]
Node = tuple[int, ...]

MAX_TEXT: Final = 100
"""Letters of a type's name in a message."""
MAX_DIGITS: Final = 19
"""Digits of numbers in metadata that are sure to fit 64 bits."""
VALUES_PER_CYCLE: Final = b"fletcher_epc"
LENGTHS_PER_CYCLE: Final = b"fletcher_lepc"
_NUMBER: Final = re.compile(rb"\s*\+?([0-9]+)")


class Reading(Enum):
    """Who flattens."""

    SCHEMA = "schema"
    """The generator, from schemas: children have no validity buffers."""
    BATCH = "batch"
    """The generator where it has a RecordBatch of that name: an unsupported field ends the RecordBatch."""
    RUNTIME = "runtime"
    """The run-time library: the same, and extension types, which files do not have, are unsupported."""
    DOCUMENT = "document"
    """The document, for every type whose buffers it has words for."""


_RECORDED: Final = (Reading.BATCH, Reading.RUNTIME)
"""Who has a RecordBatch, not its schema alone."""


class Shape(Enum):
    """How a type lies in memory."""

    FIXED = "fixed"
    BINARY = "binary"
    LIST = "list"
    STRUCT = "struct"
    NULL = "null"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class FlatBuffer:
    """A buffer. `path` has the names on the way down, lists add none; `node` the indices, list items included."""

    path: Path
    node: Node
    kind: BufferKind


@dataclass(frozen=True, slots=True)
class FlatStream:
    """A stream of a field. `parts` are the names of its registers behind the field's.

    `node` is that of the array whose elements it carries: the field itself, list items (child 0), struct members. The
    characters of a string count as its child 0.
    """

    parts: Path
    path: Path
    node: Node


@dataclass(frozen=True, slots=True)
class Flattened:
    """The buffers of a schema. `cut` names what ended the RecordBatch before its last field, and its type."""

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
# What the document has words for, and neither implementation supports.
_MORE_FIXED: Final = _ids("BOOL DURATION DECIMAL256 INTERVAL_MONTH_DAY_NANO")
_MORE_BINARY: Final = _ids("LARGE_STRING LARGE_BINARY")
_MORE_LIST: Final = _ids("LARGE_LIST MAP")
_FIXED_SIZE_LIST: Final = _ids("FIXED_SIZE_LIST")


def shape(kind: pa.DataType) -> Shape:
    """How a type lies in memory, as the generator and the run-time library know it; OTHER where they do not."""
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
    """The type that lies in memory: that of an extension type is its storage type."""
    while isinstance(kind, pa.BaseExtensionType):
        kind = kind.storage_type
    return kind


def type_text(kind: pa.DataType) -> str:
    """A type's name for a message, cut where it is long."""
    text = str(kind)
    return text if len(text) <= MAX_TEXT else f"{text[:MAX_TEXT]}..."


def has_metadata(field: pa.Field, key: bytes, value: bytes = b"true") -> bool:
    """Whether the field's metadata say so; only the exact value counts."""
    metadata = field.metadata
    return bool(metadata) and metadata.get(key) == value


def is_ignored(field: pa.Field) -> bool:
    """Whether the generator makes no stream for the field (``fletcher_ignore``); its buffers have registers still."""
    return has_metadata(field, b"fletcher_ignore")


def is_profiled(field: pa.Field) -> bool:
    """Whether the field's streams have counters (``fletcher_profile``), of those that have streams."""
    return has_metadata(field, b"fletcher_profile") and not is_ignored(field)


def flatten_schema(schema: pa.Schema, reading: Reading) -> Flattened:
    """The buffers of all fields of a schema, in the order of their registers.

    `RuleError` for types that the generator refuses (SCHEMA) or that crash the run-time (BATCH), `BeyondModel` for
    those that the document's words do not cover.
    """
    walk = _Walk(reading)
    for index, field in enumerate(schema):
        try:
            walk.field(field, (field.name,), (index,))
        except _Cut as cut:
            return Flattened(tuple(walk.buffers), (cut.path, type_text(cut.kind)))
        except UnderstudyError as error:
            raise error.at("field", f"{index}", field.name) from None
    return Flattened(tuple(walk.buffers))


class _Cut(Exception):  # never leaves this module
    def __init__(self, path: Path, kind: pa.DataType) -> None:
        self.path = path
        self.kind = kind


class _Walk:
    """Collects buffers."""

    def __init__(self, reading: Reading) -> None:
        self.buffers: list[FlatBuffer] = []
        self._reading = reading
        self._children = reading is not Reading.SCHEMA
        """Whether children have validity buffers."""

    def field(self, field: pa.Field, path: Path, node: Node) -> None:
        """A field or child with its validity buffer."""
        kind = field.type if self._reading is Reading.RUNTIME else storage(field.type)
        if field.nullable and (self._children or len(node) == 1):
            if kind.id in _NULL and self._reading is not Reading.SCHEMA:
                return self._null(path)
            self.buffers.append(FlatBuffer(path, node, "validity"))
        self.type(kind, path, node)
        return None

    def type(self, kind: pa.DataType, path: Path, node: Node) -> None:
        """The buffers that a type has besides validity."""
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
            raise RuleError(f"{_dotted(path)} is of type null, which crashes the run-time library", rule=CUT_BATCH)
        # The document: a null array has no buffers.

    def _other(self, kind: pa.DataType, path: Path, node: Node) -> None:
        """Types that the implementations lack; the document has words for some."""
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
                "whose buffers are not validity, offsets, values and children",
                rule=BUFFER_ORDER,
            )


def field_streams(field: pa.Field, index: int) -> tuple[FlatStream, ...]:
    """The streams of field number `index` of a schema, in the order of their stream index."""
    name, kind = field.name, storage(field.type)
    found = [FlatStream((), (name,), (index,))]
    inner = _stream_children if is_list_of_primitives(kind) else _inner_streams
    inner(kind, (), (name,), (index,), found)
    return tuple(found)


def _inner_streams(kind: pa.DataType, parts: Path, path: Path, node: Node, found: list[FlatStream]) -> None:
    """Streams of a type that travels in an enclosing stream."""
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
    """The stream of a list's items or of a string's characters, and those within."""
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
    """Whether a type has a stream of its own within another: strings, and lists of fixed-width values."""
    match shape(kind):
        case Shape.BINARY:
            return True
        case Shape.LIST:
            return shape(storage(kind.value_type)) is Shape.FIXED
        case _:
            return False


def check_streams(field: pa.Field) -> None:
    """Refuse what the generator makes no stream of: structs without members, odd metadata, and fixed_size_binary.

    The latter has a stream where it carries another number of elements per cycle than one.
    """
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
    """Elements and lengths per cycle of a field: a number, and `most` of them where it has no flat stream."""
    for key in (VALUES_PER_CYCLE, LENGTHS_PER_CYCLE):
        number = count_per_cycle(field, key)
        if most is not None and number is not None and number > most:
            shown, kind = _shown_count(field, key), type_text(field.type)
            raise RuleError(f"{shown}, expected {most} for a {kind}", rule=FIELD_METADATA)


def count_per_cycle(field: pa.Field, key: bytes) -> int | None:
    """A number in a field's metadata, None where there is none; `RuleError` for a text that is no number."""
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
