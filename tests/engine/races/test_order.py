"""The rule of races: what it gives for words, for vectors, and for clocks in Python is the same."""

from __future__ import annotations

import ctypes
from random import Random

import pytest

from softcard.engine.races.clocks import AgentClock, cells_met, is_ordered
from softcard.engine.races.findings import host_and, race_message
from softcard.engine.riscv.races.layout import BYTES, SLOT_AT, SPLIT, HartRow, Race, atomic_bit, slot_mask
from softcard.engine.riscv.races.native_batch import LINE, is_line_past
from softcard.engine.riscv.races.native_fast_path import is_past
from softcard.ir.lanes import Dwords, Words
from softcard.ir.native import link
from softcard.ir.object_cache import ObjectCache

HARTS = 4
STEP = 2 * atomic_bit(HARTS)
AGENT = ~((1 << 40) - 1) & (1 << 64) - 1


def test_codes_are_ordered_as_clocks_are() -> None:
    numbers = Random(1)
    for _ in range(500):
        clock = AgentClock(numbers.randrange(8, 16))
        clock.learn({uid: numbers.randrange(1, 9) for uid in range(8, 16)})
        uids, epochs = [[numbers.randrange(each) + 1 for _ in range(16)] for each in (15, 9)]
        known = [int(clock.known.get(uid, 0) >= epoch) for uid, epoch in zip(uids, epochs, strict=True)]
        records = [uid << 40 | epoch for uid, epoch in zip(uids, epochs, strict=True)]
        expected = [uid < 8 or clock.knows(uid, epoch) for uid, epoch in zip(uids, epochs, strict=True)]
        given = 8 << 40, clock.uid << 40, AGENT
        assert [is_ordered(record, *given, each) for record, each in zip(records, known, strict=True)] == expected
        flags = Words(known) == 1
        assert list(is_ordered(Words(records), *given, flags).lanes) == expected  # type: ignore[arg-type, attr-defined]


def test_a_line_of_words_is_past_where_each_word_is() -> None:
    record = link(ObjectCache(), is_line_past)
    run = record.function("is_line_past", ctypes.c_uint64, *[ctypes.c_uint64] * 4)
    numbers, found = Random(2), [0, 0]
    bounds = (ctypes.c_uint64 * (STEP >> SLOT_AT))()
    race = Race(harts=HARTS, slot_mask=slot_mask(HARTS), atomic=atomic_bit(HARTS))
    for _ in range(3000):
        slot, others = numbers.randrange(HARTS), numbers.choice(((1,), (0, 2), range(HARTS)))
        watermark = STEP * numbers.randrange(20, 40)
        for each in range(len(bounds)):
            bounds[each] = watermark + STEP * numbers.randrange(30)
        row = HartRow(slot=slot, own=slot << SLOT_AT, watermark=watermark, bounds=ctypes.addressof(bounds))
        words = [
            STEP * numbers.randrange(20, 50) | numbers.choice(others) << SLOT_AT | BYTES
            | (race.atomic if numbers.random() < 0.02 else 0)
            for _ in range(LINE)
        ]  # fmt: skip
        line = (ctypes.c_uint32 * LINE)(*words)
        given = watermark, row.own, row.bounds, race.slot_mask, race.atomic
        expected = int(all(is_past(word, *given) for word in words))
        place = ctypes.addressof(line)
        assert run(ctypes.addressof(row), ctypes.addressof(race), place, LINE) == expected
        assert is_line_past(row, race, place, LINE) == expected
        found[expected] += 1
    assert min(found) > 100


def test_dwords_are_settled_as_words_are() -> None:
    numbers = Random(3)
    bits = slot_mask(HARTS) | SPLIT
    for _ in range(300):
        words = [numbers.randrange(1 << 32) for _ in range(LINE)]
        watermark, agent = numbers.randrange(SPLIT), numbers.choice(words)
        flags = Words([numbers.randrange(2) for _ in words]) == 1
        each = [is_ordered(word, watermark, agent, bits, flag) for word, flag in zip(words, flags.lanes, strict=True)]
        assert list(is_ordered(Dwords(words), watermark, agent, bits, flags).lanes) == each  # type: ignore[arg-type, attr-defined]


def test_loads_conflict_with_stores_alone() -> None:
    assert [cells_met(is_load, 2, 4) for is_load in (1, 0)] == [2, 4]


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (
            ("write", 4, "0x40", "read", "harts"),
            "write of 4 bytes at 0x40 and a read of the same bytes by harts without a happens-before order",
        ),
        (
            ("read", 0, "0x40", "atomic", "harts"),
            "read at 0x40 and an atomic of the same bytes by harts without a happens-before order",
        ),
        (
            ("free", 8, "0x40", "write", host_and("a copy")),
            "free of 8 bytes at 0x40 and a write of the same bytes by the host and a copy that it has not waited for, "
            "without a happens-before order",
        ),
    ],
)
def test_the_text_of_a_race(given: tuple[str, int, str, str, str], text: str) -> None:
    assert race_message(*given) == text
