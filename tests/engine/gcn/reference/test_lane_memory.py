"""Loads, stores and atomics of lanes: global, LDS, GDS, private and flat."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest

from softcard.core.errors import AccessFault, ModelBug
from softcard.core.space import Unit
from softcard.engine.gcn.reference.lane_atomic import KINDS
from softcard.engine.gcn.reference.lane_memory import bits_of, mask_of
from softcard.isa.gcn.state import FULL
from tests.engine.gcn.rig import DATA, DATA_BYTES, LDS_BYTES, PRIVATE, PRIVATE_BYTES, SCRATCH, SHARED, Rig

LANES = range(64)
SIZES = (8, 16, 32, 64, 96, 128)


def addresses(values: list[int]) -> Any:
    return np.array(values, np.uint64)


def offsets(values: list[int]) -> Any:
    return np.array(values, np.uint32)


def lanes32(values: list[int]) -> Any:
    return np.array(values, np.uint32)


def filled(rig: Rig) -> bytes:
    """Data that differs everywhere."""
    rig.data[:] = np.frombuffer(Random(1).randbytes(DATA_BYTES), np.uint8)
    return rig.data.tobytes()


def dwords(data: bytes, at: int, bits: int) -> list[int]:
    """What a load of `bits` at an offset gives."""
    if bits < 32:
        return [int.from_bytes(data[at : at + bits // 8], "little")]
    return [int.from_bytes(data[at + k : at + k + 4], "little") for k in range(0, bits // 8, 4)]


PATTERNS = {
    "contiguous": [16 * n for n in LANES],
    "uniform": [32] * 64,
    "scattered": [Random(2).randrange(0, 4000) * 4 for _ in LANES],
    "unaligned": [17 * n + 1 for n in LANES],
}


@pytest.mark.parametrize("bits", SIZES)
@pytest.mark.parametrize("kind", PATTERNS)
@pytest.mark.parametrize("exec_", [FULL, 0x8000_0000_0000_0001, 0xF0F0_0000_1234_5678, 0])
def test_loads(kind: str, bits: int, exec_: int) -> None:
    rig = Rig(exec_)
    data, at = filled(rig), PATTERNS[kind]
    for space in ("global", "flat"):
        got = rig.o.load(space, bits, addresses([DATA + a for a in at]))
        assert len(got) == max(bits // 32, 1)
        assert all(g.dtype == np.uint32 for g in got)
        for lane in (n for n in LANES if exec_ >> n & 1):
            assert [int(g[lane]) for g in got] == dwords(data, at[lane], bits)


@pytest.mark.parametrize("bits", SIZES)
@pytest.mark.parametrize("kind", ["contiguous", "unaligned"])
@pytest.mark.parametrize("exec_", [FULL, 0xF0F0_0000_1234_5678])
def test_stores(kind: str, bits: int, exec_: int) -> None:
    rig = Rig(exec_)
    expected, at = bytearray(filled(rig)), PATTERNS[kind]
    random = Random(bits)
    values = [[random.getrandbits(32) for _ in LANES] for _ in range(max(bits // 32, 1))]
    rig.o.store("global", bits, addresses([DATA + a for a in at]), [lanes32(v) for v in values])
    for lane in (n for n in LANES if exec_ >> n & 1):
        row = b"".join(v[lane].to_bytes(4, "little") for v in values)[: bits // 8]
        expected[at[lane] : at[lane] + len(row)] = row
    assert rig.data.tobytes() == bytes(expected)


def test_where_narrows_exec() -> None:
    rig = Rig(0xFF)
    where = np.array([n % 2 == 0 for n in LANES])
    rig.o.store("global", 32, addresses([DATA + 4 * n for n in LANES]), [7], where)
    assert rig.data[:64].view(np.uint32).tolist() == [7, 0] * 4 + [0] * 8
    rig.o.store("global", 32, addresses([DATA + 4 * n for n in LANES]), [9], 0)
    assert rig.data[:4].view(np.uint32).tolist() == [7]


def test_the_highest_lane_wins() -> None:
    rig = Rig(0xFFFF)
    rig.o.store(
        "global",
        64,
        addresses([DATA + 4 * (n // 2) for n in LANES]),
        [lanes32(list(LANES)), lanes32([100 + n for n in LANES])],
    )
    assert rig.data[:36].view(np.uint32).tolist() == [1, 3, 5, 7, 9, 11, 13, 15, 115]


def test_scalar_addresses_are_the_same_for_all_lanes() -> None:
    rig = Rig()
    filled(rig)
    (value,) = rig.o.load("global", 32, DATA + 8)
    assert value.tolist() == rig.data[8:12].view(np.uint32).tolist() * 64


def test_lanes_may_reach_several_mappings() -> None:
    rig = Rig()
    other = np.arange(64, dtype=np.uint32)
    rig.memory.map(0x90_0000, other.view(np.uint8))
    at = [DATA + 4 * n if n & 1 else 0x90_0000 + 4 * n for n in LANES]
    assert rig.o.load("global", 32, addresses(at))[0].tolist() == [0 if n & 1 else n for n in LANES]
    rig.o.store("global", 32, addresses(at), [5])
    assert other.tolist() == [n if n & 1 else 5 for n in LANES]
    assert rig.data[4:8].view(np.uint32).tolist() == [5]


def test_a_fault_names_the_first_lane() -> None:
    rig = Rig(FULL & ~1)
    at = [DATA + 4 * n for n in LANES]
    at[0], at[5], at[9] = 0, 0xDEAD_0000, 0
    with pytest.raises(AccessFault) as caught:
        rig.o.load("global", 32, addresses(at))
    assert str(caught.value) == "read of 4 bytes at 0xdead0000: no memory there, at lane 5"
    assert caught.value.address == 0xDEAD_0000
    with pytest.raises(AccessFault, match="write of 8 bytes at 0xdead0000: no memory there, at lane 5"):
        rig.o.store("global", 64, addresses(at), [1, 2])
    assert not rig.data.any()


def test_an_access_that_ends_outside_is_a_fault() -> None:
    rig = Rig(1)
    with pytest.raises(AccessFault, match=f"data ends at {DATA + DATA_BYTES:#x}, at lane 0"):
        rig.o.load("global", 64, addresses([DATA + DATA_BYTES - 4] * 64))
    with pytest.raises(AccessFault, match="the address exceeds the 48 bits of the address space, at lane 0"):
        rig.o.load("global", 64, addresses([2**64 - 4] * 64))


def test_nothing_active_touches_nothing() -> None:
    rig = Rig(0)
    assert [v.tolist() for v in rig.o.load("flat", 64, addresses([0] * 64))] == [[0] * 64] * 2
    rig.o.store("global", 32, addresses([0] * 64), [1])
    assert rig.o.atomic("global", "add", 32, addresses([0] * 64), 1).tolist() == [0] * 64


# ---- LDS and GDS


@pytest.mark.parametrize("bits", SIZES)
def test_lds_outside_of_the_allocation_reads_zero_and_stores_nothing(bits: int) -> None:
    rig = Rig()
    rig.lds[:] = np.arange(LDS_BYTES, dtype=np.uint8) | 1
    data = rig.lds.tobytes()
    at = [5 * n for n in LANES]
    at[63] = 0xFFFF_FFFF
    got = rig.o.load("lds", bits, offsets(at))
    size = bits // 8
    for lane in LANES:
        inside = at[lane] + size <= LDS_BYTES
        assert [int(g[lane]) for g in got] == (dwords(data, at[lane], bits) if inside else [0] * len(got))
    rig.o.store("lds", bits, offsets([LDS_BYTES - size + 1] * 64), [0xFFFF_FFFF] * max(bits // 32, 1))
    assert rig.lds.tobytes() == data
    rig.o.store("lds", bits, offsets([LDS_BYTES - size] * 64), [0] * max(bits // 32, 1))
    assert rig.lds.tobytes() == data[:-size] + bytes(size)


def test_gds_is_its_own_memory() -> None:
    gds = np.zeros(64, np.uint8)
    rig = Rig(gds=gds)
    rig.o.store("gds", 32, offsets([4 * n for n in LANES]), [lanes32(list(LANES))])
    assert gds.view(np.uint32).tolist() == list(range(16))
    assert rig.o.load("gds", 32, offsets([4] * 64))[0].tolist() == [1] * 64
    assert not rig.lds.any()
    assert Rig().o.load("gds", 32, offsets([0] * 64))[0].tolist() == [0] * 64
    with pytest.raises(ModelBug, match="unknown address space 'x'"):
        rig.o.load("x", 32, offsets([0] * 64))


# ---- private memory and flat addresses


@pytest.mark.parametrize("bits", SIZES)
@pytest.mark.parametrize("offset", [0, 4, 3])
def test_private_memory_interleaves_lanes_by_dwords(bits: int, offset: int) -> None:
    rig = Rig(0xFFFF_FFFF_0000_00FF)
    random = Random(offset)
    rig.scratch[:] = np.frombuffer(random.randbytes(len(rig.scratch)), np.uint8)
    before = rig.scratch.copy()

    def mine(image: Any, lane: int) -> bytes:
        return b"".join(image[256 * d + 4 * lane : 256 * d + 4 * lane + 4].tobytes() for d in range(PRIVATE_BYTES // 4))

    got = rig.o.load("flat", bits, addresses([PRIVATE + offset] * 64))
    lanes = [n for n in LANES if n < 8 or n >= 32]
    for lane in lanes:
        assert [int(g[lane]) for g in got] == dwords(mine(before, lane), offset, bits)
    values = [[random.getrandbits(32) for _ in LANES] for _ in got]
    rig.o.store("flat", bits, addresses([PRIVATE + offset] * 64), [lanes32(v) for v in values])
    for lane in LANES:
        expected = bytearray(mine(before, lane))
        if lane in lanes:
            row = b"".join(v[lane].to_bytes(4, "little") for v in values)[: bits // 8]
            expected[offset : offset + len(row)] = row
        assert mine(rig.scratch, lane) == bytes(expected)


def test_private_memory_ends() -> None:
    rig = Rig(FULL & ~7)
    with pytest.raises(AccessFault) as caught:
        rig.o.load("flat", 64, addresses([PRIVATE + PRIVATE_BYTES - 4] * 64))
    assert str(caught.value) == (
        "read of 8 bytes at 0x200000000001c is out of bounds: a lane has 0x20 bytes of private memory, at lane 3"
    )
    with pytest.raises(AccessFault, match="write of 4 bytes"):
        rig.o.store("flat", 32, addresses([PRIVATE + 0xFFFF_FFFC] * 64), [0])


def test_flat_addresses_go_where_the_apertures_say() -> None:
    rig = Rig()
    rig.lds[:4] = 1
    rig.scratch[:256] = 2
    rig.data[:4] = 3
    at = [(SHARED, PRIVATE, DATA)[n % 3] for n in LANES]
    got = rig.o.load("flat", 32, addresses(at))[0].tolist()
    assert got == [(0x0101_0101, 0x0202_0202, 0x0303_0303)[n % 3] for n in LANES]
    rig.o.store("flat", 32, addresses(at), [lanes32(list(LANES))])
    assert rig.lds[:4].view(np.uint32).tolist() == [63]
    assert rig.data[:4].view(np.uint32).tolist() == [62]
    assert rig.scratch[:256].view(np.uint32).tolist() == [n if n % 3 == 1 else 0x0202_0202 for n in LANES]


def test_a_flat_store_that_faults_in_one_space_has_stored_in_none() -> None:
    rig = Rig()
    at = [SHARED, DATA, *[PRIVATE] * 62]
    for bad in (0xDEAD_0000, PRIVATE + PRIVATE_BYTES):
        at[63] = bad
        with pytest.raises(AccessFault, match="at lane 63"):
            rig.o.store("flat", 32, addresses(at), [7])
        assert [home.any() for home in (rig.lds, rig.data, rig.scratch)] == [False] * 3


def test_apertures() -> None:
    o = Rig().o
    assert o.aperture("shared") == SHARED
    assert o.aperture("private") == PRIVATE
    assert o.aperture("shared_limit") == SHARED | 0xFFFF_FFFF
    assert o.aperture("private_limit") == PRIVATE | 0xFFFF_FFFF
    with pytest.raises(ModelBug, match="unknown aperture 'global'"):
        o.aperture("global")


# ---- atomics


def two(w: int, n: int) -> int:
    return n - (1 << w) if n >> w - 1 else n


def half_sum(kind: str, one: int, other: int) -> int:
    """Return the sum of two binary16 or bfloat16 numbers, rounded to nearest even; every NaN is the default one."""
    if kind == "hadd":
        total = np.uint16(one).view(np.float16) + np.uint16(other).view(np.float16)
        return 0x7E00 if np.isnan(total) else int(total.view(np.uint16))
    exact = sum(float(np.uint32(n << 16).view(np.float32)) for n in (one, other))
    bits = int(np.float32(exact).view(np.uint32))
    return 0x7FC0 if np.isnan(exact) else bits + 0x7FFF + (bits >> 16 & 1) >> 16 & 0xFFFF


def model(kind: str, w: int, m: int, v: int, c: int) -> int:
    """The manuals' words, once more."""
    top = 1 << w
    match kind:
        case "swap":
            return v
        case "cmpswap":
            return v if m == c else m
        case "add" | "sub" | "rsub":
            return {"add": m + v, "sub": m - v, "rsub": v - m}[kind] % top
        case "smin" | "smax":
            return (max if kind == "smax" else min)((two(w, m), m), (two(w, v), v))[1]
        case "umin" | "umax":
            return sorted((m, v))[kind == "umax"]
        case "and" | "or" | "xor":
            return {"and": m & v, "or": m | v, "xor": m ^ v}[kind]
        case "inc":
            return m + 1 if m < v else 0
        case "dec":
            return m - 1 if 0 < m <= v else v
        case "mskor":
            return (m & ~c | v) % top
        case "wrap":
            return (m + v) % top if m < c else m - c
        case "hadd" | "badd":
            return sum(half_sum(kind, m >> at & 0xFFFF, v >> at & 0xFFFF) << at for at in (0, 16))
    real = (lambda n: np.uint32(n).view(np.float32)) if w == 32 else (lambda n: np.uint64(n).view(np.float64))
    x, y, z = real(m), real(v), real(c)
    if kind == "fadd":
        return int((x + y).view(np.uint32 if w == 32 else np.uint64))
    return v if {"fcmpswap": x == z, "fmin": y < x, "fmax": y > x}[kind] else m


@pytest.mark.parametrize("bits", [32, 64])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("space", ["global", "lds", "flat", "gds"])
def test_atomics_act_lane_after_lane(space: str, kind: str, bits: int) -> None:
    gds = np.zeros(64, np.uint8)
    rig = Rig(0xFFFF_FFFF_0FFF_FFFE, gds=gds)
    random, size = Random(kind), bits // 8
    home = {"global": rig.data, "flat": rig.data, "lds": rig.lds, "gds": gds}[space]
    base = DATA if space in ("global", "flat") else 0
    one = 0x3F80_0000 if bits == 32 else 0x3FF0_0000_0000_0000
    near = [0, 1, 2, one, one + 1, one | 1 << bits - 1, (1 << bits) - 1, 1 << bits - 1, (1 << bits - 1) - 1]
    if kind.startswith("f"):
        near = [n for n in near if n != (1 << bits) - 1 and n != (1 << bits - 1) - 1]
    cells = [random.choice(near) for _ in range(8)]
    home[: 8 * size] = np.frombuffer(b"".join(c.to_bytes(size, "little") for c in cells), np.uint8)
    where = [random.randrange(8) for _ in LANES]
    v, c = [random.choice(near) for _ in LANES], [random.choice(near) for _ in LANES]
    at = (addresses if base else offsets)([base + size * n for n in where])
    dtype = np.uint32 if bits == 32 else np.uint64
    got = rig.o.atomic(space, kind, bits, at, np.array(v, dtype), np.array(c, dtype))
    assert got.dtype == dtype
    for lane in LANES:
        if rig.o.current.exec_bits >> lane & 1:
            assert int(got[lane]) == cells[where[lane]]
            cells[where[lane]] = model(kind, bits, cells[where[lane]], v[lane], c[lane])
    assert home[: 8 * size].view(dtype).tolist() == cells


def test_atomics_outside_of_lds_do_nothing() -> None:
    rig = Rig()
    assert rig.o.atomic("lds", "add", 64, offsets([LDS_BYTES - 4] * 64), 1).tolist() == [0] * 64
    assert not rig.lds.any()


def test_atomics_on_private_memory() -> None:
    rig = Rig()
    rig.o.atomic("flat", "add", 32, addresses([PRIVATE + 4] * 64), lanes32(list(LANES)))
    assert rig.scratch[256:512].view(np.uint32).tolist() == list(LANES)
    with pytest.raises(AccessFault, match="private memory has only atomics of 4 bytes, at lane 0"):
        rig.o.atomic("flat", "add", 64, addresses([PRIVATE] * 64), 1)
    with pytest.raises(AccessFault, match="a lane has 0x20 bytes of private memory, at lane 0"):
        rig.o.atomic("flat", "add", 32, addresses([PRIVATE + PRIVATE_BYTES] * 64), 1)


def test_flat_atomics_reach_lds() -> None:
    rig = Rig(3)
    rig.o.atomic("flat", "add", 32, addresses([SHARED + 8] * 64), 5)
    assert rig.lds[8:12].view(np.uint32).tolist() == [10]


def test_an_atomic_that_faults_has_changed_nothing() -> None:
    rig = Rig()
    at = [DATA] * 64
    at[40] = DATA + 2
    with pytest.raises(AccessFault) as caught:
        rig.o.atomic("global", "add", 32, addresses(at), 1)
    assert str(caught.value) == f"atomic of 4 bytes at {DATA + 2:#x}: the address must be a multiple of 4, at lane 40"
    at[40] = 0x50
    with pytest.raises(AccessFault, match="write of 4 bytes at 0x50: no memory there, at lane 40"):
        rig.o.atomic("global", "add", 32, addresses(at), 1)
    assert not rig.data.any()


class Counter:
    """A region that counts writes."""

    size = 4

    def __init__(self) -> None:
        self.value = 0

    def read(self, offset: int, size: int, unit: Unit) -> bytes:
        return self.value.to_bytes(4, "little")[offset : offset + size]

    def write(self, offset: int, data: bytes, unit: Unit) -> None:
        self.value = int.from_bytes(data, "little")

    def host_address(self, offset: int, unit: Unit) -> int | None:
        return None


def test_regions_with_effects_take_every_kind_of_access() -> None:
    rig, region = Rig(0xF), Counter()
    rig.memory.map(0x90_0000, region, name="counter")
    rig.o.store("global", 32, addresses([0x90_0000] * 64), [lanes32([n + 10 for n in LANES])])
    assert region.value == 13
    assert rig.o.atomic("global", "add", 32, addresses([0x90_0000] * 64), 1).tolist()[:4] == [13, 14, 15, 16]
    assert rig.o.load("global", 32, 0x90_0000)[0].tolist()[:4] == [17] * 4


# ---- scalar accesses


def test_scalar_accesses() -> None:
    rig = Rig(0)
    rig.o.scalar_store(DATA + 7, [1, 0xFFFF_FFFF])
    assert rig.data[4:12].view(np.uint32).tolist() == [1, 0xFFFF_FFFF]
    assert rig.o.scalar_load(4, DATA + 3) == [0, 1, 0xFFFF_FFFF, 0]
    assert rig.o.scalar_atomic("global", "add", 64, DATA, 5) == 1 << 32
    assert rig.o.scalar_atomic("lds", "cmpswap", 32, 4, 9, 0) == 0
    assert rig.lds[4] == 9
    with pytest.raises(AccessFault) as caught:
        rig.o.scalar_load(2, DATA + DATA_BYTES - 4)
    assert str(caught.value).startswith(f"read of 8 bytes at {DATA + DATA_BYTES - 4:#x}: no memory there")
    with pytest.raises(AccessFault, match=r"the address must be a multiple of \d+$"):
        rig.o.scalar_atomic("global", "add", 64, DATA + 4, 5)


def test_masks_and_bits() -> None:
    random = Random(4)
    for bits in (0, 1, FULL, 1 << 63, *(random.getrandbits(64) for _ in range(5000))):
        assert bits_of(mask_of(bits)) == bits
    assert mask_of(5).tolist() == [True, False, True] + [False] * 61
    with pytest.raises(ValueError, match="read-only"):
        mask_of(5)[0] = False


def test_scratch_lies_in_memory() -> None:
    rig = Rig(1 << 63)
    rig.o.store("flat", 32, addresses([PRIVATE] * 64), [0x0403_0201])
    assert rig.memory.read(SCRATCH + 252, 4) == b"\1\2\3\4"
