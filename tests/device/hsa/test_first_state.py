"""The first machine state of waves, and what headers say, by the rules of the document's kernel sections."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from typing import Any

import pytest

from softcard.core.errors import WireError
from softcard.core.lint import Lint
from softcard.device.hsa.launch.first_state import Scratch, Surroundings, launch
from softcard.device.hsa.memory.memory_model import (
    FENCES,
    GLOBAL,
    GROUP,
    Operation,
    Order,
    Scope,
    Segment,
    lower,
    sequence,
)
from softcard.device.hsa.queues.packets import KernelDispatchPacket
from softcard.engine.gcn.group import start_wave
from softcard.image.hsa.code_object import read_code_object
from softcard.image.hsa.records import (
    USER_SGPRS,
    CodeProperties,
    KernelCode,
    KernelDescriptor,
    LaunchFacts,
    Rsrc1,
    Rsrc2,
    complaints,
)
from softcard.isa.gcn.state import EXEC, MODE, Mode, Wave, aligned
from softcard.isa.gcn.target import target
from tests.device.hsa.rig import COUNT, KERNARG, Bench, dispatch

Make = Callable[..., Bench]
POISON = 0xBAD0_0BAD
QUEUE = 0x1_2345_6700
KERNARG_ADDRESS = 0x2_3456_7800
PACKET = 0x3_4567_8900
ID = 0x4_0000_0007
ALL = [name for name, _ in USER_SGPRS]
X, Y, Z, INFO, OFFSET = 1 << 7, 1 << 8, 1 << 9, 1 << 10, 1


def first(rig: Bench, kernel: int, group: int = 0, number: int = 0, slot: int = 0, **fields: Any) -> Wave:
    """Wave `number` of a group, as it begins."""
    packet = KernelDispatchPacket(kernel_object=kernel, kernarg_address=KERNARG_ADDRESS, **fields)
    around = Surroundings(
        rig.device.agent.target, rig.device.memory, QUEUE, Scratch(rig.device.allocate(1 << 20), 1 << 20),
        descriptor=(11, 12, 13, 14),
    )  # fmt: skip
    found = launch(around, packet, PACKET, ID, poison=POISON)
    wave = Wave()
    start_wave(found, wave, group, number, slot, int(aligned(max(found.lds_bytes, 1)).ctypes.data))
    return wave


VALUES = {
    "enable_sgpr_private_segment_buffer": [11, 12, 13, 14],
    "enable_sgpr_dispatch_ptr": [PACKET & 0xFFFF_FFFF, PACKET >> 32],
    "enable_sgpr_queue_ptr": [QUEUE & 0xFFFF_FFFF, QUEUE >> 32],
    "enable_sgpr_kernarg_segment_ptr": [KERNARG_ADDRESS & 0xFFFF_FFFF, KERNARG_ADDRESS >> 32],
    "enable_sgpr_dispatch_id": [ID & 0xFFFF_FFFF, ID >> 32],
    "enable_sgpr_private_segment_size": [20],
    "enable_sgpr_grid_workgroup_count_x": [3],
    "enable_sgpr_grid_workgroup_count_y": [2],
    "enable_sgpr_grid_workgroup_count_z": [1],
}
GRID = {"grid_size_x": 130, "workgroup_size_x": 64, "grid_size_y": 3, "workgroup_size_y": 2, "private_segment_size": 18}


def sgprs(wave: Wave, count: int) -> list[int]:
    return [int(word) for word in wave.sgpr[:count]]


def test_elf_format() -> None:
    with pytest.raises(WireError, match="ELF"):
        read_code_object(b"\x7fELG" + bytes(60))


@pytest.mark.parametrize("name", [name for name in VALUES if "count" not in name])
def test_dense_sgprs(bench: Make, name: str) -> None:
    """Whichever is enabled alone begins at s0; what is behind it is undefined."""
    rig = bench()
    wave = first(rig, rig.kernel(enable=[name]), **GRID)
    assert sgprs(wave, len(VALUES[name]) + 1) == [*VALUES[name], POISON]


@pytest.mark.parametrize("names", [ALL[:4], ALL[1:5], [ALL[0], ALL[3]], [ALL[2], ALL[6]], [ALL[3], *ALL[7:]]])
def test_sgpr_order(bench: Make, names: list[str]) -> None:
    rig = bench()
    expected = [word for name in names for word in VALUES[name]]
    assert sgprs(first(rig, rig.kernel(enable=names), **GRID), len(expected)) == expected


def test_sixteen_user_sgprs(bench: Make) -> None:
    rig = bench()
    wave = first(rig, rig.kernel(enable=ALL, rsrc2=X), group=2, **GRID)
    assert sgprs(wave, 12)[:4] == [11, 12, 13, 14]
    assert [int(wave.sgpr[n]) for n in (16, 17)] == [POISON, POISON]
    assert wave.sgpr[18] == 2  # behind the eighteen that user_sgpr_count asks for


@pytest.mark.parametrize(
    ("bits", "expected"),
    [(X, [1]), (X | Y, [1, 1]), (Y | Z, [1, 0]), (X | Z | INFO, [1, 0, 1 << 31 | 1]), (Z | OFFSET, [0, 2048])],
)
def test_system_sgprs(bench: Make, bits: int, expected: list[int]) -> None:
    rig = bench()
    wave = first(rig, rig.kernel(rsrc2=bits), group=4, slot=1, **{**GRID, "private_segment_size": 20})
    assert sgprs(wave, 3 + len(expected)) == [*VALUES[KERNARG], *expected, POISON]


def test_user_sgpr_count(bench: Make) -> None:
    """The count is what hardware looks at; a difference is a complaint."""
    rig = bench()
    wave = first(rig, rig.kernel(rsrc2=X, count=5), group=2, **GRID)
    assert sgprs(wave, 6) == [*VALUES[KERNARG], POISON, POISON, POISON, 2]
    text = "user_sgpr_count is 0, but the enabled registers are 2"
    assert text in complaints(KernelDescriptor.parse(bytes(56) + b"\x08" + bytes(7)))


@pytest.mark.parametrize(("given", "seen"), [(0, 0), (1, 4), (4, 4), (18, 20)])
def test_private_size(bench: Make, given: int, seen: int) -> None:
    rig = bench()
    wave = first(rig, rig.kernel(enable=[ALL[6]]), private_segment_size=given)
    assert wave.sgpr[0] == seen


def test_grid_counts(bench: Make) -> None:
    """(grid + group - 1) / group, also for y and z (erratum 11)."""
    rig = bench()
    fields = {"grid_size_x": 65, "workgroup_size_x": 64, "grid_size_y": 7, "workgroup_size_y": 2, "grid_size_z": 3}
    assert sgprs(first(rig, rig.kernel(enable=ALL[7:]), **fields), 3) == [2, 4, 3]


@pytest.mark.parametrize("bits", range(8))
def test_work_group_ids(bench: Make, bits: int) -> None:
    """Any combination (erratum 12)."""
    rig = bench()
    wave = first(rig, rig.kernel(rsrc2=bits << 7), group=23, grid_size_x=2, grid_size_y=3, grid_size_z=4)
    ids = [value for number, value in enumerate((1, 2, 3)) if bits >> number & 1]
    assert sgprs(wave, 3 + len(ids))[2:] == [*ids, POISON]


def test_work_group_info(bench: Make) -> None:
    rig = bench()
    kernel = rig.kernel(rsrc2=INFO)
    fields = {"workgroup_size_x": 256, "grid_size_x": 300, "dimensions": 1}
    assert [int(first(rig, kernel, 0, number, **fields).sgpr[2]) for number in range(2)] == [1 << 31 | 4, 4]
    assert int(first(rig, kernel, 1, 0, **fields).sgpr[2]) == 1 << 31 | 1


def test_wave_offset(bench: Make) -> None:
    rig = bench()
    kernel = rig.kernel(rsrc2=OFFSET)
    found = [int(first(rig, kernel, slot=slot, private_segment_size=20).sgpr[2]) for slot in range(3)]
    assert found == [0, 2048, 4096]


@pytest.mark.parametrize("enable", [0, 1, 2])
def test_vgpr_ids_enabled(bench: Make, enable: int) -> None:
    rig = bench()
    fields = {"workgroup_size_x": 8, "workgroup_size_y": 4, "workgroup_size_z": 4}
    fields |= {"grid_size_x": 8, "grid_size_y": 4, "grid_size_z": 4}
    wave = first(rig, rig.kernel(rsrc2=enable << 11), number=1, **fields)
    for lane in (0, 9, 63):
        flat = 64 + lane
        ids = [flat % 8, flat // 8 % 4, flat // 32]
        assert [int(wave.vgpr[n, lane]) for n in range(3)] == [*ids[: enable + 1], *[POISON] * (2 - enable)]


def test_work_item_ids(bench: Make) -> None:
    """x runs fastest over the lanes, then y, then z."""
    rig = bench()
    fields = {"workgroup_size_x": 5, "workgroup_size_y": 3, "grid_size_x": 5, "grid_size_y": 3}
    wave = first(rig, rig.kernel(rsrc2=1 << 11), **fields)
    assert [int(x) for x in wave.vgpr[0, :15]] == [0, 1, 2, 3, 4] * 3
    assert [int(y) for y in wave.vgpr[1, :15]] == [0] * 5 + [1] * 5 + [2] * 5


def test_partial_groups(bench: Make) -> None:
    rig = bench()
    fields = {"workgroup_size_x": 64, "grid_size_x": 100, "dimensions": 1}
    assert [first(rig, rig.kernel(), group, **fields).s64(EXEC) for group in (0, 1)] == [(1 << 64) - 1, (1 << 36) - 1]


def test_kernarg_scalar(bench: Make) -> None:
    rig = bench("gfx803")
    text = """
        s_load_dwordx4 s[4:7], s[0:1], 0x10
        s_waitcnt lgkmcnt(0)
        v_mov_b32 v0, s0
        v_mov_b32 v1, s1
        v_mov_b32 v2, s7
        flat_store_dword v[0:1], v2
        s_endpgm
    """
    address, words = rig.words()
    words[7] = 99
    rig.queue.submit(dispatch(rig.kernel(text), address))
    assert words[0] == 99


def test_global_instructions(bench: Make) -> None:
    rig = bench("gfx900")
    address, words = rig.words()
    text = "v_mov_b32 v0, s0\nv_mov_b32 v1, s1\nv_mov_b32 v2, 5\nglobal_store_dword v[0:1], v2, off\ns_endpgm"
    rig.queue.submit(dispatch(rig.kernel(text), address))
    assert words[0] == 5
    with pytest.raises(WireError):
        bench("gfx803").kernel(text)


@pytest.mark.parametrize(("agent", "m0", "seen"), [("gfx803", -1, 7), ("gfx803", 4, 7), ("gfx900", 0, 7)])
def test_m0_limit(bench: Make, agent: str, m0: int, seen: int) -> None:
    rig = bench(agent)
    text = f"""
        s_mov_b32 m0, {m0}
        v_mov_b32 v0, 0
        v_mov_b32 v2, 7
        ds_write_b32 v0, v2
        s_waitcnt lgkmcnt(0)
        ds_read_b32 v3, v0
        s_waitcnt lgkmcnt(0)
        v_mov_b32 v0, s0
        v_mov_b32 v1, s1
        flat_store_dword v[0:1], v3
        s_endpgm
    """
    address, words = rig.words()
    rig.queue.submit(dispatch(rig.kernel(text), address, group_segment_size=64))
    assert words[0] == seen


# ---- memory model ------------------------------------------------------------------------------------------------


def test_scopes() -> None:
    assert len(Scope) == 5
    assert [scope.is_wide for scope in Scope] == [False, False, False, True, True]


def test_orders() -> None:
    assert {order.value for order in Order} >= {"scacq", "screl", "scar", "rlx"}


def test_flat_both() -> None:
    """A flat acquire of a work-group waits as the group segment asks, and invalidates."""
    found = sequence(Operation.ATOMIC_LOAD, Order.ACQUIRE, Scope.WORK_GROUP, Segment.FLAT)
    assert found == sequence(Operation.ATOMIC_LOAD, Order.ACQUIRE, Scope.WORK_GROUP, Segment.GROUP)


def test_global_table() -> None:
    gfx900 = target("gfx900")
    assert lower("atomic load", "scacq", "agent", "global", gfx900) == (
        "global_load_dword glc", "s_waitcnt vmcnt(0)", "buffer_wbinvl1_vol",
    )  # fmt: skip
    assert lower("atomic store", "screl", "system", "global", target("gfx803")) == (
        "s_waitcnt vmcnt(0)", "flat_store_dword", "s_waitcnt vmcnt(0)",
    )  # fmt: skip
    assert len(GLOBAL) == 13


def test_group_table() -> None:
    found = lower("atomic rmw", "scar", "wg", "group", target("gfx803"))
    assert found == ("s_waitcnt vmcnt(0)", "ds_add_u32", "buffer_wbinvl1_vol")
    assert len(GROUP) == 10


def test_fence_table() -> None:
    found = lower("fence", "scacq", "agent", "global", target("gfx900"))
    assert found == ("s_waitcnt vmcnt(0) expcnt(0) lgkmcnt(0)", "buffer_wbinvl1_vol")
    assert len(FENCES) == 4


# ---- headers -----------------------------------------------------------------------------------------------------


def code(**fields: Any) -> KernelCode:
    """A header with nothing to complain about."""
    good = bytearray(256)
    struct.pack_into("<IIHHHH", good, 0, 1, 1, 1, 8, 0, 3)
    good[0x64:0x68] = bytes([4, 4, 4, 6])
    parsed = KernelCode.parse(bytes(good))
    return KernelCode(**{slot.name: fields.get(slot.name, getattr(parsed, slot.name)) for slot in KernelCode.slots})


def test_kernel_code_layout() -> None:
    assert KernelCode.size_bytes * 8 == 2048
    bits = {
        "kernel_code_entry_byte_offset": 128, "max_scratch_backing_memory_byte_size": 320, "compute_pgm_rsrc1": 384,
        "compute_pgm_rsrc2": 416, "kernel_code_properties": 448, "workitem_private_segment_byte_size": 480,
        "workgroup_group_segment_byte_size": 512, "gds_segment_byte_size": 544, "kernarg_segment_byte_size": 576,
        "workgroup_fbarrier_count": 640, "wavefront_sgpr_count": 672, "workitem_vgpr_count": 688,
        "kernarg_segment_alignment": 800, "wavefront_size": 824, "call_convention": 832,
        "runtime_loader_kernel_symbol": 960, "control_directives": 1024,
    }  # fmt: skip
    assert {name: 8 * KernelCode.offset_of(name) for name in bits} == bits


def test_kernel_code_version() -> None:
    assert complaints(code(amd_kernel_code_version_minor=2)) == []
    assert "amd_kernel_code_version_major must be 1" in complaints(code(amd_kernel_code_version_major=2))


def test_entry_offset(bench: Make) -> None:
    """Also backwards."""
    rig = bench()
    text = rig.code(COUNT)
    start = rig.device.allocate(512)
    header = bytearray(64)
    struct.pack_into("<q", header, 16, -256)
    struct.pack_into("<III", header, 48, 0x00AC0001, 2 << 1, 1 << 3)
    rig.device.memory.write(start, text)
    rig.device.memory.write(start + 256, bytes(header))
    address, words = rig.words()
    rig.queue.submit(dispatch(start + 256, address))
    assert words[0] == 1


def test_code_properties() -> None:
    places = {slot.name: 448 + slot.spec.low for slot in CodeProperties.slots}
    assert places["enable_sgpr_private_segment_buffer"] == 448
    assert places["enable_sgpr_grid_workgroup_count_z"] == 457
    assert places["enable_ordered_append_gds"] == 464
    assert places["private_element_size"] == 465
    assert [places[name] for name in ("is_ptr64", "is_dynamic_callstack", "is_debug_enabled", "is_xnack_enabled")] == [
        467, 468, 469, 470,
    ]  # fmt: skip
    assert LaunchFacts.offset_of("properties") == 448 // 8


def test_private_element_size() -> None:
    """Encoded (erratum 21)."""
    sizes = [CodeProperties.parse((n << 17).to_bytes(4, "little")).private_element_bytes for n in range(4)]
    assert sizes == [2, 4, 8, 16]


def test_reserved_zero() -> None:
    """Warned about, never refused (errata 19, 20)."""
    assert complaints(code(reserved_6c=b"\1" + bytes(11))) == ["reserved_6c at byte 0x6c must be 0"]
    assert complaints(code(reserved_vgpr_first=3)) == ["reserved_vgpr_first must be 0"]


def test_alignments() -> None:
    """As powers of two (erratum 22)."""
    assert complaints(code(wavefront_size=64)) == ["wavefront_size must be 6 (64 work-items)"]
    assert complaints(code(kernarg_segment_alignment=3)) == ["kernarg_segment_alignment must be 4 (16 bytes) or more"]


def test_machine_kind() -> None:
    assert complaints(code(amd_machine_kind=0)) == ["amd_machine_kind must be 1 (AMDGPU)"]


def test_dynamic_lds(bench: Make) -> None:
    rig = bench()
    packet = KernelDispatchPacket(kernel_object=rig.kernel(), group_segment_size=513)
    assert launch(Surroundings(rig.device.agent.target, rig.device.memory), packet, PACKET).lds_bytes == 1024


def test_lds_from_packet(bench: Make) -> None:
    rig = bench()
    packet = KernelDispatchPacket(kernel_object=rig.kernel(rsrc2=0x1FF << 15), group_segment_size=0)
    assert launch(Surroundings(rig.device.agent.target, rig.device.memory), packet, PACKET).lds_bytes == 0
    assert Rsrc2.slot("granulated_lds_size").spec.low == 15


def test_granulated_counts() -> None:
    rsrc1 = Rsrc1.parse((2 << 6 | 5).to_bytes(4, "little"))
    assert (rsrc1.vgprs(), rsrc1.sgprs) == (24, 24)


def mode(rig: Bench, rsrc1: int) -> Mode:
    kernel = rig.kernel()
    rig.device.memory.write(kernel + 48, rsrc1.to_bytes(4, "little"))
    return Mode.decode(int(first(rig, kernel).words[MODE]))


@pytest.mark.parametrize("value", range(4))
def test_round_modes(bench: Make, value: int) -> None:
    rig = bench()
    assert (mode(rig, value << 12).round32, mode(rig, value << 14).round64) == (value, value)


@pytest.mark.parametrize(
    ("value", "keeps"), [(0, (False, False)), (1, (True, False)), (2, (False, True)), (3, (True, True))]
)
def test_denorm_modes(bench: Make, value: int, keeps: tuple[bool, bool]) -> None:
    rig = bench()
    assert mode(rig, value << 16).keeps_denormals("s") == mode(rig, value << 18).keeps_denormals("d") == keeps


def test_dx10_clamp(bench: Make) -> None:
    rig = bench()
    assert (mode(rig, 1 << 21).dx10_clamp, mode(rig, 0).dx10_clamp) == (True, False)


def test_ieee_mode(bench: Make) -> None:
    rig = bench()
    assert (mode(rig, 1 << 23).ieee, mode(rig, 0).ieee) == (True, False)


# ---- headers that are not as the document says -----------------------------------------------------------------------


def header_lints(bench: Make, agent: str = "gfx900", **changes: int) -> dict[str, str]:
    """The lints of a packet whose kernel's words are changed, by name; the kernel runs all the same."""
    rig = bench(agent, listen=True)
    base = rig.device.allocate(1024, 256)
    at = {"entry": 16, "rsrc1": 48, "rsrc2": 52, "properties": 56}
    header = bytearray(512)
    struct.pack_into("<IIHHIq", header, 0, 1, 1, 1, rig.device.agent.target.level, 0, 256)
    struct.pack_into("<III", header, 48, 0x00AC_0001, 2 << 1, 1 << 3 | 1 << 19)
    for name, change in changes.items():
        struct.pack_into("<I", header, at[name], int.from_bytes(header[at[name] : at[name] + 4], "little") ^ change)
    header += rig.code("s_nop 0\n" * 64 + COUNT)
    counts, words = rig.words()
    rig.device.memory.write(base, bytes(header[:1024]))
    for _ in range(3):
        rig.queue.submit(dispatch(base, counts))
    assert rig.errors == []
    assert words[0] == 3 or "rsrc2" in changes
    found = {lint.check: f"{lint} {lint.rule.id}" for lint in rig.reported(Lint)}
    assert len(found) == len(rig.reported(Lint))  # each once
    return found


def test_entry_alignment(bench: Make) -> None:
    """Hardware has the bits 47:8 of the address; a lint reports another entry."""
    assert header_lints(bench) == {}
    found = header_lints(bench, entry=256 ^ 516)
    assert list(found) == ["entry-alignment"]
    text = r"packet 0: kernel_object (0x\w+): the entry 0x\w+04 must be a multiple of 256: hardware starts at 0x\w+00"
    assert re.search(text, found["entry-alignment"])
    assert "hsa/entry-alignment" in found["entry-alignment"]


@pytest.mark.parametrize(("bit", "name"), [(20, "priv"), (22, "debug_mode"), (24, "bulky"), (25, "cdbg_user")])
def test_reserved_for_cp(bench: Make, bit: int, name: str) -> None:
    """By the packet processor: code that sets one gets a lint, and has no such mode."""
    found = header_lints(bench, rsrc1=1 << bit)
    assert list(found) == ["reserved-for-cp"]
    text = f"compute_pgm_rsrc1 sets {name}, expected 0: the packet processor fills them in"
    assert text in found["reserved-for-cp"]
    assert "hsa/reserved-for-cp" in found["reserved-for-cp"]
    assert f"Rsrc1 {name} must be 0" in complaints(
        code(compute_pgm_rsrc1=Rsrc1.parse((1 << bit).to_bytes(4, "little")))
    )


def test_headers_of_packets_are_checked(bench: Make) -> None:
    """The number of user SGPRs and reserved bits; bits that processors from GFX9 on have are not reserved."""
    found = header_lints(bench, rsrc2=(2 ^ 9) << 1)
    assert list(found) == ["user-sgpr-count"]
    assert "user_sgpr_count is 9, expected 2, which the enable bits add up to" in found["user-sgpr-count"]
    assert "hsa/user-sgpr-count" in found["user-sgpr-count"]
    for changes, text in (
        ({"rsrc1": 1 << 27}, "compute_pgm_rsrc1 "),
        ({"rsrc2": 1 << 31}, "compute_pgm_rsrc2 "),
        ({"properties": 1 << 11}, "properties "),
        ({"properties": 1 << 30}, "properties "),
    ):
        found = header_lints(bench, **changes)
        assert list(found) == ["reserved"]
        assert text in found["reserved"]
        assert "must be 0" in found["reserved"]
    assert header_lints(bench, rsrc1=1 << 26) == {}
    assert "compute_pgm_rsrc1 bit 26 must be 0 before GFX9" in header_lints(bench, "gfx803", rsrc1=1 << 26)["reserved"]
