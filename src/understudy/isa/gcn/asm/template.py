"""Text by template: instructions that differ only in registers and literals are printed, and read back, once.

The bits of an encoding's register fields are put aside; what is left, and the classes of the registers, choose the
template. All plain scalar registers are of one class, and all vector registers; every other code is one of its own.
"""

from __future__ import annotations

from functools import cache
from typing import Final, NamedTuple

from understudy.core.errors import UnderstudyError
from understudy.isa.gcn.asm.assembler import assemble_one
from understudy.isa.gcn.asm.constants import constant, literal, literal_value
from understudy.isa.gcn.asm.printer import branch_target, joined, operand_texts, text
from understudy.isa.gcn.encoding.bounds import format_names
from understudy.isa.gcn.encoding.decode import decode
from understudy.isa.gcn.encoding.formats import Format, format_of
from understudy.isa.gcn.encoding.operands import LITERAL, SGPRS, VGPR0, names
from understudy.isa.gcn.encoding.shape import Slot, visible_slots
from understudy.isa.gcn.insn import Insn
from understudy.isa.gcn.target import Target

REGISTERS: Final = frozenset({
    "vdst", "sdst", "sdata", "addr", "data", "data0", "data1", "vdata", "vaddr", "src0", "src1", "src2", "ssrc0",
    "ssrc1", "sbase", "srsrc", "ssamp",
})  # fmt: skip
"""Fields that may hold registers, of which no other field's meaning depends."""
SCALES: Final = {"sbase": 2, "srsrc": 4, "ssamp": 4}
"""Fields that count scalar registers in groups."""
KEPT: Final = 1 << 15
"""Shapes, and literals, that are remembered of a processor."""
WORD: Final = 0xFFFF_FFFF


class Place(NamedTuple):
    """Where an operand lies in the words, and by its bits the class and the name that it has there."""

    at: int
    mask: int
    found: dict[int, tuple[int, str]]


class Shape:
    """Words that agree in all but register fields: `rest` are bits of such fields that no operand shows."""

    def __init__(self, insn: Insn, fmt: Format, value: int, mask: int) -> None:
        self.places: list[Place] = []
        self.slots: list[Slot] = []
        self.all = visible_slots(insn.op, insn.target, insn.form, insn.fields)
        self.templates: dict[tuple[int, ...], tuple[str, Slot | None] | None] = {}
        fields = {field.name: field for field in fmt.pattern.fields}
        self.has_constant = any(slot.kind == "literal" for slot in self.all)
        shown = 0
        for slot in self.all:
            field = fields.get(slot.field)
            if field is None or slot.field not in REGISTERS or slot.kind not in ("v", "s", "src"):
                continue
            if not field.is_plain or insn[slot.field] < 0:
                continue
            piece, scale = field.pieces[0], SCALES.get(slot.field, 1)
            base = insn[slot.field] - field.get(value) * scale
            table = _table(insn.target.level, slot.kind, slot.words, slot.type, scale, base, piece.width)
            self.places.append(Place(piece.at, (1 << piece.width) - 1, table))
            self.slots.append(slot)
            shown |= (1 << piece.width) - 1 << piece.at
        self.rest = mask & ~shown


@cache
def _table(
    level: int, kind: str, words: int, type_: str, scale: int, base: int, width: int
) -> dict[int, tuple[int, str]]:
    """Class and name by the bits of an operand."""
    legal = names(level, kind, words, type_)
    found = {}
    for raw in range(1 << width):
        code = raw * scale + base
        if kind == "src" and code == LITERAL:
            found[raw] = (LITERAL, "")
        elif code in legal:
            is_vector = kind == "v" or code >= VGPR0
            found[raw] = (VGPR0 if is_vector else 0 if code < SGPRS[level] else code, legal[code])
    return found


class Templates:
    """The templates of one processor."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self._formats = [format_of(target.level, name) if name else None for name in format_names(target.level)]
        self._literal_follows = [fmt is not None and fmt.size == 4 for fmt in self._formats]
        """By encoding: whether a second word can only be a literal."""
        self._masks: dict[int, int] = {}
        self._shapes: dict[tuple[int, int], Shape | None] = {}
        self._literals: dict[tuple[int, int, str], str | None] = {}

    def text(self, number: int, value: int, size: int) -> str | None:
        """The text of `size` words that begin encoding `number`; None where they have to be looked at by themselves.

        That is: what is no instruction, goes elsewhere, or is not what its text assembles to.
        """
        mask = self._masks.get(number)
        if mask is None:
            mask = self._masks[number] = self._mask(number)
        follows = self._literal_follows[number] and size == 2
        key = number, (value & WORD if follows else value) & ~mask
        try:
            shape = self._shapes[key]
        except KeyError:
            if len(self._shapes) >= KEPT:
                self._shapes.clear()
            shape = self._shapes[key] = self._shape(number, value, size, mask)
        if shape is None:
            return None
        mark, shown, has_literal = [value & shape.rest], [], False
        for at, bits, found in shape.places:
            known = found.get(value >> at & bits)
            if known is None:
                return None
            mark.append(known[0])
            if known[0] == LITERAL:
                has_literal = True
            else:
                shown.append(known[1])
        if follows and not has_literal:
            mark.append(value >> 32)
        marks = tuple(mark)
        try:
            template = shape.templates[marks]
        except KeyError:
            if len(shape.templates) >= KEPT:
                shape.templates.clear()
            template = shape.templates[marks] = self._template(shape, value, size)
        if template is None:
            return None
        if not has_literal:
            return template[0] % tuple(shown)
        slot = template[1]
        if slot is None:
            return None
        wanted = self._literal(value >> 32, slot)
        return None if wanted is None else (template[0] % tuple(shown)).replace("\0", wanted)

    def _mask(self, number: int) -> int:
        """The bits of an encoding's register fields."""
        mask = 0
        fmt = self._formats[number]
        for field in fmt.pattern.fields if fmt else ():
            if field.name in REGISTERS and field.is_plain:
                mask |= (1 << field.pieces[0].width) - 1 << field.pieces[0].at
        return mask

    def _shape(self, number: int, value: int, size: int, mask: int) -> Shape | None:
        """What is to be known of words like these; None where nothing is."""
        insn, fmt = self._insn(value, size), self._formats[number]
        if insn is None or fmt is None or branch_target(insn) is not None:
            return None
        return Shape(insn, fmt, value, mask)

    def _insn(self, value: int, size: int) -> Insn | None:
        try:
            insn = decode(self.target, (value & WORD, value >> 32)[:size])
        except UnderstudyError:
            return None
        return insn if insn.size == 4 * size else None

    def _template(self, shape: Shape, value: int, size: int) -> tuple[str, Slot | None] | None:
        """The text with ``%s`` for registers and a NUL for the literal, and the operand that the literal is."""
        insn = self._insn(value, size)
        if insn is None or visible_slots(insn.op, insn.target, insn.form, insn.fields) != shape.all:
            return None
        whole = text(insn)
        if assemble_one(self.target, whole) != value.to_bytes(4 * size, "little"):
            return None
        parts, placed = [], None
        for slot, shown in zip(shape.all, operand_texts(insn), strict=True):
            if slot not in shape.slots:
                parts.append(shown)
            elif insn[slot.field] == LITERAL and slot.kind == "src":
                if shape.has_constant or (placed and (placed.words, placed.type) != (slot.words, slot.type)):
                    return None  # operands of several types show the literal
                placed = slot
                parts.append("\0" if shown == literal(value >> 32, slot.words, slot.type) else shown)
            else:
                name = names(self.target.level, slot.kind, slot.words, slot.type)[insn[slot.field]]
                parts.append(shown.replace(name, "%s", 1))
        return joined(insn, parts), placed

    def _literal(self, value: int, slot: Slot) -> str | None:
        """The text of a literal; None where it is read back as something else."""
        key = value, slot.words, slot.type
        try:
            return self._literals[key]
        except KeyError:
            if len(self._literals) >= KEPT:
                self._literals.clear()
        shown = literal(*key)
        try:
            is_same = constant(shown, *key[1:]) == LITERAL and literal_value(shown, *key[1:]) == value
        except UnderstudyError:
            is_same = False
        self._literals[key] = shown if is_same else None
        return self._literals[key]


@cache
def templates(target: Target) -> Templates:
    """The templates of a processor."""
    return Templates(target)
