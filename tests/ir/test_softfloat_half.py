"""Binary16 and scaling in engine.floats against NumPy, which shares nothing with it."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import numpy as np
import pytest

from softcard.ir import softfloat
from softcard.ir.softfloat import CANONICAL_NAN, RDN, RNE, RTZ, RUP

HALVES = np.arange(1 << 16, dtype=np.uint16)
HARD = [
    0,
    1,
    2,
    0x3FE,
    0x3FF,
    0x400,
    0x401,
    0x7FF,
    0x3BFF,
    0x3C00,
    0x3C01,
    0x3E00,
    0x6400,
    0x7BFE,
    0x7BFF,
    0x7C00,
    0x7C01,
]
HARD += [0x7E00, 0x7FFF]
HARD += [bits | 0x8000 for bits in HARD]


def half(value: np.ndarray) -> list[int]:
    """Patterns with canonical NaNs."""
    rounded = value.astype(np.float16)
    return np.where(np.isnan(rounded), np.uint16(CANONICAL_NAN["h"]), rounded.view(np.uint16)).tolist()


def test_every_half_as_a_single() -> None:
    with np.errstate(all="ignore"):
        wide = HALVES.view(np.float16).astype(np.float32)
        expected = np.where(np.isnan(wide), np.uint32(CANONICAL_NAN["s"]), wide.view(np.uint32)).tolist()
    assert [softfloat.convert("s", "h", bits, RNE)[0] for bits in range(1 << 16)] == expected


def test_singles_as_halves() -> None:
    random = Random(1)
    singles = [random.getrandbits(32) for _ in range(2000)]
    singles += [softfloat.convert("s", "h", bits, RNE)[0] + random.randint(-2, 2) & 0xFFFF_FFFF for bits in HARD * 20]
    # Half of the last place of a half, and its neighbours.
    singles += [0x3F80_0000 + (k << 12) + d for k in range(64) for d in (-1, 0, 1)]
    with np.errstate(all="ignore"):
        expected = half(np.array(singles, np.uint32).view(np.float32))
    assert [softfloat.convert("h", "s", bits, RNE)[0] for bits in singles] == expected


OPERATIONS: dict[str, Callable[..., np.ndarray]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_arithmetic_of_halves(name: str) -> None:
    """Binary64 has more than twice the bits of binary16, so that rounding through it rounds once."""
    random = Random(name)
    a = [*[x for x in HARD for _ in HARD], *(random.getrandbits(16) for _ in range(2000))]
    b = [*[y for _ in HARD for y in HARD], *(random.getrandbits(16) for _ in range(2000))]
    with np.errstate(all="ignore"):
        x, y = (np.array(v, np.uint16).view(np.float16).astype(np.float64) for v in (a, b))
        expected = half(OPERATIONS[name](x, y))
    assert [getattr(softfloat, name)("h", *values, RNE)[0] for values in zip(a, b, strict=True)] == expected


def test_roots_of_halves() -> None:
    with np.errstate(all="ignore"):
        expected = half(np.sqrt(HALVES.view(np.float16).astype(np.float64)))
    assert [softfloat.sqrt("h", bits, RNE)[0] for bits in range(1 << 16)] == expected


@pytest.mark.parametrize(("fmt", "dtype", "word"), [("s", np.float32, np.uint32), ("d", np.float64, np.uint64)])
def test_scaling_to_nearest(fmt: str, dtype: type, word: type) -> None:
    random = Random(fmt)
    width = np.dtype(word).itemsize * 8
    a = [random.getrandbits(width) for _ in range(3000)]
    n = [random.choice((0, 1, -1, random.randint(-300, 300), random.randint(-2300, 2300))) for _ in a]
    with np.errstate(all="ignore"):
        scaled = np.ldexp(np.array(a, word).view(dtype), n)
        expected = np.where(np.isnan(scaled), word(CANONICAL_NAN[fmt]), scaled.view(word)).tolist()
    assert [softfloat.scale(fmt, x, k, RNE)[0] for x, k in zip(a, n, strict=True)] == expected


@pytest.mark.parametrize(("rounding", "expected"), [(RNE, 0x0000), (RTZ, 0x0000), (RUP, 0x0001), (RDN, 0x0000)])
def test_scaling_far_below_the_smallest_number(rounding: int, expected: int) -> None:
    for n in (-40, -1000, -(2**31)):
        assert softfloat.scale("h", 0x3C00, n, rounding)[0] == expected


def test_scaling_of_what_has_no_exponent() -> None:
    assert softfloat.scale("h", 0x8000, 100, RNE) == (0x8000, 0)
    assert softfloat.scale("h", 0xFC00, -100, RNE) == (0xFC00, 0)
    assert softfloat.scale("h", 0x7C01, 1, RNE) == (0x7E00, softfloat.NV)
    assert softfloat.scale("h", 0x3C00, 2**31 - 1, RNE) == (0x7C00, softfloat.OF | softfloat.NX)
