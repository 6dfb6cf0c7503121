"""Functions at zeros, infinities, NaNs and poles, as C99 F.9 and OpenCL 7.5.1 have them, for all three formats."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from softcard.host.hsa.compile import compilers
from softcard.hsa import Gpu

pytestmark = pytest.mark.oracle
INF, NAN, PI = math.inf, math.nan, math.pi
Case = tuple[tuple[float, ...], float]


def odd(*pairs: tuple[float, float]) -> list[Case]:
    """Cases of a function with f(-x) = -f(x)."""
    return [((x,), y) for x, y in pairs] + [((-x,), -y) for x, y in pairs]


def even(*pairs: tuple[float, float]) -> list[Case]:
    return [((sign * x,), y) for x, y in pairs for sign in (1, -1)]


def plain(*pairs: tuple[float, float]) -> list[Case]:
    return [((x,), y) for x, y in pairs]


def two(*triples: tuple[float, float, float]) -> list[Case]:
    return [((x, y), z) for x, y, z in triples]


NO_LOG = plain((0.0, -INF), (-0.0, -INF), (1, 0.0), (-1, NAN), (INF, INF), (-INF, NAN), (NAN, NAN))
NO_EXP = even((0.0, 1)) + plain((-INF, 0.0), (INF, INF), (NAN, NAN))
ANGLE = odd((0.0, 0.0)) + even((INF, NAN)) + plain((NAN, NAN))


def angles(unit: float) -> list[Case]:
    """Return cases of atan2, in units of half a turn."""
    found = [
        ((0.0, -0.0), 1), ((0.0, 0.0), 0.0), ((0.0, -1), 1), ((0.0, 1), 0.0), ((2, 0.0), 0.5), ((2, -0.0), 0.5),
        ((2, -INF), 1),
        ((2, INF), 0.0), ((INF, 3), 0.5), ((INF, -3), 0.5), ((INF, -INF), 0.75), ((INF, INF), 0.25),
    ]  # fmt: skip
    every = found + [((-y, x), -z) for (y, x), z in found]
    return [(each, z * unit) for each, z in every] + two((NAN, 1, NAN), (1, NAN, NAN))


REMAINDER = two(
    (0.0, 2, 0.0), (-0.0, 2, -0.0), (0.0, INF, 0.0), (-0.0, INF, -0.0), (3, INF, 3), (-3, -INF, -3), (1, 0.0, NAN),
    (INF, 2, NAN),
    (-INF, 2, NAN), (0.0, NAN, NAN), (NAN, 1, NAN), (0.0, 0.0, NAN), (INF, INF, NAN), (4, 2, 0.0), (-4, 2, -0.0),
)  # fmt: skip
POWER = two(
    (0.0, -3, INF), (-0.0, -3, -INF), (-0.0, -2, INF), (-0.0, -2.5, INF), (0.0, -2.5, INF), (0.0, -INF, INF),
    (-0.0, -INF, INF),
    (-0.0, 3, -0.0), (0.0, 3, 0.0), (-0.0, 2, 0.0), (-0.0, 2.5, 0.0), (-0.0, INF, 0.0), (-1, INF, 1), (-1, -INF, 1),
    (1, NAN, 1),
    (1, INF, 1), (NAN, 0.0, 1), (NAN, -0.0, 1), (INF, 0.0, 1), (0.0, 0.0, 1), (-2, 0.5, NAN), (-2, 3, -8),
    (0.5, -INF, INF),
    (-0.5, -INF, INF), (2, -INF, 0.0), (-2, -INF, 0.0), (0.5, INF, 0.0), (-2, INF, INF), (-INF, -3, -0.0),
    (-INF, -2, 0.0),
    (-INF, -2.5, 0.0), (-INF, 3, -INF), (-INF, 2, INF), (-INF, 2.5, INF), (INF, -1, 0.0), (INF, 2, INF), (NAN, 1, NAN),
    (2, NAN, NAN), (-INF, INF, INF), (-INF, -INF, 0.0),
)  # fmt: skip
POSITIVE_POWER = two(
    (2, 0.0, 1), (2, -0.0, 1), (0.0, -2, INF), (-0.0, -3, INF), (0.0, -INF, INF), (-0.0, -INF, INF), (0.0, 3, 0.0),
    (-0.0, 3, 0.0),
    (0.0, INF, 0.0), (1, 5, 1), (1, -5, 1), (-1, 2, NAN), (-2, 3, NAN), (-INF, 2, NAN), (0.0, 0.0, NAN),
    (-0.0, -0.0, NAN),
    (INF, 0.0, NAN), (INF, -0.0, NAN), (1, INF, NAN), (1, -INF, NAN), (2, NAN, NAN), (0.0, NAN, NAN), (NAN, 2, NAN),
    (NAN, 0.0, NAN), (INF, 2, INF), (INF, -2, 0.0), (2, INF, INF), (2, -INF, 0.0), (0.5, INF, 0.0), (0.5, -INF, INF),
)  # fmt: skip
WHOLE_POWER = two(
    (0.0, 0, 1), (NAN, 0, 1), (INF, 0, 1), (-INF, 0, 1), (0.0, -3, INF), (-0.0, -3, -INF), (0.0, -2, INF),
    (-0.0, -2, INF),
    (-0.0, 2, 0.0), (-0.0, 3, -0.0), (0.0, 3, 0.0), (INF, 2, INF), (-INF, 3, -INF), (-INF, -3, -0.0),
    (INF, -1, 0.0), (-2, 3, -8),
    (NAN, 1, NAN),
)  # fmt: skip
ROOT = two(
    (0.0, -3, INF), (-0.0, -3, -INF), (0.0, -2, INF), (-0.0, -2, INF), (0.0, 2, 0.0), (-0.0, 2, 0.0), (0.0, 3, 0.0),
    (-0.0, 3, -0.0), (-4, 2, NAN), (4, 0, NAN), (0.0, 0, NAN), (-8, 3, -2), (INF, 2, INF), (-INF, 3, -INF),
    (-INF, 2, NAN),
    (INF, -2, 0.0), (-INF, -3, -0.0), (NAN, 3, NAN), (5, 1, 5),
)  # fmt: skip
CASES: dict[str, list[Case]] = {
    "acos": plain((1, 0.0), (-1, PI), (2, NAN), (-INF, NAN), (NAN, NAN)),
    "acospi": plain((1, 0.0), (-1, 1), (0, 0.5), (2, NAN), (-2, NAN), (INF, NAN)),
    "acosh": plain((1, 0.0), (0.5, NAN), (-INF, NAN), (INF, INF), (NAN, NAN)),
    "asin": odd((0.0, 0.0), (1, PI / 2)) + even((2, NAN), (INF, NAN)),
    "asinpi": odd((0.0, 0.0), (1, 0.5)) + even((2, NAN), (INF, NAN)),
    "asinh": odd((0.0, 0.0), (INF, INF)) + plain((NAN, NAN)),
    "atan": odd((0.0, 0.0), (INF, PI / 2)) + plain((NAN, NAN)),
    "atanpi": odd((0.0, 0.0), (INF, 0.5), (1, 0.25)) + plain((NAN, NAN)),
    "atanh": odd((0.0, 0.0), (1, INF)) + even((2, NAN), (INF, NAN)),
    "atan2": angles(PI),
    "atan2pi": angles(1),
    "cbrt": odd((0.0, 0.0), (INF, INF), (8, 2)) + plain((NAN, NAN)),
    "ceil": odd((0.0, 0.0), (INF, INF)) + plain((-0.5, -0.0), (0.5, 1), (NAN, NAN)),
    "floor": odd((0.0, 0.0), (INF, INF)) + plain((0.5, 0.0), (-0.5, -1), (NAN, NAN)),
    "trunc": odd((0.0, 0.0), (INF, INF), (0.75, 0.0)) + plain((NAN, NAN)),
    "rint": odd((0.0, 0.0), (INF, INF), (0.5, 0.0), (0.25, 0.0), (1.5, 2), (2.5, 2)) + plain((NAN, NAN)),
    "round": odd((0.0, 0.0), (INF, INF), (0.25, 0.0), (0.5, 1), (2.5, 3)) + plain((NAN, NAN)),
    "cos": even((0.0, 1), (INF, NAN)) + plain((NAN, NAN)),
    "sin": ANGLE,
    "tan": ANGLE,
    "cospi": even((0.0, 1), (0.5, 0.0), (1.5, 0.0), (2.5, 0.0), (1, -1), (INF, NAN)) + plain((NAN, NAN)),
    "sinpi": odd((0.0, 0.0), (1, 0.0), (2, 0.0), (3, 0.0), (0.5, 1), (1.5, -1)) + even((INF, NAN)),
    "tanpi": odd((0.0, 0.0), (1, -0.0), (2, 0.0), (3, -0.0), (4, 0.0))
    + even((INF, NAN))
    + plain((0.5, INF), (1.5, -INF), (2.5, INF), (-0.5, -INF), (-1.5, INF), (NAN, NAN)),
    "cosh": even((0.0, 1), (INF, INF)) + plain((NAN, NAN)),
    "sinh": odd((0.0, 0.0), (INF, INF)) + plain((NAN, NAN)),
    "tanh": odd((0.0, 0.0), (INF, 1)) + plain((NAN, NAN)),
    "erf": odd((0.0, 0.0), (INF, 1)) + plain((NAN, NAN)),
    "erfc": plain((-INF, 2), (INF, 0.0), (0.0, 1), (-0.0, 1), (NAN, NAN)),
    "exp": NO_EXP,
    "exp2": NO_EXP,
    "exp10": NO_EXP,
    "expm1": odd((0.0, 0.0)) + plain((-INF, -1), (INF, INF), (NAN, NAN)),
    "log": NO_LOG,
    "log2": NO_LOG,
    "log10": NO_LOG,
    "log1p": odd((0.0, 0.0)) + plain((-1, -INF), (-2, NAN), (INF, INF), (-INF, NAN), (NAN, NAN)),
    "logb": even((0.0, -INF), (INF, INF), (1, 0), (0.75, -1)) + plain((NAN, NAN)),
    "fabs": even((0.0, 0.0), (INF, INF), (2, 2)) + plain((NAN, NAN)),
    "sqrt": odd((0.0, 0.0)) + plain((INF, INF), (-1, NAN), (-INF, NAN), (NAN, NAN)),
    "rsqrt": odd((0.0, INF)) + plain((INF, 0.0), (-1, NAN), (-INF, NAN), (NAN, NAN)),
    "lgamma": plain(
        (1, 0.0), (2, 0.0), (-1, INF), (-7, INF), (0.0, INF), (-0.0, INF), (INF, INF), (-INF, INF), (NAN, NAN)
    ),
    "tgamma": odd((0.0, INF))
    + plain((-1, NAN), (-2, NAN), (-INF, NAN), (INF, INF), (NAN, NAN), (1, 1), (2, 1), (4, 6)),
    "sign": odd((0.0, 0.0), (INF, 1), (3, 1)) + plain((NAN, 0.0)),
    "fmod": REMAINDER,
    "remainder": REMAINDER,
    "hypot": two(
        (INF, NAN, INF),
        (-INF, NAN, INF),
        (NAN, INF, INF),
        (NAN, -INF, INF),
        (-3, 0.0, 3),
        (0.0, -0.0, 0.0),
        (NAN, 1, NAN),
    ),
    "pow": POWER,
    "powr": POSITIVE_POWER,
    "pown": WHOLE_POWER,
    "rootn": ROOT,
    "fdim": two((NAN, 1, NAN), (1, NAN, NAN), (INF, INF, 0.0), (2, 3, 0.0), (INF, -INF, INF), (3, 1, 2)),
    "fmax": two((NAN, 1, 1), (1, NAN, 1), (NAN, NAN, NAN), (-INF, 3, 3), (INF, NAN, INF)),
    "fmin": two((NAN, 1, 1), (1, NAN, 1), (NAN, NAN, NAN), (INF, 3, 3), (-INF, NAN, -INF)),
    "maxmag": two((NAN, 1, 1), (1, NAN, 1), (-3, 2, -3), (-3, 3, 3), (-INF, INF, INF)),
    "minmag": two((NAN, 1, 1), (1, NAN, 1), (-3, 2, 2), (-3, 3, -3), (-INF, INF, -INF)),
    "copysign": two((2, -0.0, -2), (-2, 0.0, 2), (INF, -1, -INF), (-0.0, 1, 0.0)),
    "nextafter": two(
        (NAN, 1, NAN), (1, NAN, NAN), (0.0, 0.0, 0.0), (0.0, -0.0, -0.0), (-0.0, 0.0, 0.0), (INF, INF, INF), (2, 2, 2)
    ),
    "ldexp": two(
        (0.0, 5, 0.0),
        (-0.0, 5, -0.0),
        (3, 0, 3),
        (INF, -5, INF),
        (-INF, 3, -INF),
        (NAN, 1, NAN),
        (1, 30000, INF),
        (-1, -30000, -0.0),
    ),
}
POINTED: dict[str, list[tuple[float, float, float]]] = {
    "fract": [
        (0.0, 0.0, 0.0),
        (-0.0, -0.0, -0.0),
        (INF, 0.0, INF),
        (-INF, -0.0, -INF),
        (NAN, NAN, NAN),
        (-0.25, 0.75, -1),
        (2.5, 0.5, 2),
    ],
    "modf": [
        (0.0, 0.0, 0.0),
        (-0.0, -0.0, -0.0),
        (INF, 0.0, INF),
        (-INF, -0.0, -INF),
        (NAN, NAN, NAN),
        (-2.5, -0.5, -2),
        (-3, -0.0, -3),
    ],
    "sincos": [(0.0, 0.0, 1), (-0.0, -0.0, 1), (INF, NAN, NAN), (NAN, NAN, NAN)],
    "frexp": [(0.0, 0.0, 0), (-0.0, -0.0, 0), (INF, INF, 0), (-INF, -INF, 0), (NAN, NAN, 0), (-3, -0.75, 2)],
    "lgamma_r": [
        (0.0, INF, 0),
        (-0.0, INF, 0),
        (-1, INF, 0),
        (-4, INF, 0),
        (1, 0.0, 1),
        (2, 0.0, 1),
        (INF, INF, 1),
        (-INF, INF, 1),
    ],
}
"""Argument, result, and what is stored."""
REMQUO = [(INF, 2, NAN, 0), (-INF, 2, NAN, 0), (1, 0.0, NAN, 0), (NAN, 1, NAN, 0), (1, NAN, NAN, 0), (3, INF, 3, 0),
(-0.0, 1, -0.0, 0),
          (7, 2, -1, 4), (-7, 2, 1, -4)]  # fmt: skip
S, BIG, TINY = math.sqrt(0.5), 60000.0, 2.0**-13
NORMALS: list[tuple[tuple[float, ...], tuple[float, ...]]] = [
    ((INF,), (1,)), ((-INF,), (-1,)), ((NAN,), (NAN,)), ((0.0,), (0.0,)), ((-0.0,), (-0.0,)), ((-3,), (-1,)),
    ((INF, 3), (1, 0.0)), ((-INF, -3), (-1, -0.0)), ((INF, -INF), (S, -S)), ((INF, NAN), (NAN, NAN)), ((0.0, -0.0),
    (0.0, -0.0)),
    ((INF, -INF, 2), (S, -S, 0.0)), ((0.0, INF, -1), (0.0, 1, -0.0)), ((1, NAN, 0), (NAN, NAN, NAN)),
    ((BIG, BIG), (S, S)), ((TINY, -TINY), (S, -S)), ((BIG, 0.0, -BIG), (S, 0.0, -S)), ((3, 0.0, 0.0, -4),
    (0.6, 0.0, 0.0, -0.8)),
    ((INF, -INF, 3, 0.0), (S, -S, 0.0, 0.0)), ((INF, INF, INF, INF), (0.5, 0.5, 0.5, 0.5)), ((NAN, INF, 1, 2),
    (NAN, NAN, NAN, NAN)),
]  # fmt: skip
INTEGERS = ("pown", "rootn", "ldexp")
KINDS: dict[str, Any] = {"float": np.float32, "double": np.float64, "half": np.float16}


def kernels(kind: str) -> str:
    """A kernel for each function, and one each of what is stored by pointers and of vectors."""
    found = []
    for name, cases in CASES.items():
        second = "" if len(cases[0][0]) == 1 else ", (int)y[i]" if name in INTEGERS else ", y[i]"
        found.append(f"case {len(found)}: o[i] = {name}(x[i]{second}); break;")
    for name in POINTED:
        kept = "int" if name in ("frexp", "lgamma_r") else kind
        found.append(f"case {len(found)}: {{ {kept} w; o[i] = {name}(x[i], &w); p[i] = w; break; }}")
    found.append(f"case {len(found)}: {{ int w; o[i] = remquo(x[i], y[i], &w); p[i] = w; break; }}")
    for n in (1, 2, 3, 4):
        size = "" if n == 1 else str(n)
        call = "o[0] = normalize(x[0])" if n == 1 else f"vstore{size}(normalize(vload{size}(0, x)), 0, o)"
        found.append(f"case {len(found)}: {call}; break;")
    words = ", ".join(f"global {kind} *{name}" for name in "xyop")
    return f"kernel void k({words}, int f) {{ int i = get_global_id(0); switch (f) {{ {' '.join(found)} }} }}"


def differ(found: Any, right: list[float], kind: Any) -> bool:
    """Return whether a number is another one, or a zero has another sign."""
    wanted = np.array(right, kind)
    near = np.allclose(found.astype(float), wanted.astype(float), rtol=4 * np.finfo(kind).eps, atol=0, equal_nan=True)
    zeros = wanted == 0
    return not near or bool((np.signbit(found[zeros]) != np.signbit(wanted[zeros])).any())


@pytest.mark.slow
@pytest.mark.parametrize(("agent", "kind"), [("gfx803", "float"), ("gfx700", "double"), ("gfx900", "half")])
def test_edges(agent: str, kind: str) -> None:
    if not compilers():
        pytest.skip("no compiler for OpenCL C is installed")
    real, wrong = KINDS[kind], []
    with Gpu.open(agent, threads=1) as gpu:
        code = gpu.compile(kernels(kind))

        def run(number: int, x: list[float], y: list[float], count: int) -> tuple[Any, Any]:
            out, kept = np.zeros(64, real), np.zeros(64, real)
            gpu.run(code, "k", count, count, [np.array(x, real), np.array(y, real), out, kept, number])
            return out[: len(x)], kept[: len(x)]

        number = 0
        for name, cases in CASES.items():
            arguments = [each for each, _ in cases]
            found, _ = run(number, [x for x, *_ in arguments], [y[0] if y else 0.0 for _, *y in arguments], len(cases))
            for n, (given, right) in enumerate(cases):
                if differ(found[n : n + 1], [right], real):
                    wrong.append(f"{name}{given} = {found[n]}, expected {right}")
            number += 1
        pointed = {name: [(x, 0.0, *more) for x, *more in results] for name, results in POINTED.items()}
        for name, results in (pointed | {"remquo": REMQUO}).items():
            found, kept = run(number, [each[0] for each in results], [each[1] for each in results], len(results))
            for n, (x, y, right, stored) in enumerate(results):
                if differ(found[n : n + 1], [right], real) or differ(kept[n : n + 1], [stored], real):
                    wrong.append(f"{name}({x}, {y}) = {found[n]} and {kept[n]}, expected {right} and {stored}")
            number += 1
        scale = {np.float32: 2.0**111, np.float64: 2.0**1007}.get(real, 1.0)
        for given, normal in NORMALS:
            factor = scale if BIG in given else 1 / scale if TINY in given else 1.0
            vector = [each * factor for each in given]
            found, _ = run(number + len(vector) - 1, vector, [0.0], 1)
            if differ(found, list(normal), real):
                wrong.append(f"normalize({vector}) = {found}, expected {normal}")
    assert not wrong, "\n".join(wrong)
