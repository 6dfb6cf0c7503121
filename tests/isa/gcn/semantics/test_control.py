"""Branches, calls, hardware registers, GPR indexing, moves by a computed register, fork and join, what ends a wave."""

from __future__ import annotations

import pytest

from softcard.core.errors import BeyondModel
from softcard.isa.gcn import state as gcn
from softcard.isa.gcn.state import ENDED, EXEC, M0, VCC
from tests.isa.gcn.semantics.alu_rig import FULL, GPUS, LDS_BYTES, PC, Alu

TAKEN = 4 + 4 * 5
NOT_TAKEN = 4


@pytest.mark.parametrize("gpu", GPUS[:3])
def test_branches(gpu: str) -> None:
    alu = Alu(gpu)
    assert alu.run("s_branch 5") == TAKEN
    assert alu.run("s_branch 65535") == 0
    for scc in (0, 1):
        alu.scc = scc
        assert alu.run("s_cbranch_scc1 5") == (TAKEN if scc else NOT_TAKEN)
        assert alu.run("s_cbranch_scc0 5") == (NOT_TAKEN if scc else TAKEN)
    for name, register in (("vcc", VCC), ("exec", EXEC)):
        for value in (0, 1 << 63, 1):
            alu.set_s64(register, value)
            assert alu.run(f"s_cbranch_{name}z 5") == (NOT_TAKEN if value else TAKEN)
            assert alu.run(f"s_cbranch_{name}nz 5") == (TAKEN if value else NOT_TAKEN)


@pytest.mark.parametrize("gpu", GPUS[:3])
def test_program_counter(gpu: str) -> None:
    alu = Alu(gpu)
    alu.set_s64(8, PC + 0x1_0000_0100)
    alu.run("s_getpc_b64 s[4:5]")
    assert alu.s64(4) == PC + 4
    assert alu.run("s_setpc_b64 s[8:9]") == 0x1_0000_0100
    assert alu.run("s_swappc_b64 s[8:9], s[8:9]") == 0x1_0000_0100
    assert alu.s64(8) == PC + 4
    if gpu == "gfx900":
        assert alu.run("s_call_b64 s[6:7], 5") == TAKEN
        assert alu.s64(6) == PC + 4


def test_the_end_barrier_and_trap() -> None:
    alu = Alu()
    alu.run("s_trap 2")
    assert alu.traps == [2]
    alu.run("s_barrier")
    assert alu.wave.words[gcn.STATUS] == gcn.AT_BARRIER
    alu.run("s_endpgm")
    assert alu.wave.words[gcn.STATUS] == ENDED


@pytest.mark.parametrize(
    ("text", "heard"),
    [
        ("s_sendmsg sendmsg(MSG_INTERRUPT)", [("sendmsg", 1)]),
        ("s_sendmsghalt 3", [("sendmsg", 3), ("halt", 0)]),
        ("s_sethalt 1", [("sethalt", 1)]),
        ("s_setkill 1", [("setkill", 1)]),
        ("s_icache_inv", [("icache_inv", 0)]),
        ("s_nop 3", []),
        ("s_setprio 2", []),
        ("s_wakeup", []),
        ("s_incperflevel 1", []),
        ("s_decperflevel 1", []),
        ("s_ttracedata", []),
    ],
)
def test_hints_change_nothing(text: str, heard: list[tuple[str, int]]) -> None:
    """A device hears of what concerns it, not of what is the processor's own business."""
    alu = Alu()
    before = alu.wave.block.tobytes()
    assert alu.run(text) == 4
    assert alu.hints == heard
    assert alu.wave.block.tobytes() == before


def test_a_pause_changes_only_the_count_of_pauses() -> None:
    alu = Alu()
    before = alu.wave.block.tobytes()
    assert alu.run("s_sleep 7") == 4
    assert alu.hints == []
    assert alu.wave.words[gcn.SLEPT] == 1
    alu.wave.words[gcn.SLEPT] = 0
    assert alu.wave.block.tobytes() == before


def test_waitcnt_goes_on() -> None:
    assert Alu().run("s_waitcnt vmcnt(0) lgkmcnt(0)") == 4


@pytest.mark.parametrize("gpu", GPUS[:3])
def test_getreg_and_setreg_of_mode(gpu: str) -> None:
    alu = Alu(gpu, mode=0x3C5)
    alu.run("s_getreg_b32 s4, hwreg(HW_REG_MODE)", "s_getreg_b32 s5, hwreg(HW_REG_MODE, 4, 4)")
    assert alu.s(4) == 0x3C5
    assert alu.s(5) == 0xC
    alu.run("s_setreg_imm32_b32 hwreg(HW_REG_MODE, 0, 4), 0xfa")
    assert alu.mode == 0x3CA
    alu.set_s(6, 0xFFFF_FFF3)
    alu.run("s_setreg_b32 hwreg(HW_REG_MODE, 4, 2), s6")
    assert alu.mode == 0x3FA


def test_other_hardware_registers() -> None:
    alu = Alu()
    alu.run("s_getreg_b32 s4, hwreg(HW_REG_LDS_ALLOC, 12, 9)", "s_getreg_b32 s5, hwreg(HW_REG_SH_MEM_BASES)")
    assert alu.s(4) == -(-LDS_BYTES // 512)
    assert alu.s(5) == 1 << 16 | 2
    alu.run("s_setreg_imm32_b32 hwreg(HW_REG_TRAPSTS), 0x15", "s_getreg_b32 s6, hwreg(HW_REG_TRAPSTS, 2, 4)")
    assert alu.s(6) == 5
    before = alu.wave.block.tobytes()
    alu.run("s_setreg_imm32_b32 hwreg(HW_REG_HW_ID), 0x15")
    assert alu.wave.block.tobytes() == before


def test_unknown_hardware_registers_are_beyond_the_model() -> None:
    with pytest.raises(BeyondModel, match=r"hardware register 9 is not modelled, only MODE, STATUS"):
        Alu().run("s_getreg_b32 s4, hwreg(9)")


@pytest.mark.parametrize("name", ["s_rfe_b64 s[2:3]", "s_rfe_restore_b64 s[2:3], s4"])
def test_trap_handlers_are_beyond_the_model(name: str) -> None:
    with pytest.raises(BeyondModel, match="trap handlers"):
        Alu("gfx803").run(name)


def test_debug_branches_inspect_status() -> None:
    alu = Alu()
    for name in ("sys", "user", "sys_or_user", "sys_and_user"):
        assert alu.run(f"s_cbranch_cdbg{name} 5") == NOT_TAKEN


@pytest.mark.parametrize("gpu", GPUS[:3])
def test_movrel_of_scalar_registers(gpu: str) -> None:
    alu = Alu(gpu)
    for n in range(32):
        alu.set_s(n, 100 + n)
    alu.set_s(M0, 6)
    alu.run("s_movrels_b32 s40, s4", "s_movreld_b32 s4, s1")
    assert (alu.s(40), alu.s(10)) == (110, 101)
    alu.run("s_movrels_b64 s[42:43], s[8:9]", "s_movreld_b64 s[8:9], s[0:1]")
    assert (alu.s(42), alu.s(43)) == (114, 115)
    assert (alu.s(14), alu.s(15)) == (100, 101)


@pytest.mark.parametrize("gpu", GPUS[:2])
def test_movrel_of_vector_registers(gpu: str) -> None:
    alu = Alu(gpu, exec_=FULL >> 1)
    for n in range(16):
        alu.set_v(n, [100 * n + lane for lane in range(64)])
    alu.set_s(M0, 3)
    alu.run("v_movrels_b32 v20, v4", "v_movreld_b32 v21, v5", "v_movrelsd_b32 v25, v6")
    for number, source in ((20, 7), (24, 5), (28, 9)):
        assert alu.v(number)[:63] == [100 * source + lane for lane in range(63)]
        assert alu.v(number)[63] == 0xDEAD_BEEF


@pytest.mark.parametrize("gpu", GPUS[1:3])
def test_gpr_indexing(gpu: str) -> None:
    alu = Alu(gpu)
    for n in range(16):
        alu.set_v(n, [n] * 64)
    alu.set_s(4, 0xFFFF_FF03)
    alu.set_s(M0, 0xABCD_0000)
    alu.run("s_set_gpr_idx_on s4, gpr_idx(SRC0,DST)")
    assert alu.s(M0) == 0xABCD_9003
    assert alu.mode >> 27 & 1
    alu.run("v_add_u32 v20, v1, v2" if gpu == "gfx900" else "v_add_u32 v20, vcc, v1, v2")
    assert alu.v(23) == [4 + 2] * 64
    alu.run("s_set_gpr_idx_mode gpr_idx(SRC1)")
    assert alu.s(M0) == 0xABCD_2003
    alu.set_s(5, 5)
    alu.run("s_set_gpr_idx_idx s5", "v_xor_b32 v20, v1, v2")
    assert alu.s(M0) == 0xABCD_2005
    assert alu.v(20) == [1 ^ 7] * 64
    alu.run("s_set_gpr_idx_off", "v_mov_b32 v21, v2")
    assert not alu.mode >> 27 & 1
    assert alu.v(21) == [2] * 64


def test_dpp_while_indexing_is_beyond_the_model() -> None:
    alu = Alu("gfx900")
    alu.run("s_set_gpr_idx_on s4, gpr_idx(SRC0)")
    with pytest.raises(BeyondModel, match="DPP is not modelled while GPR indexing"):
        alu.run("v_mov_b32_dpp v0, v1 row_mirror row_mask:0xf bank_mask:0xf")


@pytest.mark.parametrize("gpu", GPUS[:3])
def test_vskip_skips_vector_instructions(gpu: str) -> None:
    alu = Alu(gpu)
    alu.set_s(4, 4)
    alu.run("s_setvskip s4, 2", "v_mov_b32 v1, 7", "s_mov_b32 s5, 9")
    assert alu.v(1) == [0xDEAD_BEEF] * 64
    assert alu.s(5) == 9
    alu.run("s_setvskip s4, 3", "v_mov_b32 v1, 7")
    assert alu.v(1) == [7] * 64


@pytest.mark.parametrize("gpu", GPUS[:3])
def test_fork_and_join_run_both_sides(gpu: str) -> None:
    alu = Alu(gpu, exec_=0xFF)
    alu.set_s64(20, 0x3)
    alu.set_s64(22, PC + 0x40)
    # Two lanes pass: they go first, to the target; the six others wait for the join, with the address after the fork.
    assert alu.run("s_cbranch_g_fork s[20:21], s[22:23]") == 0x40
    assert alu.s64(EXEC) == 0x3
    assert (alu.s64(0), alu.s64(2)) == (0xFC, PC + 4)
    assert alu.mode >> 29 == 1
    alu.set_s(24, 0)
    assert alu.run("s_cbranch_join s24") == 4
    assert alu.s64(EXEC) == 0xFC
    assert alu.mode >> 29 == 0
    assert alu.run("s_cbranch_join s24") == 4
    assert alu.s64(EXEC) == 0xFC


@pytest.mark.parametrize("gpu", GPUS[:3])
def test_fork_of_the_larger_side_and_of_one_side(gpu: str) -> None:
    alu = Alu(gpu, exec_=0xFF)
    alu.set_s64(20, 0xFE)
    assert alu.run("s_cbranch_i_fork s[20:21], 5") == 4
    assert alu.s64(EXEC) == 0x01
    assert (alu.s64(0), alu.s64(2)) == (0xFE, PC + TAKEN)
    alu = Alu(gpu, exec_=0xFF)
    alu.set_s64(20, FULL)
    assert alu.run("s_cbranch_i_fork s[20:21], 5") == TAKEN
    alu.set_s64(20, 0xFF00)
    assert alu.run("s_cbranch_i_fork s[20:21], 5") == 4
    assert alu.s64(EXEC) == 0xFF
    assert alu.mode >> 29 == 0
