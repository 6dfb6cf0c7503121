"""Compiled checks of accesses whose instruction has an inline cache entry, if shadow words suffice to decide.

Translated code contains these functions inline (see `translated`), with everything known at translation time as
constants. `check_load`, `check_store` and `check_atomic` use them, too, in epochs whose events the cache entry does not
have yet. All other accesses go to `native_check.check`, which has the same effect. A check and the update of shadow
memory are two functions, so that a check changes nothing.

Parameters have these meanings in all functions:

- `watermark`, `own` and `bounds` are fields of `layout.HartRow`; `stores`, `loads` and `stride` are fields of
  `layout.Cache`.
- `slots` and `atomic` are the bits of an access record (code) that contain the hart and that stand for the extension A.
- `is_again` is 1 in loops, where translated code passes values that it read before the loop.
- `now` is the watermark; in loops it is 0 if the watermark read before the loop may be out of date.
- `fast_id` is the value of `HartRow.fast_id` before the loop: while it is unchanged, the other values are up to date.
"""

from __future__ import annotations

from softcard.engine.races.clocks import is_of, is_ordered, is_settled
from softcard.engine.riscv.races.layout import (
    ATOMIC,
    BYTES,
    FINE,
    KIND,
    LIMIT,
    NEVER,
    READ,
    RELEASES,
    SIZE_AT,
    SLOT_AT,
    SPLIT,
    SPLIT_AT,
    Cache,
    Entry,
    EventRow,
    HartRow,
    Race,
)
from softcard.engine.riscv.races.native_check import check
from softcard.engine.riscv.races.native_order import cache_key, cache_of, event_at, new_event, release
from softcard.ir.lanes import any_of, load_dwords, spread_dword, store_dwords
from softcard.ir.native import U32, U64, inlined, native, unlikely


# ---- the order of one access ---------------------------------------------------------------------------------------
@inlined
def bound_of(word: int, bounds: int, slots: int, atomic: int) -> int:
    """Return the bound of access records that applies to the shadow word `word`.

    If the word is below the bound, its event happened before this hart's next access. The bound depends on the
    hart of the event, and on whether its accesses belong to the extension A."""
    return U64.at(bounds)[(word & (slots | atomic)) >> SLOT_AT]


@inlined
def is_past(word: int, watermark: int, own: int, bounds: int, slots: int, atomic: int) -> int:
    """Return 1 if a shadow word's event happened before the hart's next access and has no release to acquire."""
    return is_ordered(word, watermark, own, slots | SPLIT, word < bound_of(word, bounds, slots, atomic))


@inlined
def are_past(cell: int, size: int, watermark: int, own: int, bounds: int, slots: int, atomic: int) -> int:
    """Return 1 if `is_past` holds for the shadow words at `cell` of an access of `size` bytes."""
    past = is_past(U32[cell], watermark, own, bounds, slots, atomic)
    if size == 8:
        past = past & is_past(U32[cell + 4], watermark, own, bounds, slots, atomic)
    return past


@inlined
def largest(cell: int, size: int) -> int:
    """Return the largest shadow word at `cell` of an access of `size` bytes.

    If it is below the watermark, all of them are.
    """
    if size == 8:
        return max(U32[cell], U32[cell + 4])
    return U32[cell]


@inlined
def newest_load(host: int, stores: int, stride: int, size: int, harts: int) -> int:
    """Return the largest shadow word in which any hart's loads of an access's bytes are recorded."""
    newest, cell = 0, host + stores
    for _ in range(harts):
        cell += stride
        newest = max(newest, largest(cell, size))
    return newest


@inlined
def newest_of_others(host: int, stores: int, loads: int, stride: int, size: int, harts: int) -> int:
    """Return the largest shadow word in which another hart's loads of an access's bytes are recorded.

    The hart's own loads, whose words are at distance `loads`, are ordered anyway."""
    newest = newest_around(host, stores, loads, stride, harts)
    return max(newest, newest_around(host + 4, stores, loads, stride, harts)) if size == 8 else newest


@inlined
def newest_around(host: int, stores: int, loads: int, stride: int, harts: int) -> int:
    """Return the largest shadow word in which another hart's loads of the dword at `host` are recorded.

    The array of the hart's own loads, at distance `loads`, is skipped."""
    newest, own, cell = 0, host + loads, host + stores + stride
    end = cell + harts * stride
    while cell != own:
        newest = max(newest, U32[cell])
        cell += stride
    cell += stride
    while cell != end:
        newest = max(newest, U32[cell])
        cell += stride
    return newest


@inlined
def has_whole(cell: int, size: int, word: int) -> int:
    """Return 1 if all shadow words at `cell` of an access of `size` bytes equal `word`."""
    same = U32[cell] == word
    if size == 8:
        same = same & (U32[cell + 4] == word)
    return same


@inlined
def put_whole(cell: int, size: int, word: int) -> None:
    """Set all shadow words at `cell` of an access of `size` bytes to `word`."""
    U32[cell] = word
    if size == 8:
        U32[cell + 4] = word


# ---- whole dwords --------------------------------------------------------------------------------------------------
@inlined
def may_load(
    row: HartRow,
    host: int,
    stores: int,
    own: int,
    watermark: int,
    now: int,
    fast_id: int,
    bounds: int,
    size: int,
    slots: int,
    atomic: int,
    is_again: int,
) -> int:
    """Return 1 if a load of whole dwords cannot race with a store and has nothing to acquire; else 0."""
    cell = host + stores
    if unlikely(largest(cell, size) >= now):
        if is_again and row.fast_id != fast_id:
            return 0
        return are_past(cell, size, watermark, own, bounds, slots, atomic)
    return 1


@inlined
def note_load(row: HartRow, cell: int, record: int, size: int, is_again: int) -> None:
    """Record a load of whole dwords in their shadow words for the hart's own loads, from address `cell` on."""
    word = record | BYTES
    if not is_again or not has_whole(cell, size, word):  # a load has fetched the cache line, for which a store waits
        put_whole(cell, size, word)
    row.last = record


@inlined
def may_store(
    row: HartRow,
    host: int,
    stores: int,
    stride: int,
    newest: int,
    own: int,
    watermark: int,
    now: int,
    fast_id: int,
    bounds: int,
    size: int,
    slots: int,
    atomic: int,
    harts: int,
    is_again: int,
) -> int:
    """Return 1 if a store of whole dwords cannot race with an earlier access; else 0.

    `newest` is the result of `newest_load` or `newest_of_others`.
    """
    cell = host + stores
    if unlikely(max(newest, largest(cell, size)) >= now):
        if is_again and row.fast_id != fast_id:
            return 0
        past = are_past(cell, size, watermark, own, bounds, slots, atomic)
        for _ in range(harts):
            cell += stride
            past = past & are_past(cell, size, watermark, own, bounds, slots, atomic)
        return past
    return 1


@inlined
def note_store(
    row: HartRow, host: int, stores: int, stride: int, newest: int, record: int, watermark: int, size: int, harts: int
) -> None:
    """Record a store of whole dwords, and clear the records of loads of the values that it overwrites."""
    cell = host + stores
    put_whole(cell, size, record | BYTES)
    if newest >= watermark:
        for _ in range(harts):
            cell += stride
            put_whole(cell, size, 0)
    row.last = 0


# ---- bytes of a dword ----------------------------------------------------------------------------------------------
@inlined
def is_single(word: int, record: int) -> int:
    """Return 1 if a shadow word contains only the event with the access record `record`."""
    return (word ^ record) <= BYTES


@inlined
def access_part(
    row: HartRow,
    host: int,
    stores: int,
    loads: int,
    stride: int,
    record: int,
    watermark: int,
    now: int,
    fast_id: int,
    bounds: int,
    size: int,
    slots: int,
    atomic: int,
    harts: int,
    is_load: int,
    is_again: int,
) -> int:
    """Check and record an access of some bytes of a dword; return 0 on success.

    Return 1, with nothing changed, if `native_check.check` has to check the access. The check succeeds only if
    the last recorded access of every remaining byte of the dword is older than `watermark`, so that it happened before
    all later accesses, or belongs to the same event as this access."""
    dword, mask, newest = host & ~3, (1 << size) - 1 << (host & 3), 0
    stored = U32[dword + stores]
    cell = dword + (loads if is_load else stores)
    old = U32[cell] if is_load else stored
    if not is_load:
        newest = newest_load(dword, stores, stride, 4, harts)
    if is_again and max(newest, stored, old) < now and mask <= BYTES:
        U32[cell] = record | mask
        return FINE
    if is_again and row.fast_id != fast_id:
        return 1
    past = is_past(stored, watermark, record, bounds, slots, atomic) & (newest < watermark)
    if (past & (mask <= BYTES) & ((old < watermark) | is_single(old, record))) == 0:
        return 1
    U32[cell] = (record if old < watermark else old) | mask
    return FINE


# ---- columns of dwords ---------------------------------------------------------------------------------------------
@inlined
def is_column_free(
    cell: int, stride: int, record: int, watermark: int, layers: int, dwords: int, lanes: int, slots: int
) -> int:
    """Return 1 if a column of shadow words cannot have a race to report; else 0.

    The column has `dwords` adjacent words from address `cell` on in each of `layers` arrays, which lie `stride`
    bytes apart. `lanes` words are tested at a time."""
    wrong = 0
    for _ in range(layers):
        for first in range(0, dwords, lanes):
            words = load_dwords(cell + 4 * first, lanes)
            wrong = wrong | any_of(~is_settled(words, watermark, record, slots | SPLIT))
        cell += stride
    return wrong == 0


@inlined
def put_column(cell: int, word: int, dwords: int, lanes: int) -> None:
    """Set the shadow words of `dwords` adjacent dwords to `word`, `lanes` words at a time."""
    for first in range(0, dwords, lanes):
        store_dwords(cell + 4 * first, spread_dword(word, lanes))


@inlined
def note_loads(row: HartRow, cell: int, record: int, dwords: int, lanes: int) -> None:
    """Record loads of `dwords` adjacent dwords."""
    put_column(cell, record | BYTES, dwords, lanes)
    row.last = record


@inlined
def note_stores(row: HartRow, stores: int, loads: int, record: int, watermark: int, dwords: int, lanes: int) -> None:
    """Record stores to `dwords` adjacent dwords, and clear the records of the hart's own loads of them.

    The records of other harts' loads are below the watermark already.
    """
    put_column(stores, record | BYTES, dwords, lanes)
    is_new = 0
    for first in range(0, dwords, lanes):
        is_new = is_new | any_of(load_dwords(loads + 4 * first, lanes) >= watermark)
    if is_new:
        put_column(loads, 0, dwords, lanes)
    row.last = 0


# ---- in any epoch --------------------------------------------------------------------------------------------------
@inlined
def is_known(row: HartRow, cache: Cache, pc: int, what: int, host: int) -> int:
    """Return 1 if the inline cache entry is valid for an access, so that only shadow words must be tested."""
    wrong = (cache.key ^ cache_key(pc, what)) | (row.fast_id ^ row.armed) | row.is_moving | host & 3
    return (wrong == 0) & (host - cache.low < cache.span)


@inlined
def cached_event(row: HartRow, race: Race, cache: Cache, pc: int, what: int) -> int:
    """Return the access record of the event of a repeated load or store; create the event if necessary.

    An event groups the accesses of one instruction in one epoch of a hart. The result is 0 if the access may
    synchronise, or if the event numbers are used up."""
    if cache.epoch_id == row.armed:
        return cache.record
    entry = Entry.from_address(cache.entry)
    if entry.epoch_id == row.epoch_id or race.next + race.step >= LIMIT:
        return 0
    record = new_event(row, race, pc, what, 0, 0)
    entry.record, entry.epoch_id, cache.record, cache.epoch_id = record, row.epoch_id, record, row.armed
    return record


@native
def check_load(row: HartRow, pc: int, what: int, host: int, address: int) -> int:
    """Check and record the next load of a hart; return 0.

    Return 1, with nothing changed, if Python must check the load."""
    race, cache, size = Race.from_address(row.race), Cache.from_address(cache_of(row, pc)), what >> SIZE_AT
    if is_known(row, cache, pc, what, host):
        own, watermark, slots, atomic = row.own, row.watermark, race.slot_mask, race.atomic
        if may_load(row, host, cache.stores, own, watermark, watermark, 0, row.bounds, size, slots, atomic, 0):
            record = cached_event(row, race, cache, pc, what)
            if record:
                note_load(row, host + cache.loads, record, size, 0)
                return FINE
    return check(row, pc, what, host, address)


@native
def check_store(row: HartRow, pc: int, what: int, host: int, address: int) -> int:
    """Check and record the next store of a hart; return 0.

    Return 1, with nothing changed, if Python must check the store."""
    race, cache, size = Race.from_address(row.race), Cache.from_address(cache_of(row, pc)), what >> SIZE_AT
    if is_known(row, cache, pc, what, host):
        own, watermark, slots, atomic, harts = row.own, row.watermark, race.slot_mask, race.atomic, race.harts
        stores, loads, stride = cache.stores, cache.loads, cache.stride
        newest = newest_of_others(host, stores, loads, stride, size, harts)
        if may_store(
            row, host, stores, stride, newest, own, watermark, watermark, 0, row.bounds, size, slots, atomic, harts, 0
        ):
            record = cached_event(row, race, cache, pc, what)
            if record:
                note_store(row, host, stores, stride, newest, record, watermark, size, harts)
                put_whole(host + loads, size, 0)
                return FINE
    return check(row, pc, what, host, address)


# ---- the extension A -----------------------------------------------------------------------------------------------
@inlined
def is_own(row: HartRow, race: Race, word: int) -> int:
    """Return 1 if the event in a shadow word is below the watermark, or is an event of this hart.

    An event of this hart counts only if it does not pass on a release of another hart."""
    if word < row.watermark:
        return 1
    if word >> SPLIT_AT or not is_of(word, row.own, race.slot_mask):
        return 0
    event = EventRow.from_address(event_at(race, word))
    clock = event.clock
    return (event.what & KIND != ATOMIC) | (clock == row.released) | (clock == row.earlier) | (clock == race.nothing)


@inlined
def are_own(row: HartRow, race: Race, cache: Cache, host: int, size: int) -> int:
    """Return 1 if an access can be recorded without a check against other harts.

    Three conditions must hold: `is_own` is 1 for all shadow words of the access; other harts have not loaded the bytes
    since the watermark; and an event number is free.
    """
    cell = host + cache.stores
    if row.is_acquiring or race.next + race.step >= LIMIT or not is_own(row, race, U32[cell]):
        return 0
    if size == 8 and not is_own(row, race, U32[cell + 4]):
        return 0
    return newest_of_others(host, cache.stores, cache.loads, cache.stride, size, race.harts) < row.watermark


@native
def check_atomic(row: HartRow, pc: int, what: int, host: int, address: int) -> int:
    """Check and record the next access of the extension A by a hart; return 0.

    Return 1 if Python must check the access. If another hart may have accessed the bytes since the last
    barrier, `native_check.check` checks the access."""
    race, cache, size = Race.from_address(row.race), Cache.from_address(cache_of(row, pc)), what >> SIZE_AT
    if not is_known(row, cache, pc, what, host) or not are_own(row, race, cache, host, size):
        return check(row, pc, what, host, address)
    entry, kind = Entry.from_address(cache.entry), what & KIND
    if what & RELEASES and kind != READ:
        release(row)
        row.fast_id = NEVER if race.full else row.armed
    if entry.epoch_id != row.epoch_id:
        entry.record, entry.epoch_id = new_event(row, race, pc, what, 1, 1), row.epoch_id
    word = entry.record | BYTES
    if kind != READ:
        put_whole(host + cache.stores, size, word)
    put_whole(host + cache.loads, size, word if kind == READ else 0)
    row.last = 0
    return FINE
