"""Pointers of 32 bits (PTR32), on both engines: registers that are read, apertures of 64 KiB, sums beyond 4 GiB."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

from softcard.core.errors import AccessFault
from softcard.core.space import Ram
from softcard.engine.gcn.api import Dispatch, Engine
from softcard.engine.gcn.reference.engine import ReferenceEngine
from softcard.engine.gcn.tiered.engine import JitEngine
from softcard.isa.gcn.encoding.decode import decode
from softcard.isa.gcn.insn import IllegalInstruction
from softcard.isa.gcn.state import MODE_BITS, PTR32, Mode
from softcard.isa.gcn.target import target
from tests.engine.gcn.programs import dwords, program
from tests.engine.gcn.rig import DATA, SCRATCH
from tests.isa.gcn.semantics.alu_rig import Alu

SMALL = 0x3C0 | PTR32
LDS = 0x1_0000
PRIVATE = 0x2_0000
"""Apertures: what a dispatch has without saying so, read as those of 32 bits."""
ADD = {"gfx700": "v_add_i32 {0}, vcc,", "gfx803": "v_add_u32 {0}, vcc,", "gfx900": "v_add_u32 {0},"}


@cache
def jit() -> Engine:
    return JitEngine(threads=1)


@pytest.fixture(params=["reference", "jit"])
def engine(request: pytest.FixtureRequest) -> Engine:
    return ReferenceEngine() if request.param == "reference" else jit()


every_gpu = pytest.mark.parametrize("gpu", ADD)


def small(text: str, gpu: str = "gfx900", **options: Any) -> Dispatch:
    """A program with PTR32. ``add v1,`` is the addition of its generation; v3 is 4 * lane, v9 unused and all ones."""
    for register in range(20):
        text = text.replace(f"add v{register},", ADD[gpu].format(f"v{register}"))
    head = "s_mov_b32 m0, -1 | v_lshlrev_b32 v3, 2, v0 | v_mov_b32 v9, -1 |"
    return program(head + text + "| s_endpgm", gpu, mode=SMALL, lds_bytes=512, **options)


def with_private(text: str, gpu: str, lane_bytes: int = 32) -> Dispatch:
    made = small(text, gpu, scratch_base=SCRATCH, scratch_lane_bytes=lane_bytes, scratch_slots=1)
    made.memory.map(SCRATCH, Ram(64 * lane_bytes), name="scratch")
    return made


@every_gpu
def test_flat_reads_one_register(gpu: str, engine: Engine) -> None:
    made = small(
        """v_mov_b32 v8, 0x200000 | add v8, v8, v3 | flat_store_dword v[8:9], v0 | flat_atomic_add v[8:9], v0
        s_waitcnt vmcnt(0) lgkmcnt(0) | flat_load_dword v4, v[8:9] | s_waitcnt vmcnt(0) lgkmcnt(0)
        add v4, 1, v4 | v_mov_b32 v8, 0x200100 | add v8, v8, v3 | flat_store_dword v[8:9], v4""",
        gpu,
    )
    engine.run(made)
    assert dwords(made, 64) == [2 * lane for lane in range(64)]
    assert dwords(made, 64, 0x100) == [2 * lane + 1 for lane in range(64)]


def test_the_last_register_is_none() -> None:
    """Decoding does not know the mode, and an address of 64 bits cannot begin there."""
    with pytest.raises(IllegalInstruction, match="v255 cannot begin 2 registers"):
        decode(target("gfx803"), [0xDC70_0000, 0xFF])


@every_gpu
def test_flat_reaches_lds(gpu: str, engine: Engine) -> None:
    made = small(
        f"""v_mov_b32 v8, {LDS:#x} | add v8, v8, v3 | flat_store_dword v[8:9], v0 | s_waitcnt lgkmcnt(0)
        ds_read_b32 v4, v3 | s_waitcnt lgkmcnt(0) | add v4, 5, v4
        ds_write_b32 v3, v4 offset:256 | s_waitcnt lgkmcnt(0)
        v_mov_b32 v8, {LDS + 256:#x} | add v8, v8, v3 | flat_load_dword v5, v[8:9] | s_waitcnt vmcnt(0) lgkmcnt(0)
        v_mov_b32 v8, {DATA:#x} | add v8, v8, v3 | flat_store_dword v[8:9], v5""",
        gpu,
    )
    engine.run(made)
    assert dwords(made, 64) == [lane + 5 for lane in range(64)]


@every_gpu
def test_flat_reaches_private_memory(gpu: str, engine: Engine) -> None:
    made = with_private(
        f"""v_mov_b32 v8, {PRIVATE + 8:#x} | flat_store_dword v[8:9], v3 | s_waitcnt vmcnt(0) lgkmcnt(0)
        flat_load_ubyte v5, v[8:9] | s_waitcnt vmcnt(0) lgkmcnt(0)
        v_mov_b32 v8, {DATA:#x} | add v8, v8, v3 | flat_store_dword v[8:9], v5""",
        gpu,
    )
    engine.run(made)
    assert dwords(made, 64) == [4 * lane & 0xFF for lane in range(64)]
    swizzled = np.frombuffer(made.memory.read(SCRATCH + 2 * 256, 256), np.uint32)
    assert swizzled.tolist() == [4 * lane for lane in range(64)]


@every_gpu
def test_lanes_in_three_segments_at_once(gpu: str, engine: Engine) -> None:
    """Lanes 0 mod 3 go to memory, 1 to LDS, 2 to private memory."""
    pick = " | ".join(
        f"v_cmp_eq_u32 vcc, {number}, v5 | v_mov_b32 v6, {base:#x} | v_cndmask_b32 v8, v8, v6, vcc"
        for number, base in enumerate((DATA, LDS, PRIVATE))
    )
    made = with_private(
        f"""v_mul_u32_u24 v5, 0x56, v0 | v_lshrrev_b32 v5, 8, v5 | v_mul_u32_u24 v5, 3, v5 | v_mov_b32 v6, v0
        {"v_sub_i32 v5, vcc, v6, v5" if gpu == "gfx700" else "v_sub_u32 v5, vcc, v6, v5" if gpu == "gfx803"
         else "v_sub_u32 v5, v6, v5"} | v_mov_b32 v8, 0 | {pick}
        v_cmp_ne_u32 vcc, 2, v5 | v_cndmask_b32 v6, 0, v3, vcc | add v8, v8, v6 | flat_store_dword v[8:9], v0
        s_waitcnt vmcnt(0) lgkmcnt(0) | flat_load_dword v7, v[8:9] | s_waitcnt vmcnt(0) lgkmcnt(0)
        v_mov_b32 v8, {DATA + 0x400:#x} | add v8, v8, v3 | flat_store_dword v[8:9], v7""",
        gpu,
    )  # fmt: skip
    engine.run(made)
    assert dwords(made, 64, 0x400) == list(range(64))
    assert dwords(made, 64) == [lane if lane % 3 == 0 else 0 for lane in range(64)]


@every_gpu
def test_scalar_loads_read_one_register(gpu: str, engine: Engine) -> None:
    offset = "0x2" if gpu == "gfx700" else "0x8"
    made = small(
        f"""s_mov_b32 s4, {DATA:#x} | s_mov_b32 s5, -1 | s_load_dword s6, s[4:5], {offset} | s_waitcnt lgkmcnt(0)
        v_mov_b32 v4, s6 | v_mov_b32 v8, {DATA:#x} | flat_store_dword v[8:9], v4""",
        gpu,
    )
    made.memory.write(DATA + 8, b"\x21\x43\x65\x07")
    engine.run(made)
    assert dwords(made, 1) == [0x0765_4321]


def test_global_reads_one_register_of_either_kind(engine: Engine) -> None:
    made = small(
        f"""v_mov_b32 v8, {DATA:#x} | add v8, v8, v3 | global_store_dword v[8:9], v0, off offset:-4
        s_mov_b32 s4, {DATA:#x} | s_mov_b32 s5, -1 | v_add_u32 v4, 0x100, v3
        global_store_dword v4, v3, s[4:5] offset:4"""
    )
    made.memory.map(DATA - 4096, Ram(4096), name="before")
    engine.run(made)
    assert dwords(made, 63) == list(range(1, 64))
    assert dwords(made, 64, 0x104) == [4 * lane for lane in range(64)]


def test_scratch_instructions_are_no_pointers(engine: Engine) -> None:
    made = with_private(
        """v_mov_b32 v8, 12 | scratch_store_dword v8, v0, off offset:4 | v_mov_b32 v8, 0x20010
        flat_load_dword v5, v[8:9] | v_mov_b32 v8, 0x200000 | add v8, v8, v3 | flat_store_dword v[8:9], v5""",
        "gfx900",
    )
    engine.run(made)
    assert dwords(made, 64) == list(range(64))


def test_buffers_keep_their_form(engine: Engine) -> None:
    """A V# with base 0 makes segment addresses buffer offsets: what the document has for the small model."""
    made = small(
        f"""s_mov_b32 s4, 0 | s_mov_b32 s5, 0 | s_mov_b32 s6, -1 | s_mov_b32 s7, 0x27fac
        v_mov_b32 v8, {DATA:#x} | add v8, v8, v3 | buffer_store_dword v0, v8, s[4:7], 0 offen"""
    )
    engine.run(made)
    assert dwords(made, 64) == list(range(64))


def test_apertures_as_operands() -> None:
    alu = Alu("gfx900", SMALL)
    alu.run(
        "s_mov_b64 s[4:5], src_shared_base", "s_mov_b64 s[6:7], src_private_limit", "s_mov_b32 s8, src_shared_limit"
    )
    assert (alu.s64(4), alu.s64(6), alu.s(8)) == (LDS, PRIVATE | 0xFFFF, LDS | 0xFFFF)


# ---- the bit ---------------------------------------------------------------------------------------------------------


def test_mode_keeps_it_above_the_register() -> None:
    mode = Mode.decode(SMALL)
    assert mode.ptr32
    assert not Mode.decode(SMALL & MODE_BITS).ptr32
    assert mode.encode() == SMALL


@every_gpu
@pytest.mark.parametrize("known", [True, False])
def test_setreg_leaves_it_alone(gpu: str, known: bool, engine: Engine) -> None:
    """s_setreg changes MODE, and no program sees or changes the address mode."""
    put = "s_setreg_imm32_b32 hwreg(HW_REG_MODE), 0x3f0"
    if not known:
        put = "s_movk_i32 s4, 0x3f0 | s_setreg_b32 hwreg(HW_REG_MODE), s4"
    made = small(
        f"""{put} | s_getreg_b32 s5, hwreg(HW_REG_MODE) | v_mov_b32 v4, s5 | v_mov_b32 v8, 0x200000
        flat_store_dword v[8:9], v4""",
        gpu,
    )
    engine.run(made)
    assert dwords(made, 1) == [0x3F0]


@every_gpu
def test_one_code_under_both_modes(gpu: str, engine: Engine) -> None:
    """Translations depend on the mode: with 64-bit pointers the next register is part of the address."""
    made = small("v_mov_b32 v8, 0x200000 | v_mov_b32 v9, 1 | flat_store_dword v[8:9], v3", gpu)
    large = Dispatch(
        made.target, made.memory, made.entry, made.shapes, made.groups, group_id_sgprs=made.group_id_sgprs,
        step_limit=made.step_limit,
    )  # fmt: skip
    made.memory.map(DATA + (1 << 32), Ram(4096), name="far data")
    for _ in range(2):
        engine.run(made)
        assert made.memory.read(DATA, 4) != bytes(4)
        assert made.memory.read(DATA + (1 << 32), 4) == bytes(4)
        made.memory.write(DATA, bytes(4))
        engine.run(large)
        assert made.memory.read(DATA, 4) == bytes(4)
        assert made.memory.read(DATA + (1 << 32), 4) != bytes(4)
        made.memory.write(DATA + (1 << 32), bytes(4))


# ---- faults ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "message", "address"),
    [
        ("v_mov_b32 v8, -4 | flat_load_dword v4, v[8:9] offset:8", "no memory there, at lane 0", 0x1_0000_0004),
        (
            "v_mov_b32 v8, 8 | global_load_dword v4, v[8:9], off offset:-16",
            "the address exceeds the 48 bits of the address space",
            (1 << 64) - 8,
        ),
        (f"v_mov_b32 v8, {LDS:#x} | global_load_dword v4, v[8:9], off", "no memory there", LDS),
        ("s_mov_b32 s4, -4 | s_load_dword s6, s[4:5], 0x10", "no memory there", 0x1_0000_000C),
        (
            f"v_mov_b32 v8, {PRIVATE + 32:#x} | flat_load_dword v4, v[8:9]",
            "0x20020 is out of bounds: a lane has 0x20 bytes",
            PRIVATE + 32,
        ),
        (
            f"v_mov_b32 v8, {PRIVATE:#x} | flat_atomic_add_x2 v[8:9], v[4:5]",
            "atomic of 8 bytes at 0x20000: private memory has only atomics of 4 bytes",
            PRIVATE,
        ),
    ],
)
def test_faults_name_the_pointer(text: str, message: str, address: int, engine: Engine) -> None:
    made = with_private(text, "gfx900")
    with pytest.raises(AccessFault, match=message) as caught:
        engine.run(made)
    assert caught.value.address == address


def test_beyond_lds_reads_0(engine: Engine) -> None:
    made = small(
        f"""v_mov_b32 v8, {LDS + 0xFFFC:#x} | v_mov_b32 v4, 1 | flat_load_dword v4, v[8:9]
        v_mov_b32 v8, {DATA:#x} | flat_store_dword v[8:9], v4"""
    )
    made.memory.write(DATA, b"\xff" * 4)
    engine.run(made)
    assert dwords(made, 1) == [0]
