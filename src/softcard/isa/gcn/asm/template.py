"""Fast printing by templates: instructions that differ only in registers and literals share one text template.

To make a template, one of these instructions is printed, and its text is assembled for verification. The key
of a template consists of the bits outside of register fields and the classes of the registers. All plain
scalar registers form one class, and so do all vector registers. Every other operand code is a class of its
own."""

from __future__ import annotations

from functools import cache
from itertools import pairwise, repeat
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from softcard.core.errors import SoftcardError
from softcard.isa.gcn.asm.assembler import assemble_one
from softcard.isa.gcn.asm.constants import constant, literal, literal_value
from softcard.isa.gcn.asm.printer import branch_target, joined, operand_texts, text
from softcard.isa.gcn.encoding.bounds import Numbers, format_names
from softcard.isa.gcn.encoding.decode import decode
from softcard.isa.gcn.encoding.formats import Format, format_of
from softcard.isa.gcn.encoding.operands import LITERAL, SGPRS, VGPR0, names
from softcard.isa.gcn.encoding.shape import Slot, visible_slots
from softcard.isa.gcn.insn import Insn
from softcard.isa.gcn.target import Target

REGISTERS: Final = frozenset({
    "vdst", "sdst", "sdata", "addr", "data", "data0", "data1", "vdata", "vaddr", "src0", "src1", "src2", "ssrc0",
    "ssrc1", "sbase", "srsrc", "ssamp",
})  # fmt: skip
"""The fields that may hold registers and that do not affect the meaning of other fields."""
PLACED: Final = frozenset({"v", "va", "a", "vsrc", "asrc", "vasrc", "s", "src", "csrc"})
"""The kinds of operands that the fields in `REGISTERS` may hold."""
SCALES: Final = {"sbase": 2, "srsrc": 4, "ssamp": 4}
"""The fields that number scalar registers in groups, with the number of registers in a group."""
MOST_CACHED: Final = 1 << 15
"""The largest number of shapes, and of literals, that are cached for a processor."""
WORD: Final = 0xFFFF_FFFF
NONE: Final = -1


class Place(NamedTuple):
    """The position of an operand's bits in the instruction words, with the operand's class and name for each value.

    For values that the operand cannot have, the class is `NONE`."""

    at: int
    mask: int
    classes: tuple[int, ...]
    names: tuple[str, ...]


Template = tuple[str, Slot | None]
"""A text template: the text with ``%s`` for registers and the literal, and the operand of the literal or None."""


class Shape:
    """A set of instructions that agree in all bits except those of register fields.

    `rest` is the mask of the bits in register fields that no visible operand uses."""

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
            if field is None or slot.field not in REGISTERS or slot.kind not in PLACED:
                continue
            if not field.is_plain or insn[slot.field] < 0:
                continue
            piece, scale = field.pieces[0], SCALES.get(slot.field, 1)
            base = insn[slot.field] - field.get(value) * scale
            table = _table(insn.target.encoding, slot.kind, slot.words, slot.type, scale, base, piece.width)
            self.places.append(Place(piece.at, (1 << piece.width) - 1, *table))
            self.slots.append(slot)
            shown |= (1 << piece.width) - 1 << piece.at
        self.rest = mask & ~shown


@cache
def _table(
    level: int, kind: str, words: int, type_: str, scale: int, base: int, width: int
) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """Return two tables, indexed by the value of an operand's bits: the operand's class, and its name."""
    legal = names(level, kind, words, type_)
    classes, texts = [NONE] * (1 << width), [""] * (1 << width)
    for raw in range(1 << width):
        code = raw * scale + base
        if kind == "src" and code == LITERAL:
            classes[raw] = LITERAL
        elif code in legal:
            is_vector = kind in ("v", "va", "a") or code >= VGPR0
            classes[raw] = VGPR0 if is_vector else 0 if code < SGPRS[level] else code
            texts[raw] = legal[code]
    return tuple(classes), tuple(texts)


class Templates:
    """The text templates for the instructions of one processor."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self._formats = [format_of(target.encoding, name) if name else None for name in format_names(target.encoding)]
        self._literal_follows = np.array([fmt is not None and fmt.size == 4 for fmt in self._formats])
        """An array by encoding number that is True if a second word can only be a literal."""
        self._masks = np.array([self._mask(number) for number in range(len(self._formats))], np.uint64)
        self._shapes: dict[tuple[int, int], Shape | None] = {}
        self._literals: dict[tuple[int, int, str], str | None] = {}

    def texts(self, numbers: Numbers, values: npt.NDArray[np.uint64], sizes: Numbers) -> list[str]:
        """Return the text of each instruction, or "" if no template can produce it.

        `values` has the first one or two words of each instruction as one number, `numbers` the numbers of their
        encodings, and `sizes` their lengths in words. Templates do not support invalid instructions, branches, and
        instructions whose text does not assemble to the same bits."""
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
        """Store in `found` the texts of the instructions with the given `indices`, all of which have the shape
        `shape`."""
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
        """Return the mask of the bits of all register fields of an encoding."""
        mask = 0
        fmt = self._formats[number]
        for field in fmt.pattern.fields if fmt else ():
            if field.name in REGISTERS and field.is_plain:
                mask |= (1 << field.pieces[0].width) - 1 << field.pieces[0].at
        return mask & (1 << 64) - 1  # longer instructions have no templates

    def _shape(self, number: int, rest: int, value: int, size: int) -> Shape | None:
        """Return the shape to which an instruction belongs; None if its words do not decode or it is a branch."""
        try:
            return self._shapes[number, rest]
        except KeyError:
            if len(self._shapes) >= MOST_CACHED:
                self._shapes.clear()
        insn, fmt, shape = self._insn(value, size), self._formats[number], None
        if insn is not None and fmt is not None and branch_target(insn) is None:
            shape = Shape(insn, fmt, value, int(self._masks[number]))
        self._shapes[number, rest] = shape
        return shape

    def _insn(self, value: int, size: int) -> Insn | None:
        try:
            insn = decode(self.target, (value & WORD, value >> 32)[:size])
        except SoftcardError:
            return None
        return insn if insn.size == 4 * size else None

    def _template(self, shape: Shape, mark: tuple[int, ...], value: int, size: int) -> Template | None:
        """Return the template of a shape for register classes; None if templates cannot print such instructions.

        `mark` holds the bits of register fields that no visible operand uses, the class of each register, and the
        second word unless it is a literal. `value` and `size` are the words and length of one such instruction."""
        try:
            return shape.templates[mark]
        except KeyError:
            if len(shape.templates) >= MOST_CACHED:
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
                name = names(self.target.encoding, slot.kind, slot.words, slot.type)[insn[slot.field]]
                parts.append(shown.replace(name, "%s", 1))
        return joined(insn, parts), placed

    def _literal(self, value: int, slot: Slot) -> str | None:
        """Return the text of a literal; None if parsing that text gives another value."""
        key = value, slot.words, slot.type
        try:
            return self._literals[key]
        except KeyError:
            if len(self._literals) >= MOST_CACHED:
                self._literals.clear()
        shown = literal(*key)
        try:
            is_same = constant(shown, *key[1:]) == LITERAL and literal_value(shown, *key[1:]) == value
        except SoftcardError:
            is_same = False
        self._literals[key] = shown if is_same else None
        return self._literals[key]


@cache
def templates(target: Target) -> Templates:
    """Return the text templates of a processor; repeated calls return the same object."""
    return Templates(target)
