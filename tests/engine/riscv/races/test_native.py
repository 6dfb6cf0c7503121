"""What looks for races of harts, which runs compiled everywhere else, gives the same as Python; and what it has no room
for is said."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest

from understudy.core.errors import BeyondModel
from understudy.core.findings import Finding, FindingLog
from understudy.core.space import Ram
from understudy.engine.riscv.races import native_judge, native_look, native_order
from understudy.engine.riscv.races.codes import (
    ACQUIRES,
    ATOMIC,
    IS_ATOMIC,
    LIMIT,
    READ,
    RELEASES,
    SIZE_AT,
    WRITE,
)
from understudy.engine.riscv.races.native_judge import NativeHartRaces
from understudy.isa.riscv.state import Hart

HARTS = 3
BYTES = 64
PORT: Any = None
"""Nobody asks harts for memory here."""
FENCES = (0x0FF0000F, 0x0310000F, 0x0230000F)
"""fence of everything, rw to w, r to rw."""


def judge(told: list[Finding], ram: Ram) -> NativeHartRaces:
    found = NativeHartRaces(
        FindingLog(told), lambda hart, address: ram.base_host + address, False, HARTS,
        lambda index: Hart(index, PORT), lambda hart, pc: None, lambda: [ram],
    )  # fmt: skip
    found.begin_group()
    return found


def planes_of(races: NativeHartRaces, ram: Ram) -> np.ndarray[Any, np.dtype[np.uint32]]:
    (planes,) = races._planes
    whole = [planes.part(plane, ram.base_host, ram.base_host + BYTES) for plane in range(HARTS + 1)]
    return np.concatenate(whole)


def steps(random: Random, count: int) -> list[tuple[Any, ...]]:
    found: list[tuple[Any, ...]] = []
    for _ in range(count):
        hart, kind = random.randrange(HARTS), random.random()
        if kind < 0.1:
            found.append(("fence", hart, random.choice(FENCES), int(random.random() < 0.1)))
        elif kind < 0.14:
            found.append(("barrier",))
        else:
            size = random.choice((1, 2, 4, 4, 8))
            access = random.choice((READ, READ, WRITE, ATOMIC)) if size >= 4 else random.choice((READ, WRITE))
            what = access | size << SIZE_AT
            if access == ATOMIC:
                what |= IS_ATOMIC | random.choice((0, ACQUIRES)) | random.choice((0, RELEASES))
            at = random.randrange(BYTES // size) * size if random.random() < 0.7 else hart * 16 + 8 * (size < 8)
            name = random.choice(("look", "look", "look_many"))
            found.append((name, hart, 0x100 + 2 * random.randrange(8), what, at & -size, 2 if access == WRITE else 1))
    return found


@pytest.mark.parametrize("seed", range(4))
def test_the_same_as_python(seed: int) -> None:
    results = []
    for is_compiled in (True, False):
        ram, told = Ram(4096), list[Finding]()
        races = judge(told, ram)

        def call(name: str, *arguments: int, is_compiled: bool = is_compiled) -> int:
            if is_compiled:
                return native_judge.function(name)(*arguments)
            return int((getattr(native_look, name, None) or getattr(native_order, name))(*arguments))

        answers: list[Any] = []
        for name, *more in steps(Random(seed), 150):
            if name == "barrier":
                call("barrier", races._at)
            elif name == "fence":
                call("fence", races.address(more[0]), *more[1:])
            else:
                hart, pc, what, at, times = more
                size = (what >> SIZE_AT) * (times if name == "look_many" and at + 16 <= BYTES else 1)
                given = [races.address(hart), pc, what, ram.base_host + at, at]
                answers.append(call(name, *given, *([size] if name == "look_many" else [])))
            rows = [(row.last, row.pending, row.fenced, row.quick, row.floor) for row in races.rows]
            answers.append((rows, races.race.next, races.race.full))
        results.append((answers, planes_of(races, ram).tolist(), races._known.tolist(), races._bounds.tolist()))
    assert results[0] == results[1]
    assert 0 in results[0][0]
    assert any(each for each in results[0][0] if isinstance(each, int))


def test_bytes_of_a_dword_apart_and_together() -> None:
    """Hart 1 may load the half that hart 0 has not stored, and no more."""
    ram = Ram(4096)
    races = judge([], ram)

    def look(hart: int, pc: int, access: int, at: int, size: int) -> bool:
        what = access | size << SIZE_AT
        return not native_judge.function("look")(races.address(hart), pc, what, ram.base_host + at, at)

    assert look(0, 0x10, WRITE, 0, 1)
    assert look(0, 0x12, WRITE, 1, 1)
    assert look(1, 0x14, READ, 2, 2)
    assert not look(1, 0x14, READ, 0, 4)
    assert not look(1, 0x14, READ, 1, 1)
    assert not look(0, 0x10, WRITE, 3, 1)
    assert look(0, 0x16, READ, 0, 4)
    races.barrier()
    assert look(1, 0x14, WRITE, 0, 4)
    assert not look(0, 0x14, READ, 3, 1)


def test_numbers_of_events_begin_anew_between_groups() -> None:
    """What was before is not taken for something that is now."""
    ram = Ram(4096)
    races = judge([], ram)
    what = WRITE | 4 << SIZE_AT
    assert not native_judge.function("look")(races.address(0), 0x10, what, ram.base_host, 0)
    races.race.next = LIMIT // 2 + races.race.step
    races.begin_group()
    assert races.race.next == races.race.step
    assert not planes_of(races, ram).any()
    assert not native_judge.function("look")(races.address(1), 0x10, what, ram.base_host, 0)


def test_too_many_events() -> None:
    ram = Ram(4096)
    races = judge([], ram)
    races.race.next = LIMIT - races.race.step
    native_judge.function("look")(races.address(0), 0x10, WRITE | 4 << SIZE_AT, ram.base_host, 0)
    with pytest.raises(BeyondModel, match="check 'races' of groups of instances with more accesses"):
        races.check()
