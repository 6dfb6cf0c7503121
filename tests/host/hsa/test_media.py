"""cl_amd_media_ops and cl_amd_media_ops2, held to the definitions in their texts, by NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from softcard.host.hsa.compile import compilers
from softcard.hsa import Gpu

pytestmark = pytest.mark.oracle
Array = np.ndarray[Any, Any]
COUNT = 64
EDGES = np.array([0, 1, 31, 32, 33, 0x80000000, 0xFFFFFFFF, 0x01010101, 0xFF00FF00, 0x7FFFFFFF, 0x80, 0xFFFF0000])


def words(seed: int) -> Array:
    """Numbers of all kinds, edges among them."""
    found = np.random.default_rng(seed).integers(0, 1 << 32, COUNT).astype(np.uint32)
    found[: len(EDGES)] = np.roll(EDGES, seed)
    return found


A, B, C = words(1), words(2), words(3)
WIDE_A, WIDE_C = (x.astype(np.uint64) << np.uint64(32) | y for x, y in ((A, B), (C, A)))


def low(x: Array) -> Array:
    return x.astype(np.uint64).astype(np.uint32)


def parts(x: Array, bits: int) -> list[Array]:
    return [(x >> np.uint32(at) & np.uint32((1 << bits) - 1)).astype(np.int64) for at in range(0, 32, bits)]


def sad(a: Array, b: Array, c: Array, bits: int = 8, masked: bool = False) -> Array:
    pairs = zip(parts(a, bits), parts(b, bits), strict=True)
    return low(c + sum(np.where(y == 0, 0, abs(x - y)) if masked else abs(x - y) for x, y in pairs))


def quad(a: Array, b: Array, c: Array, masked: bool) -> Array:
    found = np.zeros(len(a), np.uint64)
    for n in range(4):
        sums = (c >> np.uint64(16 * n) & np.uint64(0xFFFF)).astype(np.uint32)
        one = sad(low(a >> np.uint64(8 * n)), b, sums, 8, masked)
        found |= (one.astype(np.uint64) & np.uint64(0xFFFF)) << np.uint64(16 * n)
    return found


def lerp(a: Array, b: Array, c: Array) -> Array:
    each = enumerate(zip(*(parts(v, 8) for v in (a, b, c)), strict=True))
    return low(sum((x + y + (z & 1) >> 1) << 8 * n for n, (x, y, z) in each))


def field(a: Array, offsets: Array, widths: Array) -> Array:
    def one(x: int, offset: int, width: int) -> int:
        if width == 0:
            return 0
        if offset + width >= 32:
            return x >> offset
        kept = x << (32 - offset - width) & 0xFFFFFFFF
        negative = a.dtype == np.int32 and kept >> 31
        return (kept - (1 << 32) if negative else kept) >> (32 - width)

    return np.array(
        [one(int(x), int(n) & 31, int(w) & 31) for x, n, w in zip(a, offsets, widths, strict=True)], a.dtype
    )


def aligned(a: Array, b: Array, n: Array) -> Array:
    return low((a.astype(np.uint64) << np.uint64(32) | b) >> n.astype(np.uint64))


SIGNED = [x.view(np.int32) for x in (A, B, C)]
FLOATS = [x.astype(np.float32) for x in SIGNED]
MASKS = low(((np.uint64(1) << (A & 31).astype(np.uint64)) - np.uint64(1)) << (B & 31).astype(np.uint64))
CASES: list[tuple[str, str, Array]] = [
    ("uint", "amd_bitalign(a, b, c)", aligned(A, B, C & 31)),
    ("uint", "amd_bytealign(a, b, c)", aligned(A, B, (C & 3) * 8)),
    ("uint", "amd_lerp(a, b, c)", lerp(A, B, C)),
    ("uint", "amd_sad(a, b, c)", sad(A, B, C)),
    ("uint", "amd_sadhi(a, b, c)", low((sad(A, B, C * 0).astype(np.uint64) << np.uint64(16)) + C)),
    ("uint", "amd_msad(a, b, c)", sad(A, B, C, masked=True)),
    ("uint", "amd_sadw(a, b, c)", sad(A, B, C, 16)),
    ("uint", "amd_sadd(a, b, c)", sad(A, B, C, 32)),
    ("uint", "amd_bfm(a, b)", MASKS),
    ("uint", "amd_bfe(a, b, c)", field(A, B, C)),
    ("int", "amd_bfe(i, b, c)", field(SIGNED[0], B, C)),
    ("ulong", "amd_qsad(wa, b, wc)", quad(WIDE_A, B, WIDE_C, False)),
    ("ulong", "amd_mqsad(wa, b, wc)", quad(WIDE_A, B, WIDE_C, True)),
    *(("float", f"amd_unpack{n}(a)", parts(A, 8)[n].astype(np.float32)) for n in range(4)),
]
for _type, _letters, _values in (
    ("uint", "a, b, c", [A, B, C]),
    ("int", "i, j, k", SIGNED),
    ("float", "x, y, z", FLOATS),
):
    _sorted = np.sort(np.array(_values), axis=0)
    CASES += [(_type, f"amd_{name}({_letters})", _sorted[at]) for at, name in enumerate(("min3", "median3", "max3"))]
READ = """
    uint# a = {0}(n, A), b = {0}(n, B), c = {0}(n, C);
    ulong# wa = convert_ulong#(a) << 32 | convert_ulong#(b), wc = convert_ulong#(c) << 32 | convert_ulong#(a);
    int# i = as_int#(a), j = as_int#(b), k = as_int#(c);
    float# x = convert_float#(i), y = convert_float#(j), z = convert_float#(k);
"""


def source(size: int) -> str:
    """A kernel that stores the results of all functions one after the other, for vectors of a size."""
    suffix = "" if size == 1 else str(size)
    body = READ.format(f"vload{suffix}").replace("#", suffix)
    if size == 1:
        body = body.replace("vload(n, A)", "A[n]").replace("vload(n, B)", "B[n]").replace("vload(n, C)", "C[n]")
    at = 0
    for kind, expression, right in CASES:
        place = f"(global {kind} *)(out + {at}) + n * {size}"
        body += f"    *({place}) = {expression};\n" if size == 1 else f"    vstore{suffix}({expression}, 0, {place});\n"
        at += right.nbytes
    return (
        "kernel void k(global const uint *A, global const uint *B, global const uint *C, global uchar *out)\n"
        f"{{\n    int n = get_global_id(0);\n{body}}}"
    )


@pytest.mark.slow
@pytest.mark.parametrize(("agent", "size"), [("gfx900", 1), ("gfx803", 4), ("gfx700", 16), ("gfx906", 2)])
def test_functions_of_all_widths(agent: str, size: int) -> None:
    if not compilers():
        pytest.skip("no compiler for OpenCL C is installed")
    out = np.zeros(sum(right.nbytes for _, _, right in CASES), np.uint8)
    with Gpu.open(agent, threads=1) as gpu:
        gpu.run(gpu.compile(source(size)), "k", COUNT // size, args=[A, B, C, out])
    at = 0
    for kind, expression, right in CASES:
        found = out[at : at + right.nbytes].view(right.dtype)
        assert np.array_equal(found, right), f"{kind}{size} {expression}"
        at += right.nbytes


MORE = """
#if !defined(cl_amd_media_ops) || !defined(cl_amd_media_ops2)
#error
#endif
kernel void k(global uint *out, float4 x, uint4 a, uint4 b)
{
    uint3 three = amd_bitalign((uint3)(1, 2, 3), (uint3)(4, 5, 6), (uint3)(1, 2, 3));
    int8 eight = amd_bfe((int8)(-256), (uint8)(8), (uint8)(4));
    out[0] = amd_pack(x);
    out[1] = amd_sad4(a, b, 100u);
    out[2] = three.z;
    out[3] = as_uint(eight.s7);
}
"""


@pytest.mark.slow
def test_bytes_of_floats_and_sums_of_four() -> None:
    if not compilers():
        pytest.skip("no compiler for OpenCL C is installed")
    out, a, b = np.zeros(4, np.uint32), A[:4], B[:4]
    with Gpu.open("gfx900", threads=1) as gpu:
        gpu.run(gpu.compile(MORE), "k", 1, args=[out, np.array([1.9, 255, 0, 128.5], np.float32), a, b])
    sums = sum(int(each) for each in sad(a, b, a * 0))
    assert out.tolist() == [0x8000FF01, 100 + sums, (3 << 29 | 6 >> 3) & 0xFFFFFFFF, 0xFFFFFFFF]
