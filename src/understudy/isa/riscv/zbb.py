"""Zbb: basic bit manipulation (bit-manipulation extensions 1.0.0, section "Zbb")."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from understudy.isa.riscv.format import section
from understudy.isa.riscv.insn import Meaning
from understudy.isa.riscv.integer import imm, reg
from understudy.isa.riscv.word import Word

BYTES: Final = 0x0101_0101_0101_0101


def unary(w: int, f: Callable[[Word], Word]) -> Meaning:
    """rd = f(rs1)."""
    return imm(w, lambda a, _: f(a))


def left(a: Word, n: Word) -> Word:
    """`a` rotated left."""
    return a << (n & a.width - 1) | a >> (-n & a.width - 1)


def right(a: Word, n: Word) -> Word:
    """`a` rotated right."""
    return a >> (n & a.width - 1) | a << (-n & a.width - 1)


def or_combined(a: Word) -> Word:
    """Each byte all ones where it has any 1."""
    low = a | a >> 1
    low = low | low >> 2
    low = (low | low >> 4) & BYTES
    return (low << 8) - low


ZBB: Final = section("Zbb", (
    ("andn",   "0100000 rs2       rs1 111 rd 0110011", "rd, rs1, rs2",   reg(64, lambda a, b: a & ~b)),
    ("orn",    "0100000 rs2       rs1 110 rd 0110011", "rd, rs1, rs2",   reg(64, lambda a, b: a | ~b)),
    ("xnor",   "0100000 rs2       rs1 100 rd 0110011", "rd, rs1, rs2",   reg(64, lambda a, b: ~(a ^ b))),
    ("clz",    "0110000 00000     rs1 001 rd 0010011", "rd, rs1",        unary(64, lambda a: a.ctlz())),
    ("clzw",   "0110000 00000     rs1 001 rd 0011011", "rd, rs1",        unary(32, lambda a: a.ctlz())),
    ("ctz",    "0110000 00001     rs1 001 rd 0010011", "rd, rs1",        unary(64, lambda a: a.cttz())),
    ("ctzw",   "0110000 00001     rs1 001 rd 0011011", "rd, rs1",        unary(32, lambda a: a.cttz())),
    ("cpop",   "0110000 00010     rs1 001 rd 0010011", "rd, rs1",        unary(64, lambda a: a.ctpop())),
    ("cpopw",  "0110000 00010     rs1 001 rd 0011011", "rd, rs1",        unary(32, lambda a: a.ctpop())),
    ("min",    "0000101 rs2       rs1 100 rd 0110011", "rd, rs1, rs2",   reg(64, lambda a, b: a.slt(b).select(a, b))),
    ("minu",   "0000101 rs2       rs1 101 rd 0110011", "rd, rs1, rs2",   reg(64, lambda a, b: (a < b).select(a, b))),
    ("max",    "0000101 rs2       rs1 110 rd 0110011", "rd, rs1, rs2",   reg(64, lambda a, b: a.slt(b).select(b, a))),
    ("maxu",   "0000101 rs2       rs1 111 rd 0110011", "rd, rs1, rs2",   reg(64, lambda a, b: (a < b).select(b, a))),
    ("sext.b", "0110000 00100     rs1 001 rd 0010011", "rd, rs1",        unary(64, lambda a: a.trunc(8).sext(64))),
    ("sext.h", "0110000 00101     rs1 001 rd 0010011", "rd, rs1",        unary(64, lambda a: a.trunc(16).sext(64))),
    ("zext.h", "0000100 00000     rs1 100 rd 0111011", "rd, rs1",        unary(64, lambda a: a[15:0])),
    ("rol",    "0110000 rs2       rs1 001 rd 0110011", "rd, rs1, rs2",   reg(64, left)),
    ("rolw",   "0110000 rs2       rs1 001 rd 0111011", "rd, rs1, rs2",   reg(32, left)),
    ("ror",    "0110000 rs2       rs1 101 rd 0110011", "rd, rs1, rs2",   reg(64, right)),
    ("rorw",   "0110000 rs2       rs1 101 rd 0111011", "rd, rs1, rs2",   reg(32, right)),
    ("rori",   "011000  uimm[5:0] rs1 101 rd 0010011", "rd, rs1, shamt", imm(64, right)),
    ("roriw",  "0110000 uimm[4:0] rs1 101 rd 0011011", "rd, rs1, shamt", imm(32, right)),
    ("orc.b",  "0010100 00111     rs1 101 rd 0010011", "rd, rs1",        unary(64, or_combined)),
    ("rev8",   "0110101 11000     rs1 101 rd 0010011", "rd, rs1",        unary(64, lambda a: a.bswap())),
))  # fmt: skip
