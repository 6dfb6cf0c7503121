"""Guest memory of waves in native code: where it lies in this process."""

from __future__ import annotations

from typing import Final

from understudy.core.space import PAGE_BITS
from understudy.engine.gcn.memory import ADDEND, COLUMNS, ENTRIES, GIB_BITS, SIZE, START, STORES
from understudy.ir.native import U64, inlined

ROW_BYTES: Final = 8 * COLUMNS


@inlined
def page_row(tables: int, address: int) -> int:
    """The row of an address in the page tables at `tables`; 0 where it has none."""
    table = U64.at(tables)[address >> GIB_BITS & ENTRIES - 1]
    return table + (address >> PAGE_BITS & ENTRIES - 1) * ROW_BYTES if table else 0


@inlined
def host_address(tables: int, address: int, size: int, store: int) -> int:
    """Where `size` bytes at a guest address lie in this process; 0 where they cannot be reached directly."""
    row = page_row(tables, address)
    if not row:
        return 0
    run = U64.at(row)
    length = run[STORES] if store else run[SIZE]
    fits = address - run[START] < length - min(length, size - 1)
    return address + run[ADDEND] if fits else 0
