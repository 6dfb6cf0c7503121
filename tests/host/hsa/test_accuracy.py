"""Mathematical functions of OpenCL C are as near to mpmath's as the docs say: docs/opencl.md is where limits stand."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path

import mpmath
import numpy as np
import pytest

from softcard.host.hsa.compile import compilers
from softcard.host.hsa.executable import Executable
from softcard.host.hsa.gpu import Gpu

pytestmark = pytest.mark.oracle

DOCS = Path(__file__).parents[3] / "docs" / "opencl.md"
ROWS = re.findall(r"^\| (`.*?) \| ([\d.]+) \| ([\d.]+) \| .*\|$", DOCS.read_text("utf-8"), re.MULTILINE)
LIMITS = {name: (float(low), float(high)) for names, low, high in ROWS for name in re.findall(r"`(\w+)`", names)}
KINDS = {"float": np.float32, "double": np.float64}
M = mpmath
Inputs = Callable[[np.random.Generator, int], np.ndarray]


def between(low: float, high: float) -> Inputs:
    return lambda rng, n: rng.uniform(low, high, n)


def powers(low: float, high: float, *, signed: bool = True, plus: float = 0.0) -> Inputs:
    """Numbers of all sizes, from 2^low to 2^high."""
    return lambda rng, n: plus + np.exp2(rng.uniform(low, high, n)) * np.where(signed & (rng.random(n) < 0.5), -1, 1)


def odd(rng: np.random.Generator, n: int) -> np.ndarray:
    return (rng.integers(-40, 40, n) * 2 + 1).astype(np.int32)


NEAR_ONE, POSITIVE, ANGLES = between(0.5, 2), powers(-1070, 1023, signed=False), [between(-10, 10), powers(-30, 1023)]
UNIT, TURNS = [between(-1, 1), powers(-30, 0)], [between(-10, 10), powers(-30, 49)]
ONE: dict[str, tuple[Callable[..., object], list[Inputs]]] = {
    "exp": (M.exp, [between(-745, 709.7)]),
    "exp2": (lambda x: M.mpf(2) ** x, [between(-1074, 1023.9)]),
    "exp10": (lambda x: M.mpf(10) ** x, [between(-323, 308)]),
    "expm1": (M.expm1, [between(-3, 3), powers(-60, 9)]),
    "log": (M.log, [NEAR_ONE, POSITIVE]),
    "log2": (lambda x: M.log(x) / M.log(2), [NEAR_ONE, POSITIVE]),
    "log10": (lambda x: M.log(x) / M.log(10), [NEAR_ONE, POSITIVE]),
    "log1p": (M.log1p, [between(-0.99, 2), powers(-60, 1000, signed=False)]),
    "cbrt": (lambda x: M.sign(x) * M.cbrt(abs(x)), [powers(-1070, 1023)]),
    "rsqrt": (lambda x: 1 / M.sqrt(x), [POSITIVE]),
    "sin": (M.sin, ANGLES),
    "cos": (M.cos, ANGLES),
    "tan": (M.tan, ANGLES),
    "sinpi": (M.sinpi, TURNS),
    "cospi": (M.cospi, TURNS),
    "tanpi": (lambda x: M.sinpi(x) / M.cospi(x) if M.cospi(x) else M.inf, TURNS),
    "asin": (M.asin, UNIT),
    "acos": (M.acos, UNIT),
    "atan": (M.atan, [powers(-40, 60)]),
    "asinpi": (lambda x: M.asin(x) / M.pi, UNIT),
    "acospi": (lambda x: M.acos(x) / M.pi, UNIT),
    "atanpi": (lambda x: M.atan(x) / M.pi, [powers(-40, 60)]),
    "sinh": (M.sinh, [between(-710, 710), powers(-30, 2)]),
    "cosh": (M.cosh, [between(-710, 710), powers(-30, 2)]),
    "tanh": (M.tanh, [powers(-30, 6)]),
    "asinh": (M.asinh, [powers(-40, 1000)]),
    "acosh": (M.acosh, [powers(-50, 1000, signed=False, plus=1.0)]),
    "atanh": (M.atanh, UNIT),
    "erf": (M.erf, [between(-6, 6), powers(-40, 3)]),
    "erfc": (M.erfc, [between(-6, 26.5), powers(-40, 3)]),
    "tgamma": (M.gamma, [between(-170, 171), between(-6, 6)]),
    "lgamma": (lambda x: M.loggamma(x), [between(0.5, 50), powers(-1, 900, signed=False)]),
}
TWO: dict[str, tuple[Callable[..., object], list[Inputs]]] = {
    "pow": (lambda x, y: x**y, [powers(-20, 20, signed=False), between(-40, 40)]),
    "powr": (lambda x, y: x**y, [between(0.9, 1.1), between(-4000, 4000)]),
    "pown": (lambda x, n: x ** int(n), [powers(-20, 20), odd]),
    "rootn": (lambda x, n: M.sign(x) * abs(x) ** (1 / M.mpf(int(n))), [powers(-120, 120), odd]),
    "hypot": (M.hypot, [powers(-1000, 1000), powers(-1000, 1000)]),
    "atan2": (M.atan2, [powers(-40, 40), powers(-40, 40)]),
    "atan2pi": (lambda y, x: M.atan2(y, x) / M.pi, [powers(-4, 4), powers(-4, 4)]),
    "length": (M.hypot, [powers(-500, 500), powers(-500, 500)]),
    "distance": (lambda x, y: abs(x - y), [between(-9, 9), between(-9, 9)]),
}
CALLS = {"length": "length(({kind}2)(x[i], y[i]))"}


def source(name: str, kind: str) -> str:
    second = f", global const {'int' if name in ('pown', 'rootn') else kind} *y" if name in TWO else ""
    call = CALLS.get(name, f"{name}(x[i]{', y[i]' if second else ''})").format(kind=kind)
    words = f"global const {kind} *x{second}, global {kind} *out"
    return f"kernel void {name}_{kind}({words}) {{ int i = get_global_id(0); out[i] = {call}; }}"


def ulps(found: np.floating, exact: object) -> float:
    """Return the error in units of the last place of the exact result."""
    info = np.finfo(found.dtype)
    value = M.mpf(exact)
    if not np.isfinite(found):
        return 0.0 if abs(value) >= M.mpf(float(info.max)) else float("inf")
    if value == 0:
        return 0.0 if found == 0 else float("inf")
    exponent = max(M.floor(M.log(abs(value), 2)), info.minexp)
    return float(abs(M.mpf(float(found)) - value) / M.mpf(2) ** (exponent - info.nmant))


@pytest.fixture(scope="module")
def loaded() -> Iterator[tuple[Gpu, Executable]]:
    if not compilers():
        pytest.skip("no compiler for OpenCL C is installed")
    with Gpu.open("gfx900", threads=1) as gpu:
        yield gpu, gpu.compile("\n".join(source(name, kind) for name in ONE | TWO for kind in KINDS))


def test_every_documented_function_is_measured() -> None:
    assert set(LIMITS) == ONE.keys() | TWO.keys()


@pytest.mark.one_in(2)
@pytest.mark.parametrize("count", [16, 2000])
@pytest.mark.parametrize("name", ONE | TWO)
def test_accuracy(loaded: tuple[Gpu, Executable], name: str, count: int) -> None:
    wrong = [line for kind in KINDS for line in beyond_limits(*loaded, name, kind, count)]
    assert not wrong, "\n".join(wrong[:10])


def beyond_limits(gpu: Gpu, code: Executable, name: str, kind: str, count: int) -> Iterator[str]:
    """Results that are further away than the docs say."""
    rng = np.random.default_rng(len(name))
    exact, inputs = (ONE | TWO)[name]
    with np.errstate(over="ignore", under="ignore"):
        if name in TWO:
            given = [make(rng, count) for make in inputs]
        else:
            given = [np.concatenate([make(rng, count // len(inputs)) for make in inputs])]
        given = [each if each.dtype == np.int32 else each.astype(KINDS[kind]) for each in given]
    out = np.zeros(len(given[0]), KINDS[kind])
    gpu.run(code, f"{name}_{kind}", len(out), 64, [*given, out])
    limit = LIMITS[name][kind == "double"]
    with M.workdps(60):
        for *values, found in zip(*given, out, strict=True):
            if all(np.isfinite(values)) and values[0] != 0:
                away = ulps(found, exact(*(M.mpf(float(each)) for each in values)))
                if away > limit:
                    yield f"{name}({', '.join(map(repr, values))}) = {found!r}: {away:.3g} ULPs"


EXACT = """
kernel void exact(global const double *x, global const double *y, global double *out)
{
    int i = get_global_id(0), n = get_global_size(0), q, e;
    double whole;
    out[i] = fmod(x[i], y[i]), out[n + i] = remainder(x[i], y[i]), out[2 * n + i] = remquo(x[i], y[i], &q);
    out[3 * n + i] = q, out[4 * n + i] = frexp(x[i], &e), out[5 * n + i] = e, out[6 * n + i] = modf(x[i], &whole);
    out[7 * n + i] = whole, out[8 * n + i] = nextafter(x[i], y[i]), out[9 * n + i] = logb(x[i]);
}
"""


def test_functions_that_are_exact(loaded: tuple[Gpu, Executable]) -> None:
    """Remainders of numbers of all sizes, ties among them; parts of numbers; denormals."""
    rng, gpu = np.random.default_rng(1), loaded[0]
    x, y = (np.concatenate([powers(-1070, 1020)(rng, 128), between(-100, 100)(rng, 128)]) for _ in range(2))
    x[:64] = y[:64] * rng.integers(-20, 20, 64) * 0.5
    x[64:67] = 5e-324, 1.0, -3.0
    out = gpu.zeros((10, len(x)), np.float64)
    gpu.run(gpu.compile(EXACT), "exact", len(x), 64, [x, y, out])
    quotients = [round(Fraction(a) / Fraction(b)) for a, b in zip(x.tolist(), y.tolist(), strict=True)]
    rest = np.array([math.remainder(a, b) for a, b in zip(x.tolist(), y.tolist(), strict=True)])
    mantissa, exponent = np.frexp(x)
    fraction, whole = np.modf(x)
    low = [(abs(each) & 127) * (1 if each >= 0 else -1) for each in quotients]
    with np.errstate(divide="ignore"):
        logb = np.where(x == 0, -np.inf, exponent - 1.0)
    expected = [np.fmod(x, y), rest, rest, low, mantissa, exponent, fraction, whole, np.nextafter(x, y), logb]
    for number, values in enumerate(expected):
        assert np.array_equal(out[number], values), number
