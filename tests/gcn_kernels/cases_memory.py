"""Models of vectors.cl, private.cl, calls.cl and memory.cl."""

import numpy as np

from tests.gcn_kernels.bench import In, Out, case
from tests.gcn_kernels.cases_float import DOUBLE, SINGLE, floats, reals
from tests.gcn_kernels.cases_integer import N, each, ints, longs, rows, s32

PRIMES = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53)


def s16(a: int) -> int:
    return (a & 0xFFFF ^ 0x8000) - 0x8000


def s8(a: int) -> int:
    return (a & 0xFF ^ 0x80) - 0x80


@case("vectors.cl", N)
def vector_float4(rng):
    a, b = reals(rng, SINGLE, 4 * N).reshape(N, 4), reals(rng, SINGLE, 4 * N).reshape(N, 4)
    out = floats(a * SINGLE(1.75) + b, a[:, ::-1] - b[:, [0, 0, 2, 2]], np.hstack([a[:, :2], b[:, 2:]]))
    return In(a), In(b), Out(out), SINGLE(1.75)


@case("vectors.cl", N)
def vector_char4(rng):
    a, b = (rng.integers(0, 256, (N, 4)).astype(np.uint8) for _ in range(2))
    shifted = a >> np.array([1, 2, 3, 4], np.uint8) | b & 15
    return In(a), In(b), Out(floats(a + b, a * b[:, ::-1], shifted))


@case("vectors.cl", N)
def vector_short8(rng):
    a = rng.integers(-(1 << 15), 1 << 15, (N, 8)).astype(np.int16)
    return In(a), Out(floats(a[:, ::-1], a * a - np.int16(3), a >> 2))


@case("vectors.cl", N)
def vector_int3(rng):
    a = ints(rng, 3 * N).reshape(N, 3)
    return In(a), Out((a[:, [2, 0, 1]].astype(np.int64) * 3 + a).astype(np.int32))


@case("vectors.cl", N)
def vector_long2(rng):
    a, b = longs(rng, 2 * N).reshape(N, 2), longs(rng, 2 * N).reshape(N, 2)
    with np.errstate(over="ignore"):
        return In(a), In(b), Out(floats(a + b[:, ::-1], -(a < b).astype(np.int64)))


@case("vectors.cl", N)
def vector_dot(rng):
    a, b = reals(rng, SINGLE, 4 * N).reshape(N, 4), reals(rng, SINGLE, 4 * N).reshape(N, 4)
    p = a * b
    return In(a), In(b), Out((p[:, 0] + p[:, 1]) + (p[:, 2] + p[:, 3]))


@case("private.cl", N)
def private_index(rng):
    def model(a: int) -> int:
        table = [a * k + k for k in range(16)]
        s = 0
        for k in range(8):
            s = s * 3 + table[a + k * 5 & 15]
        return s

    a = ints(rng)
    return In(a), Out(rows(each(model, a)))


@case("private.cl", 64)
def private_sort(rng):
    a = ints(rng, 64 * 8).reshape(64, 8)
    return In(a), Out(np.sort(a, axis=1))


@case("private.cl", 64)
def private_bytes(rng):
    def model(a: int) -> int:
        seen = [a + k * 7 & 255 for k in range(64)]
        twice = [seen[a + k & 63] * 300 & 0xFFFF for k in range(16)]
        s = 0
        for k in range(16):
            s = s * 5 + s16(twice[a * k & 15]) + s8(seen[twice[k] & 63])
        return s

    a = rng.integers(0, 256, 64).astype(np.uint8)
    return In(a), Out(rows(each(model, a), dtype=np.uint32))


@case("private.cl", N)
def private_double(rng):
    a = reals(rng, DOUBLE)
    at = np.abs(a).astype(np.int64)
    return In(a), Out(a * (at % 12) + a * ((at + 5) % 12))


def poly(x: int, y: int) -> int:
    return x * x * 3 - y * 7 + 1


@case("calls.cl", N)
def call_nested(rng):
    a, b = ints(rng), ints(rng)
    return In(a), In(b), Out(rows(each(lambda x, y: poly(x, y) + poly(y, x) * 2 if x > y else poly(y, x), a, b)))


@case("calls.cl", N)
def call_struct(rng):
    a, b = ints(rng), ints(rng)
    return In(a), In(b), Out(rows(each(min, a, b), each(max, a, b), each(lambda x: (x & 255) * 2, a)))


@case("calls.cl", N)
def call_many(rng):
    def model(x: int) -> int:
        wide = 5 * (x << 20) + 6 * x * x + ((x & 31) * 7 + (x & 15) * 8)
        narrow = s32(x + 2 * (x + 1) + 3 * (x + 2) + 4 * (x + 3))
        scalars = x - (x ^ 5) + 3 - 4 + x - 6
        vectors = x - (x + 3) + (x + 2) + (x + 2) * 2 + x * 3
        return narrow + wide + scalars + vectors + (x & 7)

    a = rng.integers(-1_000_000, 1_000_000, N).astype(np.int32)
    return In(a), Out(rows(each(model, a), dtype=np.int64))


@case("calls.cl", N)
def call_pointer(rng):
    a = ints(rng)
    out = rows(*([[int(x) + k * k for k in range(5, -1, -1)] for x in a]))
    return In(a), Out(out)


ITEM = np.dtype(
    {
        "names": ["tag", "level", "weight", "value"],
        "formats": ["u1", "i2", "i4", "f8"],
        "offsets": [0, 2, 4, 8],
        "itemsize": 16,
    }
)


@case("memory.cl", N)
def memory_structs(rng):
    items = np.zeros(N, ITEM)
    items["tag"] = rng.integers(0, 256, N)
    items["level"] = rng.integers(-(1 << 15), 1 << 15, N)
    items["weight"] = ints(rng)
    items["value"] = reals(rng, DOUBLE)
    out = items.copy()
    out["tag"] += 1
    out["level"] *= 2
    out["weight"] -= out["tag"]
    out["value"] += out["level"]
    return In(items), Out(out)


@case("memory.cl", N)
def memory_constant(rng):
    a, table = ints(rng).view(np.uint32), rng.integers(-1000, 1000, 8).astype(np.int32)
    out = each(lambda x: PRIMES[x & 15] * 1000 + int(table[x >> 4 & 7]) + int(table[3]), a)
    return In(a), Out(rows(out)), In(table)


@case("memory.cl", N)
def memory_narrow(rng):
    c = rng.integers(-128, 128, N).astype(np.int8)
    u = rng.integers(0, 256, 2 * N).astype(np.uint8)
    s = rng.integers(-(1 << 15), 1 << 15, N).astype(np.int16)
    w = rng.integers(0, 1 << 16, 256).astype(np.uint16)
    i = np.arange(N)
    wide = [v.astype(np.int64) for v in (c, u[2 * i], s[i ^ 1], w[255 - i])]
    return In(c), In(u), In(s), In(w), Out((wide[0] << 24) + (wide[1] << 16) - wide[2] + wide[3])


@case("memory.cl", N)
def memory_strided(rng):
    stride = 5
    a = reals(rng, SINGLE, N * stride + 32)
    sums = np.zeros(N, SINGLE)
    for k in range(8):
        sums += a[np.arange(N) * stride + k * 3]
    initial = np.arange(2 * N, dtype=SINGLE)
    out = initial.copy()
    out[1::2] = sums
    return In(a), Out(out, initial=initial), np.uint32(stride)


@case("memory.cl", N)
def memory_copy16(rng):
    a = ints(rng, 4 * N).reshape(N, 4)
    return In(a), Out(np.roll(a, -37, axis=0)), np.uint32(37)


@case("memory.cl", N)
def memory_gather(rng):
    index = rng.permutation(N).astype(np.uint32)
    a = longs(rng).view(np.uint64)
    out = np.zeros(N, np.uint64)
    out[index] = a[index[index]]
    return In(index), In(a), Out(out)


@case("memory.cl", N, portable=False)
def memory_generic(rng):
    a = ints(rng)

    def model(i: int) -> int:
        k = i * 7 & 15
        value = (int(a[(i & 31) + k]), int(a[k]) * 100, int(a[i]) - k)[i % 3]
        return value * 2 + 1

    return In(a), Out(rows([model(i) for i in range(N)]))
