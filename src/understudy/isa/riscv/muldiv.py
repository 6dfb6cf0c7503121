"""M: multiplication and division (ISA manual volume I, chapter "M"). Division by zero and overflow do not trap."""

from __future__ import annotations

from collections.abc import Iterator
from operator import mul
from typing import Final

from understudy.isa.riscv.format import RowSource, section
from understudy.isa.riscv.integer import reg
from understudy.isa.riscv.word import Binary, Word


def high(a_signed: bool, b_signed: bool) -> Binary:
    """The upper half of the 128-bit product."""
    return lambda a, b: (a.extended(128, a_signed) * b.extended(128, b_signed))[127:64].trunc(64)


def divisor(b: Word) -> Word:
    """`b`, or 1 where it is zero and the quotient is not used."""
    return (b == 0).select(1, b)


def signed_divisor(a: Word, b: Word) -> Word:
    """`b`, or 1 where it is zero or a / b overflows: a / 1 and a % 1 are the results of overflow."""
    overflow = (a == 1 << a.width - 1) & (b == -1)
    return overflow.select(1, divisor(b))


def div(a: Word, b: Word) -> Word:
    """a / b rounded to zero; -1 for b = 0."""
    return (b == 0).select(-1, a.sdiv(signed_divisor(a, b)))


def divu(a: Word, b: Word) -> Word:
    """Unsigned a / b; all ones for b = 0."""
    return (b == 0).select(-1, a.udiv(divisor(b)))


def rem(a: Word, b: Word) -> Word:
    """The remainder with the sign of a; a for b = 0."""
    return (b == 0).select(a, a.srem(signed_divisor(a, b)))


def remu(a: Word, b: Word) -> Word:
    """The unsigned remainder; a for b = 0."""
    return (b == 0).select(a, a.urem(divisor(b)))


OPERATIONS: Final[tuple[tuple[str, str, bool, Binary], ...]] = (
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


def rows() -> Iterator[RowSource]:
    """The 64-bit instructions and their W forms."""
    for name, funct3, w_form, f in OPERATIONS:
        yield name, f"0000001 rs2 rs1 {funct3} rd 0110011", "rd, rs1, rs2", reg(64, f)
        if w_form:
            yield name + "w", f"0000001 rs2 rs1 {funct3} rd 0111011", "rd, rs1, rs2", reg(32, f)


MULDIV: Final = section("M", rows())
