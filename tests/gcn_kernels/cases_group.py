"""Models of lds.cl, atomics.cl, geometry.cl and lanes.cl."""

import numpy as np

from tests.gcn_kernels.bench import In, Local, Out, case
from tests.gcn_kernels.cases_float import SINGLE, reals
from tests.gcn_kernels.cases_integer import each, ints, longs, rows, s32, u64

MASK32 = 0xFFFFFFFF


@case("lds.cl", 512, 256)
def lds_reverse(rng):
    a = ints(rng, 512)
    return In(a), Out(a.reshape(2, 256)[:, ::-1].reshape(-1).copy())


@case("lds.cl", 512, 256)
def lds_reduce(rng):
    a = reals(rng, SINGLE, 512)
    s = a.reshape(2, 256).copy()
    while s.shape[1] > 1:
        s = s[:, : s.shape[1] // 2] + s[:, s.shape[1] // 2 :]
    return In(a), Out(s[:, 0].copy())


@case("lds.cl", 256, 128)
def lds_scan(rng):
    a = ints(rng, 256).view(np.uint32)
    return In(a), Out(np.cumsum(a.reshape(2, 128), axis=1, dtype=np.uint32).reshape(-1))


@case("lds.cl", (32, 16), (16, 16))
def lds_transpose(rng):
    width = 32
    a = reals(rng, SINGLE, 32 * 32).reshape(32, 32)
    out = np.zeros((32, 32), SINGLE)
    out[:, :16] = a[:16].T
    return In(a), Out(out, initial=np.zeros((32, 32), SINGLE)), np.uint32(width)


@case("lds.cl", (32, 16), (16, 16))
def lds_matmul(rng):
    # Small whole numbers: every order of adding them gives the same.
    a, b = (rng.integers(-20, 20, (32, 32)).astype(SINGLE) for _ in range(2))
    out = np.zeros((32, 32), SINGLE)
    out[:16] = (a @ b)[:16]
    return In(a), In(b), Out(out, initial=np.zeros((32, 32), SINGLE)), np.uint32(32)


@case("lds.cl", 128, 64)
def lds_dynamic(rng):
    a = rng.integers(-1000, 1000, 128).astype(np.int32)
    lanes = np.arange(64)
    out = np.concatenate([part[(lanes * 5 + 3) & 63] * 256 + (63 - lanes) for part in a.reshape(2, 64)])
    return In(a), Out(out.astype(np.int32)), Local(256), Local(64)


@case("lds.cl", 128, 64)
def lds_widths(rng):
    a = longs(rng, 128).view(np.uint64)

    def model(lane: int, x: int) -> int:
        byte, short = (x >> 8 & 0xFF ^ 0x80) - 0x80, (x >> 16 & 0xFFFF ^ 0x8000) - 0x8000
        return u64(x + ((x & 0xFFFF) << 1) + byte + short + 6 * lane)

    out = [model(63 - i % 64, int(a[i // 64 * 64 + 63 - i % 64])) for i in range(128)]
    return In(a), Out(np.array(out, np.uint64))


@case("atomics.cl", 256, portable=False)
def atomic_add32(rng):
    a = np.full(256, 3, np.int32)
    sums = np.array([1, 2, 3, 4, 1000], np.int32)
    # Every order gives each lane a number of its own.
    after = np.array([1 + 192, 2 + 192, 3 + 192, 4 + 192, 1000 - 768], np.int32)
    return Out(after, initial=sums), In(a), Sorted([s + 3 * k for k in range(64) for s in (1, 2, 3, 4)])


def Sorted(values):  # noqa: N802
    """A buffer whose values come in any order."""
    return Out(np.sort(np.array(values, np.int32)), any_order=True)


@case("atomics.cl", 256, portable=False)
def atomic_minmax32(rng):
    a = ints(rng, 256)
    u = a.view(np.uint32)
    signed, unsigned = np.array([5, 5], np.int32), np.array([5, 5], np.uint32)
    return (
        Out(np.array([min(5, a.min()), max(5, a.max())], np.int32), initial=signed),
        Out(np.array([min(5, u.min()), max(5, u.max())], np.uint32), initial=unsigned),
        In(a),
    )


@case("atomics.cl", 256, portable=False)
def atomic_bits32(rng):
    a = ints(rng, 256).view(np.uint32)
    start = np.array([MASK32, 0x100, 0x12345678], np.uint32)
    after = [
        int(np.bitwise_and.reduce(a | 0xF0F)),
        0x100 | int(np.bitwise_or.reduce(a & 0xFF00FF)),
        0x12345678 ^ int(np.bitwise_xor.reduce(a)),
    ]
    return Out(np.array(after, np.uint32), initial=start), In(a)


@case("atomics.cl", 64, portable=False)
def atomic_swap32(rng):
    # 16 words, four lanes each: what the lanes got and what is left are all numbers together. Lanes go in order.
    start = np.zeros(16, np.uint32)
    got = np.array([max(0, i - 16 + 1) for i in range(64)], np.uint32)
    return Out(np.arange(49, 65).astype(np.uint32), initial=start), Out(got)


@case("atomics.cl", 256, portable=False)
def atomic_cas32(rng):
    a = rng.integers(-50, 50, 256).astype(SINGLE)
    return Out(np.array([a.sum()], SINGLE), initial=np.zeros(1, SINGLE)), In(a)


@case("atomics.cl", 256, portable=False)
def atomic_add64(rng):
    a = longs(rng, 256)
    values = [int(v) for v in a]
    mixed = u64(int(np.bitwise_xor.reduce(a)))
    ored = u64(int(np.bitwise_or.reduce(a & 0x00FF00FF00FF00FF)))
    u = np.array([u64(sum(values[0::2])), u64(sum(values[1::2])), mixed, ored], np.uint64)
    return (
        Out(u, initial=np.zeros(4, np.uint64)),
        Out(np.array([min(0, *values), max(0, *values)]), initial=np.zeros(2, np.int64)),
        In(a),
    )


@case("atomics.cl", 128, portable=False)
def atomic_cas64(rng):
    a = longs(rng, 128).view(np.uint64)
    return Out(np.array([np.bitwise_xor.reduce(a)], np.uint64), initial=np.zeros(1, np.uint64)), In(a)


@case("atomics.cl", 256, 128, portable=False)
def atomic_lds32(rng):
    a = ints(rng, 256).view(np.uint32)
    parts = []
    for part in a.reshape(2, 128):
        parts += [*np.bincount(part & 15, minlength=16), int(part.view(np.int32).min()), int(part.view(np.int32).max())]
    return In(a), Out(rows(parts, dtype=np.uint32))


@case("atomics.cl", 256, 128, portable=False)
def atomic_lds64(rng):
    a = longs(rng, 256).view(np.uint64)
    parts = []
    for part in a.reshape(2, 128):
        parts += [sum(int(v) for v in part), int(np.bitwise_xor.reduce(part)), int(part.min()), int(part.max())]
    return In(a), Out(rows(parts, dtype=np.uint64))


@case("atomics.cl", 256, 128, portable=False)
def atomic_ticket(rng):
    return Out(np.array([256], np.uint32), initial=np.zeros(1, np.uint32)), Out((np.arange(256) ** 2).astype(np.uint32))


def identity(grid, group):
    """What geometry_ids stores, z slowest."""
    z, y, x = np.meshgrid(*(np.arange(n) for n in grid[::-1]), indexing="ij")
    gx, gy, gz = group
    out = x % gx | y % gy << 5 | z % gz << 10 | x // gx << 15 | y // gy << 20 | z // gz << 25
    return out.astype(np.uint32)


@case("geometry.cl", (20, 9, 5), (8, 4, 2))
def geometry_ids(rng):
    return (Out(identity((20, 9, 5), (8, 4, 2))),)


@case("geometry.cl", (24, 6), (8, 2))
def geometry_sizes(rng):
    return (Out(np.full((6, 24), 24 | 6 << 8 | 1 << 16 | 8 << 24, np.uint32)),)


@case("lanes.cl", 128, portable=False)
def lane_permute(rng):
    a = ints(rng, 128)
    lanes = np.arange(64)
    parts = [[] for _ in range(7)]
    for part in a.reshape(2, 64):
        shifted = np.roll(part, 1)
        shifted[lanes % 16 == 0] = -1
        for row, values in zip(
            parts,
            (
                part[(lanes * 5 + 1) & 63],
                part[lanes ^ 1],
                np.full(64, part[5]),
                np.full(64, part[0]),
                part[lanes ^ 7],
                shifted,
                part[lanes ^ 3],
            ),
            strict=True,
        ):
            row.extend(values)
    return In(a), Out(rows(*parts))


@case("lanes.cl", 128, portable=False)
def lane_masks(rng):
    a = ints(rng, 128)
    greater, counts, masks = [], [], []
    for part in a.reshape(2, 64):
        bits = sum(1 << k for k in range(64) if part[k] > 10)
        odd = sum(1 << k for k in range(64) if part[k] & 1)
        greater += [bits] * 64
        counts += [3 + k for k in range(64)]
        even = sum(1 << k for k in range(64) if not part[k] & 1 and part[k] < 0)
        masks += [odd if v & 1 else even for v in part]
    return In(a), Out(rows(greater, counts, masks, dtype=np.uint64))


@case("lanes.cl", 128, portable=False)
def lane_special(rng):
    a, b = ints(rng, 128).view(np.uint32), ints(rng, 128).view(np.uint32)

    def octets(x: int) -> list[int]:
        return list(x.to_bytes(4, "little"))

    def sad(x: int, y: int) -> int:
        return 7 + sum(abs(p - q) for p, q in zip(octets(x), octets(y), strict=True))

    def masked_sad(x: int, y: int) -> int:
        return 1 + sum(abs(p - q) for p, q in zip(octets(x), octets(y), strict=True) if q)

    def lerp(x: int, y: int) -> int:
        return int.from_bytes(bytes((p + q + 1) >> 1 for p, q in zip(octets(x), octets(y), strict=True)), "little")

    def field(x: int, y: int) -> int:
        return x >> (y & 15) & 0x1FF

    def perm(x: int, y: int) -> int:
        return x >> 24 << 24 | (y >> 16 & 255) << 16 | y & 255

    out = rows(
        each(sad, a, b),
        each(field, a, b),
        each(lambda x, y: (field(x, y) ^ 0x100) - 0x100, a, b),
        each(lambda x, y: (x << 32 | y) >> 24 & MASK32, a, b),
        each(lerp, a, b),
        each(masked_sad, a, b),
        each(perm, a, b),
        dtype=np.uint32,
    )
    return In(a), In(b), Out(out)


@case("lanes.cl", 128, portable=False)
def lane_reduce(rng):
    a = ints(rng, 128)
    sums = a.reshape(-1, 32).astype(np.int64).sum(axis=1)
    return In(a), Out(rows(np.repeat([s32(int(v)) for v in sums], 32)))
