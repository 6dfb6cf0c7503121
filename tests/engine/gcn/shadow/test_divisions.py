"""Divisions of integers that survive a reciprocal that is a unit in the last place off, and those reported."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from softcard.host.hsa.compile import compilers
from softcard.hsa import Gpu

Integers = npt.NDArray[np.int64]
Singles = npt.NDArray[np.float32]
ULPS = (-1, 0, 1)
BITS_24 = 1 << 24
SAFE = BITS_24 // 3
"""Dividends below this have the same quotient for every reciprocal within a unit in the last place."""


def reciprocal(divisor: Singles, ulps: int) -> Singles:
    """The nearest one, or its neighbour where that is within a unit of the exact one."""
    nearest = (np.float32(1) / divisor).astype(np.float32)
    if not ulps:
        return nearest
    exact = nearest.astype(np.float64) * divisor.astype(np.float64)  # 48 bits: no rounding
    near = exact < 1 if ulps > 0 else exact > 1
    return np.where(near, np.nextafter(nearest, np.float32(np.inf if ulps > 0 else 0)), nearest)


def by_float(a: Integers, b: Integers, ulps: int) -> Integers:
    """The quotient as compilers write it out for up to 24 bits."""
    x, y = a.astype(np.float32), b.astype(np.float32)
    quotient = np.trunc(x * reciprocal(y, ulps))
    rest = (x.astype(np.float64) - quotient.astype(np.float64) * y).astype(np.float32)
    return quotient.astype(np.int64) + (np.abs(rest) >= y)


def by_32_bits(a: Integers, b: Integers, ulps: int) -> Integers:
    """Divide 32 bits by a step of Newton's and two corrections, in integers."""
    low = (1 << 32) - 1
    z = np.trunc(reciprocal(b.astype(np.float32), ulps) * np.array(0x4F7FFFFE, np.uint32).view(np.float32))
    estimate = np.minimum(z.astype(np.float64), low).astype(np.uint64)
    wide_b, wide_a = b.astype(np.uint64), a.astype(np.uint64)
    estimate += estimate * (estimate * (np.uint64(0) - wide_b) & np.uint64(low)) >> np.uint64(32)
    quotient = wide_a * (estimate & np.uint64(low)) >> np.uint64(32)
    rest = wide_a - quotient * wide_b
    for _ in range(2):
        more = rest >= wide_b
        quotient, rest = quotient + more, np.where(more, rest - wide_b, rest)
    return quotient.astype(np.int64)


def by_64_bits(a: int, b: int, ulps: int) -> int:
    """Divide 64 bits by two steps and two corrections, in integers."""
    low = (1 << 64) - 1
    high, rest = np.float32(b >> 32), np.float32(b & 0xFFFFFFFF)
    divisor = np.float32(float(high) * 2.0**32 + float(rest))
    scaled = reciprocal(np.array([divisor], np.float32), ulps)[0] * np.array(0x5F7FFFFC, np.uint32).view(np.float32)
    upper = np.trunc(scaled * np.float32(2.0**-32))
    lower = max(0, int(np.float32(float(scaled) - float(upper) * 2.0**32)))
    estimate = (int(upper) << 32) + lower
    for _ in range(2):
        estimate = (estimate + (estimate * (-b * estimate & low) >> 64)) & low
    quotient = a * estimate >> 64
    for _ in range(2):
        quotient += a - quotient * b >= b
    return quotient


def multiples(top: int, count: int, step: int) -> tuple[Integers, Integers]:
    """Dividends right below the largest multiples of divisors, where a quotient becomes too large first."""
    divisors = np.arange(1, top, step, dtype=np.int64)
    found = [(top // divisors - k) * divisors - 1 for k in range(count)]
    a, b = np.concatenate(found), np.tile(divisors, count)
    return a[a >= 0], b[a >= 0]


def test_24_bits_are_exact_for_dividends_below_a_third() -> None:
    """A quotient k is reached too early by a * b' >= k with b' <= (1 + 2**-23) / b, once rounded: a >= 2**24 / 3."""
    a, b = multiples(SAFE, 3, 23)
    for ulps in ULPS:
        assert np.array_equal(by_float(a, b, ulps), a // b)
    a, b = multiples(BITS_24, 1, 23)
    assert (by_float(a, b, -1) == a // b).all()
    assert (by_float(a, b, 1) != a // b).any()


def test_32_bits_are_exact() -> None:
    generator = np.random.default_rng(1)
    a, b = (generator.integers(0, 1 << 32, 200_000) >> generator.integers(0, 32, 200_000) for _ in range(2))
    b = np.maximum(b, 1)
    edges = np.array([1, 2, 3, 5, 0xFFFF, 0x10001, 0xFFFFFF, 0x1000001, 0x7FFFFFFF, 0x80000001, 0xFFFFFFFE, 0xFFFFFFFF])
    a = np.concatenate([a, np.repeat(edges, len(edges)), (0xFFFFFFFF // b) * b - 1])
    b = np.concatenate([b, np.tile(edges, len(edges)), b])
    for ulps in ULPS:
        assert np.array_equal(by_32_bits(a, b, ulps), a // b)


def test_64_bits_are_exact() -> None:
    generator = np.random.default_rng(2)
    for _ in range(3000):
        a, b = (int(generator.integers(1 << 62, 1 << 63)) * 2 >> int(generator.integers(0, 63)) for _ in range(2))
        near = max(0, (((1 << 64) - 1) // b) * b - 1)
        for ulps in ULPS:
            assert by_64_bits(a, b, ulps) == a // b
            assert by_64_bits(near, b, ulps) == near // b


SOURCE = """
#define DIVIDES(name, type, x, y) \\
    kernel void name(global const uint *a, global const uint *b, global uint *taken) \\
    { \\
        int i = get_global_id(0); \\
        type q = (type)(x) / (type)(y); \\
        taken[(uint)q & 63] = 1; \\
    }
DIVIDES(bits_24, uint, a[i] & 0xffffff, b[i] & 0xffffff)
DIVIDES(signed_24, int, (int)(a[i] << 8) >> 8, (int)(b[i] << 8) >> 8)
DIVIDES(bits_16, uint, (ushort)a[i], (ushort)b[i])
DIVIDES(bits_32, uint, a[i] << 4, b[i])
DIVIDES(bits_64, ulong, (ulong)a[i] << 30, ((ulong)b[i] << 9) + 1)
"""
DIVIDENDS = np.array([0xBF2758, 0xE3170D, 0xFFFFFF, 7407498, 6600658, 5592404, 6, 100, 0xBF2759, 12_000_000], np.uint32)
DIVISORS = np.array([0xBF2759, 0xC32, 0xFFFFFE, 7407499, 507743, 3, 3, 7, 0xBF2759, 1000], np.uint32)


@pytest.mark.slow
@pytest.mark.oracle
def test_quotients_that_depend_on_the_reciprocal_are_reported() -> None:
    """In exactly these lanes, by both engines; the other divisions of the compiler are silent for the same numbers."""
    if not compilers():
        pytest.skip("no compiler for OpenCL C is installed")
    a, b = np.full(64, 1, np.uint32), np.full(64, 1, np.uint32)
    a[: len(DIVIDENDS)], b[: len(DIVISORS)] = DIVIDENDS, DIVISORS
    quotients = [by_float(a.astype(np.int64), b.astype(np.int64), ulps) for ulps in ULPS]
    differ = tuple(np.flatnonzero((quotients[2] != quotients[0]) | (quotients[0] != a // b)).tolist())
    assert 0 in differ
    assert not {5, 6, 7, 8, 9} & set(differ)
    for engine in ("jit", "reference"):
        with Gpu.open("gfx900", check="fidelity", engine=engine, threads=1) as gpu:
            code = gpu.compile(SOURCE)
            for name in ("bits_16", "bits_32", "bits_64"):
                gpu.run(code, name, 64, 64, [a, b | 1 if name == "bits_16" else b, np.zeros(64, np.uint32)])
                assert gpu.findings == []
            gpu.run(code, "bits_24", 64, 64, [a, b, np.zeros(64, np.uint32)])
            quotient = {each.name: each for each in gpu.findings}["fidelity/approximate-quotient"]
            assert quotient.lanes == differ
            assert (
                "an approximate value decides the quotient of an integer division: it comes from v_rcp_"
                in quotient.message
            )
            assert "hardware may give a quotient that is one too large" in quotient.suggestion
