"""Arrow schemas from files: what is read, and that no byte of a hostile file does harm."""

from __future__ import annotations

import io
import struct
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from softcard.core.errors import SoftcardError, WireError
from softcard.image import arrow_schema
from softcard.image.arrow_schema import ArrowMissing, read_arrow, read_schema

VECTORS = Path(__file__).parents[1] / "vectors" / "fletcher"
PRIM = (VECTORS / "prim.0.as").read_bytes()
BATCH = pa.record_batch({"a": [1, 2], "s": ["x", None]})


def written(writer: Any, *batches: pa.RecordBatch) -> bytes:
    sink = io.BytesIO()
    with writer(sink, BATCH.schema) as out:
        for batch in batches:
            out.write_batch(batch)
    return sink.getvalue()


STREAM, FILE = (written(writer, BATCH, BATCH) for writer in (pa.ipc.new_stream, pa.ipc.new_file))


# ---- what is read --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", sorted(VECTORS.glob("*.as")), ids=lambda path: path.name)
def test_schema_files(path: Path) -> None:
    found = read_arrow(path)
    assert isinstance(found, pa.Schema)
    assert found.metadata[b"fletcher_mode"] in (b"read", b"write")
    assert read_schema(str(path)).equals(found, check_metadata=True)


@pytest.mark.parametrize("data", [STREAM, FILE], ids=["stream", "file"])
def test_record_batches(data: bytes) -> None:
    assert read_arrow(data) == BATCH
    assert read_schema(io.BytesIO(data).getvalue()[:0] or BATCH).equals(BATCH.schema)


@pytest.mark.parametrize("writer", [pa.ipc.new_stream, pa.ipc.new_file], ids=["stream", "file"])
def test_files_without_a_record_batch_are_schemas(writer: Any) -> None:
    assert read_arrow(written(writer)) == BATCH.schema


def test_messages_from_before_the_continuation_word() -> None:
    assert read_arrow(PRIM[4:]).equals(read_arrow(PRIM))


def test_objects_with_a_schema() -> None:
    class Exporter:
        def __arrow_c_schema__(self) -> object:
            return BATCH.schema.__arrow_c_schema__()

    table = pa.table({"a": [1]})
    for given_object in (BATCH.schema, BATCH, pa.RecordBatchReader.from_batches(BATCH.schema, [BATCH]), Exporter()):
        assert read_schema(given_object) == BATCH.schema
    assert read_schema(table) == table.schema


# ---- what is refused -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "the Arrow IPC message has 0 bytes, expected 8 or more, at byte 0x0"),
        (b"\0" * 8, "the Arrow IPC message has length 0, expected a schema, at byte 0x0"),
        (struct.pack("<II", 0xFFFFFFFF, 0), "the Arrow IPC message has length 0, expected a schema, at byte 0x4"),
        (
            struct.pack("<II", 0xFFFFFFFF, 1 << 31),
            "the first Arrow IPC message claims 0x80000000 bytes, expected a schema",
        ),
        (PRIM[:100], "the Arrow IPC message claims 248 bytes, but the file has 92 after the length, at byte 0x4"),
        (PRIM[:8] + b"\xff" * 248, "the data is not an Arrow IPC schema message: Invalid flatbuffers message."),
        (b"ARROW1\0\0", "the data is not an Arrow IPC file: File is too small: 8"),
        (b"root:x:0:0:root:/root:/bin/bash\n", "the first Arrow IPC message claims 0x746f6f72 bytes"),
    ],
)
def test_bytes_that_are_no_schema(data: bytes, message: str) -> None:
    with pytest.raises(WireError) as caught:
        read_arrow(data)
    assert str(caught.value).startswith(message)


def test_a_name_that_is_no_utf8() -> None:
    at = PRIM.index(b"number")
    with pytest.raises(WireError, match=r"the name of field 0 is not UTF-8 \(invalid start byte at byte 0 of it\)"):
        read_arrow(PRIM[:at] + b"\xff" + PRIM[at + 1 :])


def test_a_record_batch_with_broken_offsets() -> None:
    at = STREAM.rindex(struct.pack("<iii", 0, 1, 1))
    with pytest.raises(
        WireError, match="the data is not an Arrow IPC stream: In column 1: Invalid: Offset invariant failure"
    ):
        read_arrow(STREAM.replace(struct.pack("<iii", 0, 1, 1), struct.pack("<iii", 9, 1, 1)))
    assert at > 0


def test_schemas_that_are_too_deep_or_too_wide(monkeypatch: pytest.MonkeyPatch) -> None:
    kind = pa.int8()
    for _ in range(arrow_schema.MAX_DEPTH + 1):
        kind = pa.list_(kind)
    with pytest.raises(
        WireError, match=r"a child of a child of .*field 0 of the schema is nested deeper than 64 levels"
    ):
        read_schema(pa.schema([("a", kind)]))
    monkeypatch.setattr(arrow_schema, "MAX_FIELDS", 3)
    with pytest.raises(WireError, match="the schema has more than 3 fields"):
        read_schema(pa.schema([(name, pa.int8()) for name in "abcd"]))


def test_objects_without_a_schema() -> None:
    class Liar:
        def __arrow_c_schema__(self) -> object:
            return 1

    with pytest.raises(WireError, match="cannot read an Arrow schema from a value of type int"):
        read_schema(1)
    with pytest.raises(WireError, match="not an Arrow IPC schema"):
        read_schema(Liar())


def test_files_that_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(WireError, match=r"cannot read .*none\.as: No such file"):
        read_arrow(tmp_path / "none.as")
    monkeypatch.setattr(arrow_schema, "MAX_FILE_BYTES", 8)
    with pytest.raises(WireError, match=r"prim\.0\.as: the file is larger than 8 bytes"):
        read_arrow(VECTORS / "prim.0.as")


def test_without_pyarrow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ArrowMissing, match=r"Arrow schemas need pyarrow: pip install 'softcard\[arrow\]'"):
        read_schema(PRIM)


# ---- hostile bytes -------------------------------------------------------------------------------------------------

SEEDS = [PRIM, STREAM, FILE, (VECTORS / "list_struct.0.as").read_bytes()]
BYTES = st.one_of(st.sampled_from([0, 1, 0x7F, 0x80, 0xFF]), st.integers(0, 255))


@given(st.sampled_from(SEEDS), st.lists(st.tuples(st.integers(0, 1 << 16), BYTES), max_size=6), st.integers(0, 1 << 16))
def test_mutated_files_are_read_or_refused(seed: bytes, changes: list[tuple[int, int]], cut: int) -> None:
    data = bytearray(seed)
    for place, byte in changes:
        data[place % len(data)] = byte
    if cut < len(data):
        del data[cut:]
    try:
        found = read_arrow(bytes(data))
    except SoftcardError:
        return
    assert isinstance(found, (pa.Schema, pa.RecordBatch))


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    with pytest.raises(WireError):
        read_arrow(data)
