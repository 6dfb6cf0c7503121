"""Kernarg segments from metadata, hidden arguments of all versions."""

import numpy as np
import pytest

from softcard.core.errors import WireError
from softcard.device.hsa.launch.kernarg import Hidden, hidden_values, pack_kernarg
from softcard.device.hsa.queues.packets import KernelDispatchPacket
from softcard.image.hsa.metadata import from_msgpack, from_yaml

PACKET = KernelDispatchPacket(
    dimensions=2, workgroup_size_x=16, workgroup_size_y=4, grid_size_x=100, grid_size_y=8, grid_size_z=1
)
HIDDEN = Hidden(
    global_offset=(5, 6, 7),
    shared_base=0x1_0000_0000,
    private_base=0x2_0000_0000,
    queue=0x1234_5678_9ABC,
    printf_buffer=11,
    hostcall_buffer=12,
    default_queue=13,
    completion_action=14,
    multigrid_sync_arg=15,
    heap=16,
    dynamic_lds_size=17,
)
V5_LAYOUT = (
    ("block_count_x", 0, 4),
    ("block_count_y", 4, 4),
    ("block_count_z", 8, 4),
    ("group_size_x", 12, 2),
    ("group_size_y", 14, 2),
    ("group_size_z", 16, 2),
    ("remainder_x", 18, 2),
    ("remainder_y", 20, 2),
    ("remainder_z", 22, 2),
    ("global_offset_x", 40, 8),
    ("global_offset_y", 48, 8),
    ("global_offset_z", 56, 8),
    ("grid_dims", 64, 2),
    ("printf_buffer", 72, 8),
    ("hostcall_buffer", 80, 8),
    ("multigrid_sync_arg", 88, 8),
    ("heap_v1", 96, 8),
    ("default_queue", 104, 8),
    ("completion_action", 112, 8),
    ("dynamic_lds_size", 120, 4),
    ("private_base", 192, 4),
    ("shared_base", 196, 4),
    ("queue_ptr", 200, 8),
)
V5_VALUES = {
    "block_count_x": 6,
    "block_count_y": 2,
    "block_count_z": 1,
    "group_size_x": 16,
    "group_size_y": 4,
    "group_size_z": 1,
    "remainder_x": 4,
    "remainder_y": 0,
    "remainder_z": 0,
    "global_offset_x": 5,
    "global_offset_y": 6,
    "global_offset_z": 7,
    "grid_dims": 2,
    "printf_buffer": 11,
    "hostcall_buffer": 12,
    "multigrid_sync_arg": 15,
    "heap_v1": 16,
    "default_queue": 13,
    "completion_action": 14,
    "dynamic_lds_size": 17,
    "private_base": 2,
    "shared_base": 1,
    "queue_ptr": 0x1234_5678_9ABC,
}


def kernel(*arguments):
    """Metadata with arguments of (kind, offset, size)."""
    listed = [
        {".value_kind": kind, ".offset": offset, ".size": size, ".name": f"a{offset}"}
        for kind, offset, size in arguments
    ]
    (made,), problems = from_msgpack({"amdhsa.kernels": [{".name": "k", ".args": listed}]})
    assert not problems
    return made


def test_hidden_arguments_of_v5():
    made = kernel(*((f"hidden_{name}", 8 + offset, size) for name, offset, size in V5_LAYOUT))
    data = pack_kernarg(made, 264, [], PACKET, HIDDEN)
    assert len(data) == 264
    for name, offset, size in V5_LAYOUT:
        value = int.from_bytes(data[8 + offset : 8 + offset + size], "little")
        assert value == V5_VALUES[name], name


def test_every_hidden_value_has_its_place():
    assert {name.removeprefix("hidden_") for name in hidden_values(PACKET, HIDDEN)} == set(V5_VALUES)


def test_hidden_arguments_of_v2():
    kinds = ("HiddenGlobalOffsetX", "HiddenGlobalOffsetY", "HiddenGlobalOffsetZ", "HiddenPrintfBuffer", "HiddenNone",
             "HiddenCompletionAction", "HiddenMultiGridSyncArg")  # fmt: skip
    listed = [{"Size": 4, "Align": 4, "ValueKind": "ByValue"}]
    listed += [{"Size": 8, "Align": 8, "ValueKind": kind} for kind in kinds]
    (made,), _ = from_yaml({"Kernels": [{"Name": "k", "Args": listed}]})
    data = pack_kernarg(made, 64, [np.uint32(3)], PACKET, HIDDEN)
    assert np.frombuffer(data, "<u8").tolist() == [3, 5, 6, 7, 11, 0, 14, 15]


def test_values_in_all_forms():
    made = kernel(
        ("by_value", 0, 4), ("global_buffer", 8, 8), ("by_value", 16, 4), ("by_value", 20, 2), ("by_value", 24, 8)
    )
    data = pack_kernarg(made, 32, [-2, 0x1_0000_0000, np.float32(1.5), 2.0, np.array([1, 2], np.int32)], PACKET)
    assert data[:4] == b"\xfe\xff\xff\xff"
    assert data[8:16] == (1 << 32).to_bytes(8, "little")
    assert data[16:20] == np.float32(1.5).tobytes()
    assert data[20:22] == np.float16(2).tobytes()
    assert data[24:] == b"\1\0\0\0\2\0\0\0"


def test_unknown_hidden_arguments_are_zero():
    assert pack_kernarg(kernel(("hidden_something_new", 0, 8)), 8, [], PACKET) == bytes(8)


@pytest.mark.parametrize(
    ("size", "value", "text"),
    [
        (4, 1 << 32, "int too big to convert, at argument 0 (a0)"),
        (8, b"abc", "the value has 3 bytes, expected 8, at argument 0 (a0)"),
        (1, 1.0, "a float cannot be passed for an argument of 1 bytes, expected bytes, at argument 0 (a0)"),
    ],
)
def test_values_that_do_not_fit(size, value, text):
    with pytest.raises(WireError) as caught:
        pack_kernarg(kernel(("by_value", 0, size)), 8, [value], PACKET)
    assert str(caught.value) == text


@pytest.mark.parametrize("size", [(1 << 20) + 1, 1 << 33, 1 << 62, (1 << 64) - 1])
def test_more_than_any_kernel_takes(size):
    """A damaged header: refused before anything is reserved."""
    text = f"the kernarg segment has {size} bytes, expected at most 1048576"
    with pytest.raises(WireError, match=text):
        pack_kernarg(kernel(("by_value", 0, 4)), size, [1], PACKET)
    if size < 1 << 32:
        with pytest.raises(WireError, match=text):
            pack_kernarg(kernel(("by_value", size - 4, 4)), 8, [1], PACKET)


def test_number_of_arguments():
    with pytest.raises(WireError, match="kernel k takes 1 argument, but 2 were given"):
        pack_kernarg(kernel(("by_value", 0, 4)), 8, [1, 2], PACKET)
