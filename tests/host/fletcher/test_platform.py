"""The run-time library in Python: its calls, what it refuses, Arrow producers, results back to the host."""

from __future__ import annotations

import doctest
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from softcard.core.errors import BeyondModel, RuleError, SoftcardError, WireError
from softcard.device.fletcher.device import FletcherDevice
from softcard.device.fletcher.events import Lint
from softcard.device.fletcher.kernel import kernel, named_schema
from softcard.device.fletcher.kernels import find
from softcard.device.fletcher.map.build import fletcher_map
from softcard.host.fletcher import platform as fletcher
from softcard.host.fletcher.batch import buffers_of
from softcard.host.fletcher.platform import Context, Kernel, Platform, StatusError, empty_batch
from softcard.host.fletcher.port import DEVICE_OUT_OF_MEMORY, LocalPort
from tests.host.fletcher.rig import NUMBER, add_up, numbers, run, upper


@pytest.fixture
def context() -> Iterator[Context]:
    with Platform(add_up, latency=1) as platform, Context(platform) as context:
        context.queue_record_batch(numbers(1, 2, 3))
        context.enable()
        yield context


def test_the_example_of_the_docstring() -> None:
    assert doctest.testmod(fletcher).failed == 0


@pytest.mark.parametrize("profile", ["spec", "hardware"])
@pytest.mark.parametrize("execution", ["synchronous", "threaded"])
def test_a_run(profile: str, execution: str) -> None:
    assert run(numbers(1, -3, 3, -7), profile=profile, execution=execution) == -6


def test_a_bus_of_64_bits_and_an_offset_are_the_platforms_business() -> None:
    for profile in ("spec", "hardware"):
        device = FletcherDevice(add_up.map(bus_width=64, offset=64), add_up, profile=profile)
        lints: list[Any] = []
        device.probes.subscribe(
            lambda event, reported=lints: reported.append(event) if isinstance(event, Lint) else None
        )
        with Platform(device) as platform, Context(platform) as context:
            context.queue_record_batch(numbers(5, 6))
            context.enable()
            handle = Kernel(context)
            handle.start()
            handle.wait_for_finish()
            assert handle.get_return() == 11
        assert lints == []


# ---- results back ---------------------------------------------------------------------------------------------------


def host_run(room: int, limit: int = 9, **options: Any) -> tuple[pa.RecordBatch, pa.RecordBatch]:
    """A run of `upper`: what came back, and the batch the host had queued for it."""
    rows = pa.record_batch([pa.array(["ab", "", "xyz"])], schema=upper.schemas[0])
    target = empty_batch(upper.schemas[1], 3, room)
    with Platform(upper, **options) as platform, Context(platform) as context:
        context.queue_record_batch(rows)
        context.queue_record_batch(target)
        context.enable()
        handle = Kernel(context)
        handle.set_arguments([limit])
        handle.start()
        handle.wait_for_finish()
        return context.read_record_batch(1, handle.get_return()), target


def test_written_rows_come_back_by_copies_only() -> None:
    found, target = host_run(8)
    assert found.to_pydict() == {"s": ["AB", "", "XYZ"]}
    assert target.to_pydict() == {"s": ["", "", ""]}, "the host's own buffers stay"
    assert host_run(8, limit=2)[0].num_rows == 2


def test_a_buffer_that_is_too_small_is_reported_by_name() -> None:
    with pytest.raises(RuleError, match=r"Out_s_values = 0x1.*end at byte 5, but the allocation has 4"):
        host_run(4)


def test_empty_batches_have_room() -> None:
    item = pa.field("item", pa.struct([pa.field("x", pa.int16(), False), pa.field("n", pa.binary())]), False)
    schema = pa.schema([("a", pa.int32()), pa.field("l", pa.list_(item), False), ("d", pa.decimal128(9, 2))])
    batch = empty_batch(schema, 5, 100)
    batch.validate(full=True)
    sizes = {(*buffer.flat.path, buffer.flat.kind): buffer.size for buffer in buffers_of(batch)}
    assert sizes == {
        ("a", "validity"): 1,
        ("a", "values"): 20,
        ("l", "offsets"): 24,
        ("l", "x", "values"): 200,
        ("l", "n", "validity"): 13,
        ("l", "n", "offsets"): 404,
        ("l", "n", "values"): 100,
        ("d", "validity"): 1,
        ("d", "values"): 80,
    }
    with pytest.raises(BeyondModel, match="bool"):
        empty_batch(pa.schema([("b", pa.bool_())]), 1)


# ---- what it refuses ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("first", "last"), [(3, 3), (4, 3)])
def test_a_range_without_rows_is_refused(context: Context, first: int, last: int) -> None:
    with pytest.raises(StatusError, match=rf"row range invalid: \[ {first}, {last} \)") as caught:
        Kernel(context).set_range(0, first, last)
    assert caught.value.status == 1


def test_waiting_without_a_start_is_refused(context: Context) -> None:
    with pytest.raises(StatusError, match="the kernel is idle: start it"):
        Kernel(context).wait_for_finish()


def test_waiting_for_a_kernel_that_is_stuck_raises_why() -> None:
    device = FletcherDevice(add_up.map(), add_up, profile="hardware")
    with Platform(device) as platform, Context(platform) as context:
        context.queue_record_batch(numbers(1, 2, 3))
        context.enable()
        handle = Kernel(context)
        handle.start()
        handle.wait_for_finish()
        handle.reset()
        handle.set_range(0, 0, 4)
        handle.start()
        with pytest.raises(RuleError, match="rows 0 to 4, 8 bytes each, end at byte 32, but the allocation has 24"):
            handle.wait_for_finish()


def test_waiting_has_an_end_where_it_is_wanted() -> None:
    with Platform(add_up, pacing=0) as platform, Context(platform) as context:
        context.queue_record_batch(numbers(1))
        context.enable()
        handle = Kernel(context)
        handle.start()
        with pytest.raises(StatusError, match=r"the kernel did not end within 0.0 s"):
            handle.wait_for_finish(poll_interval_usec=1, timeout_seconds=0.0)


def test_errors_of_registers_say_which(context: Context) -> None:
    with pytest.raises(RuleError, match=r"write to status, which is read-only.*at MMIO register 1"):
        context.platform.write_mmio(1, 0)
    with pytest.raises(RuleError, match=r"read at bus address 0x100, where there is no register.*at MMIO register 64"):
        context.platform.read_mmio(64)


def test_64_bits_the_real_librarys_way_fail_on_hardware() -> None:
    device = FletcherDevice(add_up.map(), add_up, profile="hardware")
    with (
        Platform(device) as platform,
        pytest.raises(StatusError, match=r"the bus responds with SLVERR.*at MMIO register 3"),
    ):
        platform.read_mmio_64(2)


def test_memory_types(context: Context) -> None:
    with pytest.raises(StatusError, match="mem_type is 'fast', expected 'any' or 'cache'"):
        context.queue_record_batch(numbers(1), "fast")
    with Platform(add_up) as platform, Context(platform) as other:
        other.queue_record_batch(numbers(1), "alloc_only")
        with pytest.raises(StatusError, match="the run-time library does not support mem_type 'alloc_only'"):
            other.enable()


def test_device_memory_that_is_used_up() -> None:
    for kind in ("any", "cache"):
        with Platform(add_up, memory_bytes=4096) as platform, Context(platform) as context:
            context.queue_record_batch(numbers(1), kind)
            with pytest.raises(StatusError, match=r"have no room for them.*at buffer number_values") as caught:
                context.enable()
            assert caught.value.status == DEVICE_OUT_OF_MEMORY


def test_a_queue_in_another_order_than_the_design() -> None:
    both = [named_schema(name, [("x", pa.int8())]) for name in ("Beta", "Alpha")]
    device = FletcherDevice(fletcher_map(both), add_up_any())
    with Platform(device) as platform, Context(platform) as context:
        for schema in both:
            context.queue_record_batch(empty_batch(schema, 1))
        with pytest.raises(
            RuleError, match=r"RecordBatch 0 of the queue is Beta.*queue them in the order Alpha Beta"
        ) as caught:
            context.enable()
        assert caught.value.rule is not None
        assert caught.value.rule.id == "fletcher/queue-order"


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ([("x", pa.int32())], "column y: int64 not null is missing"),
        ([("x", pa.int32()), ("y", pa.int64()), ("z", pa.int8())], "the design has no column z"),
        ([("x", pa.int8()), ("y", pa.int64())], "column x is int8 not null, expected int32 not null"),
        ([("y", pa.int64()), ("x", pa.int32())], "order the columns as x, y"),
        ([pa.field("x", pa.int32()), ("y", pa.int64())], "column x is int32, expected int32 not null"),
    ],
)
@pytest.mark.parametrize("is_named", [True, False])
def test_a_record_batch_with_other_columns_than_the_design(fields: Any, message: str, is_named: bool) -> None:
    design = named_schema("A", [("x", pa.int32()), ("y", pa.int64())])
    device = FletcherDevice(fletcher_map([design]), add_up_any())
    schema = named_schema("A", fields)
    with Platform(device) as platform, Context(platform) as context:
        context.queue_record_batch(empty_batch(schema if is_named else schema.remove_metadata(), 1))
        with pytest.raises(RuleError, match="RecordBatch 0 of the queue is") as caught:
            context.enable()
    assert "the design has A{x: int32 not null, y: int64 not null} there: " + message in str(caught.value)
    assert "queue them in the order" not in str(caught.value)


def test_fields_of_a_kernel() -> None:
    made = named_schema("A", [pa.field("x", pa.int32()), ("y", pa.int64())])
    assert [field.nullable for field in made] == [True, False]
    for wrong in ("x", ("x",), 7, ("x", object())):
        with pytest.raises(WireError, match=r"RecordBatch A has the field .*, expected a pair of name and Arrow type"):
            named_schema("A", [wrong])


def test_a_number_below_0_in_a_register() -> None:
    """A lint: registers are unsigned, whatever writes them."""
    schema = named_schema("A", [("x", pa.int32())])
    virtual = kernel("any", read={"A": schema}, custom=["c:32:limit"])(lambda job: None)
    lints: list[Lint] = []
    with Platform(virtual, lints="off") as platform, Context(platform) as context:
        platform.port.device.probes.subscribe(lambda event: lints.append(event) if isinstance(event, Lint) else None)
        context.queue_record_batch(empty_batch(schema, 1))
        context.enable()
        Kernel(context).set_arguments([-3])
        Kernel(context).set_arguments({"limit": -1})
        Kernel(context).set_arguments([3])
    assert [each.check for each in lints] == ["negative-value"] * 2
    assert lints[0].message == "argument 0 is -3: registers are unsigned, so 0xfffffffd is written"


def add_up_any() -> Any:
    return kernel("any")(lambda job: None)


def test_a_queue_with_other_buffers_than_the_design() -> None:
    """Nullable children: the generator has no register for their validity, the run-time passes it."""
    schema = named_schema("R", pa.schema([pa.field("l", pa.list_(pa.int16()), False)]))
    device = FletcherDevice(fletcher_map([schema]), add_up_any())
    with Platform(device) as platform, Context(platform) as context:
        context.queue_record_batch(empty_batch(schema, 1, 1))
        with pytest.raises(
            RuleError, match=r"R.l \(list items\) may be null: .*, for which the design has no"
        ) as caught:
            context.enable()
        assert caught.value.message.endswith("write pa.field('item', int16, nullable=False) inside of the type")
        assert caught.value.rule is not None
        assert caught.value.rule.id == "fletcher/same-implementation"


def test_a_queue_with_too_few_batches() -> None:
    with (
        Platform(add_up) as platform,
        Context(platform) as context,
        pytest.raises(RuleError, match="0 RecordBatches are queued, but the design has 1: ExampleBatch"),
    ):
        context.enable()


def test_a_queue_without_room_for_what_is_written() -> None:
    design = find("filter")
    reported = (
        "1 RecordBatch is queued, but the design has 2: In Out; queue an empty one for Out too, which the kernel "
        "writes: "
        "empty_"
    )
    with Platform(design) as platform, Context(platform) as context:
        context.queue_record_batch(empty_batch(design.schemas[0], 1, 1))
        with pytest.raises(RuleError, match=reported):
            context.enable()


def test_batches_without_a_name_are_compared_by_their_fields() -> None:
    assert run(pa.record_batch([pa.array([4, 5])], schema=NUMBER.remove_metadata())) == 9
    with pytest.raises(RuleError, match=r"RecordBatch 0 of the queue is nameless{number: int8 not null}"):
        run(pa.record_batch([pa.array([4], pa.int8())], schema=pa.schema([pa.field("number", pa.int8(), False)])))


def test_the_hardware_lets_a_wrong_queue_pass() -> None:
    device = FletcherDevice(add_up.map(), add_up, profile="hardware")
    with Platform(device) as platform, Context(platform) as context:
        context.enable()
        assert context.num_buffers() == 0


def test_options_are_for_kernels() -> None:
    with pytest.raises(WireError, match="options latency are settings of a new device: pass a kernel"):
        Platform(FletcherDevice(add_up.map(), add_up), latency=1)


def test_platforms_are_no_names() -> None:
    target: Any = "snap"
    with pytest.raises(WireError, match="platform is 'snap', expected a device, a virtual kernel, a port"):
        Platform(target)


# ---- the rest of the calls ------------------------------------------------------------------------------------------


def test_what_a_context_knows(context: Context) -> None:
    assert (context.num_recordbatches(), context.num_buffers(), context.get_queue_size()) == (1, 1, 24)
    assert context.rows() == (3,)
    buffer = context.get_device_buffer(0)
    assert (buffer.name, buffer.size, buffer.mode, buffer.memory_type) == ("number_values", 24, "read", "any")
    assert buffer.was_alloced
    with pytest.raises(StatusError, match="there is no device buffer 1, the context has 1"):
        context.get_device_buffer(1)
    assert Kernel(context).get_context() is context


def test_a_closed_context_has_freed_everything(context: Context) -> None:
    port = context.platform.port
    assert isinstance(port, LocalPort)
    assert port.device.memory.allocated_bytes == 24
    context.close()
    context.close()
    assert port.device.memory.allocated_bytes == 0


def test_platform_calls(context: Context) -> None:
    platform = context.platform
    assert platform.name() == "softcard"
    address = platform.device_malloc(16)
    platform.copy_host_to_device(np.arange(4, dtype=np.uint8), address, 3)
    assert platform.copy_device_to_host(address, 4).tolist() == [0, 1, 2, 0]
    platform.device_free(address)
    address, alloced = platform.prepare_host_buffer(b"abcdef", 4)
    assert alloced
    assert platform.copy_device_to_host(address, 4).tobytes() == b"abcd"
    address = platform.cache_host_buffer(b"abcdef", 4)
    assert platform.copy_device_to_host(address, 4).tobytes() == b"abcd"
    with pytest.raises(SoftcardError, match="read of 5 bytes"):
        platform.copy_device_to_host(address, 5)


def test_status_and_return(context: Context) -> None:
    handle = Kernel(context)
    assert handle.get_status() == 1
    handle.start()
    handle.wait_for_finish()
    assert handle.get_status() == 5
    assert handle.get_return() == 6
    assert handle.get_return(np.float32) == 6.0
    handle.reset()
    assert handle.get_status() == 1


def test_metadata_may_be_written_before_a_range(context: Context) -> None:
    handle = Kernel(context)
    handle.write_metadata()
    handle.set_range(0, 1, 3)
    handle.start()
    handle.wait_for_finish()
    assert handle.get_return() == 5
    assert context.platform.read_mmio(4) == 1
