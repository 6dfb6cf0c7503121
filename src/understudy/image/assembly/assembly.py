"""One assembly file on its way to bytes: sections, symbols, and passes over the source until every address stands.

There is no relocatable object in between. Each pass assembles the whole file with the addresses of the pass before it;
when a pass ends with the addresses that it began with, its bytes are right, and linked.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Protocol

from understudy.core.errors import WireError, close_to
from understudy.core.words import align_up
from understudy.image.assembly.expressions import Function, Value, evaluate
from understudy.image.assembly.source import Statement, Syntax, operands, statements

MAX_SECTION_BYTES: Final = 1 << 28
"""Larger sections are refused."""
MAX_PASSES: Final = 64
"""So many passes are enough for sizes to settle; a file whose sizes depend on themselves never does."""
NAMING: Final = (".set", ".equ", ".equiv", ".comm", ".lcomm")
"""Directives that define the symbol which they name first."""
_LOCAL: Final = re.compile(r"(\d+)([bf])")


@dataclass(slots=True)
class Section:
    """A section while it grows. `flags` are the letters of ``.section``; `is_empty` ones (.bss) have no bytes."""

    name: str
    flags: str
    is_empty: bool = False
    alignment: int = 1
    data: bytearray = field(default_factory=bytearray)
    size: int = 0

    @property
    def is_loaded(self) -> bool:
        """Whether a program has it in memory."""
        return "a" in self.flags

    @property
    def is_code(self) -> bool:
        """Whether it holds instructions."""
        return "x" in self.flags


@dataclass(slots=True)
class Symbol:
    """A symbol: `value` counts from its section, or is a number where it has none (then `section` is "")."""

    name: str
    section: str
    value: int
    is_known: bool = True


@dataclass(slots=True)
class Attributes:
    """What directives say of a symbol, wherever it is defined: STB_, STT_ and STV_ numbers, and its size."""

    binding: int = 0
    kind: int = 0
    visibility: int = 0
    size: int = 0


class Machine(Protocol):
    """An instruction set, and the files that are made for it."""

    syntax: Syntax
    align_is_power: bool
    """Whether ``.align 3`` means 8 bytes."""

    @property
    def functions(self) -> Mapping[str, Function]:
        """What expressions may call."""

    def begin(self, assembly: Assembly) -> None:
        """A new pass."""

    def mode(self) -> str:
        """What of its state decides the bytes of an instruction."""

    def instruction(self, assembly: Assembly, statement: Statement) -> bytes:
        """The bytes of a statement; `WireError` for what is none of its instructions."""

    def directive(self, assembly: Assembly, statement: Statement) -> bool:
        """Take up a directive of its own; False for any other."""

    def absolute(self, assembly: Assembly, offset: int, address: int, size: int) -> None:
        """At `offset` of the current section stand `size` bytes of an address."""

    def padding(self, size: int) -> bytes:
        """What fills a gap between instructions."""

    def finish(self, assembly: Assembly) -> None:
        """Add what the file needs that nobody wrote: the pass is over."""

    def addresses(self, assembly: Assembly) -> Mapping[str, int]:
        """Where each section that is loaded begins."""


@dataclass(frozen=True, slots=True)
class Piece:
    """The bytes that a statement has put into a section."""

    statement: Statement
    section: str
    offset: int
    data: bytes = field(repr=False)


class Assembly:
    """The state of one file. Make it with `assemble`."""

    def __init__(self, machine: Machine, source: str, directives: Mapping[str, Directive]) -> None:
        self.machine = machine
        self.sections: dict[str, Section] = {}
        self.symbols: dict[str, Symbol] = {}
        self.attributes: dict[str, Attributes] = {}
        self.pieces: list[Piece] = []
        self.conditions: list[bool] = []
        """Of the ``.if`` around a statement: whether it holds."""
        self.before: list[str] = []
        """Sections that ``.popsection`` and ``.previous`` go back to."""
        self.grown: dict[int, int] = {}
        """How long a form statements need, by their numbers: a form never gets shorter again, so that sizes settle."""
        self.number = 0
        """Number of the statement that is taken."""
        self.bases: Mapping[str, int] = {}
        """Addresses of sections, as the pass before it has found them."""
        self.is_first = True
        self._statements = list(statements(source, machine.syntax))
        self._names = {
            each.name[:-1] if each.is_label else operands(each.rest)[0]
            for each in self._statements
            if each.is_label or (each.name in NAMING and each.rest.strip(" ,"))
        }
        self._directives = directives
        self._known: dict[str, Symbol] = {}
        self._counts: dict[str, int] = {}
        self._kept: dict[tuple[str, str], bytes] = {}
        self._looked = False
        self.current = self.section(".text", "ax")

    # ---- passes ----------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Assemble; `WireError` with the line for the first thing that is wrong."""
        for _ in range(MAX_PASSES):
            before = self._shape()
            self._pass()
            if not self.is_first and before == self._shape():
                return
            self.is_first = False
        raise WireError(f"sizes do not settle in {MAX_PASSES} passes: one depends on itself")

    def _shape(self) -> object:
        """What the bytes of the next pass depend on."""
        return dict(self.bases), {name: (each.section, each.value) for name, each in self.symbols.items()}

    def _pass(self) -> None:
        self._known = self.symbols
        self.sections, self.symbols, self.pieces = {}, {}, []
        self.attributes, self.conditions, self.before, self._counts = {}, [], [], {}
        self.current = self.section(".text", "ax")
        self.machine.begin(self)
        for number, statement in enumerate(self._statements):
            self.number = number
            try:
                self._take(statement)
            except WireError as error:
                raise error.at("line", statement.line, statement.text[:80]) from None
        if self.conditions:
            raise WireError("an .if without .endif")
        self.machine.finish(self)
        self.bases = self.machine.addresses(self)

    def _take(self, statement: Statement) -> None:
        name = statement.name
        if name in (".if", ".ifdef", ".ifndef", ".else", ".elseif", ".endif"):
            self._condition(statement)
        elif not all(self.conditions):
            return
        elif statement.is_label:
            self.define(name[:-1])
        elif self.machine.directive(self, statement):
            return
        elif name in self._directives:
            self._directives[name](self, statement)
        elif name.startswith(".") and name not in (".long", ".") and not name.startswith(".inst"):
            raise WireError(f"directive {name} is not known here{close_to(name, self._directives)}")
        else:
            self._instruction(statement)

    def _instruction(self, statement: Statement) -> None:
        key = self.machine.mode(), statement.text
        data = self._kept.get(key)
        if data is None:
            self._looked = False
            data = self.machine.instruction(self, statement)
            if not self._looked:
                self._kept[key] = data
        if not self.current.is_code:
            raise WireError(f"an instruction in section {self.current.name}, which holds no code")
        self.emit(data, statement)

    def _condition(self, statement: Statement) -> None:
        name, conditions = statement.name, self.conditions
        if name in (".else", ".elseif", ".endif") and not conditions:
            raise WireError(f"{name} without .if")
        if name == ".endif":
            conditions.pop()
        elif name == ".else":
            conditions[-1] = not conditions[-1]
        elif name == ".elseif":
            raise WireError("directive .elseif is not known here: write .else and .if")
        elif not all(conditions):
            conditions.append(False)
        elif name == ".if":
            conditions.append(bool(self.value(statement.rest).number))
        else:
            is_there = statement.rest in self.symbols
            conditions.append(is_there == (name == ".ifdef"))

    # ---- places ----------------------------------------------------------------------------------------------------

    def section(self, name: str, flags: str, is_empty: bool = False) -> Section:
        """The section of that name; a new one with these flags."""
        found = self.sections.get(name)
        if found is None:
            found = self.sections[name] = Section(name, flags, is_empty)
        return found

    def enter(self, section: Section) -> None:
        """What follows goes into this section."""
        self.before = [self.current.name]
        self.current = section

    def emit(self, data: bytes, statement: Statement) -> None:
        """Put bytes at the end of the current section."""
        section = self.current
        if section.is_empty:
            if data.count(0) != len(data):
                raise WireError(f"section {section.name} has no bytes, only zeros can stand there")
            self.reserve(len(data))
            return
        if section.size + len(data) > MAX_SECTION_BYTES:
            raise WireError(f"section {section.name} is larger than {MAX_SECTION_BYTES} bytes")
        self.pieces.append(Piece(statement, section.name, section.size, data))
        section.data += data
        section.size = len(section.data)

    def reserve(self, size: int) -> None:
        """Zeros at the end of a section that has no bytes."""
        if self.current.size + size > MAX_SECTION_BYTES:
            raise WireError(f"section {self.current.name} is larger than {MAX_SECTION_BYTES} bytes")
        self.current.size += size

    def align(self, alignment: int, statement: Statement, fill: bytes | None = None, most: int | None = None) -> None:
        """Go on at a multiple of `alignment` bytes, unless that is more than `most` bytes away."""
        section = self.current
        gap = align_up(section.size, alignment) - section.size
        section.alignment = max(section.alignment, alignment)
        if most is not None and gap > most:
            return
        if section.is_empty:
            self.reserve(gap)
        elif gap and fill is None and section.is_code:
            self.emit(self.machine.padding(gap), statement)
        elif gap:
            pattern = fill or b"\0"
            self.emit((pattern * (gap // len(pattern) + 1))[:gap], statement)

    # ---- symbols ---------------------------------------------------------------------------------------------------

    @property
    def pc(self) -> int:
        """Address of the next byte."""
        self._looked = True
        return self.bases.get(self.current.name, 0) + self.current.size

    def define(self, name: str) -> None:
        """A label here."""
        if name.isdigit():
            count = self._counts[name] = self._counts.get(name, 0) + 1
            name = f"{name}\0{count}"
        elif name in self.symbols:
            raise WireError(f"label {name} stands twice")
        self.symbols[name] = Symbol(name, self.current.name, self.current.size)

    def assign(self, name: str, value: Value) -> None:
        """A symbol that stands for a value, in place of an earlier one."""
        number = value.number - self.bases.get(value.section, 0) if value.section else value.number
        self.symbols[name] = Symbol(name, value.section, number, value.is_known)

    def attribute(self, name: str) -> Attributes:
        """What directives say of a symbol."""
        return self.attributes.setdefault(name, Attributes())

    def is_symbol(self, name: str) -> bool:
        """Whether the file defines a symbol, here or later."""
        return name in self._names

    @property
    def functions(self) -> Mapping[str, Function]:
        """See `expressions.Names`."""
        return self.machine.functions

    def value_of(self, name: str) -> Value:
        """See `expressions.Names`. A section's name is where it begins."""
        self._looked = True
        if name == ".":
            return Value(self.pc, self.current.name)
        local = _LOCAL.fullmatch(name)
        if local:
            name = f"{local[1]}\0{self._counts.get(local[1], 0) + (local[2] == 'f')}"
        found = self.symbols.get(name) or self._known.get(name)
        if found is None and name in self.sections:
            return Value(self.bases.get(name, 0), name)
        if found is None:
            if not self.current.is_loaded:  # debug information, which may tell of what a linker places
                return Value(0)
            if self.is_first:
                return Value(0, "", is_known=False)
            shown = local[0] if local else name
            near = [each for each in self._known if "\0" not in each]
            raise WireError(f"there is no symbol {shown!r} in this file{close_to(shown, near)}")
        if not found.section:
            return Value(found.value, "", found.is_known)
        return Value(self.bases.get(found.section, 0) + found.value, found.section, found.is_known)

    def value(self, text: str) -> Value:
        """The value of an expression."""
        return evaluate(text, self)

    def number_of(self, text: str, low: int, high: int, what: str = "a number") -> int:
        """The value of an expression from `low` to `high`; 0 where it is not known yet."""
        value = self.value(text)
        if not value.is_known:
            return max(low, 0)
        if not low <= value.number <= high:
            raise WireError(f"{what} is {value.number}, expected {low} to {high}")
        return value.number

    def address(self, name: str) -> int:
        """Address of a symbol at the end; `WireError` where there is none."""
        return self.value_of(name).number


class Directive(Protocol):
    """What a directive does."""

    def __call__(self, assembly: Assembly, statement: Statement) -> None:
        """Do it."""


def defined(assembly: Assembly) -> list[tuple[Symbol, Attributes]]:
    """The symbols that a linked file tells of, local ones first: not those of the assembler alone (.L, numbers)."""
    found = []
    for name, symbol in assembly.symbols.items():
        if "\0" in name or name.startswith(".L"):
            continue
        if symbol.section and not assembly.sections[symbol.section].is_loaded:
            continue
        found.append((replace(symbol), assembly.attributes.get(name, Attributes())))
    return sorted(found, key=lambda each: bool(each[1].binding))
