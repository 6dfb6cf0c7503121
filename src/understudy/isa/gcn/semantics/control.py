"""Scalar operations that do more than compute: jumps, GPR indexing, moves by a computed register, fork and join."""

from __future__ import annotations

from typing import Any, Final

from understudy.core.errors import BeyondModel
from understudy.isa.gcn.algebra import Scalar
from understudy.isa.gcn.insn import Insn, Meaning
from understudy.isa.gcn.semantics import source
from understudy.isa.gcn.state import EXEC, M0

MODE: Final = 1
"""The hardware register's id."""
GPR_IDX_EN: Final = 27
VSKIP: Final = 28
CSP: Final = 29
"""Bits of MODE; CSP, the depth of the fork stack, has three."""


def getpc(o: Any, i: Insn) -> None:
    """sdst = address of the next instruction."""
    o.set_s64(i["sdst"], o.const(64, i.next_pc))


def setpc(o: Any, i: Insn) -> None:
    """Go to the address in ssrc0."""
    o.jump_to(source.scalar(o, i, i["ssrc0"], "b64"))


def swappc(o: Any, i: Insn) -> None:
    """sdst = address of the next instruction; go to the address in ssrc0."""
    target = source.scalar(o, i, i["ssrc0"], "b64")
    o.set_s64(i["sdst"], o.const(64, i.next_pc))
    o.jump_to(target)


def rfe(o: Any, i: Insn) -> None:
    """Return from the trap handler."""
    raise BeyondModel(f"{i.name}: trap handlers")


def unknown(o: Any, i: Insn) -> None:
    """An operation that the manuals name but do not explain."""
    raise BeyondModel(f"{i.name}: the manuals do not say what it does")


def field(o: Any, value: Scalar, at: int, bits: int, new: Scalar) -> Scalar:
    """`value` with `bits` bits from bit `at` on replaced by those of `new`."""
    ones = (1 << bits) - 1
    placed = o.shl(32, o.and_(32, new, o.const(32, ones)), o.const(32, at))
    return o.or_(32, o.and_(32, value, o.const(32, ~(ones << at))), placed)


def set_mode_bit(o: Any, bit: int, value: Scalar) -> None:
    """Change one bit of MODE."""
    o.set_hwreg(MODE, field(o, o.hwreg(MODE), bit, 1, value))


def setvskip(o: Any, i: Insn) -> None:
    """VSKIP = a bit of ssrc0: while it is set, vector and memory instructions are skipped."""
    a, b = (source.scalar(o, i, i[name], "b32") for name in ("ssrc0", "ssrc1"))
    set_mode_bit(o, VSKIP, o.lshr(32, a, o.and_(32, b, o.const(32, 31))))


def set_gpr_idx_on(o: Any, i: Insn) -> None:
    """Vector register numbers are relative to M0[7:0] = ssrc0, for the operands that M0[15:12] = ssrc1's code names."""
    m0 = field(o, o.s(M0), 0, 8, source.scalar(o, i, i["ssrc0"], "b32"))
    o.set_s(M0, field(o, m0, 12, 4, o.const(32, i["ssrc1"])))
    set_mode_bit(o, GPR_IDX_EN, o.const(32, 1))


def set_gpr_idx_off(o: Any, i: Insn) -> None:
    """Vector register numbers are absolute again."""
    set_mode_bit(o, GPR_IDX_EN, o.const(32, 0))


def set_gpr_idx_mode(o: Any, i: Insn) -> None:
    """M0[15:12] = immediate."""
    o.set_s(M0, field(o, o.s(M0), 12, 4, o.const(32, i["simm16"] & 15)))


def set_gpr_idx_idx(o: Any, i: Insn) -> None:
    """M0[7:0] = ssrc0."""
    o.set_s(M0, field(o, o.s(M0), 0, 8, source.scalar(o, i, i["ssrc0"], "b32")))


def movrels(w: int) -> Meaning:
    """sdst = the register ssrc0 + M0."""
    put = {32: "set_s", 64: "set_s64"}[w]
    return lambda o, i: getattr(o, put)(i["sdst"], o.s_indexed(i["ssrc0"], o.s(M0), w))


def movreld(w: int) -> Meaning:
    """The register sdst + M0 = ssrc0."""
    return lambda o, i: o.set_s_indexed(i["sdst"], o.s(M0), source.scalar(o, i, i["ssrc0"], f"b{w}"), w)


# ---- fork and join: executed by the reference engine only, where values are plain integers ---------------------------
def fork(o: Any, i: Insn, condition: int, target: int) -> None:
    """Lanes that pass go to `target`, the others on; of two sets the smaller goes first, the other is stacked."""
    mask = o.s64(EXEC)
    passing, failing = condition & mask, ~condition & mask
    if passing == mask:
        o.jump_to(target)
        return
    if failing == mask:
        o.jump(i.next_pc)
        return
    if failing.bit_count() < passing.bit_count():
        first, then, (waiting, resume) = failing, i.next_pc, (passing, target)
    else:
        first, then, (waiting, resume) = passing, target, (failing, i.next_pc)
    mode = o.hwreg(MODE)
    depth = mode >> CSP
    o.set_s64(4 * depth, waiting)
    o.set_s64(4 * depth + 2, resume)
    o.set_s64(EXEC, first)
    o.set_hwreg(MODE, mode + (1 << CSP) & 0xFFFF_FFFF)
    o.jump_to(then)


def g_fork(o: Any, i: Insn) -> None:
    """Fork on ssrc0 to the address in ssrc1."""
    fork(o, i, source.scalar(o, i, i["ssrc0"], "b64"), source.scalar(o, i, i["ssrc1"], "b64"))


def i_fork(o: Any, i: Insn) -> None:
    """Fork on sdst to the immediate address."""
    fork(o, i, source.scalar(o, i, i["sdst"], "b64"), branch_target(i))


def join(o: Any, i: Insn) -> None:
    """Take up the lanes of the last fork, or go on where the stack is as deep as ssrc0 says."""
    mode = o.hwreg(MODE)
    depth = mode >> CSP
    if depth == source.scalar(o, i, i["ssrc0"], "b32"):
        o.jump(i.next_pc)
        return
    depth = depth - 1 & 7
    o.set_s64(EXEC, o.s64(4 * depth))
    o.set_hwreg(MODE, mode & (1 << CSP) - 1 | depth << CSP)
    o.jump_to(o.s64(4 * depth + 2))


def branch_target(i: Insn) -> int:
    """The address that a 16-bit immediate means, in dwords from the next instruction."""
    return i.next_pc + ((i["simm16"] & 0xFFFF ^ 0x8000) - 0x8000) * 4 & 0xFFFF_FFFF_FFFF_FFFF
