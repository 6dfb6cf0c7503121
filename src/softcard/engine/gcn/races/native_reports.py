"""The compiled record of races: the reports for Python, and the deferred races of a wave's loads.

`value_flow` describes when the race of a load is deferred, and when a deferred race counts."""

from __future__ import annotations

from typing import Final

from softcard.engine.gcn.races.layout import (
    BY_PYTHON,
    CACHE_BYTES,
    CACHES,
    DEFERRED_BYTES,
    DEFERRED_HEAD,
    FINE,
    GROUPS,
    KERNELS,
    KNOWS_FLOW,
    LANE_AT,
    LANE_MASK,
    LEAVE,
    NO_PAIRS,
    REPORT_BYTES,
    REPORTS,
    SITE_AT,
    SITES,
    SPACE_AT,
    UID_AT,
    WAVES,
    Cache,
    Deferred,
    Group,
    Race,
    RaceReport,
    WaveRow,
)
from softcard.engine.gcn.races.native_cells import PAIR
from softcard.engine.gcn.races.native_order import launch_of
from softcard.engine.gcn.races.value_flow import CROSSES, DEFERRED, ESCAPES, PC_AT
from softcard.engine.races.tables import find_row, first_row
from softcard.ir.native import U64, inlined, lowest_bit, native

ALL: Final = (1 << 64) - 1
UNKNOWN: Final = 2
"""The result of `flow_of` for a load that is not in the table of flows."""


@inlined
def site_in(record: int) -> int:
    """Return the number of the site in an access record."""
    return record >> SITE_AT & SITES - 1


@inlined
def lane_in(record: int) -> int:
    """Return the lane in an access record."""
    return record >> LANE_AT & LANE_MASK


@inlined
def scope_of(group: Group, race: Race, uid: int) -> int:
    """Return the innermost scope that contains the present wave and wave `uid`: see `layout.RaceReport.between`."""
    between = WAVES
    if uid - group.first >= group.count:
        between = GROUPS if launch_of(race, uid) == group.launch else KERNELS
    return between


@native
def note_race(
    wave: WaveRow, address: int, what: int, record: int, other: int, serial: int, begun: int, flags: int
) -> int:
    """Count a race between two sites; return 1 if this pair is new and Python has to report it.

    `serial` is the serial number of the access that makes the race count. `begun` is that of the racing access, which
    differs for a deferred race."""
    group = Group.from_address(wave.group)
    race = Race.from_address(group.race)
    between = scope_of(group, race, other >> UID_AT)
    key = site_in(record) << 14 | site_in(other)
    key = ((key << 2 | between) << 2 | what >> SPACE_AT & 3) << 1 | 1
    at = find_row(race.report_slots, key, first_row(key, REPORTS - 1), REPORTS - 1, PAIR)
    if U64[at] == 0:
        if race.raises and not flags & BY_PYTHON:
            return LEAVE
        if race.report_count >= REPORTS >> 1:
            race.full = NO_PAIRS
            return LEAVE
        U64[at], U64[at + 8] = key, race.reports + race.report_count * REPORT_BYTES
        race.report_count += 1
        made = RaceReport.from_address(U64[at + 8])
        made.count, made.serial, made.begun = 0, ALL, ALL
    found = RaceReport.from_address(U64[at + 8])
    found.count += 1
    is_first = (serial < found.serial) | (serial == found.serial) & (begun < found.begun)
    if is_first:  # lane vectors of an access may follow those of a later access
        found.record, found.other, found.address, found.what = record, other, address, what
        found.lanes, found.between, found.serial, found.begun = 0, between, serial, begun
    if serial == found.serial and begun == found.begun and other >> SITE_AT == found.other >> SITE_AT:
        found.lanes = found.lanes | 1 << lane_in(record)
    return FINE


# ---- deferred races ------------------------------------------------------------------------------------------------
@inlined
def load_pc(race: Race, record: int) -> int:
    """Return the pc of the instruction that made a recorded access."""
    return (U64.at(race.sites)[site_in(record)] & ALL >> 1) >> SPACE_AT


@native
def flow_of(race: Race, record: int) -> int:
    """Return 0 if races of the load with this access record are deferred; `ESCAPES` or `UNKNOWN` otherwise."""
    pc = load_pc(race, record)
    for number in range(race.flow_count):
        row = U64.at(race.flows + number * PAIR)
        if row[0] == pc and row[1] <= ESCAPES:
            return row[1]
    return UNKNOWN


@native
def use_of(race: Race, record: int, pc: int) -> int:
    """Return 0 if the instruction at `pc` does not store the value of the load with this access record.

    The result has the flag `CROSSES` if a lane may store the value of another lane."""
    load = load_pc(race, record)
    for number in range(race.flow_count):
        row = U64.at(race.flows + number * PAIR)
        if row[0] == load and row[1] >> PC_AT == pc:
            return 1 | row[1] & CROSSES
    return 0


@inlined
def deferred_at(wave: WaveRow, number: int) -> int:
    """Return the host address of entry `number` of a wave's table of deferred races, which are reported later."""
    return wave.deferred + number * DEFERRED_BYTES


@inlined
def lane_at(entry: int, lane: int) -> int:
    """Return the host address of the address and the record that an entry has for a lane."""
    return entry + DEFERRED_HEAD + 16 * lane


@native
def defer(wave: WaveRow, race: Race, address: int, what: int, record: int, other: int, serial: int) -> int:
    """Defer the race of a load until the wave uses the value; return 0 if the wave has too many deferred races.

    While races are deferred, stores have no inline shadow caches, so that each store is compared with them."""
    between, lane, entry = scope_of(Group.from_address(wave.group), race, other >> UID_AT), lane_in(record), 0
    for number in range(wave.deferred_count):
        row = Deferred.from_address(deferred_at(wave, number))
        is_same = (site_in(row.record) == site_in(record)) & (site_in(row.other) == site_in(other))
        if is_same and row.between == between and row.what == what:
            entry = deferred_at(wave, number)
    if entry == 0:
        if wave.deferred_count >= DEFERRED:
            return 0
        if wave.deferred_count == 0:
            for number in range(CACHES):
                cache = Cache.from_address(wave.caches + number * CACHE_BYTES)
                cache.key = 0
        entry = deferred_at(wave, wave.deferred_count)
        wave.deferred_count += 1
        made = Deferred.from_address(entry)
        made.record, made.other, made.what, made.between = record - (lane << LANE_AT), other, what, between
        made.serial, made.lanes = serial, 0
    found = Deferred.from_address(entry)
    if found.lanes >> lane & 1 == 0:
        found.lanes = found.lanes | 1 << lane
        U64[lane_at(entry, lane)], U64[lane_at(entry, lane) + 8] = address, other
    return 1


@native
def note_load(
    wave: WaveRow, race: Race, address: int, what: int, record: int, other: int, serial: int, flags: int
) -> int:
    """Count or defer the race of a load; return 1 if Python has to report it, or to analyse the flow of its value."""
    flow = flow_of(race, record)
    if flow == UNKNOWN and not flags & KNOWS_FLOW:
        return LEAVE
    if flow == 0 and defer(wave, race, address, what, record, other, serial):
        return FINE
    return note_race(wave, address, what, record, other, serial, serial, flags)


@native
def note_uses(wave: WaveRow, race: Race, pc: int, serial: int, lanes: int, flags: int) -> int:
    """Count the deferred races whose values the store or atomic at `pc` uses; return 1 if Python has to report one.

    `lanes` is the mask of the lanes that make the access, and `serial` its serial number."""
    left = 0
    for number in range(wave.deferred_count):
        entry = deferred_at(wave, number)
        row = Deferred.from_address(entry)
        use = use_of(race, row.record, pc)
        used = row.lanes & (ALL if use & CROSSES else lanes) if use else 0
        while used:
            lane = lowest_bit(used)
            at, record = U64.at(lane_at(entry, lane)), row.record + (lane << LANE_AT)
            if note_race(wave, at[0], row.what, record, at[1], serial, row.serial, flags):
                return LEAVE
            used &= used - 1
            row.lanes = row.lanes & ~(1 << lane)
        left += row.lanes != 0
    if left == 0:
        wave.deferred_count = 0
    return FINE
