"""Zbc: carry-less multiplication (bit-manipulation extensions 1.0.0, section "Zbc")."""

from __future__ import annotations

from typing import Final

from understudy.isa.riscv.format import section
from understudy.isa.riscv.insn import Meaning
from understudy.isa.riscv.integer import reg


def product(shift: int) -> Meaning:
    """rd = 64 bits of the carry-less product of rs1 and rs2, from bit `shift`."""
    return reg(64, lambda a, b: (a.clmul(b) >> shift).trunc(64))


ZBC: Final = section("Zbc", (
    ("clmul",  "0000101 rs2 rs1 001 rd 0110011", "rd, rs1, rs2", product(0)),
    ("clmulr", "0000101 rs2 rs1 010 rd 0110011", "rd, rs1, rs2", product(63)),
    ("clmulh", "0000101 rs2 rs1 011 rd 0110011", "rd, rs1, rs2", product(64)),
))  # fmt: skip
