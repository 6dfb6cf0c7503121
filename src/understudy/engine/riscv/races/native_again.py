"""Looks at accesses whose instruction has a hint, of whichever tick, where words of cells say all: compiled.

They do what `native_look.look` does, which is asked where there is more to look at. Accesses are of whole dwords.
"""

from __future__ import annotations

from understudy.engine.riscv.races.codes import (
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
    SPLIT_AT,
    Entry,
    EventRow,
    HartRow,
    Hint,
    Race,
)
from understudy.engine.riscv.races.native_cells import slot_of
from understudy.engine.riscv.races.native_look import look
from understudy.engine.riscv.races.native_order import event_at, hint_key, hint_of, new_event, release
from understudy.ir.native import U32, U64, inlined, native


@inlined
def is_known(row: HartRow, hint: Hint, pc: int, what: int, host: int) -> int:
    """Whether there is nothing to look at but words of cells, and a hint says where those are."""
    wrong = (hint.key ^ hint_key(pc, what)) | (row.quick ^ row.armed) | row.is_moving | host & 3
    return (wrong == 0) & (host - hint.low < hint.span)


@inlined
def is_past(row: HartRow, race: Race, word: int) -> int:
    """Whether what a word tells of came before all that a hart does now, and is nothing to acquire from."""
    if word < row.floor:
        return 1
    return word < U64.at(row.bounds)[(word & (race.slot_mask | race.atomic)) >> SLOT_AT]


@inlined
def are_past(row: HartRow, race: Race, cell: int, size: int) -> int:
    """The same of the words of an access."""
    if not is_past(row, race, U32[cell]):
        return 0
    return 1 if size == 4 else is_past(row, race, U32[cell + 4])


@inlined
def put_whole(cell: int, size: int, word: int) -> None:
    """Have the words of an access be this one."""
    U32[cell] = word
    if size != 4:
        U32[cell + 4] = word


@inlined
def event_again(row: HartRow, race: Race, hint: Hint, pc: int, what: int) -> int:
    """The event of a load or store; 0 where it may be one that synchronizes, or there is no room for it."""
    if hint.stamp == row.armed:
        return hint.code
    entry = Entry.from_address(hint.entry)
    if entry.stamp == row.stamp or race.next + race.step >= LIMIT:
        return 0
    code = new_event(row, race, pc, what, 0, 0)
    entry.code, entry.stamp, hint.code, hint.stamp = code, row.stamp, code, row.armed
    return code


@native
def look_load(row: HartRow, pc: int, what: int, host: int, address: int) -> int:
    """A load is next; 1 where Python has to look, and nothing has been done."""
    race, hint, size = Race.from_address(row.race), Hint.from_address(hint_of(row, pc)), what >> SIZE_AT
    if is_known(row, hint, pc, what, host) and are_past(row, race, host + hint.stores, size):
        code = event_again(row, race, hint, pc, what)
        if code:
            put_whole(host + hint.loads, size, code | BYTES)
            row.last = code
            return FINE
    return look(row, pc, what, host, address)


@native
def look_store(row: HartRow, pc: int, what: int, host: int, address: int) -> int:
    """The same of a store."""
    race, hint, size = Race.from_address(row.race), Hint.from_address(hint_of(row, pc)), what >> SIZE_AT
    if is_known(row, hint, pc, what, host) and are_all_past(row, race, hint, host, size):
        code = event_again(row, race, hint, pc, what)
        if code:
            put_whole(host + hint.stores, size, code | BYTES)
            put_whole(host + hint.loads, size, 0)
            row.last = 0
            return FINE
    return look(row, pc, what, host, address)


@inlined
def are_all_past(row: HartRow, race: Race, hint: Hint, host: int, size: int) -> int:
    """Whether stores before are past, and no other hart's loads are to be looked at."""
    if not are_past(row, race, host + hint.stores, size):
        return 0
    return are_loads_over(row, race, hint, host, size)


@inlined
def are_loads_over(row: HartRow, race: Race, hint: Hint, host: int, size: int) -> int:
    """Whether no other hart has loaded what is stored next since the last barrier."""
    newest = newest_load(race, hint, host)
    return (newest if size == 4 else max(newest, newest_load(race, hint, host + 4))) < row.floor


@inlined
def newest_load(race: Race, hint: Hint, host: int) -> int:
    """The largest of the words that tell of other harts' loads of a dword."""
    stride, own, newest = hint.stride, host + hint.loads, 0
    cell = host + hint.stores + stride
    end = cell + race.harts * stride
    while cell != own:
        newest = max(newest, U32[cell])
        cell += stride
    cell += stride
    while cell != end:
        newest = max(newest, U32[cell])
        cell += stride
    return newest


# ---- the extension A -----------------------------------------------------------------------------------------------
@inlined
def is_own(row: HartRow, race: Race, word: int) -> int:
    """Whether what a word tells of is over, or the hart's own, with nothing of others to hand on."""
    if word < row.floor:
        return 1
    if word >> SPLIT_AT or slot_of(race, word) != row.slot:
        return 0
    event = EventRow.from_address(event_at(race, word))
    clock = event.clock
    return (event.what & KIND != ATOMIC) | (clock == row.released) | (clock == row.earlier) | (clock == race.nothing)


@inlined
def are_own(row: HartRow, race: Race, hint: Hint, host: int, size: int) -> int:
    """Whether all that an access meets is, and there is room for it."""
    cell = host + hint.stores
    if row.is_acquiring or race.next + race.step >= LIMIT or not is_own(row, race, U32[cell]):
        return 0
    if size != 4 and not is_own(row, race, U32[cell + 4]):
        return 0
    return are_loads_over(row, race, hint, host, size)


@native
def look_atomic(row: HartRow, pc: int, what: int, host: int, address: int) -> int:
    """The same of an access of the extension A, where only its hart has been since the last barrier."""
    race, hint, size = Race.from_address(row.race), Hint.from_address(hint_of(row, pc)), what >> SIZE_AT
    if not is_known(row, hint, pc, what, host) or not are_own(row, race, hint, host, size):
        return look(row, pc, what, host, address)
    entry, kind = Entry.from_address(hint.entry), what & KIND
    if what & RELEASES and kind != READ:
        release(row)
        row.quick = NEVER if race.full else row.armed
    if entry.stamp != row.stamp:
        entry.code, entry.stamp = new_event(row, race, pc, what, 1, 1), row.stamp
    word = entry.code | BYTES
    if kind != READ:
        put_whole(host + hint.stores, size, word)
    put_whole(host + hint.loads, size, word if kind == READ else 0)
    row.last = 0
    return FINE
