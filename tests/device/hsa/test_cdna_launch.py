"""The first state of waves from gfx90a on: packed work-item ids, preloaded arguments, private memory, registers."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from softcard.core.errors import SoftcardError
from softcard.device.hsa.launch import first_state
from softcard.device.hsa.launch.first_state import Scratch, Surroundings, launch
from softcard.device.hsa.launch.plan import DispatchRefused
from softcard.device.hsa.queues.packets import KernelDispatchPacket
from softcard.engine.gcn.api import Dispatch
from softcard.engine.gcn.group import start_wave
from softcard.host.hsa.gpu import Gpu
from softcard.image.assembly.files import assemble_code_object
from softcard.image.hsa.records import KernelDescriptor, Rsrc1, Rsrc3, complaints
from softcard.ir.object_cache import ObjectCache
from softcard.isa.gcn import allocation
from softcard.isa.gcn.state import FLAT_SCRATCH, Wave, aligned
from softcard.isa.gcn.target import target
from tests.device.hsa.rig import ENTRY, KERNARG, Bench, dispatch

Make = Callable[..., Bench]
CDNA = ("gfx90a", "gfx942", "gfx950")
POISON = 0xBAD0_0BAD
BUFFER, INIT = "enable_sgpr_private_segment_buffer", "enable_sgpr_flat_scratch_init"
X, PRIVATE = 1 << 7, 1
TG_SPLIT = 1 << 16

every_new = pytest.mark.parametrize("agent", CDNA)


def launched(rig: Bench, kernel: int, **fields: Any) -> Dispatch:
    packet = KernelDispatchPacket(kernel_object=kernel, **fields)
    scratch = Scratch(rig.device.allocate(1 << 20), 1 << 20)
    around = Surroundings(rig.device.agent.target, rig.device.memory, scratch=scratch)
    return launch(around, packet, 0, poison=POISON)


def first(found: Dispatch, group: int = 0, number: int = 0, slot: int = 0) -> Wave:
    wave = Wave()
    start_wave(found, wave, group, number, slot, int(aligned(max(found.lds_bytes, 1)).ctypes.data))
    return wave


@every_new
@pytest.mark.parametrize("enable", [0, 1, 2])
def test_packed_ids(bench: Make, agent: str, enable: int) -> None:
    rig = bench(agent)
    fields = {"workgroup_size_x": 8, "workgroup_size_y": 4, "workgroup_size_z": 4}
    fields |= {"grid_size_x": 8, "grid_size_y": 4, "grid_size_z": 4}
    wave = first(launched(rig, rig.kernel(rsrc2=enable << 11), **fields), number=1)
    for lane in (0, 9, 63):
        flat = 64 + lane
        ids = [flat % 8, flat // 8 % 4, flat // 32][: enable + 1]
        assert int(wave.vgpr[0, lane]) == sum(each << 10 * axis for axis, each in enumerate(ids))
    assert not np.any(wave.vgpr[1] != POISON)


@pytest.mark.parametrize("machine_code", [True, False])
@pytest.mark.parametrize("agent", ["gfx908", *CDNA])
def test_work_items_of_three_dimensions_store_their_ids(bench: Make, agent: str, machine_code: bool) -> None:
    """The whole way through a queue, with a partial work-group; gfx908 has three registers."""
    rig = bench(agent, machine_code=machine_code)
    unpack = "v_bfe_u32 v4, v0, 0, 10 | v_bfe_u32 v5, v0, 10, 10 | v_bfe_u32 v6, v0, 20, 10"
    if agent == "gfx908":
        unpack = "v_mov_b32 v4, v0 | v_mov_b32 v5, v1 | v_mov_b32 v6, v2"
    text = f"""
        {unpack.replace("|", chr(10))}
        v_lshlrev_b32 v7, 8, v4
        v_lshl_or_b32 v7, v5, 4, v7
        v_or_b32 v7, v6, v7
        v_mad_u32_u24 v8, v6, 3, v5
        v_mad_u32_u24 v8, v8, 5, v4
        v_lshlrev_b32 v8, 2, v8
        v_mov_b32 v9, s1
        v_add_co_u32 v8, vcc, s0, v8
        v_addc_co_u32 v9, vcc, 0, v9, vcc
        global_store_dword v[8:9], v7, off
        s_endpgm
    """
    address, words = rig.words(128)
    kernel = rig.kernel(text, vgprs=16, rsrc2=2 << 11)
    fields = {"workgroup_size_x": 5, "workgroup_size_y": 3, "workgroup_size_z": 4, "dimensions": 3}
    packet = dispatch(kernel, address, grid_size_x=5, grid_size_y=3, grid_size_z=4, **fields)
    for _ in range(4):  # the third and later ones are repeated launches
        words[:] = 0
        rig.queue.submit(packet)
        expected = [x << 8 | y << 4 | z for z in range(4) for y in range(3) for x in range(5)]
        assert words[:60].tolist() == expected


@every_new
@pytest.mark.parametrize("start", [0, 3])
def test_kernarg_preload(bench: Make, agent: str, start: int) -> None:
    """The dwords follow the enabled user SGPRs, system SGPRs follow them, and the entry is 256 bytes later."""
    rig = bench(agent)
    address, words = rig.words()
    words[:16] = np.arange(100, 116)
    kernel = rig.kernel(rsrc2=X, preload=(start, 6))
    found = launched(rig, kernel, kernarg_address=address, grid_size_x=3)
    wave = first(found, group=2)
    assert wave.sgpr[:10].tolist() == [
        address & 0xFFFF_FFFF, address >> 32, *range(100 + start, 106 + start), 2, POISON,
    ]  # fmt: skip
    assert found.entry == kernel + 256 + 256


def test_without_preload_the_entry_is_the_headers(bench: Make) -> None:
    rig = bench("gfx942")
    kernel = rig.kernel()
    assert launched(rig, kernel).entry == kernel + 256


@pytest.mark.parametrize("machine_code", [True, False])
@pytest.mark.parametrize("agent", ["gfx90a", "gfx942"])
def test_preloaded_arguments_are_those_of_each_packet(bench: Make, agent: str, machine_code: bool) -> None:
    """Also with repeated launches, by machine code and by Python; code at the header's own entry does not run."""
    rig = bench(agent, machine_code=machine_code)
    text = (
        "s_trap 2"
        + "\ns_nop 0" * 63
        + """
        v_mov_b32 v0, s2
        v_mov_b32 v1, s3
        v_mov_b32 v2, s4
        global_store_dword v[0:1], v2, off
        s_endpgm
    """
    )
    kernel = rig.kernel(text, preload=(0, 3))
    for number in range(8):
        arguments, given = rig.words(16)
        address, words = rig.words()
        given[:3] = address & 0xFFFF_FFFF, address >> 32, 1000 + number
        rig.queue.submit(dispatch(kernel, arguments))
        assert words[0] == 1000 + number
    assert not rig.errors


def test_preloaded_arguments_outside_of_memory_are_refused(bench: Make) -> None:
    rig = bench("gfx90a")
    kernel = rig.kernel(preload=(0, 3))
    with pytest.raises(DispatchRefused, match=r"3 dwords of arguments to preload from 0x10: .* \[hsa/kernarg-preload"):
        launched(rig, kernel, kernarg_address=16)


@pytest.mark.parametrize("slot", [0, 2])
@pytest.mark.parametrize("agent", ["gfx942", "gfx950"])
def test_architected_scratch(bench: Make, agent: str, slot: int) -> None:
    """No register has an offset: FLAT_SCRATCH is the address of the wave's private memory."""
    rig = bench(agent)
    found = launched(rig, rig.kernel(rsrc2=X | PRIVATE), private_segment_size=20)
    wave = first(found, slot=slot)
    assert wave.s64(FLAT_SCRATCH[9]) == found.scratch_base + 2048 * slot
    assert wave.sgpr[2:4].tolist() == [0, POISON]
    without = first(launched(rig, rig.kernel(rsrc2=X), private_segment_size=20))
    assert without.sgpr[FLAT_SCRATCH[9]] == POISON


@pytest.mark.parametrize("agent", ["gfx90a", "gfx942"])
@pytest.mark.parametrize("machine_code", [True, False])
def test_private_memory_of_each_work_item(bench: Make, agent: str, machine_code: bool) -> None:
    """By flat addresses: gfx90a's prologue adds the wave's offset to FLAT_SCRATCH, gfx942 has none."""
    rig = bench(agent, machine_code=machine_code)
    prologue, enable = "", [KERNARG]
    if agent == "gfx90a":
        enable.append(INIT)
        prologue = "s_add_u32 flat_scratch_lo, s2, s5\ns_addc_u32 flat_scratch_hi, s3, 0\n"
    group = "s4" if agent == "gfx90a" else "s2"
    text = (
        prologue
        + f"""
        s_mov_b64 s[8:9], src_private_base
        v_lshl_or_b32 v4, {group}, 8, v0
        v_mov_b32 v2, 12
        v_mov_b32 v3, s9
        flat_store_dword v[2:3], v4
        s_waitcnt vmcnt(0) lgkmcnt(0)
        flat_load_dword v5, v[2:3]
        v_lshlrev_b32 v6, 6, {group}
        v_add_lshl_u32 v6, v6, v0, 2
        s_waitcnt vmcnt(0) lgkmcnt(0)
        global_store_dword v6, v5, s[0:1]
        s_endpgm
    """
    )
    address, words = rig.words(256)
    kernel = rig.kernel(text, enable=enable, rsrc2=X | PRIVATE)
    rig.device.set_scratch(rig.queue, 16, 8)
    for _ in range(4):
        words[:] = 0
        rig.queue.submit(dispatch(kernel, address, workgroup_size_x=64, grid_size_x=256, private_segment_size=16))
        assert words.tolist() == [group << 8 | item for group in range(4) for item in range(64)]


@pytest.mark.parametrize(
    ("agent", "vgprs", "waves"),
    [("gfx908", 128, 8), ("gfx908", 132, 4), ("gfx90a", 128, 16), ("gfx90a", 136, 12), ("gfx942", 512, 4)],
)
def test_vgpr_blocks(bench: Make, agent: str, vgprs: int, waves: int) -> None:
    """A SIMD has 512 registers from gfx90a on, for vector and accumulation registers: all waves of a group must fit."""
    rig = bench(agent)
    accum = {} if agent == "gfx908" else {"accum_offset": min(vgprs, 256)}
    kernel = rig.kernel(vgprs=vgprs, **accum)
    found = launched(rig, kernel, workgroup_size_x=64 * waves, grid_size_x=64 * waves)
    assert found.vgpr_count == min(vgprs, 256)
    if waves < 16:
        with pytest.raises(DispatchRefused, match=f"a compute unit has room for {waves}"):
            launched(rig, kernel, workgroup_size_x=64 * (waves + 1), grid_size_x=64 * (waves + 1))
    rsrc1 = Rsrc1.parse(struct.pack("<I", vgprs // target(agent).vgpr_granule - 1))
    assert rsrc1.vgprs(target(agent).vgpr_granule) == vgprs


REFUSED: list[tuple[str, dict[str, Any], str]] = [
    (
        "gfx90a", {"vgprs": 16, "accum_offset": 20},
        "accum_offset is 20 (compute_pgm_rsrc3, byte 0x2c, bits 5-0), expected at most the 16 registers that "
        "compute_pgm_rsrc1 allocates, [hsa/accum-offset",
    ),
    ("gfx942", {"rsrc3": 1 << 7}, "compute_pgm_rsrc3 (byte 0x2c) bits 15-6 must be 0 on gfx942, [hsa/rsrc3-reserved"),
    ("gfx950", {"rsrc3": 1 << 31}, "compute_pgm_rsrc3 (byte 0x2c) bits 31-17 must be 0 on gfx950"),
    (
        "gfx90a", {"enable": [BUFFER, KERNARG], "preload": (0, 11)},
        "11 dwords of arguments are preloaded (byte 0x3a, bits 6-0) after 6 enabled user SGPRs, expected at most 16",
    ),
    ("gfx942", {"enable": [], "preload": (0, 2)}, "expected enable_sgpr_kernarg_segment_ptr with them"),
    ("gfx942", {"enable": [BUFFER]}, f"{BUFFER} (byte 0x38) must be 0 on gfx942"),
    ("gfx950", {"enable": [INIT]}, f"{INIT} (byte 0x38) must be 0 on gfx950: its waves begin with FLAT_SCRATCH set"),
    ("gfx90a", {"ptr64": True}, "an amd_kernel_code_t has no compute_pgm_rsrc3, expected a kernel descriptor"),
    ("gfx908", {"preload": (0, 2)}, "preload arguments, expected 0: gfx908 does not preload"),
]  # fmt: skip


@pytest.mark.parametrize(("agent", "fields", "text"), REFUSED)
def test_accum_offset(bench: Make, agent: str, fields: dict[str, Any], text: str) -> None:
    """Headers that a processor cannot start are refused, with the place and the rule; readers warn of the same."""
    rig = bench(agent)
    kernel = rig.kernel(**fields)
    with pytest.raises(DispatchRefused, match=re.escape(text)):
        launched(rig, kernel)
    if "ptr64" not in fields:
        header = KernelDescriptor.parse(rig.device.memory.read(kernel, 64))
        found = complaints(header, target=target(agent))
        assert any(text.split(", [")[0] in each for each in found), found


REGISTERS: list[tuple[str, str, dict[str, Any], str]] = [
    (
        "gfx90a", "v_mov_b32 v8, 0", {"vgprs": 16, "accum_offset": 8},
        "v_mov_b32_e32 v8, 0 uses v8, but the kernel allocates v0 to v7 and a0 to a7",
    ),
    ("gfx942", "v_add_f32 v1, v2, v9", {"vgprs": 8}, "uses v9, but the kernel allocates v0 to v7 and no"),
    ("gfx950", "global_load_dwordx4 v[6:9], v[0:1], off", {"vgprs": 8}, "uses v8, but"),
    ("gfx90a", "v_accvgpr_read_b32 v0, a8", {"vgprs": 16, "accum_offset": 8}, "uses a8, but the kernel"),
    ("gfx90a", "ds_write_b64 v0, a[8:9]", {"vgprs": 16, "accum_offset": 8}, "uses a8, but the kernel"),
    ("gfx942", "v_mfma_f32_16x16x16_f16 a[0:3], v[0:1], v[2:3], a[0:3]", {"vgprs": 8}, "uses a0, but"),
    ("gfx942", "v_add_f32_dpp v1, v200, v2 row_shl:1", {"vgprs": 8}, "uses v200, but"),
    (
        "gfx950", "v_mfma_scale_f32_16x16x128_f8f6f4 v[0:3], v[4:11], v[12:19], v[20:23], v30, v32",
        {"vgprs": 32}, "uses v32, but the kernel allocates v0 to v31",
    ),
    (
        "gfx942", "s_branch 1\n s_endpgm\n v_mov_b32 v16, 0\n s_cbranch_scc1 65532", {"vgprs": 16},
        "lower one, at pc 0x{pc:x} (v_mov_b32_e32 v16, 0)",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("agent", "code", "fields", "text"), REGISTERS)
def test_allocated_registers(bench: Make, agent: str, code: str, fields: dict[str, Any], text: str) -> None:
    """Code that names a register beyond the allocated ones is refused before it runs, with the instruction."""
    rig = bench(agent)
    kernel = rig.kernel(f"s_nop 0\n {code}\n s_endpgm", **fields)
    with pytest.raises(DispatchRefused) as caught:
        launched(rig, kernel)
    assert text.format(pc=kernel + ENTRY + 12) in str(caught.value)
    assert "[hsa/allocated-registers" in str(caught.value)


def test_registers_are_searched_for_where_code_is_reached(bench: Make) -> None:
    """Words after the end, data, and exactly the allocated registers; new code at the same place is searched again."""
    rig = bench("gfx90a")
    lines = (
        "v_mov_b32 v7, 0", "v_accvgpr_mov_b32 a7, a7", "s_branch 2", ".long 0x7eff02ff", "v_mov_b32 v9, 0", "s_endpgm",
        "v_mov_b32 v200, 0",
    )  # fmt: skip
    kernel = rig.kernel("\n".join(lines), vgprs=16, accum_offset=8)
    assert launched(rig, kernel).vgpr_count == 8
    rig.device.memory.write(kernel + ENTRY, rig.code("v_mov_b32 v8, 0"))
    with pytest.raises(DispatchRefused, match="uses v8, but the kernel allocates v0 to v7 and a0 to a7"):
        launched(rig, kernel)
    rig.device.memory.write(kernel + ENTRY, rig.code("v_mov_b32 v7, 0"))
    assert launched(rig, kernel)


def test_known_code_is_not_searched_again(bench: Make, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Results without a finding are on disk: another process does not load the instruction set for them."""
    stored = ObjectCache(tmp_path)
    monkeypatch.setattr(first_state, "_cache", lambda: stored)
    counts: list[int] = []

    def counted(*parts: Any) -> allocation.Search:
        counts.append(1)
        return search(*parts)

    search = allocation.beyond_allocation
    monkeypatch.setattr(allocation, "beyond_allocation", counted)
    good, bad = "v_mov_b32 v7, 0\n s_endpgm", "v_mov_b32 v8, 0\n s_endpgm"
    for number in range(2):
        rig = bench("gfx90a")
        assert launched(rig, rig.kernel(good))
        assert len(counts) == 1 + number
        with pytest.raises(DispatchRefused, match="uses v8"):
            launched(rig, rig.kernel(bad))
    stored = ObjectCache(tmp_path)
    rig = bench("gfx90a")
    assert launched(rig, rig.kernel(good))
    assert len(counts) == 3


@pytest.mark.parametrize("engine", ["reference", "jit"])
def test_a_kernel_without_enough_registers_does_not_run(engine: str) -> None:
    text = """
    .amdgcn_target "amdgcn-amd-amdhsa--gfx942"
    k:
        s_endpgm
        v_mov_b32 v200, 0
    bad:
        v_mov_b32 v8, 0
        s_endpgm
    """
    kernels = "".join(
        f".amdhsa_kernel {name}\n .amdhsa_next_free_vgpr 8\n .amdhsa_next_free_sgpr 8\n .amdhsa_accum_offset 8\n"
        " .end_amdhsa_kernel\n"
        for name in ("k", "bad")
    )
    with Gpu.open("gfx942", engine=engine) as gpu:
        loaded = gpu.load(assemble_code_object(f"{text}\n.rodata\n{kernels}"))
        gpu.run(loaded, "k", 64)
        with pytest.raises(SoftcardError, match=r"v_mov_b32_e32 v8, 0 uses v8, .*, at pc 0x\w+ \(bad, v_mov"):
            gpu.run(loaded, "bad", 64)


def test_rsrc3_reserved() -> None:
    """The fields of the word, and the reserved ones among them."""
    rsrc3 = Rsrc3.parse(struct.pack("<I", 0x8001_0003))
    assert (rsrc3.accum_offset, rsrc3.tg_split) == (16, 1)
    assert [slot.name for slot in rsrc3.reserved_set()] == ["reserved_11"]


def test_tg_split(bench: Make) -> None:
    """Waves of a work-group that may run on different compute units have no LDS."""
    rig = bench("gfx942")
    kernel = rig.kernel(rsrc3=TG_SPLIT)
    assert launched(rig, kernel).tg_split
    with pytest.raises(
        DispatchRefused, match=r"512 bytes of LDS for a kernel with TG_SPLIT, expected 0, \[hsa/tg-split"
    ):
        launched(rig, kernel, group_segment_size=512)


def test_gfx950_has_160_kib_of_lds(bench: Make) -> None:
    rig = bench("gfx950")
    text = """
        v_mov_b32 v0, 0x27ffc
        v_mov_b32 v1, 77
        ds_write_b32 v0, v1
        s_waitcnt lgkmcnt(0)
        ds_read_b32 v2, v0
        v_mov_b32 v3, 0
        s_waitcnt lgkmcnt(0)
        global_store_dword v3, v2, s[0:1]
        s_endpgm
    """
    address, words = rig.words()
    rig.queue.submit(dispatch(rig.kernel(text), address, group_segment_size=163840))
    assert words[0] == 77
    assert not rig.errors


@pytest.mark.parametrize("machine_code", [True, False])
def test_work_groups_go_to_the_dies_one_after_the_other(bench: Make, machine_code: bool) -> None:
    """XCC_ID is that of each group, in large and in small grids, on all threads and for repeated launches."""
    rig = bench("gfx942", machine_code=machine_code)
    text = """
        s_getreg_b32 s3, hwreg(20)
        v_mov_b32 v1, s3
        s_lshl_b32 s2, s2, 2
        v_mov_b32 v2, s2
        global_store_dword v2, v1, s[0:1]
        s_endpgm
    """
    address, words = rig.words(300)
    kernel = rig.kernel(text, rsrc2=X)
    for groups in (20, 20, 20, 300):
        words[:] = 99
        rig.queue.submit(dispatch(kernel, address, grid_size_x=groups))
        assert words[:groups].tolist() == [number % 8 for number in range(groups)]
    other = bench("gfx906")
    other.queue.submit(dispatch(other.kernel(text, rsrc2=X), other.words()[0]))
    assert "hardware register 20 is not modelled, only MODE" in str(other.errors[0][1])
