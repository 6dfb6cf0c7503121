"""The compiled race check, for translated code and for accesses that Python passes to it."""

from __future__ import annotations

from typing import Final

from softcard.engine.gcn.races.layout import (
    ALSO_LOADED,
    ATOMIC,
    COHERENT,
    CONFLICT_BYTES,
    CONFLICTS,
    EPOCH_AT,
    EPOCHS,
    FINE,
    FLAT,
    FREE,
    GDS,
    GLOBAL,
    IN_GROUP,
    KIND,
    KNOWS_SAME,
    LANE_AT,
    LDS,
    LEAST,
    LEAVE,
    LINE,
    LINE_LANES,
    LOAD,
    LOADED,
    NO_EPOCHS,
    NUMBER_BITS,
    PAGE_BITS,
    RELEASES,
    ROWS,
    SIDE,
    SITE_AT,
    SIZE_AT,
    SLOT_BYTES,
    SLOTS,
    SPACE_AT,
    STORE,
    STORED,
    UID_AT,
    UPDATED,
    Cache,
    Conflict,
    Group,
    Race,
    Slot,
    WaveRow,
)
from softcard.engine.gcn.races.native_cells import (
    block_at,
    dword_at,
    has_bytes,
    line_at,
    page_of,
    part,
    record_at,
    site_of,
    write,
)
from softcard.engine.gcn.races.native_fast_path import load_lanes
from softcard.engine.gcn.races.native_merge import save_pages
from softcard.engine.gcn.races.native_order import is_before, leave_barrier, set_epoch
from softcard.engine.gcn.races.native_reports import note_load, note_race, note_uses
from softcard.engine.races.clocks import cells_met
from softcard.ir.native import U64, inlined, lowest_bit, native
from softcard.isa.gcn.state import LDS_SIZE, PRIVATE_BASE, SHARED_BASE, WORDS_AT

ALL: Final = (1 << 64) - 1
LOWER: Final = 0xFFFF_FFFF
CHUNK: Final = (1 << LINE_LANES) - 1
RACES: Final = 1
UNSURE: Final = 2
"""The flag, in the result of `against`, of a check that cannot decide.

It is set if the accesses race unless the store leaves memory unchanged, or if a table is full. `RACES` is the flag of a
race.
"""
NOTES: Final = 8
"""The flag of a check that counts races; it is combined with `BY_PYTHON` and `KNOWS_SAME`."""


# ---- events --------------------------------------------------------------------------------------------------------
@native
def open_access(wave: WaveRow, pc: int, what: int, is_single: int) -> int:
    """Return the access record, for lane 0, of the access that an instruction begins now.

    `is_single` is 1 if only one lane is active."""
    race = Race.from_address(Group.from_address(wave.group).race)
    kind, space, flags, epoch = what & KIND, what >> SPACE_AT & 3, 0, wave.epoch
    if kind == ATOMIC or (kind == STORE and space != LDS and space != GDS):
        if wave.is_waited | (space == LDS):
            epoch += 1
            set_epoch(wave, epoch + 1)
            flags = RELEASES
        if space != LDS:
            wave.is_waited = 0
            if kind == STORE:
                wave.stored = epoch
    if (kind == STORE and is_single) or what & COHERENT:
        flags = flags | FREE
    if what & IN_GROUP:
        flags = flags | RELEASES
    if epoch >= EPOCHS - 4:
        race.full = NO_EPOCHS
    return wave.uid << UID_AT | epoch << EPOCH_AT | site_of(race, pc, kind) << SITE_AT | flags


# ---- cells ---------------------------------------------------------------------------------------------------------
@inlined
def allows(kind: int, row: int, record: int, other: int, is_global: int, is_own: int) -> int:
    """Return 1 if both accesses may be atomic in the source code; then they do not race.

    `is_own` is 1 if waves of one work-group make them: a load may be coherent only there. A coherent load, and a
    store by a single lane, may be atomic in the source, because compilers use the same instructions for atomic and
    for plain accesses."""
    mine, theirs = (record & FREE != 0) & is_global, (other & FREE != 0) & is_global
    if kind == LOAD:
        mine = mine | (record & RELEASES) & is_own & is_global
    if row >= LOADED:
        theirs = theirs | (other & RELEASES) & is_own & is_global
    if kind == ATOMIC or row >= LOADED:
        return theirs
    return mine if kind == LOAD or row == UPDATED else 0


@inlined
def rows_met(is_load: int) -> int:
    """Return how many of the kinds of records in a shadow cell conflict with the present access.

    These are the first kinds, from `STORED` on. `is_load` is 1 if the access is a load, else 0."""
    return cells_met(is_load, LOADED, ROWS)


@native
def first_conflict(wave: WaveRow, page: int, address: int, what: int, record: int, same: int) -> int:
    """Return the record of the first recorded access that races with the present access of a byte, or 0.

    An access races with the present one if it conflicts with it and did not happen before it. `record` is the
    record of the present access."""
    kind, is_local = what & KIND, what >> SPACE_AT & 3 == LDS
    is_global = what >> SPACE_AT & 3 == GLOBAL
    race = Race.from_address(Group.from_address(wave.group).race)
    for row in range(rows_met(kind == LOAD)):
        if kind == ATOMIC and row == UPDATED:
            continue
        other = record_at(page, address, row)
        if other == 0 or is_before(wave, other, is_local):
            continue
        if allows(kind, row, record, other, is_global, other - wave.group_start < wave.group_span):
            continue
        if same and kind == STORE and row == STORED:
            continue
        if is_global and address - race.mailboxes < race.mailbox_bytes:
            continue
        return other
    return 0


@native
def clashed(wave: WaveRow, serial: int, address: int) -> int:
    """Return the record of the access that conflicts with the access number `serial` at `address`, or 0.

    Only conflicts that were already found for that access are considered."""
    for number in range(wave.conflict_count):
        conflict = Conflict.from_address(wave.conflicts + number * CONFLICT_BYTES)
        if address - conflict.address < conflict.size and conflict.serial == serial:
            return conflict.other
    return 0


@inlined
def later(wave: WaveRow, record: int, known: int, is_local: int) -> int:
    """Return the load that a shadow cell keeps, of the present load `record` and the recorded load `known`.

    If two waves made the loads, and the loads are unordered, the cell keeps the load of the work-group's last
    wave. If one wave made both in one epoch, it keeps the load of the last site and, for one site, the load of
    the highest lane. The result therefore does not depend on the order in which loads are checked."""
    if known >> EPOCH_AT == record >> EPOCH_AT:
        return max(record, known)
    return known if known > record and not is_before(wave, known, is_local) else record


@native
def touch(wave: WaveRow, race: Race, page: int, address: int, is_whole: int, what: int, record: int) -> None:
    """Record an access in the cells of a dword (`is_whole` is 1) or of a byte (0)."""
    kind = what & KIND
    if kind != LOAD:
        U64[block_at(page, address)] = record
    if kind == LOAD:
        first = record_at(page, address, LOADED)
        row = LOADED if first == 0 or is_before(wave, first, what >> SPACE_AT & 3 == LDS) else ALSO_LOADED
        write(
            race,
            page,
            address,
            is_whole,
            row,
            later(wave, record, record_at(page, address, row), what >> SPACE_AT & 3 == LDS),
        )
    elif kind == ATOMIC:
        write(race, page, address, is_whole, UPDATED, record)
    else:
        write(race, page, address, is_whole, UPDATED, 0)
        write(race, page, address, is_whole, LOADED, 0)
        write(race, page, address, is_whole, ALSO_LOADED, 0)
        write(race, page, address, is_whole, STORED, record)


# ---- checks --------------------------------------------------------------------------------------------------------
@inlined
def is_whole(page: int, at: int, end: int) -> int:
    """Return 1 if an access up to address `end` covers the whole dword at `at`, and the dword has no byte cells."""
    return 1 if at & 3 == 0 and end - at >= 4 and not has_bytes(page, at) else 0


@native
def met(wave: WaveRow, page: int, at: int, what: int, record: int, serial: int, same: int) -> int:
    """Return the record of an access that races with the present access at a dword or byte, or 0.

    If the present access has already been recorded there, return the racing record that was found before that."""
    other = first_conflict(wave, page, at, what, record, same)
    if wave.conflict_count and not other and record_at(page, at, STORED) >> SITE_AT == record >> SITE_AT:
        return clashed(wave, serial, at)
    return other


@native
def against(wave: WaveRow, address: int, what: int, record: int, serial: int, same: int) -> int:
    """Check the access of one lane; return `FINE` or a combination of the flags `RACES` and `UNSURE`.

    `RACES` states that the access races. `UNSURE` states that it races unless the store leaves memory
    unchanged, or that a table is full."""
    race = Race.from_address(Group.from_address(wave.group).race)
    end, at, found = address + (what >> SIZE_AT), address, FINE
    is_sure = (what & KIND != STORE) | (same & KNOWS_SAME != 0) | (race.equal_stores != 0)
    while at < end:
        page = page_of(race, at, what >> SPACE_AT & 3)
        if not page:
            return UNSURE
        other = met(wave, page, at, what, record, serial, same & 1)
        if other:
            found = found | (RACES if is_sure or record_at(page, at, STORED) != other else UNSURE)
        at += 4 if is_whole(page, at, end) else 1
    return found


@native
def note_races(wave: WaveRow, address: int, what: int, record: int, serial: int, same: int, flags: int) -> int:
    """Count each race of one lane's access once; return 1 if Python has to report one of them."""
    race = Race.from_address(Group.from_address(wave.group).race)
    end, at, space = address + (what >> SIZE_AT), address, what >> SPACE_AT & 3
    while at < end:
        page = page_of(race, at, space)
        width = 4 if is_whole(page, at, end) else 1
        other = met(wave, page, at, what, record, serial, same & 1)
        if other:
            earlier = address
            while earlier < at:
                there = page_of(race, earlier, space)
                if met(wave, there, earlier, what, record, serial, same & 1) >> SITE_AT == other >> SITE_AT:
                    break
                earlier += 4 if is_whole(there, earlier, end) else 1
            if earlier >= at and what & KIND == LOAD:
                if note_load(wave, race, address, what, record, other, serial, flags):
                    return LEAVE
            elif earlier >= at and note_race(wave, address, what, record, other, serial, serial, flags):
                return LEAVE
            is_new = record_at(page, at, STORED) >> SITE_AT != record >> SITE_AT
            if is_new and what & KIND == STORE and wave.conflict_count < CONFLICTS:
                conflict = Conflict.from_address(wave.conflicts + wave.conflict_count * CONFLICT_BYTES)
                conflict.address, conflict.size, conflict.serial, conflict.other = at, width, serial, other
                wave.conflict_count += 1
        at += width
    return FINE


@native
def enter(wave: WaveRow, address: int, what: int, record: int) -> int:
    """Record the access of one lane in shadow cells; return 1 if a table is full."""
    race = Race.from_address(Group.from_address(wave.group).race)
    end, at, space = address + (what >> SIZE_AT), address, what >> SPACE_AT & 3
    while at < end:
        page = page_of(race, at, space)
        if not page:
            return LEAVE
        whole = is_whole(page, at, end)
        touch(wave, race, page, at, whole, what, record)
        at += 4 if whole else 1
    return race.full != 0


@native
def all_before(wave: WaveRow, line: int, is_local: int) -> int:
    """Return 1 if all accesses recorded in a line's cell happened before the wave's present access.

    Return 0 if bytes have separate cells."""
    if line == 0:
        return 1
    if line >= LEAST:
        return is_before(wave, line, is_local)
    for dword in range(LINE_LANES):
        record = U64[line + 8 * dword]
        if record and (record < LEAST or not is_before(wave, record, is_local)):
            return 0
    return 1


@inlined
def put_line(wave: WaveRow, row: int, record: int, is_load: int, is_local: int) -> None:
    """Write an access record of kind `row` to the cell of a line, or clear the cell if `record` is 0.

    If the dwords of the line have separate cells, write a record to each of them, with consecutive lanes."""
    line = U64[row]
    if line == 0 or line >= LEAST:
        U64[row] = later(wave, record, line, is_local) if is_load else record
        return
    cells, step = U64.at(line), 1 << LANE_AT if record else 0
    if is_load:
        for dword in range(LINE_LANES):
            cells[dword] = later(wave, record + dword * step, cells[dword], is_local)
    else:
        for dword in range(LINE_LANES):
            cells[dword] = record + dword * step


@native
def check_line(wave: WaveRow, address: int, what: int, record: int) -> int:
    """Check an access of a line by consecutive lanes; return 1 if the lanes must be checked one by one."""
    race = Race.from_address(Group.from_address(wave.group).race)
    space = what >> SPACE_AT & 3
    page, is_local = page_of(race, address, space), space == LDS
    if not page:
        return LEAVE
    at = line_at(page, address, 0)
    row = U64.at(at)
    loaded, also = row[LOADED], row[ALSO_LOADED]
    if row[UPDATED]:
        return LEAVE
    for number in range(rows_met(what & KIND == LOAD)):
        if not all_before(wave, row[number], is_local):
            return LEAVE
    if what & KIND == LOAD:
        if loaded < LEAST and loaded and not all_before(wave, loaded, is_local):
            return LEAVE
        if loaded < LEAST or is_before(wave, loaded, is_local):
            put_line(wave, at + 8 * LOADED, record, 1, is_local)
        elif also and also < LEAST:
            return LEAVE
        else:
            row[ALSO_LOADED] = later(wave, record, also, is_local)
        return FINE
    put_line(wave, at + 8 * LOADED, 0, 0, is_local)
    put_line(wave, at + 8 * ALSO_LOADED, 0, 0, is_local)
    put_line(wave, at + 8 * STORED, record, 0, is_local)
    U64[block_at(page, address)] = record
    return FINE


@inlined
def meant(group: Group, words: int, address: int, what: int) -> int:
    """Return 1 if the check covers the bytes that a lane accesses, because other waves may access them, too.

    These are bytes within the bounds of LDS, in GDS, and in global memory that is not private."""
    own, size = U64.at(words), what >> SIZE_AT
    if what >> SPACE_AT & 3 == LDS:
        return address + size <= own[LDS_SIZE]
    return (what >> SPACE_AT & 3 == GDS) | (address < group.low) | (address >= group.high)


@native
def against_all(
    wave: WaveRow, words: int, what: int, record: int, serial: int, addresses: int, mask: int, same: int, flags: int
) -> int:
    """Check the accesses of lanes one by one with `against`.

    If `flags` contains `NOTES`, count the races of each access with `note_races` instead."""
    group = Group.from_address(wave.group)
    lanes, found = LOWER if what >> SPACE_AT & 3 == LDS else ALL, FINE
    while mask:
        lane = lowest_bit(mask)
        mask &= mask - 1
        address = U64.at(addresses)[lane] & lanes
        if meant(group, words, address, what):
            mine, stays = record + (lane << LANE_AT), same >> lane & 1 | flags & KNOWS_SAME
            if not flags & NOTES:
                found = found | against(wave, address, what, mine, serial, stays)
            elif note_races(wave, address, what, mine, serial, stays, flags):
                return LEAVE
    return found


@inlined
def dword_before(wave: WaveRow, cells: int, dword: int, is_load: int, is_local: int) -> int:
    """Return 1 if all recorded accesses that conflict with an access of a line's dword happened before it.

    Return 0 if the bytes of the dword have separate cells."""
    for row in range(rows_met(is_load)):
        before = part(U64.at(cells)[row], dword)
        if before and (before < LEAST or not is_before(wave, before, is_local)):
            return 0
    return 1


@native
def load_dword(wave: WaveRow, race: Race, page: int, address: int, record: int, is_local: int) -> int:
    """Check a load of a dword, and record it; return 1 if the dword's cells cannot decide or record it."""
    cells, dword = line_at(page, address, 0), address >> 2 & LINE_LANES - 1
    row = U64.at(cells)
    if not dword_before(wave, cells, dword, 1, is_local):
        return LEAVE
    first, target = part(row[LOADED], dword), LOADED
    if first:
        if first < LEAST:
            return LEAVE
        if not is_before(wave, first, is_local):
            target = ALSO_LOADED
            second = part(row[ALSO_LOADED], dword)
            if second and second < LEAST:
                return LEAVE
    return put(race, page, address, target, later(wave, record, part(row[target], dword), is_local))


@native
def store_dword(wave: WaveRow, race: Race, page: int, address: int, record: int, is_local: int) -> int:
    """Check a store of a dword, and record it; return 1 if the dword's cells cannot decide or record it."""
    cells, dword = line_at(page, address, 0), address >> 2 & LINE_LANES - 1
    row = U64.at(cells)
    if not dword_before(wave, cells, dword, 0, is_local):
        return LEAVE
    for number in range(UPDATED, ROWS):
        if part(row[number], dword) and put(race, page, address, number, 0):
            return LEAVE
    U64[block_at(page, address)] = record
    return put(race, page, address, STORED, record)


@native
def load_bytes(wave: WaveRow, race: Race, page: int, address: int, size: int, record: int, is_local: int) -> int:
    """Check a load of bytes of one dword, and record it; return 1 if it may race."""
    cells, dword = line_at(page, address, 0), address >> 2 & LINE_LANES - 1
    row = U64.at(cells)
    if not bytes_before(wave, cells, dword, address, size, 1, is_local):
        return LEAVE
    for byte in range(size):
        first, target = byte_of(part(row[LOADED], dword), address + byte), LOADED
        if first and not is_before(wave, first, is_local):
            target = ALSO_LOADED
        before = byte_of(part(row[target], dword), address + byte)
        if put_byte(race, page, address + byte, target, later(wave, record, before, is_local)):
            return LEAVE
    return FINE


@native
def store_bytes(wave: WaveRow, race: Race, page: int, address: int, size: int, record: int, is_local: int) -> int:
    """Check a store of bytes of one dword, and record it; return 1 if it may race."""
    cells, dword = line_at(page, address, 0), address >> 2 & LINE_LANES - 1
    row = U64.at(cells)
    if not bytes_before(wave, cells, dword, address, size, 0, is_local):
        return LEAVE
    U64[block_at(page, address)] = record
    for byte in range(size):
        for number in range(UPDATED, ROWS):
            if part(row[number], dword) and put_byte(race, page, address + byte, number, 0):
                return LEAVE
        if put_byte(race, page, address + byte, STORED, record):
            return LEAVE
    return FINE


@inlined
def byte_of(dword: int, address: int) -> int:
    """Return the access record of a byte, from the cell word of its dword."""
    return dword if dword == 0 or dword >= LEAST else U64[dword + 8 * (address & 3)]


@native
def bytes_before(wave: WaveRow, cells: int, dword: int, address: int, size: int, is_load: int, is_local: int) -> int:
    """Return 1 if all recorded accesses that conflict with an access of bytes of a dword happened before it."""
    for row in range(rows_met(is_load)):
        cell = part(U64.at(cells)[row], dword)
        for byte in range(size if cell else 0):
            record = byte_of(cell, address + byte)
            if record and not is_before(wave, record, is_local):
                return 0
            if cell >= LEAST:
                break
    return 1


@inlined
def put_byte(race: Race, page: int, address: int, row: int, record: int) -> int:
    """Write an access record of kind `row` to a byte's cell; return 1 if a table is full."""
    dword = part(U64[line_at(page, address, row)], address >> 2 & LINE_LANES - 1)
    if dword and dword < LEAST:
        U64[dword + 8 * (address & 3)] = record
    else:
        write(race, page, address, 0, row, record)
    return race.full != 0


@inlined
def put(race: Race, page: int, address: int, row: int, record: int) -> int:
    """Write an access record of kind `row` to a dword's cell; return 1 if a table is full."""
    line = U64[line_at(page, address, row)]
    cell = line + 8 * (address >> 2 & LINE_LANES - 1)
    if line == 0 or line >= LEAST:
        cell = dword_at(race, page, address, row)
    if cell:
        U64[cell] = record
    return cell == 0


@native
def check_dwords(wave: WaveRow, words: int, what: int, record: int, addresses: int, mask: int) -> int:
    """Check loads or stores of lanes on the fast path; return 1 if the full check is needed.

    The full check then repeats the lanes that were already recorded. The repetition changes nothing, because
    these lanes did not conflict."""
    group = Group.from_address(wave.group)
    race = Race.from_address(group.race)
    space, size, at = what >> SPACE_AT & 3, what >> SIZE_AT, U64.at(addresses)
    lanes, is_local, known, page = LOWER if space == LDS else ALL, space == LDS, ALL, 0
    if what & KIND == LOAD:  # if lanes load the same dword, its cell ends up with the last lane's record
        left, differing, last = mask, 0, 0
        while left:
            last = lowest_bit(left)
            left &= left - 1
            differing = differing | (at[last] ^ at[lowest_bit(mask)])
        mask = mask if differing else 1 << last
    while mask:
        lane = lowest_bit(mask)
        mask &= mask - 1
        address = at[lane] & lanes
        if size < 4:
            if (address & 3) + size > 4:
                return LEAVE
            if meant(group, words, address, what):
                if address >> PAGE_BITS != known:
                    known, page = address >> PAGE_BITS, page_of(race, address, space)
                    if not page:
                        return LEAVE
                mine = record + (lane << LANE_AT)
                if what & KIND == LOAD:
                    if load_bytes(wave, race, page, address, size, mine, is_local):
                        return LEAVE
                elif store_bytes(wave, race, page, address, size, mine, is_local):
                    return LEAVE
            continue
        if address & 3:
            return LEAVE
        if meant(group, words, address, what):
            mine, end = record + (lane << LANE_AT), address + size
            while address < end:
                if address >> PAGE_BITS != known:
                    known, page = address >> PAGE_BITS, page_of(race, address, space)
                    if not page:
                        return LEAVE
                if what & KIND == LOAD:
                    if load_dword(wave, race, page, address, mine, is_local):
                        return LEAVE
                elif store_dword(wave, race, page, address, mine, is_local):
                    return LEAVE
                address += 4
    return FINE


@native
def check_access(
    wave: WaveRow, words: int, what: int, record: int, serial: int, addresses: int, mask: int, same: int, flags: int
) -> int:
    """Check an access of lanes; return 1 if Python has to make the access.

    `record` is the access record for lane 0. `addresses` is the host address of the lanes' addresses."""
    group = Group.from_address(wave.group)
    space, at = what >> SPACE_AT & 3, U64.at(addresses)
    lanes = LOWER if space == LDS else ALL
    is_plain = (what & KIND == LOAD) | ((what & KIND == STORE) & (wave.conflict_count == 0))
    if mask == CHUNK and what >> SIZE_AT == 4 and space <= LDS and is_plain:
        base, wrong = at[0] & lanes, 0
        if base & LINE - 1 == 0:
            for lane in range(LINE_LANES):
                wrong = wrong | ((at[lane] & lanes) ^ base + 4 * lane)
            if space == LDS:
                wrong = wrong | (base + LINE > U64.at(words)[LDS_SIZE])
            else:
                wrong = wrong | ((base < group.high) & (base + LINE > group.low))
            if wrong == 0 and check_line(wave, base, what, record) == FINE:
                return FINE
    if is_plain and check_dwords(wave, words, what, record, addresses, mask) == FINE:
        return FINE
    found = against_all(wave, words, what, record, serial, addresses, mask, same, flags)
    if found & UNSURE:
        return LEAVE
    if found and against_all(wave, words, what, record, serial, addresses, mask, same, flags | NOTES):
        return LEAVE
    while mask:
        lane = lowest_bit(mask)
        mask &= mask - 1
        address = at[lane] & lanes
        if meant(group, words, address, what) and enter(wave, address, what, record + (lane << LANE_AT)):
            return LEAVE
    return FINE


# ---- translated code -----------------------------------------------------------------------------------------------
@native
def slot_of(wave: WaveRow, number: int, key: int, what: int, lanes: int) -> int:
    """Return the host address of the wave's slot `number`, which holds the state of an access in a strip-mined loop.

    If the slot is not open, begin a new access in it. `lanes` is EXEC. Slots are numbered in the order of the
    accesses in their strip-mined loop."""
    at = wave.slots + number * SLOT_BYTES
    if wave.open >> number & 1 == 0:
        slot = Slot.from_address(at)
        slot.record = open_access(wave, key >> NUMBER_BITS, what, lanes & lanes - 1 == 0)
        slot.key, slot.checked, slot.serial = key, 0, Race.from_address(wave.race).serial + number
        if wave.open == 0:
            wave.conflict_count = 0
        wave.open = wave.open | 1 << number
    return at


@inlined
def is_ready(wave: WaveRow, group: Group) -> int:
    """Return 1 if a wave can continue without Python.

    If the wave has reached a barrier, also let it pass the barrier."""
    if wave.passed != wave.generation:
        if group.knows:
            return 0
        leave_barrier(wave)
    return Race.from_address(group.race).full == 0


@inlined
def is_shared(words: int, group: Group, what: int, address: int, size: int) -> int:
    """Return 1 if all of the bytes are in LDS, or if none of them is in LDS or private memory."""
    own, space, upper = U64.at(words), what >> SPACE_AT & 3, address & ~LOWER
    is_aperture = (space == FLAT) & ((upper == own[SHARED_BASE]) | (upper == own[PRIVATE_BASE]))
    is_private = (address < group.high) & (address + size > group.low) & (space != LDS)
    is_beyond = (space == LDS) & (address + size > own[LDS_SIZE])
    return is_aperture | is_private | is_beyond == 0


@native
def fill_cache(wave: WaveRow, at: int, key: int, what: int, address: int, record: int) -> None:
    """Fill the inline shadow cache of an access.

    The cache remains empty if the wave is ordered with others by more than barriers, if the page contains private
    memory, or if a store is to be compared with the deferred races of the wave."""
    cache, group, space = Cache.from_address(at), Group.from_address(wave.group), what >> SPACE_AT & 3
    race, page = Race.from_address(wave.race), address >> PAGE_BITS
    is_private = (space != LDS) & (page << PAGE_BITS < group.high) & (page + 1 << PAGE_BITS > group.low)
    cache.key = 0
    is_compared = (what & KIND == STORE) & (wave.deferred_count != 0)
    if wave.is_alone and not is_private and not is_compared:
        cache.cells = page_of(race, address, space)
        if cache.cells:
            cache.key, cache.page, cache.site = key, page, record & (1 << EPOCH_AT) - 1


@native
def check_shape(wave: WaveRow, slot: Slot, what: int, shape: int, address: int, first: int, mask: int) -> int:
    """Check an access by a lane vector with address pattern `shape`; return 1 if lanes must be checked one by one."""
    if shape == SIDE:
        if what & KIND == STORE and wave.conflict_count:
            return LEAVE
        return check_line(wave, address, what, slot.record + (first << LANE_AT))
    race, space = Race.from_address(wave.race), what >> SPACE_AT & 3
    # The cell ends up with the last lane's record.
    record, end = slot.record + (first + highest_bit(mask) << LANE_AT), address + (what >> SIZE_AT)
    page = page_of(race, address, space)
    if not page or address >> PAGE_BITS != end - 1 >> PAGE_BITS:
        return LEAVE
    while address < end:
        if load_dword(wave, race, page, address, record, space == LDS):
            return LEAVE
        address += 4
    return FINE


@inlined
def highest_bit(mask: int) -> int:
    """Return the number of the highest set bit of a 16-bit mask, or 0 if the mask is 0."""
    number = 8 if mask >> 8 else 0
    number += 4 if mask >> number + 4 else 0
    number += 2 if mask >> number + 2 else 0
    return number + 1 if mask >> number + 1 else number


@inlined
def is_proposal(race: Race, key: int) -> int:
    """Return 1 if the instruction of the access `key` is a load of a compare-and-swap loop.

    The module `swap_loops` has identified these loads."""
    pcs, found = U64.at(race.proposals), 0
    for number in range(race.proposal_count):
        found = found | (pcs[number] == key >> NUMBER_BITS)
    return found


@native
def uses_values(
    wave: WaveRow, words: int, what: int, key: int, serial: int, first: int, addresses: int, mask: int
) -> int:
    """Count the deferred races whose values a store of a lane vector uses; return 1 if Python has to report one."""
    group, lanes, stored = Group.from_address(wave.group), LOWER if what >> SPACE_AT & 3 == LDS else ALL, 0
    if what & KIND == LOAD:
        return FINE
    while mask:
        lane = lowest_bit(mask)
        mask &= mask - 1
        if meant(group, words, U64.at(addresses)[lane] & lanes, what):
            stored = stored | 1 << lane
    if not stored:
        return FINE
    return note_uses(wave, Race.from_address(group.race), key >> NUMBER_BITS, serial, stored << first, 0)


@native
def check_vector(
    state: int,
    wave: WaveRow,
    number: int,
    cache: int,
    key: int,
    what: int,
    lanes: int,
    first: int,
    addresses: int,
    mask: int,
    shape: int,
) -> int:
    """Check the next access of a lane vector; return 1 if Python has to make the access.

    `first` is the vector's first lane, `number` the number of the slot, and `lanes` is EXEC. The address pattern
    `shape` is `SIDE`, `SAME` or 0 (unknown).
    """
    group = Group.from_address(wave.group)
    words, at, is_flat = state + WORDS_AT, U64.at(addresses), what >> SPACE_AT & 3 == FLAT
    if not mask:
        return FINE
    if what & KIND == LOAD and is_proposal(Race.from_address(wave.race), key):
        return FINE
    if not is_ready(wave, group):
        return LEAVE
    is_whole = 0
    if shape:
        is_whole = is_shared(words, group, what, at[0], LINE if shape == SIDE else what >> SIZE_AT)
    if is_flat:
        what = what & ~(3 << SPACE_AT)
    saves = Race.from_address(wave.race).saves
    if saves and what & KIND == STORE and what >> SPACE_AT & 3 == GLOBAL and save_pages(saves, what, addresses, mask):
        return LEAVE
    if is_whole:
        slot = Slot.from_address(slot_of(wave, number, key, what, lanes))
        if wave.deferred_count and uses_values(wave, words, what, key, slot.serial, first, addresses, mask):
            return LEAVE
        fill_cache(wave, cache, key, what, at[0], slot.record)
        if check_shape(wave, slot, what, shape, at[0], first, mask) == FINE:
            slot.checked = slot.checked | mask << first
            return FINE
    elif is_flat:
        left, local, private = mask, U64.at(words)[SHARED_BASE], U64.at(words)[PRIVATE_BASE]
        while left:
            lane = lowest_bit(left)
            left &= left - 1
            upper = at[lane] & ~LOWER
            if upper == local:
                return LEAVE
            if upper == private:
                mask &= ~(1 << lane)
        if not mask:
            return FINE
    slot = Slot.from_address(slot_of(wave, number, key, what, lanes))
    if (
        wave.deferred_count
        and not is_whole
        and uses_values(wave, words, what, key, slot.serial, first, addresses, mask)
    ):
        return LEAVE
    record = slot.record + (first << LANE_AT)
    if not is_whole:
        fill_cache(wave, cache, key, what, at[lowest_bit(mask)], slot.record)
    left = load_lanes(wave, words, what, record, addresses, mask)
    if left and check_access(wave, words, what, record, slot.serial, addresses, left, 0, 0):
        return LEAVE
    slot.checked = slot.checked | mask << first
    return FINE


@native
def check_scalar(wave: WaveRow, cache: int, key: int, what: int, address: int) -> int:
    """Check the next scalar load of a wave; return 1 if Python has to make the load."""
    group = Group.from_address(wave.group)
    if is_proposal(Race.from_address(group.race), key):
        return FINE
    if not is_ready(wave, group):
        return LEAVE
    record = open_access(wave, key >> NUMBER_BITS, what, 1)
    fill_cache(wave, cache, key, what, address, record)
    race = Race.from_address(group.race)
    race.serial += SLOTS
    at, end = address, address + (what >> SIZE_AT)
    page = page_of(race, at, GLOBAL)
    while page and at < end and load_dword(wave, race, page, at, record, 0) == FINE:
        at += 4
        if at & (1 << PAGE_BITS) - 1 == 0 and at < end:
            page = page_of(race, at, GLOBAL)
    if at >= end:
        return FINE
    if against(wave, address, what, record, 0, 0) and note_races(wave, address, what, record, race.serial, 0, 0):
        return LEAVE
    return enter(wave, address, what, record)


@native
def stored_records(race: Race, space: int, addresses: int, count: int, records: int) -> None:
    """Write the access records of the last stores to `count` addresses to the array at `records`.

    `addresses` is the host address of the array of these addresses."""
    for number in range(count):
        address = U64.at(addresses)[number]
        page = page_of(race, address, space)
        U64.at(records)[number] = record_at(page, address, STORED) if page else 0
