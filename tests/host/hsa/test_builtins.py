"""OpenCL C's built-in functions in kernels of one line, on both engines; expected is what NumPy, mpmath, Python say."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Final

import mpmath
import numpy as np
import pytest

from softcard.host.hsa.compile import compilers
from softcard.host.hsa.gpu import Gpu, Local

pytestmark = pytest.mark.oracle

ITEMS, GROUP = 192, 96
"""Work-groups of a whole wave and half a one."""
AGENTS = ("gfx700", "gfx803", "gfx900", "gfx906", "gfx908", "gfx90a", "gfx942")
ID = np.arange(ITEMS)
X = (np.sin(ID * 0.7) * 9).astype(np.float32)
"""The argument `x` of kernels."""
N = ((ID * 2654435761) % 2**32).astype(np.uint32).view(np.int32)
"""The argument `n` of kernels."""


def exactly(function: Callable[..., Any], *values: Any) -> np.ndarray:
    """A function of mpmath, rounded to double."""
    with mpmath.workdps(40):
        rows = zip(*map(np.ndarray.tolist, values), strict=True)
        return np.array([float(function(*map(mpmath.mpf, each))) for each in rows])


def by_group(function: Callable[[list[Any]], Any], values: np.ndarray, size: int = GROUP) -> np.ndarray:
    """Apply a function to the values of each work-group in their order; return its result for each work-item."""
    parts = [row[at : at + size].tolist() for row in values.reshape(-1, GROUP) for at in range(0, GROUP, size)]
    return np.concatenate([np.broadcast_to(np.array(function(part)), len(part)) for part in parts])


@dataclass(frozen=True)
class Line:
    """A kernel of one line: what it leaves in `out[i]`, or does instead; ULPs that it may be away from `expected`."""

    code: str
    kind: str
    expected: Any
    ulps: int = 0

    def source(self, name: str) -> str:
        words = f"global const float *x, global const int *n, global {self.kind} *out, local int *l"
        body = self.code if self.code.endswith(("}", ";")) else f"out[i] = {self.code};"
        return f"kernel void {name}({words}) {{ int i = get_global_id(0); {body} }}"


def wrap(values: Any, dtype: Any = np.int32) -> np.ndarray:
    """Whole numbers as C's of that type."""
    bits = np.dtype(dtype).itemsize * 8
    return np.array([int(each) & ((1 << bits) - 1) for each in values], f"u{bits // 8}").view(dtype)


def ballot_sums(wave: list[int]) -> list[int]:
    """Return what the kernel `sub_group_ballot` stores for the values of a wave."""
    bits = [value & 1 for value in wave]
    word = sum(bit << j for j, bit in enumerate(bits))
    ends = 13 * bits.index(1) + 17 * (word.bit_length() - 1)
    fixed = (word & 0xFFFFFFFF) + 3 * (word >> 32) + 5 * sum(bits) + ends + 23 * bits[9]
    return [fixed + 7 * sum(bits[: j + 1]) + 11 * sum(bits[:j]) + 19 * bits[j] for j in range(len(wave))]


def mask_sums(wave: list[int]) -> list[int]:
    """Return what the kernel `sub_group_masks` stores for each work-item of a wave."""
    every, sums = 2**64 - 1, []
    for j in range(len(wave)):
        equal, less = 1 << j, (1 << j) - 1
        masks = [(equal, 3), (every & ~less, 5), (every & ~less & ~equal, 7), (less | equal, 11), (less, 13)]
        sums.append(sum(factor * ((mask & 0xFFFFFFFF) + 17 * (mask >> 32)) for mask, factor in masks))
    return sums


def signed_field(value: int, offset: int, count: int) -> int:
    """Return `count` bits of a number as a signed number."""
    field = value >> offset & (1 << count) - 1
    return field - (1 << count) if count and field >> count - 1 else field


def bytes_of(value: int, signed: bool) -> list[int]:
    """Return the four bytes of a number, the lowest first."""
    each = [value >> at & 0xFF for at in (0, 8, 16, 24)]
    return [one - 256 if signed and one > 127 else one for one in each]


def dots(value: int, i: int) -> int:
    """Return what the kernel `dot_of_bytes` stores."""
    signed, unsigned, other = (
        bytes_of(value, True),
        bytes_of(value, False),
        [*wrap([i], np.int8).tolist(), -3, 127, -128],
    )
    packed = (0xFF, 0x80, 0xFF, 0x01)
    products = [(signed, other, 1), (unsigned, [200] * 4, 3), (unsigned, other, 5), (signed, packed, 7)]
    return sum(factor * sum(a * b for a, b in zip(one, two, strict=True)) for one, two, factor in products)


ABS = np.abs(X)
N64 = N.astype(np.int64)
HALF = X.astype(np.float16)
LINES = {
    "sqrt": Line("sqrt(fabs(x[i]))", "float", exactly(mpmath.sqrt, ABS), 3),
    "exp": Line("exp(x[i])", "float", exactly(mpmath.exp, X), 1),
    "log": Line("log(fabs(x[i]) + 1)", "float", exactly(mpmath.log, ABS + 1), 1),
    "pow": Line("pow(fabs(x[i]), 2.7f)", "float", exactly(lambda a: a ** mpmath.mpf(float(np.float32(2.7))), ABS), 1),
    "sin": Line("sin(x[i] * 1e30f)", "float", exactly(mpmath.sin, X * np.float32(1e30)), 1),
    "cos": Line("cos(x[i])", "float", exactly(mpmath.cos, X), 1),
    "tan": Line("tan(x[i])", "float", exactly(mpmath.tan, X), 1),
    "tanh": Line("tanh(x[i])", "float", exactly(mpmath.tanh, X), 1),
    "atan2": Line("atan2(x[i], -2.0f)", "float", exactly(lambda a: mpmath.atan2(a, -2), X), 1),
    "erf": Line("erf(x[i] / 4)", "float", exactly(mpmath.erf, X / 4), 1),
    "tgamma": Line("tgamma(x[i])", "float", exactly(lambda a: mpmath.gamma(a) if a else mpmath.inf, X), 1),
    "fma": Line("fma(x[i], x[i], -1.0f)", "float", exactly(lambda a: a * a - 1, X)),
    "fmod": Line("fmod(x[i], 0.3f)", "float", np.fmod(X, np.float32(0.3))),
    "ldexp": Line("ldexp(x[i], 5)", "float", X * 32),
    "frexp": Line("{ int e; float m = frexp(x[i], &e); out[i] = m * 128 + e; }", "float",
                  np.frexp(X)[0] * np.float32(128) + np.frexp(X)[1].astype(np.float32)),
    "clamp": Line("clamp(x[i], -1.5f, 2.5f)", "float", np.clip(X, -1.5, 2.5)),
    "mix": Line("mix(x[i], 4.0f, 0.5f)", "float", X + (4 - X) * np.float32(0.5)),
    "smoothstep": Line("smoothstep(0.0f, 4.0f, x[i])", "float",
                       (lambda t: t * t * (3 - 2 * t))(np.clip(X / 4, 0, 1).astype(np.float64)), 2),
    "dot": Line("dot((float4)(x[i], 1, 2, 3), (float4)(x[i], x[i], 1, 2))", "float",
                X.astype(np.float64) ** 2 + X.astype(np.float64) + 8),
    "normalize": Line("normalize((float2)(x[i], 3)).y", "float", exactly(lambda a: 3 / mpmath.sqrt(a * a + 9), X), 3),
    "isnan": Line("isnan(x[i] / (i % 3)) * 2 + isinf(x[i] / (i % 3))", "int",
                  np.where(ID % 3 == 0, np.where(X == 0, 2, 1), 0)),
    "select": Line("select(x[i], 7.0f, n[i] & 4)", "float", np.where(N & 4, np.float32(7), X)),
    "bitselect": Line("bitselect(n[i], ~n[i], 0x0f0f0f0f)", "int", N ^ 0x0F0F0F0F),
    "any_all": Line("any((int2)(n[i], 0)) * 2 + all((int2)(n[i], -1))", "int", np.where(N < 0, 3, 0)),
    "mul_hi": Line("mul_hi(n[i], 0x12345678)", "int", N64 * 0x12345678 >> 32),
    "mad_sat": Line("mad_sat(n[i], 3, n[i])", "int", np.clip(N64 * 4, -(2**31), 2**31 - 1)),
    "rotate": Line("rotate(n[i], 9)", "int", wrap((v & 0xFFFFFFFF) << 9 | (v & 0xFFFFFFFF) >> 23 for v in N.tolist())),
    "clz": Line("clz(n[i] >> (i & 31)) * 100 + popcount(n[i])", "int",
                [(32 - (v >> (i & 31) & 0xFFFFFFFF).bit_length()) * 100 + (v & 0xFFFFFFFF).bit_count()
                 for i, v in enumerate(N.tolist())]),
    "hadd": Line("hadd(n[i], 2147483647) ^ rhadd(n[i], -5)", "int", (N64 + 2147483647 >> 1) ^ (N64 - 5 + 1 >> 1)),
    "upsample": Line("upsample((short)n[i], (ushort)i)", "int", wrap((v << 16 | i) for i, v in enumerate(N.tolist()))),
    "saturation": Line("add_sat((uint)n[i], 0xfffe795fu) ^ sub_sat((uint)n[i], 0x7ffe795fu)", "uint",
                       [min((v & 0xFFFFFFFF) + 0xFFFE795F, 2**32 - 1) ^ max((v & 0xFFFFFFFF) - 0x7FFE795F, 0)
                        for v in N.tolist()]),
    "abs_diff": Line("abs_diff(n[i], -7)", "uint", np.abs(N64 + 7)),
    "convert_sat": Line("convert_uchar_sat_rte(x[i] * 40)", "uchar", np.clip(np.rint(X * np.float32(40)), 0, 255)),
    "convert_mode": Line("convert_float_rtp(n[i])", "float",
                         [float(np.nextafter(np.float32(v), np.float32(np.inf))) if int(np.float32(v)) < v
                          else float(np.float32(v)) for v in N.tolist()]),
    "half": Line("as_ushort((half)((half)x[i] * (half)x[i]))", "int", (HALF * HALF).view(np.uint16)),
    "vload_half": Line("{ half h; vstore_half_rtz(x[i], 0, &h); out[i] = vload_half(0, &h); }", "float",
                       np.where(np.abs(HALF.astype(np.float32)) > ABS, np.nextafter(HALF, np.float16(0)), HALF)),
    "shuffle": Line("convert_int(shuffle2((int4)(n[i], 1, 2, 3), (int4)(4, 5, 6, i), (uint2)(7, i & 3)).y)", "int",
                    np.choose(ID & 3, [N, 1, 2, 3])),
    "vload": Line("vload4(i / 4, n).w + vload3(0, n).z", "int", wrap(N64[ID // 4 * 4 + 3] + N64[2])),
    "atomic_add": Line("atomic_add(out + (i & 3), n[i]);", "int",
                       np.append(wrap(N64.reshape(-1, 4).sum(axis=0)), np.zeros(ITEMS - 4, np.int32))),
    "atomic_explicit": Line(
        "atomic_fetch_max_explicit((global atomic_int *)out, n[i], memory_order_relaxed, memory_scope_device);",
        "int", np.append(N.max(), np.zeros(ITEMS - 1, np.int32))),
    "atomic_work_item_fence": Line(
        "out[i] = i; atomic_work_item_fence(CLK_GLOBAL_MEM_FENCE, memory_order_release, memory_scope_device);",
        "int", ID),
    "work_group_reduce": Line("work_group_reduce_add(n[i]) ^ work_group_any(i == 5)", "int",
                              wrap(by_group(sum, N64)) ^ (ID < GROUP)),
    "work_group_scan": Line("work_group_scan_exclusive_max(n[i])", "int",
                            np.concatenate([[-(2**31), *accumulate(row[:-1], max)]
                                            for row in N.reshape(-1, GROUP).tolist()])),
    "work_group_broadcast": Line("work_group_broadcast(x[i], 70)", "float", X.reshape(-1, GROUP)[ID // GROUP, 70]),
    "sub_group_reduce": Line("sub_group_reduce_min(n[i]) ^ get_sub_group_size()", "int",
                             by_group(lambda wave: min(wave) ^ len(wave), N, 64)),
    "sub_group_ballot": Line(
        "{ uint4 b = sub_group_ballot(n[i] & 1); out[i] = b.x + 3 * b.y + 5 * sub_group_ballot_bit_count(b)"
        " + 7 * sub_group_ballot_inclusive_scan(b) + 11 * sub_group_ballot_exclusive_scan(b)"
        " + 13 * sub_group_ballot_find_lsb(b) + 17 * sub_group_ballot_find_msb(b)"
        " + 19 * sub_group_inverse_ballot(b) + 23 * sub_group_ballot_bit_extract(b, 9); }",
        "uint", wrap(by_group(ballot_sums, N64, 64), np.uint32)),
    "sub_group_masks": Line(
        "{ uint4 e = get_sub_group_eq_mask(), a = get_sub_group_ge_mask(), b = get_sub_group_gt_mask();"
        " uint4 c = get_sub_group_le_mask(), d = get_sub_group_lt_mask(); e = e * 3 + a * 5 + b * 7 + c * 11 + d * 13;"
        " out[i] = e.x + 17 * e.y + e.z + e.w; }", "uint", wrap(by_group(mask_sums, N64, 64), np.uint32)),
    "sub_group_vote": Line(
        "{ int r = 0; if (i % 3) r = sub_group_elect() + 2 * sub_group_non_uniform_any(i == 5)"
        " + 4 * sub_group_non_uniform_all(i % 3); out[i] = r; }", "int",
        np.where(ID % 3, 4 + 2 * (ID < 64) + np.isin(ID, (1, 64, 97, 160)), 0)),
    "sub_group_logical": Line(
        "sub_group_non_uniform_reduce_logical_and(i != 7) + 2 * sub_group_non_uniform_scan_exclusive_logical_or(i == 9)"
        " + 4 * sub_group_clustered_reduce_logical_xor(i == 3, 4u)", "int",
        (ID >= 64) + 2 * ((ID > 9) & (ID < 64)) + 4 * (ID < 4)),
    "bit_reverse": Line("bit_reverse(n[i]) ^ bit_reverse((uchar2)(1, i)).y ^ (int)bit_reverse((long)n[i] << 32)", "int",
                        wrap(int(f"{i:08b}"[::-1], 2) for i in range(ITEMS))),
    "bit_reverse_short": Line("bit_reverse((ushort)i) + 65536 * bit_reverse((short)1)", "int",
                              wrap(int(f"{i:016b}"[::-1], 2) - (1 << 31) for i in range(ITEMS))),
    "bitfield_extract": Line(
        "bitfield_extract_signed(n[i], i & 15, i >> 4) + bitfield_extract_unsigned((long2)(0, n[i]), 40u, i & 15).y"
        " * 65536", "int",
        wrap(signed_field(v, i & 15, i >> 4) + (v >> 40 & (1 << (i & 15)) - 1) * 65536
             for i, v in enumerate(N.tolist()))),
    "bitfield_insert": Line(
        "bitfield_insert(n[i], i * 77, i & 15, i >> 4) ^ bitfield_insert((char3)(1, 2, i), (char3)(-1), 2u, 3u).z",
        "int",
        wrap((v & ~((1 << (i >> 4)) - 1 << (i & 15)) | (i * 77 & (1 << (i >> 4)) - 1) << (i & 15))
             ^ int(wrap([i | 28], np.int8)[0]) for i, v in enumerate(N.tolist()))),
    "dot_of_bytes": Line(
        "dot(as_char4(n[i]), (char4)(i, -3, 127, -128)) + dot(as_uchar4(n[i]), (uchar4)(200)) * 3"
        " + dot(as_uchar4(n[i]), (char4)(i, -3, 127, -128)) * 5 + dot_4x8packed_su_int(n[i], 0x01ff80ffu) * 7", "int",
        wrap(dots(v, i) for i, v in enumerate(N.tolist()))),
    "dot_acc_sat": Line(
        "dot_acc_sat(as_char4(n[i]), as_char4(n[i]), INT_MAX - 30000)"
        " ^ dot_acc_sat_4x8packed_uu_uint(n[i], n[i], UINT_MAX - 100000u)", "int",
        wrap(min(sum(b * b for b in bytes_of(v, True)) + 2**31 - 1 - 30000, 2**31 - 1)
             ^ min(sum(b * b for b in bytes_of(v, False)) + 2**32 - 1 - 100000, 2**32 - 1) for v in N.tolist())),
    "generic_pointers": Line(
        "{ float w, c; int q; float *p = i & 1 ? (float *)(l + get_local_id(0)) : &w; int *r = i & 1 ? (int *)&q :"
        " (int *)(l + get_local_id(0)); float f = fract(x[i], p); f += 16 * *p; f += modf(x[i] * 2, p) * 64;"
        " f += *p * 256; f += frexp(x[i], r) * 4; f += *r; float b[6]; float *o = b; vstore4((float4)(f), 0, o);"
        " out[i] = vload3(0, o + 1).y; }", "float",
        (X - np.floor(X)) + 16 * np.floor(X) + np.modf(X * 2)[0] * 64 + np.modf(X * 2)[1] * 256 + np.frexp(X)[0] * 4
        + np.frexp(X)[1], 3),
    "generic_halves": Line(
        "{ half h[4]; half *p = h; vstore_half3((float3)(x[i], 1, 2), 0, p); out[i] = vload_half2(0, (const half *)p).x"
        " + (get_fence(p) == CLK_GLOBAL_MEM_FENCE) + 2 * (get_fence(l) == CLK_LOCAL_MEM_FENCE); }", "float",
        HALF.astype(np.float32) + 3),
    "async_copy": Line(
        "{ event_t e = async_work_group_copy(l, n + get_group_id(0) * 96, 96, 0); wait_group_events(1, &e);"
        " out[i] = l[95 - get_local_id(0)]; }", "int", N.reshape(-1, GROUP)[:, ::-1].ravel()),
    "prefetch": Line("prefetch(n + i, 1); out[i] = n[i];", "int", N),
}  # fmt: skip


KINDS: Final = {"float": np.float32, "double": np.float64, "int": np.int32, "uint": np.uint32, "uchar": np.uint8}


def agrees(found: np.ndarray, expected: Any, ulps: float, flushes: bool) -> np.ndarray:
    """Return where results are within `ulps` of the expected ones; NaN equals NaN, `flushes` accepts 0 for a
    denormal."""
    with np.errstate(invalid="ignore", over="ignore"):
        rounded = np.asarray(expected).astype(found.dtype)
        same = (found == rounded) | ((found != found) & (rounded != rounded))
        if not ulps:
            return same
        same |= np.abs(found.astype(np.float64) - expected) <= ulps * np.spacing(np.abs(rounded))
        return same | flushes & (found == 0) & (np.abs(rounded) < np.finfo(found.dtype).tiny)


@pytest.mark.slow
@pytest.mark.one_in(3)
@pytest.mark.parametrize("engine", ["jit", "reference"])
@pytest.mark.parametrize("agent", AGENTS)
def test_kernels_of_one_line(agent: str, engine: str) -> None:
    if not compilers():
        pytest.skip("no compiler for OpenCL C is installed")
    wrong = []
    with Gpu.open(agent, threads=1, engine=engine) as gpu:
        code = gpu.compile("\n".join(line.source(f"k_{name}") for name, line in LINES.items()))
        for name, line in LINES.items():
            out = np.zeros(ITEMS, KINDS[line.kind])
            gpu.run(code, f"k_{name}", ITEMS, GROUP, [X, N, out, Local(4 * GROUP)])
            fits = agrees(out, np.asarray(line.expected), line.ulps, agent < "gfx900")
            if not fits.all():
                at = int(np.argmin(fits))
                wrong.append(f"{name}[{at}] = {out[at]!r}, expected {np.asarray(line.expected)[at]!r} (x = {X[at]!r})")
    assert not wrong, "\n".join(wrong)


PRINTING = r"""
kernel void k(global const float *x, int n)
{
    int i = get_global_id(0);
    float4 v = (float4)(x[i], 1, 2, 3);
    if (i >= n)
        printf("item %d of %s: %5.2f \\ %v4hlf %c%%\n", i, "a:b", x[i], v, 'A' + i);
}
"""


@pytest.mark.parametrize(("agent", "engine", "version"), [
    ("gfx700", "jit", "V5"), ("gfx803", "reference", "V4"), ("gfx900", "jit", "V2"), ("gfx906", "reference", "V5"),
])  # fmt: skip
def test_printf(agent: str, engine: str, version: str) -> None:
    if not any(version in each.versions for each in compilers()):
        pytest.skip("no compiler for OpenCL C and this version is installed")
    with Gpu.open(agent, threads=1, engine=engine) as gpu:
        result = gpu.run(gpu.compile(PRINTING, version=version), "k", 4, 4, [X, 2])
    assert result.text == "".join(
        f"item {i} of a:b: {X[i]:5.2f} \\ {X[i]:.6f},1.000000,2.000000,3.000000 {chr(65 + i)}%\n" for i in (2, 3)
    )
    assert len(result.printf) == 2 * (4 + 4 + 4 + 4 + 16 + 4)
