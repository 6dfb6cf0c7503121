"""The clocks of waves, compiled: what barriers order, and whether an access came before what a wave does now."""

from __future__ import annotations

from understudy.engine.gcn.races.codes import (
    FINE,
    FIRST_TICK,
    HINT_BYTES,
    HINTS,
    LEAVE,
    NO_WAVES,
    RANGES,
    ROW_BYTES,
    TICK_AT,
    TICKS,
    UID_AT,
    UIDS,
    Group,
    Hint,
    Race,
    WaveRow,
)
from understudy.ir.native import U64, inlined, native


@inlined
def set_tick(wave: WaveRow, tick: int) -> None:
    """What a wave does next belongs to a tick."""
    wave.tick = tick
    wave.stamp = wave.uid << UID_AT | tick << TICK_AT


@native
def start_races(group: Group, number: int, count: int) -> None:
    """The waves of a work-group begin: group `number` of its launch."""
    race = Race.from_address(group.race)
    first, last = race.next_uid, race.range_count
    if group.numbers:
        first = group.numbers + (number - group.first_group << group.group_bits)
    ranges, groups = U64.at(race.ranges), U64.at(race.groups + 16 * race.group_count)
    if first + count >= UIDS or last >= RANGES:
        race.full = NO_WAVES
    else:
        race.next_uid = first + count
        race.group_count += 1
        groups[0], groups[1] = first, number
        if last == 0 or ranges[2 * last - 1] != group.launch:
            ranges[2 * last], ranges[2 * last + 1] = first, group.launch
            race.range_count = last + 1
    group.first, group.count, group.generation, group.even, group.odd = first, count, 0, 0, 0
    group.ended, group.knows, group.local_stores = 0, 0, 0
    floor = race.floor << UID_AT
    for each in range(count):
        wave = WaveRow.from_address(group.rows + each * ROW_BYTES)
        wave.uid, wave.bound, wave.is_waited = first + each, 0, 1
        set_tick(wave, FIRST_TICK)
        wave.generation, wave.passed, wave.known_count, wave.open = 0, 0, 0, 0
        wave.is_alone = race.range_count - race.over_count == 1
        wave.group_floor, wave.group_span, wave.global_floor = first << UID_AT, count << UID_AT, floor


@native
def leave_barrier(wave: WaveRow) -> None:
    """The barrier that a wave has come to is open: it goes on."""
    group = Group.from_address(wave.group)
    race = Race.from_address(group.race)
    wave.passed = wave.generation
    wave.bound = group.odd if wave.generation & 1 else group.even
    set_tick(wave, wave.bound + 2)
    if race.bound_count >= UIDS:
        race.full = NO_WAVES
    else:
        row = U64.at(race.bounds + 16 * race.bound_count)
        row[0], row[1] = wave.uid, wave.bound
        race.bound_count += 1


@native
def go_on(wave: WaveRow) -> None:
    """A wave goes on behind a barrier. Where Python has to know, it will be asked at the next access."""
    if Group.from_address(wave.group).knows:
        for number in range(HINTS):
            hint = Hint.from_address(wave.hints + number * HINT_BYTES)
            hint.key = 0
    else:
        leave_barrier(wave)


@native
def arrive(wave: WaveRow) -> int:
    """A wave has come to a barrier; whether Python has to know."""
    group = Group.from_address(wave.group)
    if group.knows:
        return LEAVE
    if wave.passed != wave.generation:
        leave_barrier(wave)
    come(wave)
    return FINE


@native
def come(wave: WaveRow) -> None:
    """The same, as far as barriers are all that waves know of."""
    group = Group.from_address(wave.group)
    wave.generation += 1
    is_first = group.generation < wave.generation
    if is_first:
        group.generation = wave.generation
    if wave.generation & 1:
        group.odd = max(group.ended if is_first else group.odd, wave.tick)
    else:
        group.even = max(group.ended if is_first else group.even, wave.tick)


@native
def finish(wave: WaveRow) -> int:
    """A wave has ended: barriers do not wait for it. Whether Python has to know."""
    group = Group.from_address(wave.group)
    if group.knows:
        return LEAVE
    if wave.passed != wave.generation:
        leave_barrier(wave)
    over(wave)
    return FINE


@native
def over(wave: WaveRow) -> None:
    """The same, as far as barriers are all that waves know of."""
    group = Group.from_address(wave.group)
    group.ended = max(group.ended, wave.tick)
    if group.generation > wave.generation:
        if group.generation & 1:
            group.odd = max(group.odd, wave.tick)
        else:
            group.even = max(group.even, wave.tick)


@inlined
def is_quiet(wave: WaveRow, group: Group) -> int:
    """Whether all stores to LDS were made before a barrier that a wave has passed."""
    return group.local_stores <= wave.passed


@native
def launch_of(race: Race, uid: int) -> int:
    """The number of the launch that a wave is of."""
    ranges, at = U64.at(race.ranges), race.range_count - 1
    while at and ranges[2 * at] > uid:
        at -= 1
    return ranges[2 * at + 1]


@inlined
def is_past(code: int, floor: int, stamp: int, bound: int, group_floor: int, group_span: int) -> int:
    """Whether an access came before what a wave does now, if that `is_alone`, by words of its `WaveRow`.

    `floor`: all below it did. What is no code counts as that.
    """
    in_group = (code - group_floor < group_span) & (code >> TICK_AT & TICKS - 1 <= bound)
    return (code < floor) | ((code ^ stamp) < 1 << UID_AT) | in_group


@inlined
def is_before(wave: WaveRow, code: int, is_local: int) -> int:
    """Whether an access came before what a wave does now; `is_local`: it is one of LDS."""
    if not wave.is_alone:
        return is_known(wave, code, is_local)
    floor = wave.group_floor if is_local else wave.global_floor
    return is_past(code, floor, wave.stamp, wave.bound, wave.group_floor, wave.group_span)


@native
def is_known(wave: WaveRow, code: int, is_local: int) -> int:
    """The same, of another wave's."""
    uid, group = code >> UID_AT, Group.from_address(wave.group)
    if uid == wave.uid:
        return 1
    tick = code >> TICK_AT & TICKS - 1
    if uid - group.first < group.count:
        if tick <= wave.bound:
            return 1
    else:
        race = Race.from_address(group.race)
        if is_local or uid < race.floor:
            return 1
        launch = launch_of(race, uid)
        if launch != group.launch and launch < group.before_count and U64.at(group.before)[launch]:
            return 1
    known, low, high = U64.at(wave.known), 0, wave.known_count
    while low < high:
        middle = low + high >> 1
        if known[2 * middle] < uid:
            low = middle + 1
        else:
            high = middle
    return known[2 * low + 1] >= tick if low < wave.known_count and known[2 * low] == uid else 0
