"""What the lanes of a chunk have in common where the check of races looks at accesses: asked once for all of them.

Accesses of a strip often differ by a constant only: of one array in LDS, or the two halves of ds_read2_b32.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from understudy.engine.gcn.jit.emit_contiguous import Addresses
from understudy.engine.gcn.races.codes import LINE, LINE_BITS, LINE_LANES
from understudy.ir.builder import LaneText, Value


@dataclass(frozen=True, slots=True)
class Access:
    """One by a chunk of lanes; `lanes`: which of them, as bits of a word. What else there is: see `native_look`.

    `every` has those lanes which would be all, but for the `bound` that addresses in LDS may have to lie below.
    """

    kind: str
    space: str
    bits: int
    address: Value
    lanes: str
    every: Value
    bound: Value | None
    number: int
    hint: str
    key: str
    what: int
    hint_at: int
    insn: int
    """Where its hint is behind the wave's row; its key but for where code lies. Both differ as `hint` and `key` do."""


@dataclass(slots=True)
class Family:
    """Accesses by the same lanes, at addresses that differ by constants: `low` to `high` behind `first`."""

    example: Access
    first: str
    low: int
    high: int
    every: str = ""
    row: str = ""
    side: str = ""
    same: str = ""


@dataclass(frozen=True, slots=True)
class Shape:
    """Names of what an access is: the first lane's address, and whether all lanes take part.

    Whether those that do access dwords side by side; whether all access a line so, and its number; whether those that
    take part load the same dwords. Empty where that is not asked.
    """

    address: str = ""
    every: str = ""
    row: str = ""
    side: str = ""
    same: str = ""
    line: str = ""


@dataclass(frozen=True, slots=True)
class Batch:
    """Loads at constants behind an address; names of whether each is one of a line by all lanes, or of one dword."""

    accesses: tuple[Access, ...]
    first: str
    offsets: tuple[int, ...]
    side: str
    same: str


WORTH: Final = 4
"""Loads of a family that are looked at together."""


class Shapes:
    """What `accesses` have in common: asked where all of their addresses are known."""

    def __init__(self, text: LaneText, addresses: Addresses, accesses: Sequence[Access]) -> None:
        self.text = text
        self.addresses = addresses
        self._accesses = accesses
        self._members: list[tuple[Family, int]] = []
        self._known: dict[tuple[int, str, int], str] = {}
        families = dict[tuple[str, str, str, str, int], Family]()
        for access in accesses:
            base, first, offset = addresses.apart(access.address)
            bound = "" if access.bound is None else _formula(text, access.bound)
            key = access.space, base, text.bits(access.every, True), bound, access.bits
            found = families.setdefault(key, Family(access, first, offset, offset))
            found.low, found.high = min(found.low, offset), max(found.high, offset)
            self._members.append((found, offset))
        for found in families.values():
            self._ask(found)

    def shape(self, number: int) -> Shape:
        """Of one of the accesses; what several share is known from the first one on."""
        family, offset = self._members[number]
        text = self.text
        address = text.let(f"add i64 {family.first}, {offset}") if offset else family.first
        side = self._aligned(family, "side", offset, LINE) if family.side else ""
        same = self._aligned(family, "same", offset, 4) if family.same else ""
        return Shape(address, family.every, family.row, side, same, self._line(family, offset) if side else "")

    def batches(self) -> Iterator[Batch]:
        """Loads of dwords of one family, and what they are if they are one of these: see `Batch`."""
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
        text = self.text
        family, offsets = self._members[numbers[0]][0], [self._members[number][1] for number in numbers]
        side = self._aligned(family, "side", offsets[0], LINE) if len({each % LINE for each in offsets}) == 1 else ""
        same = ""
        if len({each % 4 for each in offsets}) == 1:
            same = text.let(f"and i1 {self._aligned(family, 'same', offsets[0], 4)}, {family.every}")
        return Batch(tuple(self._accesses[number] for number in numbers), family.first, tuple(offsets), side, same)

    def _line(self, family: Family, offset: int) -> str:
        key = id(family), "line", offset % LINE
        if key not in self._known:
            start = self.text.let(f"add i64 {family.first}, {offset % LINE}")
            self._known[key] = self.text.let(f"lshr i64 {start}, {LINE_BITS}")
        return self.text.let(f"add i64 {self._known[key]}, {offset >> LINE_BITS}")

    def _ask(self, family: Family) -> None:
        text, access = self.text, family.example
        address, lanes = access.address, text.lanes
        mask = text.bits(access.every, True)
        bits = text.let(f"bitcast <{lanes} x i1> {mask} to i{lanes}")
        family.every = text.let(f"icmp eq i{lanes} {bits}, -1")
        start = self.addresses.first(address)
        if address.w == 32:
            family.first = text.let(f"zext i32 {family.first} to i64")
        if lanes == LINE_LANES and access.bits <= 32:
            family.row = self.addresses.side_by_side(address, start, access.bits // 8)
        if lanes == LINE_LANES and access.bits == 32:
            family.side = self._inside(family, text.let(f"and i1 {family.row}, {family.every}"), LINE)
        if access.kind == "load":
            differing = self.addresses.differing(address, start)
            wrong = text.let(f"and <{lanes} x i1> {differing}, {mask}")
            some = text.let(f"bitcast <{lanes} x i1> {wrong} to i{lanes}")
            none, is_any = text.let(f"icmp eq i{lanes} {some}, 0"), text.let(f"icmp ne i{lanes} {bits}, 0")
            family.same = self._inside(family, text.let(f"and i1 {none}, {is_any}"), access.bits // 8)

    def _inside(self, family: Family, condition: str, size: int) -> str:
        """A condition, and that all accesses of a family lie in LDS as a whole, if it is that."""
        if family.example.space != "lds":
            return condition
        text = self.text
        end = text.let(f"add i64 {family.first}, {family.high + size}")
        inside = text.let(f"icmp ule i64 {end}, %ldssize")
        if family.example.bound is not None:
            bound = text.let(f"zext i32 {text.bits(family.example.bound)} to i64")
            inside = text.let(f"and i1 {inside}, {text.let(f'icmp ule i64 {end}, {bound}')}")
        if family.low < 0:
            behind = text.let(f"icmp uge i64 {family.first}, {-family.low}")
            inside = text.let(f"and i1 {inside}, {behind}")
        return text.let(f"and i1 {condition}, {inside}")

    def _aligned(self, family: Family, name: str, offset: int, size: int) -> str:
        key = id(family), name, offset % size
        if key not in self._known:
            text = self.text
            start = text.let(f"add i64 {family.first}, {offset % size}")
            is_aligned = text.let(f"icmp eq i64 {text.let(f'and i64 {start}, {size - 1}')}, 0")
            self._known[key] = text.let(f"and i1 {getattr(family, name)}, {is_aligned}")
        return self._known[key]


def _formula(text: LaneText, value: Value) -> str:
    """How a scalar was made: what was made alike is the same in one strip."""
    if value.number is not None or value.made is None:
        return text.bits(value)
    word, a, b = value.made
    return f"{word}({_formula(text, a)},{_formula(text, b)})"
