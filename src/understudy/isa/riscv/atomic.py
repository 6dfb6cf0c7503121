"""A: load-reserved, store-conditional and atomic memory operations (ISA manual volume I, chapter "A").

Every atomic is sequentially consistent, whatever its aq and rl bits ask for.
"""

from __future__ import annotations

from typing import Final

from understudy.isa.riscv.format import RowSource, get, put, section
from understudy.isa.riscv.insn import Meaning


def lr(w: int) -> Meaning:
    """rd = memory[rs1], reserved."""
    return lambda o, i: put(o, w, i.rd, o.load_reserved(w, o.x(i.rs1)))


def sc(w: int) -> Meaning:
    """memory[rs1] = rs2 if the reservation holds; rd = 0 if so, else 1."""
    return lambda o, i: o.set_x(i.rd, o.store_conditional(w, o.x(i.rs1), get(o, w, i.rs2)))


def amo(w: int, kind: str) -> Meaning:
    """rd = memory[rs1]; memory[rs1] = kind(rd, rs2)."""
    return lambda o, i: put(o, w, i.rd, o.amo(kind, w, o.x(i.rs1), get(o, w, i.rs2)))


def rows(w: int, t: str, funct3: str) -> tuple[RowSource, ...]:
    """All atomics of one width."""
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
