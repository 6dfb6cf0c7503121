"""Handler keys, that is, specialised opcodes: instructions without register numbers, constants and offsets.

One handler executes all instructions with the same key. Values that the handler does not contain are in slots of the
record: a number, or the offset of a vector or scalar register in the wave's state.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple, NoReturn

from softcard.engine.gcn.effects import Environment, effects
from softcard.engine.gcn.jit.basics import Untranslated
from softcard.engine.gcn.jit.region import Node, node_of
from softcard.engine.gcn.threaded.records import Example
from softcard.isa.gcn.encoding import operands
from softcard.isa.gcn.encoding.decode import decode
from softcard.isa.gcn.encoding.formats import MATRIX_FORMS
from softcard.isa.gcn.encoding.shape import NO_SADDR, Slot, visible_slots
from softcard.isa.gcn.insn import Insn
from softcard.isa.gcn.semantics.modifiers import DOWN, DWORD, UP
from softcard.isa.gcn.state import CHECKED, Mode
from softcard.isa.gcn.target import GFX7, Target

STEP: Final = 16
"""The maximum number of registers of an operand.

In a handler, the operands have register numbers that are multiples of this number, beginning with it.
"""
PLAIN: Final = 96
"""The first scalar register number that stands for itself in a handler; lower ones stand for operands."""
RECORD_HEAD: Final = 24
"""The size in bytes of a record's fixed part before its slots.

It has the function, the pc, and the fuel to refund at an exit within the block.
"""
PC: Final = -1
"""The slot number that stands for the instruction's own address, which every record has."""
NOWHERE: Final = -2
"""The slot number of a number that a handler must not use."""
OFFSETS: Final = ("offset", "offset0", "offset1", "simm16")
"""Names of encoding fields that are plain numbers."""
OPERANDS: Final = ("v", "a", "va", "s", "src", "vsrc", "asrc", "vasrc", "csrc", "saddr")
"""The operand kinds that name registers."""
VOP3: Final = "VOP3A"
ALIKE: Final = frozenset({"VOP1", "VOP2", "VOPC", "VOP3A", "VOP3B"})
"""The encodings whose instructions share a handler, if the operation has a signature.

The shorter ones lack modifiers, and imply VCC as an operand.
"""
ACCUMULATOR: Final = "a"
"""The type of a slot for an accumulation register.

Handlers do not distinguish accumulation registers from vector registers.
"""
IMPLIED: Final = "vcc"
"""The field name of a slot that refers to VCC in every record, as the encoding implies VCC."""
_NOTHING: Final = Environment()


class Deferred(int):
    """A placeholder for a number that only the record holds.

    It has the slot, and the operations on the number at run time, in order. Python code that needs the value raises
    `Untranslated`. A test for 0 is allowed, since a number is deferred only if it is not 0.
    """

    slot: int
    steps: tuple[tuple[str, int], ...]

    def __new__(cls, slot: int, steps: tuple[tuple[str, int], ...] = ()) -> Deferred:
        """Return the placeholder for the number in a record's slot."""
        made = super().__new__(cls, 0x5A5A)
        made.slot, made.steps = slot, steps
        return made

    def _then(self, word: str, n: Any) -> Deferred:
        if isinstance(n, Deferred):  # a branch target: the record has another word for it
            return Deferred(NOWHERE)
        return Deferred(self.slot, (*self.steps, (word, int(n))))

    def __bool__(self) -> bool:
        is_known = self.slot >= 0 and all(word == "mul" for word, _ in self.steps)  # times sizes, which are small
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
    """A slot of a record.

    The `role` is ``v`` or ``s`` for the offset of a vector or scalar register, ``k`` for a constant source, ``n`` for a
    number. `field` is the name of an encoding field, or `IMPLIED`. `type` is the operand's type in the signature, one
    of `SHIFTS`, or `ACCUMULATOR`.
    """

    role: str
    field: str
    type: str

    @property
    def size(self) -> int:
        """The size of the slot in the record, in bytes."""
        return 4 if self.role in "vs" else 8


@dataclass(frozen=True, slots=True)
class Kind:
    """The specification of a handler.

    It has a `key`, an instruction with slots instead of values, and the slots.
    """

    key: str
    insn: Insn
    mode: int
    parts: tuple[Part, ...]

    @property
    def node(self) -> Node:
        """Return a node that stands for any instruction with this handler: its effects are those that all these
        instructions share."""
        fields = {name: int(n) if isinstance(n, Deferred) else n for name, n in self.insn.fields.items()}
        plain = replace(self.insn, pc=0, fields=fields, literal=0)
        node = Node(plain, effects(plain, Mode.decode(self.mode)), self.mode)
        return Node(self.insn, node.effects, self.mode)


def kind_of(node: Node, mode: int, fixed_numbers: bool = False) -> Kind:
    """Return the handler specification for an instruction under `mode`.

    With `fixed_numbers`, offsets and constants are compiled into the handler.
    """
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
    if insn.selectors is not None:
        key += f" told={','.join(f'{n:x}' for n in insn.selectors)}"
    made = Insn(insn.op, insn.target, form, Deferred(PC), size, (), maker.fields, maker.literal, insn.selectors)
    return Kind(key, made, mode, tuple(maker.parts))


def kind_like(target: Target, example: Example) -> Kind:
    """Return the handler specification that an example instruction represents."""
    node = node_of(decode(target, list(example.words), 0), example.mode)
    return kind_of(node, example.mode, example.has_fixed_numbers)


def depends_on_floats(node: Node) -> bool:
    """Return True if MODE's float fields may affect an instruction."""
    types = (*node.insn.op.results, *node.insn.op.sources)
    return any(type_[0] in "fhx" for type_ in types) or node.effects.environment != _NOTHING


def has_place(node: Node) -> bool:
    """Return True if an instruction's address may matter to its handler: for an operand, a branch or an exit."""
    found = node.effects
    return node.insn.op.signature is None or found.flow != "next" or found.memory or found.hardware


def source_type(insn: Insn, slot: Slot) -> str:
    """Return the operand type that determines the value of a constant source operand."""
    if slot.type == "lane" or (slot.type == "f16" and insn.target.level == GFX7):
        return "b32"
    if slot.type == "x32":  # binary16 or binary32
        return "f16" if insn["op_sel_hi"] >> int(slot.field[-1]) & 1 else "f32"
    return "b64" if slot.type == "m64" or (slot.type, slot.words) == ("b32", 2) else slot.type


def depends_on_numbers(node: Node) -> bool:
    """Return True if an instruction's effects, or MODE after it, depend on its constants."""
    insn, found = node.insn, node.effects
    kinds = {slot.kind for slot in visible_slots(insn.op, insn.target, insn.form, insn.fields)}
    return "hwreg" in kinds or found.hwreg_written is not None


class _Maker:
    """The decomposition of one instruction into a handler key and record slots."""

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
        """Process the operands, then the numbers, and then the remaining fields, which are modifiers."""
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
            elif name in REGISTER_FIELDS and not self.fixed_numbers:  # unused by this operation
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

    def _vector(self, field: str, base: int, type_: str = "") -> None:
        self._vectors += 1
        self.fields[field] = base + STEP * self._vectors
        self._part("v", field, type_)
        self.shape[field] = "v"

    def _scalar(self, field: str, role: str, type_: str, where: str = "") -> None:
        """Add a slot for a scalar operand that comes from field `where` of the encoding, by default `field`."""
        self._scalars += 1
        if STEP * (self._scalars + 1) > PLAIN:
            raise Untranslated
        self.fields[field] = STEP * self._scalars
        self._part(role, where or field, type_)
        self.shape[field] = role + type_

    def _operand(self, slot: Slot) -> None:
        code = self.insn.fields[slot.field]
        if slot.words > STEP and self.insn.form not in MATRIX_FORMS:  # these only name their first register
            raise Untranslated
        if slot.kind in ("v", "a", "va"):
            self._vector(slot.field, 0, ACCUMULATOR if code >= operands.REGISTERS else "")
        elif slot.kind.endswith("src") and code >= operands.VGPR0:
            self._vector(slot.field, operands.VGPR0, ACCUMULATOR if code >= operands.ACC0 else "")
        elif code < 0:
            self._scalar(slot.field, "s", "", IMPLIED)
        elif is_scalar(slot.kind, code):
            self._scalar(slot.field, "s", "")
        elif not self.fixed_numbers and slot.kind == "src" and is_constant(code):
            self._scalar(slot.field, "k", source_type(self.insn, slot))
        else:
            self.shape[slot.field] = str(code)

    def _scalar_offset(self) -> None:
        """Process the offset of an SMRD or SMEM instruction: a number, a register, or the sum of both."""
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
        """Process a number in encoding field `name`.

        The number 0 becomes part of the key, since the semantics omit operations with it. Other numbers become slots.
        """
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
        """Process an SDWA selection of some bits of a source.

        The selection of the whole source is part of the key. Other selections become slots of the record, unless
        numbers are fixed; then they are part of the key, too."""
        if self.fixed_numbers or self.fields[name] == DWORD:
            self.shape[name] = str(self.fields[name])
        elif (source := name.removesuffix("_sel")) in self.shape:
            for way in SHIFTS:
                self.fields[f"{source}_{way}"] = self._part("n", name, way)
            self.shape[name] = "n"


VECTOR_FIELDS: Final = frozenset({"vdst", "addr", "data", "data0", "data1", "vdata", "vaddr"})
"""Fields that number vector registers, even if the operation does not use them."""
REGISTER_FIELDS: Final = VECTOR_FIELDS | {
    "sdst", "sdata", "sbase", "srsrc", "ssamp", "src0", "src1", "src2", "ssrc0", "ssrc1", "soffset", "scale_a",
    "scale_b",
}  # fmt: skip


SELECTIONS: Final = ("src0_sel", "src1_sel")
"""The SDWA fields that become slots of the record: each has the shift of a source."""
SHIFTS: Final = {"up": UP, "down": DOWN}
"""The types of the slots for SDWA selections, with the tables of shifts by selection."""


def is_scalar(kind: str, code: int) -> bool:
    """Return True if an operand is a scalar register that a handler can take from a slot."""
    return 0 <= code <= operands.NO_REGISTER and not (kind == "saddr" and code == NO_SADDR)


def is_constant(code: int) -> bool:
    """Return True if a source is an inline constant or a literal."""
    return 128 <= code <= 208 or code in operands.FLOATS or code == operands.LITERAL


def is_double(insn: Insn) -> bool:
    """Return True if a DS operation has two offsets of 8 bits rather than one offset of 16."""
    return insn.op.name.startswith(("ds_read2", "ds_write2", "ds_wrxchg2", "ds_ordered"))
