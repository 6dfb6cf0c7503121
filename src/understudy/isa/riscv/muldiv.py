"""M: multiplication and division (ISA manual volume I, chapter "M"). Division by zero and overflow do not trap."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from understudy.isa.riscv.algebra import Value
from understudy.isa.riscv.format import Binary, RowSource, section
from understudy.isa.riscv.integer import reg


def high(a_signed: bool, b_signed: bool) -> Binary:
    """The upper half of the 128-bit product."""

    def f(o: Any, w: int, a: Value, b: Value) -> Value:
        a = o.sext(128, w, a) if a_signed else o.zext(128, w, a)
        b = o.sext(128, w, b) if b_signed else o.zext(128, w, b)
        return o.trunc(w, 128, o.lshr(128, o.mul(128, a, b), o.const(128, w)))

    return f


def is_zero(o: Any, w: int, b: Value) -> Value:
    """b == 0."""
    return o.eq(w, b, o.const(w, 0))


def divisor(o: Any, w: int, b: Value) -> Value:
    """`b`, or 1 where it is zero and the quotient is not used."""
    return o.select(w, is_zero(o, w, b), o.const(w, 1), b)


def signed_divisor(o: Any, w: int, a: Value, b: Value) -> Value:
    """`b`, or 1 where it is zero or a / b overflows: a / 1 and a % 1 are the results of overflow."""
    overflow = o.and_(1, o.eq(w, a, o.const(w, 1 << w - 1)), o.eq(w, b, o.const(w, -1)))
    return o.select(w, overflow, o.const(w, 1), divisor(o, w, b))


def div(o: Any, w: int, a: Value, b: Value) -> Value:
    """a / b rounded to zero; -1 for b = 0."""
    return o.select(w, is_zero(o, w, b), o.const(w, -1), o.sdiv(w, a, signed_divisor(o, w, a, b)))


def divu(o: Any, w: int, a: Value, b: Value) -> Value:
    """Unsigned a / b; all ones for b = 0."""
    return o.select(w, is_zero(o, w, b), o.const(w, -1), o.udiv(w, a, divisor(o, w, b)))


def rem(o: Any, w: int, a: Value, b: Value) -> Value:
    """The remainder with the sign of a; a for b = 0."""
    return o.select(w, is_zero(o, w, b), a, o.srem(w, a, signed_divisor(o, w, a, b)))


def remu(o: Any, w: int, a: Value, b: Value) -> Value:
    """The unsigned remainder; a for b = 0."""
    return o.select(w, is_zero(o, w, b), a, o.urem(w, a, divisor(o, w, b)))


OPERATIONS: Final[tuple[tuple[str, str, bool, Binary], ...]] = (
    # name    funct3 W form f(o, w, a, b)
    ("mul",    "000", True,  lambda o, w, a, b: o.mul(w, a, b)),
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
