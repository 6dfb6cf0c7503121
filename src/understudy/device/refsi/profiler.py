"""What the reference driver's profiler counts (CA_PROFILE_LEVEL above 2): counters 3 to 17 by class of instruction.

It looks instructions up by the match bits of its disassembler, before they execute. That has effects which are kept
here. Pseudo-instructions whose bits differ from the plain form are not counted. Compressed forms with the same match
bits count as whichever was entered last: 8-byte accesses as the 4-byte float ones of RV32, c.jr as c.mv, c.jalr and
c.ebreak as c.add. lui, auipc and csr instructions do not count at all.

Of vectors it has, one count for an instruction: loads and stores but for segments, whole registers and masks, by the
width in their name (that of the index where they have one); integer and fixed-point arithmetic but for vand, vsub.vx
and carries out of sums without a carry in; float arithmetic but for moves of element 0. Reductions, operations on
masks, permutations and vset* do not count.
"""

from __future__ import annotations

from typing import Final

from understudy.core.errors import AccessFault, BeyondModel
from understudy.device.refsi.registers import COUNTER_CSR, Counter
from understudy.isa.riscv.decode import decode, length
from understudy.isa.riscv.insn import IllegalInstruction, Insn
from understudy.isa.riscv.state import Hart
from understudy.isa.riscv.vector.fixed import FIXED
from understudy.isa.riscv.vector.floating import FLOATING
from understudy.isa.riscv.vector.integer import INTEGER

MASK64: Final = (1 << 64) - 1

_READ: Final = {
    1: Counter.READ_BYTE_INSN,
    2: Counter.READ_SHORT_INSN,
    4: Counter.READ_WORD_INSN,
    8: Counter.READ_DOUBLE_INSN,
}
_WRITE: Final = {
    1: Counter.WRITE_BYTE_INSN,
    2: Counter.WRITE_SHORT_INSN,
    4: Counter.WRITE_WORD_INSN,
    8: Counter.WRITE_DOUBLE_INSN,
}


def _table() -> dict[str, tuple[int, ...]]:
    table: dict[str, tuple[int, ...]] = {}

    def enter(names: str, *slots: int) -> None:
        table.update(dict.fromkeys(names.split(), slots))

    for names, size in (("lb lbu", 1), ("lh lhu", 2), ("lw lwu flw lr.w", 4), ("ld fld lr.d", 8)):
        enter(names, Counter.READ_INSN, _READ[size])
    for names, size in (("sb", 1), ("sh", 2), ("sw fsw sc.w", 4), ("sd fsd sc.d", 8)):
        enter(names, Counter.WRITE_INSN, _WRITE[size])
    enter("c.lw c.lwsp c.ld c.ldsp", Counter.READ_INSN, _READ[4])
    enter("c.fld c.fldsp", Counter.READ_INSN, _READ[8])
    enter("c.sw c.swsp c.sd c.sdsp", Counter.WRITE_INSN, _WRITE[4])
    enter("c.fsd c.fsdsp", Counter.WRITE_INSN, _WRITE[8])
    for suffix, size in ((".w", 4), (".d", 8)):
        slots = (Counter.READ_INSN, _READ[size], Counter.INT_INSN, Counter.WRITE_INSN, _WRITE[size])
        enter(" ".join(f"amo{kind}{suffix}" for kind in ("swap", "add", "and", "or", "max", "maxu")), *slots)
    enter("jal jalr beq bne blt bge bltu bgeu c.j c.beqz c.bnez", Counter.BRANCH_INSN)
    enter("addi slti sltiu xori ori andi slli srli srai add sub sll slt sltu xor srl sra or and", Counter.INT_INSN)
    enter("addiw slliw srliw sraiw addw subw sllw srlw sraw", Counter.INT_INSN)
    enter("mul mulh mulhsu mulhu mulw div divu divw divuw rem remu remw remuw", Counter.INT_INSN)
    enter("c.li c.lui c.addi c.nop c.addiw c.addi16sp c.addi4spn c.slli c.srli c.srai c.andi", Counter.INT_INSN)
    enter("c.mv c.jr c.add c.jalr c.ebreak c.and c.or c.xor c.sub c.addw c.subw", Counter.INT_INSN)
    for bits, size in ((8, 1), (16, 2), (32, 4), (64, 8)):
        loads = f"vle{bits}.v vle{bits}ff.v vlse{bits}.v vluxei{bits}.v vloxei{bits}.v"
        enter(loads, Counter.READ_INSN, _READ[size])
        stores = f"vse{bits}.v vsse{bits}.v vsuxei{bits}.v vsoxei{bits}.v"
        enter(stores, Counter.WRITE_INSN, _WRITE[size])
    integer = {row.name for row in (*INTEGER, *FIXED)} - set(_FORGOTTEN.split())
    enter(" ".join(integer), Counter.INT_INSN)
    enter(" ".join({row.name for row in FLOATING} - {"vfmv.f.s", "vfmv.s.f"}), Counter.FLOAT_INSN)
    return table


_FORGOTTEN: Final = "vand.vv vand.vx vand.vi vsub.vx vmadc.vv vmadc.vx vmadc.vi vmsbc.vv vmsbc.vx"
"""Arithmetic of integers that the profiler's table lacks."""
COUNTED: Final = _table()
"""Counters by mnemonic (that of the compressed form, where there is one). F and D arithmetic: see `counters_of`."""
_FLOAT_EXTENSIONS: Final = ("F", "D")
_RETURN_REGISTER: Final = 1


def counters_of(insn: Insn) -> tuple[int, ...]:
    """The counters that an instruction increments."""
    name = insn.alias or insn.name
    if _unmatched(insn, name):
        return ()
    found = COUNTED.get(name)
    if found is None and insn.spec.extension in _FLOAT_EXTENSIONS:
        return (Counter.FLOAT_INSN,)
    return found or ()


def _unmatched(insn: Insn, name: str) -> bool:
    """Pseudo-instructions that the disassembler knows under bits of their own."""
    match name:
        case "jal":
            return insn.rd == _RETURN_REGISTER
        case "jalr":
            ret = (insn.rd, insn.rs1, insn.imm) == (0, _RETURN_REGISTER, 0)
            return ret or (insn.rd == _RETURN_REGISTER and insn.imm == 0)
        case "c.jr":
            return insn.rs1 == _RETURN_REGISTER
        case "sltiu":
            return insn.imm == 1
        case "xori":
            return insn.imm == -1
    return False


def count(hart: Hart, insn: Insn) -> None:
    """Count one instruction of `hart`; to be called as an engine's retire hook, and for trapping instructions."""
    for slot in counters_of(insn):
        number = COUNTER_CSR + slot
        hart.csr[number] = hart.csr.get(number, 0) + 1 & MASK64


def count_trapped(hart: Hart, pc: int) -> None:
    """Count the instruction at `pc`, which trapped: the profiler looks at it before it executes."""
    try:
        word = hart.port.fetch(pc)
        if word == 0:
            count_word_zero(hart)
            return
        if length(word) == 4:
            word |= hart.port.fetch(pc + 2 & MASK64) << 16
        insn = decode(word)
    except (AccessFault, IllegalInstruction, BeyondModel):
        return
    count(hart, insn)


def count_word_zero(hart: Hart) -> None:
    """An all-zero parcel has the match bits of c.addi4spn."""
    number = COUNTER_CSR + Counter.INT_INSN
    hart.csr[number] = hart.csr.get(number, 0) + 1 & MASK64
