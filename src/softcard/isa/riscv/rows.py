"""Instruction tables: one entry (`Row`) defines encoding, decoding and assembly text of an instruction.

The operands of an entry are written as in assembly text, for example ``"rd, imm(rs1)"``. Words that name an
`Operand` are placeholders; all other text is literal. Text in square brackets is optional in the input."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from softcard.core.errors import ModelBug, WireError
from softcard.isa.pattern import Pattern, PatternTree

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Operand:
    """A placeholder in operand texts: the field whose value it represents, and its notation.

    - `show`, `read`: functions that format and parse the operand; both get the address of the instruction, or
      None if it is unknown; `read` raises `ValueError` for an invalid operand
    - `absent`: the value of an operand that is left out
    - `form`: a regular expression of valid texts"""

    field: str
    show: Callable[[int, int | None], str]
    read: Callable[[str, int | None], int]
    absent: int = 0
    form: str = r"[^,()]+"


@dataclass(frozen=True, slots=True)
class Row(Generic[T]):
    """One instruction: its mnemonic, bit pattern, operand text, and (`what`) data of the instruction set."""

    name: str
    pattern: Pattern
    operands: str
    what: T

    def __str__(self) -> str:
        return self.name


class InsnTable(Generic[T]):
    """A table of instructions of one width, which finds them by mnemonic or by instruction word.

    Overlapping patterns and repeated mnemonics raise an error.
    """

    def __init__(self, rows: Iterable[Row[T]], operands: Mapping[str, Operand]) -> None:
        self._rows: dict[str, Row[T]] = {}
        for row in rows:
            if row.name in self._rows:
                raise ModelBug(f"mnemonic {row.name} is declared twice")
            self._rows[row.name] = row
        self._operands = operands
        self._tree = PatternTree((row.pattern, row) for row in self._rows.values())
        self._readers: dict[str, re.Pattern[str]] = {}

    def __iter__(self) -> Iterator[Row[T]]:
        return iter(self._rows.values())

    def __len__(self) -> int:
        return len(self._rows)

    def __contains__(self, name: str) -> bool:
        return name in self._rows

    def __getitem__(self, name: str) -> Row[T]:
        """Return the table entry of a mnemonic; raise `WireError` for an unknown one."""
        try:
            return self._rows[name]
        except KeyError:
            raise WireError(f"unknown instruction {name!r}") from None

    def find(self, word: int) -> Row[T] | None:
        """Return the table entry whose pattern `word` matches, or None."""
        return self._tree.find(word)

    def encode(self, name: str, fields: Mapping[str, int]) -> int:
        """Return the word of the instruction `name` with the given field values (missing ones are 0)."""
        return self[name].pattern.encode(fields)

    def text(self, row: Row[T], word: int, pc: int | None = None) -> str:
        """Return the operands of `word` as assembly text without blanks, in the notation of `row`."""
        values = row.pattern.decode(word)

        def shown(word: re.Match[str]) -> str:
            operand = self._operands.get(word[0])
            return operand.show(values[operand.field], pc) if operand else word[0]

        def optional(part: re.Match[str]) -> str:
            text = _WORD.sub(shown, part[1])
            return text if text.strip(",") else ""

        return _WORD.sub(shown, _OPTIONAL.sub(optional, re.sub(r"\s", "", row.operands)))

    def read(self, row: Row[T], text: str, pc: int | None = None) -> dict[str, int]:
        """Parse the operand text of an instruction and return its fields; raise `WireError` for an invalid text."""
        if row.name not in self._readers:
            self._readers[row.name] = self._reader(row.operands)
        parts = self._readers[row.name].fullmatch(re.sub(r"\s", "", text))
        if parts is None:
            takes = f"needs operands {row.operands!r}" if row.operands else "takes no operands"
            raise WireError(f"{row.name} {takes}, not {text.strip()!r}")
        values = {}
        for name, given in parts.groupdict().items():
            operand = self._operands[name]
            try:
                values[operand.field] = operand.absent if given is None else operand.read(given, pc)
            except ValueError:
                text = f"{row.name}: {given!r} is not valid for operand {name}"
                raise WireError(text).in_operand(given) from None
        return values

    def _reader(self, operands: str) -> re.Pattern[str]:
        text = re.escape(re.sub(r"\s", "", operands)).replace(r"\[", "(?:").replace(r"\]", ")?")

        def group(word: re.Match[str]) -> str:
            operand = self._operands.get(word[0])
            return f"(?P<{word[0]}>{operand.form})" if operand else word[0]

        return re.compile(_WORD.sub(group, text))


_OPTIONAL = re.compile(r"\[(.*?)\]")
_WORD = re.compile(r"[A-Za-z_]\w*")
