"""Kernel arguments: fitted to what metadata says, laid out by hand without it, refused with their names."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from softcard.core.errors import BeyondModel, WireError
from softcard.device.hsa.launch.kernarg import Hidden
from softcard.device.hsa.queues.packets import KernelDispatchPacket
from softcard.host.hsa.arguments import Address, Local, Packer, Segments
from softcard.image.elf.reader import Symbol
from softcard.image.hsa.code_object import Kernel
from softcard.image.hsa.metadata import Argument, Described, KernelMetadata
from softcard.image.hsa.records import KernelDescriptor

PACKET = KernelDispatchPacket(workgroup_size_x=64, grid_size_x=100)
HEADER = KernelDescriptor.parse((300).to_bytes(4, "little") + bytes(60))


def kernel(*arguments: Argument, described: bool = True) -> Kernel:
    size = max((each.offset + each.size for each in arguments), default=0)
    made = Kernel("k", Symbol("k.kd", 0, 64, 1, 1, 0, 1, 0), 0, 0, HEADER, Described((), ()))
    if described:
        vars(made)["metadata"] = KernelMetadata("k", "k.kd", arguments, kernarg_size=size)
    return made


def pack(
    kernel: Kernel, values: Any, packet: KernelDispatchPacket, hidden: Hidden, address: Address, group_bytes: int = 0
) -> Segments:
    return Packer(kernel, packet).pack(values, hidden, address, group_bytes)


def packed(argument: Argument, value: Any) -> bytes:
    return pack(kernel(argument), [value], PACKET, Hidden(), lambda array: 0x1000).kernarg


def by_value(type_name: str, size: int) -> Argument:
    return Argument("a", 0, size, "by_value", type_name)


@pytest.mark.parametrize(
    ("type_name", "size", "value", "expected"),
    [
        ("float", 4, 2, np.float32(2).tobytes()),
        ("float", 4, 2.5, np.float32(2.5).tobytes()),
        ("float", 4, np.float64(0.1), np.float32(0.1).tobytes()),
        ("double", 8, np.float32(0.5), np.float64(0.5).tobytes()),
        ("half", 2, 1.5, np.float16(1.5).tobytes()),
        ("float", 4, float("nan"), np.float32("nan").tobytes()),
        ("int", 4, -1, b"\xff\xff\xff\xff"),
        ("int", 4, 0xFFFFFFFF, b"\xff\xff\xff\xff"),
        ("uint", 4, -1, b"\xff\xff\xff\xff"),
        ("int", 4, 3.0, b"\x03\0\0\0"),
        ("uchar", 1, True, b"\x01"),
        ("ulong", 8, np.uint64(1 << 63), (1 << 63).to_bytes(8, "little")),
        ("size_t", 8, 7, (7).to_bytes(8, "little")),
        ("float4", 16, [1, 2, 3, 4], np.arange(1, 5, dtype=np.float32).tobytes()),
        ("float3", 16, (1, 2, 3), np.array([1, 2, 3, 0], np.float32).tobytes()),
        ("uchar2", 2, np.array([250, 3], np.uint8), b"\xfa\x03"),
        ("int", 4, b"\x01\x02\x03\x04", b"\x01\x02\x03\x04"),
        ("struct pair", 8, np.array((1, 2.0), "i4,f4"), np.array((1, 2.0), "i4,f4").tobytes()),
        ("", 4, 1.0, np.float32(1).tobytes()),
        ("", 2, -2, b"\xfe\xff"),
    ],
)
def test_values_become_the_type_of_the_argument(type_name: str, size: int, value: Any, expected: bytes) -> None:
    assert packed(by_value(type_name, size), value) == expected


@pytest.mark.parametrize(
    ("argument", "value", "message"),
    [
        (by_value("int", 4), 1 << 32, "4294967296 does not fit int32"),
        (by_value("char", 1), -129, "-129 does not fit int8"),
        (by_value("int", 4), 0.5, "0.5 for int32, expected a whole number"),
        (by_value("int", 4), float("inf"), "inf for int32, expected a whole number"),
        (by_value("int", 4), "7", "cannot pass str '7', expected a number"),
        (by_value("float4", 16), [1, 2], "the value has 2 elements, expected 4 for float4"),
        (by_value("int", 4), b"\0", "1 bytes, expected 4"),
        (by_value("", 3), 1.0, "cannot pass a float for an argument of 3 bytes, expected bytes"),
        (by_value("", 1), 256, "256 does not fit 1 bytes"),
        (by_value("struct", 8), object, "expected bytes or a NumPy value of 8 bytes"),
        (by_value("int", 4), Local(4), "cannot pass Local for an argument of kind by_value"),
        (Argument("p", 0, 8, "global_buffer"), 1.5, "float 1.5, expected an array or an address"),
        (Argument("p", 0, 8, "global_buffer"), -1, "address -0x1 does not fit 64 bits"),
        (
            Argument("l", 0, 4, "dynamic_shared_pointer"),
            64,
            "int 64, expected Local(size): the argument points to group memory",
        ),
        (Argument("l", 0, 4, "dynamic_shared_pointer"), Local(-1), "the size of Local is -1 bytes, expected 0 or more"),
    ],
)
def test_what_does_not_fit_is_refused_with_its_name(argument: Argument, value: Any, message: str) -> None:
    with pytest.raises(WireError) as caught:
        packed(argument, value)
    assert message in str(caught.value)
    assert f"at argument 0 ({argument.name})" in str(caught.value)


def test_pointers() -> None:
    argument = Argument("p", 0, 8, "global_buffer")
    signal = type("Signal", (), {"address": 0x2000})()
    shown = [packed(argument, value) for value in (np.zeros(2), 0x3000, np.uint64(5), None, signal)]
    assert [int.from_bytes(each, "little") for each in shown] == [0x1000, 0x3000, 5, 0, 0x2000]


def test_local_memory_lies_behind_the_static_one() -> None:
    pointers = [Argument(name, 4 * n, 4, "dynamic_shared_pointer") for n, name in enumerate("ab")]
    made = pack(kernel(*pointers), [Local(20), Local(4)], PACKET, Hidden(), lambda array: 0, group_bytes=10)
    assert np.frombuffer(made.kernarg, np.uint32).tolist() == [320, 352]  # after 300 + 10, at multiples of 16
    assert made.group_bytes == 356


def test_hidden_arguments_are_filled_in() -> None:
    arguments = (
        by_value("int", 4),
        Argument("", 8, 8, "hidden_global_offset_x"),
        Argument("", 16, 4, "hidden_block_count_x"),
        Argument("", 20, 2, "hidden_remainder_x"),
        Argument("", 24, 8, "hidden_queue_ptr"),
    )
    hidden = Hidden(global_offset=(9, 0, 0), queue=0x7700)
    data = pack(kernel(*arguments), [1], PACKET, hidden, lambda array: 0).kernarg
    assert data == np.array([(1, 0, 9, 1, 36, 0, 0x7700)], "i4,i4,u8,u4,u2,u2,u8").tobytes()


def test_the_segment_as_bytes() -> None:
    taking = kernel(by_value("long", 8))
    made = pack(taking, b"\x01\x02" + bytes(6), PACKET, Hidden(), lambda array: 0)
    assert made.kernarg == b"\x01\x02" + bytes(6)
    assert made.group_bytes == 300
    assert len(pack(taking, bytes(12), PACKET, Hidden(), lambda array: 0).kernarg) == 12
    with pytest.raises(WireError, match="the arguments have 7 bytes, but kernel k needs 8, hidden arguments included"):
        pack(taking, bytes(7), PACKET, Hidden(), lambda array: 0)


def test_dynamic_lds_size() -> None:
    """Group memory of a launch beyond the kernel's own: by `group_bytes`, and by Local."""
    local = Argument("l", 0, 4, "dynamic_shared_pointer")
    hidden = Argument("", 4, 4, "hidden_dynamic_lds_size")
    made = pack(kernel(local, hidden), [Local(20)], PACKET, Hidden(), lambda array: 0, group_bytes=4)
    assert np.frombuffer(made.kernarg, np.uint32).tolist() == [304, 24]
    assert made.group_bytes == 324


def test_group_bytes_that_cannot_be() -> None:
    with pytest.raises(WireError, match="group_bytes is -5, expected 0 or more"):
        pack(kernel(), [], PACKET, Hidden(), lambda array: 0, group_bytes=-5)


@pytest.mark.parametrize(
    ("type_name", "dtype", "expected"),
    [
        ("float*", "f8", "4"),
        ("float*", "i2", "4"),
        ("double*", "f4", "8"),
        ("uchar*", "f4", "1"),
        ("int4*", "i8", "4 or 16"),
        ("float3*", "c8", "4 or 16"),
        ("float*", "f4", ""),
        ("float*", "i4", ""),
        ("float*", "u1", ""),
        ("float2*", "c8", ""),
        ("float4*", "f4", ""),
        ("size_t*", "u4", ""),
        ("float*", "f4,i2", ""),
        ("struct pair*", "f8", ""),
        ("void*", "f8", ""),
        ("", "f8", ""),
    ],
)
def test_array_elements(type_name: str, dtype: str, expected: str) -> None:
    argument, array = Argument("p", 0, 8, "global_buffer", type_name), np.zeros(4, dtype)
    if not expected:
        assert packed(argument, array) == (0x1000).to_bytes(8, "little")
        return
    with pytest.raises(WireError) as caught:
        packed(argument, array)
    text = f"cannot pass an array of {array.dtype} for {type_name}, expected elements of {expected} bytes"
    assert str(caught.value).startswith(text)
    assert str(caught.value).endswith("at argument 0 (p)")


def test_without_metadata_values_lie_as_in_c() -> None:
    values = [np.uint8(1), np.int16(-2), np.zeros(1), np.float32(1), None, b"xyz"]
    data = pack(kernel(described=False), values, PACKET, Hidden(), lambda array: 0x1234).kernarg
    assert data == np.array(
        [(1, 0, -2, 0, 0x1234, 1.0, 0, 0)], "u1,u1,i2,u4,u8,f4,u4,u8"
    ).tobytes() + b"xyz"  # fmt: skip


@pytest.mark.parametrize("value", [1, 2.5])
def test_without_metadata_python_numbers_have_no_size(value: Any) -> None:
    with pytest.raises(WireError, match="the size of the argument is unknown without metadata, at argument 1"):
        pack(kernel(described=False), [np.int32(0), value], PACKET, Hidden(), lambda array: 0)


def test_kinds_without_values() -> None:
    with pytest.raises(BeyondModel, match="arguments of kind dynamic_thing are not supported"):
        packed(Argument("x", 0, 8, "dynamic_thing"), 0)


def test_the_number_of_arguments() -> None:
    with pytest.raises(WireError, match="kernel k takes 1 argument \\(a\\), not 2"):
        pack(kernel(by_value("int", 4)), [1, 2], PACKET, Hidden(), lambda array: 0)
