"""Kernels that are dispatched: what they find in registers and memory, and what they can do to queues."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import numpy as np
import pytest

from softcard.core.lint import Lint, LintWarning
from softcard.device.hsa.exceptions import QueueError
from softcard.device.hsa.queues.packets import KernelDispatchPacket
from softcard.image.hsa.records import KernelCode, KernelDescriptor
from tests.device.hsa.rig import COUNT, FLAT_SCRATCH, KERNARG, WAVE_OFFSET, Bench, dispatch, flat_scratch

Make = Callable[..., Bench]
every_level = pytest.mark.parametrize("agent", ["gfx701", "gfx803", "gfx900"])
twice = pytest.mark.parametrize("rounds", [1, 4])
"""Once by the readable path, then by machine code."""


def dump(registers: Sequence[int], at: int) -> str:
    """Store these scalar registers as dwords to the address in s[at:at+1]."""
    lines = [f"v_mov_b32 v0, s{at}", f"v_mov_b32 v1, s{at + 1}"]
    for register in registers:
        lines += [f"v_mov_b32 v2, s{register}", "flat_store_dword v[0:1], v2", "v_add_co_u32 v0, vcc, 4, v0"]
    return "\n".join([*lines, "s_endpgm"])


def adds(text: str, agent: str) -> str:
    """The assembly of an older generation, which has other names for the addition."""
    name = {"7": "v_add_i32", "8": "v_add_u32", "9": "v_add_co_u32"}[agent[3]]
    return text.replace("v_add_co_u32", name)


def seen(
    rig: Bench, agent: str, enable: Sequence[str], registers: Sequence[int], rounds: int, **fields: int
) -> list[int]:
    """What a kernel found in its registers when it ran for the `rounds`-th time. The kernarg address comes last."""
    before = {"enable_sgpr_private_segment_buffer": 4, "enable_sgpr_private_segment_size": 1}
    at = sum(before.get(name, 2) for name in enable if name not in AFTER)
    text = adds(dump(registers, at), agent)
    kernel = rig.kernel(text, [*enable, KERNARG])
    address, words = rig.words()
    for _ in range(rounds):
        rig.queue.submit(dispatch(kernel, address, **fields))
    assert rig.errors == []
    return [int(word) for word in words[: len(registers)]]


AFTER = ("enable_sgpr_dispatch_id", "enable_sgpr_flat_scratch_init", "enable_sgpr_private_segment_size")
"""Registers that come behind the kernarg pointer."""


def test_kernel_object(bench: Make) -> None:
    rig = bench()
    done = rig.device.create_signal(1)
    rig.queue.submit(dispatch(rig.kernel(), signal=done))
    assert done.load() == 0
    for address, text in (
        (0, "kernel_object is 0, expected the address of a kernel header"),
        (0x1001, "expected a multiple of 64"),
        (0x1000, "no memory there"),
    ):
        queue = rig.new_queue()
        queue.submit(dispatch(address))
        code, error = rig.errors.pop()
        assert code == QueueError.INVALID_CODE
        assert text in str(error)


@pytest.mark.parametrize("engine", ["jit", "reference"])
@pytest.mark.parametrize(
    ("text", "doubt"),
    [
        ("s_endpgm", "its entry offset is 0, which lies in the header itself"),
        (".long 0, 0, 0, 0, 4098, 0", "its entry offset is 4098, expected a multiple of 4"),
        ("s_nop 0\n" * 3 + "s_endpgm\n.long 256", "its reserved bytes at byte 0xc are not 0"),
        ("s_endpgm\n.long 0, 0, 0, 256", "its size of LDS is 3212902400 bytes, more than the GPU has"),
    ],
)
def test_a_kernel_object_that_is_code(bench: Make, engine: str, text: str, doubt: str) -> None:
    rig = bench(engine=engine)
    address = rig.device.allocate(256, 256)
    code = rig.code(text)
    rig.device.memory.write(address, code)
    rig.queue.submit(dispatch(address))
    code_, error = rig.errors.pop()
    assert code_ == QueueError.INVALID_CODE
    assert f"kernel_object {address:#x} does not point to a kernel header (" in str(error)
    assert doubt in str(error)
    assert "expected the address of an amd_kernel_code_t or of a kernel descriptor (symbol NAME.kd)" in str(error)
    assert "[hsa/kernel-object: " in str(error)


@pytest.mark.parametrize("engine", ["jit", "reference"])
def test_kernarg_alignment(bench: Make, engine: str) -> None:
    """16 bytes at least: an error where the kernel's header says that it has arguments, a lint elsewhere."""
    rig = bench(listen=True, engine=engine)
    address, _ = rig.words()
    kernel = rig.kernel()
    rig.queue.submit(dispatch(kernel, address + 16))
    assert not rig.reported(Lint)
    rig.queue.submit(dispatch(kernel, address + 4))
    assert [each.check for each in rig.reported(Lint)] == ["kernarg-alignment"]
    assert not rig.errors
    rig.device.memory.write(kernel + KernelDescriptor.offset_of("kernarg_size"), b"\x08")
    legacy = rig.kernel(ptr64=True)
    rig.device.memory.write(legacy + KernelCode.offset_of("kernarg_segment_byte_size"), b"\x08")
    for header, gap in ((kernel, 4), (kernel, 8), (legacy, 8)):
        queue = rig.new_queue()
        queue.submit(dispatch(header, address + gap))
        code, error = rig.errors.pop()
        assert code == QueueError.INVALID_PACKET
        assert f"kernarg_address is {address + gap:#x}, expected a multiple of 16" in str(error)


@every_level
@twice
def test_kernarg_ptr(bench: Make, agent: str, rounds: int) -> None:
    rig = bench(agent)
    address, words = rig.words()
    kernel = rig.kernel(adds(dump([0, 1], 0), agent))
    for _ in range(rounds):
        rig.queue.submit(dispatch(kernel, address))
    assert int(words[:2].view(np.uint64)[0]) == address


def test_kernarg_backing(bench: Make) -> None:
    """The kernel reads and writes the very memory that the packet names."""
    rig = bench()
    address, words = rig.words()
    kernel = rig.kernel(
        """
        s_load_dword s4, s[0:1], 0x8
        s_waitcnt lgkmcnt(0)
        s_add_u32 s4, s4, 1
        v_mov_b32 v0, s0
        v_mov_b32 v1, s1
        v_mov_b32 v2, s4
        global_store_dword v[0:1], v2, off offset:8
        s_endpgm
        """
    )
    for count in range(1, 6):
        rig.queue.submit(dispatch(kernel, address))
        assert words[2] == count


@every_level
@twice
def test_dispatch_ptr(bench: Make, agent: str, rounds: int) -> None:
    rig = bench(agent, size=4)
    low, high = seen(rig, agent, ["enable_sgpr_dispatch_ptr"], [0, 1], rounds)
    assert low | high << 32 == rig.queue.packet_address(rounds - 1)


@every_level
@twice
def test_queue_ptr(bench: Make, agent: str, rounds: int) -> None:
    rig = bench(agent)
    low, high = seen(rig, agent, ["enable_sgpr_queue_ptr"], [0, 1], rounds)
    assert low | high << 32 == rig.queue.address


@every_level
@pytest.mark.parametrize("rounds", [1, 5])
def test_dispatch_id(bench: Make, agent: str, rounds: int) -> None:
    rig = bench(agent)
    low, high = seen(rig, agent, ["enable_sgpr_dispatch_id"], [2, 3], rounds)
    assert low | high << 32 == rounds - 1


@every_level
@twice
def test_private_buffer(bench: Make, agent: str, rounds: int) -> None:
    rig = bench(agent)
    rig.device.set_scratch(rig.queue, 16)
    found = seen(rig, agent, ["enable_sgpr_private_segment_buffer"], [0, 1, 2, 3], rounds)
    record = rig.queue.record()
    assert tuple(found) == record.scratch_resource_descriptor
    assert (
        found[0] | (found[1] & 0xFFFF) << 32 == rig.device.hidden_private_base + record.scratch_backing_memory_location
    )


@pytest.mark.parametrize("agent", ["gfx701", "gfx803"])
@twice
def test_flat_scratch_legacy(bench: Make, agent: str, rounds: int) -> None:
    rig = bench(agent)
    found = seen(rig, agent, ["enable_sgpr_flat_scratch_init"], [2, 3], rounds, private_segment_size=18)
    record = rig.queue.record()
    assert found == [record.scratch_backing_memory_location & 0xFFFF_FFFF, 20]


@twice
def test_flat_scratch_gfx9(bench: Make, rounds: int) -> None:
    rig = bench()
    low, high = seen(rig, "gfx900", ["enable_sgpr_flat_scratch_init"], [2, 3], rounds, private_segment_size=18)
    assert low | high << 32 == rig.queue.record().scratch_backing_memory_location != 0


def test_dynamic_stack(bench: Make) -> None:
    """The packet's private_segment_size decides, and more is allocated when a later packet wants more."""
    rig = bench()
    enable = ["enable_sgpr_private_segment_size"]
    kernel = rig.kernel(adds(dump([2], 0), "gfx900"), [KERNARG, *enable])
    address, words = rig.words()
    sizes = []
    for wanted in (16, 16384, 64):
        rig.queue.submit(dispatch(kernel, address, private_segment_size=wanted))
        assert words[0] == wanted
        sizes.append(rig.queue.record().scratch_workitem_byte_size)
    assert sizes == [16, 16384, 16384]
    assert rig.errors == []


@pytest.mark.parametrize("machine_code", [True, False])
def test_flat_segments(bench: Make, machine_code: bool) -> None:
    """One flat instruction reaches LDS, private and global memory, by the apertures that amd_queue_t names."""
    rig = bench("gfx803", machine_code=machine_code)
    kernel = rig.kernel(
        flat_scratch("gfx803", 4)
        + """
        s_load_dwordx2 s[4:5], s[0:1], 0x40     ; aperture bases
        s_waitcnt lgkmcnt(0)
        s_mov_b32 m0, -1
        v_mov_b32 v4, 0x11
        v_mov_b32 v0, 16
        v_mov_b32 v1, s4
        flat_store_dword v[0:1], v4             ; group
        v_mov_b32 v1, s5
        v_mov_b32 v5, 0x22
        v_mov_b32 v0, 4
        flat_store_dword v[0:1], v5             ; private
        s_waitcnt vmcnt(0) lgkmcnt(0)
        flat_load_dword v6, v[0:1]
        v_mov_b32 v0, 16
        v_mov_b32 v1, s4
        flat_load_dword v7, v[0:1]
        v_mov_b32 v0, s2
        v_mov_b32 v1, s3
        s_waitcnt vmcnt(0) lgkmcnt(0)
        v_or_b32 v6, v6, v7
        flat_store_dword v[0:1], v6             ; global
        s_endpgm
        """,
        ["enable_sgpr_queue_ptr", KERNARG, FLAT_SCRATCH],
        rsrc2=WAVE_OFFSET,
    )
    address, words = rig.words()
    for _ in range(4):
        words[0] = 0
        rig.queue.submit(dispatch(kernel, address, group_segment_size=64, private_segment_size=16))
        assert rig.errors == []
        assert words[0] == 0x33


@pytest.mark.parametrize("agent", ["gfx803", "gfx900"])
@pytest.mark.parametrize("listen", [True, False])
def test_dispatch_from_kernel(bench: Make, agent: str, listen: bool) -> None:
    """A kernel copies a packet into the ring of its own queue and rings the doorbell: a chain of dispatches."""
    rig = bench(agent, size=64, listen=listen)
    width = "dwordx2" if agent == "gfx900" else "dword"
    text = f"""
        ; s[0:1] queue, s[2:3] kernarg: template packet (64 bytes), remaining (64), counter (68), hardware doorbell (72)
        s_load_dwordx2 s[4:5], s[2:3], 0x40
        s_load_dwordx2 s[6:7], s[2:3], 0x48
        s_load_dwordx2 s[8:9], s[0:1], 0x8      ; ring
        s_load_dword s10, s[0:1], 0x18          ; size
        s_waitcnt lgkmcnt(0)
        v_mov_b32 v8, 1
        v_mov_b32 v9, 0
        s_add_u32 s12, s2, 0x44
        s_addc_u32 s13, s3, 0
        v_mov_b32 v0, s12
        v_mov_b32 v1, s13
        flat_atomic_add v[0:1], v8              ; counter += 1
        s_cmp_eq_u32 s4, 0
        s_cbranch_scc1 finish
        s_add_u32 s12, s2, 0x40
        s_addc_u32 s13, s3, 0
        s_sub_u32 s4, s4, 1
        v_mov_b32 v0, s12
        v_mov_b32 v1, s13
        v_mov_b32 v2, s4
        flat_store_dword v[0:1], v2             ; remaining -= 1
        s_add_u32 s12, s0, 0x38
        s_addc_u32 s13, s1, 0
        v_mov_b32 v0, s12
        v_mov_b32 v1, s13
        flat_atomic_add_x2 v[10:11], v[0:1], v[8:9] glc   ; reserve a slot
        s_waitcnt vmcnt(0) lgkmcnt(0)
        v_readfirstlane_b32 s14, v10
        v_readfirstlane_b32 s15, v11
        s_sub_u32 s10, s10, 1
        s_and_b32 s16, s14, s10
        s_lshl_b32 s16, s16, 6
        s_add_u32 s16, s8, s16
        s_addc_u32 s17, s9, 0
        s_load_dwordx16 s[20:35], s[2:3], 0x0
        s_waitcnt lgkmcnt(0)
        {"".join(_store(n) for n in range(15, -1, -1))}
        s_waitcnt vmcnt(0) lgkmcnt(0)
        {"" if agent == "gfx900" else "s_add_u32 s14, s14, 1"}
        v_mov_b32 v0, s6
        v_mov_b32 v1, s7
        v_mov_b32 v2, s14
        v_mov_b32 v3, s15
        flat_store_{width} v[0:1], {"v[2:3]" if agent == "gfx900" else "v2"}
    finish:
        s_endpgm
    """
    kernel = rig.kernel(text, ["enable_sgpr_queue_ptr", KERNARG], vgprs=16)
    address, words = rig.words()
    done = rig.device.create_signal(200)
    packet = dispatch(kernel, address, done)
    rig.device.memory.write(address, packet)
    words[16] = 199
    words[18:20].view(np.uint64)[0] = rig.queue.doorbell.record().value
    rig.queue.submit(packet)
    assert rig.errors == []
    assert (words[17], words[16], done.load()) == (200, 0, 0)
    assert rig.queue.load_read_index() == rig.queue.load_write_index() == 200


def _store(number: int) -> str:
    """One dword of the packet; the header, dword 0, comes last."""
    wait = "s_waitcnt vmcnt(0) lgkmcnt(0)\n" if number == 0 else ""
    return f"""
        {wait}s_add_u32 s12, s16, {4 * number}
        s_addc_u32 s13, s17, 0
        v_mov_b32 v0, s12
        v_mov_b32 v1, s13
        v_mov_b32 v2, s{20 + number}
        flat_store_dword v[0:1], v2
    """


def test_grids(bench: Make) -> None:
    """Every work-item of a grid with partial groups counts once, however many groups."""
    rig = bench()
    kernel = rig.kernel(COUNT)
    for grid, group in (((1, 1, 1), (1, 1, 1)), ((130, 3, 2), (64, 2, 1)), ((1000, 9, 1), (16, 4, 1))):
        for _ in range(3):
            address, words = rig.words()
            packet = KernelDispatchPacket(
                kernel_object=kernel, kernarg_address=address, workgroup_size_x=group[0], workgroup_size_y=group[1],
                workgroup_size_z=group[2], grid_size_x=grid[0], grid_size_y=grid[1], grid_size_z=grid[2],
            )  # fmt: skip
            rig.queue.submit(packet.pack())
            assert words[0] == grid[0] * grid[1] * grid[2]


def test_reference_engine(bench: Make) -> None:
    rig = bench(engine="reference")
    address, words = rig.words()
    rig.queue.submit(*[dispatch(rig.kernel(COUNT), address, grid_size_x=64, workgroup_size_x=64)] * 3)
    assert words[0] == 192


LDS_READ = "v_mov_b32 v0, 0x1000\nds_read_b32 v1, v0\ns_endpgm"


@pytest.mark.parametrize("engine", ["jit", "reference"])
def test_lds_past_the_end_is_a_lint_once_for_each_kernel(bench: Make, engine: str) -> None:
    rig = bench(engine=engine, listen=True, lints="off")
    reported: list[tuple[str, str]] = []
    rig.device.on_lint = lambda check, text: reported.append((check, text))
    first, second = rig.kernel(LDS_READ), rig.kernel(LDS_READ)
    for kernel in (first, first, second):
        rig.queue.submit(dispatch(kernel, group_segment_size=512))
    rig.queue.submit(dispatch(rig.kernel(LDS_READ), group_segment_size=0x1004))
    assert rig.errors == []
    lints = [each for each in rig.reported(Lint) if each.check == "lds-out-of-bounds"]
    assert [each.message for each in lints] == [
        f"kernel at {kernel:#x}: read of 4 bytes at LDS offset 0x1000, but the launch reserves 512 bytes of LDS: "
        "loads past its end return 0 and stores are dropped; set group_segment_size to all LDS that the kernel uses, "
        "dynamic LDS included (Local arguments, HIP's third launch parameter); run with check='memory' to find the "
        "instruction"
        for kernel in (first, second)
    ]
    assert reported == [(each.check, each.message) for each in lints]


def test_lds_past_the_end_in_launches_by_machine_code(bench: Make) -> None:
    """The kernel begins to do so when machine code processes its packets: that is looked at now and then."""
    rig = bench()
    text = f"s_load_dword s2, s[0:1], 0x0\ns_waitcnt lgkmcnt(0)\nv_mov_b32 v0, s2\n{LDS_READ.partition(chr(10))[2]}"
    kernel, (address, words) = rig.kernel(text), rig.words(1)
    reported: list[str] = []
    rig.device.on_lint = lambda check, text: reported.append(check)
    packet = dispatch(kernel, address, group_segment_size=512)
    for _ in range(4):
        rig.queue.submit(packet)
    assert not reported
    words[0] = 0x1000

    def submit_until_reported() -> None:
        while not reported:
            rig.queue.submit(packet)
            time.sleep(0.005)

    with pytest.warns(LintWarning, match="LDS offset 0x1000"):
        submit_until_reported()
    assert reported == ["lds-out-of-bounds"]


def test_lds_past_the_end_is_the_checks_where_there_is_one(bench: Make) -> None:
    rig = bench(check="memory", listen=True)
    rig.queue.submit(dispatch(rig.kernel(LDS_READ), group_segment_size=512))
    assert not rig.reported(Lint)
    assert [each.name for each in rig.device.findings] == ["memory/lds-out-of-bounds"]
