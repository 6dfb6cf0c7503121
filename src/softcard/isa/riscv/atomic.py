"""RISC-V A extension: load-reserved, store-conditional, atomic operations (ISA manual volume I, chapter "A").

Every atomic is sequentially consistent, regardless of its aq and rl bits.
"""

from __future__ import annotations

from typing import Final

from softcard.isa.riscv.format import RowSource, get, put, section
from softcard.isa.riscv.insn import Semantics


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
