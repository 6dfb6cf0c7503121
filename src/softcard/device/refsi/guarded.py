"""A hart's port to memory and an allocator for guarded memory, whose accesses outside of allocations are reported.

Harts access a page directly only if the whole page is in one live allocation. Every other access to DRAM goes
through this port. The port reports a wrong access before it happens; the access then has the same effect as
without the check. The windows that divide TCDM have exact bounds, so accesses to TCDM need no check."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final, TypeVar

from softcard.core.allocations import HOST, AccessOrigin, Allocator, Guard
from softcard.core.errors import AccessFault
from softcard.core.space import PAGE_SIZE
from softcard.core.words import align_down
from softcard.device.refsi.registers import DRAM_BASE, DRAM_SIZE
from softcard.device.refsi.spec.port import SpecPort
from softcard.engine.riscv.tracepoints import registers_of
from softcard.isa.riscv.state import Hart

QUARANTINED: Final = 256
"""The maximum number of freed allocations whose addresses are kept from reuse, to detect accesses to them."""
GAP: Final = 1 << 16
"""The size of the guard zone after an allocation, in bytes."""
Result = TypeVar("Result")


class GuardedPort:
    """A `SpecPort` whose accesses to DRAM are checked; `hart` returns the accessing hart."""

    def __init__(self, port: SpecPort, guard: Guard, hart: Callable[[], Hart]) -> None:
        self._port = port
        self._guard = guard
        self._hart = hart
        self.unit = port.unit
        self.forget = port.forget
        self.fetch = port.fetch
        self.place = port.place

    def load(self, address: int, size: int) -> int:
        """Check and execute a load; see `SpecPort.load`."""
        return self._reported("read", address, size, lambda: self._port.load(address, size))

    def store(self, address: int, size: int, value: int) -> None:
        """Check and execute a store; see `SpecPort.store`."""
        self._reported("write", address, size, lambda: self._port.store(address, size, value))

    def load_uncached(self, address: int, size: int) -> int:
        """Check and execute a load that bypasses caches; see `SpecPort.load_uncached`."""
        return self._reported("read", address, size, lambda: self._port.load_uncached(address, size))

    def exchange(self, address: int, size: int, new: Callable[[int], int]) -> int:
        """Check and execute a read-modify-write; see `SpecPort.exchange`."""
        return self._reported("atomic", address, size, lambda: self._port.exchange(address, size, new))

    def check_reservable(self, address: int, size: int, access: str) -> None:
        """Raise an error unless LR and SC may access `size` bytes at `address`; see `SpecPort.check_reservable`.

        This method does not check that the bytes are in an allocation."""
        self._port.check_reservable(address, size, access)

    def page(self, address: int, access: str) -> int | None:
        """Return the host address minus the guest address for a page that is wholly in one allocation.

        Return None for other pages. See `SpecPort.page`."""
        start, end = self.extent(address, access)
        page = align_down(address, PAGE_SIZE)
        return self._port.page(address, access) if start <= page and page + PAGE_SIZE <= end else None

    def whole_page(self, address: int) -> int | None:
        """Return the host address minus the guest address for the page of `address`, allocated or not.

        The result is for loads that the memory check does not observe. See `SpecPort.page`."""
        return self._port.page(address, "load")

    def extent(self, address: int, access: str) -> tuple[int, int]:
        """Return the range around `address` in which the result of `page` is valid.

        In DRAM the range is limited to one allocation; see `SpecPort.extent`."""
        start, end = self._port.extent(address, access)
        physical = self._port.physical(address, access)
        if start == end or physical is None or not _is_dram(physical):
            return start, end
        found, _ = self._guard.allocations.around(physical)
        if found is None or found.freed or physical >= found.end:
            return address, address
        distance = address - physical
        return max(start, found.base + distance), min(end, found.end + distance)

    def _reported(self, access: str, address: int, size: int, make: Callable[[], Result]) -> Result:
        physical = self._port.physical(address, "load" if access == "read" else "store")
        is_valid = True
        if physical is not None and _is_dram(physical):
            is_valid = self._guard.check(access, size, physical, self._origin())
        try:
            return make()
        except AccessFault as fault:
            if is_valid:
                self._guard.refused(access, size, address, self._origin(), fault.message)
            raise

    def _origin(self) -> AccessOrigin:
        hart = self._hart()
        return AccessOrigin(hart.pc, unit=f"hart {hart.index}", registers=lambda lane: registers_of(hart, hart.pc, ""))


class GuardedAllocator:
    """An allocator that records allocations in a guard, and delays the reuse of freed addresses.

    `changed` is called when memory was freed. Harts must then not access the memory's pages directly any more."""

    def __init__(self, allocator: Allocator, guard: Guard, changed: Callable[[], None]) -> None:
        self._allocator = allocator
        self._guard = guard
        self._changed = changed
        self._quarantine: deque[int] = deque()

    def reset(self) -> None:
        """Forget all allocations."""
        self._quarantine.clear()
        for each in self._guard.allocations:
            self._guard.allocations.forget(each.base)

    def allocate(self, size: int, alignment: int) -> int:
        """Allocate `size` bytes, with a guard zone after them if there is room for one; see `Allocator.allocate`."""
        address = self._allocator.allocate(size + GAP, alignment) or self._allocator.allocate(size, alignment)
        if address:
            self._guard.allocations.add("device memory", address, max(size, 1), HOST)
        return address

    def taken(self, address: int, size: int) -> None:
        """Record that a program's segments occupy `size` bytes at `address`."""
        self._guard.allocations.add("program", address, size, HOST)

    def free(self, address: int) -> None:
        """Free the allocation that starts at `address`; report an error of the program if no allocation starts
        there."""
        freed = self._guard.freed(address)
        if freed is None:
            return
        self._quarantine.append(address)
        if len(self._quarantine) > QUARANTINED:
            oldest = self._quarantine.popleft()
            self._guard.allocations.forget(oldest)
            self._allocator.free(oldest)
        if freed.size >= PAGE_SIZE:  # smaller allocations share pages and are never accessed directly
            self._changed()


def _is_dram(address: int) -> bool:
    return DRAM_BASE <= address < DRAM_BASE + DRAM_SIZE
