"""All instructions in four tables: 32-bit words of RefSi's harts, vectors, further extensions, and 16-bit parcels."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from understudy.core.errors import ModelBug
from understudy.isa.pattern import Pattern
from understudy.isa.riscv.atomic import ATOMIC
from understudy.isa.riscv.compressed import COMPRESSED
from understudy.isa.riscv.float_ import FLOAT, ZFH
from understudy.isa.riscv.format import KINDS, OPERANDS
from understudy.isa.riscv.insn import Spec
from understudy.isa.riscv.integer import INTEGER
from understudy.isa.riscv.muldiv import MULDIV
from understudy.isa.riscv.rows import InsnTable, Row
from understudy.isa.riscv.system import SYSTEM
from understudy.isa.riscv.vector.configuration import CONFIGURATION
from understudy.isa.riscv.vector.fixed import FIXED
from understudy.isa.riscv.vector.floating import FLOATING
from understudy.isa.riscv.vector.integer import INTEGER as VECTOR_INTEGER
from understudy.isa.riscv.vector.mask import MASK
from understudy.isa.riscv.vector.memory import MEMORY
from understudy.isa.riscv.vector.permutation import PERMUTATION
from understudy.isa.riscv.vector.reduction import REDUCTION
from understudy.isa.riscv.zba import ZBA
from understudy.isa.riscv.zbb import ZBB
from understudy.isa.riscv.zbc import ZBC
from understudy.isa.riscv.zbs import ZBS
from understudy.isa.riscv.zicond import ZICOND

BASE: Final = InsnTable((*INTEGER, *MULDIV, *ATOMIC, *FLOAT, *ZBC, *SYSTEM), OPERANDS)
"""The 32-bit instructions without those of the vector extension."""
VECTOR: Final = InsnTable(
    (*CONFIGURATION, *MEMORY, *VECTOR_INTEGER, *FIXED, *FLOATING, *REDUCTION, *MASK, *PERMUTATION), OPERANDS
)
"""The instructions of the vector extension; each segment form of a load or store is one."""
FURTHER: Final = InsnTable((*ZBA, *ZBB, *ZBS, *ZICOND, *ZFH), OPERANDS)
"""The instructions of extensions that harts have where their `Isa` says so, and RefSi's have not."""


@dataclass(frozen=True, slots=True)
class Expansion:
    """What a compressed form stands for: the base instruction, and where each of its fields comes from."""

    spec: Spec
    fixed: dict[str, int]
    copied: dict[str, str]

    @classmethod
    def parse(cls, text: str) -> Expansion:
        """Read an expansion: operands that are known words name fields, all others are fixed."""
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


PARCELS: Final = InsnTable(
    (
        Row(name, Pattern.parse(pattern, 16, KINDS), operands, Expansion.parse(expansion))
        for name, pattern, operands, expansion in COMPRESSED
    ),
    OPERANDS,
)
"""The 16-bit instructions."""

SPECS: Final[Mapping[str, Spec]] = {row.name: row.what for row in BASE}
"""What is known of every base mnemonic; for those of the vector extension see `VECTOR`."""
