"""Assembly text of decoded instructions, in the style of GNU ``objdump -M no-aliases``."""

from __future__ import annotations

from typing import Final

from understudy.isa.riscv.insn import Insn
from understudy.isa.riscv.table import BASE, PARCELS

ORDERINGS: Final = {(0, 0): "", (1, 0): ".aq", (0, 1): ".rl", (1, 1): ".aqrl"}
"""Suffixes of an atomic for its (aq, rl)."""


def text(insn: Insn, pc: int | None = None) -> str:
    """The instruction as an assembler writes it: ``"addi a0,a1,4"``, ``"c.beqz a0,0x10294"``.

    No pseudo-instructions; a compressed instruction under its own mnemonic. Branch targets are absolute where `pc`,
    the address of the instruction, is given, else like ``.+8``.
    """
    if insn.alias:
        name, operands = insn.alias, PARCELS.text(PARCELS[insn.alias], insn.word, pc)
    else:
        name, operands = insn.name + ORDERINGS[insn.aq, insn.rl], BASE.text(BASE[insn.name], insn.word, pc)
    return f"{name} {operands}".rstrip()
