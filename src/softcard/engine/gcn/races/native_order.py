"""The compiled vector clocks of waves: the order by barriers, and the test of happens-before."""

from __future__ import annotations

from typing import Final

from softcard.engine.gcn.races.layout import (
    CACHE_BYTES,
    CACHES,
    EPOCH_AT,
    EPOCHS,
    FINE,
    FIRST_EPOCH,
    LEAVE,
    NO_WAVES,
    RANGES,
    ROW_BYTES,
    UID_AT,
    UIDS,
    Cache,
    Group,
    LaneTable,
    Race,
    WaveRow,
)
from softcard.engine.races.clocks import is_ordered
from softcard.ir.native import U64, inlined, native

AGENT: Final = (1 << 64) - (1 << UID_AT)
"""The mask of the bits of an access record that hold the number of its wave."""
NO_GENERATION: Final = (1 << 64) - 1
"""A number of barriers that no wave reaches."""


@inlined
def set_epoch(wave: WaveRow, epoch: int) -> None:
    """Set the current epoch of a wave."""
    wave.epoch = epoch
    wave.epoch_bits = wave.uid << UID_AT | epoch << EPOCH_AT


@native
def start_races(group: Group, number: int, count: int) -> None:
    """Initialise the state of work-group `number` of its launch, and the clocks of its `count` waves."""
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
    watermark = race.watermark << UID_AT
    for each in range(count):
        wave = WaveRow.from_address(group.rows + each * ROW_BYTES)
        wave.uid, wave.bound, wave.is_waited, wave.stored = first + each, 0, 1, 0
        set_epoch(wave, FIRST_EPOCH)
        wave.generation, wave.passed, wave.known_count, wave.open, wave.deferred_count = 0, 0, 0, 0, 0
        wave.is_alone = race.range_count - race.over_count == 1
        if wave.lanes:
            LaneTable.from_address(wave.lanes).generation = NO_GENERATION
        wave.group_start, wave.group_span, wave.global_watermark = first << UID_AT, count << UID_AT, watermark


@native
def leave_barrier(wave: WaveRow) -> None:
    """Let a wave pass the barrier that it has reached; update the epochs that it knows."""
    group = Group.from_address(wave.group)
    race = Race.from_address(group.race)
    wave.passed = wave.generation
    wave.bound = group.odd if wave.generation & 1 else group.even
    set_epoch(wave, wave.bound + 2)
    if race.bound_count >= UIDS:
        race.full = NO_WAVES
    else:
        row = U64.at(race.bounds + 16 * race.bound_count)
        row[0], row[1] = wave.uid, wave.bound
        race.bound_count += 1


@native
def go_on(wave: WaveRow) -> None:
    """Let a wave pass the barrier that it has reached.

    If the order of the wave is not determined by barriers alone, Python has to do that. In this case clear the
    inline shadow caches, so that the next access exits to Python."""
    if Group.from_address(wave.group).knows:
        for number in range(CACHES):
            cache = Cache.from_address(wave.caches + number * CACHE_BYTES)
            cache.key = 0
    else:
        leave_barrier(wave)


@native
def arrive(wave: WaveRow) -> int:
    """Record that a wave has reached a barrier, or return 1 if Python has to record that instead."""
    group = Group.from_address(wave.group)
    if group.knows:
        return LEAVE
    if wave.passed != wave.generation:
        leave_barrier(wave)
    come(wave)
    return FINE


@native
def come(wave: WaveRow) -> None:
    """Record that a wave has reached a barrier.

    The caller has verified that only barriers order the waves of this work-group with other waves."""
    group = Group.from_address(wave.group)
    wave.generation += 1
    is_first = group.generation < wave.generation
    if is_first:
        group.generation = wave.generation
    if wave.generation & 1:
        group.odd = max(group.ended if is_first else group.odd, wave.epoch)
    else:
        group.even = max(group.ended if is_first else group.even, wave.epoch)


@native
def finish(wave: WaveRow) -> int:
    """Record that a wave has ended; barriers no longer wait for it.

    Return 1 if Python has to record that instead."""
    group = Group.from_address(wave.group)
    if group.knows:
        return LEAVE
    if wave.passed != wave.generation:
        leave_barrier(wave)
    over(wave)
    return FINE


@native
def over(wave: WaveRow) -> None:
    """Record that a wave has ended.

    The caller has verified that only barriers order the waves of its work-group with other waves."""
    group = Group.from_address(wave.group)
    group.ended = max(group.ended, wave.epoch)
    if group.generation > wave.generation:
        if group.generation & 1:
            group.odd = max(group.odd, wave.epoch)
        else:
            group.even = max(group.even, wave.epoch)


@inlined
def is_quiet(wave: WaveRow, group: Group) -> int:
    """Return 1 if all stores to LDS came before a barrier that the wave has passed."""
    return group.local_stores <= wave.passed


@native
def launch_of(race: Race, uid: int) -> int:
    """Return the index of the launch of a wave."""
    ranges, at = U64.at(race.ranges), race.range_count - 1
    while at and ranges[2 * at] > uid:
        at -= 1
    return ranges[2 * at + 1]


@inlined
def is_past(record: int, watermark: int, epoch_bits: int, bound: int, group_start: int, group_span: int) -> int:
    """Return 1 if an access happened before the present point of a wave.

    `record` is the record of the access: a number that grows with time. An access below `watermark` happened
    before everything that the wave does. The other parameters are words of the wave's `WaveRow`. At a barrier, the
    waves of a work-group learn each other's epochs up to `bound`.

    If the flag `WaveRow.is_alone` is set, only barriers order the wave with other waves, and the result is exact.
    Otherwise, `is_known` decides if the result is 0."""
    is_known = (record - group_start < group_span) & (record >> EPOCH_AT & EPOCHS - 1 <= bound)
    return is_ordered(record, watermark, epoch_bits, AGENT, is_known)


@inlined
def is_before(wave: WaveRow, record: int, is_local: int) -> int:
    """Return 1 if an access happened before the next access of a wave; `is_local` is 1 for an access to LDS."""
    watermark = wave.group_start if is_local else wave.global_watermark
    if is_past(record, watermark, wave.epoch_bits, wave.bound, wave.group_start, wave.group_span):
        return 1
    return 0 if wave.is_alone else is_known(wave, record, is_local)


@native
def is_known(wave: WaveRow, record: int, is_local: int) -> int:
    """Return 1 if an access happened before a wave's next access for a reason that `is_past` does not cover.

    Such reasons are acquires, and the end of the access's launch.
    """
    uid, group = record >> UID_AT, Group.from_address(wave.group)
    epoch = record >> EPOCH_AT & EPOCHS - 1
    if uid - group.first >= group.count:
        race = Race.from_address(group.race)
        if is_local or uid < race.watermark:
            return 1
        launch = launch_of(race, uid)
        if launch != group.launch and launch < group.before_count and U64.at(group.before)[launch]:
            return 1
    if is_acquired(wave.known, wave.known_count, uid, epoch):
        return 1
    return is_acquired(group.inherited, group.inherited_count, uid, epoch) if group.inherited_count else 0


@native
def is_acquired(known: int, count: int, uid: int, epoch: int) -> int:
    """Return nonzero if sorted pairs of wave number and epoch contain wave `uid` with epoch `epoch` or later."""
    pairs, low, high = U64.at(known), 0, count
    while low < high:
        middle = low + high >> 1
        if pairs[2 * middle] < uid:
            low = middle + 1
        else:
            high = middle
    return pairs[2 * low + 1] >= epoch if low < count and pairs[2 * low] == uid else 0
