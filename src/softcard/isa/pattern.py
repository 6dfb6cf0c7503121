"""Bit patterns of instructions, written as the manuals print them.

A pattern lists fixed bits and bit ranges of fields, from the most significant bit to the least, separated by
spaces::

    imm[12|10:5] rs2 rs1 000 imm[4:1|11] 1100011

==================  =====================================================================================
``0`` ``1`` ``-``   a fixed bit; a bit that decoding ignores and encoding sets to 0
``rs1``             a whole field, whose `Kind` has its width
``imm[12|10:5]``    some bits of a field, highest position first: bit 12, then bits 10 to 5
``rd!=0``           a field that never has this value; ``rd!={0,2}`` for several
==================  =====================================================================================

A `Pattern` tests whether a word matches, decodes the fields of a word, encodes fields to a word, and tests
whether another pattern could match the same word. A `PatternTree` finds the pattern that a word matches, and
raises an error if two of its patterns overlap."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from softcard.core.errors import ModelBug, WireError


@dataclass(frozen=True, slots=True)
class Kind:
    """The meaning of a name in a pattern: the field that it stands for, and the properties of that field.

    - `field`: the name of the field
    - `width`: its number of bits, used if the pattern does not list bits
    - `signed`: True if the field is sign-extended
    - `bias`: a number that is added to the encoded number
    - `never`: values that the field may not have
    """

    field: str
    width: int = 0
    signed: bool = False
    bias: int = 0
    never: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Piece:
    """A range of `width` adjacent bits: from bit `low` of the field and from bit `at` of the instruction word."""

    low: int
    at: int
    width: int


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a pattern, with all the bit ranges that hold it."""

    name: str
    pieces: tuple[Piece, ...]
    signed: bool = False
    bias: int = 0
    never: tuple[int, ...] = ()
    mask: int = 0
    sign: int = 0

    @property
    def is_plain(self) -> bool:
        """True if the field is one bit range that holds the field's value unchanged."""
        return len(self.pieces) == 1 and not (self.pieces[0].low or self.sign or self.bias)

    def get(self, word: int) -> int:
        """Return the value of this field in `word`."""
        value = 0
        for piece in self.pieces:
            value |= (word >> piece.at & (1 << piece.width) - 1) << piece.low
        return (value ^ self.sign) - self.sign + self.bias

    def put(self, value: int) -> int:
        """Return an instruction word in which this field has `value` and all other bits are 0.

        `WireError` is raised for a value that the field cannot have.
        """
        raw = value - self.bias
        word = 0
        for piece in self.pieces:
            word |= (raw >> piece.low & (1 << piece.width) - 1) << piece.at
        if self.get(word) != value:
            text = f"{self.name} = {value} cannot be encoded, {self.range_text()}"
            raise WireError(text).in_operand(str(value))
        if value in self.never:
            raise WireError(f"{self.name} = {value} is reserved in this encoding").in_operand(str(value))
        return word

    def range_text(self) -> str:
        """Return a description of the values that this field can have, for messages."""
        top = max(piece.low + piece.width for piece in self.pieces)
        step = 1 << min(piece.low for piece in self.pieces)
        low, high = (-(1 << top - 1), (1 << top - 1) - step) if self.signed else (0, (1 << top) - step)
        return f"expected a value from {low + self.bias} to {high + self.bias}" + (
            f" in steps of {step}" if step > 1 else ""
        )


@dataclass(frozen=True, slots=True)
class Pattern:
    """A parsed bit pattern of an instruction; create one with `Pattern.parse`."""

    text: str
    width: int
    mask: int
    match: int
    fields: tuple[Field, ...]
    limited: tuple[Field, ...] = field(default=(), repr=False)
    plain: tuple[tuple[str, int, int], ...] = field(default=(), repr=False)
    """The name, position and mask of each field that is a single bit range; `composed` has the other fields."""
    composed: tuple[Field, ...] = field(default=(), repr=False)

    @classmethod
    def parse(cls, text: str, width: int, kinds: Mapping[str, Kind]) -> Pattern:
        """Parse the text of a pattern for words of `width` bits.

        An invalid text is a bug of Softcard and raises `ModelBug`.
        """
        at, mask, match = width, 0, 0
        found: dict[str, _PatternBuilder] = {}
        for token in text.split():
            if set(token) <= set("01-"):
                at -= len(token)
                mask |= int(re.sub("[01]", "1", token).replace("-", "0"), 2) << at if at >= 0 else 0
                match |= int(token.replace("-", "0"), 2) << at if at >= 0 else 0
            else:
                at = _take_field(token, at, kinds, found, text)
        if at != 0:
            raise ModelBug(f"pattern {text!r} has {width - at} bits, expected {width}")
        fields = tuple(builder.finish() for builder in found.values())
        plain = tuple((f.name, f.pieces[0].at, (1 << f.pieces[0].width) - 1) for f in fields if f.is_plain)
        composed = tuple(f for f in fields if not f.is_plain)
        return cls(text, width, mask, match, fields, tuple(f for f in fields if f.never), plain, composed)

    def matches(self, word: int) -> bool:
        """Return True if the fixed bits and the field values of `word` agree with this pattern."""
        return word & self.mask == self.match and not any(f.get(word) in f.never for f in self.limited)

    def decode(self, word: int) -> dict[str, int]:
        """Return the values of all fields of `word`, which must match the pattern."""
        values = {name: word >> at & mask for name, at, mask in self.plain}
        for f in self.composed:
            values[f.name] = f.get(word)
        return values

    def encode(self, values: Mapping[str, int]) -> int:
        """Return the word with the given field values; missing fields are 0.

        `WireError` is raised for unknown fields and invalid values.
        """
        word = self.match
        names = {f.name for f in self.fields}
        for name in values:
            if name not in names:
                raise WireError(f"unknown field {name}, expected {', '.join(sorted(names)) or 'none'}")
        for f in self.fields:
            word |= f.put(values.get(f.name, f.bias))
        return word

    def overlaps(self, other: Pattern) -> bool:
        """Return True if some word matches both patterns."""
        if (self.match ^ other.match) & self.mask & other.mask:
            return False
        mask, match = self.mask | other.mask, self.match | other.match
        decided = (f for f in (*self.limited, *other.limited) if f.mask & ~mask == 0)
        return not any(f.get(match) in f.never for f in decided)


@dataclass(slots=True)
class _PatternBuilder:
    kind: Kind
    pieces: list[Piece] = field(default_factory=list)
    never: set[int] = field(default_factory=set)

    def finish(self) -> Field:
        top = max(piece.low + piece.width for piece in self.pieces)
        mask = sum((1 << piece.width) - 1 << piece.at for piece in self.pieces)
        sign = 1 << top - 1 if self.kind.signed else 0
        never = tuple(sorted({*self.kind.never, *self.never}))
        return Field(self.kind.field, tuple(self.pieces), self.kind.signed, self.kind.bias, never, mask, sign)


_FIELD = re.compile(r"(?P<name>[A-Za-z_]\w*'?)(\[(?P<bits>[\d:|]+)\])?(!=(\{(?P<set>[\d,]+)\}|(?P<one>\d+)))?")


def _take_field(token: str, at: int, kinds: Mapping[str, Kind], found: dict[str, _PatternBuilder], text: str) -> int:
    """Add the bit ranges of the field `token`, whose most significant bit is bit `at` - 1, to `found`.

    Return the number of bits below the field, which is `at` for the next token."""
    parts = _FIELD.fullmatch(token)
    if parts is None or parts["name"] not in kinds:
        raise ModelBug(f"pattern {text!r}: {token!r} must be bits or a known field")
    kind = kinds[parts["name"]]
    if not (parts["bits"] or kind.width):
        raise ModelBug(f"pattern {text!r}: the bits of {token!r} must be given")
    builder = found.setdefault(kind.field, _PatternBuilder(kind))
    for span in (parts["bits"] or f"{kind.width - 1}:0").split("|"):
        high, _, low = span.partition(":")
        width = int(high) - int(low or high) + 1
        at -= width
        builder.pieces.append(Piece(int(low or high), at, width))
    builder.never.update(int(value) for value in (parts["set"] or parts["one"] or "").split(",") if value)
    return at


T = TypeVar("T")


@dataclass(slots=True)
class _Node(Generic[T]):
    """An inner node of the tree. Words with the same bits under `mask` share a branch.

    `rows` are the patterns (with their items) that are tried in order at this node.
    """

    mask: int
    branches: dict[int, _Node[T]]
    rows: Sequence[tuple[Pattern, T]]


class PatternTree(Generic[T]):
    """A search tree that finds the pattern that a word matches; patterns that overlap are an error."""

    def __init__(self, rows: Iterable[tuple[Pattern, T]]) -> None:
        rows = tuple(rows)
        for pattern, what in rows[1:]:
            first, what_else = rows[0]
            if pattern.width != first.width:
                raise ModelBug(
                    f"{what} has {pattern.width} bits, but {what_else} {first.width}: all patterns of a table must "
                    "have the same width"
                )
        self._root = _grow(rows, 0)

    def find(self, word: int) -> T | None:
        """Return the item of the pattern that `word` matches, or None."""
        node: _Node[T] | None = self._root
        while node is not None:
            if not node.mask:
                return next((what for pattern, what in node.rows if pattern.matches(word)), None)
            node = node.branches.get(word & node.mask)
        return None


def _grow(rows: Sequence[tuple[Pattern, T]], used: int) -> _Node[T]:
    """Build a subtree that branches on those bits that all its patterns fix.

    `used` is the mask of the bits that the nodes above have tested."""
    common = ~used
    for pattern, _ in rows:
        common &= pattern.mask
    if len(rows) < 2 or not common:
        _check_disjoint(rows)
        return _Node(0, {}, rows)
    groups: dict[int, list[tuple[Pattern, T]]] = {}
    for pattern, what in rows:
        groups.setdefault(pattern.match & common, []).append((pattern, what))
    return _Node(common, {match: _grow(group, used | common) for match, group in groups.items()}, ())


def _check_disjoint(rows: Sequence[tuple[Pattern, T]]) -> None:
    """Raise an error if one word can match two of the patterns.

    Patterns in different branches of the tree need no check, since they differ in a fixed bit."""
    for index, (pattern, what) in enumerate(rows):
        for other, what_else in rows[:index]:
            if pattern.overlaps(other):
                raise ModelBug(
                    f"{what} ({pattern.text}) and {what_else} ({other.text}) must differ in a fixed bit: "
                    f"the word {pattern.match | other.match:#x} matches both"
                )
