"""What the lanes of a chunk have in common where the check of races looks at accesses: asked once for all of them.

Accesses of a strip often differ by a constant only: of one array in LDS, or the two halves of ds_read2_b32.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from understudy.engine.gcn.jit.emit_contiguous import Addresses
from understudy.engine.gcn.races.codes import LINE, LINE_BITS, LINE_LANES
from understudy.ir.builder import LaneText, Value


@dataclass(frozen=True, slots=True)
class Access:
    """One by a chunk of lanes; `lanes`: which of them, as bits of a word. What else there is: see `native_look`."""

    kind: str
    space: str
    bits: int
    address: Value
    mask: Value
    lanes: str
    number: int
    hint: str
    key: str
    what: int


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


class Shapes:
    """What `accesses` have in common: asked where all of their addresses are known."""

    def __init__(self, text: LaneText, addresses: Addresses, accesses: Sequence[Access]) -> None:
        self.text = text
        self.addresses = addresses
        self._members: list[tuple[Family, int]] = []
        self._known: dict[tuple[int, str, int], str] = {}
        families = dict[tuple[str, str, str, int], Family]()
        for access in accesses:
            base, first, offset = addresses.apart(access.address)
            key = access.space, base, text.bits(access.mask, True), access.bits
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

    def _line(self, family: Family, offset: int) -> str:
        key = id(family), "line", offset % LINE
        if key not in self._known:
            start = self.text.let(f"add i64 {family.first}, {offset % LINE}")
            self._known[key] = self.text.let(f"lshr i64 {start}, {LINE_BITS}")
        return self.text.let(f"add i64 {self._known[key]}, {offset >> LINE_BITS}")

    def _ask(self, family: Family) -> None:
        text, access = self.text, family.example
        address, lanes = access.address, text.lanes
        family.every = text.let(f"icmp eq i64 {access.lanes}, {(1 << lanes) - 1}")
        start = self.addresses.first(address)
        if address.w == 32:
            family.first = text.let(f"zext i32 {family.first} to i64")
        if access.bits == 32 and lanes == LINE_LANES:
            family.row = self.addresses.side_by_side(address, start, 4)
            family.side = self._inside(family, text.let(f"and i1 {family.row}, {family.every}"), LINE)
        if access.kind == "load":
            differing = self.addresses.differing(address, start)
            wrong = text.let(f"and <{lanes} x i1> {differing}, {text.bits(access.mask, True)}")
            some = text.let(f"bitcast <{lanes} x i1> {wrong} to i{lanes}")
            none, is_any = text.let(f"icmp eq i{lanes} {some}, 0"), text.let(f"icmp ne i64 {access.lanes}, 0")
            family.same = self._inside(family, text.let(f"and i1 {none}, {is_any}"), access.bits // 8)

    def _inside(self, family: Family, condition: str, size: int) -> str:
        """A condition, and that all accesses of a family lie in LDS as a whole, if it is that."""
        if family.example.space != "lds":
            return condition
        text = self.text
        end = text.let(f"add i64 {family.first}, {family.high + size}")
        inside = text.let(f"icmp ule i64 {end}, %ldssize")
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
