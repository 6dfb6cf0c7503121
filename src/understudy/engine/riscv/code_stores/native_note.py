"""Noting stores, compiled: what translated code calls where it does not note them in line."""

from __future__ import annotations

import ctypes
from typing import Final

from understudy.engine.riscv.code_stores.codes import (
    DISTANCE,
    NUMBERS,
    PARCELS,
    SITES,
    HartRow,
    NumberRow,
    SiteRow,
    Stores,
)
from understudy.ir.native import U16, U64, native

NUMBER_BYTES: Final = ctypes.sizeof(NumberRow)
SITE_BYTES: Final = ctypes.sizeof(SiteRow)


@native
def ready(row: HartRow, pc: int) -> int:
    """The number of an instruction, in four parcels; 0 where there is none left."""
    stores = Stores.from_address(row.stores)
    key, site = stores.stretch | pc, SiteRow.from_address(row.sites + (pc >> 1 & SITES - 1) * SITE_BYTES)
    if site.key != key:
        if stores.next >= NUMBERS:
            return 0
        made = NumberRow.from_address(stores.numbers + stores.next * NUMBER_BYTES)
        made.key, made.hart = key, row.hart
        site.key, site.parcels = key, stores.next * PARCELS
        stores.next += 1
    return site.parcels


@native
def note(row: HartRow, pc: int, host: int, size: int) -> int:
    """Bytes of this process are stored by an instruction; 1 where that has no number, and nothing was done."""
    parcels = ready(row, pc)
    if parcels == 0:
        return 1
    at, end = (host & ~1) + DISTANCE, host + size + DISTANCE
    while at < end and at & 7:
        U16[at] = parcels & 0xFFFF
        at += 2
    while at + 8 <= end:
        U64[at] = parcels
        at += 8
    while at < end:
        U16[at] = parcels & 0xFFFF
        at += 2
    return 0
