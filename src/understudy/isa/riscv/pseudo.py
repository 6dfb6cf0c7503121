"""Pseudo-instructions: what assemblers of RISC-V write for others (unprivileged manual, "Pseudoinstructions").

Each is a line of operands and the base instructions that it stands for, in the words of its operands. Those that need
an address (la, call, ...) are the matter of the assembler, which knows addresses.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

_WORD: Final = re.compile(r"[a-z]\w*")
_TEXT: Final = """
nop                  | addi zero,zero,0
mv rd,rs             | addi rd,rs,0
move rd,rs           | addi rd,rs,0
not rd,rs            | xori rd,rs,-1
neg rd,rs            | sub rd,zero,rs
negw rd,rs           | subw rd,zero,rs
sext.w rd,rs         | addiw rd,rs,0
sext.b rd,rs         | slli rd,rs,56; srai rd,rd,56
sext.h rd,rs         | slli rd,rs,48; srai rd,rd,48
zext.b rd,rs         | andi rd,rs,255
zext.h rd,rs         | slli rd,rs,48; srli rd,rd,48
zext.w rd,rs         | slli rd,rs,32; srli rd,rd,32
seqz rd,rs           | sltiu rd,rs,1
snez rd,rs           | sltu rd,zero,rs
sltz rd,rs           | slt rd,rs,zero
sgtz rd,rs           | slt rd,zero,rs
sgt rd,rs,rt         | slt rd,rt,rs
sgtu rd,rs,rt        | sltu rd,rt,rs
beqz rs,target       | beq rs,zero,target
bnez rs,target       | bne rs,zero,target
blez rs,target       | bge zero,rs,target
bgez rs,target       | bge rs,zero,target
bltz rs,target       | blt rs,zero,target
bgtz rs,target       | blt zero,rs,target
bgt rs,rt,target     | blt rt,rs,target
ble rs,rt,target     | bge rt,rs,target
bgtu rs,rt,target    | bltu rt,rs,target
bleu rs,rt,target    | bgeu rt,rs,target
j target             | jal zero,target
jal target           | jal ra,target
jr rs                | jalr zero,0(rs)
jalr rs              | jalr ra,0(rs)
jalr rd,rs           | jalr rd,0(rs)
jalr rd,rs,imm       | jalr rd,imm(rs)
ret                  | jalr zero,0(ra)
fmv.s rd,rs          | fsgnj.s rd,rs,rs
fabs.s rd,rs         | fsgnjx.s rd,rs,rs
fneg.s rd,rs         | fsgnjn.s rd,rs,rs
fmv.d rd,rs          | fsgnj.d rd,rs,rs
fabs.d rd,rs         | fsgnjx.d rd,rs,rs
fneg.d rd,rs         | fsgnjn.d rd,rs,rs
fgt.s rd,rs,rt       | flt.s rd,rt,rs
fge.s rd,rs,rt       | fle.s rd,rt,rs
fgt.d rd,rs,rt       | flt.d rd,rt,rs
fge.d rd,rs,rt       | fle.d rd,rt,rs
fmv.x.s rd,rs        | fmv.x.w rd,rs
fmv.s.x rd,rs        | fmv.w.x rd,rs
csrr rd,csr          | csrrs rd,csr,zero
csrw csr,rs          | csrrw zero,csr,rs
csrs csr,rs          | csrrs zero,csr,rs
csrc csr,rs          | csrrc zero,csr,rs
csrwi csr,imm        | csrrwi zero,csr,imm
csrsi csr,imm        | csrrsi zero,csr,imm
csrci csr,imm        | csrrci zero,csr,imm
rdcycle rd           | csrrs rd,cycle,zero
rdtime rd            | csrrs rd,time,zero
rdinstret rd         | csrrs rd,instret,zero
frcsr rd             | csrrs rd,fcsr,zero
fscsr rs             | csrrw zero,fcsr,rs
fscsr rd,rs          | csrrw rd,fcsr,rs
frrm rd              | csrrs rd,frm,zero
fsrm rs              | csrrw zero,frm,rs
fsrm rd,rs           | csrrw rd,frm,rs
fsrmi imm            | csrrwi zero,frm,imm
frflags rd           | csrrs rd,fflags,zero
fsflags rs           | csrrw zero,fflags,rs
fsflags rd,rs        | csrrw rd,fflags,rs
scall                | ecall
sbreak               | ebreak
sfence.vma           | sfence.vma zero,zero
unimp                | csrrw zero,cycle,zero
vl1r.v vd,vs         | vl1re8.v vd,vs
vl2r.v vd,vs         | vl2re8.v vd,vs
vl4r.v vd,vs         | vl4re8.v vd,vs
vl8r.v vd,vs         | vl8re8.v vd,vs
vmmv.m vd,vs         | vmand.mm vd,vs,vs
vmnot.m vd,vs        | vmnand.mm vd,vs,vs
vmclr.m vd           | vmxor.mm vd,vd,vd
vmset.m vd           | vmxnor.mm vd,vd,vd
"""
_MASKED: Final = """
vneg.v vd,vs         | vrsub.vx vd,vs,zero
vnot.v vd,vs         | vxor.vi vd,vs,-1
vfneg.v vd,vs        | vfsgnjn.vv vd,vs,vs
vfabs.v vd,vs        | vfsgnjx.vv vd,vs,vs
vwcvt.x.x.v vd,vs    | vwadd.vx vd,vs,zero
vwcvtu.x.x.v vd,vs   | vwaddu.vx vd,vs,zero
vncvt.x.x.w vd,vs    | vnsrl.wx vd,vs,zero
vmsgt.vv vd,vs,vt    | vmslt.vv vd,vt,vs
vmsgtu.vv vd,vs,vt   | vmsltu.vv vd,vt,vs
vmsge.vv vd,vs,vt    | vmsle.vv vd,vt,vs
vmsgeu.vv vd,vs,vt   | vmsleu.vv vd,vt,vs
vmfgt.vv vd,vs,vt    | vmflt.vv vd,vt,vs
vmfge.vv vd,vs,vt    | vmfle.vv vd,vt,vs
"""
"""Those that may have a mask behind their operands."""
IMMEDIATES: Final[Mapping[str, str]] = {
    "add": "addi", "addw": "addiw", "and": "andi", "or": "ori", "xor": "xori", "slt": "slti", "sltu": "sltiu",
    "sll": "slli", "srl": "srli", "sra": "srai", "sllw": "slliw", "srlw": "srliw", "sraw": "sraiw",
}  # fmt: skip
"""What assemblers take for an instruction whose last operand is a number."""


@dataclass(frozen=True, slots=True)
class Pseudo:
    """One form: the names of its operands, and what it stands for."""

    operands: tuple[str, ...]
    parts: tuple[tuple[str, str], ...]
    """Mnemonics and operand texts."""

    def expand(self, given: list[str]) -> list[tuple[str, str]]:
        """The instructions for these operands."""
        values = dict(zip(self.operands, given, strict=True))
        return [(name, _put(text, values)) for name, text in self.parts]


def _put(text: str, values: Mapping[str, str]) -> str:
    return _WORD.sub(lambda word: values.get(word[0], word[0]), text)


def _forms() -> Mapping[str, tuple[Pseudo, ...]]:
    found: defaultdict[str, list[Pseudo]] = defaultdict(list)
    lines = [*_TEXT.strip().splitlines(), *_MASKED.strip().splitlines()]
    lines += [f"{line.replace(' |', ',mask |', 1)},mask" for line in _MASKED.strip().splitlines()]
    for line in lines:
        head, _, body = line.partition("|")
        name, _, words = head.strip().partition(" ")
        parts = tuple((*part.strip().split(" ", 1), "")[:2] for part in body.split(";"))
        found[name].append(
            Pseudo(tuple(filter(None, words.replace(" ", "").split(","))), tuple((a, b) for a, b in parts))
        )
    return {name: tuple(forms) for name, forms in found.items()}


PSEUDO: Final = _forms()
"""All forms by mnemonic."""


def load_constant(register: str, value: int) -> list[tuple[str, str]]:
    """The instructions of ``li`` with a signed number of 64 bits, as GNU's assembler has them: upper bits first."""
    if -(1 << 11) <= value < 1 << 11:
        return [("addi", f"{register}, zero, {value}")]
    return _composed(register, value)


def _composed(register: str, value: int) -> list[tuple[str, str]]:
    low = (value & 0xFFF ^ 0x800) - 0x800
    upper = (value - low + (1 << 63) & (1 << 64) - 1) - (1 << 63)
    if -(1 << 31) <= value < 1 << 31:
        high = upper >> 12 & 0xFFFFF
        if not high:
            return [("addiw", f"{register}, zero, {low}")]
        add = [("addiw", f"{register}, {register}, {low}")] if low else []
        return [("lui", f"{register}, {high:#x}"), *add]
    shift = 12
    while not upper >> shift & 1:
        shift += 1
    add = [("addi", f"{register}, {register}, {low}")] if low else []
    return [*_composed(register, upper >> shift), ("slli", f"{register}, {register}, {shift}"), *add]
