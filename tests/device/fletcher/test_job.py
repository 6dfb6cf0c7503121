"""What a kernel gets, and what it may write: rows, slices, ranges, custom registers; kernels that do not fit a map."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from softcard.core.errors import RuleError, SoftcardError, WireError
from softcard.device.fletcher.device import FletcherDevice
from softcard.device.fletcher.job import Job, KernelFailure
from softcard.device.fletcher.kernel import Kernel, kernel, named_schema
from softcard.device.fletcher.map.build import fletcher_map
from tests.device.fletcher.rig import START, Rig, add_up

NUMBERS = [("x", pa.int64())]


def run(program: Kernel, prepare: Callable[[Rig], Any] = lambda rig: None, **settings: Any) -> Rig:
    """A finished run, or the error that it raised."""
    rig = Rig(program, **settings)
    prepare(rig)
    rig.control(START)
    rig.status  # noqa: B018  # a read
    return rig


def written(rig: Rig, room: int) -> int:
    """Room for the second RecordBatch; its device address."""
    layout = rig.map.batches[1]
    address = rig.device.memory.allocate(room)
    for slot in layout.buffers:
        rig.write64(slot.address, address)
    rig.device.write(layout.last_index, room // 8)
    return address


def test_rows_are_those_of_the_index_registers() -> None:
    seen: list[Any] = []

    @kernel(read={"R": NUMBERS})
    def look(job: Job) -> None:
        seen.extend([job.rows(), job.rows("R"), job.batch().to_pydict(), list(job.addresses())])

    rig = run(look, lambda rig: (rig.set("R_firstidx", 1), rig.set("R_lastidx", 3)))
    assert seen == [(1, 3), (1, 3), {"x": [2, 3]}, [rig.address]]
    assert rig.map.batch("R").schema.names == ["x"]


def test_slices_make_up_the_rows() -> None:
    seen = []

    @kernel(read={"R": NUMBERS})
    def look(job: Job) -> None:
        seen.extend(part["x"].to_pylist() for part in job.slices(rows=3))

    run(look, rows=7)
    assert seen == [[1, 2, 3], [4, 5, 6], [7]]


def test_an_inverted_range_is_refused_in_slices_too() -> None:
    @kernel(read={"R": NUMBERS})
    def look(job: Job) -> None:
        list(job.slices())

    with pytest.raises(RuleError, match="R_firstidx is 3 and R_lastidx is 2, expected first <= last"):
        run(look, lambda rig: (rig.set("R_firstidx", 3), rig.set("R_lastidx", 2)))


def test_ranges_and_addresses_are_those_of_the_start() -> None:
    @kernel(read={"R": NUMBERS})
    def look(job: Job) -> Iterator[None]:
        yield
        job.result = job.rows()[1]

    rig = Rig(look)
    rig.control(START)
    rig.set("R_lastidx", 2)
    rig.status  # noqa: B018  # a read
    assert rig.result == 4


def test_custom_registers_are_live() -> None:
    @kernel(custom=["c:16:knob", "s:64:wide", "s:4:nibble"])
    def turn(job: Job) -> Iterator[None]:
        for _ in range(2):
            job.set_status("wide", job.control("knob") << 40)
            job.set_status("nibble", 0x75)
            yield

    device = FletcherDevice(fletcher_map([], custom=turn.custom), turn, pacing=0)
    knob, wide, nibble = (device.map.by_name[name].address for name in ("knob", "wide", "nibble"))
    device.write(knob, 1)
    device.write(0, START)
    device.step()
    assert device.read(wide + 4).value == 1 << 8
    device.write(knob, 2)
    device.step()
    assert device.read(wide + 4).value == 2 << 8
    assert device.read(nibble).value == 5, "cut to its width"
    assert device.value("wide") == 2 << 40


def test_a_kernel_drives_status_registers_only() -> None:
    @kernel(custom=["c:16:knob"])
    def turn(job: Job) -> None:
        job.set_status("knob", 1)

    device = FletcherDevice(fletcher_map([], custom=turn.custom), turn)
    device.write(0, START)
    with pytest.raises(RuleError, match=r"the kernel sets knob, which is a control register.*s:16:knob"):
        device.read(4)


def test_names_may_be_left_out_where_there_is_one() -> None:
    @kernel(read={"A": NUMBERS, "B": NUMBERS})
    def look(job: Job) -> None:
        job.batch()

    with pytest.raises(KernelFailure, match=r"the kernel has 2 RecordBatches of mode 'read': name one of A B"):
        run(look)

    @kernel(write={"W": NUMBERS})
    def count(job: Job) -> int:
        return job.rows()[1]

    assert run(count).result == 4


def test_a_name_that_is_not_there() -> None:
    @kernel(read={"A": NUMBERS})
    def look(job: Job) -> None:
        job.batch("B")

    with pytest.raises(
        WireError, match=r"the register map has no RecordBatch B \(it has: A\), at line .*, at kernel look"
    ):
        run(look)


@kernel(read={"A": NUMBERS}, write={"W": NUMBERS})
def double(job: Job) -> int:
    for part in job.slices(rows=3):
        column = pa.array([2 * each.as_py() for each in part["x"]], pa.int64())
        job.write("W", pa.record_batch([column], schema=pa.schema([pa.field("x", pa.int64(), False)])))
    return 1


def test_range_written() -> None:
    rig = Rig(double)
    address = written(rig, 32)
    rig.control(START)
    assert rig.status == 5
    numbers = [int.from_bytes(rig.device.memory.read(address + 8 * n, 8), "little") for n in range(4)]
    assert numbers == [2, 4, 6, 8]


def test_a_write_beyond_the_range_is_refused() -> None:
    rig = Rig(double)
    address = written(rig, 32)
    rig.set("W_lastidx", 3)
    rig.control(START)
    with pytest.raises(
        RuleError, match=r"the kernel writes rows 3 to 4 of W, but W_lastidx is 3, at register 0x1c"
    ) as caught:
        rig.status  # noqa: B018  # a read
    assert caught.value.rule is not None
    assert caught.value.rule.id == "fletcher/range-written"
    assert rig.device.memory.read(address + 24, 8) == bytes(8), "nothing of it was written"


def test_a_write_beyond_the_buffer_is_refused_and_overwrites_nothing() -> None:
    rig = Rig(double)
    address = written(rig, 16)
    behind = rig.device.memory.allocate(64)
    rig.set("W_lastidx", 4)
    rig.control(START)
    with pytest.raises(RuleError, match=r"W_x_values = 0x10000.*end at byte 24, but the allocation has 16"):
        rig.status  # noqa: B018  # a read
    assert rig.device.memory.read(address, 16) == bytes(16)
    assert rig.device.memory.read(behind, 64) == bytes(64)


def test_what_a_kernel_holds_stays_as_it_was() -> None:
    """Offsets that were checked cannot change under a kernel that goes on in a later slice."""

    @kernel(read={"R": [("s", pa.string())]})
    def hold(job: Job) -> Iterator[None]:
        batch = job.batch()
        yield
        job.result = len(batch["s"][1].as_py())

    device = FletcherDevice(hold.map(), hold, pacing=0)
    offsets = device.memory.adopt(b"".join(n.to_bytes(4, "little") for n in (0, 1, 3)))
    chars = device.memory.adopt(b"abc")
    device.write(20, 2)
    for register, address in zip((24, 32), (offsets, chars), strict=True):
        device.write(register, address & 0xFFFF_FFFF)
        device.write(register + 4, address >> 32)
    device.write(0, START)
    device.step()
    device.memory.write(offsets, (1 << 30).to_bytes(4, "little") * 3)
    device.step()
    assert device.read(8).value == 2


# ---- which kernel fits which map ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("schemas", "custom", "message"),
    [
        ([], (), "the register map has no RecordBatch ExampleBatch"),
        (
            [named_schema("ExampleBatch", [("number", pa.int32())])],
            (),
            "has {number: int32 not null}, but the kernel needs {number: int64 not null}",
        ),
        (
            [named_schema("ExampleBatch", [("n", pa.int64())])],
            (),
            "has {n: int64 not null}, but the kernel needs {number: int64 not null}",
        ),
        (
            [named_schema("ExampleBatch", pa.schema([("number", pa.int64())]))],
            (),
            "has {number: int64}, but the kernel needs {number: int64 not null}",
        ),
        (
            [named_schema("ExampleBatch", [("number", pa.int64())], "write")],
            (),
            "has mode 'write', but the kernel needs 'read'",
        ),
        (add_up.schemas, (), "the register map has no custom register knob"),
        (add_up.schemas, ("s:8:knob",), "custom register knob of the register map is s:8, but the kernel needs c:8"),
        (add_up.schemas, ("c:9:knob",), "custom register knob of the register map is c:9, but the kernel needs c:8"),
    ],
)
def test_a_map_that_a_kernel_does_not_fit(schemas: Any, custom: Any, message: str) -> None:
    program = Kernel("Sum", add_up.run, add_up.schemas, ("c:8:knob",))
    with pytest.raises(SoftcardError, match=message + ".*, at kernel Sum"):
        FletcherDevice(fletcher_map(schemas, custom=custom), program)


def test_a_map_may_have_more_than_the_kernel_wants() -> None:
    more = fletcher_map([*add_up.schemas, named_schema("Other", NUMBERS)], custom=["c:8:knob"])
    assert FletcherDevice(more, add_up).map is more


def test_a_kernel_for_any_map_has_none_of_its_own() -> None:
    with pytest.raises(
        WireError, match="kernel any works on any schema and has no register map: pass one to the device"
    ):
        Kernel("any", lambda job: None).map()


def test_the_decorator_takes_names_and_text_from_the_function() -> None:
    @kernel(read={"R": NUMBERS}, write={"W": pa.schema([("x", pa.int8())])}, custom=["c:8:knob"])
    def work(job: Job) -> None:
        """Does work."""

    assert (work.name, work.doc, work.custom) == ("work", "Does work.", ("c:8:knob",))
    assert [batch.mode.value for batch in work.map().batches] == ["read", "write"]
    assert work.schemas[1].field("x").nullable, "a schema is taken as it is"
    assert not work.schemas[0].field("x").nullable
    with pytest.raises(WireError, match="the mode of RecordBatch R is 'both', expected 'read' or 'write'"):
        named_schema("R", NUMBERS, "both")


# ---- columns, and registers of other types ---------------------------------------------------------------------------


PAIR = [("x", pa.int64()), ("y", pa.int64())]


def write_out(rows: Any) -> bytes:
    """What a kernel that writes `rows` leaves in memory, where both columns have the same place."""

    @kernel(read={"R": NUMBERS}, write={"W": NUMBERS})
    def copy(job: Job) -> None:
        job.write("W", rows)

    places: list[int] = []
    rig = run(copy, lambda rig: places.append(written(rig, 32)))
    return rig.device.memory.read(places[0], 24)


@pytest.mark.parametrize(
    "rows",
    [
        pa.record_batch([pa.array([7, 8, 9])], schema=pa.schema([pa.field("x", pa.int64(), False)])),
        {"x": [7, 8, 9]},
        {"x": pa.array([7, 8, 9])},
        {"x": pa.chunked_array([[7], [8, 9]])},
        [np.array([7, 8, 9])],
        ([7, 8, 9],),
    ],
    ids=["batch", "lists", "arrays", "chunked arrays", "NumPy arrays in order", "lists in order"],
)
def test_rows_are_written_as_columns_too(rows: Any) -> None:
    assert write_out(rows) == struct.pack("<3q", 7, 8, 9)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ({"y": [1]}, "the kernel writes y to RecordBatch W, expected the fields x"),
        ({"x": [1], "y": [2]}, "the kernel writes x, y to RecordBatch W, expected the fields x"),
        ({}, "the kernel writes no columns to RecordBatch W, expected the fields x"),
        ([[1], [2]], "the kernel writes 2 columns to RecordBatch W, expected the fields x"),
        (
            {"x": pa.array([1], pa.int8())},
            "W.x cannot be written, expected values of type int64: the array is of type int8",
        ),
        ({"x": ["a"]}, "W.x cannot be written, expected values of type int64: "),
        ({"x": [1 << 70]}, "W.x cannot be written, expected values of type int64: "),
        ({"x": 5}, "W.x cannot be written, expected values of type int64: "),
        ({"x": [None]}, "1 nulls, but the register map has no validity buffer for it"),
    ],
)
def test_columns_that_are_none(rows: Any, message: str) -> None:
    with pytest.raises(RuleError, match=message):
        write_out(rows)


def test_columns_of_different_lengths() -> None:
    @kernel(read={"R": NUMBERS}, write={"W": PAIR})
    def copy(job: Job) -> None:
        job.write("W", {"y": [1, 2], "x": [1]})

    with pytest.raises(RuleError, match="W have 1, 2 rows, expected the same number of rows in each"):
        run(copy, lambda rig: written(rig, 32))


def test_custom_registers_of_other_types() -> None:
    seen: list[Any] = []

    @kernel(read={"R": NUMBERS}, custom=["c:16:small", "c:32:single", "c:64:double"])
    def look(job: Job) -> None:
        for name, type_ in (("small", "int"), ("small", "uint"), ("single", "float"), ("double", "double")):
            seen.append(job.control(name, type_))
        seen.append(job.control("double", "int"))
        job.control("small", "float")

    def prepare(rig: Rig) -> None:
        rig.set("small", 0xFFFE)
        rig.set("single", int.from_bytes(struct.pack("<f", 1.5), "little"))
        rig.write64(rig.map.custom("double").address, int.from_bytes(struct.pack("<d", -2.25), "little"))

    with pytest.raises(
        WireError,
        match=r"register small of 16 bits cannot be read as 'float', expected uint, int, float \(32 bits\) or double",
    ):
        run(look, prepare)
    assert seen == [-2, 0xFFFE, 1.5, -2.25, int.from_bytes(struct.pack("<d", -2.25), "little") - (1 << 64)]
