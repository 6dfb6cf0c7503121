"""Accesses by lanes of one wave, held against each other as if each lane went on alone: the check `lanes`.

A wave's lanes act together, so machine code has an order where its source has none: another compiler, a wider wave or a
processor of another kind does not keep it. In order are what one lane does, what a barrier lies between, and what comes
before and behind an atomic that releases and gives what it found: it included, since the last lane knows that it is.
Stores are plain ones, also those of one lane, which between waves may be atomic.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from understudy.engine.gcn.races.cells import ALSO_LOADED, LOADED, ROWS, STORED, UPDATED, Places
from understudy.engine.gcn.races.events import AGAINST, returns
from understudy.engine.gcn.races.telling import ATOMIC, LANES_OF_WAVE, LOAD, STORE, Party, Telling
from understudy.isa.gcn.insn import Insn

ROW: Final = {STORE: STORED, ATOMIC: UPDATED}


@dataclass(frozen=True, slots=True)
class Access:
    """What one instruction does. `is_coherent`: a load past the caches: it and atomics may meet."""

    insn: Insn
    access: str
    is_coherent: bool


class Entry(NamedTuple):
    """Who touched a byte; `value`: what was stored."""

    lane: int
    access: Access
    value: int | None


Cells = defaultdict[tuple[str, int], list[Entry | None]]


@dataclass(slots=True, eq=False)
class Stretch:
    """What lanes of a wave of a group have touched since its last barrier, as bytes by space."""

    group: tuple[int, int, int]
    generation: int
    cells: Cells = field(default_factory=lambda: defaultdict(lambda: [None] * ROWS))


class LaneOrder:
    """Looks at the accesses of waves. `equal_stores`: lanes that store the same are told of, too."""

    def __init__(self, telling: Telling, *, equal_stores: bool) -> None:
        self.telling = telling
        self.equal_stores = equal_stores
        self._stretches: dict[int, Stretch] = {}
        """By numbers of waves; of one work-group, since one runs after the other."""

    def look(
        self,
        wave: Any,
        of: tuple[int, tuple[int, int, int]],
        insn: Insn,
        access: str,
        space: str,
        addresses: Places,
        size: int,
        lanes: list[int],
        values: list[bytes],
        *,
        releases: bool,
    ) -> None:
        """Accesses of `size` bytes at each address, by those lanes; `of`: the wave's number and its work-group.

        `values`: what is stored, for each lane. `releases`: whether an atomic does.
        """
        stretch = self._stretch(wave, of[1])
        mine = Access(insn, access, access == LOAD and bool(insn.get("glc")))
        met: dict[int, tuple[Entry, int, set[int]]] = {}
        """By instruction: the first entry that is in the way, where, and whose way."""
        places = list(zip(addresses.tolist(), lanes, values or [b""] * len(lanes), strict=True))
        for address, lane, value in places:
            for offset in range(size):
                cell = stretch.cells[space, address + offset]
                entry = Entry(lane, mine, value[offset] if value else None)
                other = self._in_the_way(entry, cell)
                if other is not None:
                    met.setdefault(id(other.access), (other, address, set()))[2].add(lane)
                if access == STORE:  # one lane after the other: who is last decides
                    self._touch(cell, entry)
        if releases and access == ATOMIC and returns(insn):
            stretch.cells.clear()
        elif access != STORE:
            for address, lane, _ in places:
                for offset in range(size):
                    self._touch(stretch.cells[space, address + offset], Entry(lane, mine, None))
        for other, address, who in met.values():
            self.telling.tell(
                Party(insn, access, *of, tuple(sorted(who))),
                Party(other.access.insn, other.access.access, *of, (other.lane,)),
                LANES_OF_WAVE, space, address, size, len(who),
            )  # fmt: skip

    def _stretch(self, wave: Any, group: tuple[int, int, int]) -> Stretch:
        """That of a wave; a barrier begins a new one."""
        found = self._stretches.get(wave.uid)
        if found is None or found.generation != wave.generation:
            if found is None and any(each.group != group for each in self._stretches.values()):
                self._stretches.clear()
            found = self._stretches[wave.uid] = Stretch(group, wave.generation)
        return found

    def _in_the_way(self, entry: Entry, cell: list[Entry | None]) -> Entry | None:
        """The first of other lanes' accesses of a byte that this one may not meet."""
        for row in AGAINST[entry.access.access]:
            other = cell[row]
            if other is None or other.lane == entry.lane or _are_atomic(entry.access, other.access):
                continue
            is_equal = entry.value is not None and entry.value == other.value
            if not is_equal or self.equal_stores:
                return other
        return None

    def _touch(self, cell: list[Entry | None], entry: Entry) -> None:
        """Have a byte's cell know of an access: of loads it keeps two, by different lanes."""
        access = entry.access.access
        if access != LOAD:
            cell[ROW[access]] = entry
            return
        first = cell[LOADED]
        if first is None or first.lane == entry.lane:
            cell[LOADED] = entry
        else:
            cell[ALSO_LOADED] = entry


def _are_atomic(one: Access, other: Access) -> bool:
    """Whether one is atomic, and the other is or may be."""
    return ATOMIC in (one.access, other.access) and all(
        each.access == ATOMIC or each.is_coherent for each in (one, other)
    )
