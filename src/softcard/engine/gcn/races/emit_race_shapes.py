"""The emitter of tests for the address patterns of a lane vector's accesses, for the race check.

The addresses of several accesses of a strip-mined loop often differ only by a constant. Examples are accesses
to one array in LDS, and the two halves of ds_read2_b32. Such accesses share one test."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from softcard.engine.gcn.jit.emit.emit_contiguous import Addresses
from softcard.engine.gcn.races.layout import LINE, LINE_BITS, LINE_LANES
from softcard.ir.builder import LaneText, Value
from softcard.ir.operand import Operand


@dataclass(frozen=True, slots=True)
class Access:
    """An access by a lane vector. `lanes` is the bit mask of the lanes that make it.

    `every` has a bit for each lane; the access can have a regular pattern only if all of these bits are set. In
    LDS, lanes whose address is not below `bound` make no access; `every` ignores that. `number`, `cache`, `key`
    and `what` are parameters of `native_check.check_vector`."""

    kind: str
    space: str
    bits: int
    address: Value
    lanes: Operand
    every: Value
    bound: Value | None
    number: int
    cache: Operand
    key: Operand
    what: int
    cache_at: int
    insn: int
    """The access's key minus the code's address. `cache_at` is the offset of its inline shadow cache.

    The differences of these numbers between accesses equal the differences of `key` and `cache`.
    """
    values: Sequence[Value]
    """The dwords that each lane stores; empty for loads."""


@dataclass(slots=True)
class Family:
    """A family of accesses: the same lanes make them, and their addresses differ by constants.

    The first lane's addresses are `first` plus offsets from `low` to `high`."""

    example: Access
    first: Operand
    low: int
    high: int
    every: Operand
    row: Operand | None = None
    side: Operand | None = None
    same: Operand | None = None


@dataclass(frozen=True, slots=True)
class Shape:
    """The address pattern of an access, as names of LLVM values.

    - `address`: the first lane's address.
    - `every`: the condition that all lanes take part.
    - `row`: the condition that lanes access consecutive elements.
    - `side`: the condition that all lanes access the dwords of a line in order; `line` is its number.
    - `same`: the condition that the lanes that take part load the same dwords.

    A condition that is not tested is None.
    """

    address: Operand
    every: Operand
    row: Operand | None = None
    side: Operand | None = None
    same: Operand | None = None
    line: Operand | None = None


@dataclass(frozen=True, slots=True)
class Batch:
    """Loads that are checked together. Their addresses are one address plus constant offsets.

    `side` is the condition that all lanes load the dwords of a line in order, in each load. `same` is the
    condition that all lanes load one dword, in each load."""

    accesses: tuple[Access, ...]
    first: Operand
    offsets: tuple[int, ...]
    side: Operand | None
    same: Operand | None


WORTH: Final = 4
"""The minimum number of loads of a family for which a common check is emitted."""


class Shapes:
    """The emitter of address pattern tests of `accesses`; it is used when all of their addresses are known."""

    def __init__(self, text: LaneText, addresses: Addresses, accesses: Sequence[Access]) -> None:
        self.text = text
        self.addresses = addresses
        self._accesses = accesses
        self._members: list[tuple[Family, int]] = []
        self._known: dict[tuple[int, str, int], Operand] = {}
        families = dict[tuple[str, str, str, str, int], Family]()
        for access in accesses:
            base, first, offset = addresses.apart(access.address)
            bound = "" if access.bound is None else _formula(text, access.bound)
            key = access.space, base, text.bits(access.every, True), bound, access.bits
            found = families.setdefault(key, Family(access, first, offset, offset, text.constant("i1", 0)))
            found.low, found.high = min(found.low, offset), max(found.high, offset)
            self._members.append((found, offset))
        for found in families.values():
            self._test_shape(found)

    def shape(self, number: int) -> Shape:
        """Return the address pattern of access `number`.

        Tests that several accesses share are emitted for the first of them.
        """
        family, offset = self._members[number]
        address = family.first + offset if offset else family.first
        side = self._aligned(family, "side", family.side, offset, LINE)
        same = self._aligned(family, "same", family.same, offset, 4)
        return Shape(
            address, family.every, family.row, side, same, None if side is None else self._line(family, offset)
        )

    def batches(self) -> Iterator[Batch]:
        """Yield batches of dword loads of one family, with their conditions: see `Batch`."""
        families: dict[int, list[int]] = {}
        for number, access in enumerate(self._accesses):
            if access.kind == "load" and access.bits == 32 and self.text.lanes == LINE_LANES:
                families.setdefault(id(self._members[number][0]), []).append(number)
        for numbers in families.values():
            for start in range(0, len(numbers), LINE_LANES):
                some = numbers[start : start + LINE_LANES]
                if len(some) >= WORTH:
                    yield self._batch(some)

    def _batch(self, numbers: list[int]) -> Batch:
        family, offsets = self._members[numbers[0]][0], [self._members[number][1] for number in numbers]
        side = same = None
        if len({each % LINE for each in offsets}) == 1:
            side = self._aligned(family, "side", family.side, offsets[0], LINE)
        if len({each % 4 for each in offsets}) == 1:
            same = self._aligned(family, "same", family.same, offsets[0], 4)
            same = None if same is None else same & family.every
        return Batch(tuple(self._accesses[number] for number in numbers), family.first, tuple(offsets), side, same)

    def _line(self, family: Family, offset: int) -> Operand:
        key = id(family), "line", offset % LINE
        if key not in self._known:
            start = family.first + offset % LINE
            self._known[key] = start >> LINE_BITS
        return self._known[key] + (offset >> LINE_BITS)

    def _test_shape(self, family: Family) -> None:
        text, access = self.text, family.example
        address, lanes = access.address, text.lanes
        mask = text.bits(access.every, True)
        bits = mask.bitcast(f"i{lanes}")
        family.every = bits.eq(-1)
        start = self.addresses.first(address)
        if address.w == 32:
            family.first = family.first.zext("i64")
        if lanes == LINE_LANES and access.bits <= 32:
            family.row = self.addresses.side_by_side(address, start, access.bits // 8)
        if family.row is not None and access.bits == 32:
            family.side = self._inside(family, family.row & family.every, LINE)
        if access.kind == "load":
            differing = self.addresses.differing(address, start)
            wrong = differing & mask
            some = wrong.bitcast(f"i{lanes}")
            none, is_any = some.eq(0), bits.ne(0)
            family.same = self._inside(family, none & is_any, access.bits // 8)

    def _inside(self, family: Family, condition: Operand, size: int) -> Operand:
        """Return an i1: `condition`; for LDS, also that all accesses of the family lie within the work-group's LDS."""
        if family.example.space != "lds":
            return condition
        text = self.text
        end = family.first + (family.high + size)
        inside = end <= text.word("%ldssize")
        if family.example.bound is not None:
            bound = text.bits(family.example.bound).zext("i64")
            inside = inside & (end <= bound)
        if family.low < 0:
            is_after = family.first >= -family.low
            inside = inside & is_after
        return condition & inside

    def _aligned(self, family: Family, name: str, shape: Operand | None, offset: int, size: int) -> Operand | None:
        if shape is None:
            return None
        key = id(family), name, offset % size
        if key not in self._known:
            start = family.first + offset % size
            is_aligned = (start & size - 1).eq(0)
            self._known[key] = shape & is_aligned
        return self._known[key]


def _formula(text: LaneText, value: Value) -> str:
    """Return a scalar value's formula as a key: equal keys mean equal values in one strip-mined loop."""
    if value.number is not None or value.made is None:
        return text.bits(value)
    word, a, b = value.made
    return f"{word}({_formula(text, a)},{_formula(text, b)})"
