"""Sub-dword addressing (GFX8, GFX9): a source is a byte, a half or all of a register; so is what a result replaces."""

from __future__ import annotations

from typing import Final

from understudy.isa.gcn.builder import Builder
from understudy.isa.gcn.insn import Insn
from understudy.isa.gcn.semantics import source as operand
from understudy.isa.gcn.word import Word

WHOLE: Final = 32, 0
PARTS: Final = ((8, 0), (8, 8), (8, 16), (8, 24), (16, 0), (16, 16), WHOLE)
"""Selects BYTE_0 to BYTE_3, WORD_0, WORD_1 and DWORD as (bits, position)."""
DWORD: Final = PARTS.index(WHOLE)
SEXT: Final = 1
PRESERVE: Final = 2


UP: Final = tuple(32 - bits - at for bits, at in PARTS)
"""How far each part is from the upper end of its register."""
DOWN: Final = tuple(32 - bits for bits, _ in PARTS)
"""How many bits there are beside it."""


def source(i: Insn, number: int, value: Word) -> Word:
    """The selected part of source `number`, zero- or sign-extended to 32 bits.

    An instruction that stands for many says instead of what is selected how far to shift.
    """
    select = i[f"src{number}_sel"]
    up, down = i.get(f"src{number}_up", UP[select]), i.get(f"src{number}_down", DOWN[select])
    return (value << up).sra(down) if i[f"src{number}_sext"] else value << up >> down


def result(b: Builder, i: Insn, value: Word) -> Word:
    """The 32 bits the destination gets: `value` in the selected part, the rest as dst_unused says."""
    bits, at = PARTS[i["dst_sel"]]
    if (bits, at) == WHOLE:
        return value
    if i["dst_unused"] == SEXT:
        return value.trunc(bits).sext(32) << at
    placed = value[bits - 1 : 0] << at
    if i["dst_unused"] != PRESERVE:
        return placed
    return operand.vgpr(b, i["vdst"], "vdst") & ~((1 << bits) - 1 << at) | placed
