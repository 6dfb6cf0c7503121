"""Bit manipulation: Zba, Zbb, Zbc and Zbs (bit-manipulation extensions 1.0.0)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from softcard.isa.riscv.format import RowSource, section
from softcard.isa.riscv.insn import Semantics
from softcard.isa.riscv.integer import imm, reg
from softcard.isa.riscv.word import Binary, Word


def scaled(shift: int, *, is_word: bool = False) -> Semantics:
    """Return the semantics of shift-and-add: rd = rs2 + (rs1 << shift).

    With `is_word`, only the low 32 bits of rs1 are used, zero-extended."""
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


BYTES: Final = 0x0101_0101_0101_0101


def unary(w: int, f: Callable[[Word], Word]) -> Semantics:
    """Return the semantics of an operation on one register: rd = f(rs1), computed in `w` bits and sign-extended."""
    return imm(w, lambda a, _: f(a))


def left(a: Word, n: Word) -> Word:
    """Return `a` rotated left by `n` bits, modulo the width of `a`."""
    return a << (n & a.width - 1) | a >> (-n & a.width - 1)


def right(a: Word, n: Word) -> Word:
    """Return `a` rotated right by `n` bits, modulo the width of `a`."""
    return a >> (n & a.width - 1) | a << (-n & a.width - 1)


def or_combined(a: Word) -> Word:
    """Return `a` with each byte that is not 0 replaced by 0xFF (orc.b)."""
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


def product(shift: int) -> Semantics:
    """Return the semantics of a carry-less product: rd = 64 bits of the 128-bit product, from bit `shift` on."""
    return reg(64, lambda a, b: (a.clmul(b) >> shift).trunc(64))


ZBC: Final = section("Zbc", (
    ("clmul",  "0000101 rs2 rs1 001 rd 0110011", "rd, rs1, rs2", product(0)),
    ("clmulr", "0000101 rs2 rs1 010 rd 0110011", "rd, rs1, rs2", product(63)),
    ("clmulh", "0000101 rs2 rs1 011 rd 0110011", "rd, rs1, rs2", product(64)),
))  # fmt: skip


def bit(a: Word, n: Word) -> Word:
    """Return a word of the width of `a` in which only one bit is 1: bit `n` modulo the width."""
    return a.const(1) << (n & a.width - 1)


OPERATIONS: Final[tuple[tuple[str, str, str, Binary], ...]] = (
    # name    funct7     funct3 f(a, n)
    ("bclr",  "0100100", "001", lambda a, n: a & ~bit(a, n)),
    ("bext",  "0100100", "101", lambda a, n: a >> (n & a.width - 1) & 1),
    ("binv",  "0110100", "001", lambda a, n: a ^ bit(a, n)),
    ("bset",  "0010100", "001", lambda a, n: a | bit(a, n)),
)  # fmt: skip


def single_bits() -> Iterator[RowSource]:
    """Yield the table rows of the single-bit instructions, with a register and with an immediate."""
    for name, funct7, funct3, f in OPERATIONS:
        yield name, f"{funct7} rs2 rs1 {funct3} rd 0110011", "rd, rs1, rs2", reg(64, f)
        yield name + "i", f"{funct7[:6]} uimm[5:0] rs1 {funct3} rd 0010011", "rd, rs1, shamt", imm(64, f)


ZBS: Final = section("Zbs", single_bits())
