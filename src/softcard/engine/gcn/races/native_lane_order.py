"""The compiled check `lanes`: the shadow cells of one wave's accesses since its last barrier (see `lane_order`).

Both engines call it: translated code for each lane vector before it makes an access, and Python for the accesses that
the reference engine makes.

An access record is a 64-bit word. From its upper bits down it has the pc of the instruction without its two lowest bits
(from `PC_AT` on), the lane, and the flags `COHERENT_LOAD` and `USED`. A cell covers a dword. It has a word for each
kind of record (the last store, the last atomic, and two loads), the value that the last store left, and the host
address of the cells of its four bytes. This address is 0 until an access of less than the dword. A block has the cells
of 64 bytes: the words of the same kind are adjacent. A hash table finds the blocks of the present interval between
barriers; rows of earlier intervals count as empty.

A cell keeps the two loads by different lanes whose records are greatest. The order in which loads are checked therefore
does not matter, and a store by any lane meets a load by another lane if there is one."""

from __future__ import annotations

from typing import Final

from softcard.engine.gcn.races.layout import (
    ALSO_LOADED,
    ATOMIC,
    FINE,
    FLAT,
    KIND,
    LEAVE,
    LINE,
    LINE_LANES,
    LOAD,
    LOADED,
    NUMBER_BITS,
    SIZE_AT,
    SPACE_AT,
    STORE,
    STORED,
    UPDATED,
    Group,
    LaneTable,
    Race,
    WaveRow,
)
from softcard.engine.gcn.races.native_check import is_proposal, meant
from softcard.engine.races.tables import MIX
from softcard.ir.lanes import any_of, flags_of, lane_numbers, load_words, store_words
from softcard.ir.native import U32, U64, copy, fill, inlined, lowest_bit, native
from softcard.isa.gcn.state import PRIVATE_BASE, WORDS_AT

LOWER: Final = 0xFFFF_FFFF
LANE_MASK: Final = 63
LANE_AT: Final = 2
PC_AT: Final = 8
"""The bit position of a pc, divided by 4, in an access record. `LANE_AT` is that of the lane."""
COHERENT_LOAD: Final = 2
USED: Final = 1
"""The flag of all access records. `COHERENT_LOAD` is the flag of a load that may run concurrently with atomics."""

BYTES: Final = 4
"""The number of a cell's word with the host address of the cells of its bytes, or 0; lower numbers are records."""
BLOCK_BITS: Final = 6
DWORDS: Final = (1 << BLOCK_BITS) // 4
WORD_STEP: Final = 8 * DWORDS
"""The distance in bytes between the words of a dword's cell."""
BYTE_STEP: Final = 8 * 4
"""The distance in bytes between the words of a byte's cell."""
BYTES_AT: Final = BYTES * WORD_STEP
VALUES_AT: Final = BYTES_AT + WORD_STEP
"""The offset of the values of a block's dwords, each of which has 32 bits.

`BYTES_AT` is the offset of the words `BYTES`."""
BLOCK_BYTES: Final = VALUES_AT + 4 * DWORDS
BYTE_VALUES_AT: Final = 4 * BYTE_STEP
BYTE_CELLS: Final = BYTE_VALUES_AT + 4 * 4
"""The size in bytes of the cells of a dword's bytes. Their values, of 32 bits each, are at `BYTE_VALUES_AT`."""

TABLE_BITS: Final = 21
TABLE_ROW: Final = 32
"""The size in bytes of a row of the hash table: a block's key, the number of the interval, and the block's address."""
PAGE_BLOCKS: Final = 64
"""The number of adjacent blocks whose rows in the hash table are adjacent, too."""
BLOCKS: Final = 1 << TABLE_BITS - 1
"""The maximum number of blocks that a wave accesses between barriers."""
CELLS: Final = 1 << 30
"""The size in bytes of the memory for a wave's cells."""
CONFLICT_ROW: Final = 32
CONFLICTS: Final = 64 * 16
"""The maximum number of conflicts that one access has: one for each byte that each lane accesses.

A row (`CONFLICT_ROW` bytes) has the lane, its address, the record of the other access, and that record's kind."""


# ---- cells ---------------------------------------------------------------------------------------------------------
@native
def enter(table: LaneTable, uid: int, generation: int) -> None:
    """Prepare for an access by wave `uid`, which has reached `generation` barriers.

    Forget the recorded accesses if they belong to another wave, or to the time before the wave's last barrier."""
    if (table.uid != uid) | (table.generation != generation):
        table.uid, table.generation = uid, generation
        forget_accesses(table)


@native
def forget_accesses(table: LaneTable) -> None:
    """Forget all recorded accesses."""
    table.interval += 1
    table.free, table.count, table.known_key, table.is_full = table.start, 0, 0, 0


@inlined
def block_key(address: int, space: int) -> int:
    """Return the key of the block of an address, which is never 0."""
    return address >> BLOCK_BITS << 3 | space << 1 | 1


@native
def block_of(table: LaneTable, address: int, space: int) -> int:
    """Return the host address of the block of an address, which is created if necessary; 0 if the table is full."""
    key, block = block_key(address, space), address >> BLOCK_BITS
    page = (((block >> 6) * 4 + space + 1) * MIX) >> 40
    number = page * PAGE_BLOCKS + (block & PAGE_BLOCKS - 1) & (1 << TABLE_BITS) - 1
    row = U64.at(table.rows + number * TABLE_ROW)
    while row[1] == table.interval and row[0] != key:
        number = number + 1 & (1 << TABLE_BITS) - 1
        row = U64.at(table.rows + number * TABLE_ROW)
    if row[1] != table.interval:
        made = cells(table, BLOCK_BYTES)
        if made == 0 or table.count >= BLOCKS:
            table.is_full = 1
            return 0
        fill(made, 0, BLOCK_BYTES)
        table.count += 1
        row[0], row[1], row[2] = key, table.interval, made
    table.known_key, table.known_block = key, row[2]
    return row[2]


@inlined
def cells(table: LaneTable, size: int) -> int:
    """Allocate memory for cells, and return its host address; return 0 if none is left."""
    made = table.free
    table.free = made + size
    return made if made + size <= table.end else 0


@native
def bytes_of(table: LaneTable, cell: int, value_at: int) -> int:
    """Return the host address of the cells of a dword's bytes; create them if necessary. Return 0 if memory is full.

    `cell` is the host address of the dword's cell, and `value_at` that of its value."""
    known = U64[cell + BYTES_AT]
    if known:
        return known
    made = cells(table, BYTE_CELLS)
    if made == 0:
        table.is_full = 1
        return 0
    for byte in range(4):
        for word in range(BYTES):
            U64[made + BYTE_STEP * word + 8 * byte] = U64[cell + WORD_STEP * word]
        U32[made + BYTE_VALUES_AT + 4 * byte] = U32[value_at] >> 8 * byte & 0xFF
    U64[cell + BYTES_AT] = made
    return made


# ---- the rule ------------------------------------------------------------------------------------------------------
@inlined
def is_by_other(record: int, other: int) -> int:
    """Return nonzero if `other` is an access record of another lane than that of `record`."""
    return (other != 0) & ((record ^ other) >> LANE_AT & LANE_MASK != 0)


@inlined
def conflicting(cell: int, step: int, value_at: int, kind: int, record: int, value: int, equal_stores: int) -> int:
    """Return one more than the kind of the first recorded access that conflicts with the present one; 0 for none.

    Accesses conflict if different lanes make them, one of them is no load, and they are not both atomic. A load that
    bypasses the caches counts as atomic beside atomics. Stores of equal values conflict only with `equal_stores`.
    The words of the cell at `cell` are `step` bytes apart, and `value_at` is the host address of its value."""
    stored = U64[cell + step * STORED]
    if is_by_other(record, stored) and (kind != STORE or equal_stores or U32[value_at] != value):
        return STORED + 1
    may_meet_atomic = (kind == STORE) | (kind == LOAD) & (record & COHERENT_LOAD == 0)
    if may_meet_atomic and is_by_other(record, U64[cell + step * UPDATED]):
        return UPDATED + 1
    if kind != LOAD:
        for row in range(LOADED, ALSO_LOADED + 1):
            other = U64[cell + step * row]
            if is_by_other(record, other) and not (kind == ATOMIC and other & COHERENT_LOAD):
                return row + 1
    return 0


@inlined
def write_record(cell: int, step: int, value_at: int, kind: int, record: int, value: int) -> None:
    """Record an access in a cell; see `conflicting` for the parameters."""
    if kind == LOAD:
        loaded = U64[cell + step * LOADED]
        if is_by_other(record, loaded):
            also = U64[cell + step * ALSO_LOADED]
            U64[cell + step * ALSO_LOADED] = max(also, min(loaded, record))
        U64[cell + step * LOADED] = max(loaded, record)
    elif kind == ATOMIC:
        U64[cell + step * UPDATED] = record
    else:
        U64[cell + step * STORED] = record
        U32[value_at] = value


@inlined
def stored_at(values: int, lanes: int, offset: int) -> int:
    """Return the bytes that a lane stores from the byte `offset` of its data on, up to the end of the dword.

    `values` is the host address of the lane's first dword; its further dwords follow at a distance of `lanes` dwords.
    """
    return U32[values + 4 * lanes * (offset >> 2)] >> 8 * (offset & 3)


@inlined
def block_at(table: LaneTable, address: int, space: int) -> int:
    """Return the host address of the block of an address, which is created if necessary; 0 if the table is full."""
    return table.known_block if block_key(address, space) == table.known_key else block_of(table, address, space)


@native
def check_lane(table: LaneTable, what: int, record: int, address: int, values: int, lanes: int, is_noted: int) -> int:
    """Check the access of one lane, and record it.

    At a conflict, return 1 if not `is_noted`, else write the conflict to the table of conflicts. Return 1 also if no
    memory for cells is left. For `values` and `lanes` see `stored_at`."""
    kind, space, at, end = what & KIND, what >> SPACE_AT & 3, address, address + (what >> SIZE_AT)
    while at < end:
        block, dword, offset, value = block_at(table, at, space), at >> 2 & DWORDS - 1, at - address, 0
        if block == 0:
            return LEAVE
        cell, step, width, value_at = block + 8 * dword, WORD_STEP, 4, block + VALUES_AT + 4 * dword
        if kind == STORE:
            value = stored_at(values, lanes, offset)
        if at & 3 == 0 and end - at >= 4 and U64[cell + BYTES_AT] == 0:
            if kind == STORE and offset & 3:
                value = (value | stored_at(values, lanes, offset + 4 & ~3) << 32 - 8 * (offset & 3)) & LOWER
        else:
            found = bytes_of(table, cell, value_at)
            if found == 0:
                return LEAVE
            cell, step, width, value = found + 8 * (at & 3), BYTE_STEP, 1, value & 0xFF
            value_at = found + BYTE_VALUES_AT + 4 * (at & 3)
        row = conflicting(cell, step, value_at, kind, record, value, table.equal_stores)
        if row:
            if not is_noted:
                return LEAVE
            note = U64.at(table.conflicts + table.conflict_count * CONFLICT_ROW)
            note[0], note[1] = record >> LANE_AT & LANE_MASK, address
            note[2], note[3] = U64[cell + step * (row - 1)], row - 1
            table.conflict_count += 1
        write_record(cell, step, value_at, kind, record, value)
        at += width
    return FINE


@native
def check_lanes(
    table: LaneTable, what: int, record: int, addresses: int, values: int, lanes: int, mask: int, is_noted: int
) -> int:
    """Check an access by the lanes in `mask`, and record it; see `check_lane`.

    `record` is the access record for the first of `lanes` lanes. `addresses` is the host address of their addresses,
    and `values` that of the dwords that they store."""
    while mask:
        lane = lowest_bit(mask)
        mask &= mask - 1
        mine, address = record + (lane << LANE_AT), U64.at(addresses)[lane]
        if check_lane(table, what, mine, address, values + 4 * lane, lanes, is_noted):
            return LEAVE
    return FINE


# ---- the fast path -------------------------------------------------------------------------------------------------
@inlined
def by_other(records: int, others: int) -> int:
    """Return `is_by_other` for each element of two vectors."""
    return (others != 0) & ((records ^ others) & LANE_MASK << LANE_AT != 0)


@native
def check_row(table: LaneTable, what: int, record: int, address: int, values: int, mask: int) -> int:
    """Check an access by lanes of a lane vector to dwords of one block, and record it.

    Return 1 if the lanes must be checked one by one: at a conflict, after atomics, and if bytes have cells. Lane 0
    would access the dword at `address`, a multiple of the size of a line, and each further lane the next dword."""
    block = block_at(table, address, what >> SPACE_AT & 3)
    if block == 0:
        return LEAVE
    cell = block + 8 * (address >> 2 & DWORDS - 1)
    lanes = flags_of(mask, LINE_LANES)
    records = record + (lane_numbers(LINE_LANES) << LANE_AT)
    others = load_words(cell + WORD_STEP * UPDATED, LINE_LANES) | load_words(cell + BYTES_AT, LINE_LANES)
    stored = load_words(cell + WORD_STEP * STORED, LINE_LANES)
    if any_of(lanes & ((others != 0) | by_other(records, stored))):
        return LEAVE
    loaded = load_words(cell + WORD_STEP * LOADED, LINE_LANES)
    also = load_words(cell + WORD_STEP * ALSO_LOADED, LINE_LANES)
    is_loaded_by_other = by_other(records, loaded)
    if what & KIND == STORE:
        if mask != (1 << LINE_LANES) - 1 or any_of(is_loaded_by_other | by_other(records, also)):
            return LEAVE
        store_words(cell + WORD_STEP * STORED, records)
        copy(block + VALUES_AT + 4 * (address >> 2 & DWORDS - 1), values, 4 * LINE_LANES)
        return FINE
    is_greater = records > loaded
    first = records if lanes & is_greater else loaded
    if any_of(lanes & is_loaded_by_other):
        second = loaded if is_greater else records
        is_second = lanes & is_loaded_by_other & (second > also)
        store_words(cell + WORD_STEP * ALSO_LOADED, second if is_second else also)
    store_words(cell + WORD_STEP * LOADED, first)
    return FINE


@inlined
def last_lane(mask: int) -> int:
    """Return the number of the highest set bit of a mask that is not 0."""
    number = 32 if mask >> 32 else 0
    number += 16 if mask >> number + 16 else 0
    number += 8 if mask >> number + 8 else 0
    number += 4 if mask >> number + 4 else 0
    number += 2 if mask >> number + 2 else 0
    return number + 1 if mask >> number + 1 else number


@native
def check_chunk(table: LaneTable, what: int, record: int, addresses: int, values: int, lanes: int, mask: int) -> int:
    """Check an access by a lane vector, and record it; return 1 at a conflict. See `check_lanes` for the parameters.

    If lanes load the same bytes, the last two of them stand for all: a cell keeps two loads."""
    if lanes == LINE_LANES and mask:
        at = load_words(addresses, LINE_LANES)
        active = flags_of(mask, LINE_LANES)
        lane = lowest_bit(mask)
        first = U64.at(addresses)[lane]
        start = first - 4 * lane
        if what & KIND == LOAD and not any_of(active & (at != first)):
            last = last_lane(mask)
            rest = mask & ~(1 << last)
            mask = 1 << last | (1 << last_lane(rest) if rest else 0)
        elif what >> SIZE_AT == 4 and start & LINE - 1 == 0:
            is_row = not any_of(active & (at != start + 4 * lane_numbers(LINE_LANES)))
            if is_row and check_row(table, what, record, start, values, mask) == FINE:
                return FINE
    return check_lanes(table, what, record, addresses, values, lanes, mask, 0)


# ---- translated code -----------------------------------------------------------------------------------------------
@inlined
def record_of(pc: int, lane: int) -> int:
    """Return the access record of an instruction, other than a coherent load, for a lane."""
    return pc >> 2 << PC_AT | lane << LANE_AT | USED


@native
def check_vector_lanes(
    state: int, wave: WaveRow, key: int, what: int, first: int, addresses: int, values: int, lanes: int, mask: int
) -> int:
    """Check an access by a lane vector; return 1 if Python has to make the access.

    `first` is the vector's first lane. See `check_lanes` for the other parameters. The race detector has accepted the
    access before. Lanes that access private memory, or LDS past its end, are left out."""
    group, table, space = Group.from_address(wave.group), LaneTable.from_address(wave.lanes), what >> SPACE_AT & 3
    words, at = state + WORDS_AT, U64.at(addresses)
    if what & KIND == LOAD and is_proposal(Race.from_address(wave.race), key):
        return FINE
    private = U64.at(words)[PRIVATE_BASE]
    left, meant_lanes = mask, 0
    is_flat = space == FLAT
    if is_flat:
        what = what & ~(3 << SPACE_AT)
    while left:
        lane = lowest_bit(left)
        left &= left - 1
        is_private = is_flat & (at[lane] & ~LOWER == private)
        if not is_private and meant(group, words, at[lane], what):
            meant_lanes = meant_lanes | 1 << lane
    enter(table, wave.uid, wave.generation)
    return check_chunk(table, what, record_of(key >> NUMBER_BITS, first), addresses, values, lanes, meant_lanes)


@native
def check_wave_lanes(wave: WaveRow, key: int, what: int, address: int, exec: int) -> int:
    """Check a load by the wave as a whole; return 1 if Python has to make the load.

    It counts as a load by each active lane. The first and the last of them stand for all. `exec` is EXEC."""
    table = LaneTable.from_address(wave.lanes)
    if not exec or is_proposal(Race.from_address(wave.race), key):
        return FINE
    enter(table, wave.uid, wave.generation)
    pc = key >> NUMBER_BITS
    if check_lane(table, what, record_of(pc, lowest_bit(exec)), address, 0, 0, 0):
        return LEAVE
    return check_lane(table, what, record_of(pc, last_lane(exec)), address, 0, 0, 0)
