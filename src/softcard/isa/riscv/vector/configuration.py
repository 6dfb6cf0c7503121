"""vsetvli, vsetivli and vsetvl: set the element type and the number of elements (V 1.0, chapter 6)."""

from __future__ import annotations

from typing import Final

from softcard.isa.riscv.insn import Insn
from softcard.isa.riscv.vector.algebra import VectorOps, VectorSemantics
from softcard.isa.riscv.vector.rows import OP_V, section

ALL: Final = (1 << 64) - 1


def by_register(vtype_in_register: bool) -> VectorSemantics:
    """Return the semantics of vsetvl or vsetvli, whose requested length is x[rs1].

    If `vtype_in_register` is True, vtype comes from rs2 (vsetvl), else from the immediate. If rs1 is x0 and rd
    is not, the requested length is the maximum. If both are x0, it is the current vl."""

    def semantics(o: VectorOps, i: Insn) -> None:
        vtype = o.x(i.rs2) if vtype_in_register else o.const(64, i.imm)
        length = o.x(i.rs1) if i.rs1 else o.const(64, ALL) if i.rd else None
        o.set_x(i.rd, o.configure(vtype, length))

    return semantics


def by_number(o: VectorOps, i: Insn) -> None:
    """Execute vsetivli: the requested length is the number in the rs1 field, and vtype is the immediate."""
    o.set_x(i.rd, o.configure(o.const(64, i.imm), o.const(64, i.rs1)))


CONFIGURATION: Final = section((
    ("vsetvli",  f"0  uimm[10:0] rs1  111 rd {OP_V}", "rd, rs1, vtype",  by_register(False)),
    ("vsetivli", f"11 uimm[9:0]  zimm 111 rd {OP_V}", "rd, zimm, vtype", by_number),
    ("vsetvl",   f"1000000 rs2   rs1  111 rd {OP_V}", "rd, rs1, rs2",    by_register(True)),
))  # fmt: skip
