"""The names and types of the real run-time library's calls."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tests.host.fletcher_rig import add_up, numbers, upper
from understudy.core.errors import WireError
from understudy.device.fletcher.device import FletcherDevice
from understudy.host.fletcher import Context, Kernel, Platform, StatusError
from understudy.host.fletcher_port import LocalPort


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
        with pytest.raises(StatusError, match="type 'double' of a register, expected one of uint, int, float"):
            platform.read_mmio(6, "double")


def test_device_memory_is_copied_to_a_buffer_of_the_hosts() -> None:
    with Platform(add_up) as platform:
        address = platform.cache_host_buffer(b"abcdef", 6)
        room = pa.allocate_buffer(8)
        assert platform.copy_device_to_host(address, 6, room) is room
        assert room.to_pybytes()[:6] == b"abcdef"
        for small in (bytearray(5), bytes(6)):
            with pytest.raises(WireError, match="6 bytes to a buffer of"):
                platform.copy_device_to_host(address, 6, small)


def test_polling_has_the_name_of_release_0_0_20_too() -> None:
    with Platform(add_up) as platform, Context(platform) as context:
        context.queue_record_batch(numbers(3, 4))
        context.enable()
        kernel = Kernel(context)
        kernel.start()
        kernel.poll_until_done(poll_interval_usec=1)
        assert kernel.get_return(np.dtype("int64")) == 7


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
        ([1, 1.5], "argument 1 is 1.5, expected an integer"),
        ([1 << 32], "argument 0 is 0x100000000, expected 32 bits"),
        ([-1 - (1 << 31)], "argument 0 is -0x80000001, expected 32 bits"),
    ],
)
def test_arguments_that_are_no_words(arguments: list[Any], message: str) -> None:
    with Platform(upper) as platform, Context(platform) as context:
        before = [platform.read_mmio(register) for register in range(16)]
        with pytest.raises(WireError) as caught:
            Kernel(context).set_arguments(arguments)
        assert str(caught.value) == message
        assert [platform.read_mmio(register) for register in range(16)] == before
        with pytest.raises(WireError, match="value of register 4 is 0x200000000, expected 32 bits"):
            platform.write_mmio(4, 1 << 33)
        with pytest.raises(WireError, match="last row is 0x100000000, expected 32 bits"):
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
