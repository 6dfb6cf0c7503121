"""Kinds of instructions: an instruction without its register numbers, constants and offsets, which its record holds.

Two instructions of one kind are executed by one handler. What a handler does not know is a slot of the record: the
place of a vector or scalar register in the wave's state, or a number.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple, NoReturn

from understudy.engine.gcn.jit.basics import Untranslated
from understudy.engine.gcn.jit.effects import Environment, effects
from understudy.engine.gcn.jit.region import Node, node_of
from understudy.engine.gcn.threaded.example import Example
from understudy.isa.gcn.encoding import operands
from understudy.isa.gcn.encoding.decode import decode
from understudy.isa.gcn.encoding.shape import NO_SADDR, Slot, visible_slots
from understudy.isa.gcn.insn import Insn
from understudy.isa.gcn.semantics.sdwa import DOWN, DWORD, UP
from understudy.isa.gcn.state import CHECKED, Mode
from understudy.isa.gcn.target import GFX7, Target

STEP: Final = 16
"""Registers that an operand has at most: the operands of a handler are this many numbers apart, from this one on."""
PLAIN: Final = 96
"""Numbers of scalar registers from here on stand for themselves in a handler, those below for operands."""
RECORD_HEAD: Final = 24
"""Bytes of a record before its slots: function, pc, and the fuel to give back where it is left before its end."""
PC: Final = -1
"""The slot of the instruction's own address, which every record has."""
NOWHERE: Final = -2
"""The slot of what a handler has no use for."""
OFFSETS: Final = ("offset", "offset0", "offset1", "simm16")
"""Fields that are plain numbers."""
OPERANDS: Final = ("v", "s", "src", "saddr")
"""Kinds of slots that name registers."""
VOP3: Final = "VOP3A"
ALIKE: Final = frozenset({"VOP1", "VOP2", "VOPC", "VOP3A", "VOP3B"})
"""Forms that are one where an operation has a signature: shorter ones leave out modifiers, and name VCC by not naming
a register."""
IMPLIED: Final = "vcc"
"""The field of a part that is VCC in every record."""
_NOTHING: Final = Environment()


class Deferred(int):
    """A number that only the record knows: slot `slot` of it, and what is done with it, in order, at run time.

    Python code that needs to know it raises `Untranslated`; where it asks whether a number is 0, that is deferred only
    if it is not.
    """

    slot: int
    steps: tuple[tuple[str, int], ...]

    def __new__(cls, slot: int, steps: tuple[tuple[str, int], ...] = ()) -> Deferred:
        """The number of a slot."""
        made = super().__new__(cls, 0x5A5A)
        made.slot, made.steps = slot, steps
        return made

    def _then(self, word: str, n: Any) -> Deferred:
        if isinstance(n, Deferred):  # a branch target: the record has another word for it
            return Deferred(NOWHERE)
        return Deferred(self.slot, (*self.steps, (word, int(n))))

    def __bool__(self) -> bool:
        is_known = self.slot >= 0 and all(word == "mul" for word, _ in self.steps)  # by sizes, which are small
        return True if is_known else self._unknown()

    def __add__(self, n: Any) -> Any:
        return self if _is(n, 0) else self._then("add", n)

    def __sub__(self, n: Any) -> Any:
        return self._then("sub", n)

    def __mul__(self, n: Any) -> Any:
        return self if _is(n, 1) else self._then("mul", n)

    def __and__(self, n: Any) -> Any:
        return self._then("and", n)

    def __xor__(self, n: Any) -> Any:
        return self._then("xor", n)

    def __lshift__(self, n: Any) -> Any:
        return self._then("shl", n)

    def __or__(self, n: Any) -> Any:
        return self if _is(n, 0) else self._unknown()

    def _unknown(self, *_: Any) -> NoReturn:
        raise Untranslated

    __radd__, __rmul__, __rand__ = __add__, __mul__, __and__
    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = _unknown
    __neg__ = __invert__ = __rshift__ = __floordiv__ = __mod__ = __rsub__ = _unknown
    __ror__ = __rxor__ = __rlshift__ = __rrshift__ = __format__ = _unknown
    __hash__ = int.__hash__


def _is(n: Any, number: int) -> bool:
    return not isinstance(n, Deferred) and bool(n == number)


class Part(NamedTuple):
    """A slot of a record. `role`: ``v`` or ``s`` for the place of a register, ``k`` for a source that is a constant,
    ``n`` for a number. `field` is the encoding's or `IMPLIED`, `type` the signature's or one of `SHIFTS`.
    """

    role: str
    field: str
    type: str

    @property
    def size(self) -> int:
        """Bytes of it in the record."""
        return 4 if self.role in "vs" else 8


@dataclass(frozen=True, slots=True)
class Kind:
    """What a handler is made of: its `key`, the instruction in which slots stand for what they hold, and the slots."""

    key: str
    insn: Insn
    mode: int
    parts: tuple[Part, ...]

    @property
    def node(self) -> Node:
        """The instruction with its effects: those that all of the kind have."""
        fields = {name: int(n) if isinstance(n, Deferred) else n for name, n in self.insn.fields.items()}
        plain = replace(self.insn, pc=0, fields=fields, literal=0)
        node = Node(plain, effects(plain, Mode.decode(self.mode)), self.mode)
        return Node(self.insn, node.effects, self.mode)


def kind_of(node: Node, mode: int, fixed_numbers: bool = False) -> Kind:
    """The kind of an instruction where MODE is `mode`. With `fixed_numbers` offsets and constants belong to it."""
    insn = node.insn
    form = VOP3 if insn.form in ALIKE and insn.op.signature is not None else insn.form
    maker = _Maker(insn, form, fixed_numbers or depends_on_numbers(node))
    maker.take()
    if not (depends_on_floats(node) or node.effects.hardware):
        mode &= node.effects.mode_bits | (CHECKED if node.effects.atomic and "lds" in node.effects.stores else 0)
    elif not (node.effects.atomic and "lds" in node.effects.stores):
        mode &= ~CHECKED
    size = insn.size if has_place(node) else 0
    shape = " ".join(f"{name}={part}" for name, part in sorted(maker.shape.items()))
    key = f"{insn.target.name} {form} {insn.op.family}.{insn.op.name} {size} {mode:x} {shape}"
    if insn.told is not None:
        key += f" told={','.join(f'{n:x}' for n in insn.told)}"
    made = Insn(insn.op, insn.target, form, Deferred(PC), size, (), maker.fields, maker.literal, insn.told)
    return Kind(key, made, mode, tuple(maker.parts))


def kind_like(target: Target, example: Example) -> Kind:
    """The kind of an instruction that stands for it."""
    node = node_of(decode(target, list(example.words), 0), example.mode)
    return kind_of(node, example.mode, example.has_fixed_numbers)


def depends_on_floats(node: Node) -> bool:
    """Whether what MODE says about floats may matter to an instruction."""
    types = (*node.insn.op.results, *node.insn.op.sources)
    return any(type_[0] in "fhx" for type_ in types) or node.effects.environment != _NOTHING


def has_place(node: Node) -> bool:
    """Whether the address of the next instruction may matter to one: it names it, goes elsewhere, or may be left."""
    found = node.effects
    return node.insn.op.signature is None or found.flow != "next" or found.memory or found.hardware


def source_type(insn: Insn, slot: Slot) -> str:
    """The type that decides what a constant source is."""
    if slot.type == "lane" or (slot.type == "f16" and insn.target.level == GFX7):
        return "b32"
    if slot.type == "x32":  # a half, or not
        return "f16" if insn["op_sel_hi"] >> int(slot.field[-1]) & 1 else "f32"
    return "b64" if slot.type == "m64" or (slot.type, slot.words) == ("b32", 2) else slot.type


def depends_on_numbers(node: Node) -> bool:
    """Whether what an instruction touches, or what MODE is behind it, depends on its numbers."""
    insn, found = node.insn, node.effects
    kinds = {slot.kind for slot in visible_slots(insn.op, insn.target, insn.form, insn.fields)}
    return "hwreg" in kinds or found.hwreg_written is not None


class _Maker:
    """Takes one instruction apart."""

    def __init__(self, insn: Insn, form: str, fixed_numbers: bool) -> None:
        self.insn = insn
        self.form = form
        self.fixed_numbers = fixed_numbers
        self.fields: dict[str, int] = dict(insn.fields)
        self.literal: int | None = insn.literal
        self.parts: list[Part] = []
        self.shape: dict[str, str] = {}
        self._vectors = self._scalars = 0

    def take(self) -> None:
        """Go through the operands, then the numbers, then what is left: modifiers."""
        insn = self.insn
        done = set()
        shown = visible_slots(insn.op, insn.target, insn.form, insn.fields)
        masks = iter(("sdst", "src2") if "m64" in insn.op.results else ("src2",))
        for slot in shown:
            if slot.field in insn.fields and slot.field not in done and slot.kind in OPERANDS:
                done.add(slot.field)
                self._operand(slot)
            elif slot.kind == "vcc" and self.form == VOP3:
                self._scalar(next(masks), "s", "", IMPLIED)
        if "offset" in insn.fields and insn.form in ("SMRD", "SMEM"):
            done |= {"offset", "soffset"}
            self.fields |= dict.fromkeys(done & insn.fields.keys() - {"sbase", "sdata", "sdst"}, 0)
            if any(slot.kind == "offset" for slot in shown):
                self._scalar_offset()
        for name in OFFSETS:
            if name in insn.fields and name not in done:
                done.add(name)
                self._number(name)
        for name, n in insn.fields.items():
            if name in done:
                continue
            if name in VECTOR_FIELDS:
                self._vector(name, 0)
            elif name in REGISTER_FIELDS and not self.fixed_numbers:  # one that this operation has no use for
                self.fields[name] = 0
            elif name in SELECTIONS:
                self._selection(name)
            elif n or self.form != VOP3:
                self.shape[name] = str(n)
        if insn.literal is not None and self.fixed_numbers:
            self.shape["literal"] = str(insn.literal)
        elif insn.literal is not None and ("k32" in insn.op.sources or operands.LITERAL not in self._sources()):
            self.literal = self._part("n", "literal", "")
            self.shape["literal"] = "n"
        elif insn.literal is not None:
            self.literal = 0

    def _sources(self) -> list[int]:
        fields = self.insn.fields
        return [fields[name] for name in ("ssrc0", "ssrc1", "src0", "src1") if name in fields]

    def _part(self, role: str, field: str, type_: str) -> Deferred:
        self.parts.append(Part(role, field, type_))
        return Deferred(len(self.parts) - 1)

    def _vector(self, field: str, base: int) -> None:
        self._vectors += 1
        self.fields[field] = base + STEP * self._vectors
        self._part("v", field, "")
        self.shape[field] = "v"

    def _scalar(self, field: str, role: str, type_: str, where: str = "") -> None:
        """A scalar operand of the kind, which stands in this field or in `where`."""
        self._scalars += 1
        if STEP * (self._scalars + 1) > PLAIN:
            raise Untranslated
        self.fields[field] = STEP * self._scalars
        self._part(role, where or field, type_)
        self.shape[field] = role + type_

    def _operand(self, slot: Slot) -> None:
        code = self.insn.fields[slot.field]
        if slot.words > STEP:
            raise Untranslated
        if slot.kind == "v":
            self._vector(slot.field, 0)
        elif slot.kind == "src" and code >= operands.VGPR0:
            self._vector(slot.field, operands.VGPR0)
        elif code < 0:
            self._scalar(slot.field, "s", "", IMPLIED)
        elif is_scalar(slot.kind, code):
            self._scalar(slot.field, "s", "")
        elif not self.fixed_numbers and slot.kind == "src" and is_constant(code):
            self._scalar(slot.field, "k", source_type(self.insn, slot))
        else:
            self.shape[slot.field] = str(code)

    def _scalar_offset(self) -> None:
        """SMRD and SMEM: a number, a register, or both."""
        insn = self.insn
        has_register = insn.get("soffset_en")
        if has_register or not insn["imm"]:
            field = "soffset" if has_register else "offset"
            if insn.form == "SMRD" and insn.literal is not None:
                self.shape[field] = "literal"
            else:
                self._scalar(field, "s", "")
        if insn["imm"]:
            self._number("offset")

    def _number(self, name: str) -> None:
        """A number that differs; 0 is a kind of its own, because meanings leave it out."""
        insn = self.insn
        n = insn.fields[name]
        is_whole = name == "offset0" and not is_double(insn)
        if is_whole:
            n |= insn["offset1"] << 8
        if name == "offset1" and not is_double(insn):
            self.fields[name] = 0
        elif self.fixed_numbers or n == 0:
            self.fields[name] = n
            self.shape[name] = str(n)
        else:
            self.fields[name] = self._part("n", name, "16" if is_whole else "")
            self.shape[name] = "n"

    def _selection(self, name: str) -> None:
        """Which part of a source SDWA takes, if the operation has that source: all of it, or what the record says."""
        if self.fixed_numbers or self.fields[name] == DWORD:
            self.shape[name] = str(self.fields[name])
        elif (source := name.removesuffix("_sel")) in self.shape:
            for way in SHIFTS:
                self.fields[f"{source}_{way}"] = self._part("n", name, way)
            self.shape[name] = "n"


VECTOR_FIELDS: Final = frozenset({"vdst", "addr", "data", "data0", "data1", "vdata", "vaddr"})
"""Fields that are numbers of vector registers, whether the operation has a use for them or not."""
REGISTER_FIELDS: Final = VECTOR_FIELDS | {
    "sdst", "sdata", "sbase", "srsrc", "ssamp", "src0", "src1", "src2", "ssrc0", "ssrc1", "soffset",
}  # fmt: skip


SELECTIONS: Final = ("src0_sel", "src1_sel")
"""Fields of SDWA that are numbers of a record: how far to shift the source."""
SHIFTS: Final = {"up": UP, "down": DOWN}
"""Types of such numbers, with the number for each selection."""


def is_scalar(kind: str, code: int) -> bool:
    """Whether an operand is a scalar register, which may be any in a handler."""
    return 0 <= code <= operands.NO_REGISTER and not (kind == "saddr" and code == NO_SADDR)


def is_constant(code: int) -> bool:
    """Whether a source is an inline constant or a literal."""
    return 128 <= code <= 208 or code in operands.FLOATS or code == operands.LITERAL


def is_double(insn: Insn) -> bool:
    """Whether a DS operation has two offsets of 8 bits rather than one of 16."""
    return insn.op.name.startswith(("ds_read2", "ds_write2", "ds_wrxchg2", "ds_ordered"))
