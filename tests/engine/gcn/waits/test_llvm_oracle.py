"""What is missed between two instructions is what LLVM inserts there: single pairs, as its own machine code."""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest

from softcard.isa.gcn.hazards import hazard
from tests.engine.gcn.waits.planted import PROCESSORS, look

LLC = shutil.which("llc-16")
pytestmark = [
    pytest.mark.oracle,
    pytest.mark.skipif(LLC is None, reason="needs llc-16 (package llvm-16)"),
]
MODULE = """--- |
  define amdgpu_kernel void @f() {{ ret void }}
...
---
name: f
machineFunctionInfo:
  isEntryFunction: true
body: |
  bb.0:
    {}
    S_ENDPGM 0
...
"""
BUFFER = "$sgpr12_sgpr13_sgpr14_sgpr15"
LANES = ", implicit $exec"
LDS = ", implicit $m0, implicit $exec"
MODE = ", implicit-def $mode, implicit $mode"
# By what is written: an instruction as LLVM's machine code, and as text.
LOAD = (f"$vgpr4 = BUFFER_LOAD_DWORD_OFFSET {BUFFER}, 0, 0, 0, 0{LANES}", "buffer_load_dword v4, off, s[12:15], 0")
LOAD5 = (f"$vgpr5 = BUFFER_LOAD_DWORD_OFFSET {BUFFER}, 0, 0, 0, 0{LANES}", "buffer_load_dword v5, off, s[12:15], 0")
STORE = (
    f"BUFFER_STORE_DWORD_OFFSET $vgpr4, {BUFFER}, 0, 0, 0, 0{LANES}",
    "buffer_store_dword v4, off, s[12:15], 0",
)
STORE1 = (
    f"BUFFER_STORE_DWORD_OFFSET $vgpr1, {BUFFER}, 0, 0, 0, 0{LANES}",
    "buffer_store_dword v1, off, s[12:15], 0",
)
WIDE = (
    f"BUFFER_STORE_DWORDX4_OFFSET $vgpr4_vgpr5_vgpr6_vgpr7, {BUFFER}, 0, 0, 0, 0{LANES}",
    "buffer_store_dwordx4 v[4:7], off, s[12:15], 0",
)
FLAT = (
    f"$vgpr4 = FLAT_LOAD_DWORD $vgpr20_vgpr21, 0, 0{LANES}, implicit $flat_scr",
    "flat_load_dword v4, v[20:21]",
)
READ = (f"$vgpr4 = DS_READ_B32 $vgpr22, 0, 0{LDS}", "ds_read_b32 v4, v22")
READ5 = (f"$vgpr5 = DS_READ_B32 $vgpr22, 0, 0{LDS}", "ds_read_b32 v5, v22")
WRITE = (f"DS_WRITE_B32 $vgpr22, $vgpr1, 0, 0{LDS}", "ds_write_b32 v22, v1")
SCALAR = ("$sgpr20 = S_LOAD_DWORD_IMM $sgpr8_sgpr9, 0, 0", "s_load_dword s20, s[8:9], 0x0")
SCALAR21 = ("$sgpr21 = S_LOAD_DWORD_IMM $sgpr8_sgpr9, 0, 0", "s_load_dword s21, s[8:9], 0x0")
CLOCK = ("$sgpr20_sgpr21 = S_MEMTIME", "s_memtime s[20:21]")
EXPORT = (f"EXP 0, $vgpr4, $vgpr5, $vgpr6, $vgpr7, 0, 0, 15{LANES}", "exp mrt0, v4, v5, v6, v7")
BARRIER = ("S_BARRIER", "s_barrier")
USE = (f"$vgpr6 = V_MOV_B32_e32 $vgpr4{LANES}", "v_mov_b32_e32 v6, v4")
WRITE4 = (f"$vgpr4 = V_MOV_B32_e32 $vgpr6{LANES}", "v_mov_b32_e32 v4, v6")
WRITE7 = (f"$vgpr7 = V_MOV_B32_e32 $vgpr8{LANES}", "v_mov_b32_e32 v7, v8")
USE20 = ("$sgpr22 = S_MOV_B32 $sgpr20", "s_mov_b32 s22, s20")
WRITE20 = ("$sgpr20 = S_MOV_B32 1", "s_mov_b32 s20, 1")
FIRST_LANE = (f"$sgpr20 = V_READFIRSTLANE_B32 $vgpr1{LANES}", "v_readfirstlane_b32 s20, v1")
BY_SGPR = (
    f"$vgpr4 = BUFFER_LOAD_DWORD_OFFSET {BUFFER}, $sgpr20, 0, 0, 0{LANES}",
    "buffer_load_dword v4, off, s[12:15], s20",
)
LANE = ("$sgpr21 = V_READLANE_B32 $vgpr0, $sgpr20", "v_readlane_b32 s21, v0, s20")
COMPARE = (
    f"V_CMP_EQ_U32_e32 $vgpr0, $vgpr1, implicit-def $vcc{LANES}",
    "v_cmp_eq_u32_e32 vcc, v0, v1",
)
FMAS = (
    f"$vgpr4 = V_DIV_FMAS_F32_e64 0, $vgpr0, 0, $vgpr0, 0, $vgpr0, 0, 0, implicit $mode, implicit $vcc{LANES}",
    "v_div_fmas_f32 v4, v0, v0, v0",
)
SETREG = (f"S_SETREG_B32 $sgpr2, 6145{MODE}", "s_setreg_b32 hwreg(HW_REG_MODE, 0, 4), s2")
SETREG4 = (f"S_SETREG_B32 $sgpr3, 6401{MODE}", "s_setreg_b32 hwreg(HW_REG_MODE, 4, 4), s3")
GETREG = ("$sgpr20 = S_GETREG_B32 6145, implicit $mode", "s_getreg_b32 s20, hwreg(HW_REG_MODE, 0, 4)")
MOVE = (f"$vgpr4 = V_MOV_B32_e32 $vgpr0{LANES}", "v_mov_b32_e32 v4, v0")
DPP = (
    f"$vgpr5 = V_MOV_B32_dpp $vgpr5, $vgpr4, 177, 15, 15, 0{LANES}",
    "v_mov_b32_dpp v5, v4 quad_perm:[1,0,3,2] row_mask:0xf bank_mask:0xf",
)
COMPARE_EXEC = (
    f"V_CMPX_GE_U32_e32 $vgpr0, $vgpr1, implicit-def $exec, implicit-def $vcc{LANES}",
    "v_cmpx_ge_u32_e32 vcc, v0, v1",
)
M0 = ("$m0 = S_MOV_B32 0", "s_mov_b32 m0, 0")
MESSAGE = ("S_SENDMSG 1, implicit $exec, implicit $m0", "s_sendmsg sendmsg(MSG_INTERRUPT)")
MOVREL = ("$sgpr20 = S_MOVRELS_B32 $sgpr8, implicit $m0", "s_movrels_b32 s20, s8")
USE20_LANES = (f"$vgpr5 = V_MOV_B32_e32 $sgpr20{LANES}", "v_mov_b32_e32 v5, s20")

Line = tuple[str, str]
COUNTED: dict[str, tuple[Line, ...]] = {
    "load, read": (LOAD, USE),
    "load, write": (LOAD, WRITE4),
    "load, load, read": (LOAD, LOAD5, USE),
    "load, store, read": (LOAD, STORE1, USE),
    "load, load": (LOAD, LOAD),
    "load, LDS read": (LOAD, READ),
    "store, write": (STORE, WRITE4),
    "flat, read": (FLAT, USE),
    "LDS, read": (READ, USE),
    "LDS, write": (READ, WRITE4),
    "LDS, LDS, read": (READ, READ5, USE),
    "LDS, LDS store, read": (READ, WRITE, USE),
    "LDS, scalar, read": (READ, SCALAR, USE),
    "LDS store, barrier": (WRITE, BARRIER),
    "scalar, read": (SCALAR, USE20),
    "scalar, write": (SCALAR, WRITE20),
    "scalar, scalar, read": (SCALAR, SCALAR21, USE20),
    "clock, read": (CLOCK, USE20),
    "export, write": (EXPORT, WRITE4),
}
STATES: dict[str, tuple[Line, Line]] = {
    "SGPR, buffer": (FIRST_LANE, BY_SGPR),
    "SGPR, lane select": (FIRST_LANE, LANE),
    "SGPR, VALU": (FIRST_LANE, USE20_LANES),
    "SGPR, SALU": (FIRST_LANE, USE20),
    "VCC, div_fmas": (COMPARE, FMAS),
    "setreg, getreg": (SETREG, GETREG),
    "setreg, setreg": (SETREG, SETREG4),
    "wide store, write": (WIDE, WRITE7),
    "store, write": (STORE, WRITE4),
    "VGPR, DPP": (MOVE, DPP),
    "EXEC, DPP": (COMPARE_EXEC, DPP),
    "M0, message": (M0, MESSAGE),
    "M0, movrel": (M0, MOVREL),
}
NOT_THERE = {("gfx700", "VGPR, DPP"), ("gfx700", "EXEC, DPP")}
DISPUTED = {("gfx700", "SGPR, buffer")}
"""LLVM inserts nothing, Mesa does."""


def inserted(lines: tuple[Line, ...], name: str, step: str) -> list[tuple[str, int]]:
    """What a pass of LLVM puts between the last instruction and those before it: names and numbers."""
    text = MODULE.format("\n    ".join(each[0] for each in lines))
    command = [LLC or "", "-march=amdgcn", f"-mcpu={name}", "-run-pass", step, "-x", "mir", "-o", "-", "-"]
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=True, timeout=60)
    body = done.stdout[done.stdout.rindex("body:") :]
    return [(each[1].lower(), int(each[2])) for each in re.finditer(r"(S_WAITCNT|S_NOP) (\d+)", body)]


def missed(lines: tuple[Line, ...], name: str, between: str = "") -> list[str]:
    """What is enough, of each hazard that is missed."""
    *before, last = (each[1] for each in lines)
    found = look("\n".join([*before, between, last, "s_endpgm"]), name)
    return [each.need for each in found if each.is_likely]


@pytest.mark.parametrize("name", PROCESSORS.values())
@pytest.mark.parametrize("case", COUNTED)
def test_counters_are_waited_for_where_llvm_waits(case: str, name: str) -> None:
    waits = inserted(COUNTED[case], name, "si-insert-waitcnts")
    assert bool(waits) == bool(missed(COUNTED[case], name))
    for _, number in waits:
        assert missed(COUNTED[case], name, f"s_waitcnt {number:#x}") == []


@pytest.mark.parametrize("name", PROCESSORS.values())
@pytest.mark.parametrize("case", STATES)
def test_wait_states_are_those_of_llvm(case: str, name: str) -> None:
    if (name, case) in NOT_THERE:
        return
    nops = inserted(STATES[case], name, "post-RA-hazard-rec")
    found = missed(STATES[case], name)
    if (name, case) in DISPUTED:
        assert nops == []
        assert found == ["s_nop 4"]
        assert hazard("valu-sgpr-vmem").basis == "disputed"
        return
    assert found == [f"s_nop {number}" for _, number in nops]
