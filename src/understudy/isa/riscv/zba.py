"""Zba: addresses of elements (bit-manipulation extensions 1.0.0, section "Zba")."""

from __future__ import annotations

from typing import Final

from understudy.isa.riscv.format import section
from understudy.isa.riscv.insn import Meaning
from understudy.isa.riscv.integer import imm, reg


def scaled(shift: int, *, is_word: bool = False) -> Meaning:
    """rd = rs2 + (rs1 << shift), of the low 32 bits of rs1 where `is_word`."""
    return reg(64, lambda a, b: b + ((a[31:0] if is_word else a) << shift))


ZBA: Final = section("Zba", (
    ("add.uw",    "0000100 rs2        rs1 000 rd 0111011", "rd, rs1, rs2",   scaled(0, is_word=True)),
    ("sh1add",    "0010000 rs2        rs1 010 rd 0110011", "rd, rs1, rs2",   scaled(1)),
    ("sh2add",    "0010000 rs2        rs1 100 rd 0110011", "rd, rs1, rs2",   scaled(2)),
    ("sh3add",    "0010000 rs2        rs1 110 rd 0110011", "rd, rs1, rs2",   scaled(3)),
    ("sh1add.uw", "0010000 rs2        rs1 010 rd 0111011", "rd, rs1, rs2",   scaled(1, is_word=True)),
    ("sh2add.uw", "0010000 rs2        rs1 100 rd 0111011", "rd, rs1, rs2",   scaled(2, is_word=True)),
    ("sh3add.uw", "0010000 rs2        rs1 110 rd 0111011", "rd, rs1, rs2",   scaled(3, is_word=True)),
    ("slli.uw",   "000010  uimm[5:0]  rs1 001 rd 0011011", "rd, rs1, shamt", imm(64, lambda a, n: a[31:0] << n)),
))  # fmt: skip
