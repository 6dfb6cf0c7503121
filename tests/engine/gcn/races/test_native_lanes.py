"""Checks of many lanes at once, against the same rule for one access, and against the same source run by Python."""

from __future__ import annotations

import ctypes
import random
from typing import Any

from softcard.engine.gcn.races.layout import EPOCH_AT, LEAST, LINE_LANES, ROWS, UID_AT
from softcard.engine.gcn.races.native_fast_path import highest
from softcard.engine.gcn.races.native_lanes import is_address, is_over, load_line, store_parts
from softcard.engine.gcn.races.native_order import is_past
from softcard.ir.lanes import Words, bits_of, load_words, store_words
from softcard.ir.native import Function, link, native
from softcard.ir.object_cache import ObjectCache

TIMES = 2000


@native
def ordered(place: int, watermark: int, epoch_bits: int, bound: int, group_start: int, group_span: int) -> int:
    """Return flags of a line's accesses that came before, flags of words that are not addresses, and the highest."""
    records = load_words(place, LINE_LANES)
    before = load_words(place + 8 * LINE_LANES, LINE_LANES)
    store_words(place + 8 * LINE_LANES, highest(records, before, bound))
    past = bits_of(is_past(records, watermark, epoch_bits, bound, group_start, group_span))
    return past | bits_of(is_over(records, watermark, epoch_bits, bound, group_start, group_span)) << LINE_LANES


def compiled(function: Function[...]) -> Any:
    record = link(ObjectCache(), function)
    return record.function(function.name, ctypes.c_uint64, *[ctypes.c_uint64] * len(function.parameters))


def record(numbers: random.Random, first: int = 64) -> int:
    return numbers.randrange(first, 80) << UID_AT | numbers.randrange(6) << EPOCH_AT | numbers.randrange(1 << EPOCH_AT)


def word(numbers: random.Random) -> int:
    return numbers.choice((0, numbers.randrange(1, LEAST), record(numbers)))


def clock(numbers: random.Random) -> tuple[int, int, int, int, int]:
    """Floor, stamp, bound, first wave of the group, and how far it goes."""
    uid = numbers.randrange(66, 80)
    epoch_bits, group = uid << UID_AT | numbers.randrange(6) << EPOCH_AT, numbers.randrange(64, uid + 1)
    span = numbers.randrange(1, 8) << UID_AT
    return numbers.randrange(64, 80) << UID_AT, epoch_bits, numbers.randrange(6), group << UID_AT, span


def test_vectors_are_ordered_as_words_are() -> None:
    run, numbers = compiled(ordered), random.Random(1)
    for _ in range(TIMES):
        watermark, epoch_bits, bound, group_start, span = clock(numbers)
        words = [word(numbers) for _ in range(2 * LINE_LANES)]
        memory = (ctypes.c_uint64 * len(words))(*words)
        found = run(ctypes.addressof(memory), watermark, epoch_bits, bound, group_start, span)
        for lane, each in enumerate(words[:LINE_LANES]):
            past = is_past(each, watermark, epoch_bits, bound, group_start, span)
            assert found >> lane & 1 == past
            assert found >> LINE_LANES + lane & 1 == (past and not is_address(each))
            assert memory[LINE_LANES + lane] == highest(each, words[LINE_LANES + lane], bound)


def test_a_store_of_a_line_in_parts_is_as_python_has_it() -> None:
    run, numbers, left = compiled(store_parts), random.Random(2), 0
    for _ in range(TIMES):
        watermark, epoch_bits, bound, group_start, span = clock(numbers)
        cells = (ctypes.c_uint64 * (ROWS + 3 * LINE_LANES))()
        start = ctypes.addressof(cells)
        for number in range(ROWS, len(cells)):
            cells[number] = numbers.choice((0, watermark - 1, epoch_bits)) if numbers.randrange(99) else word(numbers)
        for row, part in ((0, 0), (2, 1), (3, 2)):
            cells[row] = start + 8 * (ROWS + part * LINE_LANES) if numbers.randrange(2) else epoch_bits
        cells[1] = numbers.choice((0, 0, 0, start))
        before = list(cells)
        found = run(start, epoch_bits, epoch_bits, bound, group_start, span, watermark)
        after = list(cells)
        cells[:] = before
        assert store_parts(start, epoch_bits, epoch_bits, bound, group_start, span, watermark) == found
        assert list(cells) == after
        left += found
        if found:
            assert after == before
    assert 0 < left < TIMES


def test_functions_in_line_run_as_python_too() -> None:
    """A load of a line that nothing has met leaves its code in the cell of the first load."""
    page = (ctypes.c_uint64 * ROWS)()
    row = ctypes.addressof(page)
    cache = (ctypes.c_uint64 * 4)(5, 0, row, 3 << 8)
    vectors = [Words([each] * ROWS) for each in (70 << UID_AT, 0, 66 << UID_AT, 8 << UID_AT, 64 << UID_AT)]
    given: Any = (ctypes.addressof(cache), 5, 0, 0, 0, *vectors, 0)
    assert load_line(*given) == 0
    assert list(page) == [0, 0, (70 << UID_AT) + (3 << 8), 0]
    given = (ctypes.addressof(cache), 6, *given[2:])
    assert load_line(*given) == 1
