"""Text by template: instructions that differ only in registers and literals are printed, and read back, once.

The bits of an encoding's register fields are put aside; what is left, and the classes of the registers, choose the
template. All plain scalar registers are of one class, and all vector registers; every other code is one of its own.
"""

from __future__ import annotations

from functools import cache
from itertools import pairwise, repeat
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from understudy.core.errors import UnderstudyError
from understudy.isa.gcn.asm.assembler import assemble_one
from understudy.isa.gcn.asm.constants import constant, literal, literal_value
from understudy.isa.gcn.asm.printer import branch_target, joined, operand_texts, text
from understudy.isa.gcn.encoding.bounds import Numbers, format_names
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
NONE: Final = -1


class Place(NamedTuple):
    """Where an operand lies in the words, and by its bits the class and the name that it has there.

    What is not legal there is of class `NONE`.
    """

    at: int
    mask: int
    classes: tuple[int, ...]
    names: tuple[str, ...]


Template = tuple[str, Slot | None]
"""Text with ``%s`` for registers and the literal, and the operand that the literal is."""


class Shape:
    """Words that agree in all but register fields: `rest` are bits of such fields that no operand shows."""

    def __init__(self, insn: Insn, fmt: Format, value: int, mask: int) -> None:
        self.places: list[Place] = []
        self.slots: list[Slot] = []
        self.all = visible_slots(insn.op, insn.target, insn.form, insn.fields)
        self.templates: dict[tuple[int, ...], Template | None] = {}
        fields = {field.name: field for field in fmt.pattern.fields}
        self.literal_follows = fmt.size == 4
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
            self.places.append(Place(piece.at, (1 << piece.width) - 1, *table))
            self.slots.append(slot)
            shown |= (1 << piece.width) - 1 << piece.at
        self.rest = mask & ~shown


@cache
def _table(
    level: int, kind: str, words: int, type_: str, scale: int, base: int, width: int
) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """Classes and names by the bits of an operand."""
    legal = names(level, kind, words, type_)
    classes, texts = [NONE] * (1 << width), [""] * (1 << width)
    for raw in range(1 << width):
        code = raw * scale + base
        if kind == "src" and code == LITERAL:
            classes[raw] = LITERAL
        elif code in legal:
            is_vector = kind == "v" or code >= VGPR0
            classes[raw] = VGPR0 if is_vector else 0 if code < SGPRS[level] else code
            texts[raw] = legal[code]
    return tuple(classes), tuple(texts)


class Templates:
    """The templates of one processor."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self._formats = [format_of(target.level, name) if name else None for name in format_names(target.level)]
        self._literal_follows = np.array([fmt is not None and fmt.size == 4 for fmt in self._formats])
        """By encoding: whether a second word can only be a literal."""
        self._masks = np.array([self._mask(number) for number in range(len(self._formats))], np.uint64)
        self._shapes: dict[tuple[int, int], Shape | None] = {}
        self._literals: dict[tuple[int, int, str], str | None] = {}

    def texts(self, numbers: Numbers, values: npt.NDArray[np.uint64], sizes: Numbers) -> list[str]:
        """For each value, of `sizes` words that begin encoding `numbers`: its text, "" where it has to be looked at.

        That is: what is no instruction, goes elsewhere, or is not what its text assembles to.
        """
        follows = self._literal_follows[numbers] & (sizes == 2)
        keys = np.where(follows, values & np.uint64(WORD), values) & ~self._masks[numbers]
        order = np.lexsort((keys, numbers))
        sorted_keys, sorted_numbers, indices = keys[order], numbers[order], order.tolist()
        changes = (sorted_keys[1:] != sorted_keys[:-1]) | (sorted_numbers[1:] != sorted_numbers[:-1])
        found, whole, words = [""] * len(values), values.tolist(), sizes.tolist()
        for begin, end in pairwise([0, *(np.flatnonzero(changes) + 1).tolist(), len(indices)] if indices else []):
            first = indices[begin]
            shape = self._shape(int(numbers[first]), int(keys[first]), whole[first], words[first])
            if shape is not None:
                self._fill(shape, indices[begin:end], whole, words, found)
        return found

    def _fill(self, shape: Shape, indices: list[int], values: list[int], sizes: list[int], found: list[str]) -> None:
        """Texts of the values of one shape."""
        alike = [values[index] for index in indices]
        marks: list[list[int]] = [[value & shape.rest for value in alike]]
        columns: list[list[str]] = []
        for at, mask, classes, texts in shape.places:
            bits = [value >> at & mask for value in alike]
            marks.append([classes[raw] for raw in bits])
            columns.append([texts[raw] for raw in bits])
        if shape.literal_follows:
            pairs = zip(alike, zip(*marks, strict=True), strict=True)
            marks.append([0 if LITERAL in mark else value >> 32 for value, mark in pairs])
        groups: dict[tuple[int, ...], list[int]] = {}
        for position, mark in enumerate(zip(*marks, strict=True)):
            groups.setdefault(mark, []).append(position)
        for mark, positions in groups.items():
            if NONE in mark:
                continue
            first = positions[0]
            template = self._template(shape, mark, alike[first], sizes[indices[first]])
            if template is None:
                continue
            shown, slot = template
            literals = [self._literal(alike[position] >> 32, slot) for position in positions] if slot else []
            rows = [
                literals if kind == LITERAL else [column[position] for position in positions]
                for kind, column in zip(mark[1:], columns, strict=False)
            ]
            for position, operands in zip(positions, zip(*rows, strict=True) if rows else repeat(()), strict=False):
                if None not in operands:
                    found[indices[position]] = shown % operands

    def _mask(self, number: int) -> int:
        """The bits of an encoding's register fields."""
        mask = 0
        fmt = self._formats[number]
        for field in fmt.pattern.fields if fmt else ():
            if field.name in REGISTERS and field.is_plain:
                mask |= (1 << field.pieces[0].width) - 1 << field.pieces[0].at
        return mask

    def _shape(self, number: int, rest: int, value: int, size: int) -> Shape | None:
        """What is to be known of words like these; None where nothing is."""
        try:
            return self._shapes[number, rest]
        except KeyError:
            if len(self._shapes) >= KEPT:
                self._shapes.clear()
        insn, fmt, shape = self._insn(value, size), self._formats[number], None
        if insn is not None and fmt is not None and branch_target(insn) is None:
            shape = Shape(insn, fmt, value, int(self._masks[number]))
        self._shapes[number, rest] = shape
        return shape

    def _insn(self, value: int, size: int) -> Insn | None:
        try:
            insn = decode(self.target, (value & WORD, value >> 32)[:size])
        except UnderstudyError:
            return None
        return insn if insn.size == 4 * size else None

    def _template(self, shape: Shape, mark: tuple[int, ...], value: int, size: int) -> Template | None:
        """The text with ``%s`` for registers and the literal, and the operand that the literal is."""
        try:
            return shape.templates[mark]
        except KeyError:
            if len(shape.templates) >= KEPT:
                shape.templates.clear()
        shape.templates[mark] = self._make(shape, value, size)
        return shape.templates[mark]

    def _make(self, shape: Shape, value: int, size: int) -> Template | None:
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
                if shown != literal(value >> 32, slot.words, slot.type):
                    return None
                placed = slot
                parts.append("%s")
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
