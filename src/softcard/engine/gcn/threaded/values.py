"""The extraction of record contents from the words of many instructions at a time.

Function addresses in records are not covered.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import Final

import numpy as np
import numpy.typing as npt

from softcard.engine.gcn.jit import layout
from softcard.engine.gcn.threaded.kind import ACCUMULATOR, SHIFTS, Part
from softcard.engine.gcn.threaded.records import Handler
from softcard.engine.gcn.threaded.rows import Numbers
from softcard.isa.gcn.encoding import operands
from softcard.isa.gcn.semantics import source
from softcard.isa.gcn.state import ACC_AT, LANES, SGPR_AT, WORDS_AT

Words = npt.NDArray[np.uint64]

CODES: Final = 768
"""The number of different operand codes."""
ALL_ONES: Final = (1 << 64) - 1
NUMBER, LITERAL, CONSTANT = 0, 1, 2
"""The sources of a record field's value.

They are bits of the instruction word, its literal, and the constant of an operand code.
"""
CONSTANT_TYPES: Final = ("b32", "f16", "b64", "i64", "f64", "g64", *SHIFTS)
"""One representative of each set of operand types whose constants and literals have the same values."""
PART_COLUMNS: Final = 14
CACHE_COLUMNS: Final = 2


@dataclass(frozen=True, slots=True)
class Getter:
    """The computation of a record field's value from instruction words: it extracts bits and converts them.

    `pieces` has one or two triples: the left shift, the position, and the width of the bits. Positions from 64 on are
    those of the third and fourth word.
    """

    part: Part
    pieces: tuple[tuple[int, int, int], ...]
    sign: int = 0
    scale: int = 1
    base: int = 0
    is_literal: bool = False

    def row(self, place: int) -> tuple[int, ...]:
        """Return the getter as a table row (see `values_of`), for a field at byte offset `place` of its record."""
        bits: list[int] = []
        for low, at, width in (*self.pieces, (0, 0, 0), (0, 0, 0))[:2]:
            bits += [at, (1 << width) - 1, low]
        keep, times, plus, how, table = ALL_ONES, 1, 0, NUMBER, 0
        if self.is_literal:
            how = LITERAL
        elif self.part.role == "v":
            keep, times = 0xFF, 4 * LANES
            plus = ACC_AT if self.part.type == ACCUMULATOR else 0
        elif self.part.role == "s":
            times, plus = 4 * self.scale, SGPR_AT + 4 * self.base
        elif self.part.role == "k" or self.part.type in SHIFTS:
            how, table = CONSTANT, _type_number(self.part.type)
        return place, self.part.size, *bits, keep, self.sign, times, plus, how, table


def two_words(words: Words, literals: Words, at: Words) -> Words:
    """Return the two words with bit `at` of each instruction: `literals` has the third and fourth word."""
    return np.where(at < 64, words, literals) if (at >= 64).any() else words


def values_of(rows: Words, words: Words, literals: Words) -> Words:
    """Return the values of record fields.

    For each field, `rows` has the row that `Getter.row` returned, `words` the instruction's word, and `literals`
    its literal. If `rows` is a single row, it applies to all words."""
    found: Words
    _, _, at, mask, low, at2, mask2, low2, keep, sign, times, plus, how, table = rows.T
    raw = (two_words(words, literals, at) >> (at & 63) & mask) << low | (words >> at2 & mask2) << low2
    found = ((raw & keep ^ sign) - sign) * times + plus
    if how.any():
        how, table = (np.broadcast_to(each, words.shape) for each in (how, table))
        here = np.flatnonzero(how)
        found[here] = _constants(how[here] == LITERAL, table[here], raw[here], literals[here])
    return found


def _constants(is_literal: npt.NDArray[np.bool_], types: Words, codes: Words, literals: Words) -> Words:
    """Return the values of operands that are literals or constants.

    `types` are operand types, as numbers in `CONSTANT_TYPES`, and `codes` the operand codes; see `source.literal`.
    """
    is_code = ~is_literal & (codes != operands.LITERAL)
    signed = literals.astype(np.uint32).astype(np.int32).astype(np.int64).view(np.uint64)
    wide = np.where(types == _type_number("f64"), literals << np.uint64(32), literals)
    found = np.where(is_literal, literals, np.where(types == _type_number("i64"), signed, wide))
    return np.where(is_code, _inline()[types, np.where(is_code, codes, 0)], found)


@cache
def _type_number(type_: str) -> int:
    """Return the number in `CONSTANT_TYPES` of the type whose constants have the same values as those of `type_`."""
    if type_ in ("f16", "h16"):
        return CONSTANT_TYPES.index("f16")
    if type_ in SHIFTS:
        return CONSTANT_TYPES.index(type_)
    if source.width(type_) < 64:
        return CONSTANT_TYPES.index("b32")
    if type_ in operands.PACKED_PAIRS:
        return CONSTANT_TYPES.index("g64")
    return CONSTANT_TYPES.index(type_ if type_ in CONSTANT_TYPES else "b64")


@cache
def _inline() -> Words:
    """Return the table of the values of inline constants, by type and operand code.

    The table also has the shift of each SDWA source selection, by type of selection and number."""
    table = np.zeros((len(CONSTANT_TYPES), CODES), np.uint64)
    for code in (*range(operands.INLINE_FIRST, operands.INLINE_LAST + 1), *operands.FLOATS):
        for number, type_ in enumerate(CONSTANT_TYPES):
            if type_ not in SHIFTS:
                table[number, code] = source.inline(code, type_) & ALL_ONES
    for type_, numbers in SHIFTS.items():
        table[CONSTANT_TYPES.index(type_), : len(numbers)] = numbers
    return table


# ---- records ---------------------------------------------------------------------------------------------------------
def part_rows(getters: Iterable[Getter], handler: Handler) -> list[tuple[int, ...]]:
    """Return the table rows of the fields of a handler's records."""
    return [getter.row(place) for getter, place in zip(getters, handler.places, strict=True)]


def cache_rows(handler: Handler) -> list[tuple[int, ...]]:
    """Return the table rows of the inline caches in a handler's records: their offsets and kinds."""
    return [(place, CACHE_KINDS.index(kind)) for kind, place in handler.caches]


def fill_parts(records: Words, at: Numbers, rows: Words, words: Words, literals: Words) -> None:
    """Write one operand field in each of the records that begin at the byte offsets `at`.

    For each record, `rows` has the field's row, `words` the instruction's word, and `literals` its literal. If
    `rows` is a single row, it applies to all records."""
    values, halves = values_of(rows, words, literals), records.view(np.uint32)
    place, size = rows.T[:2]
    here = at + place.astype(np.int64) >> 2
    halves[here] = values.astype(np.uint32)
    if (size == 8).any():
        wide = np.flatnonzero(np.broadcast_to(size == 8, here.shape))
        halves[here[wide] + 1] = (values[wide] >> np.uint64(32)).astype(np.uint32)


def fill_caches(records: Words, at: Numbers, rows: Words, rank: int = 0) -> None:
    """Assign inline caches to the records that begin at the byte offsets `at`.

    The first inline cache has the number `rank`. Records share inline caches only if there are too few of them."""
    for number, kind in enumerate(CACHE_KINDS):
        here = np.flatnonzero(rows[:, 1] == number)
        if len(here):
            count = layout.INLINE_CACHES[kind]
            before = sum(many for other, many in layout.INLINE_CACHES.items() if other < kind)
            chosen = before + (rank + np.arange(len(here))) % count
            places = at[here] + rows[here, 0].astype(np.int64) >> 3
            records[places] = WORDS_AT + 8 * (layout.INLINE_CACHE + layout.INLINE_CACHE_WORDS * chosen)


CACHE_KINDS: Final = tuple(layout.INLINE_CACHES)
