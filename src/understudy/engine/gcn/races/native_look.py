"""What holds an access against those before it, compiled: for translated code, and where Python looks at one."""

from __future__ import annotations

from typing import Final

from understudy.engine.gcn.races.codes import (
    ALSO_LOADED,
    ATOMIC,
    BY_PYTHON,
    CLASH_BYTES,
    CLASHES,
    COHERENT,
    FINE,
    FLAT,
    FREE,
    GDS,
    GLOBAL,
    GROUPS,
    KERNELS,
    KIND,
    KNOWS_SAME,
    LANE_AT,
    LANE_MASK,
    LDS,
    LEAST,
    LEAVE,
    LINE,
    LINE_LANES,
    LOAD,
    LOADED,
    NO_PAIRS,
    NO_TICKS,
    NUMBER_BITS,
    PAGE_BITS,
    RELEASES,
    ROWS,
    SIDE,
    SITE_AT,
    SITES,
    SIZE_AT,
    SLOT_BYTES,
    SLOTS,
    SPACE_AT,
    STORE,
    STORED,
    TICK_AT,
    TICKS,
    TOLD,
    TOLD_BYTES,
    UID_AT,
    UPDATED,
    WAVES,
    Clash,
    Group,
    Hint,
    Race,
    Slot,
    Told,
    WaveRow,
)
from understudy.engine.gcn.races.native_cells import (
    MIX,
    block_at,
    code_at,
    dword_at,
    has_bytes,
    line_at,
    page_of,
    part,
    site_of,
    write,
)
from understudy.engine.gcn.races.native_keep import keep
from understudy.engine.gcn.races.native_order import is_before, launch_of, leave_barrier, set_tick
from understudy.engine.gcn.races.native_quick import load_lanes
from understudy.ir.native import U64, inlined, lowest_bit, native
from understudy.isa.gcn.state import LDS_SIZE, PRIVATE_BASE, SHARED_BASE, WORDS_AT

ALL: Final = (1 << 64) - 1
LOWER: Final = 0xFFFF_FFFF
CHUNK: Final = (1 << LINE_LANES) - 1
RACES: Final = 1
UNSURE: Final = 2
"""Of what `against` finds: a race; one if memory does not stay as it is, or no room."""
NOTES: Final = 8
"""Of a look, beside `BY_PYTHON` and `KNOWS_SAME`: races are counted."""


# ---- events --------------------------------------------------------------------------------------------------------
@native
def open_access(wave: WaveRow, pc: int, what: int, is_single: int) -> int:
    """The code of accesses that an instruction makes now, for lane 0; `is_single`: EXEC has one lane."""
    race = Race.from_address(Group.from_address(wave.group).race)
    kind, space, flags, tick = what & KIND, what >> SPACE_AT & 3, 0, wave.tick
    if kind == ATOMIC or (kind == STORE and space != LDS and space != GDS):
        if wave.is_waited | (space == LDS):
            tick += 1
            set_tick(wave, tick + 1)
            flags = RELEASES
        if space != LDS:
            wave.is_waited = 0
    if (kind == STORE and is_single) or what & COHERENT:
        flags = flags | FREE
    if tick >= TICKS - 4:
        race.full = NO_TICKS
    return wave.uid << UID_AT | tick << TICK_AT | site_of(race, pc, kind) << SITE_AT | flags


# ---- cells ---------------------------------------------------------------------------------------------------------
@inlined
def allows(kind: int, row: int, code: int, other: int, is_global: int) -> int:
    """Whether two accesses are atomic in the sense of memory models, as far as machine code shows it."""
    mine, theirs = (code & FREE != 0) & is_global, (other & FREE != 0) & is_global
    if kind == ATOMIC or row >= LOADED:
        return theirs
    return mine if kind == LOAD or row == UPDATED else 0


@native
def in_the_way(wave: WaveRow, page: int, address: int, what: int, code: int, same: int) -> int:
    """The code of the first access of a byte that nothing orders before this one; 0 where there is none."""
    kind, is_local = what & KIND, what >> SPACE_AT & 3 == LDS
    is_global = what >> SPACE_AT & 3 == GLOBAL
    for row in range(ROWS):
        if (kind == LOAD and row >= LOADED) or (kind == ATOMIC and row == UPDATED):
            continue
        other = code_at(page, address, row)
        if other == 0 or is_before(wave, other, is_local) or allows(kind, row, code, other, is_global):
            continue
        if same and kind == STORE and row == STORED:
            continue
        return other
    return 0


@native
def clashed(wave: WaveRow, serial: int, address: int) -> int:
    """Whom an access that goes on has raced with at a place before."""
    for number in range(wave.clash_count):
        clash = Clash.from_address(wave.clashes + number * CLASH_BYTES)
        if address - clash.address < clash.size and clash.serial == serial:
            return clash.other
    return 0


@inlined
def later(wave: WaveRow, code: int, known: int, is_local: int) -> int:
    """Which load cells know of: of those that nothing orders, that of the work-group's last wave.

    Of those by one wave in one tick, none of which is the first, that of the last site, and of the accesses of that the
    one of the highest lane. So it does not matter in which order they are looked at.
    """
    if known >> TICK_AT == code >> TICK_AT:
        return max(code, known)
    return known if known > code and not is_before(wave, known, is_local) else code


@native
def touch(wave: WaveRow, race: Race, page: int, address: int, is_whole: int, what: int, code: int) -> None:
    """Have cells know of an access of a dword, or of a byte."""
    kind = what & KIND
    if kind != LOAD:
        U64[block_at(page, address)] = code
    if kind == LOAD:
        first = code_at(page, address, LOADED)
        row = LOADED if first == 0 or is_before(wave, first, what >> SPACE_AT & 3 == LDS) else ALSO_LOADED
        write(
            race,
            page,
            address,
            is_whole,
            row,
            later(wave, code, code_at(page, address, row), what >> SPACE_AT & 3 == LDS),
        )
    elif kind == ATOMIC:
        write(race, page, address, is_whole, UPDATED, code)
    else:
        write(race, page, address, is_whole, UPDATED, 0)
        write(race, page, address, is_whole, LOADED, 0)
        write(race, page, address, is_whole, ALSO_LOADED, 0)
        write(race, page, address, is_whole, STORED, code)


# ---- telling -------------------------------------------------------------------------------------------------------
@native
def note_race(wave: WaveRow, address: int, what: int, code: int, other: int, serial: int, flags: int) -> int:
    """Count a race of two sites; 1 where it is new and Python has to tell of it."""
    group = Group.from_address(wave.group)
    race = Race.from_address(group.race)
    uid, between = other >> UID_AT, WAVES
    if uid - group.first >= group.count:
        between = GROUPS if launch_of(race, uid) == group.launch else KERNELS
    mine, theirs = code >> SITE_AT & SITES - 1, other >> SITE_AT & SITES - 1
    key = mine << 14 | theirs
    key = ((key << 2 | between) << 2 | what >> SPACE_AT & 3) << 1 | 1
    slots = U64.at(race.told_slots)
    at = (key * MIX) >> 40 & TOLD - 1
    while slots[2 * at] != 0 and slots[2 * at] != key:
        at = at + 1 & TOLD - 1
    if slots[2 * at] == 0:
        if race.raises and not flags & BY_PYTHON:
            return LEAVE
        if race.told_count >= TOLD >> 1:
            race.full = NO_PAIRS
            return LEAVE
        slots[2 * at], slots[2 * at + 1] = key, race.told + race.told_count * TOLD_BYTES
        race.told_count += 1
        made = Told.from_address(slots[2 * at + 1])
        made.count, made.serial = 0, ALL
    found = Told.from_address(slots[2 * at + 1])
    found.count += 1
    if serial < found.serial:  # chunks of an access may come behind those of a later one
        found.code, found.other, found.address, found.what = code, other, address, what
        found.lanes, found.between, found.serial = 0, between, serial
    if serial == found.serial and other >> SITE_AT == found.other >> SITE_AT:
        found.lanes = found.lanes | 1 << (code >> LANE_AT & LANE_MASK)
    return FINE


# ---- looking -------------------------------------------------------------------------------------------------------
@inlined
def is_whole(page: int, at: int, end: int) -> int:
    """Whether an access up to `end` goes on with a dword whose bytes have no cells of their own."""
    return 1 if at & 3 == 0 and end - at >= 4 and not has_bytes(page, at) else 0


@native
def met(wave: WaveRow, page: int, at: int, what: int, code: int, serial: int, same: int) -> int:
    """Whom an access races with at a dword or byte, as cells were before it began; 0 where there is nobody."""
    other = in_the_way(wave, page, at, what, code, same)
    if wave.clash_count and not other and code_at(page, at, STORED) >> SITE_AT == code >> SITE_AT:
        return clashed(wave, serial, at)
    return other


@native
def against(wave: WaveRow, address: int, what: int, code: int, serial: int, same: int) -> int:
    """Hold the access of one lane against those before it: whether there are `RACES`, or it is `UNSURE`."""
    race = Race.from_address(Group.from_address(wave.group).race)
    end, at, found = address + (what >> SIZE_AT), address, FINE
    is_sure = (what & KIND != STORE) | (same & KNOWS_SAME != 0) | (race.equal_stores != 0)
    while at < end:
        page = page_of(race, at, what >> SPACE_AT & 3)
        if not page:
            return UNSURE
        other = met(wave, page, at, what, code, serial, same & 1)
        if other:
            found = found | (RACES if is_sure or code_at(page, at, STORED) != other else UNSURE)
        at += 4 if is_whole(page, at, end) else 1
    return found


@native
def note_races(wave: WaveRow, address: int, what: int, code: int, serial: int, same: int, flags: int) -> int:
    """Count whom the access of one lane races with, each once; 1 where Python has to tell of it."""
    race = Race.from_address(Group.from_address(wave.group).race)
    end, at, space = address + (what >> SIZE_AT), address, what >> SPACE_AT & 3
    while at < end:
        page = page_of(race, at, space)
        width = 4 if is_whole(page, at, end) else 1
        other = met(wave, page, at, what, code, serial, same & 1)
        if other:
            earlier = address
            while earlier < at:
                there = page_of(race, earlier, space)
                if met(wave, there, earlier, what, code, serial, same & 1) >> SITE_AT == other >> SITE_AT:
                    break
                earlier += 4 if is_whole(there, earlier, end) else 1
            if earlier >= at and note_race(wave, address, what, code, other, serial, flags):
                return LEAVE
            is_new = code_at(page, at, STORED) >> SITE_AT != code >> SITE_AT
            if is_new and what & KIND == STORE and wave.clash_count < CLASHES:
                clash = Clash.from_address(wave.clashes + wave.clash_count * CLASH_BYTES)
                clash.address, clash.size, clash.serial, clash.other = at, width, serial, other
                wave.clash_count += 1
        at += width
    return FINE


@native
def enter(wave: WaveRow, address: int, what: int, code: int) -> int:
    """Have cells know of the access of one lane; 1 where there is no room."""
    race = Race.from_address(Group.from_address(wave.group).race)
    end, at, space = address + (what >> SIZE_AT), address, what >> SPACE_AT & 3
    while at < end:
        page = page_of(race, at, space)
        if not page:
            return LEAVE
        whole = is_whole(page, at, end)
        touch(wave, race, page, at, whole, what, code)
        at += 4 if whole else 1
    return race.full != 0


@native
def all_before(wave: WaveRow, line: int, is_local: int) -> int:
    """Whether all that the cell of a line tells of came before; bytes are looked at elsewhere."""
    if line == 0:
        return 1
    if line >= LEAST:
        return is_before(wave, line, is_local)
    for dword in range(LINE_LANES):
        code = U64[line + 8 * dword]
        if code and (code < LEAST or not is_before(wave, code, is_local)):
            return 0
    return 1


@inlined
def put_line(wave: WaveRow, row: int, code: int, is_load: int, is_local: int) -> None:
    """Have the cell of a line hold a code, which counts lanes, or 0."""
    line = U64[row]
    if line == 0 or line >= LEAST:
        U64[row] = later(wave, code, line, is_local) if is_load else code
        return
    cells, step = U64.at(line), 1 << LANE_AT if code else 0
    if is_load:
        for dword in range(LINE_LANES):
            cells[dword] = later(wave, code + dword * step, cells[dword], is_local)
    else:
        for dword in range(LINE_LANES):
            cells[dword] = code + dword * step


@native
def look_line(wave: WaveRow, address: int, what: int, code: int) -> int:
    """Look at an access of a line by lanes side by side; 1 where it has to be looked at lane by lane."""
    race = Race.from_address(Group.from_address(wave.group).race)
    space = what >> SPACE_AT & 3
    page, is_local = page_of(race, address, space), space == LDS
    if not page:
        return LEAVE
    at = line_at(page, address, 0)
    row = U64.at(at)
    loaded, also = row[LOADED], row[ALSO_LOADED]
    if row[UPDATED] or not all_before(wave, row[STORED], is_local):
        return LEAVE
    if what & KIND == LOAD:
        if loaded < LEAST and loaded and not all_before(wave, loaded, is_local):
            return LEAVE
        if loaded < LEAST or is_before(wave, loaded, is_local):
            put_line(wave, at + 8 * LOADED, code, 1, is_local)
        elif also and also < LEAST:
            return LEAVE
        else:
            row[ALSO_LOADED] = later(wave, code, also, is_local)
        return FINE
    if not all_before(wave, loaded, is_local) or not all_before(wave, also, is_local):
        return LEAVE
    put_line(wave, at + 8 * LOADED, 0, 0, is_local)
    put_line(wave, at + 8 * ALSO_LOADED, 0, 0, is_local)
    put_line(wave, at + 8 * STORED, code, 0, is_local)
    U64[block_at(page, address)] = code
    return FINE


@inlined
def meant(group: Group, words: int, address: int, what: int) -> int:
    """Whether a lane's access is one of memory that others see: not beyond LDS, not of private memory."""
    own, size = U64.at(words), what >> SIZE_AT
    if what >> SPACE_AT & 3 == LDS:
        return address + size <= own[LDS_SIZE]
    return (what >> SPACE_AT & 3 == GDS) | (address < group.low) | (address >= group.high)


@native
def against_all(
    wave: WaveRow, words: int, what: int, code: int, serial: int, addresses: int, mask: int, same: int, flags: int
) -> int:
    """Hold the accesses of lanes against those before them: see `against`; with `NOTES`, `note_races`."""
    group = Group.from_address(wave.group)
    lanes, found = LOWER if what >> SPACE_AT & 3 == LDS else ALL, FINE
    while mask:
        lane = lowest_bit(mask)
        mask &= mask - 1
        address = U64.at(addresses)[lane] & lanes
        if meant(group, words, address, what):
            mine, stays = code + (lane << LANE_AT), same >> lane & 1 | flags & KNOWS_SAME
            if not flags & NOTES:
                found = found | against(wave, address, what, mine, serial, stays)
            elif note_races(wave, address, what, mine, serial, stays, flags):
                return LEAVE
    return found


@native
def load_dword(wave: WaveRow, race: Race, page: int, address: int, code: int, is_local: int) -> int:
    """Look at a load of a dword; 1 where that needs more than a look at cells of dwords."""
    row, dword = U64.at(line_at(page, address, 0)), address >> 2 & LINE_LANES - 1
    for number in range(LOADED):
        before = part(row[number], dword)
        if before and (before < LEAST or not is_before(wave, before, is_local)):
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
    return put(race, page, address, target, later(wave, code, part(row[target], dword), is_local))


@native
def store_dword(wave: WaveRow, race: Race, page: int, address: int, code: int, is_local: int) -> int:
    """The same of a store."""
    row, dword = U64.at(line_at(page, address, 0)), address >> 2 & LINE_LANES - 1
    for number in range(ROWS):
        before = part(row[number], dword)
        if before and (before < LEAST or not is_before(wave, before, is_local)):
            return LEAVE
    for number in range(UPDATED, ROWS):
        if part(row[number], dword) and put(race, page, address, number, 0):
            return LEAVE
    U64[block_at(page, address)] = code
    return put(race, page, address, STORED, code)


@native
def load_bytes(wave: WaveRow, race: Race, page: int, address: int, size: int, code: int, is_local: int) -> int:
    """The same of a load of bytes of one dword."""
    row, dword = U64.at(line_at(page, address, 0)), address >> 2 & LINE_LANES - 1
    for number in range(LOADED):
        if not bytes_before(wave, part(row[number], dword), address, size, is_local):
            return LEAVE
    for byte in range(size):
        first, target = byte_of(part(row[LOADED], dword), address + byte), LOADED
        if first and not is_before(wave, first, is_local):
            target = ALSO_LOADED
        before = byte_of(part(row[target], dword), address + byte)
        if put_byte(race, page, address + byte, target, later(wave, code, before, is_local)):
            return LEAVE
    return FINE


@native
def store_bytes(wave: WaveRow, race: Race, page: int, address: int, size: int, code: int, is_local: int) -> int:
    """The same of a store."""
    row, dword = U64.at(line_at(page, address, 0)), address >> 2 & LINE_LANES - 1
    for number in range(ROWS):
        if not bytes_before(wave, part(row[number], dword), address, size, is_local):
            return LEAVE
    U64[block_at(page, address)] = code
    for byte in range(size):
        for number in range(UPDATED, ROWS):
            if part(row[number], dword) and put_byte(race, page, address + byte, number, 0):
                return LEAVE
        if put_byte(race, page, address + byte, STORED, code):
            return LEAVE
    return FINE


@inlined
def byte_of(dword: int, address: int) -> int:
    """The code of a byte, by the cell of its dword."""
    return dword if dword == 0 or dword >= LEAST else U64[dword + 8 * (address & 3)]


@native
def bytes_before(wave: WaveRow, dword: int, address: int, size: int, is_local: int) -> int:
    """Whether all that cells of bytes tell of came before, by the cell of their dword."""
    if dword == 0:
        return 1
    if dword >= LEAST:
        return is_before(wave, dword, is_local)
    for byte in range(size):
        code = U64[dword + 8 * (address + byte & 3)]
        if code and not is_before(wave, code, is_local):
            return 0
    return 1


@inlined
def put_byte(race: Race, page: int, address: int, row: int, code: int) -> int:
    """Have a byte's cell hold a code; 1 where there is no room."""
    dword = part(U64[line_at(page, address, row)], address >> 2 & LINE_LANES - 1)
    if dword and dword < LEAST:
        U64[dword + 8 * (address & 3)] = code
    else:
        write(race, page, address, 0, row, code)
    return race.full != 0


@inlined
def put(race: Race, page: int, address: int, row: int, code: int) -> int:
    """Have a dword's cell hold a code; 1 where there is no room."""
    line = U64[line_at(page, address, row)]
    cell = line + 8 * (address >> 2 & LINE_LANES - 1)
    if line == 0 or line >= LEAST:
        cell = dword_at(race, page, address, row)
    if cell:
        U64[cell] = code
    return cell == 0


@native
def look_dwords(wave: WaveRow, words: int, what: int, code: int, addresses: int, mask: int) -> int:
    """Look at loads or stores by lanes; 1 where they have to be looked at once more, and closer.

    Those that were looked at until then were before all that they met: to do so again changes nothing.
    """
    group = Group.from_address(wave.group)
    race = Race.from_address(group.race)
    space, size, at = what >> SPACE_AT & 3, what >> SIZE_AT, U64.at(addresses)
    lanes, is_local, known, page = LOWER if space == LDS else ALL, space == LDS, ALL, 0
    if what & KIND == LOAD:  # of lanes that load the same, the last one's code would be what cells hold in the end
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
                mine = code + (lane << LANE_AT)
                if what & KIND == LOAD:
                    if load_bytes(wave, race, page, address, size, mine, is_local):
                        return LEAVE
                elif store_bytes(wave, race, page, address, size, mine, is_local):
                    return LEAVE
            continue
        if address & 3:
            return LEAVE
        if meant(group, words, address, what):
            mine, end = code + (lane << LANE_AT), address + size
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
def look(
    wave: WaveRow, words: int, what: int, code: int, serial: int, addresses: int, mask: int, same: int, flags: int
) -> int:
    """Look at an access of lanes; 1 where Python has to. `code` is that of lane 0 of the addresses."""
    group = Group.from_address(wave.group)
    space, at = what >> SPACE_AT & 3, U64.at(addresses)
    lanes = LOWER if space == LDS else ALL
    is_plain = (what & KIND == LOAD) | ((what & KIND == STORE) & (wave.clash_count == 0))
    if mask == CHUNK and what >> SIZE_AT == 4 and space <= LDS and is_plain:
        base, wrong = at[0] & lanes, 0
        if base & LINE - 1 == 0:
            for lane in range(LINE_LANES):
                wrong = wrong | ((at[lane] & lanes) ^ base + 4 * lane)
            if space == LDS:
                wrong = wrong | (base + LINE > U64.at(words)[LDS_SIZE])
            else:
                wrong = wrong | ((base < group.high) & (base + LINE > group.low))
            if wrong == 0 and look_line(wave, base, what, code) == FINE:
                return FINE
    if is_plain and look_dwords(wave, words, what, code, addresses, mask) == FINE:
        return FINE
    found = against_all(wave, words, what, code, serial, addresses, mask, same, flags)
    if found & UNSURE:
        return LEAVE
    if found and against_all(wave, words, what, code, serial, addresses, mask, same, flags | NOTES):
        return LEAVE
    while mask:
        lane = lowest_bit(mask)
        mask &= mask - 1
        address = at[lane] & lanes
        if meant(group, words, address, what) and enter(wave, address, what, code + (lane << LANE_AT)):
            return LEAVE
    return FINE


# ---- translated code -----------------------------------------------------------------------------------------------
@native
def slot_of(wave: WaveRow, number: int, key: int, what: int, lanes: int) -> int:
    """Where an access that goes on is: slot `number`; it begins where that was not open. `lanes` is EXEC.

    Slots are numbered as accesses stand in their strip.
    """
    at = wave.slots + number * SLOT_BYTES
    if wave.open >> number & 1 == 0:
        slot = Slot.from_address(at)
        slot.code = open_access(wave, key >> NUMBER_BITS, what, lanes & lanes - 1 == 0)
        slot.key, slot.looked, slot.serial = key, 0, Race.from_address(wave.race).serial + number
        if wave.open == 0:
            wave.clash_count = 0
        wave.open = wave.open | 1 << number
    return at


@inlined
def is_ready(wave: WaveRow, group: Group) -> int:
    """Whether a wave may go on without Python."""
    if wave.passed != wave.generation:
        if group.knows:
            return 0
        leave_barrier(wave)
    return Race.from_address(group.race).full == 0


@inlined
def is_shared(words: int, group: Group, what: int, address: int, size: int) -> int:
    """Whether bytes lie in LDS as a whole, or in memory that is neither that nor private."""
    own, space, upper = U64.at(words), what >> SPACE_AT & 3, address & ~LOWER
    is_aperture = (space == FLAT) & ((upper == own[SHARED_BASE]) | (upper == own[PRIVATE_BASE]))
    is_private = (address < group.high) & (address + size > group.low) & (space != LDS)
    is_beyond = (space == LDS) & (address + size > own[LDS_SIZE])
    return is_aperture | is_private | is_beyond == 0


@native
def give_hint(wave: WaveRow, at: int, key: int, what: int, address: int, code: int) -> None:
    """Let the next such access be looked at in line, where that is all there is to know."""
    hint, group, space = Hint.from_address(at), Group.from_address(wave.group), what >> SPACE_AT & 3
    race, page = Race.from_address(wave.race), address >> PAGE_BITS
    is_private = (space != LDS) & (page << PAGE_BITS < group.high) & (page + 1 << PAGE_BITS > group.low)
    hint.key = 0
    if wave.is_alone and not is_private:
        hint.cells = page_of(race, address, space)
        if hint.cells:
            hint.key, hint.page, hint.site = key, page, code & (1 << TICK_AT) - 1


@native
def look_shape(wave: WaveRow, slot: Slot, what: int, shape: int, address: int, first: int, mask: int) -> int:
    """Look at a chunk of lanes as a whole; 1 where they have to be looked at one by one."""
    if shape == SIDE:
        if what & KIND == STORE and wave.clash_count:
            return LEAVE
        return look_line(wave, address, what, slot.code + (first << LANE_AT))
    race, space = Race.from_address(wave.race), what >> SPACE_AT & 3
    # The last lane's code would be what cells hold in the end.
    code, end = slot.code + (first + highest_bit(mask) << LANE_AT), address + (what >> SIZE_AT)
    page = page_of(race, address, space)
    if not page or address >> PAGE_BITS != end - 1 >> PAGE_BITS:
        return LEAVE
    while address < end:
        if load_dword(wave, race, page, address, code, space == LDS):
            return LEAVE
        address += 4
    return FINE


@inlined
def highest_bit(mask: int) -> int:
    """Number of the highest of 16 bits that is set; 0 where none is."""
    number = 8 if mask >> 8 else 0
    number += 4 if mask >> number + 4 else 0
    number += 2 if mask >> number + 2 else 0
    return number + 1 if mask >> number + 1 else number


@native
def look_ahead(
    state: int,
    wave: WaveRow,
    number: int,
    hint: int,
    key: int,
    what: int,
    lanes: int,
    first: int,
    addresses: int,
    mask: int,
    shape: int,
) -> int:
    """A chunk of lanes, from `first` on, accesses memory next; 1 where Python has to look.

    `number` is that of the slot, `lanes` is EXEC, `shape` is `SIDE`, `SAME` or 0: not known.
    """
    group = Group.from_address(wave.group)
    words, at, is_flat = state + WORDS_AT, U64.at(addresses), what >> SPACE_AT & 3 == FLAT
    if not mask:
        return FINE
    if not is_ready(wave, group):
        return LEAVE
    is_whole = 0
    if shape:
        is_whole = is_shared(words, group, what, at[0], LINE if shape == SIDE else what >> SIZE_AT)
    if is_flat:
        what = what & ~(3 << SPACE_AT)
    saves = Race.from_address(wave.race).saves
    if saves and what & KIND == STORE and what >> SPACE_AT & 3 == GLOBAL and keep(saves, what, addresses, mask):
        return LEAVE
    if is_whole:
        slot = Slot.from_address(slot_of(wave, number, key, what, lanes))
        give_hint(wave, hint, key, what, at[0], slot.code)
        if look_shape(wave, slot, what, shape, at[0], first, mask) == FINE:
            slot.looked = slot.looked | mask << first
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
    code = slot.code + (first << LANE_AT)
    if not is_whole:
        give_hint(wave, hint, key, what, at[lowest_bit(mask)], slot.code)
    left = load_lanes(wave, words, what, code, addresses, mask)
    if left and look(wave, words, what, code, slot.serial, addresses, left, 0, 0):
        return LEAVE
    slot.looked = slot.looked | mask << first
    return FINE


@native
def look_scalar(wave: WaveRow, hint: int, key: int, what: int, address: int) -> int:
    """A wave reads memory next; 1 where Python has to look."""
    group = Group.from_address(wave.group)
    if not is_ready(wave, group):
        return LEAVE
    code = open_access(wave, key >> NUMBER_BITS, what, 1)
    give_hint(wave, hint, key, what, address, code)
    race = Race.from_address(group.race)
    race.serial += SLOTS
    at, end = address, address + (what >> SIZE_AT)
    page = page_of(race, at, GLOBAL)
    while page and at < end and load_dword(wave, race, page, at, code, 0) == FINE:
        at += 4
        if at & (1 << PAGE_BITS) - 1 == 0 and at < end:
            page = page_of(race, at, GLOBAL)
    if at >= end:
        return FINE
    if against(wave, address, what, code, 0, 0) and note_races(wave, address, what, code, race.serial, 0, 0):
        return LEAVE
    return enter(wave, address, what, code)


@native
def stored_codes(race: Race, space: int, addresses: int, count: int, codes: int) -> None:
    """Who has stored at each address: in `codes`."""
    for number in range(count):
        address = U64.at(addresses)[number]
        page = page_of(race, address, space)
        U64.at(codes)[number] = code_at(page, address, STORED) if page else 0
