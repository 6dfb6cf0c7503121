"""Sub-dword addressing (GFX8, GFX9): a source is a byte, a half or all of a register; so is what a result replaces."""

from __future__ import annotations

from typing import Final

from understudy.isa.gcn.builder import Builder
from understudy.isa.gcn.insn import Insn
from understudy.isa.gcn.semantics import source as operand
from understudy.isa.gcn.word import Word

PARTS: Final = {0: (8, 0), 1: (8, 8), 2: (8, 16), 3: (8, 24), 4: (16, 0), 5: (16, 16)}
"""Selects BYTE_0 to BYTE_3, WORD_0, WORD_1 as (bits, position); 6 is DWORD."""
SEXT: Final = 1
PRESERVE: Final = 2


def source(i: Insn, number: int, value: Word) -> Word:
    """The selected part of source `number`, zero- or sign-extended to 32 bits."""
    part = PARTS.get(i[f"src{number}_sel"])
    if part is None:
        return value
    bits, at = part
    return (value >> at if at else value).trunc(bits).extended(32, bool(i[f"src{number}_sext"]))


def result(b: Builder, i: Insn, value: Word) -> Word:
    """The 32 bits the destination gets: `value` in the selected part, the rest as dst_unused says."""
    part = PARTS.get(i["dst_sel"])
    if part is None:
        return value
    bits, at = part
    if i["dst_unused"] == SEXT:
        return value.trunc(bits).sext(32) << at
    placed = value[bits - 1 : 0] << at
    if i["dst_unused"] != PRESERVE:
        return placed
    return operand.vgpr(b, i["vdst"], "vdst") & ~((1 << bits) - 1 << at) | placed
