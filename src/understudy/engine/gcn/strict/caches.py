"""The memory of an agent as its waves see it when everything takes its time: stores on their way and two cache levels.

A store leaves its wave, arrives at the second level some time (`SecondLevel`, one for the agent), and from there comes
to memory when a release fence at system scope writes it back. Memory whose type is not cached (`Mtype.is_cached`) has
no second level: what arrives is in memory. Each compute unit has a first level (`Unit`) that keeps lines of any memory.
Lines leave by fences and invalidations only, which is the worst that can happen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final, TypeVar

from understudy.core.order import Prng
from understudy.core.snapshot import Stateful
from understudy.engine.gcn.memory import GpuMemory, Mapped, Plain
from understudy.engine.gcn.memory_type import Mtype
from understudy.engine.gcn.strict.findings import STORED, Host, Place
from understudy.engine.gcn.strict.level import LINE, Line, SecondLevel, line_of, pieces, runs

LUCK: Final = 32
"""A waiting store arrives by itself at one in so many instructions."""

NONE, AGENT, SYSTEM = range(3)
"""Scopes of fences."""
SCOPES: Final = ("none", "agent", "system")


@dataclass(slots=True, eq=False)
class UnitLine(Stateful):
    """A line of the first level."""

    STATE = ("data",)

    mapping: Mapped | None
    data: bytearray
    is_volatile: bool


L = TypeVar("L", Line, UnitLine)


@dataclass(slots=True, eq=False)
class Unit(Stateful):
    """A compute unit: lines by number."""

    STATE = ("lines",)

    lines: dict[int, UnitLine] = field(default_factory=dict)

    def invalidate(self, everything: bool) -> None:
        """Drop all lines, or those of volatile memory."""
        self.lines = {} if everything else {n: line for n, line in self.lines.items() if not line.is_volatile}


@dataclass(slots=True, eq=False)
class Store:
    """What a wave (of a compute unit) has stored; `uncached` where it passes the second level by."""

    owner: int
    unit: Unit
    address: int
    data: bytes
    place: Place
    uncached: bool = False

    def meets(self, address: int, size: int) -> bool:
        """Whether it is about some of these bytes."""
        return self.address < address + size and address < self.address + len(self.data)

    def precedes(self, later: Store) -> bool:
        """Whether it must arrive before a later one."""
        return self.unit is later.unit and self.meets(later.address, len(later.data))

    def overlay(self, address: int, data: bytearray) -> None:
        """Put it on what memory holds from `address` on."""
        low, high = max(self.address, address), min(self.address + len(self.data), address + len(data))
        if low < high:
            data[low - address : high - address] = self.data[low - self.address : high - self.address]


class System:
    """Agents that share memory, at the same addresses: who stored each dword last, and the caches of all."""

    def __init__(self) -> None:
        self.last: dict[int, Store] = {}
        self.caches: list[Caches] = []

    def newest(self, memory: GpuMemory, address: int, size: int) -> bytes:
        """What memory would hold if every store had arrived there."""
        data = bytearray(memory.read(address, size))
        for caches in self.caches:
            caches.second.overlay(address, data)
        for caches in self.caches:
            for store in caches.waiting:
                store.overlay(address, data)
        return bytes(data)


class Caches(Stateful):
    """The caches of an agent, and the stores on their way. They outlive packets."""

    STATE = ("units", "second", "waiting", "last", "_chance")

    def __init__(self, memory: GpuMemory, units: int, seed: int, system: System) -> None:
        self.memory = memory
        self.units = tuple(Unit() for _ in range(units))
        self.second = SecondLevel(memory)
        self.waiting: list[Store] = []
        self.system = system
        self.last = system.last
        system.caches.append(self)
        self._chance = Prng(seed)
        self._version = memory.version

    # ---- fences ----------------------------------------------------------------------------------------------------
    def acquire(self, scope: int) -> None:
        """What a packet's acquire fence does."""
        if scope >= AGENT:
            for unit in self.units:
                unit.invalidate(True)
        if scope >= SYSTEM:
            self.second.invalidate()

    def release(self, scope: int) -> None:
        """What a packet's release fence does; without one, only what passes the second level by arrives."""
        self.arrive(lambda store: scope >= AGENT or self.second.is_passed(store.address, store.uncached))
        if scope >= SYSTEM:
            self.second.write_back()

    def purge(self) -> None:
        """Forget what was cached of memory that is no longer there."""
        if self._version == self.memory.version:
            return
        self._version = self.memory.version
        for unit in self.units:
            unit.lines = _there(self.memory, unit.lines)
        self.second.lines = _there(self.memory, self.second.lines)
        self.waiting = [store for store in self.waiting if self.memory.find(store.address) is not None]

    # ---- stores ----------------------------------------------------------------------------------------------------
    def issue(self, store: Store) -> None:
        """A store leaves its wave: its own cache sees it at once, others when it arrives."""
        self.waiting.append(store)
        self.remember(store)
        for number in range(store.address // LINE, (store.address + len(store.data) - 1) // LINE + 1):
            line = store.unit.lines.get(number)
            if line is not None:
                store.overlay(number * LINE, line.data)

    def remember(self, store: Store) -> None:
        """It is the last one to its dwords."""
        for at in range(store.address & ~3, store.address + len(store.data), 4):
            self.last[at] = store

    def arrive(self, wanted: Callable[[Store], bool]) -> None:
        """Stores that `wanted` picks arrive, after those before them of the same compute unit to the same places."""
        left: list[Store] = []
        picked: list[Store] = []
        for store in reversed(self.waiting):
            comes = wanted(store) or any(store.precedes(each) for each in picked)
            (picked if comes else left).append(store)
        for store in reversed(picked):
            self.second.write(store.address, store.data, store.uncached)
        self.waiting = left[::-1]

    def chance(self) -> None:
        """Now and then a store arrives, not always the oldest."""
        if self.waiting and self._chance.below(LUCK) == 0:
            self._lucky(self.waiting)

    def delays(self, owner: int) -> bool:
        """One of an owner's stores arrives, whichever; whether there are more."""
        mine = [store for store in self.waiting if store.owner == owner]
        if mine:
            self._lucky(mine)
        return any(store.owner == owner for store in self.waiting)

    def _lucky(self, some: list[Store]) -> None:
        lucky = some[self._chance.below(len(some))]
        self.arrive(lambda store: store is lucky)

    def settle(self, unit: Unit, address: int, size: int) -> None:
        """Stores of a compute unit to a place arrive, and its lines there are dropped: it goes to the second level."""
        self.arrive(lambda store: store.unit is unit and store.meets(address, size))
        for number in range(address // LINE, (address + size - 1) // LINE + 1):
            unit.lines.pop(number, None)

    # ---- loads -----------------------------------------------------------------------------------------------------
    def read(self, unit: Unit, address: int, size: int, bypass: bool, uncached: bool) -> tuple[bytes, bytes]:
        """What a load gets, and what it would get if every store had arrived everywhere."""
        if not isinstance(self.memory.find(address), Plain):
            self.settle(unit, address, size)
            data = self.memory.read(address, size)
            return data, data
        now = self.system.newest(self.memory, address, size)
        if bypass:
            self.settle(unit, address, size)
            return self.second.read(address, size, uncached), now
        parts = []
        for number, at, count in pieces(address, size):
            parts.append(bytes(self._line(unit, number, at, uncached).data[at % LINE : at % LINE + count]))
        return b"".join(parts), now

    def _line(self, unit: Unit, number: int, at: int, uncached: bool) -> UnitLine:
        if number not in unit.lines:
            start = number * LINE
            whole = line_of(self.memory, number)
            if whole is None:
                data = bytearray(LINE)
                for byte in range(start, start + LINE):
                    if isinstance(self.memory.find(byte), Plain):
                        data[byte - start] = self.second.read(byte, 1, uncached)[0]
            else:
                data = bytearray(self.second.read(start, LINE, uncached))
            for store in self.waiting:  # stores of a compute unit go ahead of its later loads
                if store.unit is unit:
                    store.overlay(start, data)
            volatile = self.second.type_at(at) is not Mtype.NC_NV
            unit.lines[number] = UnitLine(self.memory.find(at), data, volatile)
        return unit.lines[number]

    def blame(self, address: int, got: bytes, newest: bytes, uncached: bool) -> tuple[str, Place | Host]:
        """Why a load got what it should not have: the kind of finding, and the store that it has missed."""
        size = len(got)
        first = next(k for k in range(size) if got[k] != newest[k])
        store = self.last.get(address + first & ~3)
        arrived = self.second.read(address, size, uncached, keep=False)
        kind = "stale line"
        if got == arrived:
            waiting = (each for caches in self.system.caches for each in caches.waiting)
            late = any(each.meets(address + first, 1) for each in waiting)
            elsewhere = self.memory.read(address + first, 1) == got[first : first + 1]
            kind = "late store" if late else "not released" if elsewhere else "host store"
        return kind, STORED if store is None or not _left(store, address + first, newest[first]) else store.place

    # ---- what nobody sees yet ----------------------------------------------------------------------------------------
    def unseen(self, address: int = 0, size: int = 1 << 64) -> Iterator[tuple[int, Store | None]]:
        """Stores that have not come to memory where their bytes differ from it: first addresses, of some memory."""
        for number, line in self.second.lines.items():
            for first, count in runs(line.dirty):
                start = number * LINE + first
                for at in range(max(start, address), min(start + count, address + size)):
                    if self.memory.read(at, 1)[0] != line.data[at % LINE]:
                        yield at, self.last.get(at & ~3)
        for store in self.waiting:
            if store.meets(address, size):
                yield store.address, store


def _left(store: Store, address: int, byte: int) -> bool:
    """Whether a store is what left this byte there."""
    offset = address - store.address
    return 0 <= offset < len(store.data) and store.data[offset] == byte


def _there(memory: GpuMemory, lines: dict[int, L]) -> dict[int, L]:
    """Lines of memory that lies where it lay."""
    return {
        number: line
        for number, line in lines.items()
        if line.mapping is not None and memory.find(max(number * LINE, line.mapping.base)) is line.mapping
    }
