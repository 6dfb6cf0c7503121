"""Small kernels with one planted bug each, and the same without it.

Of the lines of a kernel, those that begin with ``-`` are left out where the bug is, those with ``+`` are there only
then. ``<`` and ``>`` mark the two instructions that the bug is about: what is not done, and what does not wait.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from softcard.engine.gcn.waits.board import Missed
from softcard.engine.gcn.waits.checker import missed, reachable
from softcard.isa.gcn.asm.assembler import assemble
from softcard.isa.gcn.encoding.decode import decode
from softcard.isa.gcn.encoding.formats import LONGEST
from softcard.isa.gcn.target import target
from tests.engine.gcn.rig import CODE, DATA, SHARED

PROCESSORS = {7: "gfx700", 8: "gfx803", 9: "gfx900"}
MODE = 0x3C0
HEAD = f"""
s_mov_b32 m0, -1
s_mov_b32 s8, {DATA:#x}
s_mov_b32 s9, 0
s_mov_b32 s12, {DATA:#x}
s_mov_b32 s13, 0
s_mov_b32 s14, 0x1000
s_mov_b32 s15, 0x27000
v_mov_b32_e32 v20, {DATA:#x}
v_mov_b32_e32 v21, 0
v_mov_b32_e32 v30, 0
v_mov_b32_e32 v31, {SHARED >> 32:#x}
v_mov_b32_e32 v1, 0
v_lshlrev_b32_e32 v22, 2, v0
s_nop 7
"""
TAIL = "s_waitcnt 0\ns_endpgm\n"
FOR_LEVEL = {
    "smem_offset": {7: "0x1", 8: "0x4", 9: "0x4"},
    "dpp": {
        7: "",
        8: "quad_perm:[1,0,3,2] row_mask:0xf bank_mask:0xf",
        9: "quad_perm:[1,0,3,2] row_mask:0xf bank_mask:0xf",
    },
}


@dataclass(frozen=True)
class Planted:
    """A kernel. `levels`: generations on which the hazard is one; `runs`: whether the engines can execute it."""

    name: str
    hazard: str
    text: str
    levels: tuple[int, ...] = (7, 8, 9)
    runs: bool = True

    def source(self, level: int, *, is_bad: bool) -> str:
        """The assembly text of one of the two."""
        left_out = "-" if is_bad else "+"
        lines = (line.strip() for line in self.text.strip().splitlines())
        body = "\n".join(line.lstrip("-+<> ") for line in lines if not line.startswith(left_out))
        return (HEAD + body + "\n" + TAIL).format(**{name: by_level[level] for name, by_level in FOR_LEVEL.items()})

    def places(self, level: int) -> tuple[int, int]:
        """The addresses of the two instructions of the bug."""
        found = []
        for mark in "<>":
            lines = [line.strip() for line in self.text.strip().splitlines() if not line.strip().startswith("-")]
            before = next(n for n, line in enumerate(lines) if line.startswith(mark))
            kept = "\n".join(line.lstrip("+<> ") for line in lines[:before])
            text = (HEAD + kept + "\n").format(**{name: each[level] for name, each in FOR_LEVEL.items()})
            labels = "\n".join(
                f"{word}:" for line in lines[before:] for word in [line.rstrip(":")] if line.endswith(":")
            )
            found.append(CODE + len(assemble(target(PROCESSORS[level]), text + labels, CODE)))
        return found[0], found[1]


PLANTED = (
    Planted("load-read", "vector-result-read", """
        < buffer_load_dword v4, off, s[12:15], 0
        - s_waitcnt vmcnt(0)
        > v_mov_b32_e32 v5, v4
    """),
    Planted("load-read-one-too-few", "vector-result-read", """
        buffer_load_dword v4, off, s[12:15], 0
        < buffer_load_dword v5, off, s[12:15], 0 offset:4
        + s_waitcnt vmcnt(1)
        - s_waitcnt vmcnt(0)
        v_mov_b32_e32 v6, v4
        > v_mov_b32_e32 v7, v5
    """),
    Planted("load-read-as-address", "vector-result-read", """
        < buffer_load_dword v4, off, s[12:15], 0
        - s_waitcnt vmcnt(0)
        > ds_read_b32 v5, v4
    """),
    Planted("load-read-on-one-path", "vector-result-read", """
        < buffer_load_dword v4, off, s[12:15], 0
        s_cmp_eq_u32 s0, 1
        s_cbranch_scc0 skip
        s_waitcnt vmcnt(0)
        skip:
        - s_waitcnt vmcnt(0)
        > v_mov_b32_e32 v5, v4
    """),
    Planted("load-read-next-turn", "vector-result-read", """
        s_mov_b32 s20, 0
        v_mov_b32_e32 v4, 0
        again:
        - s_waitcnt vmcnt(0)
        > v_mov_b32_e32 v5, v4
        < buffer_load_dword v4, off, s[12:15], 0
        s_add_u32 s20, s20, 1
        s_cmp_lt_u32 s20, 3
        s_cbranch_scc1 again
    """),
    Planted("load-overwritten", "vector-result-overwritten", """
        < buffer_load_dword v4, off, s[12:15], 0
        - s_waitcnt vmcnt(0)
        > v_mov_b32_e32 v4, 1
    """),
    Planted("load-overwritten-by-lds", "vector-result-overwritten", """
        < buffer_load_dword v4, off, s[12:15], 0
        - s_waitcnt vmcnt(0)
        > ds_read_b32 v4, v22
    """),
    Planted("atomic-result", "vector-result-read", """
        v_mov_b32_e32 v4, 1
        < buffer_atomic_add v4, off, s[12:15], 0 glc
        - s_waitcnt vmcnt(0)
        > v_readfirstlane_b32 s20, v4
    """),
    Planted("lds-read", "lds-result", """
        < ds_read_b32 v4, v22
        - s_waitcnt lgkmcnt(0)
        > v_mov_b32_e32 v5, v4
    """),
    Planted("lds-wrong-counter", "lds-result", """
        < ds_read_b32 v4, v22
        + s_waitcnt vmcnt(0)
        - s_waitcnt lgkmcnt(0)
        > v_mov_b32_e32 v5, v4
    """),
    Planted("lds-behind-scalar", "mixed-result", """
        < ds_read_b32 v4, v22
        s_load_dword s20, s[8:9], 0x0
        + s_waitcnt lgkmcnt(1)
        - s_waitcnt lgkmcnt(0)
        > v_mov_b32_e32 v5, v4
    """),
    Planted("scalar-read", "scalar-result", """
        < s_load_dword s20, s[8:9], 0x0
        - s_waitcnt lgkmcnt(0)
        > s_mov_b32 s21, s20
    """),
    Planted("scalar-out-of-order", "scalar-result", """
        < s_load_dword s20, s[8:9], 0x0
        s_load_dword s22, s[8:9], {smem_offset}
        + s_waitcnt lgkmcnt(1)
        - s_waitcnt lgkmcnt(0)
        > s_mov_b32 s21, s20
    """),
    Planted("scalar-overwritten", "scalar-result", """
        < s_load_dword s20, s[8:9], 0x0
        - s_waitcnt lgkmcnt(0)
        > s_mov_b32 s20, 1
    """),
    Planted("scalar-read-as-pair", "scalar-result", """
        < s_load_dwordx2 s[20:21], s[8:9], 0x0
        - s_waitcnt lgkmcnt(0)
        > s_mov_b64 s[22:23], s[20:21]
    """),
    Planted("clock", "scalar-result", """
        < s_memtime s[20:21]
        - s_waitcnt lgkmcnt(0)
        > v_mov_b32_e32 v4, s20
    """),
    Planted("flat-memory", "flat-result", """
        < flat_load_dword v4, v[20:21]
        + s_waitcnt lgkmcnt(0)
        - s_waitcnt vmcnt(0)
        > v_mov_b32_e32 v5, v4
    """),
    Planted("flat-neither", "flat-result", """
        < flat_load_dword v4, v[20:21]
        - s_waitcnt vmcnt(0) lgkmcnt(0)
        > v_mov_b32_e32 v5, v4
    """),
    Planted("export", "export-data", """
        < exp mrt0, v4, v5, v6, v7
        - s_waitcnt expcnt(0)
        > v_mov_b32_e32 v4, 1
    """, runs=False),
    Planted("gds", "gds-data", """
        < ds_write_b32 v22, v4 gds
        - s_waitcnt expcnt(0)
        > v_mov_b32_e32 v4, 1
    """, runs=False),
    Planted("barrier", "lds-store-barrier", """
        < ds_write_b32 v22, v0
        - s_waitcnt lgkmcnt(0)
        > s_barrier
    """),
    Planted("lds-dma", "lds-dma", """
        < buffer_load_dword off, s[12:15], 0 lds
        - s_waitcnt vmcnt(0)
        > ds_read_b32 v4, v22
    """, runs=False),
    Planted("scalar-store", "scalar-store-end", """
        < s_store_dword s0, s[8:9], 0x0
        - s_dcache_wb
        s_waitcnt 0
        > s_endpgm
    """, (8, 9)),
    Planted("sgpr-buffer", "valu-sgpr-vmem", """
        < v_readfirstlane_b32 s20, v1
        + s_nop 3
        - s_nop 4
        > buffer_load_dword v4, off, s[12:15], s20
    """),
    Planted("sgpr-buffer-after-branch", "valu-sgpr-vmem", """
        < v_readfirstlane_b32 s20, v1
        s_cmp_eq_u32 s0, 0
        s_cbranch_scc1 far
        s_nop 4
        far:
        - s_nop 2
        > buffer_load_dword v4, off, s[12:15], s20
    """),
    Planted("lane-select", "valu-lane-select", """
        < v_readfirstlane_b32 s20, v1
        + s_nop 2
        - s_nop 3
        > v_readlane_b32 s21, v0, s20
    """),
    Planted("div-fmas", "valu-vcc-div-fmas", """
        < v_cmp_eq_u32_e32 vcc, v0, v1
        + s_nop 2
        - s_nop 3
        > v_div_fmas_f32 v4, v0, v0, v0
    """),
    Planted("vccz", "valu-vccz-execz", """
        < v_cmp_eq_u32_e32 vcc, v0, v1
        + s_nop 3
        - s_nop 4
        > v_mov_b32_e32 v4, vccz
    """, runs=False),
    Planted("setreg-getreg", "setreg-getreg", """
        < s_setreg_imm32_b32 hwreg(HW_REG_MODE, 0, 4), 0
        + s_nop 0
        - s_nop 1
        > s_getreg_b32 s20, hwreg(HW_REG_MODE, 0, 4)
    """),
    Planted("setreg-setreg", "setreg-setreg", """
        < s_setreg_imm32_b32 hwreg(HW_REG_MODE, 0, 4), 0
        - s_nop 1
        > s_setreg_imm32_b32 hwreg(HW_REG_MODE, 4, 4), 12
    """),
    Planted("setvskip-getreg", "setvskip-getreg", """
        < s_setvskip s0, 31
        - s_nop 1
        > s_getreg_b32 s20, hwreg(HW_REG_MODE)
    """, runs=False),
    Planted("vskip", "setreg-vskip", """
        < s_setreg_imm32_b32 hwreg(HW_REG_MODE, 28, 1), 0
        + s_nop 0
        - s_nop 1
        > v_mov_b32_e32 v4, v0
    """),
    Planted("wide-store", "wide-store-data", """
        v_mov_b32_e32 v4, 0
        v_mov_b32_e32 v5, 0
        v_mov_b32_e32 v6, 0
        v_mov_b32_e32 v7, 0
        < buffer_store_dwordx4 v[4:7], off, s[12:15], 0
        - s_nop 0
        > v_mov_b32_e32 v7, 1
    """),
    Planted("dpp", "valu-dpp", """
        < v_mov_b32_e32 v4, v0
        + s_nop 0
        - s_nop 1
        > v_mov_b32_dpp v5, v4 {dpp}
    """, (8, 9)),
    Planted("exec-dpp", "valu-exec-dpp", """
        < v_cmpx_ge_u32_e32 vcc, v0, v1
        + s_nop 3
        - s_nop 4
        > v_mov_b32_dpp v5, v0 {dpp}
    """, (8, 9)),
    Planted("trapsts", "setreg-trapsts-rfe", """
        < s_setreg_imm32_b32 hwreg(HW_REG_TRAPSTS, 0, 4), 0
        - s_nop 0
        > s_rfe_b64 s[8:9]
    """, (8, 9), runs=False),
    Planted("message", "m0-message", """
        < s_mov_b32 m0, 0
        - s_nop 0
        > s_sendmsg sendmsg(MSG_INTERRUPT)
    """, (8, 9)),
    Planted("add-tid", "m0-lds-direct", """
        < s_mov_b32 m0, 0
        - s_nop 0
        > ds_read_addtid_b32 v4
    """, (9,)),
    Planted("movrel", "m0-movrel", """
        < s_mov_b32 m0, 0
        - s_nop 0
        > s_movrels_b32 s20, s8
    """, (9,)),
    Planted("scalar-clause", "scalar-clause", """
        < s_load_dword s20, s[8:9], 0x0
        - s_nop 0
        > s_load_dword s8, s[8:9], 0x4
    """, (9,)),
    Planted("vector-clause", "vector-clause", """
        < global_load_dword v4, v[20:21], off
        - s_nop 0
        > global_load_dword v20, v[20:21], off offset:4
    """, (9,)),
)  # fmt: skip


def cases(*, runs: bool = False) -> list[Any]:
    """Each kernel on each generation that it is for, as parameters; with `runs`, those that can be executed."""
    return [
        pytest.param(each, level, id=f"{each.name}-{PROCESSORS[level]}")
        for each in PLANTED
        if each.runs or not runs
        for level in each.levels
    ]


def look(text: str, name: str) -> list[Missed]:
    """What is missed in assembly text; statements may be separated by bars."""
    processor = target(name)
    code = assemble(processor, text.replace("|", "\n"), CODE)
    entries = [(CODE, MODE)]
    return missed(reachable(entries, lambda pc: decode(processor, code[pc - CODE : pc - CODE + LONGEST], pc)), entries)
