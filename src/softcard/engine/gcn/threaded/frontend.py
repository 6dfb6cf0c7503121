"""The front end, which maps a kernel's machine code to handlers and record contents with NumPy arrays.

Instruction words are grouped in two steps: by all bits except registers and numbers, then by the classes of
their operands. All instructions of a resulting group share one handler. Python code decodes only one
instruction of each group; the operands of the others are extracted from their words by NumPy."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import IntEnum
from functools import cache
from typing import Final

import numpy as np
import numpy.typing as npt

from softcard.core.errors import SoftcardError
from softcard.engine.gcn.effects import Effects
from softcard.engine.gcn.jit.basics import Untranslated
from softcard.engine.gcn.jit.region import Node, node_of
from softcard.engine.gcn.threaded import records
from softcard.engine.gcn.threaded.kind import (
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
from softcard.engine.gcn.threaded.records import Example, Handler
from softcard.engine.gcn.threaded.rows import Alike, Numbers, Rows, alike
from softcard.engine.gcn.threaded.values import (
    ALL_ONES,
    CACHE_COLUMNS,
    CODES,
    PART_COLUMNS,
    Getter,
    Words,
    cache_rows,
    part_rows,
    two_words,
)
from softcard.isa.gcn.encoding import operands
from softcard.isa.gcn.encoding.bounds import format_names
from softcard.isa.gcn.encoding.decode import LEAST_OVERLAP, decode
from softcard.isa.gcn.encoding.formats import FORMATS, LONGEST, MATRIX_FORMS, Format, format_of
from softcard.isa.gcn.encoding.operands import names
from softcard.isa.gcn.encoding.shape import LITERAL_FORMS, Slot, visible_slots
from softcard.isa.gcn.insn import Insn
from softcard.isa.gcn.semantics.modifiers import DWORD
from softcard.isa.gcn.state import VCC
from softcard.isa.gcn.target import GFX9, Target
from softcard.isa.pattern import Field

VECTOR, CONSTANT, LITERAL, ILLEGAL = CODES - 1, CODES - 2, CODES - 3, CODES - 4
"""The classes of operand codes other than scalar registers, which have class 0.

Each code that belongs to none of these classes is a class of its own.
"""
TRIED: Final = 8
"""The number of a group's words that are decoded in search of a valid instruction."""
MIXER: Final = np.uint64(0x9E37_79B9_7F4A_7C15)
"""An odd factor that makes the signatures of different instructions of four words differ."""
UNKNOWN: Final = ALL_ONES
"""A placeholder for the size of records whose layout is not known yet."""


class About(IntEnum):
    """The columns of the front end's table of plans (see `Plan`).

    They are flags for plans that end a block or branch, and the layout of their records: the record's size, and
    the first row and the number of rows of its operand fields and of its inline caches."""

    ENDS = 0
    GOES = 1
    SIZE = 2
    PART = 3
    PARTS = 4
    CACHE = 5
    CACHES = 6


@dataclass(slots=True, eq=False)
class Plan:
    """The translation that a set of instructions has in common.

    `kind` is the specification of the handler that executes all of these instructions, or None without a
    handler."""

    insn: Insn | None
    node: Node | None
    kind: Kind | None
    getters: tuple[Getter, ...] = ()
    group: Group | None = None
    example: Example | None = None
    """An instruction that represents all instructions with the same handler."""
    number: int = -1
    is_nothing: bool = field(init=False, default=False)
    """True if the instructions have a handler but no effect except to be counted."""

    @property
    def effects(self) -> Effects:
        """The effects of an instruction of the plan. Those of its other instructions differ only in the registers."""
        assert self.node is not None
        return self.node.effects

    @property
    def is_step(self) -> bool:
        """True if programs exit at these instructions, since no handler executes them.

        The reference engine or separately translated code executes them."""
        return self.kind is None

    @property
    def ends(self) -> bool:
        """True if the instructions end a basic block although they do not branch.

        Such instructions are executed outside of programs, or write MODE."""
        return self.is_step or self.effects.hwreg_written is not None

    def __post_init__(self) -> None:
        if self.kind is not None:
            found = self.effects
            touches = found.s_writes or found.mask_writes or found.v_writes or found.writes_scc or found.memory
            touches = touches or found.hwreg_written is not None or found.across
            self.is_nothing = found.flow == "next" and not touches


@cache
def _classes(level: int, kind: str, words: int, type_: str, takes_literal: bool) -> npt.NDArray[np.uint64]:
    """Return the class of each code of an operand: scalar or vector register, constant, literal or illegal.

    Any other code is a class of its own. The parameters describe the operand."""
    legal = names(level, kind, words, type_)
    table = np.full(CODES, ILLEGAL, np.uint64)
    for code in range(CODES):
        if code == operands.LITERAL and takes_literal:
            table[code] = LITERAL
        elif code not in legal:
            continue
        elif kind in ("v", "a", "va") or code >= operands.VGPR0:
            table[code] = VECTOR
        elif is_scalar(kind, code):
            table[code] = 0
        elif kind == "src" and (operands.INLINE_FIRST <= code <= operands.INLINE_LAST or code in operands.FLOATS):
            table[code] = CONSTANT
        else:
            table[code] = code
    return table


def _overlaps(words: Words, c: int, d: int, registers: int) -> Words:
    """Return, for each word of a matrix instruction, a bit that tells if C and D overlap without being the same.

    The bit is set if registers of C overlap those of D without being the same. `words` are the two words that have the
    fields of C and D, `c` and `d` their bit positions, and `registers` is the number of registers.
    """
    constants, numbers = words >> np.uint64(c) & np.uint64(0x1FF), words >> np.uint64(d) & np.uint64(0xFF)
    apart = np.abs(constants.astype(np.int64) - operands.VGPR0 - numbers.astype(np.int64))
    return ((apart > 0) & (apart < registers)).astype(np.uint64) << np.uint64(63)


@dataclass(slots=True, eq=False)
class Group:
    """A group of instruction words that differ only in registers and numbers.

    `classes` has for each operand its field, scale and base, and the class of each operand code. `is_single` is
    True if each different word of the group has a separate plan. `has_fixed_numbers` is True if the numbers are
    compiled into the handlers."""

    classes: list[tuple[Field, int, int, Words]] = field(default_factory=list)
    numbers: list[tuple[int, int]] = field(default_factory=list)
    plans: dict[int, int] = field(default_factory=dict)
    """The number of the plan for each signature (the combination of operand classes)."""
    is_single: bool = False
    has_fixed_numbers: bool = False
    accumulated: tuple[int, int, int] | None = None
    """The fields of matrix instructions that matter for the overlap of C and D, or None.

    They are the bit positions of C and of D in the encoding, and the number of registers. C must be the same as D, or
    not overlap it.
    """
    number: int = -1


class Frontend:
    """The front end for one processor's code under one MODE.

    It has the groups of instruction words that it has found so far, and the plans of each group."""

    def __init__(self, target: Target, mode: int) -> None:
        self.target = target
        self.mode = mode
        self.plans: list[Plan] = []
        self.about = Rows(len(About))
        """The table of plans, with a row for each plan; see `About`."""
        self.parts = Rows(PART_COLUMNS)
        """The operand fields in the records of all plans; see `values.fill_parts`."""
        self.caches = Rows(CACHE_COLUMNS)
        self.names = format_names(target.encoding)
        self._formats: dict[str, Format] = {}
        for fmt in FORMATS[target.encoding]:
            self._formats.setdefault(fmt.name, fmt)
        masks = [_modifiers(self._formats[name]) if name else ALL_ONES for name in self.names]
        self._masks = np.array([mask & ALL_ONES for mask in masks], np.uint64)
        self._high_masks = np.array([mask >> 64 for mask in masks], np.uint64)
        """The masks of the third and fourth word."""
        self._unknown = Group(is_single=True)
        """The group to which all invalid words belong."""
        self._groups: list[Group] = []
        self._found: dict[tuple[int, int, int], Group] = {}
        self._about_groups = Rows(3)
        """A table with a row for each group: first row, number of rows, and a flag.

        The flag is set if each word of the group has a plan of its own.
        """
        self._classes = Rows(7)
        self._tables: dict[int, int] = {}
        """The offset of each table of operand classes in the concatenation of all such tables, by `id(table)`."""
        self._all_tables: Words = np.array([0, 1], np.uint64)
        """The concatenation of these tables, with room for more: a table of 2**21 elements is often among them."""
        self._tables_size = len(self._all_tables)
        self._add(self._unknown)

    def plan(self, formats: Numbers, sizes: Numbers, words: Words, literals: Words, code: Code) -> Numbers:
        """Return the plan number of each instruction.

        `formats` and `sizes` are the encodings and the sizes of the instructions, `words` and `literals` their
        contents (see `Listing`). `code` decodes an instruction by its index.
        """
        if not len(words):
            return np.zeros(0, np.int64)
        rest, more, forms = words & self._masks[formats], literals & self._high_masks[formats], formats << 3 | sizes
        same = alike(rest, more, forms)
        firsts = same.order[same.cuts]
        numbers: list[int] = []
        keys = zip(*(each[firsts].tolist() for each in (forms, rest, more)), strict=True)
        for key, cut in zip(keys, same.cuts.tolist(), strict=True):
            group = self._found.get(key)
            if group is None:
                size = min(int(same.sizes[len(numbers)]), TRIED)
                group = self._group(key, same.order[cut : cut + size].tolist(), code)
            numbers.append(group.number)
        owners = np.empty(len(words), np.int64)
        owners[same.order] = np.repeat(numbers, same.sizes)
        signatures = self._signatures(same, self._about_groups.table[numbers], words, literals)
        for number in set(numbers):
            accumulated = self._groups[number].accumulated
            if accumulated is not None:
                c, d, registers = accumulated
                own, here = words if d < 64 else literals, owners == number
                signatures[here] |= _overlaps(own[here], c % 64, d % 64, registers)
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
        """Return a signature for each word, which is equal for words of one group that share a handler.

        `groups` has, for each word, the row of its group in the table of groups.
        """
        first, counts, is_single = groups.T
        found = np.zeros(len(words), np.uint64)
        for places, row in same.with_rows(first, counts):
            at, mask, most, scale, base, table, factor = self._classes.table[row].T
            bits = np.minimum(two_words(words[places], literals[places], at) >> (at & 63) & mask, most)
            np.add.at(found, places, self._all_tables[(bits * scale + base + table).astype(np.int64)] * factor)
        single = same.order[np.repeat(is_single != 0, same.sizes)]
        found[single] = words[single] | literals[single] << np.uint64(32)
        found[single] ^= (literals[single] >> np.uint64(32) != 0) * literals[single] * MIXER  # four words
        return found

    def _group(self, key: tuple[int, int, int], members: list[int], code: Code) -> Group:
        """Return a new group for the words with indices `members`.

        One valid word describes the group. If no word is valid, return the group of invalid words."""
        insn = next((insn for insn in map(code.insn, members) if insn is not None), None)
        if insn is None:
            return self._unknown  # nothing was learnt
        group = self._found[key] = self._described(insn)
        self._add(group)
        return group

    def _add(self, group: Group) -> None:
        """Assign a number to a group, and add the table rows from which a word's signature is computed."""
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
        """Return the offset of `table`, a table of operand classes, in the concatenation of all such tables.

        Append the table to the concatenation if it is not there yet."""
        if id(table) not in self._tables:
            first = self._tables[id(table)] = self._tables_size
            self._tables_size += len(table)
            if self._tables_size > len(self._all_tables):
                room = np.zeros(2 * self._tables_size, np.uint64)
                room[:first] = self._all_tables[:first]
                self._all_tables = room
            self._all_tables[first : self._tables_size] = table
        return self._tables[id(table)]

    def _new(self, plan: Plan) -> int:
        """Assign a number to a plan, and add it to the table of plans; return the number."""
        about = [0] * len(About)
        about[About.ENDS] = plan.ends
        about[About.GOES] = plan.node is not None and plan.effects.flow != "next"
        about[About.SIZE] = UNKNOWN
        plan.number = self.about.add([about])
        self.plans.append(plan)
        return plan.number

    def lay_out(self, number: int, find: Callable[[str], tuple[int, Handler] | None]) -> None:
        """Compute the record layout of the instructions of plan `number`. Their handler, if they have one, must exist.

        `find` returns the address and layout of the handler with a given key."""
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
        """Return a new group for an instruction, with the classes of its operands."""
        made = Group()
        word = insn.encoded
        made.is_single = made.has_fixed_numbers = depends_on_numbers(node_of(insn, self.mode))
        for slot in _registers(insn):
            fld, scale, base = self._bits(insn, slot.field, word)
            if slot.kind == "csrc":  # of the words of a group some have a constant, which is of neither file
                base = 0
            takes_literal = slot.kind == "src" and insn.form in LITERAL_FORMS
            made.classes.append(
                (fld, scale, base, _classes(insn.target.encoding, slot.kind, slot.words, slot.type, takes_literal))
            )
        if insn.form in MATRIX_FORMS and not insn.op.name.startswith("v_smfmac"):
            c, d = (self._bits(insn, name, word)[0].pieces[0].at for name in ("src2", "vdst"))
            registers = next(slot.words for slot in _registers(insn) if slot.field == "vdst")
            made.accumulated = (c, d, registers) if registers > LEAST_OVERLAP else None
        for fld in self._fields(insn):
            if fld.name in OFFSETS:
                if fld.name == "offset" and insn.form in ("SMRD", "SMEM") and not insn["imm"]:
                    made.classes.append(
                        (fld, 1, 0, _offset_classes(insn.target.encoding, fld.pieces[0].width, insn.form == "SMEM"))
                    )
                else:
                    made.numbers += [(piece.at, piece.width) for piece in fld.pieces]
            elif fld.name in SELECTIONS:
                made.classes.append((fld, 1, 0, _SELECTIONS))
            elif fld.name == "soffset" and insn.form == "SMEM" and insn.get("soffset_en"):
                made.classes.append((fld, 1, 0, _offset_classes(insn.target.encoding, fld.pieces[0].width, True)))
        return made

    def _fields(self, insn: Insn) -> tuple[Field, ...]:
        """Return the bit fields of an instruction's encoding.

        On GFX9, the encoding FLAT has two variants: the offset of global and scratch instructions is signed."""
        if insn.form == "FLAT" and insn.target.level == GFX9:
            family = "flat" if insn.op.family == "flat" else "global"
            return format_of(insn.target.encoding, "FLAT", family).pattern.fields
        return self._formats[insn.form].pattern.fields

    def _bits(self, insn: Insn, name: str, word: int) -> tuple[Field, int, int]:
        """Return the bit field of an operand, and the scale and base that convert it to the operand code."""
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
        """Record that a handler cannot be made for the instructions of a plan.

        Return True if handlers with compiled-in constants may be possible; the instructions then need new plans."""
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
        """Yield, for each operand field of the handler's records, the `Getter` that computes the field's value.

        A getter extracts the operand from the words of any instruction with the same encoding as `insn`."""
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
    """The decoder of the instructions of a code range, each selected by its index."""

    def __init__(self, target: Target, words: npt.NDArray[np.uint32], offsets: Numbers, start: int) -> None:
        self.target = target
        self.words = words
        self.offsets = offsets
        self.start = start

    def insn(self, index: int) -> Insn | None:
        """Return instruction `index`, or None if it is invalid."""
        at = int(self.offsets[index])
        try:
            return decode(self.target, self.words[at : at + LONGEST // 4].tolist(), self.start + 4 * at)
        except SoftcardError:
            return None


def _has_numbers(plan: Plan) -> bool:
    return plan.kind is not None and any(part.role == "n" for part in plan.kind.parts)


SCALED: Final = {"sbase": 2, "srsrc": 4, "ssamp": 4}
"""The encoding fields that count groups of scalar registers, each with the size of a group."""


@cache
def _offset_classes(level: int, bits: int, is_masked: bool) -> npt.NDArray[np.uint64]:
    """Return the operand class of each value of the offset field of a scalar access: register, literal or illegal.

    With `is_masked` (SMEM) only the low bits of the field count."""
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
"""The operand class of each SDWA source selection."""


def is_scalar_offset(insn: Insn, field: str) -> bool:
    """Return True if a field is the offset of a scalar access, and may name a register."""
    return field in ("offset", "soffset") and insn.form in ("SMRD", "SMEM")


def _registers(insn: Insn) -> Iterator[Slot]:
    """Yield the operands of an instruction that are encoded in fields, each field only once.

    The offsets of scalar accesses are omitted."""
    done = set()
    for slot in visible_slots(insn.op, insn.target, insn.form, insn.fields):
        is_operand = slot.kind in OPERANDS and slot.field in insn.fields and not is_scalar_offset(insn, slot.field)
        if is_operand and slot.field not in done and insn[slot.field] >= 0:
            done.add(slot.field)
            yield slot


def _modifiers(fmt: Format) -> int:
    """Return the mask of an encoding's bits that are neither registers nor numbers and are not ignored."""
    mask = fmt.pattern.mask
    for fld in fmt.pattern.fields:
        if fld.name not in REGISTER_FIELDS and fld.name not in OFFSETS and fld.name not in SELECTIONS:
            for piece in fld.pieces:
                mask |= (1 << piece.width) - 1 << piece.at
    return mask
