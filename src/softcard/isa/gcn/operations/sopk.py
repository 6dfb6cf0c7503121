"""SOPK: scalar operations with a 16-bit immediate (manuals: "Scalar ALU operations").

The register field is a source in the comparisons, and both source and destination in s_addk and s_mulk.
"""

from __future__ import annotations

from operator import eq, ge, gt, le, lt, mul, ne
from typing import Final

from softcard.core.errors import BeyondModel
from softcard.isa.gcn.builder import Builder
from softcard.isa.gcn.insn import Insn, ops
from softcard.isa.gcn.semantics import control as flow
from softcard.isa.gcn.semantics import integer as n
from softcard.isa.gcn.state import HW_MODE, HW_TRAPSTS, HW_XCC_ID
from softcard.isa.gcn.word import Word

HWREGS: Final = {
    1: "MODE", 2: "STATUS", 3: "TRAPSTS", 4: "HW_ID", 5: "GPR_ALLOC", 6: "LDS_ALLOC", 7: "IB_STS", 15: "SH_MEM_BASES",
    HW_XCC_ID: "XCC_ID",
}  # fmt: skip
"""The names of hardware registers by id. SH_MEM_BASES exists on GFX9, XCC_ID on gfx942 and later."""
WRITABLE: Final = {HW_MODE, HW_TRAPSTS}
"""The ids of the hardware registers that s_setreg may change; writes to others are ignored."""


def place(i: Insn) -> tuple[int, int, int]:
    """Return the register id, first bit and number of bits that the immediate of s_getreg or s_setreg specifies.

    The immediate holds the id in bits 5:0, the first bit in 10:6, and the number of bits - 1 in 15:11."""
    word = i["simm16"] & 0xFFFF
    number, at, size = word & 0x3F, word >> 6 & 0x1F, (word >> 11 & 0x1F) + 1
    known = HWREGS if i.target.has_xccs else {each: name for each, name in HWREGS.items() if each != HW_XCC_ID}
    if number not in known:
        raise BeyondModel(f"hardware register {number} is not modelled, only {', '.join(known.values())}")
    return number, at, min(size, 32 - at)


def getreg(b: Builder, i: Insn) -> None:
    """Execute s_getreg_b32: sdst = bits of a hardware register."""
    number, at, size = place(i)
    b.set_s(i["sdst"], b.hwreg(number)[at + size - 1 : at])


def put(b: Builder, i: Insn, value: Word) -> None:
    """Write the low bits of `value` to the bits of a hardware register that the immediate of `i` selects."""
    number, at, size = place(i)
    if number in WRITABLE:
        b.set_hwreg(number, flow.field(b.hwreg(number), at, size, value))


def setreg(b: Builder, i: Insn) -> None:
    """Execute s_setreg_b32: set bits of a hardware register from a scalar register."""
    put(b, i, b.s(i["sdst"]))


def setreg_imm32(b: Builder, i: Insn) -> None:
    """Execute s_setreg_imm32_b32: set bits of a hardware register from the literal."""
    put(b, i, b.const(32, i.literal or 0))


def call(b: Builder, i: Insn) -> None:
    """Execute s_call_b64: sdst = address of the next instruction; go to the immediate address."""
    b.set_s64(i["sdst"], b.const(64, i.next_pc))
    b.jump(flow.branch_target(i))


# fmt: off
OPS: Final = ops("sopk", (
    # name                 GFX7  GFX8  GFX9  signature             meaning
    ("s_movk_i32",         0x00, 0x00, 0x00, "i32 = simm",         lambda k: k),
    ("s_cmovk_i32",        0x02, 0x01, 0x01, "i32 = simm old scc", lambda k, old, c: c.select(k, old)),
    ("s_cmpk_eq_i32",      0x03, 0x02, 0x02, "scc = i32 simm",     eq),
    ("s_cmpk_lg_i32",      0x04, 0x03, 0x03, "scc = i32 simm",     ne),
    ("s_cmpk_gt_i32",      0x05, 0x04, 0x04, "scc = i32 simm",     lambda a, k: k.slt(a)),
    ("s_cmpk_ge_i32",      0x06, 0x05, 0x05, "scc = i32 simm",     lambda a, k: k.sle(a)),
    ("s_cmpk_lt_i32",      0x07, 0x06, 0x06, "scc = i32 simm",     Word.slt),
    ("s_cmpk_le_i32",      0x08, 0x07, 0x07, "scc = i32 simm",     Word.sle),
    ("s_cmpk_eq_u32",      0x09, 0x08, 0x08, "scc = u32 uimm",     eq),
    ("s_cmpk_lg_u32",      0x0A, 0x09, 0x09, "scc = u32 uimm",     ne),
    ("s_cmpk_gt_u32",      0x0B, 0x0A, 0x0A, "scc = u32 uimm",     gt),
    ("s_cmpk_ge_u32",      0x0C, 0x0B, 0x0B, "scc = u32 uimm",     ge),
    ("s_cmpk_lt_u32",      0x0D, 0x0C, 0x0C, "scc = u32 uimm",     lt),
    ("s_cmpk_le_u32",      0x0E, 0x0D, 0x0D, "scc = u32 uimm",     le),
    ("s_addk_i32",         0x0F, 0x0E, 0x0E, "i32 scc = simm old", n.signed_sum),
    ("s_mulk_i32",         0x10, 0x0F, 0x0F, "i32 = simm old",     mul),
    ("s_cbranch_i_fork",   0x11, 0x10, 0x10, None,                 flow.i_fork, {"concrete": True}),
    ("s_getreg_b32",       0x12, 0x11, 0x11, None,                 getreg),
    ("s_setreg_b32",       0x13, 0x12, 0x12, None,                 setreg),
    ("s_getreg_regrd_b32", 0x14, None, None, None,                 flow.unknown),
    ("s_setreg_imm32_b32", 0x15, 0x14, 0x14, None,                 setreg_imm32),
    ("s_call_b64",         None, None, 0x15, None,                 call),
))
# fmt: on
