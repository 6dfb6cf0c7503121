"""The compiled race check of harts gives the results of the Python one; and the limits of its tables."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest

from softcard.core.errors import BeyondModel
from softcard.core.findings import Finding, FindingLog
from softcard.core.space import Ram
from softcard.engine.races.tables import first_row, site_key
from softcard.engine.riscv.races import native_check, native_detector, native_fast_path, native_order
from softcard.engine.riscv.races.layout import (
    ACQUIRES,
    ATOMIC,
    CACHES,
    ENTRIES,
    FULL,
    IS_ATOMIC,
    KEY_BITS,
    LIMIT,
    PAGE_SLOTS,
    READ,
    RELEASES,
    SIZE_AT,
    WRITE,
)
from softcard.engine.riscv.races.native_detector import NativeHartRaces, check_function
from softcard.isa.riscv.state import Hart

HARTS = 3
BYTES = 64
PORT: Any = None
"""Nobody asks harts for memory here."""
FENCES = (0x0FF0000F, 0x0310000F, 0x0230000F)
"""fence of everything, rw to w, r to rw."""


def detector(reported: list[Finding], ram: Ram) -> NativeHartRaces:
    found = NativeHartRaces(
        FindingLog(reported), lambda hart, address: ram.base_host + address, False, HARTS,
        lambda index: Hart(index, PORT), lambda hart, pc: None, lambda: [ram],
    )  # fmt: skip
    found.group_begins()
    return found


def shadow_of(races: NativeHartRaces, ram: Ram) -> np.ndarray[Any, np.dtype[np.uint32]]:
    (planes,) = races._shadow_memories
    whole = [planes.part(layer, ram.base_host, ram.base_host + BYTES) for layer in range(HARTS + 1)]
    return np.concatenate(whole)


def steps(random: Random, count: int, shared: float) -> list[tuple[Any, ...]]:
    """Return random steps of harts, each with a name and arguments; `shared` is the fraction at shared addresses."""
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
            at = random.randrange(BYTES // size) * size if random.random() < shared else hart * 16 + 8 * (size < 8)
            name = random.choice(("check", "check_many", check_function(what), check_function(what)))
            found.append((name, hart, 0x100 + 2 * random.randrange(8), what, at & -size, 2 if access == WRITE else 1))
    return found


def done(wanted: list[tuple[Any, ...]], is_compiled: bool, is_short: bool) -> tuple[Any, ...]:
    """Execute steps; return the results and state after each one, and the final state of memory."""
    ram, reported = Ram(4096), list[Finding]()
    races = detector(reported, ram)

    def call(name: str, *arguments: int) -> int:
        if is_compiled:
            return native_detector.function(name)(*arguments)
        modules = (native_check, native_fast_path, native_order)
        return int(next(getattr(each, name) for each in modules if hasattr(each, name))(*arguments))

    answers: list[Any] = []
    for name, *more in wanted:
        if name == "barrier":
            call("barrier", races._at)
        elif name == "fence":
            call("fence", races.address(more[0]), *more[1:])
        else:
            hart, pc, what, at, times = more
            size = (what >> SIZE_AT) * (times if name == "check_many" and at + 16 <= BYTES else 1)
            given = [races.address(hart), pc, what, ram.base_host + at, at]
            name = "check" if name != "check_many" and not is_short else name
            answers.append(call(name, *given, *([size] if name == "check_many" else [])))
        rows = [(row.last, row.pending, row.fenced, row.fast_id, row.watermark) for row in races.rows]
        answers.append((rows, races.race.next, races.race.full))
    planes = shadow_of(races, ram)
    over = planes < races.race.watermark
    return answers, np.where(over, 0, planes).tolist(), races._known.tolist(), races._bounds.tolist()


@pytest.mark.parametrize("seed", range(4))
def test_the_same_as_python(seed: int) -> None:
    wanted = steps(Random(seed), 150, shared=0.7)
    one, other = (done(wanted, is_compiled, is_short=True) for is_compiled in (True, False))
    assert one == other
    assert 0 in one[0]
    assert any(each for each in one[0] if isinstance(each, int))


@pytest.mark.parametrize("seed", range(40))
def test_the_short_way_gives_the_same_as_the_long_one(seed: int) -> None:
    wanted = steps(Random(seed), 400, shared=(0.7, 0.3, 0.1, 0.02)[seed % 4])
    assert done(wanted, is_compiled=True, is_short=True) == done(wanted, is_compiled=True, is_short=False)


class Harts:
    """Accesses of 4 bytes, by the short way."""

    def __init__(self) -> None:
        self.ram = Ram(4096)
        self.races = detector([], self.ram)

    def access(self, hart: int, pc: int, what: int, at: int) -> bool:
        """Return True if an access is ordered after the earlier ones."""
        what |= 4 << SIZE_AT
        function = native_detector.function(check_function(what))
        return not function(self.races.address(hart), pc, what, self.ram.base_host + at, at)


AMO = ATOMIC | IS_ATOMIC


def test_an_atomic_of_its_own_acquires_what_was_read_before() -> None:
    harts = Harts()
    assert harts.access(1, 0x10, WRITE, 0)
    assert harts.access(1, 0x14, AMO | RELEASES, 8)
    for _ in range(3):
        assert harts.access(0, 0x20, AMO | ACQUIRES, 16)
    assert harts.access(0, 0x24, AMO, 8)
    assert harts.access(0, 0x20, AMO | ACQUIRES, 16)
    assert harts.access(0, 0x28, READ, 0)


def test_an_atomic_hands_on_what_one_of_its_own_hart_did() -> None:
    harts = Harts()
    for pc in (0x20, 0x20, 0x24, 0x24):
        assert harts.access(0, pc, AMO, 16)
    assert harts.access(1, 0x10, WRITE, 0)
    assert harts.access(1, 0x14, AMO | RELEASES, 8)
    assert harts.access(0, 0x20, AMO, 8)
    assert harts.access(0, 0x28, AMO | ACQUIRES, 16)
    assert harts.access(0, 0x24, AMO, 8)
    assert harts.access(2, 0x30, AMO | ACQUIRES, 8)
    assert harts.access(2, 0x34, READ, 0)


def test_places_of_clocks_before_a_barrier_are_others_behind_it() -> None:
    harts = Harts()
    for _ in range(4):
        assert harts.access(0, 0x20, AMO | RELEASES, 16)
    harts.races.barrier_opens()
    assert harts.access(1, 0x10, WRITE, 0)
    assert harts.access(1, 0x14, AMO | RELEASES, 8)
    assert harts.access(0, 0x24, AMO, 8)
    assert harts.access(2, 0x30, AMO | ACQUIRES, 8)
    assert harts.access(2, 0x34, READ, 0)


def test_another_instruction_at_the_same_place_is_another_event() -> None:
    """Code may change, and what an instruction does with it."""
    harts, events = Harts(), []
    for what in (READ, READ, WRITE, WRITE, AMO, AMO, READ, WRITE, AMO):
        assert harts.access(0, 0x10, what, 0)
        events.append(harts.races.race.next)
    assert len(set(events)) == 3
    assert events[5:] == events[5:6] * 4


def test_rows_of_instructions_are_found_anew_where_numbers_of_events_begin_anew() -> None:
    """One that another one had to make room for, has another row then: hints must not know the old one."""
    homes: dict[int, int] = {}
    for pc in range(0x1000, 1 << 20, 4):
        first = homes.setdefault(first_row(site_key(pc, WRITE, KEY_BITS), ENTRIES - 1), pc)
        if (pc ^ first) >> 1 & CACHES - 1:
            break
    harts = Harts()
    for each in (first, first, pc, pc):
        assert harts.access(0, each, WRITE, 0)
    harts.races.race.next = LIMIT // 2 + harts.races.race.step
    harts.races.group_begins()
    assert harts.access(0, pc, WRITE, 0)
    events = harts.races.race.next
    arguments = harts.races.address(0), pc, WRITE | 4 << SIZE_AT, harts.ram.base_host, 0
    assert native_detector.function("check")(*arguments) == 0
    assert harts.races.race.next == events


def test_bytes_of_a_dword_apart_and_together() -> None:
    """Hart 1 may load the half that hart 0 has not stored, and no more."""
    ram = Ram(4096)
    races = detector([], ram)

    def check(hart: int, pc: int, access: int, at: int, size: int) -> bool:
        what = access | size << SIZE_AT
        return not native_detector.function("check")(races.address(hart), pc, what, ram.base_host + at, at)

    assert check(0, 0x10, WRITE, 0, 1)
    assert check(0, 0x12, WRITE, 1, 1)
    assert check(1, 0x14, READ, 2, 2)
    assert not check(1, 0x14, READ, 0, 4)
    assert not check(1, 0x14, READ, 1, 1)
    assert not check(0, 0x10, WRITE, 3, 1)
    assert check(0, 0x16, READ, 0, 4)
    races.barrier_opens()
    assert check(1, 0x14, WRITE, 0, 4)
    assert not check(0, 0x14, READ, 3, 1)


def test_numbers_of_events_begin_anew_between_groups() -> None:
    """Old events are not mistaken for present ones."""
    ram = Ram(4096)
    races = detector([], ram)
    what = WRITE | 4 << SIZE_AT
    assert not native_detector.function("check")(races.address(0), 0x10, what, ram.base_host, 0)
    races.race.next = LIMIT // 2 + races.race.step
    races.group_begins()
    assert races.race.next == races.race.step
    assert not shadow_of(races, ram).any()
    assert not native_detector.function("check")(races.address(1), 0x10, what, ram.base_host, 0)


def test_too_many_events() -> None:
    ram = Ram(4096)
    races = detector([], ram)
    races.race.next = LIMIT - races.race.step
    native_detector.function("check")(races.address(0), 0x10, WRITE | 4 << SIZE_AT, ram.base_host, 0)
    with pytest.raises(BeyondModel, match="check 'races' supports groups of instances with at most the accesses"):
        races.check()


def test_too_many_pages_before_the_host_waits() -> None:
    ram = Ram(4096)
    races = detector([], ram)
    races.remember()
    races.group_begins()
    races.race.page_count = PAGE_SLOTS // 2
    native_detector.function("check")(races.address(0), 0x10, WRITE | 4 << SIZE_AT, ram.base_host, 0)
    with pytest.raises(BeyondModel, match="supports groups of instances with at most 32768 pages of memory, if the"):
        races.check()


@pytest.mark.parametrize("limit", FULL)
def test_limits_are_errors_with_their_number(limit: int) -> None:
    races = detector([], Ram(4096))
    races.race.full = limit
    with pytest.raises(BeyondModel, match=f"^check 'races' supports groups of instances with at most {FULL[limit]}$"):
        races.check()
