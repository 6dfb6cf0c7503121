"""Semantics of scalar operations with side effects: jumps, GPR indexing, relative moves, fork and join."""

from __future__ import annotations

from typing import Final

from softcard.core.errors import BeyondModel
from softcard.isa.gcn.builder import Builder
from softcard.isa.gcn.insn import Execution, Insn
from softcard.isa.gcn.semantics import source
from softcard.isa.gcn.state import EXEC, HW_MODE, M0
from softcard.isa.gcn.word import Word

GPR_IDX_EN: Final = 27
VSKIP: Final = 28
CSP: Final = 29
"""The first bit of the field CSP of MODE: the depth of the fork stack, 3 bits."""


def getpc(b: Builder, i: Insn) -> None:
    """Execute s_getpc: sdst = address of the next instruction."""
    b.set_s64(i["sdst"], b.const(64, i.next_pc))


def setpc(b: Builder, i: Insn) -> None:
    """Execute s_setpc: go to the address in ssrc0."""
    b.jump_to(source.scalar(b, i, i["ssrc0"], "b64"))


def swappc(b: Builder, i: Insn) -> None:
    """Execute s_swappc: sdst = address of the next instruction; go to the address in ssrc0."""
    target = source.scalar(b, i, i["ssrc0"], "b64")
    b.set_s64(i["sdst"], b.const(64, i.next_pc))
    b.jump_to(target)


def rfe(b: Builder, i: Insn) -> None:
    """Execute s_rfe: return from the trap handler."""
    raise BeyondModel(f"{i.name}: trap handlers are not modelled")


def unknown(b: Builder, i: Insn) -> None:
    """Raise `BeyondModel` for an operation that the manuals name but do not explain."""
    raise BeyondModel(f"{i.name} is not modelled: the manuals do not describe it")


def field(value: Word, at: int, bits: int, new: Word | int) -> Word:
    """Return `value` with the `bits` bits from bit `at` on replaced by `new`."""
    ones = (1 << bits) - 1
    return value & ~(ones << at) | ((value.const(new) if isinstance(new, int) else new) & ones) << at


def set_mode_bit(b: Builder, bit: int, value: Word | int) -> None:
    """Set bit number `bit` of MODE to `value`."""
    b.set_hwreg(HW_MODE, field(b.hwreg(HW_MODE), bit, 1, value))


def setvskip(b: Builder, i: Insn) -> None:
    """Execute s_setvskip: VSKIP = the bit of ssrc0 whose number is ssrc1[4:0].

    While VSKIP is set, vector and memory instructions are skipped.
    """
    word, bit = (source.scalar(b, i, i[name], "b32") for name in ("ssrc0", "ssrc1"))
    set_mode_bit(b, VSKIP, word >> bit[4:0])


def set_gpr_idx_on(b: Builder, i: Insn) -> None:
    """Execute s_set_gpr_idx_on: set M0[7:0] = ssrc0 and M0[15:12] = the four bits in the field ssrc1.

    From then on M0[7:0] is added to the vector register numbers of the operands that M0[15:12] selects."""
    m0 = field(b.s(M0), 0, 8, source.scalar(b, i, i["ssrc0"], "b32"))
    b.set_s(M0, field(m0, 12, 4, i["ssrc1"]))
    set_mode_bit(b, GPR_IDX_EN, 1)


def set_gpr_idx_off(b: Builder, i: Insn) -> None:
    """Execute s_set_gpr_idx_off: vector register numbers become absolute again."""
    set_mode_bit(b, GPR_IDX_EN, 0)


def set_gpr_idx_mode(b: Builder, i: Insn) -> None:
    """Execute s_set_gpr_idx_mode: M0[15:12] = immediate."""
    b.set_s(M0, field(b.s(M0), 12, 4, i["simm16"] & 15))


def set_gpr_idx_idx(b: Builder, i: Insn) -> None:
    """Execute s_set_gpr_idx_idx: M0[7:0] = ssrc0."""
    b.set_s(M0, field(b.s(M0), 0, 8, source.scalar(b, i, i["ssrc0"], "b32")))


def movrels(w: int) -> Execution:
    """Return the semantics of s_movrels: sdst = the register with number ssrc0 + M0."""

    def semantics(b: Builder, i: Insn) -> None:
        value = b.s_indexed(i["ssrc0"], b.s(M0), w)
        if w == 64:
            b.set_s64(i["sdst"], value)
        else:
            b.set_s(i["sdst"], value)

    return semantics


def movreld(w: int) -> Execution:
    """Return the semantics of s_movreld: the register with number sdst + M0 = ssrc0."""
    return lambda b, i: b.set_s_indexed(i["sdst"], b.s(M0), source.scalar(b, i, i["ssrc0"], f"b{w}"), w)


# ---- fork and join: executed by the reference engine only, where values are plain integers ---------------------------
def fork(b: Builder, i: Insn, condition: Word, target: Word) -> None:
    """Split the active lanes at a fork: lanes that pass `condition` go to `target`, the others continue.

    If neither set of lanes is empty, the smaller set executes first, and the other set is pushed to the fork
    stack."""
    here = b.const(64, i.next_pc)
    passing, failing = condition & b.s64(EXEC), ~condition & b.s64(EXEC)
    if not failing.number:
        b.jump_to(target)
        return
    if not passing.number:
        b.jump(i.next_pc)
        return
    if failing.number.bit_count() < passing.number.bit_count():
        first, then, waiting, resume = failing, here, passing, target
    else:
        first, then, waiting, resume = passing, target, failing, here
    mode = b.hwreg(HW_MODE)
    depth = mode.number >> CSP
    b.set_s64(4 * depth, waiting)
    b.set_s64(4 * depth + 2, resume)
    b.set_s64(EXEC, first)
    b.set_hwreg(HW_MODE, mode + (1 << CSP))
    b.jump_to(then)


def g_fork(b: Builder, i: Insn) -> None:
    """Execute s_cbranch_g_fork: lanes whose bit in ssrc0 is 1 go to the address in ssrc1 (see `fork`)."""
    fork(b, i, source.scalar(b, i, i["ssrc0"], "b64"), source.scalar(b, i, i["ssrc1"], "b64"))


def i_fork(b: Builder, i: Insn) -> None:
    """Execute s_cbranch_i_fork: lanes whose bit in sdst is 1 go to the target in the immediate (see `fork`)."""
    fork(b, i, source.scalar(b, i, i["sdst"], "b64"), b.const(64, branch_target(i)))


def join(b: Builder, i: Insn) -> None:
    """Execute s_cbranch_join: pop the fork stack and continue with the lanes of the last fork.

    If the depth of the stack equals ssrc0, continue with the next instruction instead.
    """
    mode = b.hwreg(HW_MODE)
    depth = mode.number >> CSP
    if depth == source.scalar(b, i, i["ssrc0"], "b32").number:
        b.jump(i.next_pc)
        return
    depth = depth - 1 & 7
    b.set_s64(EXEC, b.s64(4 * depth))
    b.set_hwreg(HW_MODE, mode[CSP - 1 : 0] | depth << CSP)
    b.jump_to(b.s64(4 * depth + 2))


def branch_target(i: Insn) -> int:
    """Return a branch target; the 16-bit immediate is its distance in dwords from the next instruction."""
    return i.next_pc + ((i["simm16"] & 0xFFFF ^ 0x8000) - 0x8000) * 4 & 0xFFFF_FFFF_FFFF_FFFF
