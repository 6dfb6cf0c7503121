"""The counts of the reference driver's profiler: counters 3 to 17, by class of instruction.

The profiler runs if CA_PROFILE_LEVEL is above 2. Before an instruction executes, the reference driver looks
up its class by the match bits in its disassembler's table. This module reproduces the effects of this method.
Pseudo-instructions whose bits differ from the plain form are not counted. If several compressed forms have
the same match bits, all are counted as the last one in the table: 8-byte accesses as the 4-byte float ones of
RV32, c.jr as c.mv, c.jalr and c.ebreak as c.add. lui, auipc and csr instructions do not count at all.

These vector instructions count once each: loads and stores except for segments, whole registers and masks, by
the width in their name (the index width for indexed ones); integer and fixed-point arithmetic except for
vand, vsub.vx, and vmadc and vmsbc without a carry in; float arithmetic except for moves of element 0.
Reductions, operations on masks, permutations and vset* do not count."""

from __future__ import annotations

from typing import Final

from softcard.core.errors import AccessFault, BeyondModel
from softcard.device.refsi.registers import COUNTER_CSR, Counter
from softcard.isa.riscv.decode import decode, length
from softcard.isa.riscv.insn import IllegalInstruction, Insn
from softcard.isa.riscv.state import Hart
from softcard.isa.riscv.vector.fixed import FIXED
from softcard.isa.riscv.vector.floating import FLOATING
from softcard.isa.riscv.vector.integer import INTEGER

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
"""Integer vector instructions that the reference driver's profiler does not count."""
COUNTED: Final = _table()
"""The counters that an instruction increments, by mnemonic (of the compressed form if it has one).

For F and D arithmetic see `counters_of`.
"""
_FLOAT_EXTENSIONS: Final = ("F", "D")
_RETURN_REGISTER: Final = 1


def counters_of(insn: Insn) -> tuple[int, ...]:
    """Return the counters that an instruction increments."""
    name = insn.alias or insn.name
    if _unmatched(insn, name):
        return ()
    found = COUNTED.get(name)
    if found is None and insn.spec.extension in _FLOAT_EXTENSIONS:
        return (Counter.FLOAT_INSN,)
    return found or ()


def _unmatched(insn: Insn, name: str) -> bool:
    """Return True for a pseudo-instruction whose match bits in the disassembler differ from the plain form's."""
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
    """Count one instruction of `hart`. Engines call it for retired and for trapping instructions."""
    for slot in counters_of(insn):
        number = COUNTER_CSR + slot
        hart.csr[number] = hart.csr.get(number, 0) + 1 & MASK64


def count_trapped(hart: Hart, pc: int) -> None:
    """Count the instruction at `pc`, which trapped: the profiler counts an instruction before its execution."""
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
    """Count an all-zero halfword. It counts as c.addi4spn, which has the same match bits."""
    number = COUNTER_CSR + Counter.INT_INSN
    hart.csr[number] = hart.csr.get(number, 0) + 1 & MASK64
