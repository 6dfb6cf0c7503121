"""From machine code to kinds and what records hold, a whole kernel at a time: arrays, and Python once per kind.

Words are grouped by what is no register and no number in them; then by classes of operands, so that all instructions
of a group are of one kind. One of them is decoded, the others' slots are taken out of the bits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import IntEnum
from functools import cache
from typing import Final

import numpy as np
import numpy.typing as npt

from understudy.core.errors import UnderstudyError
from understudy.engine.gcn.jit.basics import Untranslated
from understudy.engine.gcn.jit.effects import Effects
from understudy.engine.gcn.jit.region import Node, node_of
from understudy.engine.gcn.threaded import records
from understudy.engine.gcn.threaded.example import Example
from understudy.engine.gcn.threaded.kind import (
    IMPLIED,
    OFFSETS,
    OPERANDS,
    REGISTER_FIELDS,
    SELECTIONS,
    Kind,
    depends_on_numbers,
    is_scalar,
    kind_of,
)
from understudy.engine.gcn.threaded.records import Handler
from understudy.engine.gcn.threaded.rows import Alike, Numbers, Rows, alike
from understudy.engine.gcn.threaded.values import (
    ALL_ONES,
    CACHE_COLUMNS,
    CODES,
    PART_COLUMNS,
    Getter,
    Words,
    cache_rows,
    part_rows,
)
from understudy.isa.gcn.encoding import operands
from understudy.isa.gcn.encoding.bounds import format_names
from understudy.isa.gcn.encoding.decode import decode
from understudy.isa.gcn.encoding.formats import FORMATS, Format, format_of
from understudy.isa.gcn.encoding.operands import names
from understudy.isa.gcn.encoding.shape import LITERAL_FORMS, Slot, visible_slots
from understudy.isa.gcn.insn import Insn
from understudy.isa.gcn.semantics.sdwa import DWORD
from understudy.isa.gcn.state import VCC
from understudy.isa.gcn.target import Target
from understudy.isa.pattern import Field

VECTOR, CONSTANT, LITERAL, ILLEGAL = 511, 510, 509, 508
"""Classes of operand codes beside 0, which is any scalar register; other codes are classes of their own."""
TRIED: Final = 8
"""Words of a group that are tried, to find an instruction among them."""
UNKNOWN: Final = ALL_ONES
"""The size of records of which nothing is known yet."""


class About(IntEnum):
    """Columns of what is known of plans: whether a block ends with it, and whether it goes elsewhere.

    Of its records the size, and the first row and the number of rows of their parts and of their inline caches.
    """

    ENDS = 0
    GOES = 1
    SIZE = 2
    PART = 3
    PARTS = 4
    CACHE = 5
    CACHES = 6


@dataclass(slots=True, eq=False)
class Plan:
    """What is known of all instructions of one group. `kind` is None where programs have no handler for them."""

    insn: Insn | None
    node: Node | None
    kind: Kind | None
    getters: tuple[Getter, ...] = ()
    group: Group | None = None
    example: Example | None = None
    """An instruction that stands for its kind."""
    number: int = -1
    is_nothing: bool = field(init=False, default=False)
    """Whether it has a kind, but no effect but to be counted."""

    @property
    def effects(self) -> Effects:
        """What such an instruction touches; only its registers may differ."""
        assert self.node is not None
        return self.node.effects

    @property
    def is_step(self) -> bool:
        """Whether it is not part of programs: the reference engine executes it, or code of its own."""
        return self.kind is None

    @property
    def ends(self) -> bool:
        """Whether a block ends with it though it goes nowhere else: what is done beside programs, writes of MODE."""
        return self.is_step or self.effects.hwreg_written is not None

    def __post_init__(self) -> None:
        if self.kind is not None:
            found = self.effects
            touches = found.s_writes or found.mask_writes or found.v_writes or found.writes_scc or found.memory
            touches = touches or found.hwreg_written is not None or found.across
            self.is_nothing = found.flow == "next" and not touches


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
        elif is_scalar(kind, code):
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

    classes: list[tuple[Field, int, int, Words]] = field(default_factory=list)
    numbers: list[tuple[int, int]] = field(default_factory=list)
    plans: dict[int, int] = field(default_factory=dict)
    """Numbers of plans by what their words have in common."""
    is_single: bool = False
    has_fixed_numbers: bool = False
    number: int = -1


class Front:
    """Plans of one processor's code under one MODE."""

    def __init__(self, target: Target, mode: int) -> None:
        self.target = target
        self.mode = mode
        self.plans: list[Plan] = []
        self.about = Rows(len(About))
        """What is known of each plan, by its number; see `About`."""
        self.parts = Rows(PART_COLUMNS)
        """Of the records of plans; see `values.fill_parts`."""
        self.caches = Rows(CACHE_COLUMNS)
        self.names = format_names(target.level)
        self._formats: dict[str, Format] = {}
        for fmt in FORMATS[target.level]:
            self._formats.setdefault(fmt.name, fmt)
        masks = [_modifiers(self._formats[name]) if name else ALL_ONES for name in self.names]
        self._masks = np.array(masks, np.uint64)
        self._unknown = Group(is_single=True)
        """Words that are no instructions."""
        self._groups: list[Group] = []
        self._found: dict[tuple[int, int], Group] = {}
        self._about_groups = Rows(3)
        """First row, rows, and whether it is single, by a group's number."""
        self._classes = Rows(7)
        self._tables: dict[int, int] = {}
        """Where each table of classes begins in all of them, by its identity."""
        self._all_tables: Words = np.array([0, 1], np.uint64)
        self._add(self._unknown)

    def plan(self, formats: Numbers, sizes: Numbers, words: Words, literals: Words, code: Code) -> Numbers:
        """The number of the plan of each of some instructions; `code` decodes the i-th of them."""
        if not len(words):
            return np.zeros(0, np.int64)
        rest, forms = words & self._masks[formats], formats << 2 | sizes
        same = alike(rest, forms)
        firsts = same.order[same.cuts]
        numbers: list[int] = []
        for form, key, cut in zip(forms[firsts].tolist(), rest[firsts].tolist(), same.cuts.tolist(), strict=True):
            group = self._found.get((form, key))
            if group is None:
                size = min(int(same.sizes[len(numbers)]), TRIED)
                group = self._group((form, key), same.order[cut : cut + size].tolist(), code)
            numbers.append(group.number)
        owners = np.empty(len(words), np.int64)
        owners[same.order] = np.repeat(numbers, same.sizes)
        signatures = self._signatures(same, self._about_groups.table[numbers], words, literals)
        same = alike(signatures, owners)
        firsts = same.order[same.cuts]
        plans = []
        for number, mark, first in zip(
            owners[firsts].tolist(), signatures[firsts].tolist(), firsts.tolist(), strict=True
        ):
            group = self._groups[number]
            plan = group.plans.get(mark)
            if plan is None:
                plan = group.plans[mark] = self._new(self._plan(group, code.insn(first)))
            plans.append(plan)
        found = np.empty(len(words), np.int64)
        found[same.order] = np.repeat(plans, same.sizes)
        return found

    def _signatures(self, same: Alike, groups: Words, words: Words, literals: Words) -> Words:
        """A number for each word, the same where they are of one group and kind; `groups`: what is known of them."""
        first, counts, is_single = groups.T
        found = np.zeros(len(words), np.uint64)
        for places, row in same.with_rows(first, counts):
            at, mask, most, scale, base, table, factor = self._classes.table[row].T
            bits = np.minimum(words[places] >> at & mask, most)
            np.add.at(found, places, self._all_tables[(bits * scale + base + table).astype(np.int64)] * factor)
        single = same.order[np.repeat(is_single != 0, same.sizes)]
        found[single] = words[single] | literals[single] << np.uint64(32)
        return found

    def _group(self, key: tuple[int, int], members: list[int], code: Code) -> Group:
        """A group that is new, if any of its members is an instruction."""
        insn = next((insn for insn in map(code.insn, members) if insn is not None), None)
        if insn is None:
            return self._unknown  # nothing was learnt
        group = self._found[key] = self._described(insn)
        self._add(group)
        return group

    def _add(self, group: Group) -> None:
        """Give a group its number, and its rows: how the mark of a word is made of its bits."""
        rows = [
            (fld.pieces[0].at, (1 << fld.pieces[0].width) - 1, ALL_ONES, scale, base, self._table(table), CODES)
            for fld, scale, base, table in group.classes
        ]
        rows += [(at, (1 << width) - 1, 1, 1, 0, 0, 2) for at, width in group.numbers]
        factor, scaled = 1, []
        for *row, radix in reversed(rows):
            scaled.append((*row, factor))
            factor = factor * radix & ALL_ONES
        first = self._classes.add(scaled)
        group.number = self._about_groups.add([(first, len(rows), group.is_single)])
        self._groups.append(group)

    def _table(self, table: Words) -> int:
        """Where a table of classes begins among all."""
        if id(table) not in self._tables:
            self._tables[id(table)] = len(self._all_tables)
            self._all_tables = np.concatenate([self._all_tables, table])
        return self._tables[id(table)]

    def _new(self, plan: Plan) -> int:
        """Give a plan its number."""
        about = [0] * len(About)
        about[About.ENDS] = plan.ends
        about[About.GOES] = plan.node is not None and plan.effects.flow != "next"
        about[About.SIZE] = UNKNOWN
        plan.number = self.about.add([about])
        self.plans.append(plan)
        return plan.number

    def lay_out(self, number: int, find: Callable[[str], tuple[int, Handler] | None]) -> None:
        """Find out how the records of a plan look like; it has a handler or needs none."""
        plan, about = self.plans[number], self.about.table[number]
        if plan.kind is None:
            about[About.SIZE] = records.LEAVE_BYTES
        elif plan.is_nothing:
            about[About.SIZE] = 0
        else:
            known = find(plan.kind.key)
            assert known is not None
            handler = known[1]
            parts, caches = part_rows(plan.getters, handler), cache_rows(handler)
            about[About.PART], about[About.PARTS] = self.parts.add(parts), len(parts)
            about[About.CACHE], about[About.CACHES] = self.caches.add(caches), len(caches)
            about[About.SIZE] = handler.size

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
            elif fld.name in SELECTIONS:
                made.classes.append((fld, 1, 0, _SELECTIONS))
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
        example = Example(insn.words, self.mode, group.has_fixed_numbers)
        return Plan(insn, node, kind, tuple(self.getters(insn, kind)), group, example)

    def refused(self, plan: Plan) -> bool:
        """A plan's kind has no handler; whether it may have one when its numbers belong to it: then plan anew."""
        group = plan.group
        if group is None or group.has_fixed_numbers or not _has_numbers(plan):
            plan.kind = None
            self.about.table[plan.number, About.ENDS] = True
            return False
        group.is_single = group.has_fixed_numbers = True
        self._about_groups.table[group.number, 2] = True
        group.plans.clear()
        return True

    def getters(self, insn: Insn, kind: Kind) -> Iterator[Getter]:
        """How the parts of a kind's records are taken out of words like an instruction's."""
        word = insn.encoded
        for part in kind.parts:
            if part.field == "literal":
                yield Getter(part, (), is_literal=True)
            elif part.field == IMPLIED:
                yield Getter(part, (), base=VCC)
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


def _has_numbers(plan: Plan) -> bool:
    return plan.kind is not None and any(part.role == "n" for part in plan.kind.parts)


SCALED: Final = {"sbase": 2, "srsrc": 4, "ssamp": 4}
"""Fields that count scalar registers in groups."""


@cache
def _offset_classes(level: int, bits: int, is_masked: bool) -> npt.NDArray[np.uint64]:
    """Of the register that is the offset of a scalar access; of SMEM only the lower bits count."""
    legal = names(level, "s", 1, "b32")
    registers = [0 if code in legal else ILLEGAL for code in range(128)]
    table = np.full(1 << bits, ILLEGAL, np.uint64)
    table[:128] = registers
    if is_masked:
        table[:] = np.resize(np.array(registers, np.uint64), 1 << bits)
    else:
        table[operands.LITERAL] = LITERAL
    return table


_SELECTIONS: Final = np.array([0] * DWORD + [DWORD, ILLEGAL], np.uint64)
"""Of what SDWA selects of a source."""


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


def _modifiers(fmt: Format) -> int:
    """The bits of an encoding that are neither registers nor numbers, nor ignored."""
    mask = fmt.pattern.mask
    for fld in fmt.pattern.fields:
        if fld.name not in REGISTER_FIELDS and fld.name not in OFFSETS and fld.name not in SELECTIONS:
            for piece in fld.pieces:
                mask |= (1 << piece.width) - 1 << piece.at
    return mask
