"""Arrow schemas from files and objects: IPC schema messages (``.as``), streams, files, and whatever exports a schema.

Bytes from outside are hostile: the framing is checked here, with the offending byte named, before pyarrow sees the
message inside; what pyarrow then refuses is a `WireError` too. A schema that comes out can be walked without surprises:
its names are UTF-8 and its nesting is bounded.

pyarrow is an extra (``understudy[arrow]``) and is imported when it is first needed.
"""

from __future__ import annotations

import struct
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from understudy.core.errors import NotInstalled, WireError
from understudy.core.sources import bytes_of

if TYPE_CHECKING:
    import pyarrow as pa

MAX_FILE_BYTES: Final = 1 << 30
"""Larger files are refused."""
MAX_SCHEMA_BYTES: Final = 16 << 20
"""Larger schema messages are refused; one of 1,000 fields has about 100 KiB."""
MAX_DEPTH: Final = 64
"""Deepest nesting that is believed; Arrow's own reader of RecordBatches stops there."""
MAX_FIELDS: Final = 1 << 16
"""Most fields, children included."""

MAGIC: Final = b"ARROW1"
CONTINUATION: Final = 0xFFFFFFFF
_WORD: Final = struct.Struct("<I")


class ArrowMissing(NotInstalled):
    """pyarrow is not installed."""


def pyarrow() -> Any:
    """The module; `ArrowMissing` that says how to get it."""
    try:
        return import_module("pyarrow")
    except ImportError:
        raise ArrowMissing("Arrow schemas need pyarrow: pip install 'understudy[arrow]'") from None


def read_arrow(source: bytes | Path | str) -> pa.Schema | pa.RecordBatch:
    """What a file, or its bytes, hold: the schema, or the first RecordBatch where there is one.

    An IPC schema message, an IPC stream, or an IPC file. `WireError` with the byte where it is none, and where a
    file cannot be read.
    """
    data = bytes_of(source, "a schema", MAX_FILE_BYTES)
    if data[: len(MAGIC)] == MAGIC:
        return _opened(data, "open_file", lambda reader: reader.get_batch(0) if reader.num_record_batches else None)
    size = _message_size(data)
    if len(data) <= size + 8 or _WORD.unpack_from(data, size)[0] == 0:
        return read_schema(data)
    return _opened(data, "open_stream", lambda reader: next(iter(reader), None))


def read_schema(source: object) -> pa.Schema:
    """The schema of an IPC schema message (bytes or path), or of an object that exports or has one.

    Objects are those of pyarrow, and any with ``__arrow_c_schema__`` or an attribute `schema`. `WireError` where there
    is no schema.
    """
    pa = pyarrow()
    if isinstance(source, (bytes, bytearray, memoryview)):
        return _message_schema(bytes(source))
    if isinstance(source, (str, Path)):
        found = read_arrow(source)
        return found if isinstance(found, pa.Schema) else found.schema
    if isinstance(source, pa.Schema):
        return checked(source)
    own = getattr(source, "schema", None)
    if isinstance(own, pa.Schema):
        return checked(own)
    if hasattr(source, "__arrow_c_schema__"):
        return checked(_guarded(lambda: pa.schema(source), "schema"))
    raise WireError(f"no Arrow schema in a value of type {type(source).__name__}")


def checked(schema: pa.Schema) -> pa.Schema:
    """`schema`, where all of it can be walked: names readable, nesting and number bounded; else `WireError`."""
    todo = [(schema.field(index), 0, f"field {index}") for index in range(len(schema.types))]
    seen = 0
    while todo:
        field, depth, place = todo.pop()
        seen += 1
        if depth > MAX_DEPTH:
            raise WireError(f"{place} of the schema is nested deeper than {MAX_DEPTH} levels")
        if seen > MAX_FIELDS:
            raise WireError(f"the schema has more than {MAX_FIELDS} fields")
        try:
            field.name  # noqa: B018  # decoding it is the check
        except UnicodeDecodeError as error:
            raise WireError(f"the name of {place} is no UTF-8 ({error.reason} at byte {error.start} of it)") from None
        kind = field.type
        while hasattr(kind, "storage_type"):
            kind = kind.storage_type
        todo += [(kind.field(index), depth + 1, f"a child of {place}") for index in range(kind.num_fields)]
    return schema


# ---- framing -------------------------------------------------------------------------------------------------------


def _message_size(data: bytes) -> int:
    """Bytes of the first encapsulated message with its prefix. `WireError` where the prefix is none."""
    if len(data) < 8:
        raise WireError(f"{len(data)} bytes are no Arrow IPC message, expected 8 or more").at("byte", 0)
    first: int
    second: int
    first, second = struct.unpack_from("<II", data)
    # Before Arrow 0.15 there was no continuation word.
    prefix, length = (8, second) if first == CONTINUATION else (4, first)
    if length == 0:
        raise WireError("the Arrow IPC message has length 0, expected a schema").at("byte", prefix - 4)
    if length > MAX_SCHEMA_BYTES:
        text = (
            f"the first Arrow IPC message claims {length:#x} bytes, expected a schema of {MAX_SCHEMA_BYTES:#x} at most"
        )
        raise WireError(text).at("byte", prefix - 4)
    if prefix + length > len(data):
        raise WireError(
            f"the Arrow IPC message claims {length} bytes, the file has {len(data) - prefix} behind the length"
        ).at("byte", prefix - 4)
    return prefix + length


def _message_schema(data: bytes) -> pa.Schema:
    _message_size(data)
    pa = pyarrow()
    return checked(_guarded(lambda: pa.ipc.read_schema(pa.py_buffer(data)), "schema message"))


def _opened(data: bytes, opener: str, first: Any) -> pa.Schema | pa.RecordBatch:
    """The first RecordBatch of a stream or file, its schema where it has none."""
    pa = pyarrow()

    def read() -> Any:
        with getattr(pa.ipc, opener)(pa.py_buffer(data)) as reader:
            schema = checked(reader.schema)
            batch = first(reader)
            if batch is not None:
                batch.validate(full=True)
            return schema if batch is None else batch

    return _guarded(read, "stream" if opener == "open_stream" else "file")


def _guarded(action: Any, what: str) -> Any:
    """Run pyarrow on bytes from outside: whatever it refuses them with is a `WireError`."""
    pa = pyarrow()
    try:
        return action()
    except (pa.ArrowException, OSError, ValueError, TypeError, KeyError, MemoryError, RecursionError) as error:
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        raise WireError(f"no Arrow IPC {what}: {reason}") from None
