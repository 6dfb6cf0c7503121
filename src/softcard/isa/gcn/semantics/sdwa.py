"""SDWA, sub-dword addressing (GFX8, GFX9): sources and results may be a byte or half of a register."""

from __future__ import annotations

from typing import Final

from softcard.isa.gcn.builder import Builder
from softcard.isa.gcn.insn import Insn
from softcard.isa.gcn.semantics import source as operand
from softcard.isa.gcn.word import Word

WHOLE: Final = 32, 0
PARTS: Final = ((8, 0), (8, 8), (8, 16), (8, 24), (16, 0), (16, 16), WHOLE)
"""The parts of a register that SDWA selects, as (bits, position): BYTE_0 to BYTE_3, WORD_0, WORD_1, DWORD."""
DWORD: Final = PARTS.index(WHOLE)
SEXT: Final = 1
PRESERVE: Final = 2


UP: Final = tuple(32 - bits - at for bits, at in PARTS)
"""The distance in bits of each part from the upper end of its register."""
DOWN: Final = tuple(32 - bits for bits, _ in PARTS)
"""The number of bits of a register that are outside of each part."""


def source(i: Insn, number: int, value: Word) -> Word:
    """Return the byte, half or whole that SDWA selects of source `number`, zero- or sign-extended to 32 bits.

    If several instructions share translated code, `i` holds shift counts in place of the selection."""
    select = i[f"src{number}_sel"]
    up, down = i.get(f"src{number}_up", UP[select]), i.get(f"src{number}_down", DOWN[select])
    return (value << up).sra(down) if i[f"src{number}_sext"] else value << up >> down


def result(b: Builder, i: Insn, value: Word) -> Word:
    """Return the new contents of the destination register: `value` in the byte, half or whole that dst_sel selects.

    dst_unused determines the other bits."""
    bits, at = PARTS[i["dst_sel"]]
    if (bits, at) == WHOLE:
        return value
    if i["dst_unused"] == SEXT:
        return value.trunc(bits).sext(32) << at
    placed = value[bits - 1 : 0] << at
    if i["dst_unused"] != PRESERVE:
        return placed
    return operand.vgpr(b, i["vdst"], "vdst") & ~((1 << bits) - 1 << at) | placed
