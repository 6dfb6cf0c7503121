"""The tables of all instructions: 32-bit base instructions, vectors, further extensions, and compressed ones."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from softcard.core.errors import ModelBug
from softcard.isa.pattern import Pattern
from softcard.isa.riscv.bitmanip import ZBA, ZBB, ZBC, ZBS
from softcard.isa.riscv.float_ import FLOAT, ZFH
from softcard.isa.riscv.format import KINDS, OPERANDS
from softcard.isa.riscv.insn import Spec
from softcard.isa.riscv.integer import ATOMIC, INTEGER, MULDIV, ZICOND
from softcard.isa.riscv.rows import InsnTable, Row
from softcard.isa.riscv.system import SYSTEM
from softcard.isa.riscv.vector.configuration import CONFIGURATION
from softcard.isa.riscv.vector.fixed import FIXED
from softcard.isa.riscv.vector.floating import FLOATING
from softcard.isa.riscv.vector.integer import INTEGER as VECTOR_INTEGER
from softcard.isa.riscv.vector.mask import MASK, REDUCTION
from softcard.isa.riscv.vector.memory import MEMORY
from softcard.isa.riscv.vector.permutation import PERMUTATION

# ---- the C extension -------------------------------------------------------------------------------------------------
# RISC-V C extension: compressed instructions (ISA manual volume I, chapter "C"), with their expansions.
#
# Field values that a pattern excludes (``nz`` immediates, ``rd!=0``) are reserved encodings and illegal. HINTs are
# executed as their expansions, which have no effect.


# name          bits, from the highest                            operands             expansion
COMPRESSED: Final = (
    # quadrant 0
    ("c.addi4spn", "000 nzuimm[5:4|9:6|2|3] rd' 00",               "rd, sp, imm",       "addi rd, sp, imm"),
    ("c.fld",      "001 uimm[5:3] rs1' uimm[7:6] rd' 00",          "fd, imm(rs1)",      "fld fd, imm(rs1)"),
    ("c.lw",       "010 uimm[5:3] rs1' uimm[2|6] rd' 00",          "rd, imm(rs1)",      "lw rd, imm(rs1)"),
    ("c.ld",       "011 uimm[5:3] rs1' uimm[7:6] rd' 00",          "rd, imm(rs1)",      "ld rd, imm(rs1)"),
    ("c.fsd",      "101 uimm[5:3] rs1' uimm[7:6] rs2' 00",         "fs2, imm(rs1)",     "fsd fs2, imm(rs1)"),
    ("c.sw",       "110 uimm[5:3] rs1' uimm[2|6] rs2' 00",         "rs2, imm(rs1)",     "sw rs2, imm(rs1)"),
    ("c.sd",       "111 uimm[5:3] rs1' uimm[7:6] rs2' 00",         "rs2, imm(rs1)",     "sd rs2, imm(rs1)"),
    # quadrant 1
    ("c.nop",      "000 imm[5] 00000 imm[4:0] 01",                 "[hint]",            "addi zero, zero, imm"),
    ("c.addi",     "000 imm[5] rd!=0 imm[4:0] 01",                 "rd, imm",           "addi rd, rd, imm"),
    ("c.addiw",    "001 imm[5] rd!=0 imm[4:0] 01",                 "rd, imm",           "addiw rd, rd, imm"),
    ("c.li",       "010 imm[5] rd imm[4:0] 01",                    "rd, imm",           "addi rd, zero, imm"),
    ("c.addi16sp", "011 nzimm[9] 00010 nzimm[4|6|8:7|5] 01",       "sp, imm",           "addi sp, sp, imm"),
    ("c.lui",      "011 nzimm[17] rd!=2 nzimm[16:12] 01",          "rd, high",          "lui rd, high"),
    ("c.srli",     "100 uimm[5] 00 rd' uimm[4:0] 01",              "rd, shamt",         "srli rd, rd, shamt"),
    ("c.srai",     "100 uimm[5] 01 rd' uimm[4:0] 01",              "rd, shamt",         "srai rd, rd, shamt"),
    ("c.andi",     "100 imm[5] 10 rd' imm[4:0] 01",                "rd, imm",           "andi rd, rd, imm"),
    ("c.sub",      "100 0 11 rd' 00 rs2' 01",                      "rd, rs2",           "sub rd, rd, rs2"),
    ("c.xor",      "100 0 11 rd' 01 rs2' 01",                      "rd, rs2",           "xor rd, rd, rs2"),
    ("c.or",       "100 0 11 rd' 10 rs2' 01",                      "rd, rs2",           "or rd, rd, rs2"),
    ("c.and",      "100 0 11 rd' 11 rs2' 01",                      "rd, rs2",           "and rd, rd, rs2"),
    ("c.subw",     "100 1 11 rd' 00 rs2' 01",                      "rd, rs2",           "subw rd, rd, rs2"),
    ("c.addw",     "100 1 11 rd' 01 rs2' 01",                      "rd, rs2",           "addw rd, rd, rs2"),
    ("c.j",        "101 imm[11|4|9:8|10|6|7|3:1|5] 01",            "target",            "jal zero, target"),
    ("c.beqz",     "110 imm[8|4:3] rs1' imm[7:6|2:1|5] 01",        "rs1, target",       "beq rs1, zero, target"),
    ("c.bnez",     "111 imm[8|4:3] rs1' imm[7:6|2:1|5] 01",        "rs1, target",       "bne rs1, zero, target"),
    # quadrant 2
    ("c.slli",     "000 uimm[5] rd uimm[4:0] 10",                  "rd, shamt",         "slli rd, rd, shamt"),
    ("c.fldsp",    "001 uimm[5] rd uimm[4:3|8:6] 10",              "fd, imm(sp)",       "fld fd, imm(sp)"),
    ("c.lwsp",     "010 uimm[5] rd!=0 uimm[4:2|7:6] 10",           "rd, imm(sp)",       "lw rd, imm(sp)"),
    ("c.ldsp",     "011 uimm[5] rd!=0 uimm[4:3|8:6] 10",           "rd, imm(sp)",       "ld rd, imm(sp)"),
    ("c.jr",       "1000 rs1!=0 00000 10",                         "rs1",               "jalr zero, 0(rs1)"),
    ("c.mv",       "1000 rd rs2!=0 10",                            "rd, rs2",           "add rd, zero, rs2"),
    ("c.ebreak",   "1001 00000 00000 10",                          "",                  "ebreak"),
    ("c.jalr",     "1001 rs1!=0 00000 10",                         "rs1",               "jalr ra, 0(rs1)"),
    ("c.add",      "1001 rd rs2!=0 10",                            "rd, rs2",           "add rd, rd, rs2"),
    ("c.fsdsp",    "101 uimm[5:3|8:6] rs2 10",                     "fs2, imm(sp)",      "fsd fs2, imm(sp)"),
    ("c.swsp",     "110 uimm[5:2|7:6] rs2 10",                     "rs2, imm(sp)",      "sw rs2, imm(sp)"),
    ("c.sdsp",     "111 uimm[5:3|8:6] rs2 10",                     "rs2, imm(sp)",      "sd rs2, imm(sp)"),
)  # fmt: skip
"""The mnemonic, pattern, operands and expansion of each compressed instruction.

An operand word in an expansion is the field of the compressed instruction with that name.
"""


# ---- the tables ------------------------------------------------------------------------------------------------------
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
