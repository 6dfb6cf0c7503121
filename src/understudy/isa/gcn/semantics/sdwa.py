"""Sub-dword addressing (GFX8, GFX9): a source is a byte, a half or all of a register; so is what a result replaces."""

from __future__ import annotations

from typing import Any, Final

from understudy.isa.gcn.algebra import Value
from understudy.isa.gcn.insn import Insn
from understudy.isa.gcn.semantics import source as operand

PARTS: Final = {0: (8, 0), 1: (8, 8), 2: (8, 16), 3: (8, 24), 4: (16, 0), 5: (16, 16)}
"""Selects BYTE_0 to BYTE_3, WORD_0, WORD_1 as (bits, position); 6 is DWORD."""
SEXT: Final = 1
PRESERVE: Final = 2


def source(o: Any, i: Insn, number: int, value: Value) -> Value:
    """The selected part of source `number`, zero- or sign-extended to 32 bits."""
    part = PARTS.get(i[f"src{number}_sel"])
    if part is None:
        return value
    bits, at = part
    piece = o.trunc(bits, 32, o.lshr(32, value, o.const(32, at)) if at else value)
    return o.sext(32, bits, piece) if i[f"src{number}_sext"] else o.zext(32, bits, piece)


def result(o: Any, i: Insn, value: Value) -> Value:
    """The 32 bits the destination gets: `value` in the selected part, the rest as dst_unused says."""
    part = PARTS.get(i["dst_sel"])
    if part is None:
        return value
    bits, at = part
    field = (1 << bits) - 1
    if i["dst_unused"] == SEXT:
        return o.shl(32, o.sext(32, bits, o.trunc(bits, 32, value)), o.const(32, at))
    placed = o.shl(32, o.and_(32, value, o.const(32, field)), o.const(32, at))
    if i["dst_unused"] != PRESERVE:
        return placed
    held = operand.vgpr(o, i["vdst"], "vdst")
    return o.or_(32, o.and_(32, held, o.const(32, ~(field << at))), placed)
