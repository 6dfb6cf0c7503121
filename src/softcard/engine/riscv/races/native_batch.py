"""Compiled race checks of all accesses in many loop iterations at once, and the later updates of shadow memory.

If the shadow words of the accesses suffice for a decision, these functions have the effect of `native_check.check` for
each access. Otherwise they change nothing, and each access is checked by itself.
"""

from __future__ import annotations

from typing import Final

from softcard.engine.races.clocks import is_of, is_ordered
from softcard.engine.riscv.jit.strides import STREAM_BYTES, Stream, is_whole, times
from softcard.engine.riscv.races.layout import BYTES, NEVER, SPLIT, SPLIT_AT, Cache, HartRow, Race
from softcard.engine.riscv.races.native_check import mask_of
from softcard.engine.riscv.races.native_fast_path import bound_of, is_past
from softcard.engine.riscv.races.native_order import byte_record, planes_met, put
from softcard.ir.lanes import any_of, load_dwords
from softcard.ir.native import U32, U64, fill_lines, inlined, largest_in_lines, native

LINE: Final = 16
"""The number of shadow words that are tested together."""


@inlined
def end_of(stream: Stream, rounds: int) -> int:
    """Return the end address of the bytes that a stream accesses in `rounds` iterations."""
    return stream.host + (rounds - 1) * stream.step + stream.size


# ---- before --------------------------------------------------------------------------------------------------------
@native
def swap(one: int, other: int) -> None:
    """Swap two `Stream` records; `one` and `other` are their addresses in the table."""
    for at in range(0, STREAM_BYTES, 8):
        U64[one + at], U64[other + at] = U64[other + at], U64[one + at]


@native
def put_in_order(streams: int, count: int) -> None:
    """Sort the `count` rows of the table of streams at `streams` by descending address, stably.

    Afterwards, if two streams with the same step overlap, the stream that comes first has accessed a common byte
    in an earlier iteration than the other one."""
    for k in range(1, count):
        at = streams + k * STREAM_BYTES
        while at > streams:
            one, other = Stream.from_address(at - STREAM_BYTES), Stream.from_address(at)
            if one.host >= other.host:
                break
            swap(at - STREAM_BYTES, at)
            at -= STREAM_BYTES


@native
def are_apart(streams: int, count: int, rounds: int) -> int:
    """Return 1 if it is known which of the sorted streams accesses each dword last, else 0.

    It is known for streams that do not overlap. For overlapping streams with the same step and the same size,
    their order in the table decides."""
    for k in range(1, count):
        other = Stream.from_address(streams + k * STREAM_BYTES)
        end = end_of(other, rounds) + 3 >> 2
        for j in range(k):
            one = Stream.from_address(streams + j * STREAM_BYTES)
            if one.host >> 2 < end:
                odd = one.step ^ other.step | one.size ^ other.size
                if odd | one.host - other.host & one.size - 1:
                    return 0
                one.is_loaded, other.is_loaded = 1, 1
    return 1


@native
def largest_word(stream: Stream, delta: int, count: int) -> int:
    """Return the largest shadow word of `count` accesses of a stream.

    The shadow words lie at distance `delta` from the accessed bytes.
    """
    found, cell, size = 0, (stream.host & ~3) + delta, stream.size
    if is_whole(stream, count):
        dwords = (stream.host & 3) + count * size + 3 >> 2
        lines = dwords >> 4
        found = largest_in_lines(cell, lines)
        for k in range(lines << 4, dwords):
            found = max(found, U32[cell + 4 * k])
        return found
    for _ in range(count):
        found = max(found, U32[cell])
        if size == 8:
            found = max(found, U32[cell + 4])
        cell += stream.step
    return found


@native
def are_parts_past(row: HartRow, race: Race, word: int) -> int:
    """Return 1 if all events of a split shadow word happened before the hart's next access.

    Such a `word` stands for a dword whose bytes have separate records.
    """
    for byte in range(4):
        record = byte_record(race, word, byte)
        if not is_past(record, row.watermark, row.own, row.bounds, race.slot_mask, race.atomic):
            return 0
    return 1


@native
def is_line_past(row: HartRow, race: Race, cell: int, dwords: int) -> int:
    """Return 1 if all events of `dwords` adjacent shadow words at `cell` happened before the hart's next access.

    `dwords` is at most `LINE`.
    """
    watermark, own, bounds, slots, atomic = row.watermark, row.own, row.bounds, race.slot_mask, race.atomic
    if dwords == LINE:  # mostly of one other hart, or of the hart itself
        first = U32[cell]
        words = load_dwords(cell, LINE)
        is_known = is_of(words, first, slots | atomic | SPLIT) & (words < bound_of(first, bounds, slots, atomic))
        if not any_of(~is_ordered(words, watermark, own, slots | SPLIT, is_known)):
            return 1
    for k in range(dwords):
        word = U32[cell + 4 * k]
        if is_past(word, watermark, own, bounds, slots, atomic):
            continue
        if word >> SPLIT_AT == 0 or not are_parts_past(row, race, word):
            return 0
    return 1


@native
def are_words_past(row: HartRow, race: Race, stream: Stream, delta: int, count: int) -> int:
    """Return 1 if all events in the shadow words of `count` accesses of a stream are ordered.

    They are ordered if they happened before the hart's next access. The shadow words lie at distance `delta` from the
    accessed bytes.
    """
    cell, size = (stream.host & ~3) + delta, stream.size
    if is_whole(stream, count):
        dwords = (stream.host & 3) + count * size + 3 >> 2
        for first in range(0, dwords, LINE):
            if not is_line_past(row, race, cell + 4 * first, min(dwords - first, LINE)):
                return 0
        return 1
    dwords = 2 if size == 8 else 1
    for _ in range(count):
        if not is_line_past(row, race, cell, dwords):
            return 0
        cell += stream.step
    return 1


@native
def check_rounds(row: HartRow, streams: int, count: int, rounds: int) -> int:
    """Check `rounds` iterations of a loop in advance; return 1 if they are free of races, 0 if that is not known.

    The loop has `count` streams, whose table is at `streams`. The result is 1 if shadow words show that none of the
    accesses races with another one or passes on a release. Streams with accesses of less than a dword must access
    adjacent bytes.
    """
    race = Race.from_address(row.race)
    put_in_order(streams, count)
    if not are_apart(streams, count, rounds):
        return 0
    for k in range(count):
        stream = Stream.from_address(streams + k * STREAM_BYTES)
        cache, some = Cache.from_address(stream.cache), times(stream, rounds)
        delta = cache.stores
        for layer in range(planes_met(stream.stores == 0, race.harts)):
            if largest_word(stream, delta, some) >= row.watermark:
                stream.is_loaded |= layer
                if not are_words_past(row, race, stream, delta, some):
                    return 0
            delta += cache.stride
    return 1


# ---- after ---------------------------------------------------------------------------------------------------------
@inlined
def fill_dwords(at: int, word: int, count: int) -> None:
    """Set `count` adjacent shadow words, from address `at` on, to `word`."""
    fill_lines(at, word, count >> 4)
    for k in range(count & ~15, count):
        U32[at + 4 * k] = word


@native
def put_all(race: Race, stream: Stream, delta: int, count: int, record: int) -> None:
    """Set the records of all bytes that `count` accesses of a stream cover; record 0 clears them.

    `delta` is the distance from the bytes to their shadow words.
    """
    host, size, word = stream.host, stream.size, record | BYTES if record else 0
    if not is_whole(stream, count):
        for _ in range(count):
            for cell in range(host + delta, host + delta + size, 4):
                U32[cell] = word
            host += stream.step
        return
    end = host + count * size
    if host & 3:
        put(race, (host & ~3) + delta, mask_of(host, end), record)
        host = (host | 3) + 1
    if host < end:
        fill_dwords(host + delta, word, end - host >> 2)
        if end & 3:
            put(race, (end & ~3) + delta, mask_of(end & ~3, end), record)


@native
def update_rounds(row: HartRow, streams: int, count: int, rounds: int, done: int) -> None:
    """Update shadow memory after `rounds` complete iterations of a loop and the first `done` accesses of one more.

    The loop has `count` streams, whose table is at `streams`.
    """
    race, last = Race.from_address(row.race), (done if done else count) - 1
    if rounds == 0 and done == 0:
        return
    for k in range(count):
        stream = Stream.from_address(streams + k * STREAM_BYTES)
        cache, some = Cache.from_address(stream.cache), rounds + (stream.number < done)
        if stream.number == last:
            row.last = 0 if stream.stores else cache.record
        if some == 0:
            continue
        some = times(stream, some)
        if stream.stores == 0:
            put_all(race, stream, cache.loads, some, cache.record)
        else:
            put_all(race, stream, cache.stores, some, cache.record)
            delta = cache.stores
            for _ in range(race.harts if stream.is_loaded else 0):
                delta += cache.stride
                put_all(race, stream, delta, some, 0)
    if race.full:
        row.fast_id = NEVER
