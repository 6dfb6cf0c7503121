"""Memory as waves see it: 48-bit addresses, plain memory without copies, regions with effects, and the page table.

Translated code reads the two-level table itself: level 1 has one word per GiB (the host address of a level-2 table,
or 0), level 2 one row per 4 KiB page: ADDEND (host minus guest address), START and SIZE in bytes of a run of guest
addresses in or around the page that has this addend, and STORES, the same size where stores may go there directly, else
0. A run may begin and end inside a page; of several in one page the row is that of the run that has most of it. What is
in no row goes through `GpuMemory.read` and `write`: nothing mapped, regions with effects, the lesser runs of a page.
Memory with a completer has STORES 0, so that its read-modify-writes leave translated code.
"""

from __future__ import annotations

import sys
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from understudy.core.errors import AccessFault, ModelBug
from understudy.core.memory_check import MemoryCheck
from understudy.core.snapshot import Stateful, restore_ram, save_ram
from understudy.core.space import PAGE_BITS, PAGE_SIZE, Ram, Region, Unit
from understudy.engine.gcn.memory_type import COARSE, MemoryType
from understudy.engine.gcn.pause import Pause

ADDRESS_BITS: Final = 48
LIMIT: Final = 1 << ADDRESS_BITS
"""First address that no memory can have."""
TABLE_BITS: Final = 18
"""Address bits that each of the two levels decides."""
ENTRIES: Final = 1 << TABLE_BITS
GIB_BITS: Final = PAGE_BITS + TABLE_BITS
# Columns of a level-2 row.
ADDEND: Final = 0
START: Final = 1
SIZE: Final = 2
STORES: Final = 3
COLUMNS: Final = 4
MASK64: Final = (1 << 64) - 1

Bytes = npt.NDArray[np.uint8]
Words = npt.NDArray[np.uint64]

if sys.byteorder != "little":
    raise ModelBug("guest memory is shared with the host and needs a little-endian one")


@dataclass(frozen=True, slots=True, eq=False)
class Plain:
    """Memory without effects at `base`. `bytes` shares it, `words` its whole dwords; `view` does too, for slices.

    `ram` is what was mapped, where that was a `Ram`; else the bytes are somebody else's. `type` is what caches and
    read-modify-writes go by.
    """

    base: int
    end: int
    name: str
    writable: bool
    bytes: Bytes = field(repr=False)
    words: npt.NDArray[np.uint32] = field(repr=False)
    view: memoryview = field(repr=False)
    addend: int
    ram: Ram | None = field(default=None, repr=False)
    type: MemoryType = field(default=COARSE, repr=False)

    @property
    def takes_stores(self) -> bool:
        """Whether translated code may store and do read-modify-writes there."""
        return self.writable and self.type.completer is None

    def joins(self, other: Plain) -> bool:
        """Whether `other`, which begins where this ends, continues it in host memory too."""
        same = self.addend == other.addend and self.writable == other.writable
        return self.end == other.base and same and self.takes_stores == other.takes_stores


@dataclass(frozen=True, slots=True, eq=False)
class Effects:
    """A region whose accesses have effects, at `base`; `unit` is who accesses it."""

    base: int
    end: int
    name: str
    region: Region
    unit: Unit


Mapped = Plain | Effects


@dataclass(frozen=True, slots=True, eq=False)
class MemoryState:
    """What lay at which address, and what was in it: see `GpuMemory.snapshot`. To be kept, not to be looked into."""

    mappings: tuple[Mapped, ...]
    contents: tuple[Any, ...] = field(repr=False)


class GpuMemory(Stateful):
    """What lies at which address. Safe to use from several threads: changes of mappings wait until waves of translated
    code have come to the end of a turn, and these go on with what is there then.

    `tables_address` is the host address of the level-1 table. `version` counts changes of the mappings. `guard` hears
    of accesses to what is not plain memory, if memory is looked after; `on_read` of what `read` is asked for, before it
    looks, `on_write` of what `write` has stored. Addresses have `bits` bits, at most 48: at `limit` and beyond there is
    never anything.
    """

    def __init__(self, bits: int = ADDRESS_BITS) -> None:
        self.bits = bits
        self.limit = 1 << bits
        self._level1: Words = np.zeros(ENTRIES, np.uint64)
        self._level2: dict[int, Words] = {}
        self._there: tuple[list[int], list[Mapped]] = [], []
        """Addresses and mappings, in order. Replaced, never changed: look-ups see all of a change or nothing."""
        self.pause = Pause()
        """Who changes mappings is alone: no machine code runs on this memory meanwhile."""
        self.tables_address = int(self._level1.ctypes.data)
        self.version = 0
        self.guard: MemoryCheck | None = None
        self.on_read: Callable[[int, int], None] | None = None
        self.on_write: Callable[[int, int], None] | None = None

    def __repr__(self) -> str:
        return f"<memory of {self.bits} address bits, {len(self._there[1])} mapped>"

    def __iter__(self) -> Iterator[Mapped]:
        return iter(self._there[1])

    # -- mappings --------------------------------------------------------------------------------------------------

    def map(
        self,
        address: int,
        what: Any,
        writable: bool = True,
        name: str = "memory",
        unit: Unit = Unit(0),  # noqa: B008
        type: MemoryType = COARSE,
    ) -> Mapped:
        """Put `what` at `address`: a `Ram`, any contiguous buffer, or a `Region` whose accesses have effects.

        `type` is that of plain memory; regions are never cached.

        A `ModelBug` where it would overlap something or leave the address space.
        """
        new = self._made(address, what, writable, name, unit, type)
        with self.pause.alone():
            self._insert(new)
            self.version += 1
        return new

    def _made(self, address: int, what: Any, writable: bool, name: str, unit: Unit, type: MemoryType) -> Mapped:
        """`what` as it lies at `address`."""
        new: Mapped
        if isinstance(what, Ram):
            new = plain(address, np.frombuffer(what.view, np.uint8), writable, name, what, type)
        elif hasattr(what, "read") and hasattr(what, "host_address"):
            new = Effects(address, address + what.size, name, what, unit)
        else:
            new = plain(address, _flat(what, writable, name), writable, name, None, type)
        if address < 0 or new.end > self.limit:
            raise ModelBug(f"{name} at {address:#x}..{new.end:#x} must lie below {self.limit:#x}")
        return new

    def unmap(self, address: int) -> Mapped:
        """Take out what was mapped at exactly `address`; a `ModelBug` where nothing was."""
        with self.pause.alone():
            bases, maps = self._there
            index = bisect_right(bases, address) - 1
            if index < 0 or bases[index] != address:
                raise ModelBug(f"nothing was mapped at {address:#x} that could be unmapped")
            old = maps[index]
            self._exchange(index, index + 1, [])
            self.version += 1
        return old

    def cut(self, address: int, size: int) -> list[Mapped]:
        """Take out `size` bytes at `address`; the pieces that stay of what reached beyond them.

        A `ModelBug` for a part of a region: its accesses are counted from its first byte.
        """
        return self._put(address, address + size, [])

    def replace(
        self,
        address: int,
        what: Any,
        writable: bool = True,
        name: str = "memory",
        unit: Unit = Unit(0),  # noqa: B008
        type: MemoryType = COARSE,
    ) -> tuple[Mapped, list[Mapped]]:
        """Put `what` at `address` as `map` does, in place of all that lies there; also the pieces that stay of that.

        Whoever looks sees one or the other.
        """
        new = self._made(address, what, writable, name, unit, type)
        return new, self._put(new.base, new.end, [new])

    def _put(self, address: int, end: int, new: list[Mapped]) -> list[Mapped]:
        with self.pause.alone():
            bases, maps = self._there
            low = max(bisect_right(bases, address) - 1, 0)
            low += low < len(maps) and maps[low].end <= address
            high = max(bisect_left(bases, end), low)
            ends = maps[low : low + 1], maps[max(high - 1, low) : high]
            before = [_part(each, each.base, address) for each in ends[0] if each.base < address]
            behind = [_part(each, end, each.end) for each in ends[1] if each.end > end]
            self._exchange(low, high, [*before, *new, *behind])
            self.version += 1
        return before + behind

    def split(self, address: int, parts: Sequence[tuple[int, Any]], name: str = "memory") -> None:
        """In place of the region at exactly `address`, `parts` by address: buffers or regions that fill its place.

        Whoever looks sees one or the other. A `ModelBug` where no region begins there, or parts leave gaps.
        """
        old = self.find(address)
        if not isinstance(old, Effects) or old.base != address:
            raise ModelBug(f"no region begins at {address:#x} that could be split")
        new = [self._made(base, what, True, name, old.unit, COARSE) for base, what in parts]
        if [address, *(each.end for each in new)] != [*(each.base for each in new), old.end]:
            raise ModelBug(f"{name} must fill {address:#x}..{old.end:#x}")
        self._put(address, old.end, new)

    def find(self, address: int) -> Mapped | None:
        """What lies at `address`."""
        bases, maps = self._there
        index = bisect_right(bases, address) - 1
        if index >= 0 and address < maps[index].end:
            return maps[index]
        return None

    def between(self, start: int, end: int) -> list[Mapped]:
        """What has bytes in start..end, in order."""
        bases, maps = self._there
        low, high = bisect_right(bases, start) - 1, bisect_left(bases, end)
        return [each for each in maps[max(low, 0) : high] if each.end > start]

    def plain(self, address: int, size: int, store: bool = False) -> Plain | None:
        """The plain memory that holds all of `size` bytes at `address` (and takes stores), or None."""
        bases, maps = self._there
        index = bisect_right(bases, address) - 1
        if index >= 0:
            found = maps[index]
            fits = address < found.end >= address + size
            if fits and isinstance(found, Plain) and (found.writable or not store):
                return found
        return None

    # -- accesses --------------------------------------------------------------------------------------------------

    def read(self, address: int, size: int) -> bytes:
        """`size` bytes from `address`; an `AccessFault` where not all of them can be read."""
        if self.on_read is not None:
            self.on_read(address, size)
        found = self.plain(address, size)
        if found is not None:
            return found.view[address - found.base : address - found.base + size].tobytes()
        parts = []
        for mapped, at, count in self._pieces(address, size, "read"):
            if isinstance(mapped, Plain):
                parts.append(mapped.view[at : at + count].tobytes())
            else:
                parts.append(_reached(mapped, lambda m=mapped, a=at, n=count: m.region.read(a, n, m.unit)))
        return b"".join(parts)

    def write(self, address: int, data: bytes | bytearray | memoryview) -> None:
        """Store bytes from `address` on; an `AccessFault`, and nothing stored, where not all of them can be."""
        found, size = self.find(address), len(data)
        if found is not None and 0 < size <= found.end - address:
            at = address - found.base
            if isinstance(found, Effects):
                try:
                    found.region.write(at, bytes(data), found.unit)
                except AccessFault as fault:
                    raise _placed(fault, found) from None
                return
            if found.writable:
                found.view[at : at + size] = data
                if self.on_write is not None:
                    self.on_write(address, size)
                return
        done = 0
        for mapped, at, count in self._pieces(address, size, "write"):
            part = bytes(data[done : done + count])
            if isinstance(mapped, Plain):
                mapped.view[at : at + count] = part
                if self.on_write is not None:
                    self.on_write(mapped.base + at, count)
            else:
                _reached(mapped, lambda m=mapped, a=at, p=part: m.region.write(a, p, m.unit))
            done += count

    def check(self, address: int, size: int, access: str) -> None:
        """Raise the `AccessFault` that a "read" or "write" of `size` bytes at `address` meets, if it meets one."""
        self._pieces(address, size, access)

    def _pieces(self, address: int, size: int, access: str) -> list[tuple[Mapped, int, int]]:
        """An access split where mappings meet: what, offset in it, bytes."""
        pieces = []
        at, end = address, address + size
        while at < end:
            mapped = self.find(at)
            if mapped is None:
                raise self._fault(address, size, access, at)
            if isinstance(mapped, Plain) and access == "write" and not mapped.writable:
                text = f"write of {size} bytes at {address:#x}: {mapped.name} is read-only"
                raise AccessFault(text, address=address, access=access)
            count = min(end, mapped.end) - at
            pieces.append((mapped, at - mapped.base, count))
            at += count
        return pieces

    def _fault(self, address: int, size: int, access: str, at: int) -> AccessFault:
        """What is wrong with an access whose byte at `at` lies nowhere."""
        text = f"{access} of {size} bytes at {address:#x}: "
        bases, maps = self._there
        below = bisect_right(bases, at) - 1
        near = maps[below] if below >= 0 else None
        if address >= self.limit:
            text += f"addresses have {self.bits} bits"
        elif near is not None and at - near.end < PAGE_SIZE:
            text += f"no memory there, {near.name} ends at {near.end:#x}"
        elif below + 1 < len(maps) and bases[below + 1] - at <= PAGE_SIZE:
            text += f"no memory there, {maps[below + 1].name} begins at {bases[below + 1]:#x}"
        else:
            text += "no memory there"
        return AccessFault(text, address=address, access=access)

    # -- snapshots -------------------------------------------------------------------------------------------------

    def snapshot(self) -> MemoryState:
        """All mappings, and the contents of plain memory. What regions with effects remember is theirs to keep."""
        maps = tuple(self._there[1])
        return MemoryState(maps, tuple(_contents(each) for each in maps))

    def restore(self, state: MemoryState) -> None:
        """Go back to a state that `snapshot` gave: the same memory of the host lies where it lay, with what it held.

        Not while waves run. Memory that this process may not write is left alone.
        """
        with self.pause.alone():
            wanted = set(map(id, state.mappings))
            for each in self:
                if id(each) not in wanted:
                    self.unmap(each.base)
            there = set(map(id, self._there[1]))
            for each, saved in zip(state.mappings, state.contents, strict=True):
                if id(each) not in there:
                    self._insert(each)
                _refill(each, saved)
            self.version += 1

    # -- tables ----------------------------------------------------------------------------------------------------

    def row(self, address: int) -> tuple[int, int, int, int]:
        """The level-2 row of the page of `address`: zeros where it has none. For tests and for people."""
        table = self._level2.get(address >> GIB_BITS)
        if table is None:
            return 0, 0, 0, 0
        addend, start, size, stores = table[address >> PAGE_BITS & ENTRIES - 1].tolist()
        return addend, start, size, stores

    def _insert(self, new: Mapped) -> None:
        if new.end <= new.base:
            raise ModelBug(f"{new.name} at {new.base:#x} must have at least one byte")
        bases, maps = self._there
        index = bisect_right(bases, new.base)
        for old in maps[max(index - 1, 0) : index + 1]:
            if new.base < old.end and old.base < new.end:
                raise ModelBug(
                    f"{new.name} at {new.base:#x}..{new.end:#x} overlaps {old.name} at {old.base:#x}..{old.end:#x}"
                )
        self._exchange(index, index, [new])

    def _exchange(self, low: int, high: int, new: list[Mapped]) -> None:
        """Have `new` in place of mappings `low` to `high` - 1, in the tables too."""
        bases, maps = self._there
        edges: set[int] = set()
        first, behind = low, high
        if low < high:
            first, behind = self._run(low)[0], self._run(high - 1)[1] + 1
            edges = {at & -PAGE_SIZE for each in maps[first:behind] for at in (each.base, each.end - 1)}
            for rows in self._rows(maps[first].base, maps[behind - 1].end):
                rows[:] = 0
        self._there = (
            [*bases[:low], *(each.base for each in new), *bases[high:]],
            [*maps[:low], *new, *maps[high:]],
        )
        index, maps = first, self._there[1]
        while index < behind - (high - low) + len(new):
            start, last = self._run(index)
            if isinstance(maps[index], Plain):
                self._fill(start, last)
            index = last + 1
        for page in edges:
            self._settle(page)

    def _run(self, index: int) -> tuple[int, int]:
        """First and last of the neighbouring mappings around `index` that continue each other."""
        maps = self._there[1]
        first = last = index
        while first > 0 and _joins(maps[first - 1], maps[first]):
            first -= 1
        while last + 1 < len(maps) and _joins(maps[last], maps[last + 1]):
            last += 1
        return first, last

    def _fill(self, first: int, last: int) -> None:
        """The rows of a run of mappings."""
        maps = self._there[1]
        low, high = maps[first], maps[last]
        for rows in self._rows(low.base, high.end, create=True):
            rows[:] = self._row_of(first, last)
        before = maps[first - 1].end if first else 0
        behind = maps[last + 1].base if last + 1 < len(maps) else self.limit
        for edge in {low.base & -PAGE_SIZE, high.end - 1 & -PAGE_SIZE}:
            if before > edge or behind < edge + PAGE_SIZE:
                self._settle(edge)

    def _row_of(self, first: int, last: int) -> Words:
        """What a row says about a run of mappings."""
        maps = self._there[1]
        low, size = maps[first], maps[last].end - maps[first].base
        assert isinstance(low, Plain)
        return np.array([low.addend, low.base, size, size if low.takes_stores else 0], np.uint64)

    def _settle(self, page: int) -> None:
        """Give the row of a page to the run that has most of it, the first of those that have as much."""
        bases, maps = self._there
        most, index = 0, max(bisect_right(bases, page) - 1, 0)
        if index < len(maps) and maps[index].end <= page:
            index += 1
        while index < len(maps) and maps[index].base < page + PAGE_SIZE:
            first, last = self._run(index)
            share = min(maps[last].end, page + PAGE_SIZE) - max(maps[first].base, page)
            if share > most and isinstance(maps[index], Plain):
                most = share
                for rows in self._rows(page, page + PAGE_SIZE, create=True):
                    rows[:] = self._row_of(first, last)
            index = last + 1

    def _rows(self, start: int, end: int, create: bool = False) -> Iterator[Words]:
        """The rows of all pages with bytes in start..end, one stretch per level-2 table."""
        page, stop = start >> PAGE_BITS, -(-end >> PAGE_BITS)
        while page < stop:
            index = page >> TABLE_BITS
            last = min(stop, index + 1 << TABLE_BITS)
            if create and index not in self._level2:
                self._level2[index] = np.zeros((ENTRIES, COLUMNS), np.uint64)
                self._level1[index] = self._level2[index].ctypes.data
            if index in self._level2:
                yield self._level2[index][page - (index << TABLE_BITS) : last - (index << TABLE_BITS)]
            page = last


def plain(
    address: int,
    data: Bytes,
    writable: bool = True,
    name: str = "memory",
    ram: Ram | None = None,
    type: MemoryType = COARSE,
) -> Plain:
    """Bytes of this process as memory at `address`."""
    addend = int(data.ctypes.data) - address & MASK64
    dwords = data[: data.size & ~3].view(np.uint32)
    return Plain(address, address + data.size, name, writable, data, dwords, data.data, addend, ram, type)


def _contents(mapped: Mapped) -> Any:
    """What to keep of a mapping's memory: all that somebody else has, the pages in use of a `Ram`."""
    if isinstance(mapped, Effects) or not mapped.bytes.flags.writeable:
        return None
    return mapped.bytes.copy() if mapped.ram is None else save_ram(mapped.ram)


def _refill(mapped: Mapped, saved: Any) -> None:
    """Put back what `_contents` gave."""
    if isinstance(mapped, Effects) or saved is None:
        return
    if mapped.ram is None:
        mapped.bytes[:] = saved
    else:
        restore_ram(mapped.ram, saved)


def _flat(what: Any, writable: bool, name: str) -> Bytes:
    """The bytes of a contiguous buffer, shared."""
    try:
        view = memoryview(what)
        data = np.frombuffer(view.cast("B") if view.nbytes else b"", np.uint8)
    except (TypeError, ValueError) as error:
        raise ModelBug(f"{name} must be a contiguous buffer, a Ram or a Region: {error}") from None
    if writable and view.readonly:
        raise ModelBug(f"{name} must be mapped with writable=False: its buffer is read-only")
    return data


def _joins(low: Mapped, high: Mapped) -> bool:
    return isinstance(low, Plain) and isinstance(high, Plain) and low.joins(high)


def _part(mapped: Mapped, start: int, end: int) -> Mapped:
    """The bytes of a mapping from `start` to `end`, as one of its own."""
    if isinstance(mapped, Effects):
        raise ModelBug(f"{mapped.name} at {mapped.base:#x}..{mapped.end:#x} has effects, expected all of it or nothing")
    data = mapped.bytes[start - mapped.base : end - mapped.base]
    return plain(start, data, mapped.writable, mapped.name, None, mapped.type)


def _reached(mapped: Effects, access: Any) -> Any:
    """The result of an access to a region."""
    try:
        return access()
    except AccessFault as fault:
        raise _placed(fault, mapped) from None


def _placed(fault: AccessFault, mapped: Effects) -> AccessFault:
    """A fault of a region, which names guest addresses and the region."""
    fault.address += mapped.base
    return fault.at(mapped.name, f"{mapped.base:#x}")
