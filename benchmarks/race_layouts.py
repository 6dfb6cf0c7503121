"""The cost of two layouts of shadow memory for races: words in planes (harts) and cells in page tables (waves).

One access of four harts (RefSi M1) is checked and recorded in three layouts, by the rule that waves and harts share
(`engine.races.clocks`): 32-bit words in one plane for stores and one for each hart's loads, as the check of harts has
them; the same planes with 64-bit words; and 64-bit cells in tables of pages with four rows, by the functions of the
check of waves. Accesses are ordered, as those of a correct kernel. Peer: the 32-bit words in planes.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Final

from harness import Row, Samples, alternate, cpu, main
from softcard.core.space import Ram
from softcard.engine.gcn.races.layout import GLOBAL, LINE_LANES, LOADED, PAGE_BITS, ROWS, STORED, UID_AT, Race
from softcard.engine.gcn.races.native_cells import dword_at, line_at, page_of
from softcard.engine.gcn.races.tables import Tables
from softcard.engine.races.clocks import is_settled
from softcard.ir.native import U32, U64, Natives, inlined, layout, native

QUESTION: Final = "race_layouts"
TITLE: Final = "Races: layouts of shadow memory"
HARTS: Final = 4
BASE: Final = 1 << 30
"""The guest address of the accessed memory."""
SKEW: Final = 192
"""The padding between planes, as `engine.riscv.races` has it."""
SCATTERED: Final = 0x9E37_79B1
"""The step between scattered accesses, in dwords: an odd number, so that each dword is accessed once."""
ACCESSES: Final = 1 << 20


@layout
class Stream(ctypes.Structure):
    """Accesses of one hart: `count` dwords from `first` on, each `step` dwords after the last one, modulo `mask` + 1.

    `stores` is the distance from an address to its word in the plane of stores (or in that of a hart's loads `own`
    bytes later), and `stride` the distance between planes; `race` is the state with the tables of pages. `agent` is
    the hart's number in records, with the mask `bits`. `record` is the record of these accesses.
    """

    first: int
    mask: int
    step: int
    count: int
    is_load: int
    stores: int
    own: int
    stride: int
    race: int
    watermark: int
    agent: int
    bits: int
    record: int


@inlined
def is_bad(stream: Stream, word: int) -> int:
    """Return 1 if an access races with the recorded one."""
    return is_settled(word, stream.watermark, stream.agent, stream.bits) == 0


@native
def planes32(stream: Stream) -> int:
    """Check and record accesses in planes of 32-bit words; return 1 if any races."""
    wrong, at, record = 0, 0, stream.record
    for _access in range(stream.count):
        cell = stream.stores + 4 * at
        wrong = wrong | is_bad(stream, U32[cell])
        if stream.is_load:
            U32[cell + stream.own] = record
        else:
            other = cell
            for _hart in range(HARTS):
                other += stream.stride
                wrong = wrong | is_bad(stream, U32[other])
            U32[cell] = record
        at = at + stream.step & stream.mask
    return wrong


@native
def planes64(stream: Stream) -> int:
    """Check and record accesses in planes of 64-bit words; return 1 if any races."""
    wrong, at, record = 0, 0, stream.record
    for _access in range(stream.count):
        cell = stream.stores + 8 * at
        wrong = wrong | is_bad(stream, U64[cell])
        if stream.is_load:
            U64[cell + stream.own] = record
        else:
            other = cell
            for _hart in range(HARTS):
                other += stream.stride
                wrong = wrong | is_bad(stream, U64[other])
            U64[cell] = record
        at = at + stream.step & stream.mask
    return wrong


@inlined
def dword_cell(page: int, address: int, row: int) -> int:
    """Return the host address of the cell of a dword whose line has cells of its dwords."""
    return U64[line_at(page, address, row)] + 8 * (address >> 2 & LINE_LANES - 1)


@native
def pages64(stream: Stream) -> int:
    """Check and record accesses in tables of pages with 64-bit cells; return 1 if any races."""
    race = Race.from_address(stream.race)
    wrong, at, record, known, page = 0, 0, stream.record, 0, 0
    for _access in range(stream.count):
        address = stream.first + 4 * at
        if address >> PAGE_BITS != known:
            known, page = address >> PAGE_BITS, page_of(race, address, GLOBAL)
        for row in range(2):
            wrong = wrong | is_bad(stream, U64[dword_cell(page, address, row)])
        if stream.is_load:
            U64[dword_cell(page, address, LOADED)] = record
        else:
            for row in range(LOADED, ROWS):
                wrong = wrong | is_bad(stream, U64[dword_cell(page, address, row)])
            U64[dword_cell(page, address, STORED)] = record
        at = at + stream.step & stream.mask
    return wrong


@native
def expand(stream: Stream) -> int:
    """Give each accessed dword cells of its own in the tables of pages; return 1 if memory for them is used up."""
    race = Race.from_address(stream.race)
    for at in range(stream.mask + 1):
        address = stream.first + 4 * at
        page = page_of(race, address, GLOBAL)
        for row in range(ROWS):
            if not dword_at(race, page, address, row):
                return 1
    return 0


@cache
def natives() -> Natives:
    """The compiled functions."""
    return Natives(planes32, planes64, pages64, expand)


@dataclass(frozen=True, slots=True)
class Pattern:
    """The accesses of one row: to `dwords` dwords, in order or scattered."""

    what: str
    dwords: int
    step: int


PATTERNS: Final = (
    Pattern("64 KiB in order", 1 << 14, 1),
    Pattern("4 MiB in order", 1 << 20, 1),
    Pattern("4 MiB scattered", 1 << 20, SCATTERED),
)


class Side:
    """The accesses of a pattern in one layout."""

    def __init__(self, name: str, pattern: Pattern, is_load: bool) -> None:
        self.function = natives().function(name)
        self.stream = stream = Stream()
        stream.first, stream.mask, stream.step, stream.count = BASE, pattern.dwords - 1, pattern.step, ACCESSES
        stream.is_load = is_load
        if name == "pages64":
            self.tables = Tables()
            stream.race, self.bytes = ctypes.addressof(self.tables.race), 0
            before = self.tables.race.free
            assert not natives().function("expand")(ctypes.addressof(stream))
            self.bytes = self.tables.race.free - before
            stream.agent, stream.bits, stream.watermark = 65 << UID_AT, (1 << 64) - (1 << UID_AT), 64 << UID_AT
        else:
            width = 4 if name == "planes32" else 8
            stream.stride = width * pattern.dwords + SKEW
            self.planes = Ram((HARTS + 1) * stream.stride)
            stream.stores, stream.own, self.bytes = self.planes.base_host, stream.stride, self.planes.size
            stream.agent, stream.bits, stream.watermark = 0, HARTS - 1 << 4, 1 << 7
        stream.record = stream.agent | stream.watermark

    def run(self) -> float:
        """Make all accesses; return the CPU seconds."""
        return cpu(self._make)

    def _make(self) -> None:
        assert not self.function(ctypes.addressof(self.stream)), "the accesses of one agent are ordered"


def row(what: str, samples: Samples, peer: Samples | None) -> Row:
    """The row of one layout, in nanoseconds for each access."""
    best, typical = (1e9 * seconds / ACCESSES for seconds in (samples.best, samples.median))
    name, known = ("", None) if peer is None else ("planes32", 1e9 * peer.best / ACCESSES)
    return Row(QUESTION, what, "ns", best, typical, peer_name=name, peer=known, lower=True)


def measure(quick: bool = False) -> list[Row]:
    """All rows."""
    found = []
    for pattern in PATTERNS:
        for kind, is_load in (("loads", True), ("stores", False)):
            sides = {name: Side(name, pattern, is_load) for name in ("planes32", "planes64", "pages64")}
            runs: list[Callable[[], float]] = [side.run for side in sides.values()]
            samples = alternate(5 if quick else 30, *runs)
            for (name, side), each in zip(sides.items(), samples, strict=True):
                size = side.bytes / (4 * pattern.dwords)
                what = f"{kind}, {pattern.what}, {name}, {size:.1f} bytes of shadow memory for a byte"
                found.append(row(what, each, None if name == "planes32" else samples[0]))
    return found


if __name__ == "__main__":
    main(measure, TITLE)
