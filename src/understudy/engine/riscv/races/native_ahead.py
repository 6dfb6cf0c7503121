"""Looks at all that many rounds of a loop access, before them, and cells that know of it, behind them: compiled.

That is what `native_look.look` does access by access, where words of cells say all. Where they do not, nothing has been
done, and each access is looked at by itself.
"""

from __future__ import annotations

from understudy.engine.riscv.jit.streams import STREAM_BYTES, Stream, is_whole, times
from understudy.engine.riscv.races.codes import (
    BYTES,
    NEVER,
    SPLIT_AT,
    HartRow,
    Hint,
    Race,
)
from understudy.engine.riscv.races.native_again import is_past
from understudy.engine.riscv.races.native_cells import byte_code, put
from understudy.engine.riscv.races.native_look import mask_of
from understudy.ir.native import U32, U64, fill_lines, inlined, largest_in_lines, native


@inlined
def end_of(stream: Stream, rounds: int) -> int:
    """Where all that it accesses in so many rounds ends."""
    return stream.host + (rounds - 1) * stream.step + stream.size


# ---- before --------------------------------------------------------------------------------------------------------
@native
def swap(one: int, other: int) -> None:
    """Have two streams change places."""
    for at in range(0, STREAM_BYTES, 8):
        U64[one + at], U64[other + at] = U64[other + at], U64[one + at]


@native
def put_in_order(streams: int, count: int) -> None:
    """Have those first that are further on, the others as they are: where two streams of one step meet, the one that
    is further on has been there in an earlier round."""
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
    """Whether streams in order meet nowhere, or so that their order says which of them was at a dword last."""
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
    """The largest of the words that a plane has for its accesses."""
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
def is_word_past(row: HartRow, race: Race, word: int) -> int:
    """Whether all that a word tells of came before what the hart does now."""
    if word >> SPLIT_AT == 0:
        return is_past(row, race, word)
    for byte in range(4):
        if not is_past(row, race, byte_code(race, word, byte)):
            return 0
    return 1


@native
def are_words_past(row: HartRow, race: Race, stream: Stream, delta: int, count: int) -> int:
    """The same of all those words."""
    cell, size = (stream.host & ~3) + delta, stream.size
    dwords, step = 2 if size == 8 else 1, stream.step
    if is_whole(stream, count):
        dwords, step, count = (stream.host & 3) + count * size + 3 >> 2, 0, 1
    for _ in range(count):
        for k in range(dwords):
            if not is_word_past(row, race, U32[cell + 4 * k]):
                return 0
        cell += step
    return 1


@native
def look_ahead(row: HartRow, streams: int, count: int, rounds: int) -> int:
    """A hart makes so many rounds of a loop next: whether no access of `count` streams races, and none hands on
    anything, as far as words of cells say. Accesses of less than a dword go on where the last one ended."""
    race = Race.from_address(row.race)
    put_in_order(streams, count)
    if not are_apart(streams, count, rounds):
        return 0
    for k in range(count):
        stream = Stream.from_address(streams + k * STREAM_BYTES)
        hint, some = Hint.from_address(stream.hint), times(stream, rounds)
        delta = hint.stores
        for plane in range(race.harts + 1 if stream.stores else 1):
            if largest_word(stream, delta, some) >= row.floor:
                stream.is_loaded |= plane
                if not are_words_past(row, race, stream, delta, some):
                    return 0
            delta += hint.stride
    return 1


# ---- behind --------------------------------------------------------------------------------------------------------
@inlined
def fill_dwords(at: int, word: int, count: int) -> None:
    """Have words side by side be this one."""
    fill_lines(at, word, count >> 4)
    for k in range(count & ~15, count):
        U32[at + 4 * k] = word


@native
def put_all(race: Race, stream: Stream, delta: int, count: int, code: int) -> None:
    """Have a plane hold a code, or 0, for all of so many accesses."""
    host, size, word = stream.host, stream.size, code | BYTES if code else 0
    if not is_whole(stream, count):
        for _ in range(count):
            for cell in range(host + delta, host + delta + size, 4):
                U32[cell] = word
            host += stream.step
        return
    end = host + count * size
    if host & 3:
        put(race, (host & ~3) + delta, mask_of(host, end), code)
        host = (host | 3) + 1
    if host < end:
        fill_dwords(host + delta, word, end - host >> 2)
        if end & 3:
            put(race, (end & ~3) + delta, mask_of(end & ~3, end), code)


@native
def look_behind(row: HartRow, streams: int, count: int, rounds: int, done: int) -> None:
    """It has made so many of them, and `done` accesses of one more: cells know of that."""
    race, last = Race.from_address(row.race), (done if done else count) - 1
    if rounds == 0 and done == 0:
        return
    for k in range(count):
        stream = Stream.from_address(streams + k * STREAM_BYTES)
        hint, some = Hint.from_address(stream.hint), rounds + (stream.number < done)
        if stream.number == last:
            row.last = 0 if stream.stores else hint.code
        if some == 0:
            continue
        some = times(stream, some)
        if stream.stores == 0:
            put_all(race, stream, hint.loads, some, hint.code)
        else:
            put_all(race, stream, hint.stores, some, hint.code)
            delta = hint.stores
            for _ in range(race.harts if stream.is_loaded else 0):
                delta += hint.stride
                put_all(race, stream, delta, some, 0)
    if race.full:
        row.quick = NEVER
