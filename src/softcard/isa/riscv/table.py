"""The tables of all instructions: 32-bit base instructions, vectors, further extensions, and compressed ones."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from softcard.core.errors import ModelBug
from softcard.isa.pattern import Pattern
from softcard.isa.riscv.atomic import ATOMIC
from softcard.isa.riscv.bitmanip import ZBA, ZBB, ZBC, ZBS
from softcard.isa.riscv.compressed import COMPRESSED
from softcard.isa.riscv.float_ import FLOAT, ZFH
from softcard.isa.riscv.format import KINDS, OPERANDS
from softcard.isa.riscv.insn import Spec
from softcard.isa.riscv.integer import INTEGER, MULDIV, ZICOND
from softcard.isa.riscv.rows import InsnTable, Row
from softcard.isa.riscv.system import SYSTEM
from softcard.isa.riscv.vector.configuration import CONFIGURATION
from softcard.isa.riscv.vector.fixed import FIXED
from softcard.isa.riscv.vector.floating import FLOATING
from softcard.isa.riscv.vector.integer import INTEGER as VECTOR_INTEGER
from softcard.isa.riscv.vector.mask import MASK
from softcard.isa.riscv.vector.memory import MEMORY
from softcard.isa.riscv.vector.permutation import PERMUTATION
from softcard.isa.riscv.vector.reduction import REDUCTION

BASE: Final = InsnTable((*INTEGER, *MULDIV, *ATOMIC, *FLOAT, *ZBC, *SYSTEM), OPERANDS)
"""The table of the 32-bit instructions, except those of the vector extension and those in `FURTHER`."""
VECTOR: Final = InsnTable(
    (*CONFIGURATION, *MEMORY, *VECTOR_INTEGER, *FIXED, *FLOATING, *REDUCTION, *MASK, *PERMUTATION), OPERANDS
)
"""The table of the vector extension; each segment form of a load or store is a separate entry."""
FURTHER: Final = InsnTable((*ZBA, *ZBB, *ZBS, *ZICOND, *ZFH), OPERANDS)
"""The table of extensions that RefSi's harts do not have; other harts have them if their `Isa` does."""


@dataclass(frozen=True, slots=True)
class Expansion:
    """The expansion of a compressed instruction: its base instruction, and the values of that instruction's fields.

    `fixed` has the fields with a constant value. `copied` has, for each other field, the field of the
    compressed instruction from which it is copied."""

    spec: Spec
    fixed: dict[str, int]
    copied: dict[str, str]

    @classmethod
    def parse(cls, text: str) -> Expansion:
        """Parse the text of an expansion, such as ``addi rd, rd, imm``.

        If an operand in the text is the name of an `Operand`, its value is copied from that field of the compressed
        instruction. All other operands are constants."""
        name, _, given = text.partition(" ")
        row = BASE[name]
        parts, words = (re.findall(r"[\w']+", operands) for operands in (given, row.operands))
        if len(parts) != len(words):
            raise ModelBug(f"expansion {text!r} must have the operands {row.operands!r}")
        fixed, copied = {}, {}
        for part, word in zip(parts, words, strict=True):
            if part in OPERANDS:
                copied[OPERANDS[word].field] = OPERANDS[part].field
            else:
                fixed[OPERANDS[word].field] = OPERANDS[word].read(part, None)
        return cls(row.what, fixed, copied)


HALFWORDS: Final = InsnTable(
    (
        Row(name, Pattern.parse(pattern, 16, KINDS), operands, Expansion.parse(expansion))
        for name, pattern, operands, expansion in COMPRESSED
    ),
    OPERANDS,
)
"""The table of the 16-bit (compressed) instructions."""

SPECS: Final[Mapping[str, Spec]] = {row.name: row.what for row in BASE}
"""The `Spec` of each mnemonic in `BASE`; those of the vector extension are in `VECTOR`."""
