"""Arrays over device memory: what was written comes back, without a copy, and nothing wrong gets through."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from softcard.core.errors import BeyondModel, RuleError, SoftcardError
from softcard.device.fletcher.arrays import element_width, rebuild, store
from softcard.device.fletcher.kernel import named_schema
from softcard.device.fletcher.map.build import fletcher_map
from softcard.device.fletcher.map.layout import BatchLayout
from softcard.device.fletcher.memory import DeviceMemory, WritableMemory

ITEM = pa.field("item", pa.int16(), nullable=False)
POINT = pa.struct([pa.field("x", pa.int32(), False), pa.field("n", pa.utf8(), False)])
FIXED: dict[str, tuple[pa.DataType, list[Any]]] = {
    "int8": (pa.int8(), [1, -2, 127, -128]),
    "uint8": (pa.uint8(), [0, 1, 255, 7]),
    "int16": (pa.int16(), [0, -1, 32767, 7]),
    "uint16": (pa.uint16(), [0, 1, 65535, 7]),
    "int32": (pa.int32(), [0, -1, 5, 7]),
    "uint32": (pa.uint32(), [0, 1, 2**32 - 1, 7]),
    "int64": (pa.int64(), [1, -3, 3, -7]),
    "uint64": (pa.uint64(), [0, 1, 2**64 - 1, 7]),
    "half": (pa.float16(), [np.float16(v) for v in (0.5, -1, 2, 7)]),
    "float": (pa.float32(), [0.5, -1.0, 2.0, 7.0]),
    "double": (pa.float64(), [0.1, -1.0, 2.0, 7.0]),
    "date32": (pa.date32(), [1, 2, 3, 20000]),
    "date64": (pa.date64(), [86400000 * d for d in (1, 2, 3, 20000)]),
    "timestamp": (pa.timestamp("us"), [1, 2, 3, 1 << 50]),
    "time32": (pa.time32("ms"), [1, 2, 3, 4]),
    "time64": (pa.time64("ns"), [1, 2, 3, 4]),
    "decimal128": (pa.decimal128(20, 2), [Decimal("1.25"), Decimal("-3.00"), Decimal("0"), Decimal("99999.99")]),
    "fixed_size_binary": (pa.binary(3), [b"abc", b"\0\0\0", b"xyz", b"123"]),
}
VARIABLE: dict[str, tuple[pa.DataType, list[Any]]] = {
    "utf8": (pa.utf8(), ["", "Bilbo", "Žofie", "x" * 100]),
    "binary": (pa.binary(), [b"\xff", b"", b"abc", b"\0"]),
    "list": (pa.list_(ITEM), [[1, -3, 3, -7], [], [4, 5, 10], [0]]),
    "struct": (POINT, [{"x": i, "n": "n" * i} for i in range(4)]),
    "list_struct": (
        pa.list_(pa.field("item", POINT, False)),
        [[{"x": 1, "n": "a"}], [], [{"x": 2, "n": "bc"}] * 3, []],
    ),
    "list_list": (pa.list_(pa.field("item", pa.list_(ITEM), False)), [[[1], [2, 3]], [], [[]], [[4, 5], [6]]]),
}
EVERY = {**FIXED, **VARIABLE}


def plan(*fields: pa.Field, mode: str = "read", profile: str = "runtime") -> BatchLayout:
    return fletcher_map([named_schema("P", pa.schema(fields), mode)], profile=profile).batches[0]  # type: ignore[arg-type]


def buffers(array: pa.Array, type_: pa.DataType, nullable: bool) -> Iterator[tuple[str, pa.Buffer | None]]:
    """Those of the array in register order, as the run-time library passes them."""
    own = array.buffers()
    if nullable:
        yield "validity", own[0]
    if pa.types.is_struct(type_):
        for i in range(type_.num_fields):
            yield from buffers(array.field(i), type_.field(i).type, type_.field(i).nullable)
    elif pa.types.is_list(type_):
        yield "offsets", own[1]
        yield from buffers(array.values, type_.value_type, type_.value_field.nullable)
    elif pa.types.is_string(type_) or pa.types.is_binary(type_):
        yield "offsets", own[1]
        yield "values", own[2]
    else:
        yield "values", own[1]


def load(batch: pa.RecordBatch, memory: DeviceMemory) -> list[int]:
    """Put the batch into device memory; the addresses in register order."""
    found = []
    for field, column in zip(batch.schema, batch.columns, strict=True):
        for _, buffer in buffers(column, field.type, field.nullable):
            data = bytes(buffer) if buffer is not None else b""
            found.append(memory.allocate(len(data)))
            memory.write(found[-1], data)
    return found


def one(name: str, nullable: bool = False) -> tuple[BatchLayout, pa.RecordBatch]:
    type_, values = EVERY[name]
    field = pa.field("c", type_, nullable)
    values = [*values[:2], None, *values[3:]] if nullable else values
    layout = plan(field)
    return layout, pa.RecordBatch.from_arrays([pa.array(values, type_)], schema=layout.schema)


@pytest.mark.parametrize("nullable", [False, True], ids=["plain", "nullable"])
@pytest.mark.parametrize("name", EVERY)
def test_every_type_comes_back(name: str, nullable: bool) -> None:
    layout, batch = one(name, nullable)
    memory = DeviceMemory()
    addresses = load(batch, memory)
    for first, last in [(0, 4), (1, 3), (2, 4), (3, 4), (0, 0), (4, 4)]:
        found = rebuild(layout, addresses, memory, first, last)
        found.validate(full=True)
        assert found.equals(batch.slice(first, last - first))
        assert all(column.offset == 0 for column in found.columns)


@pytest.mark.parametrize("nullable", [False, True], ids=["plain", "nullable"])
@pytest.mark.parametrize("name", EVERY)
def test_every_type_can_be_written(name: str, nullable: bool) -> None:
    layout, batch = one(name, nullable)
    memory = DeviceMemory()
    addresses = [memory.allocate(4096) for _ in layout.buffers]
    for start, end in ((0, 3), (3, 4)):
        part = batch.slice(start, end - start)
        store(layout, addresses, WritableMemory(memory), start, part, continues=start > 0)
    assert rebuild(layout, addresses, memory, 0, 4).equals(batch)


def test_arrays_share_device_memory() -> None:
    layout, batch = one("int64")
    memory = DeviceMemory()
    [address] = load(batch, memory)
    device = np.frombuffer(memory.view(address, 32), np.int64).ctypes.data
    whole, rest = rebuild(layout, [address], memory, 0, 4), rebuild(layout, [address], memory, 1, 4)
    assert whole.column(0).buffers()[1].address == device
    assert rest.column(0).buffers()[1].address == device + 8
    layout, batch = one("utf8")
    offsets, values = load(batch, memory)
    found = rebuild(layout, [offsets, values], memory, 1, 4).column(0).buffers()
    starts = [np.frombuffer(memory.view(at, 8), np.uint8).ctypes.data for at in (offsets, values)]
    assert [buffer.address for buffer in found[1:]] == [starts[0] + 4, starts[1]]


def test_no_bytes_of_validity_mean_no_nulls() -> None:
    layout = plan(pa.field("c", pa.int64()))
    memory = DeviceMemory()
    addresses = [memory.allocate(0), memory.allocate(32)]
    assert rebuild(layout, addresses, memory, 0, 4).column(0).null_count == 0


def test_written_bits_leave_their_neighbours_alone() -> None:
    layout = plan(pa.field("c", pa.int8()), mode="write")
    memory = DeviceMemory()
    addresses = [memory.allocate(2), memory.allocate(16)]
    memory.write(addresses[0], b"\xff\xff")
    batch = pa.RecordBatch.from_arrays([pa.array([None, 1, None], pa.int8())], schema=layout.schema)
    store(layout, addresses, WritableMemory(memory), 7, batch)
    assert memory.read(addresses[0], 2) == bytes([0b01111111, 0b11111101])


# ---- what is refused -----------------------------------------------------------------------------------------------


def refused(name: str, first: int, last: int, change: Any = None) -> str:
    """The message of what comes of rows of a type once `change` has been at (memory, addresses)."""
    layout, batch = one(name)
    memory = DeviceMemory()
    addresses = load(batch, memory)
    if change is not None:
        change(memory, addresses)
    with pytest.raises(RuleError) as caught:
        rebuild(layout, addresses, memory, first, last)
    return str(caught.value)


def put(index: int, address: int) -> Any:
    def change(memory: DeviceMemory, addresses: list[int]) -> None:
        addresses[index] = address

    return change


def offsets(*values: int) -> Any:
    def change(memory: DeviceMemory, addresses: list[int]) -> None:
        memory.write(addresses[0], np.array(values, "<i4").tobytes())

    return change


def test_first_above_last_index_order() -> None:
    assert refused("int64", 3, 1) == (
        "P_firstidx is 3 and P_lastidx is 1, expected first <= last, [fletcher/index-order: Schema derived registers]"
    )


def test_addresses_outside_buffer_address() -> None:
    text = refused("int64", 0, 4, put(0, 0x1234_5678))
    assert text.startswith("P_c_values = 0x12345678: no device memory is allocated at this address, at register 0x18")
    assert "[fletcher/buffer-address: Schema derived registers]" in text
    text = refused("int64", 0, 5)
    assert "P_c_values = 0x100000000: rows 0 to 5, 8 bytes each, end at byte 40, but the allocation has 32" in text
    text = refused("utf8", 0, (1 << 32) - 1)
    assert "P_c_offsets = 0x100000000: offsets 0 to 4294967296, 4 bytes each, end at byte 17179869184" in text
    text = refused("utf8", 0, 4, put(1, 0x1_0000_2032))
    assert "the characters of rows 0 to 4 end at byte 111, but the allocation has 61" in text


def test_broken_offsets_buffer_format() -> None:
    text = refused("utf8", 0, 4, offsets(0, 5, 3, 9, 9))
    assert (
        "P_c_offsets = 0x100000000: the offset of row 2 is 3, expected at least 5, the offset before it, at register "
        "0x18" in text
    )
    assert "[fletcher/buffer-format: Schema derived registers]" in text
    assert "the offset of row 0 is -1, expected 0 or more" in refused("utf8", 0, 4, offsets(-1, 0, 0, 0, 0))
    assert "end at byte 2147483647, but the allocation has" in refused("utf8", 0, 4, offsets(0, 0, 0, 0, 2**31 - 1))
    assert "rows 0 to 9, 2 bytes each, end at byte 18" in refused("list", 0, 4, offsets(0, 4, 4, 7, 9))
    assert "the address must be a multiple of 8, the width of the elements" in refused(
        "int64", 0, 1, put(0, 0x1_0000_0001)
    )


def test_a_fall_far_behind_in_the_offsets() -> None:
    layout = plan(pa.field("c", pa.utf8(), False))
    memory = DeviceMemory()
    rows = 200_000
    values = np.zeros(rows + 1, np.int32)
    values[65536:] = 1
    values[65537] = 0
    addresses = [memory.allocate(values.nbytes), memory.allocate(8)]
    memory.write(addresses[0], values.tobytes())
    with pytest.raises(RuleError, match="the offset of row 65537 is 0, expected at least 1, the offset before it"):
        rebuild(layout, addresses, memory, 0, rows)


@pytest.mark.parametrize("name", ["decimal128", "date64", "time32", "time64"])
def test_values_that_are_none_of_their_type(name: str) -> None:
    def change(memory: DeviceMemory, addresses: list[int]) -> None:
        memory.write(addresses[0], b"\x5a" * 16)

    text = refused(name, 0, 4, change)
    assert text.startswith(f"P_c_values = 0x100000000: the values are not valid for type {EVERY[name][0]}: ")


def test_characters_that_are_no_utf8() -> None:
    def change(memory: DeviceMemory, addresses: list[int]) -> None:
        memory.write(addresses[1], b"\xff")

    assert "P_c_values = 0x100002000: the values are not valid for type string: " in refused("utf8", 0, 4, change)
    layout, batch = one("binary")
    memory = DeviceMemory()
    assert rebuild(layout, load(batch, memory), memory, 0, 1).column(0)[0].as_py() == b"\xff"


@pytest.mark.parametrize(
    "type_",
    [
        *(pa.bool_(), pa.large_utf8(), pa.duration("s"), pa.dictionary(pa.int8(), pa.utf8()), pa.list_(ITEM, 2)),
        *(pa.null(), pa.binary(0), pa.struct([])),
    ],
    ids=str,
)
def test_types_that_fletcher_does_not_have(type_: pa.DataType) -> None:
    plain = plan(pa.field("c", pa.int8(), False))
    schema = pa.schema([pa.field("c", type_)])
    layout = BatchLayout("P", plain.mode, schema, plain.buffers, plain.first_index, plain.last_index)
    memory = DeviceMemory()
    address = memory.allocate(64)
    batch = pa.RecordBatch.from_arrays([pa.nulls(1, type_)], schema=schema)
    with pytest.raises(BeyondModel, match=r"P.c: Fletcher does not support arrays of"):
        rebuild(layout, [address], memory, 0, 1)
    with pytest.raises(BeyondModel, match=r"P.c: Fletcher does not support arrays of"):
        rebuild(layout, [address], memory, 0, 0)
    with pytest.raises(BeyondModel, match=r"P.c: Fletcher does not support arrays of"):
        store(layout, [address], WritableMemory(memory), 0, batch)


@pytest.mark.parametrize(
    "type_", [pa.month_day_nano_interval(), pa.bool_(), pa.decimal256(50), pa.large_binary()], ids=str
)
def test_widths_of_other_types(type_: pa.DataType) -> None:
    assert element_width(type_) is None


def test_written_where_there_is_no_room() -> None:
    """Nothing is written at all where one buffer is too small."""
    layout, batch = one("utf8")
    memory = DeviceMemory()
    addresses = [memory.allocate(20), memory.allocate(3)]
    with pytest.raises(RuleError, match="P_c_values = 0x100002000: the characters of rows 0 to 4 end at byte 111"):
        store(layout, addresses, WritableMemory(memory), 0, batch)
    assert memory.read(addresses[0], 20) == bytes(20)
    assert memory.read(addresses[1], 3) == bytes(3)
    with pytest.raises(RuleError, match="offsets 1 to 6, 4 bytes each, end at byte 24, but the allocation has 20"):
        store(layout, addresses, WritableMemory(memory), 1, batch)


def test_written_nulls_no_nulls() -> None:
    layout = plan(pa.field("c", pa.int8(), False), mode="write")
    batch = pa.RecordBatch.from_arrays([pa.array([1, None], pa.int8())], names=["c"])
    memory = DeviceMemory()
    with pytest.raises(
        RuleError,
        match=r"P.c: the column has 1 nulls, but the register map has no validity buffer for it.*fletcher/no-nulls",
    ):
        store(layout, [memory.allocate(2)], WritableMemory(memory), 0, batch)


def test_written_batches_of_another_schema() -> None:
    layout = plan(pa.field("c", pa.int8(), False), mode="write")
    batch = pa.RecordBatch.from_arrays([pa.array([1], pa.int16())], names=["c"])
    memory = DeviceMemory()
    with pytest.raises(RuleError, match=r"with the fields \{c: int16\} to P, expected \{c: int8 not null\}"):
        store(layout, [memory.allocate(2)], WritableMemory(memory), 0, batch)


def test_written_behind_rows_that_end_nowhere() -> None:
    layout, batch = one("utf8")
    memory = DeviceMemory()
    addresses = [memory.allocate(64), memory.allocate(200)]
    memory.write(addresses[0], np.array([-5], "<i4").tobytes())
    with pytest.raises(RuleError, match="the offset of row 0 is -5, expected 0 or more"):
        store(layout, addresses, WritableMemory(memory), 0, batch, continues=True)
    memory.write(addresses[0], np.array([2**31 - 10], "<i4").tobytes())
    with pytest.raises(RuleError, match="2147483749 elements are too many for 32-bit offsets"):
        store(layout, addresses, WritableMemory(memory), 0, batch, continues=True)


# ---- anything at all -----------------------------------------------------------------------------------------------

ANY_TYPE = st.recursive(
    st.sampled_from([pa.int8(), pa.int64(), pa.float32(), pa.decimal128(20, 2), pa.binary(3), pa.utf8(), pa.binary()]),
    lambda inner: st.one_of(
        st.builds(lambda t, n: pa.list_(pa.field("item", t, n)), inner, st.booleans()),
        st.builds(
            lambda a, b, n: pa.struct([pa.field("a", a, n), pa.field("b", b, False)]), inner, inner, st.booleans()
        ),
    ),
    max_leaves=4,
)


@given(ANY_TYPE, st.booleans(), st.data())
def test_hostile_buffers_of_any_type(type_: pa.DataType, nullable: bool, data: st.DataObject) -> None:
    """Whatever the bytes are: an array that pyarrow finds valid, or an error that names a register."""
    try:
        layout = plan(pa.field("c", type_, nullable))
    except SoftcardError:
        return
    memory = DeviceMemory()
    addresses = []
    for _ in layout.buffers:
        content = data.draw(
            st.binary(max_size=48) | st.builds(_small_offsets, st.lists(st.integers(-1, 9), max_size=9))
        )
        addresses.append(memory.allocate(len(content)))
        memory.write(addresses[-1], content)
        if data.draw(st.integers(0, 9)) == 0:
            addresses[-1] = data.draw(st.integers(0, (1 << 64) - 1))
    first, last = sorted(data.draw(st.tuples(st.integers(0, 9), st.integers(0, 9))))
    error: RuleError | None = None
    try:
        found = rebuild(layout, addresses, memory, first, last)
    except RuleError as caught:
        error = caught
    if error is not None:
        assert error.rule is not None
        assert "P_c" in str(error)
    else:
        found.validate(full=True)
        assert found.num_rows == last - first


def _small_offsets(values: list[int]) -> bytes:
    return np.array(sorted(values), "<i4").tobytes()
