"""Rounds of a loop that are looked at together come to what looks at each of their accesses come to."""

from __future__ import annotations

import ctypes
from random import Random
from typing import Any, NamedTuple

import pytest

from softcard.core.findings import Finding
from softcard.core.space import Ram
from softcard.engine.riscv.jit.strides import STREAM_BYTES, Stream
from softcard.engine.riscv.races import native_batch, native_detector, native_order
from softcard.engine.riscv.races.layout import KIND, READ, SIZE_AT, SPLITS, WRITE, Cache
from softcard.engine.riscv.races.native_detector import NativeHartRaces
from tests.engine.riscv.races.test_native import HARTS, detector, steps

SPAN = 512
"""Bytes that are looked at."""
PC = 0x200
"""Of the first instruction of a loop."""


class Loop(NamedTuple):
    """A loop of a hart: streams, each with its kind of access, start and step; whole rounds, and accesses after
    them."""

    streams: list[tuple[int, int, int]]
    rounds: int
    done: int


def made(random: Random) -> Loop:
    streams, at, step = [], 0, 0
    for _ in range(random.randrange(1, 5)):
        if not streams or random.random() < 0.7:
            size = random.choice((1, 2, 4, 4, 8, 8))
            step = size * (1 if size < 4 else random.choice((1, 1, 1, 2, 3, 0)))
            at = random.randrange(160) & -min(size, 4)
        else:
            at = max(0, at + size * random.choice((0, 0, 1, -1, 2)) // random.choice((1, size // 4 or 1)))
        streams.append((random.choice((READ, READ, WRITE)) | size << SIZE_AT, at, step))
    return Loop(streams, random.choice((0, random.randrange(20), random.randrange(20))), random.randrange(len(streams)))


class Bench:
    """A judge that knows of what harts did, as seeds have it: the same again and again."""

    def __init__(self, seed: int, is_compiled: bool = True) -> None:
        random = Random(seed)
        self.hart = seed % HARTS
        self.ram, self.reported, self.is_compiled = Ram(4096), list[Finding](), is_compiled
        self.races: NativeHartRaces = detector(self.reported, self.ram)
        for name, hart, *more in (each for each in steps(random, 60, 0.4) if each[0].startswith("check")):
            pc, what, at, _ = more
            if what & KIND in (READ, WRITE):
                self.check(hart, pc, what, at * random.choice((1, 4)), name)
            if random.random() < 0.03:
                self.races.barrier_opens()
        if random.random() < 0.6:
            self.races.barrier_opens()
        for _ in range(random.choice((0, 0, 3, 8))):
            self.check(random.randrange(HARTS), 0x300, READ | 4 << SIZE_AT, 4 * random.randrange(90))

    def check(self, hart: int, pc: int, what: int, at: int, name: str = "check") -> int:
        """One access."""
        more = [what >> SIZE_AT] if name == "check_many" else []
        arguments = self.races.address(hart), pc, what, self.ram.base_host + at, at, *more
        return native_detector.function(name)(*arguments)

    def together(self, loop: Loop) -> bool:
        """A loop of a hart, with one look for all, if that is enough."""
        call = native_detector.function if self.is_compiled else lambda name: getattr(native_batch, name)
        row, rows = self.races.rows[self.hart], (Stream * len(loop.streams))()
        for number, (what, at, step) in enumerate(loop.streams):
            stream = rows[number]
            stream.cache = native_order.cache_of(row, PC + 4 * number)
            cache = Cache.from_address(stream.cache)
            if cache.epoch_id != row.fast_id or cache.key != native_order.cache_key(PC + 4 * number, what):
                return False
            stream.stores, stream.size, stream.number = what & KIND == WRITE, what >> SIZE_AT, number
            stream.host, stream.step = self.ram.base_host + at, step
        streams = ctypes.addressof(rows), len(rows)
        assert ctypes.sizeof(rows) == STREAM_BYTES * len(rows)
        if not call("check_rounds")(self.races.address(self.hart), *streams, loop.rounds + 1):
            return False
        call("update_rounds")(self.races.address(self.hart), *streams, loop.rounds, loop.done)
        return True

    def one_by_one(self, loop: Loop) -> bool:
        """Check each access by itself; return True if all are in order."""
        return not any(
            self.check(self.hart, PC + 4 * number, what, at + step * number_of_round)
            for number_of_round in range(loop.rounds + 1)
            for number, (what, at, step) in enumerate(loop.streams)
            if number_of_round < loop.rounds or number < loop.done
        )

    def known(self) -> tuple[Any, ...]:
        """Return the final shadow state, byte by byte."""
        races, row = self.races, self.races.rows[self.hart]
        (planes,) = races._shadow_memories
        words = [planes.part(layer, self.ram.base_host, self.ram.base_host + SPAN) for layer in range(HARTS + 1)]
        records = [[races._record(int(word), byte) for word in layer for byte in range(4)] for layer in words]
        return records, row.last, row.fast_id, row.pending, row.is_acquiring, races.race.next


@pytest.mark.parametrize("seed", range(300))
def test_together_is_as_one_by_one(seed: int) -> None:
    loop = made(Random(seed))
    benches = [Bench(seed), Bench(seed), Bench(seed, is_compiled=False)]
    first = Loop(loop.streams, 0, len(loop.streams))
    for bench in benches:
        bench.one_by_one(first)
        if seed % 3 == 0:
            bench.check(bench.hart, 0x240, READ | 4 << SIZE_AT, SPAN)
    loop = loop._replace(streams=[(what, at + step, step) for what, at, step in loop.streams])
    before = benches[0].known()
    if not benches[0].together(loop):
        assert benches[0].known() == before
        assert not benches[2].together(loop)
        return
    assert benches[1].one_by_one(loop)
    assert benches[2].together(loop)
    assert benches[0].known() == benches[1].known() == benches[2].known()


def test_mostly_it_is_done_together() -> None:
    found = 0
    for seed in range(300):
        bench, loop = Bench(seed), made(Random(seed))
        bench.one_by_one(Loop(loop.streams, 0, len(loop.streams)))
        found += bench.together(loop)
    assert 100 < found < 280


def test_a_race_is_left_to_a_check_of_each() -> None:
    bench = Bench(1)
    bench.races.barrier_opens()
    loop = Loop([(WRITE | 4 << SIZE_AT, 128, 4)], 20, 0)
    assert not bench.check(bench.hart, PC, *loop.streams[0][:2])
    assert bench.together(loop)
    assert not bench.check(2, 0x100, READ | 1 << SIZE_AT, 129 + 80)
    assert not bench.together(loop)


def test_no_room_for_bytes_apart_is_said() -> None:
    bench = Bench(1)
    bench.races.barrier_opens()
    loop = Loop([(WRITE | 1 << SIZE_AT, 129, 1)], 5, 0)
    assert not bench.check(bench.hart, PC, *loop.streams[0][:2])
    assert not bench.check(bench.hart, 0x204, WRITE | 1 << SIZE_AT, 135)
    bench.races.race.split_count = SPLITS
    assert bench.together(loop)
    assert bench.races.race.full
    row = bench.races.rows[bench.hart]
    assert row.fast_id != row.armed


def test_streams_that_meet_in_one_round_are_left_to_a_check_of_each() -> None:
    """Pages may begin in the middle of 8 bytes: then a round's last access of a dword may be any of two."""
    bench = Bench(1)
    bench.races.barrier_opens()
    for apart in (8, 4):
        loop = Loop([(READ | 8 << SIZE_AT, 128, 8), (READ | 8 << SIZE_AT, 128 + apart, 8)], 20, 0)
        assert bench.one_by_one(loop._replace(rounds=0, done=2))
        assert bench.together(loop) == (apart == 8)
