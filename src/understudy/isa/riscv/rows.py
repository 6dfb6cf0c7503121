"""Instruction tables: a row declared once gives encoding, decoding, assembly text and the assembler.

The operands of a row are written as they stand in assembly text, ``"rd, imm(rs1)"``: words that `Operand`s are known
for are replaced, everything else stands for itself; a part in square brackets may be left out by the writer.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from understudy.core.errors import ModelBug, WireError
from understudy.isa.pattern import Pattern, PatternTree

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Operand:
    """One word of an operand text: the field it shows, and how.

    `show` and `read` get the address of the instruction, or None where that is unknown; `read` raises `ValueError`
    for what is no such operand. `absent` is the value of an operand that was left out, `form` a regular expression
    for what may stand there.
    """

    field: str
    show: Callable[[int, int | None], str]
    read: Callable[[str, int | None], int]
    absent: int = 0
    form: str = r"[^,()]+"


@dataclass(frozen=True, slots=True)
class Row(Generic[T]):
    """One instruction: its mnemonic, bits, operand text, and whatever the instruction set ties to it."""

    name: str
    pattern: Pattern
    operands: str
    what: T

    def __str__(self) -> str:
        return self.name


class InsnTable(Generic[T]):
    """Rows of one width by mnemonic and by word. Overlapping patterns and repeated mnemonics are refused."""

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
        """The row of a mnemonic; `WireError` where there is none."""
        try:
            return self._rows[name]
        except KeyError:
            raise WireError(f"no instruction {name!r}") from None

    def find(self, word: int) -> Row[T] | None:
        """The row that `word` is of, if one."""
        return self._tree.find(word)

    def encode(self, name: str, fields: Mapping[str, int]) -> int:
        """The word of `name` with these fields (0 where not given)."""
        return self[name].pattern.encode(fields)

    def text(self, row: Row[T], word: int, pc: int | None = None) -> str:
        """The operands of `word`, as the row's operand text arranges them, without blanks."""
        values = row.pattern.decode(word)

        def shown(word: re.Match[str]) -> str:
            operand = self._operands.get(word[0])
            return operand.show(values[operand.field], pc) if operand else word[0]

        def optional(part: re.Match[str]) -> str:
            text = _WORD.sub(shown, part[1])
            return text if text.strip(",") else ""

        return _WORD.sub(shown, _OPTIONAL.sub(optional, re.sub(r"\s", "", row.operands)))

    def read(self, row: Row[T], text: str, pc: int | None = None) -> dict[str, int]:
        """The fields that an operand text gives; `WireError` where it is not of the row's form."""
        if row.name not in self._readers:
            self._readers[row.name] = self._reader(row.operands)
        parts = self._readers[row.name].fullmatch(re.sub(r"\s", "", text))
        if parts is None:
            raise WireError(f"{row.name} needs operands {row.operands or '(none)'!r}, not {text.strip()!r}")
        values = {}
        for name, given in parts.groupdict().items():
            operand = self._operands[name]
            try:
                values[operand.field] = operand.absent if given is None else operand.read(given, pc)
            except ValueError:
                raise WireError(f"{row.name}: {given!r} is no {name}") from None
        return values

    def _reader(self, operands: str) -> re.Pattern[str]:
        text = re.escape(re.sub(r"\s", "", operands)).replace(r"\[", "(?:").replace(r"\]", ")?")

        def group(word: re.Match[str]) -> str:
            operand = self._operands.get(word[0])
            return f"(?P<{word[0]}>{operand.form})" if operand else word[0]

        return re.compile(_WORD.sub(group, text))


_OPTIONAL = re.compile(r"\[(.*?)\]")
_WORD = re.compile(r"[A-Za-z_]\w*")
