"""Hidden arguments: the printf buffer of a launch, and what a caller gives by name."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pytest

from softcard.core.errors import AccessFault, RuleError, WireError
from softcard.host.hsa.gpu import Gpu
from softcard.image.hsa.metadata import Argument, KernelMetadata
from softcard.image.hsa.records import CodeProperties, KernelCode, Rsrc1, Rsrc2
from softcard.image.hsa.writer import KernelSource, write_code_object
from softcard.isa.gcn.asm.assembler import assemble
from softcard.isa.gcn.target import target
from tests.image.hsa.elves import record

ARGUMENTS = (
    Argument("in", 0, 8, "global_buffer", "int*", "global"),
    Argument("", 8, 8, "hidden_printf_buffer"),
    Argument("", 16, 8, "hidden_hostcall_buffer"),
    Argument("", 24, 8, "hidden_heap_v1"),
    Argument("", 32, 8, "hidden_multigrid_sync_arg"),
)
PRINT = """
    ; what __printf_alloc does: 8 bytes behind what is used, for two dwords of in
    s_load_dwordx2 s[4:5], s[0:1], 0x0
    s_load_dwordx2 s[6:7], s[0:1], 0x8
    s_waitcnt lgkmcnt(0)
    s_load_dwordx2 s[8:9], s[4:5], 0x0
    v_mov_b32 v0, s6
    v_mov_b32 v1, s7
    v_mov_b32 v2, 8
    flat_atomic_add v3, v[0:1], v2 glc
    s_waitcnt vmcnt(0) lgkmcnt(0)
    v_add_u32 v0, v0, v3
    v_mov_b32 v4, s8
    v_mov_b32 v5, s9
    flat_store_dwordx2 v[0:1], v[4:5] offset:8
    s_endpgm
"""


def code(*arguments: Argument, text: str = PRINT) -> bytes:
    """A kernel that by default prints two dwords of its argument, in the layout of a printf buffer."""
    size = max(each.offset + each.size for each in arguments)
    header = record(
        KernelCode,
        amd_kernel_code_version_major=1,
        amd_kernel_code_version_minor=1,
        amd_machine_kind=1,
        amd_machine_version_major=9,
        wavefront_size=6,
        kernarg_segment_alignment=4,
        compute_pgm_rsrc1=Rsrc1.parse((0x00AC0001).to_bytes(4, "little")),
        compute_pgm_rsrc2=record(Rsrc2, user_sgpr_count=2),
        kernarg_segment_byte_size=size,
        kernel_code_properties=record(CodeProperties, enable_sgpr_kernarg_segment_ptr=1, is_ptr64=1),
    )
    metadata = KernelMetadata("k", "", arguments, kernarg_size=size, kernarg_align=8)
    return write_code_object("V2", "gfx900", [KernelSource("k", assemble(target("gfx900"), text), header, metadata)])


PRINTS = code(*ARGUMENTS)
FITTING = 131_071
"""The number of work-items whose output fits the printf buffer."""
SILENT = code(ARGUMENTS[0], Argument("", 8, 8, "hidden_none"))


@pytest.fixture
def gpu() -> Any:
    with Gpu.open("gfx900", threads=1) as gpu:
        yield gpu


@pytest.mark.parametrize("options", [{}, {"engine": "reference"}, {"coherence": "strict"}, {"execution": "threaded"}])
def test_printf(options: dict[str, Any]) -> None:
    """Each launch has its own buffer, whose contents are in the order in which work-items took their places."""
    with Gpu.open("gfx900", threads=1, **options) as gpu:
        words = gpu.array([7, 8], np.int32)
        kernel = gpu.load(PRINTS).kernel("k")
        launches = [gpu.dispatch(kernel, grid, args=[words]) for grid in (3, 1)]
        one = struct.pack("<2i", 7, 8)
        assert [launch.wait().printf for launch in launches] == [3 * one, one]
        assert gpu.run(PRINTS, "k", 2, args=[words]).printf == 2 * one


def test_more_than_the_printf_buffer_holds(gpu: Gpu) -> None:
    """The free space of the buffer counts: work-items that find none must not write to it."""
    kernel, words = gpu.load(PRINTS).kernel("k"), gpu.array([1, 2], np.int32)
    assert len(gpu.dispatch(kernel, FITTING, args=[words]).wait().printf) == 8 * FITTING == (1 << 20) - 8
    with pytest.raises(AccessFault) as caught:  # this kernel does not look
        gpu.run(PRINTS, "k", FITTING + 1, args=[words])
    assert caught.value.text == "<printf: no format 1>\n"  # what it had printed is not lost


def test_printf_buffers_are_given_back(gpu: Gpu) -> None:
    words = gpu.array([1, 2], np.int32)
    gpu.run(PRINTS, "k", 1, args=[words])
    before = [each.base for each in gpu.device.memory]
    for _ in range(3):
        gpu.run(PRINTS, "k", 1, args=[words])
        with pytest.raises(WireError, match="takes 1 argument"):
            gpu.run(PRINTS, "k", 1, args=[])
    assert [each.base for each in gpu.device.memory] == before


def test_kernels_that_do_not_print(gpu: Gpu) -> None:
    kernel = gpu.load(SILENT).kernel("k")
    made = gpu.pack(kernel, 1, args=[None])
    assert made.kernarg == bytes(16)
    with pytest.raises(WireError, match="kernel k has no hidden argument 'printf_buffer', it has none"):
        gpu.dispatch(gpu.load(code(ARGUMENTS[0])).kernel("k"), 1, args=[None], hidden={"printf_buffer": None})


def test_hidden_arguments(gpu: Gpu) -> None:
    """Other services of a runtime are null unless they are given: an array, an address, what has one."""
    kernel, array, signal = gpu.load(PRINTS).kernel("k"), gpu.zeros(4), gpu.signal()
    words = struct.unpack("<5Q", gpu.pack(kernel, 1, args=[None]).kernarg)
    assert words[2] != 0, "kernels with a hostcall buffer get the service"
    assert (*words[:2], *words[3:]) == (0, 0, 0, 0)
    given = {"printf_buffer": array, "hidden_hostcall_buffer": signal, "heap_v1": 0x1234}
    made = gpu.pack(kernel, 1, args=[None], hidden=given).kernarg
    assert struct.unpack("<5Q", made) == (0, gpu.address(array), signal.address, 0x1234, 0)


def test_a_printf_buffer_of_ones_own(gpu: Gpu) -> None:
    """It is not the result's; an array that is not device memory yet is mapped for the time of the launch."""
    buffer, words = np.zeros(8, np.uint32), gpu.array([5, 6], np.int32)
    result = gpu.run(PRINTS, "k", 2, args=[words], hidden={"printf_buffer": buffer})
    assert (result.printf, buffer.tolist()) == (b"", [16, 0, 5, 6, 5, 6, 0, 0])
    with pytest.raises(RuleError, match="the array is not in device memory"):
        gpu.address(buffer)


@pytest.mark.parametrize(
    ("hidden", "message"),
    [
        (
            {"hostcal": None},
            "no hidden argument 'hostcal', it has printf_buffer, hostcall_buffer, heap_v1, multigrid",
        ),
        ({"heap_v1": 1.5}, "float 1.5, expected an array or an address, at hidden argument heap_v1"),
        ({"heap_v1": 1 << 64}, "address 0x10000000000000000 does not fit 64 bits, at hidden argument heap_v1"),
    ],
)
def test_hidden_arguments_that_cannot_be(gpu: Gpu, hidden: dict[str, Any], message: str) -> None:
    with pytest.raises(WireError, match=message):
        gpu.run(PRINTS, "k", 1, args=[None], hidden=hidden)


def test_what_a_failed_launch_leaves(gpu: Gpu) -> None:
    """Printf buffer, packet, kernarg segment and signal stay, the array that was mapped for it does not."""
    words, buffers = np.array([1, 2], np.int32), gpu.load(PRINTS)
    launch = gpu.dispatch(buffers.kernel("k"), FITTING + 1, args=[words], queue=gpu.queue(4))
    with pytest.raises(AccessFault):
        launch.wait()
    place = int.from_bytes(gpu.device.memory.read(launch.packet.kernarg_address + 8, 8), "little")
    assert struct.unpack("<2I", gpu.device.memory.read(place, 8)) == (8 * (FITTING + 1), 8 * FITTING)
    assert launch.signal.load() == 1
    with pytest.raises(RuleError, match="the array is not in device memory"):
        gpu.address(words)
