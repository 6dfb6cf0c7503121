"""A hart's port to the memory of the `spec` profile."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from softcard.core.errors import AccessFault
from softcard.core.space import PAGE_SIZE, Unit
from softcard.device.refsi import rules
from softcard.device.refsi.spec.transfer import read_place, write_place
from softcard.device.refsi.spec.windows import unit_name

if TYPE_CHECKING:
    from softcard.device.refsi.spec.decode import Location
    from softcard.device.refsi.spec.memory import SpecMemory

MASK64 = (1 << 64) - 1
_ACCESS = {"load": "read", "store": "write"}


class SpecPort:
    """The `HartPort` of one hart: its view of windows, permissions, DMA registers, counters, and its data cache.

    The data cache exists only if it is modelled. The class adds methods to `HartPort`. `extent` returns the range
    around an address in which the result of `page` is valid; `exchange` and `load_uncached` are the memory
    accesses of atomic operations, which bypass the hart's data cache."""

    def __init__(self, memory: SpecMemory, unit: Unit) -> None:
        self._memory = memory
        self.unit = unit
        # The range around the last address of each kind of access (and of `fetch`), valid for one generation of the
        # memory.
        self._reached: dict[str, tuple[int, tuple[int, int, int]]] = {}
        self._registers: dict[str, tuple[int, int, int]] = {}
        """The range of registers around the last accessed address, by kind of access.

        It has three items: the memory's `generation` for which it is valid, and the range's start and end.
        """
        self._code = (-1, 0, 0, memoryview(b""))

    def forget(self) -> None:
        """Drop cached ranges, and with them the references to their memory."""
        self._reached.clear()
        self._code = (-1, 0, 0, memoryview(b""))

    def load(self, address: int, size: int) -> int:
        """Return the `size` bytes at `address` as a little-endian number; raise `AccessFault` with the broken rule."""
        memory = self._memory
        place = memory.locate(address, size, self.unit, "read")
        if place.ram is None:
            data = memory.read_register(place, address, self.unit)
        elif memory.cached(place):
            data = self._load_cached(place)
        else:
            data = read_place(place)
        return int.from_bytes(data, "little")

    def store(self, address: int, size: int, value: int) -> None:
        """Store the low `size` bytes of `value` at `address`; raise `AccessFault` with the broken rule."""
        place = self._writable(address, size)
        data = (value & ((1 << 8 * size) - 1)).to_bytes(size, "little")
        memory = self._memory
        if place.ram is None:
            memory.write_register(place, address, data, self.unit)
        elif memory.caches is not None and memory.cached(place):
            done = 0
            for start, length in place.runs():
                memory.caches.store(self.unit.index, start, data[done : done + length])
                done += length
        else:
            write_place(place, data)
            memory.wrote(place)

    def fetch(self, address: int) -> int:
        """Return the 16-bit halfword at `address` from memory. The instruction cache belongs to the engine."""
        generation, start, end, code = self._code
        if start <= address < end - 1 and generation == self._memory.generation:
            return code[address - start] | code[address + 1 - start] << 8
        place = self._memory.locate(address, 2, self.unit, "execute")
        if place.ram is None:
            raise AccessFault(
                f"execute of 2 bytes at {address:#x}: {place.mapping.name} holds registers, expected memory",
                address=address,
                access="execute",
                rule=rules.EXECUTE_MEMORY,
            )
        self._remember_code(address)
        return int.from_bytes(read_place(place), "little")

    def _remember_code(self, address: int) -> None:
        found = self._memory.decoder.span(address, self.unit, "execute")
        if found is not None and found[2].ram is not None:
            start, end, place = found
            first = place.physical - place.mapping.base - (address - start)
            assert place.ram is not None
            self._code = (self._memory.generation, start, end, place.ram.view[first : first + end - start])

    def page(self, address: int, access: str) -> int | None:
        """Return host minus guest address for the page around `address`, None if it cannot be accessed directly."""
        found = self._reach(address, access)
        if found is None:
            return None
        start, end, addend = found
        page = address & -PAGE_SIZE
        return addend if start <= page and page + PAGE_SIZE <= end else None

    def extent(self, address: int, access: str) -> tuple[int, int]:
        """Return the guest range (start, end) around `address` in which the result of `page` is valid."""
        found = self._reach(address, access)
        return (address, address) if found is None else found[:2]

    def physical(self, address: int, access: str) -> int | None:
        """Return the physical address for `address` as this hart sees it; None if `access` to it is refused."""
        found = self._memory.decoder.span(address, self.unit, _ACCESS[access])
        return None if found is None else found[2].physical

    def place(self, address: int) -> int | None:
        """Return the host address of the byte at guest address `address`, in this hart's view of memory.

        Return None if no plain memory is there."""
        for access in ("read", "write"):
            found = self._memory.decoder.span(address, self.unit, access)
            if found is not None and found[2].ram is not None:
                place = found[2]
                assert place.ram is not None
                return place.ram.base_host + place.physical - place.mapping.base
        return None

    def check_reservable(self, address: int, size: int, access: str) -> None:
        """Raise `AccessFault` unless the bytes are memory, as registers cannot be reserved.

        See the choice `refsi/reserve-registers`.
        """
        place = self._memory.locate(address, size, self.unit, _ACCESS[access])
        if place.ram is None:
            raise AccessFault(
                f"reservation of {size} bytes at {address:#x}: {place.mapping.name} holds registers, expected memory",
                address=address,
                access="reserve",
            )

    def load_uncached(self, address: int, size: int) -> int:
        """Load from memory for load-reserved, after writing back and dropping the hart's own cache line."""
        place = self._memory.locate(address, size, self.unit, "read")
        self._drop(place)
        return self.load(address, size) if place.ram is None else int.from_bytes(read_place(place), "little")

    def exchange(self, address: int, size: int, new: Callable[[int], int]) -> int:
        """Replace the number at `address` by `new(old)`, where `old` is the present number; return the old number.

        This method implements atomic operations and store-conditional."""
        place = self._writable(address, size)
        self._memory.locate(address, size, self.unit, "read")
        self._drop(place)
        if place.ram is None:
            old = self.load(address, size)
            self.store(address, size, new(old))
            return old
        old = int.from_bytes(read_place(place), "little")
        write_place(place, (new(old) & ((1 << 8 * size) - 1)).to_bytes(size, "little"))
        self._memory.wrote(place)
        return old

    def _load_cached(self, place: Location) -> bytes:
        memory, hart = self._memory, self.unit.index
        assert memory.caches is not None
        parts = []
        for start, length in place.runs():
            seen = memory.caches.load(hart, start, length)
            if memory.hears_of_stale_reads:
                memory.report_stale(self.unit, start, seen, hart)
            parts.append(seen)
        return b"".join(parts)

    def _writable(self, address: int, size: int) -> Location:
        place = self._memory.locate(address, size, self.unit, "write")
        if self._memory.protected(place):
            raise AccessFault(
                f"write of {size} bytes at {address:#x} by {unit_name(self.unit)} into the Kernel Uniform Block, "
                "which kernels must not write",
                address=address,
                access="write",
                rule=rules.KUB_READ_ONLY,
            )
        return place

    def _drop(self, place: Location) -> None:
        memory = self._memory
        if memory.caches is not None and memory.cached(place):
            for start, length in place.runs():
                memory.caches.drop(self.unit.index, start, length)

    def _reach(self, address: int, access: str) -> tuple[int, int, int] | None:
        """Return the range around `address` that engines may access directly; None without such a range.

        It has three items: start and end of the range, and host minus guest address in it.
        """
        generation, last = self._reached.get(access, (-1, (0, 0, 0)))
        if generation == self._memory.generation and last[0] <= address < last[1]:
            return last
        generation, first, end = self._registers.get(access, (-1, 0, 0))
        if generation == self._memory.generation and first <= address < end:
            return None
        found = self._direct(address, access)
        if found is None or found[2].ram is None:
            return None
        start, end, place = found
        assert place.ram is not None
        addend = (place.ram.base_host + place.physical - place.mapping.base - address) & MASK64
        self._reached[access] = (self._memory.generation, (start, end, addend))
        return start, end, addend

    def _direct(self, address: int, access: str) -> tuple[int, int, Location] | None:
        """Return the range around `address` that engines may access directly; None without such a range.

        It has three items: start and end of the range, and the location of `address`.
        """
        memory = self._memory
        found = memory.decoder.span(address, self.unit, _ACCESS[access])
        if found is not None and found[2].ram is None:
            self._registers[access] = memory.generation, found[0], found[1]
        if found is None or found[2].ram is None or memory.cached(found[2]):
            return None
        start, end, place = found
        distance = address - place.physical
        if access == "store":
            for first, last in memory.protected_ranges:
                low, high = first + distance, last + distance
                if high <= address:
                    start = max(start, high)
                elif address < low:
                    end = min(end, low)
                else:
                    return None
        return start, end, place
