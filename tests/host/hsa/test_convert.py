"""Conversions of OpenCL C: every type to every other, every rounding mode, saturated or not, at the edges."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from softcard.host.hsa.compile import compilers
from softcard.host.hsa.gpu import Gpu

pytestmark = pytest.mark.oracle

INTEGERS = {
    "char": np.int8, "uchar": np.uint8, "short": np.int16, "ushort": np.uint16,
    "int": np.int32, "uint": np.uint32, "long": np.int64, "ulong": np.uint64,
}  # fmt: skip
FLOATS = {"half": np.float16, "float": np.float32, "double": np.float64}
TYPES = INTEGERS | FLOATS
MODES = ("", "_rte", "_rtz", "_rtp", "_rtn")


def whole(value: Fraction, mode: str) -> int:
    """A number rounded to a whole one; towards zero by default."""
    if mode == "_rte":
        return round(value)
    return {"_rtp": math.ceil, "_rtn": math.floor}.get(mode, math.trunc)(value)


def representable(value: Fraction, dtype: type, mode: str) -> float:
    """A number rounded to a floating-point type; to nearest even by default."""
    info = np.finfo(dtype)
    if value == 0:
        return 0.0
    exponent = max(math.frexp(float(abs(value)))[1] - 1, info.minexp)
    exponent -= 1 if abs(value) < Fraction(2) ** exponent and exponent > info.minexp else 0
    unit = Fraction(2) ** (exponent - info.nmant)
    found = whole(value / unit, mode or "_rte") * unit
    if abs(found) > Fraction(float(info.max)):
        toward_zero = mode == "_rtz" or (mode == "_rtp" and value < 0) or (mode == "_rtn" and value > 0)
        return math.copysign(float(info.max) if toward_zero else math.inf, value)
    return float(found)


def converted(value: float | int, kind: str, mode: str, saturates: bool) -> float | int | None:
    """Return the result of a conversion; None if OpenCL leaves it open."""
    if kind in FLOATS:
        return value if not math.isfinite(value) else representable(Fraction(value), FLOATS[kind], mode)
    info = np.iinfo(INTEGERS[kind])
    if not math.isfinite(value):
        return None if not saturates else 0 if math.isnan(value) else int(info.max if value > 0 else info.min)
    found = whole(Fraction(value), mode)
    if info.min <= found <= info.max:
        return found
    return min(max(found, int(info.min)), int(info.max)) if saturates else None


def edges(kind: str) -> np.ndarray:
    """Numbers of a type at which conversions to others change what they do."""
    if kind in INTEGERS:
        info = np.iinfo(INTEGERS[kind])
        near = [s * (1 << b) + d for b in range(66) for s in (1, -1) for d in (-1, 0, 1)]
        near += [
            (1 << b) + (1 << max(b - k, 0)) + d for b in range(63) for k in (11, 12, 24, 25, 53) for d in (-1, 0, 1)
        ]
        return np.array(sorted({v for v in near if info.min <= v <= info.max}), INTEGERS[kind])
    values = [s * (2.0**b + d) for b in (-25, -14, -1, 0, 1, 7, 8, 11, 15, 16, 31, 32, 53, 63, 64, 127)
              for s in (1, -1) for d in (-1, -0.5, 0, 0.25, 0.5, 1, 1.5)]  # fmt: skip
    values += [0.1, 1 / 3, 65504, 65519.9, 65520, 1e-8, 1e300, math.inf, -math.inf, math.nan]
    with np.errstate(over="ignore"):
        return np.array(values, FLOATS[kind])


@pytest.mark.slow
@pytest.mark.one_in(18)
@pytest.mark.parametrize("agent", ["gfx900", "gfx700"])
@pytest.mark.parametrize("source", TYPES)
def test_conversions(agent: str, source: str) -> None:
    if not compilers():
        pytest.skip("no compiler for OpenCL C is installed")
    names = [
        (kind, saturation + mode)
        for kind in TYPES
        for saturation in (("", "_sat") if kind in INTEGERS else ("",))
        for mode in MODES
    ]
    words = [f"kernel void k(global const {source} *x, global uchar *out, int n) {{ int i = get_global_id(0);"]
    for number, (kind, name) in enumerate(names):
        size = np.dtype(TYPES[kind]).itemsize
        words.append(f"*(global {kind} *)(out + 8 * (n * {number} + i)) = convert_{kind}{name}(x[i]);  // {size}")
    values = edges(source)
    out = np.zeros((len(names), len(values)), np.uint64)
    with Gpu.open(agent, threads=1) as gpu:
        gpu.run(gpu.compile("\n".join([*words, "}"])), "k", len(values), 64, [values, out.view(np.uint8), len(values)])
    wrong = []
    for (kind, name), row in zip(names, out, strict=True):
        found = row.view(TYPES[kind])[:: 8 // np.dtype(TYPES[kind]).itemsize]
        for value, result in zip(values.tolist(), found.tolist(), strict=True):
            expected = converted(value, kind, name.removeprefix("_sat"), name.startswith("_sat"))
            flushed = agent < "gfx900" and "float" in (kind, source) and result == 0
            small = flushed and (abs(value) < 2.0**-126 or abs(expected or 0) < 2.0**-126)
            if expected is not None and result != expected and result == result and not small:
                wrong.append(f"convert_{kind}{name}({source} {value!r}) = {result!r}, expected {expected!r}")
    assert not wrong, "\n".join([f"{len(wrong)} are wrong", *wrong[:20]])


def test_conversions_of_vectors() -> None:
    if not compilers():
        pytest.skip("no compiler for OpenCL C is installed")
    source = """
    kernel void k(global const float *x, global uchar *out)
    {
        vstore16(convert_uchar16_sat_rte(vload16(0, x)), 0, out);
        vstore3(convert_uchar3_sat(convert_int3_rtn(vload3(0, x))), 0, out + 16);
    }
    """
    values, out = np.linspace(-20, 300, 16, dtype=np.float32), np.zeros(19, np.uint8)
    with Gpu.open("gfx900", threads=1) as gpu:
        gpu.run(gpu.compile(source), "k", 1, args=[values, out])
    assert out[:16].tolist() == np.clip(np.rint(values), 0, 255).tolist()
    assert out[16:].tolist() == np.clip(np.floor(values[:3]), 0, 255).tolist()
