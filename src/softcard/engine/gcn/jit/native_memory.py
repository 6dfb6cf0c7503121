"""Memory accesses of translated code, lane by lane: address translation in any space, and data movement."""

from __future__ import annotations

import ctypes
from typing import Final

from softcard.core.space import PAGE_BITS
from softcard.engine.gcn.jit.layout import CHECKED, GDS_BASE, GDS_SIZE, SPACES, TABLES
from softcard.engine.gcn.memory import ADDEND, COLUMNS, ENTRIES, GIB_BITS, SIZE, START, STORES
from softcard.ir.native import U8, U16, U32, U64, inlined, layout, lowest_bit, native
from softcard.isa.gcn.state import (
    FLAT_AT,
    FLAT_BASE,
    FLAT_FORM,
    FORM_ADDRESS,
    FORM_OFFSET,
    LDS_BASE,
    LDS_NOTE,
    LDS_SIZE,
    NOTE_SIZE,
    NOTE_STORE,
    PRIVATE_BASE,
    SCRATCH_AT,
    SCRATCH_SIZE,
    SHARED_BASE,
    WORDS_AT,
)

ROW_BYTES: Final = 8 * COLUMNS
LOWER: Final = 0xFFFF_FFFF
SCRATCH_ROW: Final = 256
"""The distance in bytes between consecutive dwords of a lane in private memory."""
NOWHERE, BEYOND = 0, 1
"""Results instead of a host address: `NOWHERE` for memory that is not directly accessible.

`BEYOND` stands for memory past the end of LDS or GDS, which reads as 0 and ignores stores. If accesses are checked, the
result is always `NOWHERE`.
"""
FLAT, LDS, GDS = SPACES.index("flat"), SPACES.index("lds"), SPACES.index("gds")


@layout
class InlineCache(ctypes.Structure):
    """The inline cache of an access: the range of memory that the access used last, see `layout.INLINE_CACHE`."""

    start: int
    limit: int
    addend: int


@inlined
def page_row(tables: int, address: int, none: int) -> int:
    """Return the address of a page's row in the page tables at `tables`; `none` if the page has no level-2 table."""
    table = U64.at(tables)[address >> GIB_BITS & ENTRIES - 1]
    return table + (address >> PAGE_BITS & ENTRIES - 1) * ROW_BYTES if table else none


@inlined
def within(offset: int, size: int, room: int) -> int:
    """Return 1 if the `size` bytes from `offset` on are inside a range of `room` bytes, else 0."""
    return offset < room - min(room, size - 1)


@inlined
def host_address(tables: int, address: int, size: int, store: int) -> int:
    """Return the host address of `size` bytes at a guest address; `NOWHERE` if they are not plain memory."""
    row = page_row(tables, address, 0)
    if not row:
        return NOWHERE
    run = U64.at(row)
    room = run[STORES] if store else run[SIZE]
    return address + run[ADDEND] if within(address - run[START], size, room) else NOWHERE


@native
def note(wave: int, address: int, store: int, cache: InlineCache) -> None:
    """Fill an inline cache with the range of plain memory around an address, if plain memory is mapped there."""
    row = page_row(U64.at(wave + WORDS_AT)[TABLES], address, 0)
    if row:
        run = U64.at(row)
        cache.start, cache.addend = run[START], run[ADDEND]
        cache.limit = run[STORES] if store else run[SIZE]


@native
def reach(wave: int, space: int, address: int, size: int, store: int) -> int:
    """Return the host address of the `size` bytes that one lane accesses at `address` in an address space.

    Return `NOWHERE` if the access cannot be executed directly. For bytes past the end of LDS or GDS return
    `BEYOND`, or `NOWHERE` if the memory check reports such accesses."""
    words, lower = U64.at(wave + WORDS_AT), address & LOWER
    aperture = address - lower if space == FLAT else 1
    if space == LDS or aperture == words[SHARED_BASE]:
        base, room = words[LDS_BASE], words[LDS_SIZE]
    elif space == GDS:
        base, room = words[GDS_BASE], words[GDS_SIZE]
    elif aperture == words[PRIVATE_BASE]:
        return NOWHERE
    else:
        return host_address(words[TABLES], address, size, store)
    if within(lower, size, room):
        return base + lower
    if space != GDS:
        note_beyond(wave, lower, size, store)
    return BEYOND & ~words[CHECKED]


@inlined
def note_beyond(wave: int, offset: int, size: int, store: int) -> None:
    """Record an access past the end of LDS, if the launch records such accesses."""
    cell = U64.at(wave + WORDS_AT)[LDS_NOTE]
    if cell:
        U64[cell] = offset & LOWER | size << NOTE_SIZE | store << NOTE_STORE


@native
def by_lane(
    wave: int, space: int, store: int, size: int, addresses: int, data: int, mask: int, first: int, lanes: int
) -> int:
    """Load or store `size` bytes of each lane in a mask.

    The data is in memory as rows of `lanes` dwords, one dword for each lane; a row's first dword belongs to lane
    `first` of the wave. Return 1 if the reference engine has to execute the access, else 0.
    """
    words = U64.at(wave + WORDS_AT)
    while mask:
        lane = lowest_bit(mask)
        mask &= mask - 1
        address, at = U64.at(addresses)[lane], data + 4 * lane
        if space == FLAT and address & ~LOWER == words[PRIVATE_BASE]:
            if not by_dword(wave, store, size, address & LOWER, at, first + lane, lanes):
                return 1
        else:
            host = reach(wave, space, address, size, store)
            if host == NOWHERE:
                return 1
            if host != BEYOND:
                move(store, size, host, at, lanes)
    return 0


@inlined
def by_dword(wave: int, store: int, size: int, offset: int, at: int, lane: int, lanes: int) -> int:
    """Load or store `size` bytes at `offset` in the private memory of lane `lane`.

    The data is at host address `at`, in dwords that are `lanes` dwords apart. Return 0 if the reference engine
    has to execute the access, else 1."""
    words = U64.at(wave + WORDS_AT)
    scratch, room = words[SCRATCH_AT], words[SCRATCH_SIZE]
    pair = U64[wave + words[FLAT_AT]]
    if words[FLAT_FORM] == FORM_ADDRESS:
        scratch = pair
    elif words[FLAT_FORM] == FORM_OFFSET:
        scratch, room = words[FLAT_BASE] + (pair >> 32 << 8), min(pair & LOWER, room)
    part = min(size, 4)
    if not within(offset, size, room) or (offset & 3) + part > 4:
        return 0
    guest = scratch + (offset >> 2) * SCRATCH_ROW + 4 * lane + (offset & 3)
    for dword in range(max(size >> 2, 1)):
        host = host_address(words[TABLES], guest + dword * SCRATCH_ROW, part, store)
        if not host:
            return 0
        move(store, part, host, at + 4 * dword * lanes, lanes)
    return 1


@inlined
def in_order(size: int, places: int, data: int, mask: int) -> None:
    """Store 8, 12 or 16 bytes of each lane in a mask at the lane's host address, one lane after the other.

    `places` is the address of the array of these host addresses, and `data` that of the lanes' bytes, with those of
    all lanes one after the other."""
    while mask:
        lane = lowest_bit(mask)
        mask &= mask - 1
        host, at = U64.at(places)[lane], data + size * lane
        U64[host] = U64[at]
        if size == 12:
            U32[host + 8] = U32[at + 8]
        elif size == 16:
            U64[host + 8] = U64[at + 8]


@native
def move(store: int, size: int, host: int, at: int, lanes: int) -> None:
    """Copy `size` bytes of one lane between host memory at `host` and dwords at `at`.

    If `store`, copy to host memory, otherwise to the dwords. Successive dwords are `lanes` dwords apart. Loaded
    bytes and halfwords are zero-extended."""
    if size == 1:
        if store:
            U8[host] = U32[at]
        else:
            U32[at] = U8[host]
    elif size == 2:
        if store:
            U16[host] = U32[at]
        else:
            U32[at] = U16[host]
    else:
        memory, column = U32.at(host), U32.at(at)
        for dword in range(size >> 2):
            if store:
                memory[dword] = column[dword * lanes]
            else:
                column[dword * lanes] = memory[dword]
