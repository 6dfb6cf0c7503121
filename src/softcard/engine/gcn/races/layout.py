"""The layout of access records and shadow memory that compiled code and Python share.

An access record is a 64-bit word. From its upper bits down it has the wave's number (from `UID_AT`), the
epoch, the number of the site (a pair of an instruction and a kind of access), the lane, a flag for a possibly
atomic access (`FREE`: a load that bypasses the caches, or a store by the only active lane), and a flag for a
release (`RELEASES`); in the record of a load, this flag stands for the scope of the work-group. Words below
`LEAST` are not records: 0 stands for no access, and other words are the host address of finer cells.

A shadow cell covers a line (as many dwords as a lane vector has lanes), a dword, or a byte. A record in the
cell of a line means that consecutive lanes of one lane vector accessed the dwords of the line. Each cell has
four words, numbered by `ROWS`: the last store and, since that store, one atomic and two loads. Two loads are
needed because a later store by the wave that made one of them can race only with the other."""

from __future__ import annotations

import ctypes
from typing import Final

from softcard.engine.gcn.jit.layout import HOOK_SLOTS, chunk_lanes
from softcard.ir import llvm
from softcard.ir.native import layout, numbers

UID_AT: Final = 42
EPOCH_AT: Final = 22
SITE_AT: Final = 8
LANE_AT: Final = 2
FREE: Final = 2
RELEASES: Final = 1
UIDS: Final = 1 << 64 - UID_AT
"""The number of distinct wave numbers."""
EPOCHS: Final = 1 << UID_AT - EPOCH_AT
"""The number of epochs of a wave. A barrier or a release begins a new epoch."""
SITES: Final = 1 << EPOCH_AT - SITE_AT
"""The number of sites: pairs of an instruction and a kind of access."""
LANE_MASK: Final = 63
FIRST_UID: Final = 64
LEAST: Final = FIRST_UID << UID_AT
FIRST_EPOCH: Final = 2

STORED: Final = 0
UPDATED: Final = 1
LOADED: Final = 2
ALSO_LOADED: Final = 3
ROWS: Final = 4
LINE_LANES: Final = chunk_lanes(llvm.host_features())
"""The number of dwords of a line: the lanes of one lane vector of translated code."""
LINE_ALSO: Final = 8 * LINE_LANES
DWORD_ALSO: Final = 8 * 4
"""The distance in bytes from the byte cells of a dword's first load to those of its second load.

`LINE_ALSO` is the corresponding distance for the dword cells of a line.
"""
LINE: Final = 4 * LINE_LANES
LINE_BITS: Final = LINE.bit_length() - 1
PAGE_BITS: Final = 20
PAGE_BYTES: Final = (1 << PAGE_BITS - LINE_BITS) * ROWS * 8
"""The size of a shadow page, in bytes."""
BLOCK_BITS: Final = 16
BLOCKS: Final = 1 << PAGE_BITS - BLOCK_BITS
PAGE_HEAD: Final = 8 * BLOCKS
"""The size of the header before a shadow page: a word for each block, see `native_cells.block_at`."""

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
IN_GROUP: Final = 32
"""The flag of a load that is coherent within its work-group only; `COHERENT` is the flag of one that misses caches."""
SIZE_AT: Final = 8
NAMES: Final = ("read", "write", "atomic")
SPACES: Final = ("global", "LDS", "gds")

LINES: Final = (1 << PAGE_BITS - LINE_BITS) - 1
"""The mask for the number of a line within its page."""

SLOTS: Final = HOOK_SLOTS
"""The maximum number of accesses in a strip-mined loop whose records persist to the next lane vector."""
NUMBER_BITS: Final = 4
"""The number of low bits of a slot's key that number the access in its instruction; above is the pc."""
CONFLICTS: Final = 1024
"""The maximum number of conflicts of one access that are remembered while the access continues."""
RANGES: Final = 1 << 16
REPORTS: Final = 1 << 13
PAGES: Final = 1 << 22
SITE_SLOTS: Final = 4 * SITES
KNOWN_ROW: Final = 16
"""The size in bytes of a pair of words in the table `WaveRow.known`."""

SIDE: Final = 1
SAME: Final = 2
"""The address pattern of a lane vector in which active lanes access the same dwords.

`SIDE` is the pattern in which all lanes access the dwords of one line in order.
"""

FINE: Final = 0
LEAVE: Final = 1
"""The result of a check that needs a side exit to Python. `FINE` is the result of a complete check."""
BY_PYTHON: Final = 4
KNOWS_SAME: Final = 2
"""The flag of a check whose caller knows which stores leave memory unchanged.

`BY_PYTHON` is the flag of a check that Python makes.
"""
KNOWS_FLOW: Final = 16
"""The flag of a check of a load whose flow is in the table of flows, if it fits there."""

SAVING: Final = 1
SAVED: Final = 2
"""The state of a guest page whose saved contents, for undoing stores, are complete.

`SAVING` is the state of a page whose contents are being saved.
"""

NO_PAGES: Final = 1
NO_CELLS: Final = 2
NO_SITES: Final = 3
NO_EPOCHS: Final = 4
NO_WAVES: Final = 5
NO_PAIRS: Final = 6
FULL: Final = {
    NO_PAGES: f"{PAGES // 2} pages of memory",
    NO_CELLS: "the accesses that fit in its shadow memory",
    NO_SITES: f"{SITES} instructions that access memory",
    NO_EPOCHS: f"{EPOCHS} barriers and releases of a wave",
    NO_WAVES: f"{UIDS} waves",
    NO_PAIRS: f"{REPORTS // 2} pairs of instructions that race",
}
"""The limits that a launch can exceed, in words for the error message, by the full table's number."""


@layout
class Race(ctypes.Structure):
    """The race detector's state for all waves of one memory. Its fields for tables hold their host addresses."""

    next_uid: int
    watermark: int
    """The happens-before watermark: accesses of waves with lower numbers happened before all that runs now."""
    ranges: int
    """The host address of the table of launches: pairs of the number of a launch's first wave and its index."""
    range_count: int
    over_count: int
    """The number of leading pairs in `ranges` whose launches happened before the present one."""
    pages: int
    page_keys: int
    page_count: int
    """The number of shadow pages. `page_keys` is the table of their keys, in the order of allocation."""
    free: int
    """The host address of the free memory for cells; `end` is its end."""
    end: int
    sites: int
    """The host address of the table of sites: for each site number a key of pc and kind of access."""
    site_slots: int
    site_count: int
    reports: int
    """The host address of the table of races, as `RaceReport` in the order of detection.

    `report_slots` is a hash table of their addresses.
    """
    report_slots: int
    report_count: int
    groups: int
    """The host address of the table of work-groups: pairs of a first wave's number and an index in the launch."""
    group_count: int
    bounds: int
    """The host address of the table of passed barriers: pairs of a wave's number and an epoch.

    All accesses of the wave's work-group up to the epoch happened before the wave's accesses after the barrier.
    """
    bound_count: int
    equal_stores: int
    serial: int
    """The number of accesses that have begun so far."""
    raises: int
    """True if compiled code exits to Python for a new race, as Python raises it as an error."""
    full: int
    """The number of the table that overflowed (such as `NO_PAGES`), or 0."""
    proposals: int
    """The host address of a table with the pcs of loads in compare-and-swap loops; see `swap_loops`."""
    proposal_count: int
    flows: int
    """The host address of the rows of `value_flow.FlowTable`."""
    flow_count: int
    mailboxes: int
    mailbox_bytes: int
    """The size of the page of the driver's mailboxes at `mailboxes`; see `RaceWatch.set_mailboxes`."""
    saves: int
    """The host address of the `Saves` that hold memory's old contents; 0 if these are not saved."""


@layout
class Saves(ctypes.Structure):
    """Copies of guest memory pages that were made before the first store to each page, so that stores can be undone.

    A page covers the same guest memory as a shadow page: 1 << `PAGE_BITS` bytes. The copies are thread-safe."""

    states: int
    """The host address of a table with a state for each possible page: 0, `SAVING` or `SAVED`."""
    pages: int
    """The host address of the table of saved pages' numbers, in the order of saving."""
    room: int
    """The host address of the saved contents; each saved page takes `count` times its size."""
    most: int
    used: int
    """The number of saved pages. `most` is the maximum number."""
    count: int
    tables: int
    """The page tables of the saved memories: plain guest memory, and each shadow memory."""


@layout
class Group(ctypes.Structure):
    """The state of a running work-group. Its waves have consecutive numbers from `first` on."""

    race: int
    first: int
    count: int
    generation: int
    """The largest number of barriers that any wave of the group has reached."""
    even: int
    odd: int
    """The last epoch before the latest barrier with an odd number. `even` is the one for an even number."""
    ended: int
    knows: int
    """True if Python handles barriers, because a wave of the group is, or may become, ordered by more than barriers.

    It may become so if it has read a word by which another work-group released accesses.
    """
    local_stores: int
    """One more than the number of barriers passed before the latest store or atomic to LDS; 0 without one."""
    rows: int
    """The host address of the `WaveRow` of each wave."""
    low: int
    high: int
    """The end of the guest addresses of the waves' private memory. `low` is their beginning."""
    launch: int
    before: int
    """The host address of a table with a word for each earlier launch: 1 if it happened before this one."""
    before_count: int
    inherited: int
    inherited_count: int
    """The number of pairs in `inherited`, the clock with which the waves begin.

    Launches before this one have acquired that clock. It has pairs as in `WaveRow.known`.
    """
    numbers: int
    """The number of the first wave of group `first_group` if a launch's groups run concurrently, else 0."""
    first_group: int
    group_bits: int
    """The base-2 logarithm of the number of wave numbers reserved for each work-group of a launch.

    Work-groups have their ranges of wave numbers in the order of their indices.
    """


@layout
class WaveRow(ctypes.Structure):
    """The state of a wave for the race check in compiled code.

    It has the wave's clock, its inline shadow caches, and the addresses of the functions that its translated code
    calls.
    """

    group: int
    uid: int
    epoch: int
    epoch_bits: int
    """The wave's number and epoch, at the bit positions that they have in access records."""
    bound: int
    """The last epoch of which all accesses by the work-group's waves happened before the wave's next access."""
    is_waited: int
    """True if the wave has waited for its stores."""
    stored: int
    """The epoch of the wave's last store to global memory that needs a write-back (`clocks.WriteBacks`), or 0."""
    generation: int
    passed: int
    """The number of barriers that the wave has passed; `generation` is the number that it has reached."""
    known: int
    known_count: int
    """The number of pairs in `known`, the table of acquired epochs.

    It has pairs of a wave's number and an epoch, sorted.
    """
    open: int
    """A bit mask of slots whose accesses continue in the next lane vector."""
    slots: int
    caches: int
    conflicts: int
    conflict_count: int
    deferred: int
    """The host address of the deferred races of the wave's loads, as `Deferred`."""
    deferred_count: int
    race: int
    group_start: int
    group_span: int
    global_watermark: int
    """The least access record that is not below the happens-before watermark.

    `group_start` is the least possible record of the work-group's waves, `group_span` the size of their range of
    records.
    """
    is_alone: int
    """True if only barriers order the wave's work-group, and its launch is the only one."""
    check_vector: int
    check_scalar: int
    go_on: int
    arrive: int
    finish: int
    lanes: int
    """The host address of the wave's `LaneTable`; 0 without the check `lanes`."""
    check_lanes: int
    check_wave: int


@layout
class Slot(ctypes.Structure):
    """The state of the check of one access in a strip-mined loop. It is kept from one lane vector to the next.

    `checked` is the mask of the lanes already checked."""

    record: int
    key: int
    checked: int
    serial: int


@layout
class Cache(ctypes.Structure):
    """The inline shadow cache of an access in translated code.

    It has the access's key (its instruction's pc and its number in the instruction), the page of its last
    access, and the address of that page's shadow cells."""

    key: int
    page: int
    cells: int
    site: int
    """The number of the access's site, at the bit positions that it has in access records."""


@layout
class Conflict(ctypes.Structure):
    """A conflict that an access of a strip-mined loop has found: the bytes, and the record of the other access."""

    address: int
    size: int
    serial: int
    other: int


@layout
class Deferred(ctypes.Structure):
    """The deferred races of one load instruction of a wave with one other instruction: see `value_flow`.

    `record` is the load's access record for lane 0, and `serial` the load's serial number, both of the first race.
    `between` is the scope as in `RaceReport`, and `lanes` the mask of the lanes that race. For each lane follow the
    address and the record of the other access."""

    record: int
    other: int
    what: int
    between: int
    serial: int
    lanes: int


@layout
class RaceReport(ctypes.Structure):
    """A pair of sites whose accesses race, with the number of races, and details of the first one."""

    count: int
    record: int
    other: int
    address: int
    lanes: int
    what: int
    between: int
    serial: int
    """The serial number of the access that makes the first race count.

    For a deferred race (`value_flow`), this is the use of the loaded value.
    """
    begun: int
    """The serial number of the first racing access."""


@layout
class LaneTable(ctypes.Structure):
    """The accesses by the lanes of one wave since its last barrier: see `native_lane_order`."""

    uid: int
    """The number of the wave; `generation` is the number of barriers that it had reached."""
    generation: int
    interval: int
    """The number of the present interval between barriers, by which rows of the hash table are valid."""
    rows: int
    """The host address of the hash table of blocks."""
    start: int
    """The host address of the memory for cells; `free` is the beginning of its unused part."""
    free: int
    end: int
    count: int
    """The number of blocks in use."""
    known_key: int
    known_block: int
    """The host address of the block that was used last, and whose key is `known_key`."""
    equal_stores: int
    conflicts: int
    """The host address of the table of conflicts that the present access has found."""
    conflict_count: int
    is_full: int


GROUP_AT: Final = numbers(Group)
WAVES: Final = 0
GROUPS: Final = 1
KERNELS: Final = 2
"""The value of `RaceReport.between` for a race between different kernels.

`WAVES` stands for waves of one work-group, `GROUPS` for different work-groups of one launch.
"""
RACE_AT: Final = numbers(Race)
ROW_AT: Final = numbers(WaveRow)
CACHE_AT: Final = numbers(Cache)
SLOT_AT: Final = numbers(Slot)
SAVES_AT: Final = numbers(Saves)
CACHE_BYTES: Final = ctypes.sizeof(Cache)
SLOT_BYTES: Final = ctypes.sizeof(Slot)
CACHES: Final = 512
"""The number of inline shadow caches of a wave.

Accesses of this many consecutive code dwords have caches of their own; others share a cache modulo this number.
"""
CACHES_AT: Final = 256
SLOTS_AT: Final = CACHES_AT + CACHES * CACHE_BYTES
ROW_BYTES: Final = SLOTS_AT + SLOTS * SLOT_BYTES
"""The size of a `WaveRow` with its inline shadow caches and slots, in bytes."""
CONFLICT_BYTES: Final = ctypes.sizeof(Conflict)
DEFERRED_HEAD: Final = ctypes.sizeof(Deferred)
DEFERRED_BYTES: Final = DEFERRED_HEAD + 16 * 64
REPORT_BYTES: Final = ctypes.sizeof(RaceReport)
