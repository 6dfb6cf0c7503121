"""SOPP: branches, waits, messages and other control of the wave (manuals: "Scalar ALU operations")."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from softcard.isa.gcn.builder import Builder
from softcard.isa.gcn.insn import Execution, Insn, ops
from softcard.isa.gcn.semantics import control as flow
from softcard.isa.gcn.state import EXEC, HW_STATUS, VCC
from softcard.isa.gcn.word import Word

Condition = Callable[[Builder], Word]

COND_DBG_USER: Final = 20
COND_DBG_SYS: Final = 21
"""The number of the bit COND_DBG_SYS of the STATUS register."""


def branch_where(condition: Condition) -> Execution:
    """Return the semantics of a branch to the immediate address, taken if `condition(b)` is 1."""
    return lambda b, i: b.branch(condition(b), flow.branch_target(i))


def zero(n: int) -> Condition:
    """Return the condition that the scalar register pair starting at SGPR `n` is 0."""
    return lambda b: b.s64(n) == 0


def not_zero(n: int) -> Condition:
    """Return the condition that the scalar register pair starting at SGPR `n` is not 0."""
    return lambda b: b.s64(n) != 0


def status(b: Builder, bit: int) -> Word:
    """Return the value of bit number `bit` of the STATUS register."""
    return b.hwreg(HW_STATUS)[bit]


def hint(what: str) -> Execution:
    """Return the semantics of `what`, an operation that affects no result (such as a priority or a sleep)."""
    return lambda b, i: b.hint(what, i["simm16"] & 0xFFFF)


def end(b: Builder, i: Insn) -> None:
    """Execute s_endpgm: end the wave."""
    b.end()


def waitcnt(b: Builder, i: Insn) -> None:
    """Execute s_waitcnt: wait for memory operations."""
    b.order("waitcnt", i["simm16"] & 0xFFFF)


def sendmsghalt(b: Builder, i: Insn) -> None:
    """Execute s_sendmsghalt: send a message, then halt."""
    b.hint("sendmsg", i["simm16"] & 0xFFFF)
    b.hint("halt")


# fmt: off
OPS: Final = ops("sopp", (
    # name                        GFX7  GFX8  GFX9  -     meaning
    ("s_nop",                     0x00, 0x00, 0x00, None, lambda b, i: b.hint("nop")),
    ("s_endpgm",                  0x01, 0x01, 0x01, None, end),
    ("s_branch",                  0x02, 0x02, 0x02, None, lambda b, i: b.jump(flow.branch_target(i))),
    ("s_wakeup",                  None, 0x03, 0x03, None, hint("wakeup")),
    ("s_cbranch_scc0",            0x04, 0x04, 0x04, None, branch_where(lambda b: ~b.scc())),
    ("s_cbranch_scc1",            0x05, 0x05, 0x05, None, branch_where(lambda b: b.scc())),
    ("s_cbranch_vccz",            0x06, 0x06, 0x06, None, branch_where(zero(VCC))),
    ("s_cbranch_vccnz",           0x07, 0x07, 0x07, None, branch_where(not_zero(VCC))),
    ("s_cbranch_execz",           0x08, 0x08, 0x08, None, branch_where(zero(EXEC))),
    ("s_cbranch_execnz",          0x09, 0x09, 0x09, None, branch_where(not_zero(EXEC))),
    ("s_barrier",                 0x0A, 0x0A, 0x0A, None, lambda b, i: b.barrier()),
    ("s_setkill",                 0x0B, 0x0B, 0x0B, None, hint("setkill")),
    ("s_waitcnt",                 0x0C, 0x0C, 0x0C, None, waitcnt),
    ("s_sethalt",                 0x0D, 0x0D, 0x0D, None, hint("sethalt")),
    ("s_sleep",                   0x0E, 0x0E, 0x0E, None, hint("sleep")),
    ("s_setprio",                 0x0F, 0x0F, 0x0F, None, hint("setprio")),
    ("s_sendmsg",                 0x10, 0x10, 0x10, None, hint("sendmsg")),
    ("s_sendmsghalt",             0x11, 0x11, 0x11, None, sendmsghalt),
    ("s_trap",                    0x12, 0x12, 0x12, None, lambda b, i: b.trap(i["simm16"] & 0xFF)),
    ("s_icache_inv",              0x13, 0x13, 0x13, None, hint("icache_inv")),
    ("s_incperflevel",            0x14, 0x14, 0x14, None, hint("incperflevel")),
    ("s_decperflevel",            0x15, 0x15, 0x15, None, hint("decperflevel")),
    ("s_ttracedata",              0x16, 0x16, 0x16, None, hint("ttracedata")),
    ("s_cbranch_cdbgsys",         0x17, 0x17, 0x17, None, branch_where(lambda b: status(b, COND_DBG_SYS))),
    ("s_cbranch_cdbguser",        0x18, 0x18, 0x18, None, branch_where(lambda b: status(b, COND_DBG_USER))),
    ("s_cbranch_cdbgsys_or_user", 0x19, 0x19, 0x19, None,
        branch_where(lambda b: status(b, COND_DBG_SYS) | status(b, COND_DBG_USER))),
    ("s_cbranch_cdbgsys_and_user", 0x1A, 0x1A, 0x1A, None,
        branch_where(lambda b: status(b, COND_DBG_SYS) & status(b, COND_DBG_USER))),
    ("s_endpgm_saved",            None, 0x1B, 0x1B, None, end),
    ("s_set_gpr_idx_off",         None, 0x1C, 0x1C, None, flow.set_gpr_idx_off),
    ("s_set_gpr_idx_mode",        None, 0x1D, 0x1D, None, flow.set_gpr_idx_mode),
    ("s_endpgm_ordered_ps_done",  None, None, 0x1E, None, end),
))
# fmt: on
