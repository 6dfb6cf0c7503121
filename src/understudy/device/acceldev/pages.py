"""Page tables: from virtual addresses of a buffer to physical ones."""

from __future__ import annotations

from contextlib import suppress
from typing import Final

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

PAGE_BITS: Final = 12


class PageFault(AccessFault):
    """A virtual address that a page table does not present. `address` is the virtual one."""


def read_entries(memory: Memory, table: int, address: int, size: int) -> bytes:
    """`size` bytes at `address` of a page table. `AccessFault` where that is no memory."""
    try:
        return memory.read(address, size)
    except AccessFault as fault:
        raise explained(fault, f"page table at {table:#x}", rules.TABLE_ADDRESS) from fault


def not_presented(table: int, virtual: int, entry: int) -> PageFault:
    """What to raise where a page table does not present a virtual address, `entry` being what it says of it."""
    if virtual >= BUFFER_BYTES:
        return _fault(
            f"virtual address {virtual:#x}, expected one below {BUFFER_BYTES:#x} (22 bits)",
            virtual,
            rules.VIRTUAL_22_BIT,
        )
    return _fault(
        f"virtual address {virtual:#x}: entry {virtual >> PAGE_BITS} of the page table at {table:#x} is {entry:#010x}, "
        "expected PRESENT (bit 0)",
        virtual,
        rules.PTE_PRESENT,
    )


def no_page(memory: Memory, table: int, virtual: int, fault: AccessFault) -> AccessFault:
    """What to raise for `fault`: the entry that presents `virtual` is that of no page that can be accessed so."""
    index = virtual >> PAGE_BITS
    page = fault.address & ~PAGE_MASK
    entry = page >> PTE_SHIFT | PTE_PRESENT
    with suppress(AccessFault):  # unless it was changed since, it says more
        now = memory.word(table + index * PTE_BYTES)
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


def _fault(message: str, address: int, rule: Rule) -> PageFault:
    return PageFault(message, address=address, access="translate", rule=rule)
