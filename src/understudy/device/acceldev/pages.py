"""Page tables: from virtual addresses of a buffer to physical ones."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

import numpy as np

from understudy.core.errors import AccessFault
from understudy.core.rule import Rule
from understudy.device.acceldev import rules
from understudy.device.acceldev.commands import (
    BUFFER_BYTES,
    MAX_TABLE,
    PAGE_MASK,
    PTE_BYTES,
    PTE_FRAME_MASK,
    PTE_PRESENT,
    PTE_SHIFT,
)
from understudy.device.acceldev.memory import Memory, explained
from understudy.device.acceldev.registers import ACCELDEV_PAGE_SIZE

PAGE_BITS: Final = 12


class PageFault(AccessFault):
    """A virtual address that a page table does not present. `address` is the virtual one."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Bytes of a buffer that lie together in physical memory."""

    virtual: int
    physical: int
    size: int


@dataclass(frozen=True, slots=True)
class Translation:
    """The pieces of a range in ascending order, up to where a page was missing; `fault` says so."""

    pieces: tuple[Piece, ...]
    fault: PageFault | None = None


def translate(memory: Memory, table: int, start: int, size: int) -> Translation:
    """Physical pieces of `size` bytes at virtual address `start` of the buffer with page table `table`.

    All entries are read at once; neighbours are merged. `AccessFault` where the table itself cannot be read.
    """
    check_table(table)
    end = min(start + size, BUFFER_BYTES)
    if start >= BUFFER_BYTES:
        return Translation((), _beyond(start))
    first, last = start >> PAGE_BITS, (end - 1) >> PAGE_BITS
    count = last - first + 1
    entries = np.frombuffer(_entries(memory, table, first, count), dtype="<u4")
    absent = np.flatnonzero((entries & PTE_PRESENT) == 0)
    usable = int(absent[0]) if absent.size else count
    fault = None
    if usable < count:
        virtual = max(start, (first + usable) << PAGE_BITS)
        fault = _absent(virtual, table, int(entries[usable]))
        end = min(end, (first + usable) << PAGE_BITS)
    elif start + size > BUFFER_BYTES:
        fault = _beyond(BUFFER_BYTES)
    return Translation(tuple(_merge(entries[:usable], start, end)), fault)


def locate(memory: Memory, table: int, virtual: int) -> int:
    """Physical address of one byte; `PageFault` where the table does not present it."""
    check_table(table)
    if virtual >= BUFFER_BYTES:
        raise _beyond(virtual)
    entry = int.from_bytes(_entries(memory, table, virtual >> PAGE_BITS, 1), "little")
    if not entry & PTE_PRESENT:
        raise _absent(virtual, table, entry)
    return (entry & PTE_FRAME_MASK) << PTE_SHIFT | virtual & PAGE_MASK


def no_page(memory: Memory, table: int, virtual: int, fault: AccessFault) -> AccessFault:
    """What to raise for `fault`: the entry that presents `virtual` is that of no page that can be accessed so."""
    index = virtual >> PAGE_BITS
    page = fault.address & ~PAGE_MASK
    entry = page >> PTE_SHIFT | PTE_PRESENT
    with suppress(AccessFault):  # unless it was changed since, it says more
        now = int.from_bytes(_entries(memory, table, index, 1), "little")
        entry = now if now & (PTE_FRAME_MASK | PTE_PRESENT) == entry else entry
    return explained(
        fault,
        f"virtual address {virtual:#x}: entry {index} of the page table at {table:#x} is {entry:#010x}, "
        f"expected a page of memory, not {page:#x}",
        rules.PTE_PA,
    )


def check_table(table: int) -> None:
    """`PageFault` unless `table` is the address of a page of 40 bits."""
    if table > MAX_TABLE:
        raise _fault(f"page table at {table:#x}, expected an address of 40 bits", table, rules.PHYSICAL_40_BIT)
    if table & PAGE_MASK:
        raise _fault(f"page table at {table:#x}, expected a multiple of 4 KiB", table, rules.TABLE_ADDRESS)


def _entries(memory: Memory, table: int, first: int, count: int) -> bytes:
    try:
        return memory.read(table + first * PTE_BYTES, count * PTE_BYTES)
    except AccessFault as fault:
        raise explained(fault, f"page table at {table:#x}", rules.TABLE_ADDRESS) from fault


def _merge(entries: np.ndarray[tuple[int], np.dtype[np.uint32]], start: int, end: int) -> Iterator[Piece]:
    """Pieces of pages that follow each other; bytes before `start` and from `end` on are left out."""
    if end <= start:
        return
    pages = (entries & np.uint32(PTE_FRAME_MASK)).astype(np.uint64) << np.uint64(PTE_SHIFT)
    breaks = np.flatnonzero(np.diff(pages) != ACCELDEV_PAGE_SIZE) + 1
    base = start & ~PAGE_MASK
    for first, behind in zip([0, *breaks.tolist()], [*breaks.tolist(), len(pages)], strict=True):
        low = max(start, base + first * ACCELDEV_PAGE_SIZE)
        high = min(end, base + behind * ACCELDEV_PAGE_SIZE)
        physical = int(pages[first]) + low - (base + first * ACCELDEV_PAGE_SIZE)
        yield Piece(low, physical, high - low)


def _beyond(virtual: int) -> PageFault:
    return _fault(
        f"virtual address {virtual:#x}, expected one below {BUFFER_BYTES:#x} (22 bits)", virtual, rules.VIRTUAL_22_BIT
    )


def _absent(virtual: int, table: int, entry: int) -> PageFault:
    index = virtual >> PAGE_BITS
    return _fault(
        f"virtual address {virtual:#x}: entry {index} of the page table at {table:#x} is {entry:#010x}, "
        "expected PRESENT (bit 0)",
        virtual,
        rules.PTE_PRESENT,
    )


def _fault(message: str, address: int, rule: Rule) -> PageFault:
    return PageFault(message, address=address, access="translate", rule=rule)
