"""First machine states of HSA kernels, register by register, from packets and headers made for the purpose."""

from dataclasses import replace

import numpy as np
import pytest

from softcard.core.errors import BeyondModel, WireError
from softcard.core.space import Ram
from softcard.device.hsa.launch.first_state import (
    BAD_CODE,
    BAD_DIMENSION,
    BAD_GROUP_MEMORY,
    GROUP_TOO_LARGE,
    INSUFFICIENT_SCRATCH,
    DispatchRefused,
    Scratch,
    Surroundings,
    launch,
    work_groups,
)
from softcard.device.hsa.queues.packets import KernelDispatchPacket
from softcard.engine.gcn.api import NOWHERE
from softcard.engine.gcn.memory import GpuMemory
from softcard.engine.gcn.reference.engine import ReferenceEngine
from softcard.image.hsa.records import USER_SGPRS, CodeProperties, LaunchFacts, Rsrc1, Rsrc2
from softcard.isa.gcn.state import PTR32, Mode
from softcard.isa.gcn.target import target
from tests.image.hsa.elves import record

CODE = 0x20_0000_0000
SCRATCH = Scratch(0x31_2345_6000, 1 << 20, hidden_base=0x31_0000_0000)
QUEUE, PACKET, KERNARG = 0x41_0000_1040, 0x42_0000_2080, 0x43_0000_30C0
ENDPGM = (0xBF810000).to_bytes(4, "little")


def setting(gfx="gfx900", user=(), system=(), more_user=0, **fields):
    """Surroundings with a kernel at CODE that enables what is named, and the packet for it."""
    properties = record(CodeProperties, **{f"enable_sgpr_{name}": 1 for name in user})
    count = sum(size for name, size in USER_SGPRS if name.removeprefix("enable_sgpr_") in user)
    bits = {f"enable_{name}": value for name, value in dict(system).items()}
    facts = record(
        LaunchFacts,
        kernel_code_entry_byte_offset=256,
        compute_pgm_rsrc1=Rsrc1.parse((0x00AC0000 | 5).to_bytes(4, "little")),
        compute_pgm_rsrc2=record(Rsrc2, user_sgpr_count=count + more_user, **bits),
        properties=properties,
    )
    ram = Ram(4096)
    ram.view[:64] = facts.pack()
    ram.view[256:260] = ENDPGM
    memory = GpuMemory()
    memory.map(CODE, ram)
    around = Surroundings(target(gfx), memory, queue=QUEUE, scratch=SCRATCH)
    usual = {"kernel_object": CODE, "kernarg_address": KERNARG, "workgroup_size_x": 64, "grid_size_x": 64}
    return around, KernelDispatchPacket(**(usual | fields))


def started(around, packet, number=77):
    return launch(around, packet, PACKET, dispatch_id=number)


LOW = 0xFFFF_FFFF
EVERY = tuple(name.removeprefix("enable_sgpr_") for name, _ in USER_SGPRS)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("private_segment_buffer", [0x2345_6000, 0x8000_0031, 1 << 20, 0x00E2_4FAC]),
        ("dispatch_ptr", [PACKET & LOW, PACKET >> 32]),
        ("queue_ptr", [QUEUE & LOW, QUEUE >> 32]),
        ("kernarg_segment_ptr", [KERNARG & LOW, KERNARG >> 32]),
        ("dispatch_id", [77, 0]),
        ("flat_scratch_init", [SCRATCH.address & LOW, SCRATCH.address >> 32]),
        ("private_segment_size", [12]),
        ("grid_workgroup_count_x", [3]),
        ("grid_workgroup_count_y", [2]),
        ("grid_workgroup_count_z", [1]),
    ],
)
def test_each_user_register(name, words):
    around, packet = setting(
        user=(name,), private_segment_size=10, grid_size_x=130, grid_size_y=7, workgroup_size_y=4, grid_size_z=2,
        workgroup_size_z=2,
    )  # fmt: skip
    assert started(around, packet).sgprs.tolist() == words


@pytest.mark.parametrize("gfx", ["gfx700", "gfx803"])
def test_flat_scratch_before_gfx9_is_an_offset_and_a_size(gfx):
    around, packet = setting(gfx, user=("flat_scratch_init",), private_segment_size=10)
    assert started(around, packet).sgprs.tolist() == [0x2345_6000, 12]


@pytest.mark.parametrize(("gfx", "word3"), [("gfx700", 0x00EA_4FAC), ("gfx803", 0x00EA_4FAC), ("gfx900", 0x00E2_4FAC)])
def test_scratch_descriptor(gfx, word3):
    # Swizzled (bit 63), elements of 4 bytes where there is such a field, 64 lanes, lane added.
    assert SCRATCH.resource_descriptor(target(gfx).level)[3] == word3


def test_a_queue_may_have_a_descriptor_of_its_own():
    around, packet = setting(user=("private_segment_buffer",))
    around = Surroundings(around.target, around.memory, descriptor=(1, 2, 3, 4))
    assert started(around, packet).sgprs.tolist() == [1, 2, 3, 4]


def test_user_registers_stand_in_the_order_of_the_table_and_only_16_are_set():
    around, packet = setting(user=EVERY, private_segment_size=8, system={"sgpr_workgroup_id_x": 1})
    dispatch = started(around, packet)
    assert len(dispatch.sgprs) == 16
    assert dispatch.sgprs.tolist()[4:16] == [
        PACKET & LOW, PACKET >> 32, QUEUE & LOW, QUEUE >> 32, KERNARG & LOW, KERNARG >> 32, 77, 0,
        SCRATCH.address & LOW, SCRATCH.address >> 32, 8, 1,
    ]  # fmt: skip
    # The counts of groups in y and z have numbers, but no values; what the system sets begins behind them.
    assert dispatch.group_id_sgprs[0] == 18


SYSTEM = (
    "sgpr_workgroup_id_x", "sgpr_workgroup_id_y", "sgpr_workgroup_id_z", "sgpr_workgroup_info",
    "sgpr_private_segment_wave_byte_offset",
)  # fmt: skip


@pytest.mark.parametrize("mask", range(32))
def test_system_registers_are_dense_in_their_order(mask):
    enabled = {name: mask >> k & 1 for k, name in enumerate(SYSTEM)}
    around, packet = setting(user=("kernarg_segment_ptr",), system=enabled)
    dispatch = started(around, packet)
    got = (*dispatch.group_id_sgprs, dispatch.group_info_sgpr, dispatch.wave_offset_sgpr)
    expected, at = [], 2
    for name in SYSTEM:
        expected.append(at if enabled[name] else NOWHERE)
        at += enabled[name]
    assert list(got) == expected


def test_system_registers_begin_where_rsrc2_says():
    around, packet = setting(user=("kernarg_segment_ptr",), more_user=3, system={"sgpr_workgroup_id_x": 1})
    dispatch = started(around, packet)
    assert (len(dispatch.sgprs), dispatch.group_id_sgprs) == (2, (5, NOWHERE, NOWHERE))


def test_mode_registers_and_entry():
    around, packet = setting()
    dispatch = started(around, packet)
    assert dispatch.entry == CODE + 256
    assert Mode.decode(dispatch.mode) == Mode(denorm32=0, denorm64=3, dx10_clamp=True, ieee=True)
    assert dispatch.vgpr_count == 24


def test_pointers_of_32_bits():
    around, packet = setting()
    modes = [started(replace(around, ptr32=ptr32), packet).mode for ptr32 in (False, True)]
    assert modes == [0x3C0, 0x3C0 | PTR32]


@pytest.mark.parametrize(("code", "registers"), [(0, 1), (1, 2), (2, 3), (3, 3)])
def test_work_item_numbers(code, registers):
    around, packet = setting(
        system={"vgpr_workitem_id": code}, workgroup_size_x=4, workgroup_size_y=3, workgroup_size_z=2, grid_size_x=4,
        grid_size_y=3, grid_size_z=2,
    )  # fmt: skip
    vgprs = started(around, packet).shapes.vgprs
    lanes = np.arange(24)
    expected = (lanes % 4, lanes // 4 % 3, lanes // 12)
    assert vgprs.shape[:3] == (1, 1, registers)
    for n in range(registers):
        assert (vgprs[0, 0, n, :24] == expected[n]).all()


def test_groups_at_the_edges_are_smaller():
    packet = KernelDispatchPacket(
        workgroup_size_x=16, workgroup_size_y=8, workgroup_size_z=1, grid_size_x=20, grid_size_y=17, grid_size_z=2
    )
    shapes, groups = work_groups(packet.grid, packet.workgroup, 2)
    assert groups[:, :3].tolist() == [[x, y, z] for z in range(2) for y in range(3) for x in range(2)]
    items = [
        int(shapes.execs[shape].sum() and sum(int(m).bit_count() for m in shapes.execs[shape]))
        for shape in groups[:, 3]
    ]
    assert items == [128, 32, 128, 32, 16, 4] * 2
    assert shapes.waves[groups[:, 3]].tolist() == [2, 1, 2, 1, 1, 1] * 2
    # At the right edge: four work-items in x, so that the fifth lane is the first of the next row.
    assert shapes.vgprs[groups[1, 3], 0, :2, :6].tolist() == [[0, 1, 2, 3, 0, 1], [0, 0, 0, 0, 1, 1]]
    # In the corner: four work-items in x, one in y.
    assert shapes.vgprs[groups[5, 3], 0, 0, :4].tolist() == [0, 1, 2, 3]


def test_a_grid_smaller_than_a_group():
    _, groups = work_groups((3, 1, 1), (256, 1, 1), 0)
    assert groups.tolist() == [[0, 0, 0, groups[0, 3]]]


def test_memory_is_rounded_up():
    around, packet = setting(group_segment_size=513, private_segment_size=9)
    dispatch = started(around, packet)
    assert (dispatch.lds_bytes, dispatch.scratch_lane_bytes) == (1024, 12)
    assert (dispatch.scratch_base, dispatch.scratch_slots) == (SCRATCH.address, (1 << 20) // 1024)
    assert started(*setting()).scratch_slots == 0


def test_options_reach_the_engine():
    around, packet = setting()
    dispatch = launch(around, packet, PACKET, step_limit=5, poison=7, seed=3)
    assert (dispatch.step_limit, dispatch.poison, dispatch.seed) == (5, 7, 3)
    assert ReferenceEngine().run(dispatch).instructions == 1


@pytest.mark.parametrize(
    ("fields", "code", "text"),
    [
        ({"dimensions": 0}, BAD_DIMENSION, "setup says 0 dimensions, expected 1, 2 or 3"),
        (
            {"grid_size_x": 0},
            BAD_DIMENSION,
            r"grid size \(0, 1, 1\) or work-group size \(64, 1, 1\) has a 0, expected 1 or more in each dimension",
        ),
        (
            {"workgroup_size_z": 0},
            BAD_DIMENSION,
            r"grid size \(64, 1, 1\) or work-group size \(64, 1, 0\) has a 0, expected 1 or more in each dimension",
        ),
        ({"dimensions": 1, "grid_size_y": 2}, BAD_DIMENSION, r"1 dimensions, but grid size \(64, 2, 1\)"),
        ({"workgroup_size_x": 1025}, GROUP_TOO_LARGE, "the work-group has 1025 work-items, expected at most 1024"),
        ({"group_segment_size": 65537}, BAD_GROUP_MEMORY, "65537 bytes of LDS, expected at most 65536"),
        ({"kernel_object": 0}, BAD_CODE, "kernel_object is 0, expected the address of a kernel header"),
        ({"kernel_object": CODE + 4}, BAD_CODE, "kernel_object is 0x2000000004, expected a multiple of 64"),
        (
            {"kernel_object": CODE + 4096},
            BAD_CODE,
            "kernel_object 0x2000001000 cannot be read: read of 64 bytes at 0x2000001000",
        ),
        (
            {"private_segment_size": 1 << 20},
            INSUFFICIENT_SCRATCH,
            "1 waves need 67108864 bytes of private memory each, but the queue has room",
        ),
    ],
)
def test_packets_that_are_refused(fields, code, text):
    around, packet = setting(**fields)
    with pytest.raises(DispatchRefused, match=text) as caught:
        started(around, packet)
    assert caught.value.code == code


def test_private_memory_needs_scratch():
    around, packet = setting(private_segment_size=4)
    with pytest.raises(DispatchRefused, match="the queue has room for 0"):
        started(Surroundings(around.target, around.memory), packet)


def test_grids_beyond_all_measure():
    around, packet = setting(grid_size_x=LOW, grid_size_y=LOW)
    with pytest.raises(BeyondModel, match="at most 16777216 in one dispatch"):
        started(around, packet)


def test_packets_are_64_bytes_with_the_fields_of_the_standard():
    packet = KernelDispatchPacket(
        barrier=1, acquire_scope=2, release_scope=1, dimensions=2, workgroup_size_x=0x102, grid_size_z=9,
        private_segment_size=0x11, group_segment_size=0x22, kernel_object=0x33, kernarg_address=0x44,
        completion_signal=0x55,
    )  # fmt: skip
    data = packet.pack()
    assert data[:4] == (2 | 1 << 8 | 2 << 9 | 1 << 11).to_bytes(2, "little") + b"\2\0"
    offsets = {4: 2, 5: 1, 20: 9, 24: 0x11, 28: 0x22, 32: 0x33, 40: 0x44, 56: 0x55}
    assert all(data[offset] == value for offset, value in offsets.items())
    assert KernelDispatchPacket.parse(data) == packet


@pytest.mark.parametrize(("header", "setup"), [(0x1502, 1), (0xFFFF, 0xFFFF), (0, 0), (0x0302, 3)])
def test_packets_from_the_words_of_c_programs(header, setup):
    packet = KernelDispatchPacket.of_words(header=header, setup=setup, grid_size_x=7, kernel_object=CODE)
    assert packet.pack()[:4] == (header | setup << 16).to_bytes(4, "little")
    assert (packet.header, packet.setup, packet.grid, packet.workgroup) == (header, setup, (7, 1, 1), (1, 1, 1))
    assert KernelDispatchPacket.parse(packet.pack()) == packet


@pytest.mark.parametrize(("header", "setup"), [(1 << 16, 1), (2, 1 << 16), (-1, 1)])
def test_words_that_are_none(header, setup):
    with pytest.raises(WireError, match="must fit 16 bits each"):
        KernelDispatchPacket.of_words(header, setup)
