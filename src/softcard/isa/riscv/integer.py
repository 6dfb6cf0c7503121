"""RV64I, M, Zicond and A: integer and atomic instructions.

The ISA manual volume I has them in its chapters "RV32I", "RV64I", "M", "Zicond" and "A".

Division by zero and overflow do not trap.
"""

from __future__ import annotations

from collections.abc import Iterator
from operator import add, and_, eq, lshift, lt, mul, ne, or_, rshift, sub, xor
from typing import Final

from softcard.isa.riscv.algebra import Ops
from softcard.isa.riscv.format import RowSource, address, get, put, section
from softcard.isa.riscv.insn import Insn, Semantics
from softcard.isa.riscv.word import Binary, Word, on_values


def reg(w: int, f: Binary) -> Semantics:
    """Return the semantics of an operation on two registers: rd = f(rs1, rs2).

    The function computes with the low `w` bits, and its result is sign-extended."""
    g = on_values(f, w)
    return lambda o, i: put(o, w, i.rd, g(o, get(o, w, i.rs1), get(o, w, i.rs2)))


def imm(w: int, f: Binary) -> Semantics:
    """Return the semantics of an operation with an immediate: rd = f(rs1, imm).

    The function computes with the low `w` bits, and its result is sign-extended."""
    g = on_values(f, w)
    return lambda o, i: put(o, w, i.rd, g(o, get(o, w, i.rs1), o.const(w, i.imm)))


def load(w: int, *, signed: bool = True) -> Semantics:
    """Return the semantics of a load of `w` bits: rd = memory[rs1 + imm], extended to 64 bits.

    The value is sign-extended if `signed` is True, else zero-extended."""

    def semantics(o: Ops, i: Insn) -> None:
        v = o.load(w, address(o, i))
        o.set_x(i.rd, v if w == 64 else o.sext(64, w, v) if signed else o.zext(64, w, v))

    return semantics


def store(w: int) -> Semantics:
    """Return the semantics of a store: memory[rs1 + imm] = the low `w` bits of rs2."""
    return lambda o, i: o.store(w, address(o, i), get(o, w, i.rs2))


def branch(f: Binary) -> Semantics:
    """Return the semantics of a conditional branch: go to pc + imm if f(rs1, rs2) is 1."""
    g = on_values(f, 64)
    return lambda o, i: o.branch(g(o, o.x(i.rs1), o.x(i.rs2)), i.imm)


def shifted(f: Binary) -> Binary:
    """Return a function like the shift `f` that uses only the low bits of its second argument, the shift count."""
    return lambda a, b: f(a, b & a.width - 1)


def lui(o: Ops, i: Insn) -> None:
    """Execute lui: rd = imm."""
    o.set_x(i.rd, o.const(64, i.imm))


def auipc(o: Ops, i: Insn) -> None:
    """Execute auipc: rd = pc + imm."""
    o.set_x(i.rd, o.const(64, o.pc + i.imm))


def jal(o: Ops, i: Insn) -> None:
    """Execute jal: rd = address of the next instruction; go to pc + imm."""
    o.set_x(i.rd, o.const(64, o.next_pc))
    o.jump(i.imm)


def jalr(o: Ops, i: Insn) -> None:
    """Execute jalr: rd = address of the next instruction; go to rs1 + imm with bit 0 cleared."""
    target = o.and_(64, address(o, i), o.const(64, ~1))
    o.set_x(i.rd, o.const(64, o.next_pc))
    o.jump_to(target)


# Shifts take the low bits of their count. A W form computes on the low halves and sign-extends the result.
ARITHMETIC: Final[tuple[tuple[str, str, str, str, bool, Binary], ...]] = (
    # OP     OP-IMM   funct7     funct3 W form f(a, b)
    ("add",  "addi",  "0000000", "000", True,  add),
    ("sub",  "",      "0100000", "000", True,  sub),
    ("sll",  "slli",  "0000000", "001", True,  shifted(lshift)),
    ("slt",  "slti",  "0000000", "010", False, lambda a, b: a.slt(b).zext(a.width)),
    ("sltu", "sltiu", "0000000", "011", False, lambda a, b: (a < b).zext(a.width)),
    ("xor",  "xori",  "0000000", "100", False, xor),
    ("srl",  "srli",  "0000000", "101", True,  shifted(rshift)),
    ("sra",  "srai",  "0100000", "101", True,  shifted(Word.sra)),
    ("or",   "ori",   "0000000", "110", False, or_),
    ("and",  "andi",  "0000000", "111", False, and_),
)  # fmt: skip


def arithmetic() -> Iterator[RowSource]:
    """Yield the table rows of the opcodes OP, OP-IMM, OP-32 and OP-IMM-32."""
    for name, name_imm, funct7, funct3, w_form, f in ARITHMETIC:
        shift = funct3 in ("001", "101")
        last = "rd, rs1, shamt" if shift else "rd, rs1, imm"
        yield name, f"{funct7} rs2 rs1 {funct3} rd 0110011", "rd, rs1, rs2", reg(64, f)
        if name_imm:
            source = f"{funct7[:6]} uimm[5:0]" if shift else "imm[11:0]"
            yield name_imm, f"{source} rs1 {funct3} rd 0010011", last, imm(64, f)
        if w_form:
            yield name + "w", f"{funct7} rs2 rs1 {funct3} rd 0111011", "rd, rs1, rs2", reg(32, f)
        if w_form and name_imm:
            source = f"{funct7} uimm[4:0]" if shift else "imm[11:0]"
            yield name_imm + "w", f"{source} rs1 {funct3} rd 0011011", last, imm(32, f)


BRANCH: Final[tuple[RowSource, ...]] = (
    ("beq",  "imm[12|10:5] rs2 rs1 000 imm[4:1|11] 1100011", "rs1, rs2, target", branch(eq)),
    ("bne",  "imm[12|10:5] rs2 rs1 001 imm[4:1|11] 1100011", "rs1, rs2, target", branch(ne)),
    ("blt",  "imm[12|10:5] rs2 rs1 100 imm[4:1|11] 1100011", "rs1, rs2, target", branch(Word.slt)),
    ("bge",  "imm[12|10:5] rs2 rs1 101 imm[4:1|11] 1100011", "rs1, rs2, target", branch(lambda a, b: ~a.slt(b))),
    ("bltu", "imm[12|10:5] rs2 rs1 110 imm[4:1|11] 1100011", "rs1, rs2, target", branch(lt)),
    ("bgeu", "imm[12|10:5] rs2 rs1 111 imm[4:1|11] 1100011", "rs1, rs2, target", branch(lambda a, b: ~(a < b))),
)  # fmt: skip

OTHERS: Final[tuple[RowSource, ...]] = (
    ("lui",       "imm[31:12]                rd   0110111", "rd, high",      lui),
    ("auipc",     "imm[31:12]                rd   0010111", "rd, high",      auipc),

    ("lb",        "imm[11:0]     rs1 000     rd   0000011", "rd, imm(rs1)",  load(8)),
    ("lh",        "imm[11:0]     rs1 001     rd   0000011", "rd, imm(rs1)",  load(16)),
    ("lw",        "imm[11:0]     rs1 010     rd   0000011", "rd, imm(rs1)",  load(32)),
    ("ld",        "imm[11:0]     rs1 011     rd   0000011", "rd, imm(rs1)",  load(64)),
    ("lbu",       "imm[11:0]     rs1 100     rd   0000011", "rd, imm(rs1)",  load(8, signed=False)),
    ("lhu",       "imm[11:0]     rs1 101     rd   0000011", "rd, imm(rs1)",  load(16, signed=False)),
    ("lwu",       "imm[11:0]     rs1 110     rd   0000011", "rd, imm(rs1)",  load(32, signed=False)),

    ("sb",        "imm[11:5] rs2 rs1 000 imm[4:0] 0100011", "rs2, imm(rs1)", store(8)),
    ("sh",        "imm[11:5] rs2 rs1 001 imm[4:0] 0100011", "rs2, imm(rs1)", store(16)),
    ("sw",        "imm[11:5] rs2 rs1 010 imm[4:0] 0100011", "rs2, imm(rs1)", store(32)),
    ("sd",        "imm[11:5] rs2 rs1 011 imm[4:0] 0100011", "rs2, imm(rs1)", store(64)),

    # Every fence orders everything, whatever its fields are. 2099 is 0x833: fm = 8, pred = succ = rw.
    ("fence.tso", "1000 0011 0011 ----- 000 ----- 0001111", "",              lambda o, i: o.fence()),
    ("fence",     "order!=2099    ----- 000 ----- 0001111", "[order]",       lambda o, i: o.fence()),
)  # fmt: skip

INTEGER: Final = (
    *section("I", OTHERS),
    *section("I", arithmetic()),
    *section("I", BRANCH, flow="branch"),
    *section("I", [("jal", "imm[20|10:1|11|19:12] rd 1101111", "rd, target", jal)], flow="jump"),
    *section("I", [("jalr", "imm[11:0] rs1 000 rd 1100111", "rd, imm(rs1)", jalr)], flow="indirect"),
)


def high(a_signed: bool, b_signed: bool) -> Binary:
    """Return the function of the upper half of the 128-bit product of a and b.

    `a_signed` and `b_signed` are True for factors in two's complement."""
    return lambda a, b: (a.extended(128, a_signed) * b.extended(128, b_signed))[127:64].trunc(64)


def divisor(b: Word) -> Word:
    """Return the number to divide by: `b`, or 1 if `b` is zero.

    If `b` is zero, the caller does not use the quotient."""
    return (b == 0).select(1, b)


def signed_divisor(a: Word, b: Word) -> Word:
    """Return the number to divide by: `b`, or 1 if `b` is zero or a / b overflows.

    If a / b overflows, a / 1 and a % 1 are the quotient and the remainder that the ISA manual specifies."""
    overflow = (a == 1 << a.width - 1) & (b == -1)
    return overflow.select(1, divisor(b))


def div(a: Word, b: Word) -> Word:
    """Return a / b rounded to zero; -1 for b = 0."""
    return (b == 0).select(-1, a.sdiv(signed_divisor(a, b)))


def divu(a: Word, b: Word) -> Word:
    """Return a / b, unsigned; all ones for b = 0."""
    return (b == 0).select(-1, a.udiv(divisor(b)))


def rem(a: Word, b: Word) -> Word:
    """Return the remainder with the sign of a; a for b = 0."""
    return (b == 0).select(a, a.srem(signed_divisor(a, b)))


def remu(a: Word, b: Word) -> Word:
    """Return the unsigned remainder; a for b = 0."""
    return (b == 0).select(a, a.urem(divisor(b)))


MULDIV_OPERATIONS: Final[tuple[tuple[str, str, bool, Binary], ...]] = (
    # name    funct3 W form f(a, b)
    ("mul",    "000", True,  mul),
    ("mulh",   "001", False, high(True, True)),
    ("mulhsu", "010", False, high(True, False)),
    ("mulhu",  "011", False, high(False, False)),
    ("div",    "100", True,  div),
    ("divu",   "101", True,  divu),
    ("rem",    "110", True,  rem),
    ("remu",   "111", True,  remu),
)  # fmt: skip


def multiplications() -> Iterator[RowSource]:
    """Yield the table rows of multiplications and divisions: the 64-bit instructions and their W forms."""
    for name, funct3, w_form, f in MULDIV_OPERATIONS:
        yield name, f"0000001 rs2 rs1 {funct3} rd 0110011", "rd, rs1, rs2", reg(64, f)
        if w_form:
            yield name + "w", f"0000001 rs2 rs1 {funct3} rd 0111011", "rd, rs1, rs2", reg(32, f)


MULDIV: Final = section("M", multiplications())


ZICOND: Final = section("Zicond", (
    ("czero.eqz", "0000111 rs2 rs1 101 rd 0110011", "rd, rs1, rs2", reg(64, lambda a, b: (b == 0).select(0, a))),
    ("czero.nez", "0000111 rs2 rs1 111 rd 0110011", "rd, rs1, rs2", reg(64, lambda a, b: (b == 0).select(a, 0))),
))  # fmt: skip


# ---- the A extension -------------------------------------------------------------------------------------------------
# RISC-V A extension: load-reserved, store-conditional, atomic operations (ISA manual volume I, chapter "A").
#
# Every atomic is sequentially consistent, regardless of its aq and rl bits.


def lr(w: int) -> Semantics:
    """Return the semantics of load-reserved for `w` bits: rd = memory[rs1], and reserve the address."""
    return lambda o, i: put(o, w, i.rd, o.load_reserved(w, o.x(i.rs1)))


def sc(w: int) -> Semantics:
    """Return the semantics of store-conditional for `w` bits: memory[rs1] = rs2 if the reservation is valid.

    rd = 0 if the value was stored, else 1."""
    return lambda o, i: o.set_x(i.rd, o.store_conditional(w, o.x(i.rs1), get(o, w, i.rs2)))


def amo(w: int, kind: str) -> Semantics:
    """Return the semantics of an atomic operation on `w` bits: rd = old; memory[rs1] = kind(old, rs2).

    old is the old value of memory[rs1]. `kind` is named as in `Algebra.amo`."""
    return lambda o, i: put(o, w, i.rd, o.amo(kind, w, o.x(i.rs1), get(o, w, i.rs2)))


def rows(w: int, t: str, funct3: str) -> tuple[RowSource, ...]:
    """Return the table rows of all atomics of `w` bits, with the mnemonic suffix `t` and the encoding `funct3`."""
    return (
        (f"lr.{t}",      f"00010 aq rl 00000 rs1 {funct3} rd 0101111", "rd, (rs1)",      lr(w)),
        (f"sc.{t}",      f"00011 aq rl rs2   rs1 {funct3} rd 0101111", "rd, rs2, (rs1)", sc(w)),
        (f"amoswap.{t}", f"00001 aq rl rs2   rs1 {funct3} rd 0101111", "rd, rs2, (rs1)", amo(w, "swap")),
        (f"amoadd.{t}",  f"00000 aq rl rs2   rs1 {funct3} rd 0101111", "rd, rs2, (rs1)", amo(w, "add")),
        (f"amoxor.{t}",  f"00100 aq rl rs2   rs1 {funct3} rd 0101111", "rd, rs2, (rs1)", amo(w, "xor")),
        (f"amoand.{t}",  f"01100 aq rl rs2   rs1 {funct3} rd 0101111", "rd, rs2, (rs1)", amo(w, "and")),
        (f"amoor.{t}",   f"01000 aq rl rs2   rs1 {funct3} rd 0101111", "rd, rs2, (rs1)", amo(w, "or")),
        (f"amomin.{t}",  f"10000 aq rl rs2   rs1 {funct3} rd 0101111", "rd, rs2, (rs1)", amo(w, "min")),
        (f"amomax.{t}",  f"10100 aq rl rs2   rs1 {funct3} rd 0101111", "rd, rs2, (rs1)", amo(w, "max")),
        (f"amominu.{t}", f"11000 aq rl rs2   rs1 {funct3} rd 0101111", "rd, rs2, (rs1)", amo(w, "minu")),
        (f"amomaxu.{t}", f"11100 aq rl rs2   rs1 {funct3} rd 0101111", "rd, rs2, (rs1)", amo(w, "maxu")),
    )  # fmt: skip


ATOMIC: Final = section("A", rows(32, "w", "010") + rows(64, "d", "011"))
