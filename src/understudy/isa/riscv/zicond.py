"""Zicond: a register or zero (ISA manual volume I, chapter "Zicond")."""

from __future__ import annotations

from typing import Final

from understudy.isa.riscv.format import section
from understudy.isa.riscv.integer import reg

ZICOND: Final = section("Zicond", (
    ("czero.eqz", "0000111 rs2 rs1 101 rd 0110011", "rd, rs1, rs2", reg(64, lambda a, b: (b == 0).select(0, a))),
    ("czero.nez", "0000111 rs2 rs1 111 rd 0110011", "rd, rs1, rs2", reg(64, lambda a, b: (b == 0).select(a, 0))),
))  # fmt: skip
