"""Rounds of a loop that are looked at together come to what looks at each of their accesses come to."""

from __future__ import annotations

import ctypes
from random import Random
from typing import Any, NamedTuple

import pytest

from tests.engine.riscv.races.test_native import HARTS, judge, steps
from understudy.core.findings import Finding
from understudy.core.space import Ram
from understudy.engine.riscv.jit.streams import STREAM_BYTES, Stream
from understudy.engine.riscv.races import native_ahead, native_judge, native_order
from understudy.engine.riscv.races.codes import KIND, READ, SIZE_AT, SPLITS, WRITE, Hint
from understudy.engine.riscv.races.native_judge import NativeHartRaces

SPAN = 512
"""Bytes that are looked at."""
PC = 0x200
"""Of the first instruction of a loop."""


class Loop(NamedTuple):
    """What a hart does: streams, each of what, where it begins, and its step; whole rounds, and accesses behind."""

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
        self.ram, self.told, self.is_compiled = Ram(4096), list[Finding](), is_compiled
        self.races: NativeHartRaces = judge(self.told, self.ram)
        for name, hart, *more in (each for each in steps(random, 60, 0.4) if each[0].startswith("look")):
            pc, what, at, _ = more
            if what & KIND in (READ, WRITE):
                self.look(hart, pc, what, at * random.choice((1, 4)), name)
            if random.random() < 0.03:
                self.races.barrier()
        if random.random() < 0.6:
            self.races.barrier()
        for _ in range(random.choice((0, 0, 3, 8))):
            self.look(random.randrange(HARTS), 0x300, READ | 4 << SIZE_AT, 4 * random.randrange(90))

    def look(self, hart: int, pc: int, what: int, at: int, name: str = "look") -> int:
        """One access."""
        more = [what >> SIZE_AT] if name == "look_many" else []
        arguments = self.races.address(hart), pc, what, self.ram.base_host + at, at, *more
        return native_judge.function(name)(*arguments)

    def together(self, loop: Loop) -> bool:
        """A loop of a hart, with one look for all, if that is enough."""
        call = native_judge.function if self.is_compiled else lambda name: getattr(native_ahead, name)
        row, rows = self.races.rows[self.hart], (Stream * len(loop.streams))()
        for number, (what, at, step) in enumerate(loop.streams):
            stream = rows[number]
            stream.hint = native_order.hint_of(row, PC + 4 * number)
            hint = Hint.from_address(stream.hint)
            if hint.stamp != row.quick or hint.key != native_order.hint_key(PC + 4 * number, what):
                return False
            stream.stores, stream.size, stream.number = what & KIND == WRITE, what >> SIZE_AT, number
            stream.host, stream.step = self.ram.base_host + at, step
        streams = ctypes.addressof(rows), len(rows)
        assert ctypes.sizeof(rows) == STREAM_BYTES * len(rows)
        if not call("look_ahead")(self.races.address(self.hart), *streams, loop.rounds + 1):
            return False
        call("look_behind")(self.races.address(self.hart), *streams, loop.rounds, loop.done)
        return True

    def one_by_one(self, loop: Loop) -> bool:
        """The same, with one for each access: whether all are in order."""
        return not any(
            self.look(self.hart, PC + 4 * number, what, at + step * number_of_round)
            for number_of_round in range(loop.rounds + 1)
            for number, (what, at, step) in enumerate(loop.streams)
            if number_of_round < loop.rounds or number < loop.done
        )

    def known(self) -> tuple[Any, ...]:
        """What is known in the end, byte by byte."""
        races, row = self.races, self.races.rows[self.hart]
        (planes,) = races._planes
        words = [planes.part(plane, self.ram.base_host, self.ram.base_host + SPAN) for plane in range(HARTS + 1)]
        codes = [[races._code(int(word), byte) for word in plane for byte in range(4)] for plane in words]
        return codes, row.last, row.quick, row.pending, row.is_acquiring, races.race.next


@pytest.mark.parametrize("seed", range(300))
def test_together_is_as_one_by_one(seed: int) -> None:
    loop = made(Random(seed))
    benches = [Bench(seed), Bench(seed), Bench(seed, is_compiled=False)]
    first = Loop(loop.streams, 0, len(loop.streams))
    for bench in benches:
        bench.one_by_one(first)
        if seed % 3 == 0:
            bench.look(bench.hart, 0x240, READ | 4 << SIZE_AT, SPAN)
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


def test_a_race_is_left_to_a_look_at_each() -> None:
    bench = Bench(1)
    bench.races.barrier()
    loop = Loop([(WRITE | 4 << SIZE_AT, 128, 4)], 20, 0)
    assert not bench.look(bench.hart, PC, *loop.streams[0][:2])
    assert bench.together(loop)
    assert not bench.look(2, 0x100, READ | 1 << SIZE_AT, 129 + 80)
    assert not bench.together(loop)


def test_no_room_for_bytes_apart_is_said() -> None:
    bench = Bench(1)
    bench.races.barrier()
    loop = Loop([(WRITE | 1 << SIZE_AT, 129, 1)], 5, 0)
    assert not bench.look(bench.hart, PC, *loop.streams[0][:2])
    assert not bench.look(bench.hart, 0x204, WRITE | 1 << SIZE_AT, 135)
    bench.races.race.split_count = SPLITS
    assert bench.together(loop)
    assert bench.races.race.full
    row = bench.races.rows[bench.hart]
    assert row.quick != row.armed


def test_streams_that_meet_in_one_round_are_left_to_a_look_at_each() -> None:
    """Pages may begin in the middle of 8 bytes: then a round's last access of a dword may be any of two."""
    bench = Bench(1)
    bench.races.barrier()
    for apart in (8, 4):
        loop = Loop([(READ | 8 << SIZE_AT, 128, 8), (READ | 8 << SIZE_AT, 128 + apart, 8)], 20, 0)
        assert bench.one_by_one(loop._replace(rounds=0, done=2))
        assert bench.together(loop) == (apart == 8)
