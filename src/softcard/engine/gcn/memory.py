"""The memory of waves: types of memory, 48-bit addresses, plain memory, regions with effects, and the page table.

Plain memory is accessed without copies. Translated code itself reads the two-level page table. Level 1 has
one word for each GiB: the host address of a level-2 table, or 0. Level 2 has one row for each page of 4 KiB,
which describes a range of guest addresses in or around the page with a constant difference between host and
guest address. The row has four words: ADDEND (host minus guest address), START and SIZE (in bytes) of the
range, and STORES, which is SIZE if translated code may store there, else 0. A range may begin and end inside
a page; if a page contains several ranges, its row describes the largest one. `GpuMemory.read` and `write`
serve all other accesses: those of unmapped addresses, of regions with effects, and of the smaller ranges of a
page. The row of memory with a completer has STORES 0, so that read-modify-writes of this memory are side
exits of translated code."""

from __future__ import annotations

import sys
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, Final, Protocol

import numpy as np
import numpy.typing as npt

from softcard.core.allocations import Guard
from softcard.core.errors import AccessFault, ModelBug
from softcard.core.snapshot import Stateful, restore_ram, save_ram
from softcard.core.space import PAGE_BITS, PAGE_SIZE, Mappable, Ram, Region, Unit, is_region
from softcard.engine.gcn.pause import Pause

# ---- types of memory -------------------------------------------------------------------------------------------------
# The type of memory determines how the memory is cached, and which unit executes read-modify-writes on it.


class Mtype(IntEnum):
    """The memory types, with the numbers that SH_MEM_CONFIG and the V# of GFX8 use.

    The two NC types are cached in the second-level cache of an agent, which is not coherent with other agents
    (coarse-grained). CC and UC bypass this cache or are kept coherent with memory (fine-grained). NV stands for
    "not volatile": ``buffer_wbinvl1_vol`` does not invalidate first-level lines of such memory."""

    NC_NV = 0
    NC = 1
    CC = 2
    UC = 3

    @property
    def is_cached(self) -> bool:
        """True if the second-level cache may hold lines of this memory that other agents do not see."""
        return self in (Mtype.NC_NV, Mtype.NC)


class Completer(Protocol):
    """The unit that executes read-modify-writes on memory outside the agent: a PCIe atomic completer."""

    def check(self, kind: str, bits: int, address: int) -> None:
        """Raise `AccessFault` if a read-modify-write at `address` cannot be executed.

        `kind` is an atomic operation's name in the operations interface; `bits` is the width of the operation.
        """

    def update(self, kind: str, bits: int, host: int, value: int, compare: int) -> int:
        """Execute a read-modify-write that `check` accepted, atomically; return the old value.

        `host` is the host address of the memory.
        """


@dataclass(frozen=True, slots=True, eq=False)
class MemoryType:
    """The type of a mapping. If `completer` is None, the agent itself executes all read-modify-writes on the memory."""

    mtype: Mtype = Mtype.NC
    completer: Completer | None = None


COARSE: Final = MemoryType()
"""The default type: coarse-grained memory of the agent."""


# ---- the memory of waves ---------------------------------------------------------------------------------------------
ADDRESS_BITS: Final = 48
LIMIT: Final = 1 << ADDRESS_BITS
"""The end of the address space: no memory can be mapped at or above it."""
TABLE_BITS: Final = 18
"""The number of address bits that index each of the two levels."""
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
    raise ModelBug("the host is big-endian, expected a little-endian host, which shares its memory with guests")


@dataclass(frozen=True, slots=True, eq=False)
class Plain:
    """A mapping of memory without effects at `base`.

    `bytes`, `words` and `view` share the mapped memory: its bytes, its whole dwords, and a memoryview for slices.
    `ram` is the mapped `Ram`, or None if the caller owns the bytes. `type` determines how caches and
    read-modify-writes treat the memory."""

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
    def code(self) -> memoryview:
        """The memory as dwords, for reads of single dwords and of slices.

        It works at an unaligned host address as well; slices of `words` need an aligned one."""
        return self.view[: len(self.words) * 4].cast("I")

    @property
    def takes_stores(self) -> bool:
        """True if translated code may execute stores and read-modify-writes in this memory."""
        return self.writable and self.type.completer is None

    def joins(self, other: Plain) -> bool:
        """Return True if `other` directly follows this mapping in guest memory and in host memory.

        Both must also permit the same accesses."""
        same = self.addend == other.addend and self.writable == other.writable
        return self.end == other.base and same and self.takes_stores == other.takes_stores


@dataclass(frozen=True, slots=True, eq=False)
class Effects:
    """A mapping, at `base`, of a region whose reads and writes have effects, such as device registers.

    `unit` is the unit that the region sees as the origin of accesses."""

    base: int
    end: int
    name: str
    region: Region
    unit: Unit


Mapped = Plain | Effects


@dataclass(frozen=True, slots=True, eq=False)
class MemoryState:
    """A saved state of the memory: the mappings and their contents. Callers must not change it.

    See `GpuMemory.snapshot`.
    """

    mappings: tuple[Mapped, ...]
    contents: tuple[Any, ...] = field(repr=False)


class GpuMemory(Stateful):
    """The memory of an agent, by guest address.

    The class is thread-safe. A change of mappings waits until waves of translated code have reached the end of a
    time slice; the waves then continue with the new mappings.

    `tables_address` is the host address of the level-1 table. `version` counts changes of the mappings. `guard`
    checks accesses outside of plain memory if the memory check is enabled. `on_read` is called before each
    `read`, with its arguments. `on_write` is called after each `write`, with the range that was written.
    Addresses have `bits` bits, at most 48: nothing can be mapped at `limit` and above."""

    def __init__(self, bits: int = ADDRESS_BITS) -> None:
        self.bits = bits
        self.limit = 1 << bits
        self._tables = [Ram(8 * ENTRIES)]
        """The memory of all page tables, which the host allocates only when it is written."""
        self._level1: Words = np.frombuffer(self._tables[0].view, np.uint64)
        self._level2: dict[int, Words] = {}
        self._mapped: tuple[list[int], list[Mapped]] = [], []
        """The start addresses of the mappings, and the mappings, both in the order of the addresses.

        The pair is replaced and never changed, so that a look-up sees all of a change or nothing of it.
        """
        self.pause = Pause()
        """The lock for changes of mappings, which excludes machine code from this memory."""
        self.tables_address = int(self._level1.ctypes.data)
        self.version = 0
        self.guard: Guard | None = None
        self.on_read: Callable[[int, int], None] | None = None
        self.on_write: Callable[[int, int], None] | None = None

    def __repr__(self) -> str:
        return f"<memory of {self.bits} address bits, {len(self._mapped[1])} mapped>"

    def __iter__(self) -> Iterator[Mapped]:
        return iter(self._mapped[1])

    # -- mappings --------------------------------------------------------------------------------------------------

    def map(
        self,
        address: int,
        what: Mappable,
        writable: bool = True,
        name: str = "memory",
        unit: Unit = Unit(0),  # noqa: B008
        type: MemoryType = COARSE,
    ) -> Mapped:
        """Map `what` at `address`: a `Ram`, any contiguous buffer, or a `Region` whose accesses have effects.

        `type` is the memory type of plain memory; regions are never cached.

        Raise `ModelBug` if the mapping would overlap another one or exceed the address space."""
        new = self._made(address, what, writable, name, unit, type)
        with self.pause.alone():
            self._insert(new)
            self.version += 1
        return new

    def _made(self, address: int, what: Mappable, writable: bool, name: str, unit: Unit, type: MemoryType) -> Mapped:
        """Return `what` as a mapping at `address`: a `Plain` or an `Effects`."""
        new: Mapped
        if isinstance(what, Ram):
            new = plain(address, np.frombuffer(what.view, np.uint8), writable, name, what, type)
        elif is_region(what):
            new = Effects(address, address + what.size, name, what, unit)
        else:
            new = plain(address, _flat(what, writable, name), writable, name, None, type)
        if address < 0 or new.end > self.limit:
            raise ModelBug(f"{name} at {address:#x}..{new.end:#x} must lie below {self.limit:#x}")
        return new

    def unmap(self, address: int) -> Mapped:
        """Unmap the mapping at exactly `address` and return it; raise `ModelBug` if there is none."""
        with self.pause.alone():
            bases, maps = self._mapped
            index = bisect_right(bases, address) - 1
            if index < 0 or bases[index] != address:
                raise ModelBug(f"cannot unmap {address:#x}: no mapping begins there")
            old = maps[index]
            self._exchange(index, index + 1, [])
            self.version += 1
        return old

    def cut(self, address: int, size: int) -> list[Mapped]:
        """Unmap `size` bytes at `address`; return the remaining mappings of partly unmapped ones.

        Raise `ModelBug` if the range contains only a part of a region, because a region cannot be divided."""
        return self._put(address, address + size, [])

    def replace(
        self,
        address: int,
        what: Mappable,
        writable: bool = True,
        name: str = "memory",
        unit: Unit = Unit(0),  # noqa: B008
        type: MemoryType = COARSE,
    ) -> tuple[Mapped, list[Mapped]]:
        """Map `what` at `address`, and replace existing mappings of that range.

        Return the new mapping, and the remaining mappings of those that were partly replaced. The change is atomic:
        readers see the old or the new mappings."""
        new = self._made(address, what, writable, name, unit, type)
        return new, self._put(new.base, new.end, [new])

    def _put(self, address: int, end: int, new: list[Mapped]) -> list[Mapped]:
        with self.pause.alone():
            bases, maps = self._mapped
            low = max(bisect_right(bases, address) - 1, 0)
            low += low < len(maps) and maps[low].end <= address
            high = max(bisect_left(bases, end), low)
            ends = maps[low : low + 1], maps[max(high - 1, low) : high]
            before = [_part(each, each.base, address) for each in ends[0] if each.base < address]
            tail = [_part(each, end, each.end) for each in ends[1] if each.end > end]
            self._exchange(low, high, [*before, *new, *tail])
            self.version += 1
        return before + tail

    def split(
        self, address: int, parts: Sequence[tuple[int, Mappable]], name: str = "memory", writable: bool = True
    ) -> None:
        """Replace the region that begins at `address` by `parts`, pairs of an address and a buffer or region.

        The change is atomic. Raise `ModelBug` if no region begins at `address`, or if the parts do not fill its
        range."""
        old = self.find(address)
        if not isinstance(old, Effects) or old.base != address:
            raise ModelBug(f"cannot split {address:#x}: no region begins there")
        new = [self._made(base, what, writable, name, old.unit, COARSE) for base, what in parts]
        if [address, *(each.end for each in new)] != [*(each.base for each in new), old.end]:
            raise ModelBug(f"the parts of {name} must fill {address:#x}..{old.end:#x}")
        self._put(address, old.end, new)

    def find(self, address: int) -> Mapped | None:
        """Return the mapping that contains `address`, or None."""
        bases, maps = self._mapped
        index = bisect_right(bases, address) - 1
        if index >= 0 and address < maps[index].end:
            return maps[index]
        return None

    def between(self, start: int, end: int) -> list[Mapped]:
        """Return the mappings with bytes in start..end, in order."""
        bases, maps = self._mapped
        low, high = bisect_right(bases, start) - 1, bisect_left(bases, end)
        return [each for each in maps[max(low, 0) : high] if each.end > start]

    def plain(self, address: int, size: int, store: bool = False) -> Plain | None:
        """Return the plain memory that contains all of the `size` bytes at `address`; None if there is none.

        If `store`, the memory must also accept stores."""
        bases, maps = self._mapped
        index = bisect_right(bases, address) - 1
        if index >= 0:
            found = maps[index]
            fits = address < found.end >= address + size
            if fits and isinstance(found, Plain) and (found.writable or not store):
                return found
        return None

    # -- accesses --------------------------------------------------------------------------------------------------

    def read(self, address: int, size: int) -> bytes:
        """Return `size` bytes from `address`; raise `AccessFault` if not all of them can be read."""
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
        """Store bytes at `address`; raise `AccessFault`, and store nothing, if not all of them can be stored."""
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
        """Raise `AccessFault` if a "read" or "write" of `size` bytes at `address` is not allowed."""
        self._pieces(address, size, access)

    def _pieces(self, address: int, size: int, access: str) -> list[tuple[Mapped, int, int]]:
        """Split an access at the borders of mappings.

        Return a list of (mapping, offset in the mapping, size). Raise `AccessFault` if a byte cannot be accessed."""
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
        """Return the fault of an access of which the byte at address `at` is not mapped."""
        text = f"{access} of {size} bytes at {address:#x}: "
        bases, maps = self._mapped
        below = bisect_right(bases, at) - 1
        near = maps[below] if below >= 0 else None
        if address >= self.limit:
            text += f"the address exceeds the {self.bits} bits of the address space"
        elif near is not None and at - near.end < PAGE_SIZE:
            text += f"no memory there, {near.name} ends at {near.end:#x}"
        elif below + 1 < len(maps) and bases[below + 1] - at <= PAGE_SIZE:
            text += f"no memory there, {maps[below + 1].name} begins at {bases[below + 1]:#x}"
        else:
            text += "no memory there"
        return AccessFault(text, address=address, access=access)

    # -- snapshots -------------------------------------------------------------------------------------------------

    def snapshot(self) -> MemoryState:
        """Return all mappings, and the contents of plain memory. Regions with effects save their own state."""
        maps = tuple(self._mapped[1])
        return MemoryState(maps, tuple(_contents(each) for each in maps))

    def restore(self, state: object) -> None:
        """Restore a state that `snapshot` returned: the same host memory at the same addresses.

        The memory gets its old contents, except for memory that this process may not write. No wave may run during
        the call."""
        assert isinstance(state, MemoryState)
        with self.pause.alone():
            wanted = set(map(id, state.mappings))
            for each in self:
                if id(each) not in wanted:
                    self.unmap(each.base)
            there = set(map(id, self._mapped[1]))
            for each, saved in zip(state.mappings, state.contents, strict=True):
                if id(each) not in there:
                    self._insert(each)
                _refill(each, saved)
            self.version += 1

    # -- tables ----------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Free the memory of the page tables, so that translated code finds no mapping any more.

        The mappings themselves remain.
        """
        with self.pause.alone():
            for each in self._tables:
                each.clear()

    def row(self, address: int) -> tuple[int, int, int, int]:
        """Return the level-2 row of the page of `address`; zeros if it has none. For tests and debugging."""
        table = self._level2.get(address >> GIB_BITS)
        if table is None:
            return 0, 0, 0, 0
        addend, start, size, stores = table[address >> PAGE_BITS & ENTRIES - 1].tolist()
        return addend, start, size, stores

    def _insert(self, new: Mapped) -> None:
        if new.end <= new.base:
            raise ModelBug(f"{new.name} at {new.base:#x} must have at least one byte")
        bases, maps = self._mapped
        index = bisect_right(bases, new.base)
        for old in maps[max(index - 1, 0) : index + 1]:
            if new.base < old.end and old.base < new.end:
                raise ModelBug(
                    f"{new.name} at {new.base:#x}..{new.end:#x} overlaps {old.name} at {old.base:#x}..{old.end:#x}"
                )
        self._exchange(index, index, [new])

    def _exchange(self, low: int, high: int, new: list[Mapped]) -> None:
        """Replace the mappings with indices `low` to `high` - 1 by `new`, and update the page tables."""
        bases, maps = self._mapped
        edges: set[int] = set()
        first, tail = low, high
        if low < high:
            first, tail = self._run(low)[0], self._run(high - 1)[1] + 1
            edges = {at & -PAGE_SIZE for each in maps[first:tail] for at in (each.base, each.end - 1)}
            for rows in self._rows(maps[first].base, maps[tail - 1].end):
                rows[:] = 0
        self._mapped = (
            [*bases[:low], *(each.base for each in new), *bases[high:]],
            [*maps[:low], *new, *maps[high:]],
        )
        index, maps = first, self._mapped[1]
        while index < tail - (high - low) + len(new):
            start, last = self._run(index)
            if isinstance(maps[index], Plain):
                self._fill(start, last)
            index = last + 1
        for page in edges:
            self._describe_largest(page)

    def _run(self, index: int) -> tuple[int, int]:
        """Return the indices of the first and last mapping of the contiguous range around mapping `index`."""
        maps = self._mapped[1]
        first = last = index
        while first > 0 and _joins(maps[first - 1], maps[first]):
            first -= 1
        while last + 1 < len(maps) and _joins(maps[last], maps[last + 1]):
            last += 1
        return first, last

    def _fill(self, first: int, last: int) -> None:
        """Write the page table rows of the contiguous range from mapping `first` to mapping `last` (indices)."""
        maps = self._mapped[1]
        low, high = maps[first], maps[last]
        for rows in self._rows(low.base, high.end, create=True):
            rows[:] = self._row_of(first, last)
        before = maps[first - 1].end if first else 0
        tail = maps[last + 1].base if last + 1 < len(maps) else self.limit
        for edge in {low.base & -PAGE_SIZE, high.end - 1 & -PAGE_SIZE}:
            if before > edge or tail < edge + PAGE_SIZE:
                self._describe_largest(edge)

    def _row_of(self, first: int, last: int) -> Words:
        """Return the page table row for the contiguous range from mapping `first` to mapping `last` (indices)."""
        maps = self._mapped[1]
        low, size = maps[first], maps[last].end - maps[first].base
        assert isinstance(low, Plain)
        return np.array([low.addend, low.base, size, size if low.takes_stores else 0], np.uint64)

    def _describe_largest(self, page: int) -> None:
        """Write the row of a page that has several ranges: it describes the first of the largest ones."""
        bases, maps = self._mapped
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
        """Yield the rows of all pages with bytes in start..end, as one array for each level-2 table."""
        page, stop = start >> PAGE_BITS, -(-end >> PAGE_BITS)
        while page < stop:
            index = page >> TABLE_BITS
            last = min(stop, index + 1 << TABLE_BITS)
            if create and index not in self._level2:
                self._tables.append(Ram(8 * ENTRIES * COLUMNS))
                self._level2[index] = np.frombuffer(self._tables[-1].view, np.uint64).reshape(ENTRIES, COLUMNS)
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
    """Return a mapping at `address` of a buffer of this process, without effects of accesses.

    `ram` is the mapped `Ram`, or None if the caller owns the buffer.
    """
    addend = int(data.ctypes.data) - address & MASK64
    dwords = data[: data.size & ~3].view(np.uint32)
    return Plain(address, address + data.size, name, writable, data, dwords, data.data, addend, ram, type)


def _contents(mapped: Mapped) -> Any:
    """Return a copy of a mapping's memory: all bytes of the caller's buffer, or the used pages of a `Ram`."""
    if isinstance(mapped, Effects) or not mapped.bytes.flags.writeable:
        return None
    return mapped.bytes.copy() if mapped.ram is None else save_ram(mapped.ram)


def _refill(mapped: Mapped, saved: Any) -> None:
    """Restore the contents of a mapping's memory from the result `saved` of `_contents`."""
    if isinstance(mapped, Effects) or saved is None:
        return
    if mapped.ram is None:
        mapped.bytes[:] = saved
    else:
        restore_ram(mapped.ram, saved)


def _flat(what: Any, writable: bool, name: str) -> Bytes:
    """Return the bytes of a contiguous buffer as an array that shares its memory."""
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
    """Return a new mapping of the bytes from `start` to `end` of a mapping."""
    if isinstance(mapped, Effects):
        raise ModelBug(
            f"{mapped.name} at {mapped.base:#x}..{mapped.end:#x} has side effects: unmap all of it or nothing"
        )
    data = mapped.bytes[start - mapped.base : end - mapped.base]
    return plain(start, data, mapped.writable, mapped.name, None, mapped.type)


def _reached(mapped: Effects, access: Any) -> Any:
    """Call `access`, which accesses the region of a mapping, and return its result.

    A fault that the access raises gets the guest address and the mapping's name.
    """
    try:
        return access()
    except AccessFault as fault:
        raise _placed(fault, mapped) from None


def _placed(fault: AccessFault, mapped: Effects) -> AccessFault:
    """Add the mapping's guest address and name to a fault of a region."""
    fault.address += mapped.base
    return fault.at(mapped.name, f"{mapped.base:#x}")
