"""A hart's way to memory under the check of memory: what lies in no allocation is judged before it is accessed.

Harts reach a page directly only where one living allocation has all of it. Every other access to DRAM comes through the
port, is told of if it is wrong, and finds and leaves what it would without the check. TCDM is shared out by windows,
whose bounds are exact already.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final, TypeVar

from understudy.core.allocator import Allocator
from understudy.core.errors import AccessFault
from understudy.core.memory_check import HOST, REFUSED, MemoryCheck, Sight, finding
from understudy.core.space import PAGE_SIZE
from understudy.core.words import align_down
from understudy.device.refsi.registers import DRAM_BASE, DRAM_SIZE
from understudy.device.refsi.spec.port import SpecPort
from understudy.isa.riscv.state import Hart

KEPT: Final = 256
"""Freed allocations whose addresses are given to nobody."""
GAP: Final = 1 << 16
"""Bytes behind an allocation that are given to nobody."""
Result = TypeVar("Result")


class CheckedPort:
    """A `SpecPort` whose accesses are judged; `hart` gives the hart that makes them."""

    def __init__(self, port: SpecPort, check: MemoryCheck, hart: Callable[[], Hart]) -> None:
        self._port = port
        self._check = check
        self._hart = hart
        self.unit = port.unit
        self.forget = port.forget
        self.fetch = port.fetch
        self.place = port.place

    def load(self, address: int, size: int) -> int:
        """See `SpecPort.load`."""
        return self._told("read", address, size, lambda: self._port.load(address, size))

    def store(self, address: int, size: int, value: int) -> None:
        """See `SpecPort.store`."""
        self._told("write", address, size, lambda: self._port.store(address, size, value))

    def load_uncached(self, address: int, size: int) -> int:
        """See `SpecPort.load_uncached`."""
        return self._told("read", address, size, lambda: self._port.load_uncached(address, size))

    def exchange(self, address: int, size: int, new: Callable[[int], int]) -> int:
        """See `SpecPort.exchange`."""
        return self._told("atomic", address, size, lambda: self._port.exchange(address, size, new))

    def check_reservable(self, address: int, size: int, access: str) -> None:
        """See `SpecPort.check_reservable`."""
        self._port.check_reservable(address, size, access)

    def page(self, address: int, access: str) -> int | None:
        """See `SpecPort.page`; None for pages that are not one allocation's as a whole."""
        start, end = self.extent(address, access)
        page = align_down(address, PAGE_SIZE)
        return self._port.page(address, access) if start <= page and page + PAGE_SIZE <= end else None

    def whole_page(self, address: int) -> int | None:
        """See `SpecPort.page`, for loads: whoever's it is."""
        return self._port.page(address, "load")

    def extent(self, address: int, access: str) -> tuple[int, int]:
        """See `SpecPort.extent`: the part of it that is memory of one allocation, or no DRAM at all."""
        start, end = self._port.extent(address, access)
        physical = self._port.physical(address, access)
        if start == end or physical is None or not _is_dram(physical):
            return start, end
        found, _ = self._check.allocations.around(physical)
        if found is None or found.freed or physical >= found.end:
            return address, address
        distance = address - physical
        return max(start, found.base + distance), min(end, found.end + distance)

    def _told(self, access: str, address: int, size: int, make: Callable[[], Result]) -> Result:
        physical = self._port.physical(address, "load" if access == "read" else "store")
        sights = self._check.log.sights
        if physical is not None and _is_dram(physical):
            self._check.judge(access, size, physical, self._sight())
        try:
            return make()
        except AccessFault as fault:
            if self._check.log.sights == sights:
                text = fault.message
                made = finding(REFUSED, text, self._sight(), access=access, address=address, size=size)
                self._check.log.note(made)
            raise

    def _sight(self) -> Sight:
        hart = self._hart()
        return Sight(hart.pc, unit=f"hart {hart.index}")


class CheckedAllocator:
    """What a check knows of a device's allocations; the allocator gets freed addresses back with some delay.

    `changed` is called where harts must not go directly to a page any more.
    """

    def __init__(self, allocator: Allocator, check: MemoryCheck, changed: Callable[[], None]) -> None:
        self._allocator = allocator
        self._check = check
        self._changed = changed
        self._quarantine: deque[int] = deque()

    def reset(self) -> None:
        """Nothing is allocated any more."""
        self._quarantine.clear()
        for each in self._check.allocations:
            self._check.allocations.forget(each.base)

    def allocate(self, size: int, alignment: int) -> int:
        """See `Allocator.allocate`. What is behind is nobody's, where there is room for that."""
        address = self._allocator.allocate(size + GAP, alignment) or self._allocator.allocate(size, alignment)
        if address:
            self._check.allocations.add("device memory", address, max(size, 1), HOST)
        return address

    def taken(self, address: int, size: int) -> None:
        """A program's segments lie there from now on."""
        self._check.allocations.add("program", address, size, HOST)

    def free(self, address: int) -> None:
        """Give memory back, or tell that it is none that could be."""
        freed = self._check.freed(address)
        if freed is None:
            return
        self._quarantine.append(address)
        if len(self._quarantine) > KEPT:
            oldest = self._quarantine.popleft()
            self._check.allocations.forget(oldest)
            self._allocator.free(oldest)
        if freed.size >= PAGE_SIZE:  # what has no page for itself is never reached directly
            self._changed()


def _is_dram(address: int) -> bool:
    return DRAM_BASE <= address < DRAM_BASE + DRAM_SIZE
