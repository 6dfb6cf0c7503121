"""Compiled fast-path checks of the shadow cells of many lanes at once, with vector instructions.

Translated code makes most race checks with these functions. They are valid only if only barriers order the
wave with other waves, and if no other launch runs. Each function checks all cells before it writes any of
them. It returns `LEAVE` if it cannot decide: for atomics, cells that are not allocated yet, or a possible
race. `native_check.check_access` then makes the full check. `load_dwords` and `store_dwords` may have recorded
some lanes by then; the full check records these again, with the same result.

`epoch_bits`, `bound`, `group_start` and `group_span` are words of a `layout.WaveRow`. `watermark` is the word
`group_start` for LDS, else the word `global_watermark`."""

from __future__ import annotations

from typing import Final

from softcard.engine.gcn.races.layout import (
    ALSO_LOADED,
    BLOCKS,
    CACHE_AT,
    DWORD_ALSO,
    FINE,
    GLOBAL,
    LANE_AT,
    LEAST,
    LEAVE,
    LINE_ALSO,
    LINE_BITS,
    LINE_LANES,
    LINES,
    LOADED,
    PAGE_BITS,
    PAGE_HEAD,
    ROWS,
    STORED,
    UPDATED,
    Cache,
    Group,
    Race,
    Slot,
    WaveRow,
)
from softcard.engine.gcn.races.native_cells import PAGE_SHIFT, block_at, block_of, page_key
from softcard.engine.gcn.races.native_fast_path import check_one_dword, highest
from softcard.engine.gcn.races.native_order import is_past
from softcard.engine.races.tables import MIX
from softcard.ir.lanes import (
    Lanes,
    any_of,
    bits_of,
    flags_of,
    gather,
    lane,
    lane_numbers,
    load_words,
    scatter,
    spread,
    store_words,
)
from softcard.ir.native import U64, inlined, native, unlikely

SITE: Final = 8 * CACHE_AT["site"]
"""The byte offset of the word `site` in a `Cache`."""
LAST: Final = LINE_LANES - 1
ORDER: Final = ("epoch_bits", "bound", "group_start", "group_span")
"""The names of words of a `WaveRow`, in the order in which these functions take them."""


class Line(Lanes, count=LINE_LANES):
    """A vector with a word for each lane of a lane vector."""


class Cells(Lanes, count=ROWS):
    """A vector with a word for each cell of a line, in the order of `STORED` to `ALSO_LOADED`."""


# ---- parts of checks, of one lane or of several -------------------------------------------------------------------
@inlined
def is_address(word: int) -> int:
    """Return 1 if the word of a cell is the host address of finer cells, not an access record or 0."""
    return word - 1 < LEAST - 1


@inlined
def is_over(record: int, watermark: int, epoch_bits: int, bound: int, group_start: int, group_span: int) -> int:
    """Return 1 for each cell that is 0 or has an access record that happened before the present access.

    Cells with addresses of finer cells get 0.
    """
    return is_past(record, watermark, epoch_bits, bound, group_start, group_span) & ~is_address(record)


@inlined
def part_of(word: int, offset: int, mask: int) -> int:
    """Return, for each word of a vector, the word at `offset` in its finer cells.

    If the cell has no finer cells, or if the lane is not in `mask`, return the word itself."""
    return gather(word + offset, mask & is_address(word), word)  # type: ignore[no-any-return]


@inlined
def line_at(address: int) -> int:
    """Return the offset of the cells of an address's line within the cells of its page."""
    return (address >> LINE_BITS & LINES) * (8 * ROWS)


@inlined
def dword_at(address: int) -> int:
    """Return the offset of an address's dword cell within the dword cells of its line."""
    return address << 1 & 8 * (LINE_LANES - 1)


@inlined
def byte_at(address: int) -> int:
    """Return the offset of an address's byte cell within the byte cells of its dword."""
    return (address & 3) << 3


# ---- a line, or dwords, in line -----------------------------------------------------------------------------------
@inlined
def has_page(cache: Cache, key: int, address: int, is_local: int) -> int:
    """Return 1 if an inline shadow cache belongs to the access `key` and holds the page of an address.

    For LDS only the key is compared, because LDS has a single page."""
    if is_local:
        return cache.key == key
    return (cache.key == key) & (cache.page == address >> PAGE_BITS)


@inlined
def load_line(
    cache: Cache,
    key: int,
    address: int,
    line: int,
    first: int,
    epoch_bits: Cells,
    bound: Cells,
    group_start: Cells,
    group_span: Cells,
    watermark: Cells,
    is_local: int,
) -> int:
    """Check a load of line number `line` by a lane vector, one dword for each lane, and record it.

    `first` is the vector's first lane. Return 0, or `LEAVE` if the full check is needed."""
    if unlikely(not has_page(cache, key, address, is_local)):
        return LEAVE
    row = cache.cells + (line if is_local else line & LINES) * (8 * ROWS)
    cells = load_words(row, ROWS)
    past = bits_of(is_past(cells, watermark, epoch_bits, bound, group_start, group_span))
    if unlikely(past & (1 << STORED | 1 << UPDATED) != 1 << STORED | 1 << UPDATED):
        return LEAVE
    if unlikely(any_of(is_address(cells))):
        return LEAVE
    at = row + (8 * LOADED if past & 1 << LOADED else 8 * ALSO_LOADED)
    U64[at] = highest(lane(epoch_bits, 0) + cache.site + (first << LANE_AT), U64[at], lane(bound, 0))
    return FINE


@inlined
def store_line(
    wave: WaveRow,
    cache: Cache,
    slot: Slot,
    key: int,
    address: int,
    line: int,
    first: int,
    bit: int,
    epoch_bits: Cells,
    bound: Cells,
    group_start: Cells,
    group_span: Cells,
    watermark: Cells,
    is_local: int,
) -> int:
    """Check a store of line number `line` by a lane vector, one dword for each lane, and record it.

    Outside of LDS the store is part of the access in `slot`, whose bit in the mask of open slots is `bit`. Return
    0, or `LEAVE` if the full check is needed."""
    if unlikely(not has_page(cache, key, address, is_local)):
        return LEAVE
    row = cache.cells + (line if is_local else line & LINES) * (8 * ROWS)
    record = store_record(wave, cache, slot, first, bit, is_local)
    if unlikely(record == 0):
        return LEAVE
    cells = load_words(row, ROWS)
    past = bits_of(is_past(cells, watermark, epoch_bits, bound, group_start, group_span))
    if unlikely(past != (1 << ROWS) - 1):
        return LEAVE
    if unlikely(any_of(is_address(cells))):
        if store_parts(
            row,
            record,
            lane(epoch_bits, 0),
            lane(bound, 0),
            lane(group_start, 0),
            lane(group_span, 0),
            lane(watermark, 0),
        ):
            return LEAVE
    else:
        store_words(row, record if lane_numbers(ROWS) == STORED else 0)
    U64[block_at(cache.cells, address)] = record
    return FINE


@inlined
def store_record(wave: WaveRow, cache: Cache, slot: Slot, first: int, bit: int, is_local: int) -> int:
    """Return the access record of a store by the lane vector that begins with lane `first`.

    Return 0 if the accesses of the present loop have found a conflict, or if the slot of a store outside of LDS
    is not open."""
    if unlikely(wave.conflict_count != 0):
        return 0
    if is_local:
        return wave.epoch_bits + cache.site + (first << LANE_AT)
    if unlikely(wave.open & bit == 0):
        return 0
    return slot.record + (first << LANE_AT)


@native
def store_parts(
    row: int, record: int, epoch_bits: int, bound: int, group_start: int, group_span: int, watermark: int
) -> int:
    """Check a store of a line with finer cells, and record it; `row` is the host address of its cells."""
    cells = U64.at(row)
    stored, loaded, also = cells[STORED], cells[LOADED], cells[ALSO_LOADED]
    if is_address(cells[UPDATED]):
        return LEAVE
    if is_address(stored):
        before = load_words(stored, LINE_LANES)
        if any_of(~is_over(before, watermark, epoch_bits, bound, group_start, group_span)):
            return LEAVE
    if is_address(loaded):
        before = load_words(loaded, LINE_LANES)
        if any_of(~is_over(before, watermark, epoch_bits, bound, group_start, group_span)):
            return LEAVE
    if is_address(also):
        before = load_words(also, LINE_LANES)
        if any_of(~is_over(before, watermark, epoch_bits, bound, group_start, group_span)):
            return LEAVE
    if is_address(stored):
        store_words(stored, record + (lane_numbers(LINE_LANES) << LANE_AT))
    else:
        cells[STORED] = record
    if is_address(loaded):
        store_words(loaded, spread(0, LINE_LANES))
    else:
        cells[LOADED] = 0
    if is_address(also):
        store_words(also, spread(0, LINE_LANES))
    else:
        cells[ALSO_LOADED] = 0
    cells[UPDATED] = 0
    return FINE


@inlined
def load_dword(
    quiet: int,
    cache: Cache,
    address: int,
    first: int,
    epoch_bits: int,
    bound: int,
    group_start: int,
    group_span: int,
    watermark: int,
) -> int:
    """Check a load of one dword by all lanes of a lane vector, and record it.

    See `native_fast_path.check_one_dword`.
    """
    record = epoch_bits + cache.site + (first + LINE_LANES - 1 << LANE_AT)
    return check_one_dword(quiet, cache.cells, address, record, watermark, epoch_bits, bound, group_start, group_span)


@inlined
def is_block_quiet(cache: Cache, address: int, watermark: int) -> int:
    """Return 1 if all stores to the block of memory of an address happened before the present access."""
    return U64[block_at(cache.cells, address)] < watermark


@native
def load_scalars(wave: WaveRow, cache: Cache, key: int, address: int, count: int) -> int:
    """Check a load of `count` dwords by the wave as a whole, and record it.

    The function is optimised for the case that most waves of a launch load from the same addresses."""
    watermark, epoch_bits, bound = wave.global_watermark, wave.epoch_bits, wave.bound
    group_start, group_span = wave.group_start, wave.group_span
    if unlikely(cache.key != key or cache.page != address >> PAGE_BITS or wave.passed != wave.generation):
        return LEAVE
    dword = address >> 2 & LINE_LANES - 1
    if unlikely(dword > LINE_LANES - count or U64[block_at(cache.cells, address)] >= watermark):
        return LEAVE
    cells = U64[cache.cells + line_at(address) + 8 * LOADED]
    if unlikely(not is_address(cells)):
        return LEAVE
    at = cells + (dword << 3)
    loaded = load_words(at, count)
    also = load_words(at + LINE_ALSO, count)
    if unlikely(any_of(is_address(loaded))):
        return LEAVE
    is_first = is_past(loaded, watermark, epoch_bits, bound, group_start, group_span)
    after = highest(epoch_bits + cache.site, loaded if is_first else also, bound)
    store_words(at, after if is_first else loaded)
    store_words(at + LINE_ALSO, also if is_first else after)
    return FINE


# ---- lanes anywhere ------------------------------------------------------------------------------------------------
@inlined
def is_stored_before(
    row: Line,
    at: Line,
    byte: Line,
    mask: int,
    epoch_bits: int,
    bound: int,
    group_start: int,
    group_span: int,
    watermark: int,
    size: int,
) -> int:
    """Return 1 if no atomic accessed the bytes, and all stores to them happened before the present access.

    The bytes are those that the lanes of `mask` access. `row` has the host addresses of the cells of lines; `at`
    and `byte` are offsets that `dword_at` and `byte_at` return. `size` is the number of bytes of each access; 0
    stands for a line."""
    lanes = flags_of(mask, LINE_LANES)
    if any_of(lanes & (gather(row + 8 * UPDATED, lanes) != 0)):
        return 0
    stored = gather(row + 8 * STORED, lanes)
    if size != 0:
        stored = part_of(stored, at, lanes)
    if size == 1:
        stored = part_of(stored, byte, lanes)
    return not any_of(lanes & ~is_over(stored, watermark, epoch_bits, bound, group_start, group_span))


@inlined
def load_cells(
    addresses: Line,
    tables: Line,
    records: Line,
    mask: int,
    is_quiet: int,
    epoch_bits: int,
    bound: int,
    group_start: int,
    group_span: int,
    watermark: int,
    size: int,
) -> int:
    """Check loads of `size` bytes by lanes, and record them.

    `tables` has, for each lane, the host address of the cells of its page; `records` has the access record of each
    load.
    """
    lanes = flags_of(mask, LINE_LANES)
    row = tables + line_at(addresses)
    at = dword_at(addresses)
    byte = byte_at(addresses)
    if not (
        is_quiet or is_stored_before(row, at, byte, mask, epoch_bits, bound, group_start, group_span, watermark, size)  # type: ignore[arg-type]
    ):
        return LEAVE
    cell = gather(row + 8 * LOADED, lanes)
    if size == 1:
        cell = part_of(cell, at, lanes)
    if any_of(lanes & ~is_address(cell)):
        return LEAVE
    first = cell + (at if size == 4 else byte)
    second = first + (LINE_ALSO if size == 4 else DWORD_ALSO)
    loaded = gather(first, lanes)
    is_first = is_past(loaded, watermark, epoch_bits, bound, group_start, group_span)
    before = gather(second, lanes & ~is_first, loaded)
    if any_of(lanes & is_address(before)):
        return LEAVE
    scatter(highest(records, before, bound), first if is_first else second, lanes)
    return FINE


@native
def load_lanes(
    addresses: Line,
    mask: int,
    limit: int,
    cells: int,
    page: int,
    record: int,
    quiet: int,
    wave: WaveRow,
    epoch_bits: int,
    bound: int,
    group_start: int,
    group_span: int,
    watermark: int,
    is_local: int,
    size: int,
) -> int:
    """Check loads of `size` bytes from any addresses by the lanes of the bit mask `mask`, and record them.

    In LDS addresses must be below `limit`. `cells` are the cells of page number `page`. `record` is the access
    record of lane 0. `native_order.is_quiet` describes `quiet`."""
    lanes = flags_of(mask, LINE_LANES)
    if is_local and any_of(lanes & (addresses >= limit)):
        return LEAVE
    if size == 4 and any_of(lanes & (addresses & 3 != 0)):
        return LEAVE
    records = record + (lane_numbers(LINE_LANES) << LANE_AT)
    tables = spread(cells, LINE_LANES)
    is_quiet = quiet
    if not is_local:
        if any_of(lanes & (addresses >> PAGE_BITS != page)):
            group, race = Group.from_address(wave.group), Race.from_address(wave.race)
            low, pages = group.low, race.pages
            if any_of(lanes & (addresses - low < group.high - low)):
                return LEAVE
            keys = page_key(addresses, GLOBAL)
            slots = pages + ((keys * MIX >> PAGE_SHIFT) << 4)
            if any_of(lanes & (gather(slots, lanes) != keys)):
                return LEAVE
            tables = gather(slots + 8, lanes)
            is_quiet = not any_of(lanes & (gather(block_at(tables, addresses), lanes) >= watermark))
        else:
            blocks = bits_of(load_words(cells - PAGE_HEAD, BLOCKS) >= watermark)
            is_quiet = not any_of(lanes & (blocks >> block_of(addresses) & 1 != 0))
    return load_cells(
        addresses, tables, records, mask, is_quiet, epoch_bits, bound, group_start, group_span, watermark, size
    )


@native
def load_many(
    addresses: Line,
    caches: Line,
    keys: Line,
    mask: int,
    record: int,
    quiet: int,
    epoch_bits: int,
    bound: int,
    group_start: int,
    group_span: int,
    watermark: int,
    is_local: int,
    size: int,
) -> int:
    """Check several loads at once, and record them; vectors have an element for each load.

    The inline shadow caches of all loads must have the same page. Each load is made by all lanes of a lane
    vector. Either all lanes load one dword (`size` is 4), or each lane loads one dword of a line (`size` is 0).
    `record` is the access record, without a site, of the lane that loads last."""
    lanes = flags_of(mask, LINE_LANES)
    if any_of(lanes & (addresses & 3 != 0)):
        return LEAVE
    if any_of(lanes & (gather(caches, lanes) != keys)):
        return LEAVE
    records = record + gather(caches + SITE, lanes)
    cache = Cache.from_address(lane(caches, 0))
    cells, page, is_quiet = cache.cells, cache.page, quiet
    if not is_local:
        if any_of(lanes & (addresses >> PAGE_BITS != page)):
            return LEAVE
        blocks = bits_of(load_words(cells - PAGE_HEAD, BLOCKS) >= watermark)
        is_quiet = not any_of(lanes & (blocks >> block_of(addresses) & 1 != 0))
    tables = spread(cells, LINE_LANES)
    if size == 4:
        return load_cells(
            addresses, tables, records, mask, is_quiet, epoch_bits, bound, group_start, group_span, watermark, size
        )
    row = tables + line_at(addresses)
    if not (
        is_quiet or is_stored_before(row, row, row, mask, epoch_bits, bound, group_start, group_span, watermark, size)
    ):
        return LEAVE
    loaded = gather(row + 8 * LOADED, lanes)
    also = gather(row + 8 * ALSO_LOADED, lanes)
    if any_of(lanes & (is_address(loaded) | is_address(also))):
        return LEAVE
    is_first = is_past(loaded, watermark, epoch_bits, bound, group_start, group_span)
    place = row + (8 * LOADED if is_first else 8 * ALSO_LOADED)
    scatter(highest(records, loaded if is_first else also, bound), place, lanes)
    return FINE


@native
def store_lanes(
    addresses: Line,
    mask: int,
    limit: int,
    cells: int,
    page: int,
    record: int,
    epoch_bits: int,
    bound: int,
    group_start: int,
    group_span: int,
    watermark: int,
    is_local: int,
    size: int,
) -> int:
    """Check stores of `size` bytes by the lanes of `mask`, and record them.

    Outside of LDS they must be to consecutive addresses in one page.

    `load_lanes` describes the parameters."""
    lanes = flags_of(mask, LINE_LANES)
    if is_local and any_of(lanes & (addresses >= limit)):
        return LEAVE
    if size == 4 and any_of(lanes & (addresses & 3 != 0)):
        return LEAVE
    if not is_local and any_of(lanes & (addresses >> PAGE_BITS != page)):
        return LEAVE
    row = cells + line_at(addresses)
    at = dword_at(addresses)
    offset = at if size == 4 else byte_at(addresses)
    if any_of(lanes & (gather(row + 8 * UPDATED, lanes) != 0)):
        return LEAVE
    stored = gather(row + 8 * STORED, lanes)
    loaded = gather(row + 8 * LOADED, lanes)
    also = gather(row + 8 * ALSO_LOADED, lanes)
    if size == 1:
        stored = part_of(stored, at, lanes)
        loaded = part_of(loaded, at, lanes)
        also = part_of(also, at, lanes)
    is_loaded = lanes & (loaded != 0)
    is_also = lanes & (also != 0)
    has_record = (lanes & ~is_address(stored)) | (is_loaded & ~is_address(loaded)) | (is_also & ~is_address(also))
    if any_of(has_record):
        return LEAVE
    before = gather(stored + offset, lanes)
    first = gather(loaded + offset, is_loaded)
    second = gather(also + offset, is_also)
    past = is_over(before, watermark, epoch_bits, bound, group_start, group_span)
    past = past & is_over(first, watermark, epoch_bits, bound, group_start, group_span)
    past = past & is_over(second, watermark, epoch_bits, bound, group_start, group_span)
    if any_of(lanes & ~past):
        return LEAVE
    scatter(0, loaded + offset, is_loaded)
    scatter(0, also + offset, is_also)
    scatter(record + (lane_numbers(LINE_LANES) << LANE_AT), stored + offset, lanes)
    if not is_local:
        U64[block_at(cells, lane(addresses, 0))] = record
        U64[block_at(cells, lane(addresses, LAST))] = record
    return FINE


# ---- several dwords of each lane -----------------------------------------------------------------------------------
@native
def load_dwords(
    addresses: int,
    mask: int,
    limit: int,
    cells: int,
    page: int,
    record: int,
    quiet: int,
    epoch_bits: int,
    bound: int,
    group_start: int,
    group_span: int,
    watermark: int,
    is_local: int,
    count: int,
) -> int:
    """Check loads of `count` dwords by each lane of `mask`, and record them; `count` is 2 or 4.

    `addresses` is the host address of a table with the address of each lane, which must be a multiple of the size of
    the load. `load_lanes` describes the other parameters. The function handles one lane after another, and all dwords
    of a lane at once."""
    if is_local and not quiet:
        return LEAVE
    for each in range(LINE_LANES):
        if mask >> each & 1:
            address = U64[addresses + 8 * each]
            if unlikely(address & 4 * count - 1 != 0):
                return LEAVE
            if is_local:
                if unlikely(address >= limit):
                    return LEAVE
            elif unlikely(address >> PAGE_BITS != page or U64[block_at(cells, address)] >= watermark):
                return LEAVE
            cell = U64[cells + line_at(address) + 8 * LOADED]
            if unlikely(not is_address(cell)):
                return LEAVE
            at = cell + dword_at(address)
            loaded = load_words(at, count)
            if unlikely(any_of(is_address(loaded))):
                return LEAVE
            own = record + (each << LANE_AT)
            is_first = is_past(loaded, watermark, epoch_bits, bound, group_start, group_span)
            if not any_of(~is_first):
                store_words(at, highest(own, loaded, bound))
            else:
                also = load_words(at + LINE_ALSO, count)
                store_words(at + LINE_ALSO, also if is_first else highest(own, also, bound))
                if unlikely(any_of(is_first)):
                    store_words(at, highest(own, loaded, bound) if is_first else loaded)
    return FINE


@native
def store_dwords(
    addresses: int,
    mask: int,
    limit: int,
    cells: int,
    record: int,
    epoch_bits: int,
    bound: int,
    group_start: int,
    group_span: int,
    watermark: int,
    count: int,
) -> int:
    """Check stores of `count` dwords to LDS by each lane of `mask`, and record them; see `load_dwords`."""
    for each in range(LINE_LANES):
        if mask >> each & 1:
            address = U64[addresses + 8 * each]
            if unlikely(address & 4 * count - 1 != 0 or address >= limit):
                return LEAVE
            row = U64.at(cells + line_at(address))
            at, stored, loaded, also = dword_at(address), row[STORED], row[LOADED], row[ALSO_LOADED]
            if unlikely(row[UPDATED] != 0 or not is_address(stored)):
                return LEAVE
            if unlikely((loaded != 0 and not is_address(loaded)) or (also != 0 and not is_address(also))):
                return LEAVE
            before = load_words(stored + at, count)
            if unlikely(any_of(~is_over(before, watermark, epoch_bits, bound, group_start, group_span))):
                return LEAVE
            if loaded:
                first = load_words(loaded + at, count)
                if unlikely(any_of(~is_over(first, watermark, epoch_bits, bound, group_start, group_span))):
                    return LEAVE
                store_words(loaded + at, spread(0, count))
            if also:
                second = load_words(also + at, count)
                if unlikely(any_of(~is_over(second, watermark, epoch_bits, bound, group_start, group_span))):
                    return LEAVE
                store_words(also + at, spread(0, count))
            store_words(stored + at, spread(record + (each << LANE_AT), count))
    return FINE
