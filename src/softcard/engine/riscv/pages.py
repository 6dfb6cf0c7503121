"""Direct-mapped page tables of guest memory: the host address of each guest page, per hart.

Two flat tables (one for loads, one for stores) hold one word per 4 KiB guest page below 4 GiB. The word is host address
minus guest address, or 0 if an access must go through the hart's port. Two further tables (of ends) hold, for each
page, the first guest address after the contiguous memory with the same difference. A last row of each table, always 0,
stands for all addresses from 4 GiB on.

The modelled device may have a translation buffer, as some reference simulators do. Then a page is in the tables only
while it is in the buffer. Two more tables cache the difference of each page until `remapped` is called, so that a page
that returns to the buffer needs no lookup through the port.

Translated code and the reference engine read the same tables. So both see the same memory, including the stale
translations of a reference simulator.
"""

from __future__ import annotations

import ctypes
import sys
from typing import Final, TypeAlias

import numpy as np

from softcard.core.errors import AccessFault, ModelBug
from softcard.core.space import PAGE_BITS, PAGE_SIZE, Ram
from softcard.isa.riscv.port import has_extents
from softcard.isa.riscv.state import (
    KNOWN_LOADS,
    KNOWN_STORES,
    LOAD_ENDS,
    LOAD_TABLE,
    STORE_ENDS,
    STORE_TABLE,
    TLB,
    TLB_MASK,
    Hart,
)

TABLE_PAGES: Final = 1 << (32 - PAGE_BITS)
LIMIT: Final = 1 << 32
CHUNK: Final = 256
"""The largest number of pages that are entered in the tables at one miss, if the port knows that they are contiguous.
"""
MASK64: Final = (1 << 64) - 1
Words: TypeAlias = "np.ndarray[tuple[int, ...], np.dtype[np.uint64]]"

if sys.byteorder != "little":
    raise ModelBug("the host is big-endian, expected a little-endian host, which shares its memory with guests")

_CELL = {1: ctypes.c_uint8, 2: ctypes.c_uint16, 4: ctypes.c_uint32, 8: ctypes.c_uint64}


def peek(host: int, size: int) -> int:
    """Return the little-endian number of `size` (1, 2, 4, 8) bytes at a host address."""
    return int(_CELL[size].from_address(host).value)


def poke(host: int, size: int, value: int) -> None:
    """Store the low `size` bytes of `value` at a host address."""
    _CELL[size].from_address(host).value = value


def zeros(words: int) -> Words:
    """Return zeroed words that take no memory until they are written.

    A hart's tables are large, and mostly stay empty.
    """
    return np.frombuffer(Ram(8 * words).view, dtype=np.uint64)


class PageTables:
    """The page tables of one hart.

    If `tlb_entries` is given, the tables behave as a direct-mapped translation buffer with that many entries (a
    power of two): changes of memory windows have no effect on pages in the buffer until `flush`. Otherwise a miss
    fills the entries of all pages that the port knows to be contiguous. An entry of the buffer is a page number
    plus one, or 0 if it is free. `code_pages` contains the host pages that stores must not reach directly,
    because translated code was made from them."""

    def __init__(self, hart: Hart, code_pages: set[int], tlb_entries: int | None = None) -> None:
        self.hart = hart
        self.code_pages = code_pages
        self.tlb_entries = tlb_entries
        self._arrays = {name: zeros(TABLE_PAGES + 1) for name in ("load", "store")}
        self._ends = {name: zeros(TABLE_PAGES + 1) for name in ("load", "store")}
        self.load = self._arrays["load"].data.cast("B").cast("Q")
        self.store = self._arrays["store"].data.cast("B").cast("Q")
        self._filled: dict[str, list[tuple[int, int]]] = {"load": [], "store": []}
        self._tlb: Words = np.zeros(tlb_entries or 0, dtype=np.uint64)
        self._known = {name: zeros(TABLE_PAGES + 1) if tlb_entries else self._tlb for name in ("load", "store")}
        self._port = hart.port if tlb_entries and has_extents(hart.port) else None
        self._noted: list[int] = []
        """The guest pages whose host memory is cached until `remapped` is called."""
        hart.words[LOAD_TABLE] = int(self._arrays["load"].ctypes.data)
        hart.words[STORE_TABLE] = int(self._arrays["store"].ctypes.data)
        hart.words[LOAD_ENDS] = int(self._ends["load"].ctypes.data)
        hart.words[STORE_ENDS] = int(self._ends["store"].ctypes.data)
        hart.words[KNOWN_LOADS] = int(self._known["load"].ctypes.data)
        hart.words[KNOWN_STORES] = int(self._known["store"].ctypes.data)
        hart.words[TLB], hart.words[TLB_MASK] = int(self._tlb.ctypes.data), (tlb_entries or 1) - 1

    def fill(self, address: int, access: str) -> int:
        """Look up the page of `address` through the port, and enter it in the table for accesses of the kind `access`.

        Return the table's new word: host minus guest address, or 0 if accesses must go through the port."""
        if address >= LIMIT:
            return 0
        page = address >> PAGE_BITS
        if self.tlb_entries is not None and (known := int(self._known[access][page])):
            self._occupy(page)
            self._arrays[access][page] = known
            return known
        try:
            addend = self.hart.port.page(address, access)
        except AccessFault:
            return 0
        if addend is None:
            return 0
        if self.tlb_entries is not None:
            self._occupy(page)
            self._arrays[access][page] = addend & MASK64
            self._ends[access][page] = page + 1 << PAGE_BITS
            self._note(address, access, addend)
            return addend
        if access == "store" and self._holds_code(page, addend):
            return 0
        self._set(page, page + 1, access, addend)
        self._extend(address, access, addend)
        return addend

    def flush(self) -> None:
        """Empty the tables and the caches of all pages."""
        self.empty()
        self.remapped()

    def empty(self) -> None:
        """Empty the tables, and with them the simulated translation buffer."""
        for access, address_ranges in self._filled.items():
            array = self._arrays[access]
            for first, last in address_ranges:
                array[first:last] = 0
            address_ranges.clear()
        held = self._tlb[self._tlb != 0] - np.uint64(1)  # the tables have no other pages
        for array in self._arrays.values():
            array[held] = 0
        self._tlb[:] = 0

    def remapped(self) -> None:
        """Clear the cached differences between host and guest addresses of all pages.

        Addresses may map to other memory now. Pages in the translation buffer keep their table entries."""
        for known in self._known.values():
            known[self._noted] = 0
        self._noted.clear()

    def close(self) -> None:
        """Release the memory of the tables, for a hart that will not run any more."""
        for word in (LOAD_TABLE, STORE_TABLE, LOAD_ENDS, STORE_ENDS, KNOWN_LOADS, KNOWN_STORES, TLB):
            self.hart.words[word] = 0
        self.load = self.store = memoryview(b"").cast("Q")
        self._arrays, self._ends, self._filled = {}, {}, {"load": [], "store": []}
        self._known, self._noted, self._tlb = {}, [], self._tlb[:0].copy()

    def protect(self, host_page: int) -> None:
        """Make stores to this host page go through the port: remove the page from the tables for stores."""
        address_ranges = self._filled["store"]
        # Spans may overlap: find the pages in all of them before the first entry is cleared.
        gone = set(self._showing(host_page, address_ranges))
        for page in gone:
            self._arrays["store"][page] = 0
            for first, last in address_ranges:
                if first <= page < last:
                    ends = self._ends["store"][first:page]
                    np.minimum(ends, np.uint64(page << PAGE_BITS), out=ends)

    def _showing(self, host_page: int, address_ranges: list[tuple[int, int]]) -> list[int]:
        """Return the guest pages in `address_ranges` through which stores directly reach bytes of a host page."""
        if not address_ranges:
            return []
        addends = np.concatenate([self._arrays["store"][first:last] for first, last in address_ranges])
        pages = np.concatenate([np.arange(first, last, dtype=np.uint64) for first, last in address_ranges])
        from_first_host = (pages << np.uint64(PAGE_BITS)) + (addends - np.uint64((host_page - 1) * PAGE_SIZE + 1))
        found: list[int] = pages[(from_first_host < np.uint64(2 * PAGE_SIZE - 1)) & (addends != 0)].tolist()
        return found

    def _set(self, first: int, last: int, access: str, addend: int) -> None:
        self._arrays[access][first:last] = addend & MASK64
        self._ends[access][first:last] = last << PAGE_BITS
        address_ranges = self._filled[access]
        if address_ranges and address_ranges[-1][1] == first:
            address_ranges[-1] = (address_ranges[-1][0], last)
        else:
            address_ranges.append((first, last))

    def _extend(self, address: int, access: str, addend: int) -> None:
        port = self.hart.port
        if not has_extents(port):
            return
        start, end = port.extent(address, access)
        page = address >> PAGE_BITS
        first = max(-(-start // PAGE_SIZE), page & ~(CHUNK - 1))
        last = min(end // PAGE_SIZE, (page | (CHUNK - 1)) + 1, TABLE_PAGES)
        if last <= first:
            return
        if access == "store" and self.code_pages:
            host = ((first << PAGE_BITS) + addend) >> PAGE_BITS
            if any(host - 1 <= code <= host + (last - first) for code in self.code_pages):
                return
        self._set(first, last, access, addend)

    def _holds_code(self, page: int, addend: int) -> bool:
        host = ((page << PAGE_BITS) + addend) & MASK64
        return host >> PAGE_BITS in self.code_pages or (host + PAGE_SIZE - 1) >> PAGE_BITS in self.code_pages

    def _occupy(self, page: int) -> None:
        """Enter a page in the simulated translation buffer, in place of the page that had its entry.

        `jit.dispatcher.refill` does the same in compiled code.
        """
        assert self.tlb_entries is not None
        slot = page & self.tlb_entries - 1
        old = int(self._tlb[slot])
        if old not in (0, page + 1):
            self.load[old - 1] = 0
            self.store[old - 1] = 0
        self._tlb[slot] = page + 1

    def _note(self, address: int, access: str, addend: int) -> None:
        """Cache `addend` for the page of `address` if it applies to the whole page.

        `addend` is host minus guest address."""
        page = address >> PAGE_BITS
        if self._port is not None:
            start, end = self._port.extent(address, access)
            if start <= page << PAGE_BITS and page + 1 << PAGE_BITS <= end:
                self._known[access][page] = addend & MASK64
                self._noted.append(page)
