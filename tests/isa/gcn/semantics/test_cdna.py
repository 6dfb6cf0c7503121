"""Instructions that gfx908, gfx90a, gfx942 and gfx950 add, against NumPy and Python numbers."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pytest

from softcard.isa.gcn.state import EXEC
from tests.isa.gcn.semantics.alu_rig import OLD, OPS, PARTIAL, Alu

RNG = np.random.default_rng(37)
HARD = (
    0x0000_0000, 0x8000_0000, 0x3F80_0000, 0xBF80_0000, 0x7F80_0000, 0xFF80_0000, 0x7FC0_0000, 0x7F7F_FFFF, 0x0080_0000,
    0x0000_0001, 0x3380_0000, 0x4B00_0001,
)  # fmt: skip
KEPT = 0x3F0
"""MODE: round to nearest, denormals kept."""
OVERFLOW = 1 << 23
"""MODE.FP16_OVFL."""


def words(count: int = 64) -> npt.NDArray[np.uint32]:
    """Hard values first, then any bits."""
    return np.concatenate([HARD, RNG.integers(0, 1 << 32, count - len(HARD), np.uint32)]).astype(np.uint32)


def shuffled() -> npt.NDArray[np.uint32]:
    return RNG.permutation(words())


def floats(bits: npt.NDArray[np.uint32]) -> npt.NDArray[np.float32]:
    return bits.view(np.float32)


def same(found: Sequence[int], expected: npt.NDArray[np.float32]) -> None:
    """Equal bits, where every NaN is as good as another."""
    bits = np.array(found, np.uint32)
    with np.errstate(all="ignore"):
        is_nan = np.isnan(expected)
    assert (np.isnan(floats(bits)) == is_nan).all()
    assert (bits[~is_nan] == expected.view(np.uint32)[~is_nan]).all()


def alu(gpu: str, mode: int = KEPT, exec_: int = (1 << 64) - 1) -> Alu:
    return Alu(gpu, mode, exec_)


# -- registers


@pytest.mark.parametrize("gpu", ["gfx908", "gfx90a", "gfx942", "gfx950"])
def test_moves_between_files(gpu: str) -> None:
    a = alu(gpu, exec_=PARTIAL)
    values = words().tolist()
    a.wave.acc[:] = 7
    a.set_v(3, values)
    a.run("v_accvgpr_write_b32 a5, v3", "v_accvgpr_write_b32 a6, -2.0", "v_accvgpr_read_b32 v9, a5")
    expected = [v if PARTIAL >> n & 1 else OLD for n, v in enumerate(values)]
    assert a.v(9) == expected
    assert a.wave.acc[5].tolist() == [v if PARTIAL >> n & 1 else 7 for n, v in enumerate(values)]
    assert set(a.wave.acc[6].tolist()) == {7, 0xC000_0000}
    assert (a.wave.vgpr[5] == OLD).all()
    if gpu != "gfx908":
        a.run("v_accvgpr_mov_b32 a255, a5")
        assert (a.wave.acc[255] == a.wave.acc[5]).all()


@pytest.mark.parametrize("gpu", ["gfx90a", "gfx942"])
def test_accumulation_registers_hold_data_of_lds(gpu: str) -> None:
    a = alu(gpu, exec_=0xFF)
    a.set_v(1, [16 * n for n in range(64)])
    a.wave.acc[2], a.wave.acc[3] = np.arange(64), np.arange(64) + 100
    a.run("ds_write_b64 v1, a[2:3]", "ds_read_b64 a[10:11], v1", "ds_read_b64 v[4:5], v1")
    assert a.wave.acc[10, :8].tolist() == a.v(4)[:8] == list(range(8))
    assert a.wave.acc[11, :8].tolist() == a.v(5)[:8] == list(range(100, 108))
    assert a.lds[16:18].tolist() == [1, 0]


# -- packed floats, 64 bits

PACKED: dict[str, Callable[..., npt.NDArray[np.float32]]] = {
    "v_pk_mul_f32": lambda x, y: x * y,
    "v_pk_add_f32": lambda x, y: x + y,
}


@pytest.mark.parametrize("selected", [(0, 3), (1, 2), (3, 0), (2, 1)])
@pytest.mark.parametrize("name", PACKED)
def test_packed_floats(name: str, selected: tuple[int, int]) -> None:
    a, parts = alu("gfx90a"), [shuffled() for _ in range(4)]
    for n, part in zip((2, 3, 4, 5), parts, strict=True):
        a.set_v(n, part.tolist())
    low, high = selected
    a.run(
        f"{name} v[8:9], v[2:3], v[4:5] op_sel:[{low & 1},{low >> 1}] op_sel_hi:[{high & 1},{high >> 1}] neg_lo:[0,1]"
    )
    with np.errstate(all="ignore"):
        same(a.v(8), PACKED[name](floats(parts[low & 1]), -floats(parts[2 + (low >> 1)])))
        same(a.v(9), PACKED[name](floats(parts[high & 1]), floats(parts[2 + (high >> 1)])))


def test_packed_multiply_adds() -> None:
    a, parts = alu("gfx942"), [RNG.integers(-999, 999, 64).astype(np.float32) for _ in range(6)]
    for n, part in enumerate(parts, 2):
        a.set_v(n, part.view(np.uint32).tolist())
    a.run("v_pk_fma_f32 v[10:11], v[2:3], v[4:5], v[6:7]", "v_pk_fma_f32 v[12:13], v[2:3], 2.0, v[6:7]")
    same(a.v(10), parts[0] * parts[2] + parts[4])
    same(a.v(11), parts[1] * parts[3] + parts[5])
    same(a.v(12), parts[0] * np.float32(2) + parts[4])
    same(a.v(13), parts[1] * np.float32(2) + parts[5])


def test_packed_moves() -> None:
    a = alu("gfx90a")
    for n in range(2, 6):
        a.set_v(n, [100 * n + lane for lane in range(64)])
    a.run("v_pk_mov_b32 v[8:9], v[2:3], v[4:5] op_sel:[1,0]", "v_pk_mov_b32 v[10:11], v[2:3], v[4:5] op_sel:[0,1]")
    assert [a.v(n)[1] for n in (8, 9, 10, 11)] == [301, 401, 201, 501]


def test_doubles_and_64_bits() -> None:
    a = alu("gfx942")
    x, y, z = (RNG.standard_normal(64) for _ in range(3))
    for n, values in ((2, x), (4, y), (6, z)):
        a.set_v(n, values.view(np.uint64).tolist(), 64)
    a.run("v_mov_b64 v[8:9], v[6:7]", "v_fmac_f64 v[6:7], v[2:3], v[4:5]")
    assert a.v(8, 64) == z.view(np.uint64).tolist()
    exact = [float(Fraction(p) * Fraction(q) + Fraction(r)) for p, q, r in zip(x, y, z, strict=True)]
    assert a.v(6, 64) == np.array(exact).view(np.uint64).tolist()
    numbers = [int(n) for n in RNG.integers(0, 1 << 64, 64, np.uint64)]
    a.set_v(2, numbers, 64)
    a.set_v(10, list(range(64)))
    a.run("v_lshl_add_u64 v[12:13], v[2:3], v10, v[8:9]")
    expected = [
        (n << (lane & 7)) + int(v) & (1 << 64) - 1 for lane, (n, v) in enumerate(zip(numbers, a.v(8, 64), strict=True))
    ]
    assert a.v(12, 64) == expected


def test_constants_of_multiply_adds() -> None:
    a = alu("gfx942")
    x, y = (RNG.integers(-999, 999, 64).astype(np.float32) for _ in range(2))
    a.set_v(2, x.view(np.uint32).tolist())
    a.set_v(3, y.view(np.uint32).tolist())
    a.run("v_fmamk_f32 v4, v2, 0x41200000, v3", "v_fmaak_f32 v5, v2, v3, 0x41200000")
    same(a.v(4), x * np.float32(10) + y)
    same(a.v(5), x * y + np.float32(10))


def test_legacy_products_moved() -> None:
    a = alu("gfx90a")
    a.set_v(2, [0x7F80_0000, 0x4000_0000] * 32)
    a.set_v(3, [0, 0x4040_0000] * 32)
    a.run("v_mul_legacy_f32 v4, v2, v3")
    assert a.v(4) == [0, 0x40C0_0000] * 32


@pytest.mark.parametrize(("name", "pick"), [("minimum", np.minimum), ("maximum", np.maximum)])
def test_extremes_of_three_where_a_nan_wins(name: str, pick: Callable[..., npt.NDArray[np.float32]]) -> None:
    a, parts = alu("gfx950"), [shuffled() for _ in range(3)]
    for n, part in enumerate(parts, 2):
        a.set_v(n, part.tolist())
    a.run(f"v_{name}3_f32 v8, v2, v3, v4")
    with np.errstate(all="ignore"):
        same(a.v(8), pick(pick(floats(parts[0]), floats(parts[1])), floats(parts[2])))
    for sign in (0, 1):
        a.set_v(2, [0x8000_0000 * sign] * 64)
        a.set_v(3, [0x8000_0000 * (1 - sign)] * 64)
        a.run(f"v_{name}3_f32 v8, v2, v3, v3")
        assert set(a.v(8)) == {0x8000_0000 if name == "minimum" else 0}


def test_bytes_and_halves_of_gfx950() -> None:
    a = alu("gfx950")
    numbers = shuffled()
    signed = numbers.view(np.int32).astype(np.int64)
    a.set_v(2, numbers.tolist())
    a.set_v(3, numbers[::-1].tolist())
    a.set_v(4, list(range(64)))
    for n in (5, 6, 7, 8):
        a.set_v(n, [0] * 64)
    a.run("v_ashr_pk_i8_i32 v5, v2, v3, v4", "v_ashr_pk_u8_i32 v6, v2, v3, v4", "v_prng_b32 v7, v2")
    moved = [signed >> (np.arange(64) & 31), signed[::-1] >> (np.arange(64) & 31)]
    for n, (least, most) in ((5, (-128, 127)), (6, (0, 255))):
        low, high = (np.clip(part, least, most) & 0xFF for part in moved)
        assert a.v(n) == (low | high << 8).tolist()
    assert a.v(7) == [(n << 1 ^ (197 if n >> 31 else 0)) & 0xFFFF_FFFF for n in numbers.tolist()]
    a.run("v_cvt_pk_f16_f32 v8, v2, v3", "v_cvt_f32_bf16 v9, v2", "v_cvt_pk_bf16_f32 v10, v2, v3")
    assert a.v(9) == [n << 16 & 0xFFFF_0000 for n in numbers.tolist()]
    with np.errstate(all="ignore"):
        halves = floats(numbers).astype(np.float16)
        found = np.array(a.v(8), np.uint32).view(np.float16)[::2]
        assert (found[~np.isnan(halves)] == halves[~np.isnan(halves)]).all()
        assert np.isnan(found[np.isnan(halves)]).all()
    upper = [n >> 16 for n in a.v(10)]
    for got, n in zip(upper, numbers[::-1].tolist(), strict=True):
        if n & 0x7FFF_FFFF > 0x7F80_0000:
            assert got & 0x7FC0 == 0x7FC0
        else:
            assert got == n + 0x7FFF + (n >> 16 & 1) >> 16


def table_bits(table: int, parts: Sequence[npt.NDArray[np.uint32]]) -> npt.NDArray[np.uint32]:
    """The rows of a truth table, bit after bit."""
    a, b, c = (np.unpackbits(part.view(np.uint8)) for part in parts)
    return np.packbits(table >> (4 * a + 2 * b + c) & 1).view(np.uint32)


def test_every_truth_table_of_three_sources() -> None:
    a, parts = alu("gfx950"), [shuffled() for _ in range(3)]
    for n, part in enumerate(parts, 2):
        a.set_v(n, part.tolist())
    for table in range(256):
        a.run(f"v_bitop3_b32 v8, v2, v3, v4 bitop3:{table:#x}")
        assert a.v(8) == table_bits(table, parts).tolist(), hex(table)
    a.run("v_bitop3_b32 v8, v2, 7, v4 bitop3:0x5c")
    assert a.v(8) == table_bits(0x5C, [parts[0], np.full(64, 7, np.uint32), parts[2]]).tolist()


@pytest.mark.parametrize("halves", range(16))
def test_truth_tables_of_halves(halves: int) -> None:
    a, parts = alu("gfx950"), [shuffled() for _ in range(3)]
    for n, part in enumerate(parts, 2):
        a.set_v(n, part.tolist())
    a.set_v(8, [0x1111_2222] * 64)
    chosen = [halves >> n & 1 for n in range(4)]
    a.run(f"v_bitop3_b16 v8, v2, v3, v4 bitop3:0xd2 op_sel:[{','.join(map(str, chosen))}]")
    low = table_bits(0xD2, [part >> np.uint32(16 * at) for part, at in zip(parts, chosen, strict=False)]) & 0xFFFF
    assert a.v(8) == [n << 16 | 0x2222 if chosen[3] else 0x1111_0000 | n for n in low.tolist()]


# -- dot products


def items(bits: int, value: int) -> list[int]:
    return [(value >> at & (1 << bits) - 1 ^ 1 << bits - 1) - (1 << bits - 1) for at in range(0, 32, bits)]


@pytest.mark.parametrize(("name", "bits"), [("v_dot2c_i32_i16", 16), ("v_dot4c_i32_i8", 8), ("v_dot8c_i32_i4", 4)])
def test_dot_products_of_integers(name: str, bits: int) -> None:
    a, x, y, c = alu("gfx908"), shuffled().tolist(), shuffled().tolist(), shuffled().tolist()
    for n, values in ((2, x), (3, y), (4, c), (5, c)):
        a.set_v(n, values)
    a.run(f"{name} v4, v2, v3", f"{name}_e64 v5, v2, v3 clamp")
    sums = [
        (k - (k >> 31 << 32)) + sum(p * q for p, q in zip(items(bits, i), items(bits, j), strict=True))
        for i, j, k in zip(x, y, c, strict=True)
    ]
    assert a.v(4) == [n & 0xFFFF_FFFF for n in sums]
    assert a.v(5) == [max(min(n, (1 << 31) - 1), -(1 << 31)) & 0xFFFF_FFFF for n in sums]


def test_dot_products_of_halves() -> None:
    a = alu("gfx908")
    x, y = (RNG.integers(-30, 30, (64, 2)).astype(np.float16) for _ in range(2))
    c = RNG.integers(-99, 99, 64).astype(np.float32)
    a.set_v(2, x.view(np.uint32).ravel().tolist())
    a.set_v(3, y.view(np.uint32).ravel().tolist())
    a.set_v(4, c.view(np.uint32).tolist())
    a.set_v(5, y.view(np.uint32).ravel().tolist())
    a.run("v_dot2c_f32_f16 v4, v2, v3", "v_pk_fmac_f16 v5, v2, v3")
    wide = x.astype(np.float32) * y.astype(np.float32)
    same(a.v(4), wide[:, 0] + c + wide[:, 1])
    assert a.v(5) == (x * y + y).view(np.uint32).ravel().tolist()


def test_dot_products_of_bfloats() -> None:
    a = alu("gfx950")
    x, y = (RNG.integers(-30, 30, (64, 2)).astype(np.float32) for _ in range(2))
    c = RNG.integers(-99, 99, 64).astype(np.float32)

    def packed(pairs: npt.NDArray[np.float32]) -> list[int]:
        upper = pairs.view(np.uint32) >> 16
        return (upper[:, 0] | upper[:, 1] << 16).tolist()

    a.set_v(2, packed(x))
    a.set_v(3, packed(y))
    for n in (4, 6):
        a.set_v(n, c.view(np.uint32).tolist())
    a.run("v_dot2c_f32_bf16 v4, v2, v3", "v_dot2_f32_bf16 v5, v2, v3, v6")
    for n in (4, 5):
        same(a.v(n), x[:, 0] * y[:, 0] + x[:, 1] * y[:, 1] + c)


# -- FP8 and BF8


def byte_value(code: int, mantissa: int, is_ocp: bool) -> float:
    """The number of a byte, from the formats' definitions."""
    bias = (7 if mantissa == 3 else 15) + (not is_ocp)
    sign, field, fraction = -1.0 if code & 0x80 else 1.0, (code & 0x7F) >> mantissa, code & (1 << mantissa) - 1
    if not is_ocp and code == 0x80:
        return math.nan
    if is_ocp and mantissa == 3 and code & 0x7F == 0x7F:
        return math.nan
    if is_ocp and mantissa == 2 and field == 31:
        return math.nan if fraction else sign * math.inf
    if not field:
        return sign * math.ldexp(fraction, 1 - bias - mantissa)
    return sign * math.ldexp((1 << mantissa) + fraction, field - bias - mantissa)


FORMATS = [("gfx942", False), ("gfx950", True)]


@pytest.mark.parametrize(("gpu", "is_ocp"), FORMATS)
@pytest.mark.parametrize(("name", "mantissa"), [("fp8", 3), ("bf8", 2)])
def test_every_byte_as_float(gpu: str, is_ocp: bool, name: str, mantissa: int) -> None:
    for first in range(0, 256, 64):
        a = alu(gpu)
        a.set_v(2, [first + lane | 0x3A00 for lane in range(64)])
        a.run(f"v_cvt_f32_{name} v4, v2", f"v_cvt_pk_f32_{name} v[6:7], v2")
        a.run(f"v_cvt_f32_{name}_sdwa v5, v2 src0_sel:BYTE_1")
        expected = np.array([byte_value(first + lane, mantissa, is_ocp) for lane in range(64)], np.float32)
        same(a.v(4), expected)
        same(a.v(6), expected)
        upper = np.full(64, byte_value(0x3A, mantissa, is_ocp), np.float32)
        same(a.v(7), upper)
        same(a.v(5), upper)


def nearest(value: float, mantissa: int, is_ocp: bool, saturates: bool) -> int:
    """The byte of a number: the nearest one, the even one of two, of all bytes."""
    codes = [c for c in range(0x80) if math.isfinite(byte_value(c, mantissa, is_ocp))]
    nan = 0x80 if not is_ocp else 0x7F
    sign = 0x80 if math.copysign(1, value) < 0 else 0
    if math.isnan(value):
        return nan if not is_ocp else nan | sign
    beyond = nan if not is_ocp else sign | (0x7F if mantissa == 3 else 0x7C)
    largest = codes[-1]
    if math.isinf(value):
        return sign | largest if saturates else beyond
    exact = abs(Fraction(value))
    step = Fraction(byte_value(largest, mantissa, is_ocp)) - Fraction(byte_value(largest - 1, mantissa, is_ocp))
    limit = Fraction(byte_value(largest, mantissa, is_ocp)) + step / 2
    if exact > limit or (exact == limit and largest % 2):
        return sign | largest if saturates else beyond
    best = min(codes, key=lambda c: (abs(Fraction(byte_value(c, mantissa, is_ocp)) - exact), c % 2))
    return best if not is_ocp and best == 0 else sign | best


@pytest.mark.parametrize("saturates", [False, True])
@pytest.mark.parametrize(("gpu", "is_ocp"), FORMATS)
@pytest.mark.parametrize(("name", "mantissa"), [("fp8", 3), ("bf8", 2)])
def test_floats_as_bytes(gpu: str, is_ocp: bool, name: str, mantissa: int, saturates: bool) -> None:
    """Numbers near every boundary, and any bits."""
    values = [byte_value(c, mantissa, is_ocp) for c in range(0x80)]
    finite = [v for v in values if math.isfinite(v)]
    middles = [(p + q) / 2 for p, q in pairwise(finite)]
    wide = [
        *finite,
        *middles,
        *(m * (1 + 1e-6) for m in middles),
        *(m * (1 - 1e-6) for m in middles),
        finite[-1] * 1.07,
    ]
    tested = np.array([*wide, *(-v for v in wide), *(RNG.standard_normal(40) * 300)], np.float32).tolist()
    tested += floats(words(64)).tolist()
    for first in range(0, len(tested), 64):
        part = np.resize(np.array(tested[first : first + 64], np.float32), 64)
        a = alu(gpu, KEPT | OVERFLOW * saturates)
        a.set_v(2, part.view(np.uint32).tolist())
        a.set_v(3, part[::-1].copy().view(np.uint32).tolist())
        for n in (4, 5):
            a.set_v(n, [0x1111_2222] * 64)
        a.run(f"v_cvt_pk_{name}_f32 v4, v2, v3", f"v_cvt_pk_{name}_f32 v5, v2, v3 op_sel:[0,0,1]")
        codes = [nearest(float(v), mantissa, is_ocp, saturates) for v in part]
        pairs = [low | high << 8 for low, high in zip(codes, codes[::-1], strict=True)]
        assert a.v(4) == [0x1111_0000 | pair for pair in pairs]
        assert a.v(5) == [0x2222 | pair << 16 for pair in pairs]


@pytest.mark.parametrize(("name", "mantissa"), [("fp8", 3), ("bf8", 2)])
@pytest.mark.parametrize("byte", range(4))
def test_random_rounding(name: str, mantissa: int, byte: int) -> None:
    """The random bits are added below the last bit of the result: what they carry over rounds up."""
    a = alu("gfx942")
    values = (RNG.uniform(1, 2, 64) * 2.0 ** RNG.integers(-3, 3, 64)).astype(np.float32)
    noise = RNG.integers(0, 1 << 32, 64, np.uint32)
    a.set_v(2, values.view(np.uint32).tolist())
    a.set_v(3, noise.tolist())
    a.set_v(4, [0xAABB_CCDD] * 64)
    a.run(f"v_cvt_sr_{name}_f32 v4, v2, v3 op_sel:[0,0,{byte & 1},{byte >> 1}]")
    free = 23 - mantissa
    bits = values.view(np.uint32).astype(np.uint64) + (noise >> np.uint32(32 - free))
    codes = ((bits >> np.uint64(free)) - (127 - (8 if mantissa == 3 else 16) << mantissa)).astype(np.uint64).tolist()
    assert a.v(4) == [0xAABB_CCDD & ~(0xFF << 8 * byte) | int(c) << 8 * byte for c in codes]


# -- lanes


@pytest.mark.parametrize("size", [16, 32])
@pytest.mark.parametrize("exec_", [(1 << 64) - 1, PARTIAL])
def test_swaps_of_rows(size: int, exec_: int) -> None:
    a, x, y = alu("gfx950", exec_=exec_), words(), shuffled()
    for n, part in ((2, x), (3, y), (4, x), (5, y)):
        a.set_v(n, part.tolist())
    a.run(f"v_permlane{size}_swap_b32 v2, v3", f"v_permlane{size}_swap_b32 v4, v4")
    first, second = (part.reshape(-1, 2, size) for part in (x, y))
    assert a.v(2) == np.stack([first[:, 0], second[:, 0]], 1).ravel().tolist()
    assert a.v(3) == np.stack([first[:, 1], second[:, 1]], 1).ravel().tolist()
    assert a.v(4) == first[:, ::-1].ravel().tolist()


@pytest.mark.parametrize("high", [0, 1])
def test_random_rounding_of_halves(high: int) -> None:
    a, noise = alu("gfx950"), RNG.integers(0, 1 << 32, 64, np.uint32)
    values = (RNG.uniform(-2, 2, 64) * 2.0 ** RNG.integers(-30, 15, 64)).astype(np.float32)
    values[:6] = math.inf, -math.inf, math.nan, 0.0, -0.0, 65520
    noise[5] = 0xFFFF_FFFF
    a.set_v(2, values.view(np.uint32).tolist())
    a.set_v(3, noise.tolist())
    for n in (4, 5):
        a.set_v(n, [0x1111_2222] * 64)
    select = f"op_sel:[0,0,{high}]"
    a.run(f"v_cvt_sr_f16_f32 v4, v2, v3 {select}", f"v_cvt_sr_bf16_f32 v5, v2, v3 {select}")
    for n, found in ((4, a.v(4)), (5, a.v(5))):
        assert {word >> 16 * (1 - high) & 0xFFFF for word in found} == {0x2222 if high else 0x1111}
        halves = np.array([word >> 16 * high & 0xFFFF for word in found], np.uint16)
        got = halves.view(np.float16).astype(float) if n == 4 else (halves.astype(np.uint32) << 16).view(np.float32)
        assert (np.isnan(got) == np.isnan(values)).all()
        assert (np.signbit(got) == np.signbit(values))[3:].all()
        for value, result, bits in zip(values.tolist(), got.tolist(), noise.tolist(), strict=True):
            if not math.isfinite(value) or value == 0:
                assert result == value or math.isnan(value)
                continue
            least = -24 if n == 4 else -133
            step = Fraction(2) ** max(math.frexp(value)[1] - (11 if n == 4 else 8), least)
            below, rest = divmod(abs(Fraction(value)), step)
            up = rest / step + Fraction(bits >> (19 if n == 4 else 16), 1 << (13 if n == 4 else 16)) >= 1
            exact = (below + up) * step
            if exact > 65504 and n == 4:
                assert math.isinf(result)
            elif n == 5 or abs(value) >= 2**-14:
                assert abs(Fraction(result)) == exact
            else:  # more random bits count below the last bit of a denormal
                assert abs(Fraction(result)) in (below * step, (below + 1) * step)


# -- conversions with a scale

# Mantissa bits, bias, bits and largest code; FP8 and BF8 are those of OCP.
SMALL = {
    "fp8": (3, 7, 8, 0x7E),
    "bf8": (2, 15, 8, 0x7B),
    "fp6": (3, 1, 6, 31),
    "bf6": (2, 3, 6, 31),
    "fp4": (1, 1, 4, 7),
}
WIDE = {"f32": 1, "f16": 2, "bf16": 2}
"""The numbers in a register."""


def small_value(name: str, code: int) -> float:
    """The number of a code of a narrow format."""
    mantissa, bias, bits, largest = SMALL[name]
    sign, rest = -1.0 if code >> bits - 1 else 1.0, code & (1 << bits - 1) - 1
    if rest > largest:
        return sign * math.inf if rest == 0x7C and name == "bf8" else math.nan
    field, fraction = rest >> mantissa, rest & (1 << mantissa) - 1
    return sign * math.ldexp(fraction + ((field > 0) << mantissa), max(field, 1) - bias - mantissa)


def small_code(name: str, value: float, scale: int) -> int:
    """The code of a number divided by 2**scale: the nearest one, the even one of two."""
    _, _, bits, largest = SMALL[name]
    sign = (math.copysign(1, value) < 0) << bits - 1
    beyond = {"fp8": 0x7F, "bf8": 0x7C}.get(name, largest)
    if math.isnan(value):
        return sign | {"fp8": 0x7F, "bf8": 0x7F}.get(name, largest)
    if math.isinf(value):
        return sign | beyond
    exact = abs(Fraction(value)) / Fraction(2) ** scale
    numbers = [Fraction(small_value(name, code)) for code in range(largest + 1)]
    limit = numbers[-1] + (numbers[-1] - numbers[-2]) / 2
    if exact > limit or (exact == limit and largest & 1):
        return sign | beyond
    return sign | min(range(largest + 1), key=lambda code: (abs(numbers[code] - exact), code & 1))


def wide_values(kind: str, bits: npt.NDArray[np.uint32]) -> npt.NDArray[np.float64]:
    """The numbers of registers by lane, the low half first."""
    if kind == "f32":
        return bits.view(np.float32).astype(float)[:, None]
    halves = bits.view(np.uint16).reshape(-1, 2)
    found = halves.view(np.float16) if kind == "f16" else (halves.astype(np.uint32) << 16).view(np.float32)
    return found.astype(float)


def taken(words_: Sequence[Sequence[int]], at: int, size: int) -> list[int]:
    """`size` bits from bit `at` of several registers on, by lane."""
    wholes = [sum(word << 32 * k for k, word in enumerate(lane)) for lane in zip(*words_, strict=True)]
    return [whole >> at & (1 << size) - 1 for whole in wholes]


def scaled_names(pattern: str) -> list[str]:
    """The conversions of gfx950 whose name has a pattern, without those of several numbers by random bits."""
    every_name = [op.name for op in OPS if "scalef32" in op.name and "_sr_" not in op.name]
    return [name for name in every_name if re.search(pattern, name)]


def scales(count: int = 64) -> list[int]:
    """Scales near 1, with signs and fractions that do not count."""
    exponents = RNG.integers(-6, 7, count)
    return [int(e) + 127 << 23 | int(RNG.integers(1 << 23)) | int(e) % 2 << 31 for e in exponents]


@pytest.mark.parametrize("name", scaled_names("_(fp8|bf8|fp6|bf6|fp4)$"))
def test_narrow_numbers_with_a_scale(name: str) -> None:
    to, of = name.split("_")[-2:]
    count = 32 if "pk32" in name else 2 if "_pk_" in name else 1
    size, scale = SMALL[of][2], scales()
    for place in range(4 if size * count == 8 else 2 if size * count == 16 else 1):
        a, given = alu("gfx950"), [shuffled() for _ in range((size * count + 31) // 32)]
        for n, part in enumerate(given, 2):
            a.set_v(n, part.tolist())
        a.set_v(1, scale)
        results = count // WIDE[to] or 1
        shown = f"v[{10}:{9 + results}]" if results > 1 else "v10"
        sources = f"v[2:{1 + len(given)}]" if len(given) > 1 else "v2"
        a.run(f"{name} {shown}, {sources}, v1" + (f" op_sel:[{place & 1},{place >> 1},0]" if place else ""))
        found = np.concatenate([wide_values(to, np.array(a.v(10 + n), np.uint32)) for n in range(results)], axis=1)
        at = place * size * count if size * count < 32 else 0
        for k in range(count):
            codes = taken([part.tolist() for part in given], at + k * size, size)
            exponents = [(word >> 23 & 255) - 127 for word in scale]
            exact = [math.ldexp(small_value(of, code), e) for code, e in zip(codes, exponents, strict=True)]
            with np.errstate(all="ignore"):
                expected = np.array(exact).astype(np.float16 if to == "f16" else np.float32).astype(float)
            np.testing.assert_array_equal(found[:, k], expected)


@pytest.mark.parametrize("name", scaled_names("_(fp8|bf8|fp6|bf6|fp4)_(f32|f16|bf16)$"))
def test_wide_numbers_with_a_scale(name: str) -> None:
    to, of = name.split("_")[-2:]
    count, size, scale = 32 if "pk32" in name or "2xpk16" in name else 2, SMALL[to][2], scales()
    registers = count // WIDE[of]
    for place in range({8: 4, 16: 2}.get(size * count, 1)):
        a = alu("gfx950")
        near = [(RNG.standard_normal((64, WIDE[of])) * 2.0 ** RNG.integers(-8, 8, (64, 1))) for _ in range(registers)]
        kinds = {"f32": np.float32, "f16": np.float16, "bf16": np.float32}
        given = [part.astype(kinds[of]) for part in near]
        for part in given:
            part[:4, 0] = math.inf, math.nan, 0.0, -0.0
        bits = [part.view(np.uint32).ravel() for part in given]
        if of == "bf16":
            bits = [(pair >> 16)[::2] | pair[1::2] & 0xFFFF0000 for pair in bits]
        for n, part in enumerate(bits, 60):
            a.set_v(n, part.tolist())
        a.set_v(1, scale)
        results = max(1, size * count // 32)
        for n in range(10, 10 + results):
            a.set_v(n, [0x1234_5678] * 64)
        shown = f"v[10:{9 + results}]" if results > 1 else "v10"
        if of == "f32":
            sources = "v60, v61" if count == 2 else "v[60:75], v[76:91]"
        else:
            sources = f"v[60:{59 + registers}]" if registers > 1 else "v60"
        length = 4 if of == "f32" or to == "fp4" else 3
        chosen = [0] * (length - 1) + [place] if size * count == 16 else [0] * (length - 2) + [place & 1, place >> 1]
        a.run(f"{name} {shown}, {sources}, v1" + (f" op_sel:[{','.join(map(str, chosen))}]" if place else ""))
        numbers = np.concatenate([wide_values(of, part) for part in bits], axis=1)
        if "2xpk16" in name:  # AMD's conformance tests found on a gfx950 that both sources alternate
            numbers = numbers.reshape(64, 2, 16).swapaxes(1, 2).reshape(64, 32)
        at = place * size * count if size * count < 32 else 0
        found = [a.v(10 + n) for n in range(results)]
        for k in range(count):
            exponents = [(word >> 23 & 255) - 127 for word in scale]
            expected = [small_code(to, float(v), e) for v, e in zip(numbers[:, k], exponents, strict=True)]
            assert taken(found, at + k * size, size) == expected
        if size * count < 32:
            kept = 0xFFFF_FFFF & ~((1 << size * count) - 1 << at)
            assert {word & kept for word in found[0]} == {0x1234_5678 & kept}


def test_scales_at_the_ends() -> None:
    """Denormals are kept in any MODE, and rounded once; a scale of 255 is NaN."""
    a, codes = alu("gfx950", 0x3C0), [0x01, 0x7E, 0x38, 0x39, 0x85, 0x7F, 0x80, 0x02] * 8
    a.set_v(2, codes)
    for exponent in (0, 1, 2, 7, 120, 250, 254, 255):
        a.set_v(1, [exponent << 23] * 64)
        a.run("v_cvt_scalef32_f32_fp8 v4, v2, v1")
        with np.errstate(all="ignore"):
            exact = np.array([small_value("fp8", code) for code in codes]) * 2.0 ** (exponent - 127)
            same(a.v(4), np.full(64, math.nan, np.float32) if exponent == 255 else exact.astype(np.float32))


def test_random_rounding_with_a_scale() -> None:
    """The random bits decide between the two nearest numbers, as far as they reach."""
    a, noise = alu("gfx950"), RNG.integers(0, 1 << 32, 64, np.uint32)
    values = (RNG.uniform(1, 2, 64) * 2.0 ** RNG.integers(-3, 3, 64)).astype(np.float32)
    a.set_v(1, [128 << 23] * 64)
    a.set_v(2, values.view(np.uint32).tolist())
    a.set_v(3, noise.tolist())
    a.set_v(5, (values.view(np.uint32) >> 16).tolist())
    a.set_v(4, [0xAABB_CCDD] * 64)
    a.run("v_cvt_scalef32_sr_fp8_f32 v4, v2, v3, v1 op_sel:[0,0,1,0]", "v_cvt_scalef32_sr_bf8_bf16 v6, v5, v3, v1")
    for found, bits, mantissa, bias in (
        (a.v(4), values.view(np.uint32), 3, 7),
        (a.v(6), values.view(np.uint32) & 0xFFFF_0000, 2, 15),
    ):
        free = 23 - mantissa
        total = bits.astype(np.uint64) + (noise >> np.uint32(32 - free))
        codes = ((total >> np.uint64(free)) - (128 - bias << mantissa)).astype(np.uint64).tolist()
        if mantissa == 3:
            assert found == [0xAABB_00DD | int(code) << 8 for code in codes]
        else:
            assert [word & 0xFF for word in found] == codes


def randomly_rounded(to: str, value: float, exponent: int, noise: int) -> int:
    """The code of a number divided by a power of two and rounded by random bits: the upper ones count as a fraction."""
    mantissa, lowest = {"fp4": (1, 0), "fp6": (3, 0), "bf6": (2, -2)}[to]
    codes = 1 << SMALL[to][2] - 1
    exact = Fraction(abs(value)) / Fraction(2) ** exponent
    if not exact:
        return codes if math.copysign(1, value) < 0 else 0
    own = max(math.frexp(value)[1] - 1 - exponent, lowest)
    unit = Fraction(2) ** (own - mantissa)
    dropped = own - (math.frexp(value)[1] - 1 - exponent) + 23 - mantissa  # bits of the binary32 significand
    part = Fraction(noise >> 32 - dropped if dropped <= 32 else noise, 1 << dropped)
    steps = math.floor(exact / unit + part) if dropped <= 31 else 0
    code = steps + (own - lowest << mantissa)
    return min(code, codes - 1) | (codes if value < 0 else 0)


@pytest.mark.parametrize("of", ["f32", "f16", "bf16"])
@pytest.mark.parametrize("to", ["fp4", "fp6", "bf6"])
def test_several_numbers_share_random_bits(to: str, of: str) -> None:
    """Each number is rounded by the same random bits (Choice ``gcn/scaled-conversions``)."""
    count = 2 if to == "fp4" else 32
    a, scale, registers = alu("gfx950"), scales(), max(1, count // WIDE[of])
    values = RNG.uniform(-1, 1, (registers, 64, WIDE[of])) * 2.0 ** RNG.integers(-3, 5, (registers, 64, WIDE[of]))
    values[0, :3, 0] = 0.0, -0.0, 1.0
    given = values.astype(np.float16 if of == "f16" else np.float32)
    bits = [part.view(np.uint32).ravel() for part in given]
    if of == "bf16":
        bits = [(pair >> 16)[::2] | pair[1::2] & 0xFFFF0000 for pair in bits]
    noise = RNG.integers(0, 1 << 32, 64, np.uint32)
    noise[:4] = 0, 0xFFFF_FFFF, 0x8000_0000, 0x7FFF_FFFF
    for n, part in enumerate(bits, 60):
        a.set_v(n, part.tolist())
    a.set_v(1, scale)
    a.set_v(3, noise.tolist())
    numbers = np.concatenate([wide_values(of, part) for part in bits], axis=1)
    results = 1 if to == "fp4" else 6
    sources = f"v[60:{59 + registers}]" if registers > 1 else "v60"
    shown = "v10" if to == "fp4" else "v[10:15]"
    pack = "pk" if to == "fp4" else "pk32"
    for place in range(4 if to == "fp4" else 1):
        for n in range(10, 10 + results):
            a.set_v(n, [0x1234_5678] * 64)
        chosen = f" op_sel:[0,0,{place & 1},{place >> 1}]" if place else ""
        a.run(f"v_cvt_scalef32_sr_{pack}_{to}_{of} {shown}, {sources}, v3, v1{chosen}")
        found = [a.v(10 + n) for n in range(results)]
        for k in range(count):
            exponents = [(word >> 23 & 255) - 127 for word in scale]
            wanted = [
                randomly_rounded(to, float(value), exponent, int(random))
                for value, exponent, random in zip(numbers[:, k], exponents, noise, strict=True)
            ]
            assert taken(found, 8 * place + k * SMALL[to][2], SMALL[to][2]) == wanted
        if to == "fp4":
            kept = 0xFFFF_FFFF & ~(0xFF << 8 * place)
            assert {word & kept for word in found[0]} == {0x1234_5678 & kept}


@pytest.mark.parametrize("of", ["f32", "f16", "bf16"])
@pytest.mark.parametrize("to", ["fp6", "bf6"])
def test_random_bits_do_not_change_exact_numbers(to: str, of: str) -> None:
    """As AMD's conformance tests for gfx950 have it: all 32 codes without a sign, one after the other."""
    a = alu("gfx950")
    exact = np.array([small_value(to, code) for code in range(32)])
    halves = {"f16": exact.astype(np.float16).view(np.uint16), "bf16": exact.astype(np.float32).view(np.uint32) >> 16}
    if of == "f32":
        words = exact.astype(np.float32).view(np.uint32)
    else:
        words = halves[of][::2].astype(np.uint32) | halves[of][1::2].astype(np.uint32) << 16
    for n, word in enumerate(words.tolist(), 60):
        a.set_v(n, [word] * 64)
    a.set_v(1, [127 << 23] * 64)
    a.set_v(3, [0, 0xFFFF_FFFF, 0x1234_5678, 0x8000_0000] * 16)
    a.run(f"v_cvt_scalef32_sr_pk32_{to}_{of} v[10:15], v[60:{59 + len(words)}], v3, v1")
    whole = sum(code << 6 * code for code in range(32))
    assert [a.v(10 + n) for n in range(6)] == [[whole >> 32 * n & 0xFFFF_FFFF] * 64 for n in range(6)]


# -- LDS


@pytest.mark.parametrize(
    ("name", "bits", "words_"), [("b64_tr_b16", 16, 2), ("b64_tr_b8", 8, 2), ("b64_tr_b4", 4, 2), ("b96_tr_b6", 6, 3)]
)
def test_transposing_reads(name: str, bits: int, words_: int) -> None:
    """Rows of 16 elements, whose parts successive lanes name, become a column in each lane."""
    a, part = alu("gfx950"), 32 * words_ // bits
    a.lds[:] = RNG.integers(0, 256, a.lds.size, np.uint8)
    places = [int(n) * 4 * words_ for n in RNG.permutation(a.lds.size // (4 * words_))[:16]]
    a.set_v(2, places * 4)
    a.run(f"ds_read_{name} v[2:{1 + words_}], v2")
    memory = np.unpackbits(a.lds, bitorder="little")
    matrix = np.concatenate([memory[8 * at : 8 * at + 32 * words_].reshape(part, bits) for at in places])
    matrix = matrix.reshape(part, 16, bits)
    columns = np.packbits(matrix.transpose(1, 0, 2).reshape(16, -1), axis=1, bitorder="little").view(np.uint32)
    for n in range(words_):
        assert a.v(2 + n) == columns[:, n].tolist() * 4


# -- DPP


def test_new_broadcasts() -> None:
    a = alu("gfx90a")
    a.set_v(2, list(range(64)))
    a.set_v(4, [1000 + n for n in range(64)])
    a.set_v(5, [2000 + n for n in range(64)])
    a.run("v_mov_b32_dpp v3, v2 row_newbcast:3 row_mask:0xf bank_mask:0xf")
    assert a.v(3) == [lane & 0x30 | 3 for lane in range(64)]
    a.run("v_ceil_f64_dpp v[6:7], v[4:5] row_newbcast:15 row_mask:0xf bank_mask:0xf")
    b = alu("gfx90a")
    b.set_v(4, [1000 + (lane | 15) for lane in range(64)])
    b.set_v(5, [2000 + (lane | 15) for lane in range(64)])
    b.run("v_ceil_f64 v[6:7], v[4:5]")
    assert a.v(6, 64) == b.v(6, 64)


def test_disabled_lanes_keep_their_values() -> None:
    a = alu("gfx942", exec_=1)
    a.run("v_mov_b64 v[2:3], 0", "v_pk_mul_f32 v[4:5], v[2:3], v[2:3]")
    assert a.s64(EXEC) == 1
    assert a.v(2, 64)[1:] == a.v(4, 64)[1:] == [OLD << 32 | OLD] * 63
