"""Accesses as words: who, when, by which instruction and lane; and what compiled code and Python share to judge them.

A code, from its upper bits: the wave's number (`UID_AT`), its tick, the number of the site, the lane, whether it may
meet atomics (`FREE`: a load past the caches, a store by the only lane), whether it releases itself. Words below `LEAST`
are no codes: 0, nobody, or the host address of the cells of the parts.

A cell is for a line, whose dwords were accessed by the lanes of a chunk side by side; for a dword; or for a byte. Each
has a word for its last store, and for what no store has followed: an atomic, and two loads. Two, since a store by the
wave of one of them races with the other.
"""

from __future__ import annotations

import ctypes
from typing import Final

from understudy.engine.gcn.jit.layout import RACE_SLOTS, chunk_lanes
from understudy.ir import llvm
from understudy.ir.native import layout, numbers

UID_AT: Final = 42
TICK_AT: Final = 22
SITE_AT: Final = 8
LANE_AT: Final = 2
FREE: Final = 2
RELEASES: Final = 1
UIDS: Final = 1 << 64 - UID_AT
"""Waves that have numbers."""
TICKS: Final = 1 << UID_AT - TICK_AT
"""Ticks of a wave: stretches between barriers and releases."""
SITES: Final = 1 << TICK_AT - SITE_AT
"""Places in code, by kind of access."""
LANE_MASK: Final = 63
FIRST_UID: Final = 64
LEAST: Final = FIRST_UID << UID_AT
FIRST_TICK: Final = 2

STORED: Final = 0
UPDATED: Final = 1
LOADED: Final = 2
ALSO_LOADED: Final = 3
ROWS: Final = 4
LINE_LANES: Final = chunk_lanes(llvm.host_features())
"""Dwords of a line: lanes of a chunk of translated code."""
LINE_ALSO: Final = 8 * LINE_LANES
DWORD_ALSO: Final = 8 * 4
"""How far the second loads' cells of a line's dwords, and of a dword's bytes, lie behind those of the first ones."""
LINE: Final = 4 * LINE_LANES
LINE_BITS: Final = LINE.bit_length() - 1
PAGE_BITS: Final = 20
PAGE_BYTES: Final = (1 << PAGE_BITS - LINE_BITS) * ROWS * 8
"""Of the cells of a page."""
BLOCK_BITS: Final = 16
BLOCKS: Final = 1 << PAGE_BITS - BLOCK_BITS
PAGE_HEAD: Final = 8 * BLOCKS
"""Bytes before these: a word for each block of the page, see `native_cells.block_at`."""

# What an access is: its kind, its space from `SPACE_AT` on, whether caches are passed by, its bytes from `SIZE_AT` on.
LOAD: Final = 0
STORE: Final = 1
ATOMIC: Final = 2
KIND: Final = 3
SPACE_AT: Final = 2
GLOBAL: Final = 0
LDS: Final = 1
GDS: Final = 2
FLAT: Final = 3
COHERENT: Final = 16
SIZE_AT: Final = 8
NAMES: Final = ("read", "write", "atomic")
SPACES: Final = ("global", "LDS", "gds")

LINES: Final = (1 << PAGE_BITS - LINE_BITS) - 1
"""Mask of the number of a line in its page."""

SLOTS: Final = RACE_SLOTS
"""Accesses of a strip of translated code whose codes are kept from chunk to chunk."""
NUMBER_BITS: Final = 4
"""Of a slot's key: which access of the instruction it is; its pc is above."""
CLASHES: Final = 1024
"""Racing places of one access that are remembered while it goes on."""
RANGES: Final = 1 << 16
TOLD: Final = 1 << 13
PAGES: Final = 1 << 22
SITE_SLOTS: Final = 4 * SITES
KNOWN_ROW: Final = 16
"""Bytes of a pair of words."""

SIDE: Final = 1
SAME: Final = 2
"""Of a chunk's lanes: that all access a line, dword by dword; that those which do load the same dwords."""

FINE: Final = 0
LEAVE: Final = 1
"""Python has to look."""
BY_PYTHON: Final = 4
KNOWS_SAME: Final = 2
"""Of a look: Python does it; it is known where memory stays as it is."""

SAVING: Final = 1
SAVED: Final = 2
"""Of a page that waves are about to store to."""

NO_PAGES: Final = 1
NO_CELLS: Final = 2
NO_SITES: Final = 3
NO_TICKS: Final = 4
NO_WAVES: Final = 5
NO_PAIRS: Final = 6
FULL: Final = {
    NO_PAGES: f"{PAGES // 2} pages of memory",
    NO_CELLS: "accesses than there is room for",
    NO_SITES: f"{SITES} instructions that access memory",
    NO_TICKS: f"{TICKS} barriers and releases of a wave",
    NO_WAVES: f"{UIDS} waves",
    NO_PAIRS: f"{TOLD // 2} pairs of instructions that race",
}
"""What there is more of than the check can hold."""


@layout
class Race(ctypes.Structure):
    """What is shared by all waves that see one memory. Tables are given by their host address."""

    next_uid: int
    floor: int
    """What waves of lower numbers did came before all that is done now."""
    ranges: int
    """Numbers of first waves, and the launch of those from there on."""
    range_count: int
    over_count: int
    """Of those, how many are of launches that came before all that is done now."""
    pages: int
    page_keys: int
    page_count: int
    """Their keys in the order in which they were met."""
    free: int
    """What is left of memory for cells."""
    end: int
    sites: int
    """A key for each number: pc and kind of access."""
    site_slots: int
    site_count: int
    told: int
    """Rows of `Told`, in order, and behind them where keys have theirs."""
    told_slots: int
    told_count: int
    groups: int
    """Number of the first wave, and of the group in its launch, of each group that has begun."""
    group_count: int
    bounds: int
    """Waves, and up to which tick they knew their group, behind each barrier."""
    bound_count: int
    equal_stores: int
    serial: int
    """Accesses that have begun."""
    raises: int
    """Whether Python has to look at what was not told of yet."""
    full: int
    """What there is no room for; 0 where there is."""
    saves: int
    """Host address of the `Saves` where memory is kept as it was before waves store to it; 0: it is not."""


@layout
class Saves(ctypes.Structure):
    """Pages of memory as they were, page by page as the page table has them; for several threads."""

    states: int
    """A word for each page there may be: 0, `SAVING` or `SAVED`."""
    pages: int
    """The number of each page that is kept, in order."""
    room: int
    """Where they are kept: of each page `count` times as many bytes as it has."""
    most: int
    used: int
    """Pages there is room for, and those that are kept."""
    count: int
    tables: int
    """Page tables of the memories that are kept: that of values, and those of marks."""


@layout
class Group(ctypes.Structure):
    """A work-group that runs: its waves have numbers from `first` on."""

    race: int
    first: int
    count: int
    generation: int
    """Barriers that one of its waves has come to."""
    even: int
    odd: int
    """The last tick before the barrier of an even, and of an odd generation."""
    ended: int
    knows: int
    """Whether one of its waves knows more than barriers say."""
    local_stores: int
    """One more than the barriers that a wave had passed when one stored to LDS last, or met atomics there; 0: none."""
    rows: int
    """Host address of the `WaveRow` of each wave."""
    low: int
    high: int
    """Where waves have their private memory."""
    launch: int
    before: int
    """Of each earlier launch, whether all that it did came before what this one does."""
    before_count: int
    numbers: int
    """Where groups of a launch run side by side, the number of the first wave of group `first_group`; else 0."""
    first_group: int
    group_bits: int
    """Each has so many numbers: two to this power, in the order of groups."""


@layout
class WaveRow(ctypes.Structure):
    """The clock of a wave, and the functions that its translated code calls."""

    group: int
    uid: int
    tick: int
    stamp: int
    """Both, as the upper bits of codes."""
    bound: int
    """Up to this tick all that its group's waves did came before."""
    is_waited: int
    """Whether its stores have been waited for."""
    generation: int
    passed: int
    """Barriers that it has come to, and that it has left."""
    known: int
    known_count: int
    """What it has acquired: pairs of a wave's number and a tick, in order."""
    open: int
    """Which slots have accesses that go on."""
    slots: int
    hints: int
    clashes: int
    clash_count: int
    race: int
    group_floor: int
    group_span: int
    global_floor: int
    """As codes: the first one of the group's waves, how far they go, the first one that need not be over."""
    is_alone: int
    """Whether barriers are all that its group knows of other waves, and its launch is the only one."""
    look_ahead: int
    look_scalar: int
    go_on: int
    arrive: int
    finish: int


@layout
class Slot(ctypes.Structure):
    """An access that goes on, chunk by chunk. `looked`: lanes that were looked at."""

    code: int
    key: int
    looked: int
    serial: int


@layout
class Hint(ctypes.Structure):
    """What translated code knows of an access itself: whose it is, a page that it met, the cells of that."""

    key: int
    page: int
    cells: int
    site: int
    """The part of its code that says where it is made."""


@layout
class Clash(ctypes.Structure):
    """A place where an access that goes on has raced, and with whom."""

    address: int
    size: int
    serial: int
    other: int


@layout
class Told(ctypes.Structure):
    """A pair of sites whose accesses race: how often, and the first ones."""

    count: int
    code: int
    other: int
    address: int
    lanes: int
    what: int
    between: int
    serial: int
    """Which access of the wave was the first one."""


GROUP_AT: Final = numbers(Group)
WAVES: Final = 0
GROUPS: Final = 1
KERNELS: Final = 2
"""Of `Told`: by whose accesses they are."""
RACE_AT: Final = numbers(Race)
ROW_AT: Final = numbers(WaveRow)
HINT_AT: Final = numbers(Hint)
SLOT_AT: Final = numbers(Slot)
SAVES_AT: Final = numbers(Saves)
HINT_BYTES: Final = ctypes.sizeof(Hint)
SLOT_BYTES: Final = ctypes.sizeof(Slot)
HINTS: Final = 512
"""Dwords of code whose accesses have hints of their own; further ones share them."""
HINTS_AT: Final = 256
SLOTS_AT: Final = HINTS_AT + HINTS * HINT_BYTES
ROW_BYTES: Final = SLOTS_AT + SLOTS * SLOT_BYTES
"""Of a `WaveRow`, with the hints and slots behind it."""
CLASH_BYTES: Final = ctypes.sizeof(Clash)
TOLD_BYTES: Final = ctypes.sizeof(Told)
