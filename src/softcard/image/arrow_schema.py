"""Arrow schemas from IPC schema messages (``.as``), streams, files, and objects that export a schema.

Input is not trusted: the framing is checked here, and errors name the offending byte, before pyarrow parses the message
inside. Errors of pyarrow become `WireError`. A returned schema is safe to walk: its names are UTF-8 and its nesting is
bounded.

pyarrow is an extra (``softcard[arrow]``) and is imported on first use.
"""

from __future__ import annotations

import struct
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from softcard.core.errors import NotInstalled, WireError
from softcard.core.files import bytes_of

if TYPE_CHECKING:
    import pyarrow as pa

MAX_FILE_BYTES: Final = 1 << 30
"""The largest size in bytes of an accepted file."""
MAX_SCHEMA_BYTES: Final = 16 << 20
"""The largest size in bytes of an accepted schema message; a schema of 1,000 fields has about 100 KiB."""
MAX_DEPTH: Final = 64
"""The deepest accepted nesting of fields, which is the limit of Arrow's own reader of RecordBatches."""
MAX_FIELDS: Final = 1 << 16
"""The largest number of fields of a schema, including nested fields."""

MAGIC: Final = b"ARROW1"
CONTINUATION: Final = 0xFFFFFFFF
_WORD: Final = struct.Struct("<I")


class ArrowMissing(NotInstalled):
    """The error that is raised if pyarrow is not installed."""


def pyarrow() -> Any:
    """Return the pyarrow module; raise `ArrowMissing` with the install command if it is not installed."""
    try:
        return import_module("pyarrow")
    except ImportError:
        raise ArrowMissing("Arrow schemas need pyarrow: pip install 'softcard[arrow]'") from None


def read_arrow(source: bytes | Path | str) -> pa.Schema | pa.RecordBatch:
    """Return the first RecordBatch in a file or in its bytes, or the schema if the file has no RecordBatch.

    The file is an IPC schema message, an IPC stream, or an IPC file. Raise `WireError` if the file cannot be
    read, or if its content is invalid; in the latter case, the error names the byte offset."""
    data = bytes_of(source, "a schema", MAX_FILE_BYTES)
    if data[: len(MAGIC)] == MAGIC:
        return _opened(data, "open_file", lambda reader: reader.get_batch(0) if reader.num_record_batches else None)
    size = _message_size(data)
    if len(data) <= size + 8 or _WORD.unpack_from(data, size)[0] == 0:
        return read_schema(data)
    return _opened(data, "open_stream", lambda reader: next(iter(reader), None))


def read_schema(source: object) -> pa.Schema:
    """Return the Arrow schema of `source`.

    `source` is the bytes of an IPC schema message, the path of an Arrow file, a pyarrow object, or another object
    with ``__arrow_c_schema__`` or an attribute `schema`. Raise `WireError` if there is no schema."""
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
    raise WireError(f"cannot read an Arrow schema from a value of type {type(source).__name__}")


def checked(schema: pa.Schema) -> pa.Schema:
    """Return `schema` if it is safe to walk; raise a `WireError` otherwise.

    A safe schema has names that decode as UTF-8, and a limited depth and number of fields.
    """
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
            raise WireError(f"the name of {place} is not UTF-8 ({error.reason} at byte {error.start} of it)") from None
        kind = field.type
        while hasattr(kind, "storage_type"):
            kind = kind.storage_type
        todo += [(kind.field(index), depth + 1, f"a child of {place}") for index in range(kind.num_fields)]
    return schema


# ---- framing -------------------------------------------------------------------------------------------------------


def _message_size(data: bytes) -> int:
    """Return the size of the first encapsulated message, including its prefix.

    Raise `WireError` for an invalid prefix.
    """
    if len(data) < 8:
        raise WireError(f"the Arrow IPC message has {len(data)} bytes, expected 8 or more").at("byte", 0)
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
            f"the Arrow IPC message claims {length} bytes, but the file has {len(data) - prefix} after the length"
        ).at("byte", prefix - 4)
    return prefix + length


def _message_schema(data: bytes) -> pa.Schema:
    _message_size(data)
    pa = pyarrow()
    return checked(_guarded(lambda: pa.ipc.read_schema(pa.py_buffer(data)), "schema message"))


def _opened(data: bytes, opener: str, first: Any) -> pa.Schema | pa.RecordBatch:
    """Return the first RecordBatch of a stream or file, or its schema if it has no RecordBatch.

    `opener` is the name of the pyarrow function that opens `data`. `first` is a function that returns the first
    RecordBatch of the opened reader, or None."""
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
    """Return the result of `action`, by which pyarrow parses untrusted bytes.

    Errors of pyarrow become a `WireError`, in which `what` names the bytes.
    """
    pa = pyarrow()
    try:
        return action()
    except (pa.ArrowException, OSError, ValueError, TypeError, KeyError, MemoryError, RecursionError) as error:
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        raise WireError(f"the data is not an Arrow IPC {what}: {reason}") from None
