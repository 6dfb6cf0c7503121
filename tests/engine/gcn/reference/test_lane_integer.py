"""The integer algebra: lanes against Python's integers, operation by operation."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from softcard.engine.gcn.reference.lane_integer import UNSIGNED, LaneIntegers, any_lane, lanes_of, signed

ALGEBRA = LaneIntegers()
WIDTHS = (8, 16, 32, 64)


def two(w: int, n: int) -> int:
    """Two's complement."""
    return n - (1 << w) if n & 1 << (w - 1) else n


def width_of(value: Any) -> int:
    """The width in bits of lanes: each is of its own dtype."""
    assert value.shape == (64,)
    return next(w for w, dtype in UNSIGNED.items() if value.dtype == dtype)


def digits(w: int, n: int) -> str:
    return f"{n:0{w}b}"


# What each operation means, written without it.
BINARY: dict[str, Callable[[int, int, int], int]] = {
    "add": lambda w, a, b: (a + b) % 2**w,
    "sub": lambda w, a, b: (a - b) % 2**w,
    "mul": lambda w, a, b: a * b % 2**w,
    "and_": lambda w, a, b: a & b,
    "or_": lambda w, a, b: a | b,
    "xor": lambda w, a, b: a ^ b,
    "umin": lambda w, a, b: a if a < b else b,
    "umax": lambda w, a, b: a if a > b else b,
    "smin": lambda w, a, b: a if two(w, a) < two(w, b) else b,
    "smax": lambda w, a, b: a if two(w, a) > two(w, b) else b,
    "eq": lambda w, a, b: int(a == b),
    "ne": lambda w, a, b: int(a != b),
    "ult": lambda w, a, b: int(a < b),
    "ule": lambda w, a, b: int(a <= b),
    "slt": lambda w, a, b: int(two(w, a) < two(w, b)),
    "sle": lambda w, a, b: int(two(w, a) <= two(w, b)),
}
SHIFTS: dict[str, Callable[[int, int, int], int]] = {
    "shl": lambda w, a, n: a * 2**n % 2**w,
    "lshr": lambda w, a, n: a // 2**n,
    "ashr": lambda w, a, n: two(w, a) // 2**n % 2**w,
}
UNARY: dict[str, Callable[[int, int], int]] = {
    "not_": lambda w, a: 2**w - 1 - a,
    "ctlz": lambda w, a: len(digits(w, a)) - len(digits(w, a).lstrip("0")),
    "cttz": lambda w, a: len(digits(w, a)) - len(digits(w, a).rstrip("0")),
    "ctpop": lambda w, a: digits(w, a).count("1"),
    "bitreverse": lambda w, a: int(digits(w, a)[::-1], 2),
}
COMPARES = ("eq", "ne", "ult", "ule", "slt", "sle")


def numbers(w: int, seed: int) -> list[int]:
    """64 numbers: the ends of both ranges, neighbours of powers of two, anything."""
    random, top = Random(seed), (1 << w) - 1
    edges = [0, 1, 2, top, top - 1, top >> 1, (top >> 1) + 1, (top >> 1) + 2]
    edges += [(1 << random.randrange(w)) + random.randint(-1, 1) & top for _ in range(24)]
    return (edges + [random.getrandbits(w) for _ in range(32)])[:64]


def lanes(w: int, values: list[int]) -> Any:
    return np.array(values, UNSIGNED[w])


def shuffled(w: int, seed: int) -> list[int]:
    values = numbers(w, seed)
    Random(seed).shuffle(values)
    return values


@pytest.mark.parametrize("w", WIDTHS)
@pytest.mark.parametrize("name", BINARY)
def test_binary_operations(name: str, w: int) -> None:
    operation, expected = getattr(ALGEBRA, name), BINARY[name]
    for seed in range(4):
        a, b = numbers(w, seed), shuffled(w, seed + 10)
        if seed == 0:
            b = a[::-1]
        result = operation(w, lanes(w, a), lanes(w, b))
        assert width_of(result) == (1 if name in COMPARES else w)
        assert result.tolist() == [expected(w, x, y) for x, y in zip(a, b, strict=True)]
        assert [operation(w, x, y) for x, y in zip(a, b, strict=True)] == result.tolist()
        assert operation(w, a[5], lanes(w, b)).tolist() == [expected(w, a[5], y) for y in b]
        assert operation(w, lanes(w, a), b[5]).tolist() == [expected(w, x, b[5]) for x in a]
        assert type(operation(w, a[0], b[0])) is int


@pytest.mark.parametrize("w", WIDTHS)
@pytest.mark.parametrize("name", SHIFTS)
def test_shifts(name: str, w: int) -> None:
    operation, expected = getattr(ALGEBRA, name), SHIFTS[name]
    a, n = numbers(w, 3), [k % w for k in range(64)]
    result = operation(w, lanes(w, a), lanes(w, n))
    assert width_of(result) == w
    assert result.tolist() == [expected(w, x, y) for x, y in zip(a, n, strict=True)]
    assert [operation(w, x, y) for x, y in zip(a, n, strict=True)] == result.tolist()
    assert operation(w, lanes(w, a), w - 1).tolist() == [expected(w, x, w - 1) for x in a]


@pytest.mark.parametrize("w", WIDTHS)
@pytest.mark.parametrize("name", UNARY)
def test_unary_operations(name: str, w: int) -> None:
    operation, expected = getattr(ALGEBRA, name), UNARY[name]
    for seed in range(4):
        a = numbers(w, seed)
        result = operation(w, lanes(w, a))
        assert width_of(result) == w
        assert result.tolist() == [expected(w, x) for x in a] == [operation(w, x) for x in a]


@pytest.mark.parametrize("name", ["add", "sub", "mul", "and_", "or_", "xor", "eq", "ne"])
def test_bits_are_numbers_modulo_two(name: str) -> None:
    operation, expected = getattr(ALGEBRA, name), BINARY[name]
    a, b = [k & 1 for k in range(64)], [k >> 1 & 1 for k in range(64)]
    assert operation(1, lanes(1, a), lanes(1, b)).tolist() == [expected(1, x, y) for x, y in zip(a, b, strict=True)]
    assert operation(1, lanes(1, a), 1).tolist() == [expected(1, x, 1) for x in a]
    assert ALGEBRA.not_(1, lanes(1, a)).tolist() == [1 - x for x in a]
    assert ALGEBRA.ctpop(1, lanes(1, a)).tolist() == a


def test_selection_takes_scalars_on_any_place() -> None:
    c, a, b = lanes(1, [k & 1 for k in range(64)]), lanes(32, list(range(64))), lanes(32, list(range(100, 164)))
    assert ALGEBRA.select(32, c, a, b).tolist() == [k if k & 1 else 100 + k for k in range(64)]
    assert ALGEBRA.select(32, c, 7, b).tolist() == [7 if k & 1 else 100 + k for k in range(64)]
    assert ALGEBRA.select(32, c, a, 9).tolist() == [k if k & 1 else 9 for k in range(64)]
    assert ALGEBRA.select(16, c, 7, 9).tolist() == [7 if k & 1 else 9 for k in range(64)]
    assert ALGEBRA.select(16, c, 7, 9).dtype == np.uint16
    assert ALGEBRA.select(32, 1, a, 9) is a
    assert ALGEBRA.select(32, 0, a, 9) == 9
    assert a.tolist() == list(range(64))


@pytest.mark.parametrize("w", [1, *WIDTHS])
@pytest.mark.parametrize("to", [1, *WIDTHS])
def test_widths_change(w: int, to: int) -> None:
    a = [n & (1 << w) - 1 for n in numbers(w, 1)] if w > 1 else [k & 1 for k in range(64)]
    if to >= w:
        assert ALGEBRA.zext(to, w, lanes(w, a)).tolist() == a
        assert ALGEBRA.zext(to, w, a[3]) == a[3]
        extended = [two(w, x) % 2**to for x in a]
        assert ALGEBRA.sext(to, w, lanes(w, a)).tolist() == extended == [ALGEBRA.sext(to, w, x) for x in a]
        assert width_of(ALGEBRA.sext(to, w, lanes(w, a))) == width_of(ALGEBRA.zext(to, w, lanes(w, a))) == to
    else:
        cut = [x % 2**to for x in a]
        assert ALGEBRA.trunc(to, w, lanes(w, a)).tolist() == cut == [ALGEBRA.trunc(to, w, x) for x in a]
        assert width_of(ALGEBRA.trunc(to, w, lanes(w, a))) == to


@given(st.sampled_from(WIDTHS), st.integers(-(2**70), 2**70))
def test_constants_are_modulo_the_width(w: int, n: int) -> None:
    assert ALGEBRA.const(w, n) == n % 2**w
    assert signed(w, ALGEBRA.const(w, n)) == two(w, n % 2**w)


def test_operands_stay_as_they_are() -> None:
    a, b = lanes(32, numbers(32, 1)), lanes(32, numbers(32, 2))
    before = a.tolist(), b.tolist()
    for name in BINARY:
        getattr(ALGEBRA, name)(32, a, b)
    for name in UNARY:
        getattr(ALGEBRA, name)(32, a)
    assert (a.tolist(), b.tolist()) == before


def test_scalars_as_lanes_are_shared_and_read_only() -> None:
    assert lanes_of(32, 5) is lanes_of(32, 5)
    assert lanes_of(32, 5) is not lanes_of(64, 5)
    with pytest.raises(ValueError, match="read-only"):
        lanes_of(32, 5)[0] = 1
    for n in range(5000):  # more than are kept
        assert lanes_of(16, n)[63] == n


def test_some() -> None:
    assert not any_lane(np.zeros(64, np.bool_))
    assert any_lane(lanes(1, [0] * 63 + [1]))
