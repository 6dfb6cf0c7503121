"""Models of integer.cl and wide.cl: NumPy and Python integers, written from OpenCL C."""

import numpy as np

from tests.gcn_kernels.bench import In, Out, case

HARD32 = np.array(
    [
        0,
        1,
        -1,
        2,
        -2,
        7,
        -7,
        10,
        31,
        32,
        0x7FFFFFFF,
        -0x80000000,
        -0x7FFFFFFF,
        0xFFFF,
        -0x10000,
        0x55555555,
        0x0F0F0F0F,
    ],
    np.int64,
).astype(np.int32)
HARD64 = np.concatenate(
    [HARD32.astype(np.int64), np.array([1 << 40, -(1 << 40), (1 << 63) - 1, -(1 << 63), 1 << 32, 0xFFFFFFFF])]
)
N = 128


def ints(rng: np.random.Generator, n: int = N) -> np.ndarray:
    """Hard values, then random bits of random length."""
    values = rng.integers(-(1 << 31), 1 << 31, n, np.int64) >> rng.integers(0, 31, n)
    values[: min(n, 2 * len(HARD32))] = rng.choice(HARD32, min(n, 2 * len(HARD32)))
    return values.astype(np.int32)


def longs(rng: np.random.Generator, n: int = N) -> np.ndarray:
    values = rng.integers(-(1 << 63), (1 << 63) - 1, n, np.int64) >> rng.integers(0, 63, n)
    values[: 2 * len(HARD64)] = rng.choice(HARD64, 2 * len(HARD64))
    return values


def rows(*parts: object, dtype: type = np.int32) -> np.ndarray:
    """Results one behind the other, as the kernels store them; Python integers are cut to the type."""
    bits = np.dtype(dtype).itemsize * 8
    flat = [int(value) & (1 << bits) - 1 for part in parts for value in part]  # type: ignore[attr-defined]
    return np.array(flat, f"u{bits // 8}").view(dtype)


def each(f, *arrays):
    """A function of Python integers over arrays."""
    return [f(*(int(v) for v in values)) for values in zip(*arrays, strict=True)]


def quotient(a: int, b: int) -> int:
    """C's division."""
    q = abs(a) // abs(b)
    return q if (a < 0) == (b < 0) else -q


def remainder(a: int, b: int) -> int:
    return a - b * quotient(a, b)


def u32(a: int) -> int:
    return a & 0xFFFFFFFF


def s32(a: int) -> int:
    return (a & 0xFFFFFFFF ^ 0x80000000) - 0x80000000


def u64(a: int) -> int:
    return a & 0xFFFFFFFFFFFFFFFF


@case("integer.cl", N)
def int_arith(rng):
    a, b = ints(rng), ints(rng)
    out = rows(
        each(lambda x, y: x + y, a, b),
        each(lambda x, y: x - y, a, b),
        each(lambda x, y: x * y, a, b),
        each(lambda x, y: ~x ^ (y & 0xFF0), a, b),
        each(lambda x, y: -x | y, a, b),
    )
    return In(a), In(b), Out(out)


@case("integer.cl", N)
def int_divmod(rng):
    a, b = ints(rng), ints(rng)
    b[b == 0] = 3
    a[(a == -0x80000000) & (b == -1)] = 5
    signed = rows(
        each(quotient, a, b),
        each(remainder, a, b),
        each(lambda x: quotient(x, 7), a),
        each(lambda x: remainder(x, 1000), a),
    )
    unsigned = rows(
        each(lambda x, y: u32(x) // u32(y), a, b),
        each(lambda x, y: u32(x) % u32(y), a, b),
        each(lambda x: u32(x) // 10, a),
        dtype=np.uint32,
    )
    return In(a), In(b), Out(signed), Out(unsigned)


@case("integer.cl", N)
def int_shift(rng):
    a, b = ints(rng), ints(rng)
    out = rows(
        each(lambda x, s: x << (s & 31), a, b),
        each(lambda x, s: x >> (s & 31), a, b),
        each(lambda x, s: u32(x) >> (s & 31), a, b),
        each(lambda x, s: u32(x) << (s & 31) | u32(x) >> (-s & 31), a, b),
        each(lambda x: (x << 5) + (x >> 3), a),
    )
    return In(a), In(b), Out(out)


@case("integer.cl", N)
def int_bits(rng):
    a = ints(rng).view(np.uint32)
    zeros = [0] * N
    out = rows(
        each(lambda x: x.bit_count(), a),
        each(lambda x: 32 - x.bit_length(), a),
        each(lambda x: (x & -x).bit_length() - 1 if x else 32, a),
        each(lambda x: int(f"{x:032b}"[::-1], 2), a),
        zeros,
        zeros,
        each(lambda x: int.from_bytes(x.to_bytes(4, "little"), "big"), a),
        dtype=np.uint32,
    )
    return In(a), Out(out)


@case("integer.cl", N)
def int_minmax(rng):
    a, b = ints(rng), ints(rng)
    b[::5] = a[::5]
    flags = each(
        lambda x, y: (
            (x < y) + 2 * (u32(x) < u32(y)) + 4 * (x == y) + 8 * (x >= y) + 16 * (u32(x) >= u32(y)) + 32 * (x != 0)
        ),
        a,
        b,
    )
    out = rows(
        each(min, a, b),
        each(max, a, b),
        each(lambda x, y: min(u32(x), u32(y)), a, b),
        each(lambda x, y: max(u32(x), u32(y)), a, b),
        each(lambda x: min(max(x, -1000), 1000), a),
        each(abs, a),
        flags,
    )
    return In(a), In(b), Out(out)


@case("integer.cl", N)
def int_narrow(rng):
    a = rng.integers(-128, 128, N).astype(np.int8)
    b = rng.integers(-(1 << 15), 1 << 15, N).astype(np.int16)
    c = rows(each(lambda x, y: x * 3 + y, a, b), dtype=np.int8)
    s = rows(each(lambda x, y: y * x - (y >> 2), a, b), dtype=np.int16)
    u = rows(each(lambda x, y: (x & 255) // ((y & 7) + 1), a, b), dtype=np.uint8)
    w = rows(each(lambda x, y: ((y & 0xFFFF) >> (x & 7)) + (x & 255), a, b), dtype=np.uint16)
    return In(a), In(b), Out(c), Out(s), Out(u), Out(w)


@case("integer.cl", N)
def int_fields(rng):
    a, b = ints(rng).view(np.uint32), ints(rng).view(np.uint32)
    out = rows(
        each(lambda x: x >> 5 & 0x7FF, a),
        each(lambda x: s32(x << 11) >> 20, a),
        each(lambda x, y: x & 0x00FFFF00 | y & ~0x00FFFF00, a, b),
        each(lambda x, y: x << 8 | y >> 24, a, b),
        each(lambda x, y: (x & 0xFFFFFF) * (y & 0xFFFFFF) + 5, a, b),
        each(lambda x, y: (x & y | x ^ y) + (x << 3) + y, a, b),
        each(lambda x: sum(x.to_bytes(4, "little")), a),
        dtype=np.uint32,
    )
    return In(a), In(b), Out(out)


@case("integer.cl", N)
def int_mulhi(rng):
    a, b = ints(rng), ints(rng)
    return In(a), In(b), Out(rows(each(lambda x, y: x * y >> 32, a, b), each(lambda x, y: u32(x) * u32(y) >> 32, a, b)))


@case("integer.cl", N)
def int_chain(rng):
    def chain(x: int) -> int:
        for _ in range(9):
            x ^= u32(x << 13)
            x ^= x >> 17
            x ^= u32(x << 5)
            x = u32(x * 1664525 + 1013904223)
        return x

    a = ints(rng).view(np.uint32)
    return In(a), Out(rows(each(chain, a), dtype=np.uint32)), np.uint32(9)


@case("wide.cl", N)
def long_arith(rng):
    a, b = longs(rng), longs(rng)
    out = rows(
        each(lambda x, y: x + y, a, b),
        each(lambda x, y: x - y, a, b),
        each(lambda x, y: x * y, a, b),
        each(lambda x, y: (x & y) ^ ~(x | 0x5555), a, b),
        each(lambda x, y: -x + s32(y), a, b),
        dtype=np.int64,
    )
    return In(a), In(b), Out(out)


@case("wide.cl", N)
def long_divmod(rng):
    a, b = longs(rng), longs(rng)
    b[b == 0] = 3
    a[(a == -(1 << 63)) & (b == -1)] = 5
    signed = rows(each(quotient, a, b), each(remainder, a, b), dtype=np.int64)
    unsigned = rows(
        each(lambda x, y: u64(x) // u64(y), a, b), each(lambda x, y: u64(x) % u64(y), a, b), dtype=np.uint64
    )
    return In(a), In(b), Out(signed), Out(unsigned)


@case("wide.cl", N)
def long_shift(rng):
    a, b = longs(rng), ints(rng)
    out = rows(
        each(lambda x, s: x << (s & 63), a, b),
        each(lambda x, s: x >> (s & 63), a, b),
        each(lambda x, s: u64(x) >> (s & 63), a, b),
        each(lambda x: x << 33, a),
        each(lambda x, s: u64(x) << (s & 63) | u64(x) >> (-s & 63), a, b),
        dtype=np.int64,
    )
    return In(a), In(b), Out(out)


@case("wide.cl", N)
def long_compare(rng):
    a, b = longs(rng), longs(rng)
    b[::5] = a[::5]
    flags = each(lambda x, y: (x < y) | (u64(x) <= u64(y)) << 1 | (x == y) << 2 | (x >= 0) << 3 | (x != 0) << 4, a, b)
    out = rows(each(min, a, b), each(lambda x, y: max(u64(x), u64(y)), a, b), flags, each(abs, a), dtype=np.int64)
    return In(a), In(b), Out(out)


@case("wide.cl", N)
def long_mulhi(rng):
    a, b = longs(rng).view(np.uint64), longs(rng).view(np.uint64)
    return In(a), In(b), Out(rows(each(lambda x, y: x * y >> 64, a, b), dtype=np.uint64))


@case("wide.cl", N)
def long_hash(rng):
    def mixed(x: int) -> int:
        for _ in range(4):
            x = u64(x + 0x9E3779B97F4A7C15)
            x = u64((x ^ x >> 30) * 0xBF58476D1CE4E5B9)
            x = u64((x ^ x >> 27) * 0x94D049BB133111EB)
            x ^= x >> 31
        return x

    a = longs(rng).view(np.uint64)
    return In(a), Out(rows(each(mixed, a), dtype=np.uint64))
