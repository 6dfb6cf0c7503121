"""Assembly of one file: sections, symbols, and passes over the source until all addresses are final.

The result is linked directly, without an object file. Each pass assembles the whole file with the addresses that the
previous pass computed. When a pass ends with the addresses with which it began, its bytes are final.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Protocol

from softcard.core.errors import WireError, close_to
from softcard.core.words import align_up
from softcard.image.assembly.expressions import Function, Value, evaluate
from softcard.image.assembly.source import Statement, Syntax, operands, statements

MAX_BYTES: Final = 1 << 28
"""The largest total size in bytes of the sections of a file."""
MAX_CONDITIONS: Final = 256
"""The deepest nesting of ``.if`` blocks that is accepted."""
MAX_PASSES: Final = 64
"""The largest number of passes over a file.

Sizes converge in fewer passes unless an expression depends on its own size.
"""
NAMING: Final = (".set", ".equ", ".equiv", ".comm", ".lcomm")
"""The directives whose first operand is the name of the symbol that they define."""
_LOCAL: Final = re.compile(r"(\d+)([bf])")


@dataclass(slots=True)
class Section:
    """A section that the assembler is filling. `flags` are the letters of ``.section``.

    `is_empty` is True for a section without bytes in the file (.bss).
    """

    name: str
    flags: str
    is_empty: bool = False
    alignment: int = 1
    data: bytearray = field(default_factory=bytearray)
    size: int = 0

    @property
    def is_loaded(self) -> bool:
        """True if a program loads the section into memory."""
        return "a" in self.flags

    @property
    def is_code(self) -> bool:
        """True if the section holds instructions."""
        return "x" in self.flags


@dataclass(slots=True)
class Symbol:
    """A symbol of an assembly file.

    `value` is an offset from the start of the section `section`, or a plain number if `section` is "".
    """

    name: str
    section: str
    value: int
    is_known: bool = True


@dataclass(slots=True)
class Attributes:
    """The attributes of a symbol that directives set: STB_, STT_ and STV_ numbers, and its size.

    The directives may stand before or after the symbol's definition.
    """

    binding: int = 0
    kind: int = 0
    visibility: int = 0
    size: int = 0


class Machine(Protocol):
    """The interface of a target of the assembler: an instruction set, and the file format of its programs."""

    syntax: Syntax
    align_is_power: bool
    """True if the operand of ``.align`` is a power of two: ``.align 3`` aligns to 8 bytes."""

    @property
    def functions(self) -> Mapping[str, Function]:
        """The functions that expressions may call, by name."""

    def begin(self, assembly: Assembly) -> None:
        """Reset the machine's state at the start of a pass over the source."""

    def mode(self) -> str:
        """Return the part of the machine's state that affects the encoding of instructions, as text."""

    def instruction(self, assembly: Assembly, statement: Statement) -> bytes:
        """Return the machine code of a statement; raise `WireError` if it is not an instruction of this machine."""

    def directive(self, assembly: Assembly, statement: Statement) -> bool:
        """Execute a directive of this machine; return False if the machine does not know it."""

    def absolute(self, assembly: Assembly, offset: int, address: int, size: int) -> None:
        """Record that `size` bytes at `offset` of the current section hold the address `address`."""

    def padding(self, size: int) -> bytes:
        """Return `size` bytes that fill a gap between instructions."""

    def finish(self, assembly: Assembly) -> None:
        """Append sections that the source does not contain, at the end of a pass."""

    def addresses(self, assembly: Assembly) -> Mapping[str, int]:
        """Return the address of each loaded section, by its name."""


@dataclass(frozen=True, slots=True)
class Piece:
    """The bytes that a statement has appended to a section."""

    statement: Statement
    section: str
    offset: int
    data: bytes = field(repr=False)


class Assembly:
    """The state of the assembler for one file. `assemble` creates it."""

    def __init__(self, machine: Machine, source: str, directives: Mapping[str, Directive]) -> None:
        self.machine = machine
        self.sections: dict[str, Section] = {}
        self.symbols: dict[str, Symbol] = {}
        self.attributes: dict[str, Attributes] = {}
        self.pieces: list[Piece] = []
        self.conditions: list[bool] = []
        """The conditions of the ``.if`` blocks around the current statement, outermost first."""
        self.before: list[str] = []
        """The stack of sections to which ``.popsection`` and ``.previous`` return."""
        self.grown: dict[int, int] = {}
        """The sizes of statements whose length varies, by statement number.

        A statement never becomes shorter in a later pass, so that sizes converge.
        """
        self.number = 0
        """The number of the current statement, counted from 0."""
        self.bases: Mapping[str, int] = {}
        """The section addresses that the previous pass computed."""
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
        self._files: dict[tuple[str, str], bytes] = {}
        self._was_read = False
        self._bytes = 0
        self.current = self.section(".text", "ax")

    # ---- passes ----------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Assemble the file; raise `WireError` with the line of the first error."""
        for _ in range(MAX_PASSES):
            before = self._shape()
            self._pass()
            if not self.is_first and before == self._shape():
                return
            self.is_first = False
        raise WireError(f"the sizes of sections do not converge in {MAX_PASSES} passes: one size depends on itself")

    def _shape(self) -> object:
        """Return the section addresses and symbol values of this pass.

        If a pass gives the same result as the pass before it, its bytes are final."""
        return dict(self.bases), {name: (each.section, each.value) for name, each in self.symbols.items()}

    def _pass(self) -> None:
        self._known = self.symbols
        self.sections, self.symbols, self.pieces = {}, {}, []
        self.attributes, self.conditions, self.before, self._counts = {}, [], [], {}
        self._bytes = 0
        self.current = self.section(".text", "ax")
        self.machine.begin(self)
        for number, statement in enumerate(self._statements):
            self.number = number
            try:
                self._take(statement)
            except WireError as error:
                # The mistake may be in an earlier statement of a block, which has located the error already.
                if any(place.kind == "line" and place.what for place in error.path):
                    raise
                raise statement.locate(error) from None
        if self.conditions:
            raise WireError("an .if has no .endif")
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
            raise WireError(f"unknown directive {name}{close_to(name, self._directives)}")
        else:
            self._instruction(statement)

    def _instruction(self, statement: Statement) -> None:
        key = self.machine.mode(), statement.text
        data = self._files.get(key)
        if data is None:
            self._was_read = False
            data = self.machine.instruction(self, statement)
            if not self._was_read:
                self._files[key] = data
        if not self.current.is_code:
            raise WireError(f"an instruction stands in section {self.current.name}, which cannot hold code")
        self.emit(data, statement)

    def _condition(self, statement: Statement) -> None:
        name, conditions = statement.name, self.conditions
        if name in (".else", ".elseif", ".endif") and not conditions:
            raise WireError(f"{name} has no .if before it")
        if name == ".endif":
            conditions.pop()
        elif name == ".else":
            conditions[-1] = not conditions[-1]
        elif name == ".elseif":
            raise WireError("directive .elseif is not supported: write .else and .if")
        elif len(conditions) == MAX_CONDITIONS:
            raise WireError(f"conditions nest more than {MAX_CONDITIONS} deep")
        elif not all(conditions):
            conditions.append(False)
        elif name == ".if":
            conditions.append(bool(self.value(statement.rest).number))
        else:
            is_there = statement.rest in self.symbols
            conditions.append(is_there == (name == ".ifdef"))

    # ---- sections --------------------------------------------------------------------------------------------------

    def section(self, name: str, flags: str, is_empty: bool = False) -> Section:
        """Return the section of that name; a new section gets `flags` and `is_empty`."""
        found = self.sections.get(name)
        if found is None:
            found = self.sections[name] = Section(name, flags, is_empty)
        return found

    def enter(self, section: Section) -> None:
        """Make `section` the current section."""
        self.before = [self.current.name]
        self.current = section

    def emit(self, data: bytes, statement: Statement) -> None:
        """Append bytes, which `statement` has produced, to the current section."""
        section = self.current
        if section.is_empty:
            if data.count(0) != len(data):
                raise WireError(f"section {section.name} has no bytes in the file, expected only zeros in it")
            self.reserve(len(data))
            return
        self._count(len(data))
        self.pieces.append(Piece(statement, section.name, section.size, data))
        section.data += data
        section.size = len(section.data)

    def reserve(self, size: int) -> None:
        """Extend the current section, which has no bytes in the file (.bss), by `size` bytes."""
        self._count(size)
        self.current.size += size

    def _count(self, size: int) -> None:
        """Add `size` to the number of bytes of the file; raise `WireError` if it exceeds the limit."""
        self._bytes += size
        if self._bytes > MAX_BYTES:
            raise WireError(
                f"section {self.current.name} gets {size} bytes more: all sections together would be larger than "
                f"{MAX_BYTES} bytes"
            )

    def align(self, alignment: int, statement: Statement, fill: bytes | None = None, most: int | None = None) -> None:
        """Pad the current section to a multiple of `alignment` bytes.

        The gap is filled with repetitions of `fill`; without `fill`, it is filled with instructions in code, and
        with zeros in other sections. If the gap is larger than `most` bytes, nothing is added."""
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
        """The address of the next byte of the current section."""
        self._was_read = True
        return self.bases.get(self.current.name, 0) + self.current.size

    def define(self, name: str) -> None:
        """Define a label at the current position."""
        if name.isdigit():
            count = self._counts[name] = self._counts.get(name, 0) + 1
            name = f"{name}\0{count}"
        elif name in self.symbols:
            raise WireError(f"label {name} is defined twice")
        self.symbols[name] = Symbol(name, self.current.name, self.current.size)

    def assign(self, name: str, value: Value) -> None:
        """Set a symbol to a value; an earlier value is replaced."""
        number = value.number - self.bases.get(value.section, 0) if value.section else value.number
        self.symbols[name] = Symbol(name, value.section, number, value.is_known)

    def attribute(self, name: str) -> Attributes:
        """Return the attributes of the symbol `name`, which a directive may change."""
        return self.attributes.setdefault(name, Attributes())

    def is_symbol(self, name: str) -> bool:
        """Return True if the file defines the symbol `name`, before or after the current statement."""
        return name in self._names

    @property
    def functions(self) -> Mapping[str, Function]:
        """The functions that expressions may call; see `expressions.Names`."""
        return self.machine.functions

    def value_of(self, name: str) -> Value:
        """Return the value of a symbol, or the start address of the section `name`; see `expressions.Names`."""
        self._was_read = True
        if name == ".":
            return Value(self.pc, self.current.name)
        local = _LOCAL.fullmatch(name)
        if local:
            name = f"{local[1]}\0{self._counts.get(local[1], 0) + (local[2] == 'f')}"
        found = self.symbols.get(name) or self._known.get(name)
        if found is None and name in self.sections:
            return Value(self.bases.get(name, 0), name)
        if found is None:
            if not self.current.is_loaded:  # debug information may refer to symbols of a linker
                return Value(0)
            if self.is_first:
                return Value(0, "", is_known=False)
            shown = local[0] if local else name
            near = [each for each in self._known if "\0" not in each]
            raise WireError(f"there is no symbol {shown!r} in this file{close_to(shown, near)}").in_operand(shown)
        if not found.section:
            return Value(found.value, "", found.is_known)
        return Value(self.bases.get(found.section, 0) + found.value, found.section, found.is_known)

    def value(self, text: str) -> Value:
        """Return the value of an expression."""
        try:
            return evaluate(text, self)
        except WireError as error:
            raise error.in_operand(text.strip()) from None

    def number_of(self, text: str, low: int, high: int, what: str = "a number") -> int:
        """Return the value of an expression; 0 if it is unknown in this pass, since a symbol has no address yet.

        Raise `WireError` if the value is not from `low` to `high`; `what` describes the number in errors."""
        value = self.value(text)
        if not value.is_known:
            return max(low, 0)
        if not low <= value.number <= high:
            raise WireError(f"{what} is {value.number}, expected {low} to {high}").in_operand(text.strip())
        return value.number

    def address(self, name: str) -> int:
        """Return the final address of a symbol; raise `WireError` if the file does not define it."""
        return self.value_of(name).number


class Directive(Protocol):
    """The type of a function that executes an assembler directive."""

    def __call__(self, assembly: Assembly, statement: Statement) -> None:
        """Execute the directive in `statement`, for example by appending bytes to the current section of `assembly`."""


def defined(assembly: Assembly) -> list[tuple[Symbol, Attributes]]:
    """Return the symbols of an assembled file with their attributes, local symbols first.

    Symbols that only the assembler uses (names with .L, and numeric labels), and those of sections that are not loaded,
    are left out.
    """
    found = []
    for name, symbol in assembly.symbols.items():
        if "\0" in name or name.startswith(".L"):
            continue
        if symbol.section and not assembly.sections[symbol.section].is_loaded:
            continue
        found.append((replace(symbol), assembly.attributes.get(name, Attributes())))
    return sorted(found, key=lambda each: bool(each[1].binding))
