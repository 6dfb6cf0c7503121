"""Access records as words, shared by compiled code and Python: the event that accessed each byte last.

An event is all accesses of one hart by one instruction within one epoch. A record (*code*) has 32 bits. From the upper
bits down these are: the number of the event, a bit for accesses of the extension A, the hart, and the accessed bytes of
a dword of 4 bytes (`BYTES`). Events are numbered in the order of their creation. So the records of all events that
happened before lie below a bound: either one bound for all harts (`Race.watermark`), or one from the clock of a hart.
The record 0 means no event.

Each memory has shadow memory in arrays of records, one word for each dword: one array for the last store, and one array
per hart for the hart's last load of the stored value. If the bytes of a dword have different records, the word has
`SPLIT` set and contains the index of a table row with the bytes' records.
"""

from __future__ import annotations

import ctypes
from typing import Final

from softcard.ir.native import layout, numbers

BYTES: Final = 15
SLOT_AT: Final = 4
SPLIT_AT: Final = 31
SPLIT: Final = 1 << SPLIT_AT
LIMIT: Final = SPLIT
"""The upper bound of access records: all records are smaller."""
MOST_HARTS: Final = 64

# A kind of access, and from bit `SIZE_AT` on its bytes.
READ: Final = 0
WRITE: Final = 1
ATOMIC: Final = 2
KIND: Final = 3
IS_ATOMIC: Final = 4
"""The bit that is set in a kind of access if the access is by an instruction of the extension A."""
ACQUIRES: Final = 8
RELEASES: Final = 16
SIZE_AT: Final = 8
NAMES: Final = ("read", "write", "atomic")
KEY_BITS: Final = 3
"""The number of bits below the pc in the key of an event; they hold the kind of access."""

FINE: Final = 0
WAITS: Final = 1
"""The check result if the hart's next instruction decides whether the access races: a fence may order it."""
LEAVE: Final = 2
"""The check result if Python must check the access; the compiled check has changed nothing."""

NEVER: Final = (1 << 64) - 1
"""A value of `epoch_id` that inline cache entries never have."""
CACHES: Final = 256
"""The number of inline cache entries of a hart."""
ENTRIES: Final = 1 << 15
"""The number of rows in the table of a hart's last events by instruction."""
MOVING: Final = 1 << 16
"""The number of rows in the table of byte ranges that DMA transfers read or write."""
PENDING: Final = 64
"""The maximum number of pending possible races of one hart that compiled code can record without Python."""
CLOCK_BYTES: Final = 1 << 30
EVENT_ROOM: Final = 1 << 30
SPLIT_BYTES: Final = 16
SPLITS: Final = 1 << 26
PAGE_SLOTS: Final = 1 << 16
"""The number of rows in the table of accessed pages, of which at most half are used."""

NO_EVENTS: Final = 1
NO_CLOCKS: Final = 2
NO_SPLITS: Final = 3
NO_SITES: Final = 4
NO_PAGES: Final = 5
FULL: Final = {
    NO_EVENTS: "the accesses between two barriers that access records can number",
    NO_CLOCKS: f"{CLOCK_BYTES >> 20} MiB of clocks that harts release between two barriers",
    NO_SPLITS: f"{SPLITS} dwords whose bytes were accessed separately",
    NO_SITES: f"{ENTRIES // 2} instructions of one hart that access memory",
    NO_PAGES: f"{PAGE_SLOTS // 2} pages of memory, if the host accesses memory before it waits for them",
}
"""The limits that a group of instances can exceed, in words for the error message, by the exceeded limit's number."""


@layout
class Race(ctypes.Structure):
    """The state of the race check that all harts of a device share. Tables are given by their host addresses."""

    harts: int
    slot_mask: int
    """The mask of the bits that contain the hart in an access record."""
    atomic: int
    """The bit of an access record that is set for accesses of the extension A."""
    number_at: int
    """The lowest bit of the event number in an access record."""
    step: int
    """The difference between the access records of consecutive events."""
    next: int
    watermark: int
    """The happens-before watermark: an event with a record below it happened before all accesses from now on."""
    events: int
    rows: int
    clocks: int
    clock_free: int
    clock_end: int
    nothing: int
    """The address of a clock that contains nothing."""
    splits: int
    split_count: int
    moving: int
    moving_count: int
    rams: int
    ram_count: int
    epoch_id: int
    """The last unique number that was given to an epoch of a hart."""
    remembers: int
    """True if accesses are remembered across barriers.

    That is so while the host has not waited for the kernels that made them.
    """
    pages: int
    page_count: int
    """The number of pages of this process that were accessed while `remembers` is set."""
    full: int
    """The number of the exceeded limit (see `FULL`), or 0."""


@layout
class HartRow(ctypes.Structure):
    """The state of one hart for the race check, and the addresses of the functions that its translated code calls."""

    race: int
    slot: int
    own: int
    """The bits that identify the hart in its access records."""
    epoch_id: int
    """A number unique to this epoch of this hart; the hart's events are valid for one epoch."""
    armed: int
    """A number unique to this epoch of the hart and to the DMA transfers known to it.

    Inline cache entries with this number are valid.
    """
    fast_id: int
    """Equal to `armed` while accesses need only a test of shadow memory; else `NEVER`."""
    watermark: int
    bounds: int
    """The address of two bounds of access records for each hart: one for each hart, then one for its atomic accesses.

    Atomic accesses are those of the extension A. Events with records below the bound happened before this hart's next
    access, and it has nothing to acquire from them.
    """
    last: int
    """The event of the last access, if it is a load that a following fence makes an acquire; else 0."""
    pending: int
    """The number of possible races that are pending until the hart's next instruction."""
    suspects: int
    generation: int
    """The number of times that the table of pending races was emptied."""
    fenced: int
    """True if the last instruction was a releasing fence."""
    is_moving: int
    """True if there may be DMA transfers that the hart has not waited for."""
    known: int
    """The address of the hart's clock.

    The clock contains a bound of access records for each hart, and after these, for each hart, the number of its DMA
    transfers that were waited for.
    """
    released: int
    earlier: int
    """The address of the clock that the last but one release of the hart published."""
    acquiring: int
    is_acquiring: int
    entries: int
    entry_count: int
    caches: int
    check: int
    check_many: int
    check_load: int
    check_store: int
    check_atomic: int
    check_rounds: int
    update_rounds: int
    fence: int


@layout
class RamRow(ctypes.Structure):
    """The location of a memory and of its shadow memory.

    `delta` is the distance from a byte to the store record of its dword, and `stride` the distance between arrays of
    records.
    """

    low: int
    span: int
    delta: int
    stride: int


@layout
class EventRow(ctypes.Structure):
    """The accesses of one hart by one instruction within one epoch.

    `synchronizes` is true for an atomic access, a store after a fence, or a load before a fence. `clock` is the clock
    that a reader of the stored value may acquire.
    """

    pc: int
    what: int
    synchronizes: int
    clock: int


@layout
class SuspectRow(ctypes.Structure):
    """A possible race: two unordered accesses, with their address and size, and the number of such races."""

    first: int
    second: int
    address: int
    size: int
    count: int


@layout
class Entry(ctypes.Structure):
    """A table entry with the last event of an instruction. It is valid while its `epoch_id` equals that of the hart."""

    key: int
    epoch_id: int
    record: int


@layout
class Cache(ctypes.Structure):
    """An inline cache entry: the event of an instruction's last access, and the location of its shadow words.

    The event is valid in one epoch. The rest stays valid as long as no DMA transfer is under way. `key` is
    defined in `native_order.cache_key`. `entry` is the address of the `Entry` with the instruction's last
    event."""

    key: int
    epoch_id: int
    record: int
    entry: int
    low: int
    span: int
    stores: int
    """The distance from a byte to its dword's store record; `loads` is the distance to the hart's own load record."""
    loads: int
    stride: int


@layout
class MovingRow(ctypes.Structure):
    """A byte range that a DMA transfer reads or writes.

    `finisher` is the hart that has waited for the transfer, counted from 1, or 0. `number` is the number of the
    transfer among those that this hart has waited for.
    """

    start: int
    end: int
    writes: int
    finisher: int
    number: int


ROW_BYTES: Final = ctypes.sizeof(HartRow)
ROW_AT: Final = numbers(HartRow)
RAM_BYTES: Final = ctypes.sizeof(RamRow)
EVENT_BYTES: Final = ctypes.sizeof(EventRow)
ENTRY_BYTES: Final = ctypes.sizeof(Entry)
CACHE_BYTES: Final = ctypes.sizeof(Cache)
CACHE_AT: Final = numbers(Cache)
SUSPECT_BYTES: Final = ctypes.sizeof(SuspectRow)
MOVING_BYTES: Final = ctypes.sizeof(MovingRow)


def atomic_bit(harts: int) -> int:
    """Return the bit of an access record that is set for accesses of the extension A."""
    return 1 << SLOT_AT + max(1, (harts - 1).bit_length())


def slot_mask(harts: int) -> int:
    """Return the mask of the bits that contain the hart in an access record."""
    return atomic_bit(harts) - (1 << SLOT_AT)
