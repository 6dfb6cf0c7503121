"""Zicsr, Zifencei and the privileged instructions (ISA manual volumes I and II).

Their `flow` is ``system``: only the reference engine executes them. So their semantics may inspect and change the
hart's privilege.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import or_
from typing import Final

from softcard.isa.riscv.algebra import SystemOps
from softcard.isa.riscv.csr import TVM, TW, allowed
from softcard.isa.riscv.format import section
from softcard.isa.riscv.insn import Insn, SystemSemantics
from softcard.isa.riscv.word import Binary, on_values
from softcard.isa.word import Value

ILLEGAL, BREAKPOINT, ECALL_FROM_U = 2, 3, 8

Source = Callable[[SystemOps, Insn], Value]


def register(o: SystemOps, i: Insn) -> Value:
    """Return the value of register rs1."""
    return o.x(i.rs1)


def immediate(o: SystemOps, i: Insn) -> Value:
    """Return the 5-bit rs1 field of `i` as an immediate."""
    return o.const(64, i.rs1)


def csrrw(source: Source) -> SystemSemantics:
    """Return the semantics of csrrw or csrrwi: rd = CSR; CSR = source. If rd is x0, the CSR is not read.

    `source` returns the new value: `register` or `immediate`."""

    def semantics(o: SystemOps, i: Insn) -> None:
        new = source(o, i)
        old = o.csr_read(i.imm) if i.rd else None
        o.csr_write(i.imm, new)
        if old is not None:
            o.set_x(i.rd, old)

    return semantics


def csrr_bits(source: Source, f: Binary) -> SystemSemantics:
    """Return the semantics of an instruction that sets or clears bits of a CSR: rd = CSR; CSR = f(CSR, source).

    `source` returns the bits: `register` or `immediate`. The CSR is not written if the rs1 field is 0."""
    g = on_values(f, 64)

    def semantics(o: SystemOps, i: Insn) -> None:
        bits = source(o, i)
        old = o.csr_read(i.imm)
        if i.rs1:
            o.csr_write(i.imm, g(o, old, bits))
        o.set_x(i.rd, old)

    return semantics


def guarded(trap_bit: int, semantics: SystemSemantics) -> SystemSemantics:
    """Return semantics like `semantics`, but with an illegal-instruction exception if the privilege is too low.

    The instruction is illegal in U mode, and in S mode if the bit of mstatus in the mask `trap_bit` is set."""

    def guard(o: SystemOps, i: Insn) -> None:
        if allowed(o.hart, trap_bit):
            semantics(o, i)
        else:
            o.trap(ILLEGAL, i.word)

    return guard


CLEAR: Final[Binary] = lambda csr, bits: csr & ~bits  # noqa: E731

SYSTEM: Final = (
    *section("Zicsr", (
        ("csrrw",  "csr rs1  001 rd 1110011", "rd, csr, rs1",  csrrw(register)),
        ("csrrs",  "csr rs1  010 rd 1110011", "rd, csr, rs1",  csrr_bits(register, or_)),
        ("csrrc",  "csr rs1  011 rd 1110011", "rd, csr, rs1",  csrr_bits(register, CLEAR)),
        ("csrrwi", "csr zimm 101 rd 1110011", "rd, csr, zimm", csrrw(immediate)),
        ("csrrsi", "csr zimm 110 rd 1110011", "rd, csr, zimm", csrr_bits(immediate, or_)),
        ("csrrci", "csr zimm 111 rd 1110011", "rd, csr, zimm", csrr_bits(immediate, CLEAR)),
    ), flow="system"),
    *section("Zifencei", (
        ("fence.i", "------------ ----- 001 ----- 0001111", "", lambda o, i: o.fence_i()),
    ), flow="system"),
    *section("I", (
        ("ecall",  "000000000000 00000 000 00000 1110011", "", lambda o, i: o.trap(ECALL_FROM_U + o.hart.privilege)),
        ("ebreak", "000000000001 00000 000 00000 1110011", "", lambda o, i: o.trap(BREAKPOINT, o.pc)),
    ), flow="system"),
    *section("Priv", (
        ("sret",       "0001000 00010 00000 000 00000 1110011", "", lambda o, i: o.return_from("s")),
        ("mret",       "0011000 00010 00000 000 00000 1110011", "", lambda o, i: o.return_from("m")),
        ("wfi",        "0001000 00101 00000 000 00000 1110011", "", guarded(TW, lambda o, i: o.wait_for_interrupt())),
        ("sfence.vma", "0001001 rs2   rs1   000 00000 1110011", "rs1, rs2", guarded(TVM, lambda o, i: o.fence_vma())),
    ), flow="system"),
)  # fmt: skip
