"""From machine code to kinds and what records hold, a whole kernel at a time: arrays, and Python once per kind.

Words are grouped by what is no register and no number in them; then by classes of operands, so that all instructions
of a group are of one kind. One of them is decoded, the others' slots are taken out of the bits.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from understudy.core.errors import UnderstudyError
from understudy.engine.gcn.jit.basics import Untranslated
from understudy.engine.gcn.jit.effects import Effects
from understudy.engine.gcn.jit.region import Node, node_of
from understudy.engine.gcn.threaded.kind import (
    OFFSETS,
    OPERANDS,
    PLAIN,
    REGISTER_FIELDS,
    Kind,
    Part,
    depends_on_numbers,
    kind_of,
)
from understudy.isa.gcn.encoding import operands
from understudy.isa.gcn.encoding.decode import decode
from understudy.isa.gcn.encoding.formats import FORMATS, Format, format_of
from understudy.isa.gcn.encoding.operands import names
from understudy.isa.gcn.encoding.shape import LITERAL_FORMS, Slot, visible_slots
from understudy.isa.gcn.insn import Insn
from understudy.isa.gcn.semantics import source
from understudy.isa.gcn.state import LANES, SGPR_AT
from understudy.isa.gcn.target import Target
from understudy.isa.pattern import Field

Words = npt.NDArray[np.uint64]
Numbers = npt.NDArray[np.int64]

CODES: Final = 512
VECTOR, CONSTANT, LITERAL, ILLEGAL = 511, 510, 509, 508
"""Classes of operand codes beside 0, which is any plain scalar register; other codes are classes of their own."""
ALL_ONES: Final = (1 << 64) - 1


@dataclass(slots=True, eq=False)
class Plan:
    """What is known of all instructions of one group. `kind` is None where programs have no handler for them."""

    insn: Insn | None
    node: Node | None
    kind: Kind | None
    getters: tuple[Getter, ...] = ()
    group: Group | None = None
    number: int = -1

    @property
    def effects(self) -> Effects:
        """What such an instruction touches; only its registers may differ."""
        assert self.node is not None
        return self.node.effects

    @property
    def parts(self) -> tuple[Part, ...]:
        """Of its records."""
        return self.kind.parts if self.kind is not None else ()

    @property
    def is_step(self) -> bool:
        """Whether it is not part of programs: the reference engine executes it, or code of its own."""
        return self.kind is None

    @property
    def is_nothing(self) -> bool:
        """Whether it has no effect but to be counted."""
        if self.kind is None or self.node is None:
            return False
        found = self.effects
        touches = found.s_writes or found.mask_writes or found.v_writes or found.writes_scc or found.memory
        return found.flow == "next" and not (touches or found.hwreg_written is not None or found.across)


@dataclass(frozen=True, slots=True)
class Getter:
    """How the value of a record's part is taken out of words: the bits, then what is made of them."""

    part: Part
    pieces: tuple[tuple[int, int, int], ...]
    sign: int = 0
    scale: int = 1
    base: int = 0
    is_literal: bool = False

    def get(self, words: Words, literals: Words) -> Words:
        """The values."""
        if self.is_literal:
            return literals
        raw = np.zeros(len(words), np.uint64)
        for low, at, width in self.pieces:
            raw |= (words >> np.uint64(at) & np.uint64((1 << width) - 1)) << np.uint64(low)
        if self.part.role == "v":
            return (raw & np.uint64(0xFF)) * np.uint64(4 * LANES)
        if self.part.role == "s":
            return raw * np.uint64(4 * self.scale) + np.uint64(SGPR_AT + 4 * self.base)
        if self.part.role == "k":
            return np.where(raw == operands.LITERAL, _extended(literals, self.part.type), _inline(self.part.type)[raw])
        if self.sign:
            sign = np.uint64(self.sign)
            return (raw ^ sign) - sign
        return raw


def _extended(literals: Words, type_: str) -> Words:
    """Literals as operands of a type; see `source.literal`."""
    if type_ == "f64":
        return literals << np.uint64(32)
    if type_ == "i64":
        return literals.astype(np.uint32).astype(np.int32).astype(np.int64).view(np.uint64)
    return literals


@cache
def _inline(type_: str) -> Words:
    """Inline constants by code."""
    table = np.zeros(CODES, np.uint64)
    for code in (*range(operands.INLINE_FIRST, operands.INLINE_LAST + 1), *operands.FLOATS):
        table[code] = source.inline(code, type_) & ALL_ONES
    return table


@cache
def _classes(level: int, kind: str, words: int, type_: str, takes_literal: bool) -> npt.NDArray[np.uint64]:
    """The class of each code that an operand may have."""
    legal = names(level, kind, words, type_)
    table = np.full(CODES, ILLEGAL, np.uint64)
    for code in range(CODES):
        if code == operands.LITERAL and takes_literal:
            table[code] = LITERAL
        elif code not in legal:
            continue
        elif kind == "v" or code >= operands.VGPR0:
            table[code] = VECTOR
        elif code < PLAIN:
            table[code] = 0
        elif kind == "src" and (operands.INLINE_FIRST <= code <= operands.INLINE_LAST or code in operands.FLOATS):
            table[code] = CONSTANT
        else:
            table[code] = code
    return table


@dataclass(slots=True, eq=False)
class Group:
    """Words that agree in all that is no register and no number. `classes`: bits of an operand, and codes' classes.

    `is_single`: nothing is known in common, each word is by itself. `has_fixed_numbers`: a meaning asks for them.
    """

    classes: list[tuple[Field, int, int, npt.NDArray[np.uint64]]] = field(default_factory=list)
    numbers: list[tuple[int, int]] = field(default_factory=list)
    plans: dict[int, Plan] = field(default_factory=dict)
    is_single: bool = False
    has_fixed_numbers: bool = False

    def signatures(self, words: Words, literals: Words) -> Words:
        """A number for each word, the same where they are of one kind."""
        if self.is_single:
            return words | literals << np.uint64(32)
        found = np.zeros(len(words), np.uint64)
        for fld, scale, base, table in self.classes:
            piece = fld.pieces[0]
            raw = words >> np.uint64(piece.at) & np.uint64((1 << piece.width) - 1)
            found = found * np.uint64(CODES) + table[raw * np.uint64(scale) + np.uint64(base)]
        for at, width in self.numbers:
            found = found * np.uint64(2) + ((words >> np.uint64(at) & np.uint64((1 << width) - 1)) != 0)
        return found


class Front:
    """Plans of one processor's code under one MODE."""

    def __init__(self, target: Target, mode: int) -> None:
        self.target = target
        self.mode = mode
        self.plans: list[Plan] = []
        self._groups: dict[tuple[str, int, int], Group] = {}
        self._masks: dict[str, np.uint64] = {}
        self._formats: dict[str, Format] = {}
        for fmt in FORMATS[target.level]:
            self._formats.setdefault(fmt.name, fmt)

    def plan(self, name: str, words: Words, literals: Words, sizes: Numbers, code: Code) -> Numbers:
        """The number of the plan of each of the instructions of one encoding; `code` decodes the i-th of them."""
        if name not in self._masks:
            self._masks[name] = _modifiers(self._formats[name]) if name else np.uint64(ALL_ONES)
        rest = words & self._masks[name]
        found = np.zeros(len(words), np.int64)
        for size, here in groups(sizes):
            for key, members in groups(rest[here]):
                chosen = here[members]
                group = self._group(name, key, size, chosen, code)
                for mark, inner in groups(group.signatures(words[chosen], literals[chosen])):
                    plan = group.plans.get(mark)
                    if plan is None:
                        plan = group.plans[mark] = self._plan(group, code.insn(int(chosen[inner[0]])))
                        plan.number = len(self.plans)
                        self.plans.append(plan)
                    found[chosen[inner]] = plan.number
        return found

    def _group(self, name: str, key: int, size: int, chosen: Numbers, code: Code) -> Group:
        group = self._groups.get((name, key, size))
        if group is None:
            insn = next((insn for insn in map(code.insn, map(int, chosen[:8])) if insn is not None), None)
            made = Group(is_single=True) if insn is None else self._described(insn)
            if insn is None:
                return made  # nothing was learnt
            group = self._groups[name, key, size] = made
        return group

    def _described(self, insn: Insn) -> Group:
        """What the operands of a group may be, from one of its instructions."""
        made = Group()
        word = insn.encoded
        made.is_single = made.has_fixed_numbers = depends_on_numbers(node_of(insn, self.mode))
        for slot in _registers(insn):
            fld, scale, base = self._bits(insn, slot.field, word)
            takes_literal = slot.kind == "src" and insn.form in LITERAL_FORMS
            made.classes.append(
                (fld, scale, base, _classes(insn.target.level, slot.kind, slot.words, slot.type, takes_literal))
            )
        for fld in self._fields(insn):
            if fld.name in OFFSETS:
                if fld.name == "offset" and insn.form in ("SMRD", "SMEM") and not insn["imm"]:
                    made.classes.append(
                        (fld, 1, 0, _offset_classes(insn.target.level, fld.pieces[0].width, insn.form == "SMEM"))
                    )
                else:
                    made.numbers += [(piece.at, piece.width) for piece in fld.pieces]
            elif fld.name == "soffset" and insn.form == "SMEM" and insn.get("soffset_en"):
                made.classes.append((fld, 1, 0, _offset_classes(insn.target.level, fld.pieces[0].width, True)))
        return made

    def _fields(self, insn: Insn) -> tuple[Field, ...]:
        """The fields of an instruction's encoding: those of segment instructions have a sign."""
        if insn.form == "FLAT" and insn.target.level == 9:
            family = "flat" if insn.op.family == "flat" else "global"
            return format_of(9, "FLAT", family).pattern.fields
        return self._formats[insn.form].pattern.fields

    def _bits(self, insn: Insn, name: str, word: int) -> tuple[Field, int, int]:
        """The field that an operand lies in, and how its code is made of the bits: times, plus."""
        fields = {fld.name: fld for fld in self._fields(insn)}
        fld = fields[name] if name in fields else fields["vdst"]
        scale = SCALED.get(name, 1)
        return fld, scale, insn[name] - fld.get(word) * scale

    def _plan(self, group: Group, insn: Insn | None) -> Plan:
        if insn is None:
            return Plan(None, None, None)
        node = node_of(insn, self.mode)
        if node.is_step:
            return Plan(insn, node, None)
        try:
            kind = kind_of(node, self.mode, group.has_fixed_numbers)
        except Untranslated:
            return Plan(insn, node, None)
        return Plan(insn, node, kind, tuple(self.getters(insn, kind)), group)

    def refused(self, plan: Plan) -> bool:
        """A plan's kind has no handler; whether it may have one when its numbers belong to it: then plan anew."""
        group = plan.group
        if group is None or group.has_fixed_numbers or not any(part.role == "n" for part in plan.parts):
            plan.kind = None
            return False
        group.is_single = group.has_fixed_numbers = True
        group.plans.clear()
        return True

    def getters(self, insn: Insn, kind: Kind) -> Iterator[Getter]:
        """How the parts of a kind's records are taken out of words like an instruction's."""
        word = insn.encoded
        for part in kind.parts:
            if part.field == "literal":
                yield Getter(part, (), is_literal=True)
            elif part.role == "n":
                fields = {fld.name: fld for fld in self._fields(insn)}
                fld = fields[part.field]
                pieces = [(piece.low, piece.at, piece.width) for piece in fld.pieces]
                if part.type == "16":
                    pieces += [(8 + piece.low, piece.at, piece.width) for piece in fields["offset1"].pieces]
                yield Getter(part, tuple(pieces), fld.sign)
            elif is_scalar_offset(insn, part.field):
                fld = next(fld for fld in self._fields(insn) if fld.name == part.field)
                yield Getter(part, ((0, fld.pieces[0].at, 7),))
            else:
                fld, scale, base = self._bits(insn, part.field, word)
                yield Getter(part, tuple((p.low, p.at, p.width) for p in fld.pieces), 0, scale, base)


class Code:
    """Instructions of one encoding that can be decoded one by one: their words and addresses."""

    def __init__(self, target: Target, words: npt.NDArray[np.uint32], offsets: Numbers, start: int) -> None:
        self.target = target
        self.words = words
        self.offsets = offsets
        self.start = start

    def insn(self, index: int) -> Insn | None:
        """Instruction `index`; None where it is none."""
        at = int(self.offsets[index])
        try:
            return decode(self.target, self.words[at : at + 3].tolist(), self.start + 4 * at)
        except UnderstudyError:
            return None


SCALED: Final = {"sbase": 2, "srsrc": 4, "ssamp": 4}
"""Fields that count scalar registers in groups."""


@cache
def _offset_classes(level: int, bits: int, is_masked: bool) -> npt.NDArray[np.uint64]:
    """Of the register that is the offset of a scalar access; of SMEM only the lower bits count."""
    legal = names(level, "s", 1, "b32")
    registers = [(0 if code < PLAIN else code) if code in legal else ILLEGAL for code in range(128)]
    table = np.full(1 << bits, ILLEGAL, np.uint64)
    table[:128] = registers
    if is_masked:
        table[:] = np.resize(np.array(registers, np.uint64), 1 << bits)
    else:
        table[operands.LITERAL] = LITERAL
    return table


def is_scalar_offset(insn: Insn, field: str) -> bool:
    """Whether a field is the offset of a scalar access, which may be a register."""
    return field in ("offset", "soffset") and insn.form in ("SMRD", "SMEM")


def _registers(insn: Insn) -> Iterator[Slot]:
    """The operands that lie in fields of their own."""
    done = set()
    for slot in visible_slots(insn.op, insn.target, insn.form, insn.fields):
        is_operand = slot.kind in OPERANDS and slot.field in insn.fields and not is_scalar_offset(insn, slot.field)
        if is_operand and slot.field not in done and insn[slot.field] >= 0:
            done.add(slot.field)
            yield slot


def _modifiers(fmt: Format) -> np.uint64:
    """The bits of an encoding that are neither registers nor numbers, nor ignored."""
    mask = fmt.pattern.mask
    for fld in fmt.pattern.fields:
        if fld.name not in REGISTER_FIELDS and fld.name not in OFFSETS:
            for piece in fld.pieces:
                mask |= (1 << piece.width) - 1 << piece.at
    return np.uint64(mask)


def groups(keys: npt.NDArray[Any]) -> Iterator[tuple[int, Numbers]]:
    """Each value of an array, and the places where it stands, in order."""
    if len(keys) == 1:
        yield int(keys[0]), np.zeros(1, np.int64)
        return
    order = np.argsort(keys, kind="stable")
    found = keys[order]
    cuts = (np.flatnonzero(found[1:] != found[:-1]) + 1).tolist()
    for first, last in zip([0, *cuts], [*cuts, len(keys)], strict=True):
        if first < last:
            yield int(found[first]), order[first:last]
