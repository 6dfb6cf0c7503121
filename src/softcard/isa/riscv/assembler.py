"""Conversion between decoded instructions and assembly text in the style of GNU ``objdump -M no-aliases``.

The module also defines the pseudo-instructions of assemblers (`PSEUDO`), which `assemble` does not accept.
`compressed` chooses compressed instructions as assemblers do."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Final

from softcard.core.errors import LEAST_SIMILAR_MNEMONIC, WireError, close_to
from softcard.isa.riscv.insn import Insn, Spec
from softcard.isa.riscv.rows import InsnTable, Row
from softcard.isa.riscv.table import BASE, FURTHER, HALFWORDS, VECTOR, Expansion

ORDERINGS: Final = {(0, 0): "", (1, 0): ".aq", (0, 1): ".rl", (1, 1): ".aqrl"}
"""The mnemonic suffixes of an atomic instruction by its bits (aq, rl)."""
_LABEL: Final = re.compile(r"\s*([A-Za-z_]\w*)\s*:")
_TARGET: Final = re.compile(r"(?<![\w.])([A-Za-z_]\w*)\s*$")


def text(insn: Insn, pc: int | None = None) -> str:
    """Return the assembly text of an instruction, for example ``"addi a0,a1,4"``.

    A compressed instruction has its own mnemonic, for example ``"c.beqz a0,0x10294"``. Branch targets are
    absolute if `pc`, the address of the instruction, is given; otherwise they are relative, like ``.+8``."""
    if insn.alias:
        name, operands = insn.alias, HALFWORDS.text(HALFWORDS[insn.alias], insn.word, pc)
    else:
        table = _table(insn.name)
        name, operands = insn.name + ORDERINGS[insn.aq, insn.rl], table.text(table[insn.name], insn.word, pc)
    return f"{name} {operands}".rstrip()


def encode(name: str, **fields: int) -> int:
    """Return the instruction word of a mnemonic ("addi", "c.addi") with the given fields.

    The fields are named as in `Insn`; missing ones are 0. A fence has only the field `order` (fm, pred and succ).
    `WireError` is raised for an unknown mnemonic or field, or a value that does not fit.
    """
    try:
        return HALFWORDS.encode(name, fields) if name in HALFWORDS else _table(name).encode(name, fields)
    except WireError as error:
        raise error.at("instruction", name) from None


def assemble(text: str, pc: int = 0) -> bytes:
    """Return the machine code of assembly text that starts at address `pc`.

    Instructions are on separate lines or separated by ``;``, in the notation of `text`. ``name:`` defines a label for
    branches and jumps; ``#`` starts a comment. An invalid instruction raises `WireError` with the line.
    """
    lines: list[tuple[int, int, str]] = []
    labels: dict[str, int] = {}
    address = pc
    for number, statement in _statements(text):
        while label := _LABEL.match(statement):
            if label[1] in labels:
                raise WireError(f"label {label[1]} is defined twice").at("line", number, statement.strip())
            labels[label[1]] = address
            statement = statement[label.end() :]
        if statement := statement.strip():
            lines.append((number, address, statement))
            address += 2 if statement.startswith("c.") else 4
    code = bytearray()
    for number, address, statement in lines:
        try:
            code += _statement(statement, address, labels)
        except WireError as error:
            raise error.at("line", number, statement) from None
    return bytes(code)


def _statements(text: str) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(text.splitlines(), 1):
        for statement in line.partition("#")[0].split(";"):
            yield number, statement


def _statement(statement: str, pc: int, labels: dict[str, int]) -> bytes:
    name, operands = (*statement.split(None, 1), "")[:2]
    if name in HALFWORDS:
        form = HALFWORDS[name]
        fields = HALFWORDS.read(form, _resolve(form.operands, operands, labels), pc)
        return HALFWORDS.encode(name, fields).to_bytes(2, "little")
    row = row_of(name)
    return word_of(name, _resolve(row.operands, operands, labels), pc).to_bytes(4, "little")


def word_of(name: str, operands: str, pc: int | None = None) -> int:
    """Return the word of a 32-bit instruction, whose operands must be numbers instead of labels.

    The mnemonic of an atomic may end in .aq, .rl, .aqrl. If `pc` is None, branch targets are relative, like ``.+8``. An
    invalid instruction raises `WireError`.
    """
    row = row_of(name)
    name, ordering = _ordering(name)
    table = _table(name)
    return table.encode(name, table.read(row, operands, pc) | ordering)


def row_of(name: str, others: Iterable[str] = ()) -> Row[Spec]:
    """Return the table entry of a 32-bit instruction.

    Raise `WireError` for an unknown mnemonic. The message suggests similar instructions, and similar names in `others`.
    """
    base, _ = _ordering(name)
    table = _table(base)
    if base not in table:
        known = [row.name for each in (BASE, VECTOR, FURTHER, HALFWORDS) for row in each]
        raise WireError(f"unknown instruction {name!r}{close_to(name, (*known, *others), LEAST_SIMILAR_MNEMONIC)}")
    return table[base]


def _table(name: str) -> InsnTable[Spec]:
    """Return the instruction table that contains a 32-bit mnemonic; the base table for an unknown mnemonic."""
    return next((table for table in (VECTOR, FURTHER) if name in table), BASE)


def _ordering(name: str) -> tuple[str, dict[str, int]]:
    """Split the suffix .aq, .rl or .aqrl from the mnemonic of an atomic.

    Return the mnemonic without the suffix, and the fields aq and rl.
    """
    for (aq, rl), suffix in ORDERINGS.items():
        base = name.removesuffix(suffix)
        if suffix and base != name and base in BASE and "aq" in BASE[base].pattern.text:
            return base, {"aq": aq, "rl": rl}
    return name, {}


def _resolve(form: str, operands: str, labels: dict[str, int]) -> str:
    """Replace a label in the last operand by its address, if that operand is a branch target.

    `form` is the operand text of the instruction's table entry, `operands` the given operands.
    """
    if not form.endswith("target"):
        return operands
    return _TARGET.sub(lambda name: hex(labels[name[1]]) if name[1] in labels else name[1], operands)


_COMMUTES: Final = frozenset({"add", "addw", "and", "or", "xor"})
_HINT_RD: Final = frozenset({"c.li", "c.lui", "c.slli", "c.mv", "c.add"})
_HINT_IMM: Final = frozenset({"c.addi", "c.slli", "c.srli", "c.srai"})
"""The compressed instructions that are HINTs (no effect) if rd is x0 or the immediate is 0.

Compression never produces these HINTs.
"""


@cache
def _forms() -> Mapping[str, list[Row[Expansion]]]:
    """Return the compressed forms of each base instruction: table rows by the mnemonic to which they expand."""
    found: defaultdict[str, list[Row[Expansion]]] = defaultdict(list)
    for row in HALFWORDS:
        found[row.what.spec.name].append(row)
    return dict(found)


def compressed(name: str, fields: Mapping[str, int]) -> int | None:
    """Return a compressed instruction with the same effect as the base instruction `name` with `fields`, or None."""
    forms = _forms().get(name)
    if forms is None:
        return None
    values = dict.fromkeys(("rd", "rs1", "rs2", "imm"), 0) | dict(fields)
    if name == "addi" and not values["imm"] and values["rs1"] and values["rd"]:
        return compressed("add", {"rd": values["rd"], "rs1": 0, "rs2": values["rs1"]})
    for form in forms:
        halfword = _halfword(form, values)
        if halfword is not None:
            return halfword
    if name in _COMMUTES and values["rs1"] != values["rs2"]:
        swapped = values | {"rs1": values["rs2"], "rs2": values["rs1"]}
        return next((halfword for form in forms if (halfword := _halfword(form, swapped)) is not None), None)
    return None


def _halfword(form: Row[Expansion], values: Mapping[str, int]) -> int | None:
    what = form.what
    if any(values[field] != number for field, number in what.fixed.items()):
        return None
    fields: dict[str, int] = {}
    for field, source in what.copied.items():
        if fields.setdefault(source, values[field]) != values[field]:
            return None
    if form.name in _HINT_RD and not fields.get("rd"):
        return None
    if (form.name in _HINT_IMM and not fields.get("imm")) or (form.name == "c.nop" and fields.get("imm")):
        return None
    try:
        return HALFWORDS.encode(form.name, fields)
    except WireError:
        return None


def shortest(word: int) -> bytes:
    """Return the bytes of the 32-bit instruction `word`, in compressed form if one exists."""
    row = BASE.find(word)
    halfword = compressed(row.name, row.pattern.decode(word)) if row is not None else None
    return word.to_bytes(4, "little") if halfword is None else halfword.to_bytes(2, "little")


# ---- pseudo-instructions ---------------------------------------------------------------------------------------------
# Pseudo-instructions of RISC-V assemblers (unprivileged manual, "Pseudoinstructions").
#
# Each is a line of operands and its base instructions, in terms of its operands. Those that need an address (la, call,
# ...) are handled by the assembler, which knows addresses.


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
jr rs,imm            | jalr zero,imm(rs)
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
fmv.h rd,rs          | fsgnj.h rd,rs,rs
fabs.h rd,rs         | fsgnjx.h rd,rs,rs
fneg.h rd,rs         | fsgnjn.h rd,rs,rs
fgt.h rd,rs,rt       | flt.h rd,rt,rs
fge.h rd,rs,rt       | fle.h rd,rt,rs
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
fsrmi rd,imm         | csrrwi rd,frm,imm
frsr rd              | csrrs rd,fcsr,zero
fssr rs              | csrrw zero,fcsr,rs
fssr rd,rs           | csrrw rd,fcsr,rs
fsflagsi imm         | csrrwi zero,fflags,imm
fsflagsi rd,imm      | csrrwi rd,fflags,imm
frflags rd           | csrrs rd,fflags,zero
fsflags rs           | csrrw zero,fflags,rs
fsflags rd,rs        | csrrw rd,fflags,rs
pause                | fence w,unknown
scall                | ecall
sbreak               | ebreak
sfence.vma           | sfence.vma zero,zero
sfence.vma rs        | sfence.vma rs,zero
ntl.p1               | add zero,zero,sp
ntl.pall             | add zero,zero,gp
ntl.s1               | add zero,zero,tp
ntl.all              | add zero,zero,t0
c.ntl.p1             | c.add zero,sp
c.ntl.pall           | c.add zero,gp
c.ntl.s1             | c.add zero,tp
c.ntl.all            | c.add zero,t0
unimp                | csrrw zero,cycle,zero
vl1r.v vd,vs         | vl1re8.v vd,vs
vl2r.v vd,vs         | vl2re8.v vd,vs
vl4r.v vd,vs         | vl4re8.v vd,vs
vl8r.v vd,vs         | vl8re8.v vd,vs
vle1.v vd,rs         | vlm.v vd,rs
vse1.v vd,rs         | vsm.v vd,rs
vmandnot.mm vd,vs,vt | vmandn.mm vd,vs,vt
vmornot.mm vd,vs,vt  | vmorn.mm vd,vs,vt
vmsge.vx vd,vs,rs    | vmslt.vx vd,vs,rs; vmnand.mm vd,vd,vd
vmsgeu.vx vd,vs,rs   | vmsltu.vx vd,vs,rs; vmnand.mm vd,vd,vd
vmsge.vx vd,vs,rs,mask | vmslt.vx vd,vs,rs,mask; vmxor.mm vd,vd,v0
vmsgeu.vx vd,vs,rs,mask | vmsltu.vx vd,vs,rs,mask; vmxor.mm vd,vd,v0
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
vmslt.vi vd,vs,imm   | vmsle.vi vd,vs,imm-1
vmsltu.vi vd,vs,imm  | vmsleu.vi vd,vs,imm-1
vmsge.vi vd,vs,imm   | vmsgt.vi vd,vs,imm-1
vmsgeu.vi vd,vs,imm  | vmsgtu.vi vd,vs,imm-1
vpopc.m rd,vs        | vcpop.m rd,vs
vfredsum.vs vd,vs,vt | vfredusum.vs vd,vs,vt
vfwredsum.vs vd,vs,vt | vfwredusum.vs vd,vs,vt
vmfgt.vv vd,vs,vt    | vmflt.vv vd,vt,vs
vmfge.vv vd,vs,vt    | vmfle.vv vd,vt,vs
"""
"""Pseudo-instructions with their expansions, which accept a mask operand after the others."""
IMMEDIATES: Final[Mapping[str, str]] = {
    "add": "addi", "addw": "addiw", "and": "andi", "or": "ori", "xor": "xori", "slt": "slti", "sltu": "sltiu",
    "csrrw": "csrrwi", "csrrs": "csrrsi", "csrrc": "csrrci", "ror": "rori", "rorw": "roriw", "bset": "bseti",
    "bclr": "bclri", "binv": "binvi", "bext": "bexti",
    "sll": "slli", "srl": "srli", "sra": "srai", "sllw": "slliw", "srlw": "srliw", "sraw": "sraiw",
}  # fmt: skip
"""The immediate forms by mnemonic: assemblers use them if the last operand of the mnemonic is a number."""


@dataclass(frozen=True, slots=True)
class Pseudo:
    """One form of a pseudo-instruction: the names of its operands, and the base instructions to which it expands."""

    operands: tuple[str, ...]
    parts: tuple[tuple[str, str], ...]
    """The mnemonic and the operand text of each instruction of the expansion."""

    def expand(self, operands: list[str]) -> list[tuple[str, str]]:
        """Return the base instructions for the given operands, as (mnemonic, operands) pairs."""
        values = dict(zip(self.operands, operands, strict=True))
        return [(name, _put(text, values)) for name, text in self.parts]


def _put(text: str, values: Mapping[str, str]) -> str:
    return _WORD.sub(lambda word: values.get(word[0], word[0]), text)


def _pseudo_forms() -> Mapping[str, tuple[Pseudo, ...]]:
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


PSEUDO: Final = _pseudo_forms()
"""The forms of all pseudo-instructions by mnemonic."""


def load_constant(register: str, value: int) -> list[tuple[str, str]]:
    """Return the instructions into which ``li`` expands for a signed 64-bit constant, upper bits first.

    They are those that GNU's assembler chooses, as (mnemonic, operands) pairs.
    """
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
