"""Marks of all that many rounds of a loop access, compiled: whether any loaded byte has one, and that stored ones have
none."""

from __future__ import annotations

from understudy.engine.riscv.jit.streams import STREAM_BYTES, Stream, is_whole, times
from understudy.engine.riscv.marks.block import DISTANCE
from understudy.ir.native import U8, U16, U32, U64, fill, inlined, largest_in_lines, native


@native
def are_marked(at: int, size: int) -> int:
    """Whether any of so many bytes of marks says so."""
    lines = size & ~63
    if largest_in_lines(at, lines >> 6):
        return 1
    for k in range(lines, size & ~7, 8):
        if U64[at + k]:
            return 1
    for k in range(size & ~7, size):
        if U8[at + k]:
            return 1
    return 0


@inlined
def marks_of(at: int, size: int) -> int:
    """Those of an access."""
    if size >= 4:
        return U32[at] if size == 4 else U64[at]
    return U8[at] if size == 1 else U16[at]


@inlined
def unmark_some(at: int, size: int) -> None:
    """Have them say nothing; what does so already is not written."""
    if are_marked(at, size):
        fill(at, 0, size)


@native
def loads_marked(streams: int, count: int, rounds: int) -> int:
    """Whether any byte is marked that so many rounds of a loop load."""
    for k in range(count):
        stream = Stream.from_address(streams + k * STREAM_BYTES)
        at, size, some = stream.host + DISTANCE, stream.size, times(stream, rounds)
        if stream.stores:
            continue
        if is_whole(stream, some):
            if are_marked(at, size * some):
                return 1
            continue
        for _ in range(some):
            if marks_of(at, size):
                return 1
            at += stream.step
    return 0


@native
def unmark_stored(streams: int, count: int, rounds: int, done: int) -> None:
    """So many rounds, and `done` accesses of one more, have stored what is not marked."""
    for k in range(count):
        stream = Stream.from_address(streams + k * STREAM_BYTES)
        at, size, some = stream.host + DISTANCE, stream.size, rounds + (stream.number < done)
        if stream.stores == 0 or some == 0:
            continue
        some = times(stream, some)
        if is_whole(stream, some):
            size, some = size * some, 1
        for _ in range(some):
            unmark_some(at, size)
            at += stream.step
