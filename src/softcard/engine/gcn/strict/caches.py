"""The caches and delayed stores of an agent, with the worst-case behaviour that the memory model permits.

A store leaves its wave, and arrives in the second-level cache later (`SecondLevel`, one for the agent, or one for each
of its accelerator dies). A release fence at system scope writes it back to memory. Memory of an uncached type
(`Mtype.is_cached`) bypasses the second level: stores arrive in memory. Each compute unit has a first-level cache
(`Unit`) for lines of any memory. Only fences and cache operations evict lines, which is the worst case.

The several second-level caches of one agent are not coherent: fences at agent scope write them back and invalidate
them. Loads and stores with agent scope bypass them, and read-modify-writes are executed in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final, TypeVar

from softcard.core.order import Prng
from softcard.core.snapshot import Stateful
from softcard.engine.gcn.memory import GpuMemory, Mapped, Mtype, Plain
from softcard.engine.gcn.strict.findings import STORED, Host, Place

# ---- second-level cache ----------------------------------------------------------------------------------------------
# The second-level cache of an agent: fences at system scope write its lines back and invalidate them.
#
# GCN's is write-back and knows the dirty bytes of a line: AMD's drivers write it back and invalidate it by separate
# actions of their fences. Only these evict lines, which is the worst case.


LINE: Final = 64
"""The size of a cache line, in bytes."""
ALL: Final = (1 << LINE) - 1
"""The mask that selects all bytes of a line."""


@dataclass(slots=True, eq=False)
class Line(Stateful):
    """A line of the second-level cache.

    It has two masks of bytes: those that are valid, and those that are dirty, that is, not yet written to memory.
    """

    STATE = ("data", "valid", "dirty")

    mapping: Mapped | None
    data: bytearray = field(default_factory=lambda: bytearray(LINE))
    valid: int = 0
    dirty: int = 0


class SecondLevel(Stateful):
    """The second-level cache that all compute units of an agent, or of one of its accelerator dies, share.

    Fences at system scope write it back and invalidate it.
    """

    STATE = ("lines",)

    def __init__(self, memory: GpuMemory) -> None:
        self.memory = memory
        self.lines: dict[int, Line] = {}

    def is_passed(self, address: int, uncached: bool) -> bool:
        """Return True if an access bypasses the cache, by its descriptor (`uncached`) or by its memory's type."""
        return uncached or not self.type_at(address).is_cached

    def type_at(self, address: int) -> Mtype:
        """Return the memory type at an address."""
        found = self.memory.find(address)
        return found.type.mtype if isinstance(found, Plain) else Mtype.UC

    def read(self, address: int, size: int, uncached: bool = False, keep: bool = True) -> bytes:
        """Return the bytes that a compute unit reads; with `keep`, allocate cache lines for them."""
        parts = []
        for number, at, count in pieces(address, size):
            line = self._line(number, at, uncached, keep)
            data = bytearray(self.memory.read(at, count)) if line is None or line.valid != ALL else bytearray(count)
            if line is not None:
                copy(line.data, at % LINE, data, line.valid >> at % LINE)
            parts.append(bytes(data))
        return b"".join(parts)

    def write(self, address: int, data: bytes, uncached: bool = False) -> None:
        """Write the bytes of an arriving store to the cache, or to memory if the store bypasses the cache."""
        for number, at, count in pieces(address, len(data)):
            part = data[at - address : at - address + count]
            if self.is_passed(at, uncached):
                self.write_back(number)
                self.lines.pop(number, None)
                self.memory.write(at, part)
                continue
            line = self.lines.setdefault(number, Line(self.memory.find(at)))
            line.data[at % LINE : at % LINE + count] = part
            mask = (1 << count) - 1 << at % LINE
            line.valid |= mask
            line.dirty |= mask

    def _line(self, number: int, at: int, uncached: bool, keep: bool) -> Line | None:
        line = self.lines.get(number)
        if self.is_passed(at, uncached):
            if line is not None and keep:
                self.write_back(number)
                del self.lines[number]
                return None
            return line
        if keep and (line is None or line.valid != ALL):
            line = self.lines.setdefault(number, Line(self.memory.find(at)))
            fresh = line_of(self.memory, number)
            if fresh is not None:
                copy(line.data, 0, fresh, line.valid)
                line.data[:], line.valid = fresh, ALL
        return line

    def write_back(self, *numbers: int) -> None:
        """Write dirty bytes back to memory: those of the lines with these numbers, or of all lines by default."""
        for number in numbers or tuple(self.lines):
            line = self.lines.get(number)
            if line is not None and line.dirty:
                for first, count in runs(line.dirty):
                    self.memory.write(number * LINE + first, bytes(line.data[first : first + count]))
                line.dirty = 0

    def drop(self, address: int, size: int) -> None:
        """Write to memory the dirty bytes of the lines that overlap a range, and remove these lines from the cache."""
        for number in range(address // LINE, (address + size - 1) // LINE + 1):
            self.write_back(number)
            self.lines.pop(number, None)

    def overlay(self, address: int, data: bytearray) -> None:
        """Replace bytes in `data`, the contents of memory from `address` on, by the cache's dirty bytes."""
        for number, at, count in pieces(address, len(data)):
            line = self.lines.get(number)
            if line is not None and line.dirty:
                part = data[at - address : at - address + count]
                copy(line.data, at % LINE, part, line.dirty >> at % LINE)
                data[at - address : at - address + count] = part

    def invalidate(self) -> None:
        """Remove clean bytes from the cache; dirty bytes stay."""
        self.lines = {number: line for number, line in self.lines.items() if line.dirty}
        for line in self.lines.values():
            line.valid = line.dirty


def line_of(memory: GpuMemory, number: int) -> bytearray | None:
    """Return the contents in memory of line `number`, or None if part of the line is not plain memory."""
    found = memory.plain(number * LINE, LINE)
    if found is None:
        return None
    at = number * LINE - found.base
    return bytearray(found.view[at : at + LINE])


def runs(bits: int) -> Iterator[tuple[int, int]]:
    """Yield the runs of consecutive set bits, each as the number of its first bit and its length."""
    at = 0
    while bits >> at:
        at += (bits >> at & -(bits >> at)).bit_length() - 1
        count = (~(bits >> at) & (bits >> at) + 1).bit_length() - 1
        yield at, count
        at += count


def pieces(address: int, size: int) -> Iterator[tuple[int, int, int]]:
    """Split an access at line boundaries; yield each part's line number, first address and size."""
    at, end = address, address + size
    while at < end:
        count = min(LINE - at % LINE, end - at)
        yield at // LINE, at, count
        at += count


def copy(source: bytearray, start: int, target: bytearray, mask: int) -> None:
    """Copy byte `start` + i of `source` to byte i of `target`, for each set bit i of `mask`."""
    size = len(target)
    for first, count in runs(mask & (1 << size) - 1):
        target[first : first + count] = source[start + first : start + first + count]


# ---- caches of compute units -----------------------------------------------------------------------------------------


LUCK: Final = 32
"""The inverse of the probability, per instruction, that a delayed store arrives."""

NONE, AGENT, SYSTEM = range(3)
"""The scopes of fences."""
SCOPES: Final = ("none", "agent", "system")


@dataclass(slots=True, eq=False)
class UnitLine(Stateful):
    """A line of a compute unit's first-level cache. `is_volatile` is True if its memory is volatile (see `Mtype`)."""

    STATE = ("data",)

    mapping: Mapped | None
    data: bytearray
    is_volatile: bool


L = TypeVar("L", Line, UnitLine)


@dataclass(slots=True, eq=False)
class Unit(Stateful):
    """The first-level cache of a compute unit; `lines` maps line numbers to lines."""

    STATE = ("lines",)

    second: SecondLevel
    lines: dict[int, UnitLine] = field(default_factory=dict)

    def invalidate(self, everything: bool) -> None:
        """Remove all lines if `everything`, else only those of volatile memory."""
        self.lines = {} if everything else {n: line for n, line in self.lines.items() if not line.is_volatile}


@dataclass(slots=True, eq=False)
class Store:
    """A delayed store by a wave of a compute unit.

    `uncached` is True if it bypasses the second-level cache.
    """

    owner: int
    unit: Unit
    address: int
    data: bytes
    place: Place
    uncached: bool = False
    passes: bool = False
    """True if the store passes through the second-level cache to memory.

    This holds for stores with agent scope on agents with several second-level caches.
    """

    def meets(self, address: int, size: int) -> bool:
        """Return True if the store overlaps these bytes."""
        return self.address < address + size and address < self.address + len(self.data)

    def precedes(self, later: Store) -> bool:
        """Return True if this store must arrive before the store `later`."""
        return self.unit is later.unit and self.meets(later.address, len(later.data))

    def overlay(self, address: int, data: bytearray) -> None:
        """Replace bytes in `data`, the contents of memory from `address` on, by the stored bytes."""
        low, high = max(self.address, address), min(self.address + len(self.data), address + len(data))
        if low < high:
            data[low - address : high - address] = self.data[low - self.address : high - self.address]


class System:
    """The state of agents that share memory.

    `caches` are the agents' caches, and `last` maps the address of each dword to the last store to it.
    """

    def __init__(self) -> None:
        self.last: dict[int, Store] = {}
        self.caches: list[Caches] = []

    def newest(self, memory: GpuMemory, address: int, size: int) -> bytes:
        """Return the bytes that memory would hold if every delayed store had arrived there."""
        data = bytearray(memory.read(address, size))
        for second in (each for caches in self.caches for each in caches.seconds):
            second.overlay(address, data)
        for caches in self.caches:
            for store in caches.waiting:
                store.overlay(address, data)
        return bytes(data)


class Caches(Stateful):
    """The caches of an agent, and its delayed stores. Their contents persist from packet to packet."""

    STATE = ("units", "seconds", "waiting", "last", "_chance", "_writing")

    def __init__(self, memory: GpuMemory, units: int, seed: int, system: System, xccs: int = 1) -> None:
        self.memory = memory
        self.seconds = tuple(SecondLevel(memory) for _ in range(xccs))
        """The second-level caches, one for each accelerator die."""
        self.units = tuple(Unit(self.seconds[number % xccs]) for number in range(units))
        self._writing: dict[int, list[int]] = {}
        """For each wave, the numbers of the lines that its write-back has yet to write; a wait completes it."""
        self.waiting: list[Store] = []
        self.system = system
        self.last = system.last
        system.caches.append(self)
        self._chance = Prng(seed)
        self._version = memory.version

    # ---- fences ----------------------------------------------------------------------------------------------------
    def acquire(self, scope: int) -> None:
        """Perform a packet's acquire fence."""
        if scope >= AGENT:
            for unit in self.units:
                unit.invalidate(True)
        if scope >= SYSTEM or (scope >= AGENT and self.has_several):
            for second in self.seconds:
                second.invalidate()

    def release(self, scope: int) -> None:
        """Perform a packet's release fence.

        Without a fence (scope `NONE`), only the stores that bypass the second-level cache arrive.
        """
        self.arrive(lambda store: scope >= AGENT or store.unit.second.is_passed(store.address, store.uncached))
        self._writing.clear()
        if scope >= SYSTEM or (scope >= AGENT and self.has_several):
            for second in self.seconds:
                second.write_back()

    @property
    def has_several(self) -> bool:
        """True if the agent has several second-level caches, which are not coherent with each other."""
        return len(self.seconds) > 1

    def write_back(self, owner: int, unit: Unit) -> None:
        """Begin a write-back of the second-level cache on behalf of the wave `owner`.

        It includes the wave's earlier stores.
        """
        self.arrive(lambda store: store.owner == owner)
        self._writing[owner] = [number for number, line in unit.second.lines.items() if line.dirty]

    def written(self, owner: int, unit: Unit) -> None:
        """Complete the write-back of the second-level cache that the wave `owner` has begun and now has waited for."""
        for number in self._writing.pop(owner, ()):
            unit.second.write_back(number)

    def in_memory(self, address: int, size: int) -> None:
        """Write the lines of a range back to memory and remove them from all second-level caches.

        Afterwards accesses may bypass these caches."""
        for second in self.seconds:
            second.drop(address, size)

    def purge(self) -> None:
        """Remove cached lines and delayed stores of memory that has been unmapped."""
        if self._version == self.memory.version:
            return
        self._version = self.memory.version
        for unit in self.units:
            unit.lines = _still_mapped(self.memory, unit.lines)
        for second in self.seconds:
            second.lines = _still_mapped(self.memory, second.lines)
        self.waiting = [store for store in self.waiting if self.memory.find(store.address) is not None]

    # ---- stores ----------------------------------------------------------------------------------------------------
    def issue(self, store: Store) -> None:
        """Issue a store of a wave.

        The wave's compute unit sees the store immediately, other compute units see it when it arrives."""
        self.waiting.append(store)
        self.remember(store)
        for number in range(store.address // LINE, (store.address + len(store.data) - 1) // LINE + 1):
            line = store.unit.lines.get(number)
            if line is not None:
                store.overlay(number * LINE, line.data)

    def remember(self, store: Store) -> None:
        """Record a store as the last store to each of its dwords."""
        for at in range(store.address & ~3, store.address + len(store.data), 4):
            self.last[at] = store

    def arrive(self, wanted: Callable[[Store], bool]) -> None:
        """Let the stores that `wanted` selects arrive.

        Earlier stores of the same compute unit to the same bytes arrive before them.
        """
        left: list[Store] = []
        picked: list[Store] = []
        for store in reversed(self.waiting):
            comes = wanted(store) or any(store.precedes(each) for each in picked)
            (picked if comes else left).append(store)
        for store in reversed(picked):
            store.unit.second.write(store.address, store.data, store.uncached)
            if store.passes:
                store.unit.second.drop(store.address, len(store.data))
        self.waiting = left[::-1]

    def chance(self) -> None:
        """Let a random delayed store arrive, with the probability 1 / `LUCK`."""
        if self.waiting and self._chance.below(LUCK) == 0:
            self._lucky(self.waiting)

    def delays(self, owner: int) -> bool:
        """Let one random delayed store of the wave `owner` arrive; return True if the wave still has delayed stores."""
        mine = [store for store in self.waiting if store.owner == owner]
        if mine:
            self._lucky(mine)
        return any(store.owner == owner for store in self.waiting)

    def _lucky(self, some: list[Store]) -> None:
        lucky = some[self._chance.below(len(some))]
        self.arrive(lambda store: store is lucky)

    def flush(self, unit: Unit, address: int, size: int) -> None:
        """Let a compute unit's stores to a range arrive, and remove its cached lines, for an uncached access."""
        self.arrive(lambda store: store.unit is unit and store.meets(address, size))
        for number in range(address // LINE, (address + size - 1) // LINE + 1):
            unit.lines.pop(number, None)

    # ---- loads -----------------------------------------------------------------------------------------------------
    def read(
        self, unit: Unit, address: int, size: int, bypass: bool, uncached: bool, passes: bool = False
    ) -> tuple[bytes, bytes]:
        """Return the bytes that a load gets, and those that it would get if all stores had arrived everywhere.

        `bypass` is True if the load bypasses the first-level cache, `passes` if it bypasses the second-level cache,
        too. `uncached` is True if its descriptor requests uncached accesses.
        """
        if not isinstance(self.memory.find(address), Plain):
            self.flush(unit, address, size)
            data = self.memory.read(address, size)
            return data, data
        now = self.system.newest(self.memory, address, size)
        if bypass:
            self.flush(unit, address, size)
            if passes:
                unit.second.drop(address, size)
            return unit.second.read(address, size, uncached), now
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
                        data[byte - start] = unit.second.read(byte, 1, uncached)[0]
            else:
                data = bytearray(unit.second.read(start, LINE, uncached))
            for store in self.waiting:  # stores of a compute unit go ahead of its later loads
                if store.unit is unit:
                    store.overlay(start, data)
            volatile = unit.second.type_at(at) is not Mtype.NC_NV
            unit.lines[number] = UnitLine(self.memory.find(at), data, volatile)
        return unit.lines[number]

    def explain(self, unit: Unit, address: int, got: bytes, newest: bytes, uncached: bool) -> tuple[str, Place | Host]:
        """Explain why a load got old bytes: return the kind of finding, and the store that the load missed.

        `got` are the loaded bytes, `newest` those that it would get if all stores had arrived.
        """
        size = len(got)
        first = next(k for k in range(size) if got[k] != newest[k])
        store = self.last.get(address + first & ~3)
        arrived = unit.second.read(address, size, uncached, keep=False)
        kind = "stale line"
        if got == arrived:
            waiting = (each for caches in self.system.caches for each in caches.waiting)
            late = any(each.meets(address + first, 1) for each in waiting)
            elsewhere = self.memory.read(address + first, 1) == got[first : first + 1]
            if not elsewhere and newest[first : first + 1] == self.memory.read(address + first, 1):
                line = self.last.get(address + first & ~3)
                if line is not None and line.unit.second is not unit.second:
                    return "stale line", line.place
            kind = "late store" if late else "not released" if elsewhere else "host store"
        return kind, STORED if store is None or not _left(store, address + first, newest[first]) else store.place

    # ---- stores that are not visible yet -----------------------------------------------------------------------------
    def unseen(self, address: int = 0, size: int = 1 << 64) -> Iterator[tuple[int, Store | None]]:
        """Yield the stores in a range that have not reached memory, as pairs of an address and the store.

        These are the delayed stores, and each dirty byte of the caches that differs from memory. For such a byte, the
        store is None if it is not known."""
        for number, line in ((n, line) for second in self.seconds for n, line in second.lines.items()):
            for first, count in runs(line.dirty):
                start = number * LINE + first
                for at in range(max(start, address), min(start + count, address + size)):
                    if self.memory.read(at, 1)[0] != line.data[at % LINE]:
                        yield at, self.last.get(at & ~3)
        for store in self.waiting:
            if store.meets(address, size):
                yield store.address, store


def _left(store: Store, address: int, byte: int) -> bool:
    """Return True if `store` includes the byte at `address` and has the value `byte` for it."""
    offset = address - store.address
    return 0 <= offset < len(store.data) and store.data[offset] == byte


def _still_mapped(memory: GpuMemory, lines: dict[int, L]) -> dict[int, L]:
    """Return the lines whose memory is still mapped."""
    return {
        number: line
        for number, line in lines.items()
        if line.mapping is not None and memory.find(max(number * LINE, line.mapping.base)) is line.mapping
    }
