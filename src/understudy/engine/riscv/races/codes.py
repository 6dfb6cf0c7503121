"""Accesses of harts as words: what compiled code and Python share to judge them.

A code has 32 bits: from its upper ones the number of an event, whether that is one of the extension A, the hart, and
which bytes of a dword it is about (`BYTES`). Events are numbered as they come. So what is over before something else
begins is all that has codes below a bound: of any hart (`Race.floor`), or of one, as clocks say it. 0: nobody.

Beside each memory lie planes of codes, one word for each dword: who stored it last, and for each hart its last load of
what is stored there. Where the bytes of a dword have different codes, the word has `SPLIT` set and says where they are.
"""

from __future__ import annotations

import ctypes
from typing import Final

from understudy.ir.native import layout, numbers

BYTES: Final = 15
SLOT_AT: Final = 4
SPLIT_AT: Final = 31
SPLIT: Final = 1 << SPLIT_AT
LIMIT: Final = SPLIT
"""Codes are below."""
MOST_HARTS: Final = 64

# What an access is: its kind, and from `SIZE_AT` on its bytes.
READ: Final = 0
WRITE: Final = 1
ATOMIC: Final = 2
KIND: Final = 3
IS_ATOMIC: Final = 4
"""It is one of the extension A."""
ACQUIRES: Final = 8
RELEASES: Final = 16
SIZE_AT: Final = 8
NAMES: Final = ("read", "write", "atomic")
KEY_BITS: Final = 3
"""Of a key, beside the pc."""

FINE: Final = 0
WAITS: Final = 1
"""It is decided by what the hart does next."""
LEAVE: Final = 2
"""Python has to look; nothing has been done."""

NEVER: Final = (1 << 64) - 1
"""No hint has this stamp."""
HINTS: Final = 256
"""Of a hart."""
ENTRIES: Final = 1 << 15
"""Rows of the table of a hart's events."""
MOVING: Final = 1 << 16
"""Rows of memory that DMA transfers read or write."""
PENDING: Final = 64
"""Suspects of one hart that wait without Python."""
CLOCK_BYTES: Final = 1 << 30
EVENT_ROOM: Final = 1 << 30
SPLIT_BYTES: Final = 16
SPLITS: Final = 1 << 26

NO_EVENTS: Final = 1
NO_CLOCKS: Final = 2
NO_SPLITS: Final = 3
NO_SITES: Final = 4
FULL: Final = {
    NO_EVENTS: "more accesses between two barriers than there are numbers for",
    NO_CLOCKS: "more releases between two barriers than there is room for",
    NO_SPLITS: f"more than {SPLITS} dwords whose bytes were accessed apart",
    NO_SITES: f"more than {ENTRIES // 2} instructions of one hart that access memory",
}
"""What there is more of than the check can hold."""


@layout
class Race(ctypes.Structure):
    """What is shared by all harts of a device. Tables are given by their host address."""

    harts: int
    slot_mask: int
    """The bits of a code that are the hart's."""
    atomic: int
    """The one that says whether the event is one of the extension A."""
    number_at: int
    """Where the number begins."""
    step: int
    """Of the numbers of events, as codes."""
    next: int
    floor: int
    """What was done by events below came before all that is done now."""
    events: int
    rows: int
    clocks: int
    clock_free: int
    clock_end: int
    nothing: int
    """A clock that says nothing."""
    splits: int
    split_count: int
    moving: int
    moving_count: int
    rams: int
    ram_count: int
    stamp: int
    """The last one that was given to a tick of a hart."""
    keeps: int
    """Whether it is remembered what was touched, and nothing is forgotten at barriers."""
    pages: int
    page_count: int
    """Pages that were touched meanwhile, of the memory of this process."""
    full: int
    """What there is no room for; 0 where there is."""


@layout
class HartRow(ctypes.Structure):
    """One hart, and the functions that its translated code calls."""

    race: int
    slot: int
    own: int
    """The hart in its codes."""
    stamp: int
    """A number that no other tick of any hart has: events belong to one."""
    armed: int
    """The same, of what is known of transfers, too: hints belong to one."""
    quick: int
    """The same where accesses need no more than a look at cells; else `NEVER`."""
    floor: int
    bounds: int
    """For each hart, and once more for its events of the extension A: codes below are of what came before all that this
    hart does now, and has nothing more to acquire from."""
    last: int
    """The event of the last access, if that is a load of which nobody knows yet whether a fence follows; else 0."""
    pending: int
    """Suspects that wait for that: rows of a table."""
    suspects: int
    generation: int
    """How often that table was emptied."""
    fenced: int
    """Whether a fence that releases stands directly before the next access."""
    is_moving: int
    """Whether there may be transfers that it has not waited for."""
    known: int
    """A clock: a bound for each hart, then how many of its transfers each hart has waited for."""
    released: int
    earlier: int
    """What it released before that."""
    acquiring: int
    is_acquiring: int
    entries: int
    entry_count: int
    hints: int
    look: int
    look_many: int
    look_load: int
    look_store: int
    look_atomic: int
    look_ahead: int
    look_behind: int
    fence: int


@layout
class RamRow(ctypes.Structure):
    """A memory: from a byte of it to its dword's code in the plane of stores, and from plane to plane."""

    low: int
    span: int
    delta: int
    stride: int


@layout
class EventRow(ctypes.Structure):
    """Accesses of one hart by one instruction within one tick.

    `synchronizes`: it is an atomic access, a store behind a fence or a load before one. `clock`: what whoever reads
    what it stores may acquire.
    """

    pc: int
    what: int
    synchronizes: int
    clock: int


@layout
class SuspectRow(ctypes.Structure):
    """Two accesses in no order, where, of how many bytes, and how often."""

    first: int
    second: int
    address: int
    size: int
    count: int


@layout
class Entry(ctypes.Structure):
    """The last event of an instruction, good in the tick of its stamp."""

    key: int
    stamp: int
    code: int


@layout
class Hint(ctypes.Structure):
    """What translated code needs to look at an access in line: its event, and where codes are of the memory that it
    met last. In another tick the event is another one, and the rest still holds as long as no transfer is about.

    `key`: see `native_order.hint_key`. `entry`: where the last event of the instruction is kept.
    """

    key: int
    stamp: int
    code: int
    entry: int
    low: int
    span: int
    stores: int
    """From a byte to its dword's code in the plane of stores, and in that of the hart's own loads."""
    loads: int
    stride: int


@layout
class MovingRow(ctypes.Structure):
    """Bytes that a transfer reads or writes; `finisher` is the hart that has waited for it, counted from 1, as its
    transfer `number`."""

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
HINT_BYTES: Final = ctypes.sizeof(Hint)
HINT_AT: Final = numbers(Hint)
SUSPECT_BYTES: Final = ctypes.sizeof(SuspectRow)
MOVING_BYTES: Final = ctypes.sizeof(MovingRow)


def atomic_bit(harts: int) -> int:
    """The bit of a code that says whether its event is one of the extension A."""
    return 1 << SLOT_AT + max(1, (harts - 1).bit_length())


def slot_mask(harts: int) -> int:
    """The bits that say which hart it is."""
    return atomic_bit(harts) - (1 << SLOT_AT)
