"""Vectors of native functions: what machine code gives is what Python gives, for one source of scalars and vectors."""

from __future__ import annotations

import ctypes
import random

import pytest

from softcard.core.errors import ModelBug
from softcard.ir.builder import Text
from softcard.ir.lanes import (
    Lanes,
    Words,
    any_of,
    bits_of,
    flags_of,
    gather,
    lane,
    lane_numbers,
    load_dwords,
    load_words,
    register_words,
    scatter,
    spread,
    spread_dword,
    store_dwords,
    store_words,
)
from softcard.ir.llvm import OPTIMISED, Code, compile_ir
from softcard.ir.native import U64, Function, inlined, link, native, unlikely
from softcard.ir.native_llvm import call, embedded
from softcard.ir.object_cache import ObjectCache

COUNT = 16
LAST = COUNT - 1
DWORDS = 2 * COUNT
MANY = 1 << 64


class Row(Lanes, count=COUNT):
    """Words of a test."""


@inlined
def mixed(a: int, b: int, limit: int) -> int:
    """One source for words and vectors."""
    near = (a - b < limit) | ((a ^ b) >> 60 == 0)
    return (a + 3 * b if near else a & ~b) ^ b << 2


@native
def mix(place: int, limit: int) -> int:
    """Two vectors in memory become one, and flags."""
    a = load_words(place, COUNT)
    b = load_words(place + 8 * COUNT, COUNT)
    store_words(place, mixed(a, b, limit))
    return bits_of((a < b) & ~(a == limit))


@native
def move(place: int, mask: int) -> int:
    """Words are gathered by their numbers, and scattered backwards."""
    lanes = flags_of(mask, COUNT)
    at = place + 8 * (load_words(place, COUNT) & LAST)
    found = gather(at, lanes, lane_numbers(COUNT))
    if unlikely(not any_of(lanes)):
        return 7
    scatter(found + 1, place + 8 * COUNT + (LAST - lane_numbers(COUNT) << 3), lanes)
    return lane(found, 0) + lane(found, LAST)


@native
def narrow(place: int, limit: int) -> int:
    """Dwords wrap around at 32 bits; words beside them count with their low half."""
    a = load_dwords(place, DWORDS)
    b = load_dwords(place + 8 * COUNT, DWORDS)
    store_dwords(place, mixed(a, b, limit))
    store_dwords(place + 8 * COUNT, (spread_dword(limit, DWORDS) >> b) + (-a << 3) if a < limit else b)
    return bits_of((a < b) | ~(a == limit)) + lane(a, LAST) + any_of(b > limit)


@native
def shift(place: int, by: int) -> int:
    """Shifts by amounts that differ, some of them too far."""
    store_words(place, spread(by, COUNT) >> load_words(place, COUNT))
    return 0


def compiled(function: Function[...]) -> object:
    code = link(ObjectCache(), function)
    return code.function(function.name, ctypes.c_uint64, *[ctypes.c_uint64] * len(function.parameters))


@pytest.mark.parametrize("function", [mix, move, narrow, shift], ids=lambda each: each.name)
def test_machine_code_gives_what_python_gives(function: Function[...]) -> None:
    run, numbers = compiled(function), random.Random(1)
    for _ in range(200):
        words = [numbers.choice((numbers.randrange(MANY), numbers.randrange(70))) for _ in range(2 * COUNT)]
        other = numbers.choice((0, numbers.randrange(MANY), numbers.randrange(1 << COUNT)))
        one, two = ((ctypes.c_uint64 * len(words))(*words) for _ in range(2))
        assert run(ctypes.addressof(one), other) == function(ctypes.addressof(two), other)  # type: ignore[operator]
        assert list(one) == list(two)


def test_a_vector_gives_what_each_of_its_words_gives() -> None:
    numbers = random.Random(2)
    a, b = ([numbers.randrange(MANY) for _ in range(COUNT)] for _ in range(2))
    together = mixed(Words(a), Words(b), 1 << 63)  # type: ignore[arg-type]
    assert list(together.lanes) == [mixed(*pair, 1 << 63) for pair in zip(a, b, strict=True)]  # type: ignore[attr-defined]


@native
def branching(place: int) -> int:
    """A vector decides a branch."""
    return 1 if load_words(place, COUNT) == 0 else 0


@native
def unequal(place: int) -> int:
    """Vectors of two lengths."""
    store_words(place, load_words(place, COUNT) + load_words(place, 8))
    return 0


@native
def widths(place: int) -> int:
    """Flags of words select dwords."""
    store_dwords(place, load_dwords(place, COUNT) if load_words(place, COUNT) == 0 else spread_dword(0, COUNT))
    return 0


@native
def misplaced(place: int) -> int:
    """Dwords are stored as words."""
    store_words(place, load_dwords(place, COUNT))
    return 0


@native
def unknown(place: int, count: int) -> int:
    """A length that is known too late."""
    store_words(place, load_words(place, count))
    return 0


@native
def whole(row: Row, count: int) -> int:
    """A vector as a parameter, and a constant."""
    return lane(row, 0) if count == COUNT else any_of(row == 0)


@pytest.mark.parametrize(
    ("function", "why"),
    [
        (unequal, "mixes vectors of different types: <16 x i64> and <8 x i64>"),
        (unknown, "must be a constant that is known when the function is compiled"),
        (widths, "selects lanes of 32 bits by flags of 64 bits"),
        (misplaced, "is a vector of <16 x i32> where lanes of 64 bits are expected"),
    ],
    ids=lambda each: each if isinstance(each, str) else each.name,
)
def test_what_has_no_vector_form_is_named_with_its_place(function: Function[...], why: str) -> None:
    with pytest.raises(ModelBug, match=rf"test_lanes.py:\d+: .* {why}"):
        embedded(function)


def test_a_vector_cannot_decide_a_branch() -> None:
    with pytest.raises(ModelBug):
        embedded(branching)["branching"]
    with pytest.raises(ModelBug, match="use any_of"):
        bool(Words([1, 2]))


def test_constants_make_functions_of_their_own() -> None:
    text = embedded(whole, "noinline #0", count=COUNT)["whole_16"]
    assert text.startswith("define internal i64 @whole_16(<16 x i64> %a.row) noinline #0 {")
    assert "icmp" not in text
    assert "icmp" in embedded(whole, count=1)["whole_1"]


@native
def summed(place: int, count: int, step: int) -> int:
    """A loop over as many words as a parameter says, and one within it; the last one may end early."""
    total = 0
    for number in range(count):
        for again in range(1, count):
            total += (number + step) * again
        if U64[place + 8 * number] == 0:
            return total
        total += U64[place + 8 * number]
    return total


def test_a_loop_that_a_constant_bounds_is_written_out() -> None:
    texts = embedded(summed, count=3)["summed_3"], embedded(summed, count=0)["summed_0"]
    assert [text.count("phi") + text.count("br i1") for text in texts] == [3, 0]
    words = (ctypes.c_uint64 * 3)(7, 9, 11)
    called = Text()
    called.lines.append("define i64 @outer(i64 %at, i64 %step) {")
    called.ret(call(called, summed, "%at", "%step", count=3))
    lines = [*called.lines, "}", *called.declarations.values()]
    run = Code(compile_ir("\n".join(lines), OPTIMISED)).function(
        "outer", ctypes.c_uint64, ctypes.c_uint64, ctypes.c_uint64
    )
    for last in (11, 0):
        words[2] = last
        for step in (0, 5, MANY - 1):
            assert run(ctypes.addressof(words), step) == summed(ctypes.addressof(words), 3, step)


@pytest.mark.parametrize(
    ("features", "words"),
    [({"avx2", "avx512f", "avx512bw", "avx512dq", "avx512vl"}, 8), ({"avx2", "avx512f"}, 4), ({"sse2"}, 2)],
)
def test_registers_are_as_wide_as_the_host_has_them(features: set[str], words: int) -> None:
    assert register_words(frozenset(features)) == words
