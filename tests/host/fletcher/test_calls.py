"""The names and types of the real run-time library's calls."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from softcard.core.errors import RuleError, WireError
from softcard.device.fletcher.device import FletcherDevice
from softcard.device.fletcher.job import Job, KernelFailure
from softcard.device.fletcher.kernel import Kernel as VirtualKernel
from softcard.device.fletcher.kernel import kernel as virtual_kernel
from softcard.device.fletcher.kernel import named_schema
from softcard.device.fletcher.rules import CUSTOM_SIZE
from softcard.host.fletcher.platform import Context, Kernel, Platform, StatusError, empty_batch
from softcard.host.fletcher.port import LocalPort
from tests.host.fletcher.rig import add_up, numbers, upper


def test_registers_are_read_as_the_type_that_is_asked_for() -> None:
    device = FletcherDevice(add_up.map(), add_up)
    with Platform(device) as platform:
        for register, value in ((6, 0x40490FDB), (7, 0xC0490FDB)):
            platform.write_mmio(register, value)
        assert platform.read_mmio(7) == 0xC0490FDB
        assert platform.read_mmio(7, "int") == 0xC0490FDB - (1 << 32)
        assert platform.read_mmio(6, "float") == pytest.approx(3.14159274)
        assert platform.read_mmio_64(6, "uint") == 0xC0490FDB_40490FDB
        assert platform.read_mmio_64(6, "int") == 0xC0490FDB_40490FDB - (1 << 64)
        assert platform.read_mmio_64(6, "double") == pytest.approx(-50.1238785)
        with pytest.raises(StatusError, match="the type of a register is 'double', expected one of uint, int, float"):
            platform.read_mmio(6, "double")


def test_device_memory_is_copied_to_a_buffer_of_the_hosts() -> None:
    with Platform(add_up) as platform:
        address = platform.cache_host_buffer(b"abcdef", 6)
        room = pa.allocate_buffer(8)
        assert platform.copy_device_to_host(address, 6, room) is room
        assert room.to_pybytes()[:6] == b"abcdef"
        for small in (bytearray(5), bytes(6)):
            with pytest.raises(WireError, match="6 bytes do not fit the buffer of"):
                platform.copy_device_to_host(address, 6, small)


def test_polling_has_the_name_of_release_0_0_20_too() -> None:
    with Platform(add_up) as platform, Context(platform) as context:
        context.queue_record_batch(numbers(3, 4))
        context.enable()
        kernel = Kernel(context)
        kernel.start()
        kernel.poll_until_done(poll_interval_usec=1)
        assert kernel.get_return(np.dtype("int64")) == 7
        with pytest.raises(WireError, match=r"unknown return type 'int3', expected .*; did you mean 'int.*'\?"):
            kernel.get_return("int3")


def test_all_names_of_the_real_library_are_there() -> None:
    """Those of pyfletcher 0.0.20, but `implements_schema`, which it does not implement itself."""
    kernel_names = (
        "ctrl_reset ctrl_start done_status done_status_mask get_context get_return get_status poll_until_done reset "
        "set_arguments set_range start"
    )
    context_names = "enable get_device_buffer get_queue_size num_buffers queue_record_batch"
    platform_names = (
        "copy_device_to_host copy_host_to_device device_free device_malloc init name read_mmio read_mmio_64 terminate "
        "write_mmio"
    )
    with Platform(add_up) as platform, Context(platform) as context:
        each = ((Kernel(context), kernel_names), (context, context_names), (platform, platform_names))
        assert [name for thing, names in each for name in names.split() if not hasattr(thing, name)] == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            [1, 1.5],
            "argument 1 is 1.5, expected an integer; the bits of a float are np.float32(1.5).view(np.uint32)",
        ),
        ([1 << 32], "argument 0 is 0x100000000, which does not fit 32 bits"),
        ([-1 - (1 << 31)], "argument 0 is -0x80000001, which does not fit 32 bits"),
    ],
)
def test_arguments_that_are_no_words(arguments: list[Any], message: str) -> None:
    with Platform(upper) as platform, Context(platform) as context:
        before = [platform.read_mmio(register) for register in range(16)]
        with pytest.raises(WireError) as caught:
            Kernel(context).set_arguments(arguments)
        assert str(caught.value) == message
        assert [platform.read_mmio(register) for register in range(16)] == before
        with pytest.raises(WireError, match="value of register 4 is 0x200000000, which does not fit 32 bits"):
            platform.write_mmio(4, 1 << 33)
        with pytest.raises(WireError, match="last row is 0x100000000, which does not fit 32 bits"):
            Kernel(context).set_range(0, 0, 1 << 32)


def test_arguments_of_both_signs_and_of_numpys_types() -> None:
    with Platform(upper) as platform, Context(platform) as context:
        for argument, found in ((-1, 0xFFFF_FFFF), (np.int32(-2), 0xFFFF_FFFE), (np.uint32(7), 7)):
            platform.write_mmio(5, argument)
            assert platform.read_mmio(5) == found
        context.close()


def test_only_what_the_platform_has_allocated_is_freed() -> None:
    class Sharing(LocalPort):
        def prepare_host_buffer(self, data: Any | None, size: int) -> tuple[int, bool]:
            return super().prepare_host_buffer(data, size)[0], False

    port = Sharing(FletcherDevice(add_up.map(), add_up))
    with Platform(port) as platform:
        with Context(platform) as context:
            context.queue_record_batch(numbers(1, 2))
            context.enable()
        assert port.device.memory.allocated_bytes == 16


# ---- arguments -------------------------------------------------------------------------------------------------------


WIDE = ("c:16:small", "s:32:seen", "c:64:big", "c:40:odd")


def arguments_of(kernel: VirtualKernel, arguments: Any, **options: Any) -> dict[str, int]:
    """Return the values of custom registers after `set_arguments`."""
    device = FletcherDevice(kernel.map(), kernel, **options)
    with Platform(device) as platform, Context(platform) as context:
        for schema in kernel.schemas:
            context.queue_record_batch(empty_batch(schema, 1))
        context.enable()
        Kernel(context).set_arguments(arguments)
        return {custom.name: device.value(custom.name) for custom in device.map.customs}


def with_registers(*custom: str) -> VirtualKernel:
    return virtual_kernel("any", read={"R": [("x", pa.int8())]}, custom=custom)(lambda job: None)


def test_more_arguments_than_the_design_has_words_for() -> None:
    for arguments in ([1], [1, 2, 3]):
        with pytest.raises(
            RuleError, match=f"{len(arguments)} arguments were given, but the design has 0 words of custom registers"
        ):
            arguments_of(with_registers(), arguments)
    with pytest.raises(
        RuleError, match="4 arguments were given, but the design has 3 words of custom registers"
    ) as caught:
        arguments_of(with_registers("c:8:a", "c:64:b"), [1, 2, 3, 4])
    assert caught.value.rule is CUSTOM_SIZE
    assert arguments_of(with_registers("c:8:a", "c:64:b"), [1, 2, 3]) == {"a": 1, "b": 3 << 32 | 2}
    arguments_of(with_registers(), [1], profile="hardware", lints="off")  # Profile_enable, as on the hardware


@pytest.mark.parametrize("options", [{}, {"profile": "hardware"}])
def test_arguments_by_name(options: dict[str, Any]) -> None:
    found = arguments_of(with_registers(*WIDE), {"big": 0x123_4567_89AB, "small": -2, "odd": (1 << 40) - 1}, **options)
    assert found == {"small": 0xFFFE, "seen": 0, "big": 0x123_4567_89AB, "odd": (1 << 40) - 1}


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"seen": 1}, RuleError, "argument seen is a status register, which only the kernel can set"),
        ({"nothing": 1}, WireError, r"the register map has no custom register nothing \(it has: small seen big odd\)"),
        ({"small": 1 << 16}, WireError, "argument small is 0x10000, which does not fit 16 bits"),
        ({"small": -32769}, WireError, "argument small is -0x8001, which does not fit 16 bits"),
        (
            {"big": 1.5},
            WireError,
            r"argument big is 1.5, expected an integer; the bits of a float are np.float64\(1.5\).view\(np.uint64\)",
        ),
        ({"small": 1.5}, WireError, "argument small is 1.5, expected an integer$"),
    ],
)
def test_arguments_by_name_that_are_none(arguments: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        arguments_of(with_registers(*WIDE), arguments)


def test_arguments_by_name_need_a_map() -> None:
    class Blind(LocalPort):
        @property
        def map(self) -> None:  # type: ignore[override]  # as for a platform of which nothing is known
            return None

    kernel = with_registers("c:8:a")
    with (
        Platform(Blind(FletcherDevice(kernel.map(), kernel))) as platform,
        Context(platform) as context,
        pytest.raises(StatusError, match="arguments by name require a platform with a known register map"),
    ):
        Kernel(context).set_arguments({"a": 1})


def test_arguments_before_the_batches_are_queued() -> None:
    kernel = with_registers("c:8:a")
    with Platform(kernel) as platform, Context(platform) as context:
        with pytest.raises(
            RuleError, match="argument 0 would be written to register 4, but the design has a at 8: queue"
        ):
            Kernel(context).set_arguments([1])
        assert platform.read_mmio(4) == 0


# ---- the wrong time, or too much -------------------------------------------------------------------------------------


@pytest.mark.parametrize("profile", ["spec", "hardware"])
def test_a_context_is_enabled_once(profile: str) -> None:
    with Platform(add_up, profile=profile) as platform, Context(platform) as context:
        context.queue_record_batch(numbers(1, 2))
        context.enable()
        with pytest.raises(StatusError, match=r"the context is enabled already: call enable\(\) once"):
            context.enable()
        with pytest.raises(StatusError, match="enabled already: queue all RecordBatches before"):
            context.queue_record_batch(numbers(3))
        assert (context.num_recordbatches(), len(context.device_buffers)) == (1, 1)


def test_more_rows_than_a_register_counts() -> None:
    """Nobody looks at their bytes, of which there are none."""
    schema = named_schema("ExampleBatch", [("number", pa.int8())])
    rows = 5_000_000_000
    nothing = pa.foreign_buffer(4096, rows, None)
    batch = pa.RecordBatch.from_arrays([pa.Array.from_buffers(pa.int8(), rows, [None, nothing], 0)], schema=schema)

    class Blank(LocalPort):
        def prepare_host_buffer(self, data: Any | None, size: int) -> tuple[int, bool]:
            return 0x1_0000_0000, False

    kernel = VirtualKernel("any", lambda job: None, (schema,))
    device = FletcherDevice(kernel.map(), kernel)
    with Platform(Blank(device)) as platform, Context(platform) as context:
        context.queue_record_batch(batch)
        context.enable()
        with pytest.raises(
            WireError, match="number of rows of RecordBatch 0 is 0x12a05f200, which does not fit 32 bits"
        ):
            Kernel(context).start()
        assert device.time == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rows": -1}, "rows of an empty RecordBatch is -1, expected an integer of 0 or more"),
        ({"rows": 1, "elements": -5}, "elements of an empty RecordBatch is -5, expected an integer of 0 or more"),
        ({"rows": 1.5}, "rows of an empty RecordBatch is 1.5, expected an integer of 0 or more"),
    ],
)
def test_empty_batches_that_are_none(options: dict[str, Any], message: str) -> None:
    with pytest.raises(WireError, match=message):
        empty_batch(named_schema("W", [("s", pa.string())]), **options)


def test_a_start_needs_buffers_on_the_device() -> None:
    with Platform(add_up) as platform, Context(platform) as context:
        context.queue_record_batch(numbers(1, 2))
        with pytest.raises(StatusError, match=r"are not on the device: call the context's enable\(\) first"):
            Kernel(context).start()
        assert platform.read_mmio(1) == 1  # idle


def test_a_failure_in_pyarrow_names_the_line_of_the_kernel() -> None:
    def misspelt(job: Job) -> int:
        return job.batch()["amout"]

    (schema,) = add_up.schemas
    kernel = VirtualKernel("misspelt", misspelt, (schema,))
    with Platform(kernel) as platform, Context(platform) as context:
        context.queue_record_batch(numbers(1, 2))
        context.enable()
        with pytest.raises(
            KernelFailure, match=r"does not exist in schema', at line \d+ of .*test_calls.py \(misspelt"
        ):
            Kernel(context).start()


def test_record_batches_that_are_not_there() -> None:
    with Platform(add_up) as platform, Context(platform) as context:
        context.queue_record_batch(numbers(1, 2))
        with pytest.raises(StatusError, match=r"RecordBatch 0 cannot be copied back: call enable\(\) first"):
            context.read_record_batch(0)
        context.enable()
        for index in (-1, 1):
            with pytest.raises(StatusError, match=f"RecordBatch {index} cannot be copied back: 1 are on the device"):
                context.read_record_batch(index)
            with pytest.raises(
                StatusError, match=f"cannot set the rows of RecordBatch {index}: the design has 1, counted from 0"
            ):
                Kernel(context).set_range(index, 0, 1)
        assert [platform.read_mmio(register) for register in range(2, 8)] == [0] * 6
