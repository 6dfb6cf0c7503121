"""Zbs: single bits (bit-manipulation extensions 1.0.0, section "Zbs")."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from understudy.isa.riscv.format import RowSource, section
from understudy.isa.riscv.integer import imm, reg
from understudy.isa.riscv.word import Binary, Word


def bit(a: Word, n: Word) -> Word:
    """A 1 in place `n` of a word as wide as `a`."""
    return a.const(1) << (n & a.width - 1)


OPERATIONS: Final[tuple[tuple[str, str, str, Binary], ...]] = (
    # name    funct7     funct3 f(a, n)
    ("bclr",  "0100100", "001", lambda a, n: a & ~bit(a, n)),
    ("bext",  "0100100", "101", lambda a, n: a >> (n & a.width - 1) & 1),
    ("binv",  "0110100", "001", lambda a, n: a ^ bit(a, n)),
    ("bset",  "0010100", "001", lambda a, n: a | bit(a, n)),
)  # fmt: skip


def rows() -> Iterator[RowSource]:
    """By a register, and by a number."""
    for name, funct7, funct3, f in OPERATIONS:
        yield name, f"{funct7} rs2 rs1 {funct3} rd 0110011", "rd, rs1, rs2", reg(64, f)
        yield name + "i", f"{funct7[:6]} uimm[5:0] rs1 {funct3} rd 0010011", "rd, rs1, shamt", imm(64, f)


ZBS: Final = section("Zbs", rows())
