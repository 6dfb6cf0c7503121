"""What Triton's compiler makes for gfx908, gfx90a, gfx942 and gfx950, against NumPy.

The kernels are those of ``tests/vectors/gcn/triton_kernels.py``. Their descriptors ask for packed work-item ids,
preloaded arguments, accumulation registers and up to 16 user SGPRs.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from softcard import Gpu
from softcard.image.hsa.code_object import read_code_object
from softcard.image.hsa.records import KernelDescriptor

pytestmark = pytest.mark.slow(seconds=0.3)
COMPILED = Path(__file__).parents[2] / "vectors" / "gcn" / "triton"
WAVES = 4
PROCESSORS = ("gfx908", "gfx90a", "gfx942", "gfx950")
F, D = np.float32, np.int32
Array = np.ndarray[Any, Any]


@dataclass
class Case:
    """Arguments, the number of programs, which argument is the result, the result, and its relative error."""

    arguments: list[Any]
    programs: int
    result: int
    expected: Array
    error: float = 0.0


def add(rng: np.random.Generator) -> Case:
    x, y = rng.standard_normal((2, 3000), F)
    return Case([x, y, np.zeros(3000, F), 3000], 3, 2, x + y)


def softmax(rng: np.random.Generator) -> Case:
    x = rng.standard_normal((6, 781), F)
    e = np.exp(x.astype(float) - x.max(1, keepdims=True))
    return Case([np.zeros_like(x), x, 781, 781, 781], 6, 0, e / e.sum(1, keepdims=True), 2e-5)


def layernorm(rng: np.random.Generator) -> Case:
    x, (w, b) = rng.standard_normal((5, 777), F), rng.standard_normal((2, 777), F)
    d = x - x.astype(float).mean(1, keepdims=True)
    expected = d / np.sqrt((d * d).mean(1, keepdims=True) + 1e-5) * w + b
    return Case([x, np.zeros_like(x), w, b, 777, 777, F(1e-5)], 5, 1, expected, 2e-4)


def reductions(rng: np.random.Generator) -> Case:
    x = rng.integers(-1000, 1000, 3000, D)
    return Case([x, np.array([0, -9999, 9999], D), 3000], 3, 1, np.array([x.sum(), x.max(), x.min()]))


def float_sum(rng: np.random.Generator) -> Case:
    x = rng.integers(-50, 50, 3000).astype(F)
    return Case([x, np.zeros(1, F), 3000], 3, 1, np.array([x.sum()]))


def histogram(rng: np.random.Generator) -> Case:
    x = rng.integers(0, 64, 1200, D)
    return Case([x, np.zeros(64, D), 1200], 5, 1, np.bincount(x, minlength=64))


def lock(rng: np.random.Generator) -> Case:
    return Case([np.zeros(2, D), 0], 12, 0, np.array([0, 12]))


def scan(rng: np.random.Generator) -> Case:
    x = rng.integers(-99, 99, (3, 512), D)
    return Case([x, np.zeros_like(x)], 3, 1, np.cumsum(x, 1))


def sort(rng: np.random.Generator) -> Case:
    x = rng.integers(-9999, 9999, (3, 256), D)
    return Case([x, np.zeros_like(x)], 3, 1, np.sort(x, 1))


def gelu(rng: np.random.Generator) -> Case:
    x = rng.standard_normal(3000).astype(np.float16)
    expected = np.array([0.5 * v * (1 + math.erf(v / math.sqrt(2))) for v in x.tolist()])
    return Case([x, np.zeros_like(x), 3000], 3, 1, expected, 2e-3)


def matrix_sums(rng: np.random.Generator) -> Case:
    x = rng.integers(-9, 9, (32, 64)).astype(F)
    return Case([x, np.zeros(96, F)], 1, 1, np.concatenate([x.sum(0), x.sum(1)]))


def matmul(rng: np.random.Generator) -> Case:
    a, b = (rng.integers(-9, 9, shape).astype(np.float16) for shape in ((64, 128), (128, 64)))
    return Case([a, b, np.zeros((64, 64), F), 64, 64, 128], 1, 2, a.astype(F) @ b.astype(F))


def in_place(rng: np.random.Generator) -> Case:
    x = rng.integers(-9, 9, 64).astype(F)
    return Case([x, 64], 1, 0, 2 * x + x.sum())


def reverse(rng: np.random.Generator) -> Case:
    x = rng.standard_normal(64, F)
    return Case([x, 64], 1, 0, x[::-1])


def rotary(rng: np.random.Generator) -> Case:
    q, (c, s) = rng.integers(-9, 9, (5, 2, 32)).astype(F), rng.integers(-9, 9, (2, 32)).astype(F)
    a, b = q[:, 0], q[:, 1]
    return Case([q, c, s], 5, 0, np.stack([a * c - b * s, b * c + a * s], 1))


def products(rng: np.random.Generator) -> Case:
    x, y = rng.standard_normal((2, 4, 100), F)
    return Case([x, y, np.zeros(1, F), 100], 1, 2, np.array([(x.astype(float) * y).sum()]), 1e-3)


def guarded(rng: np.random.Generator) -> Case:
    x = rng.integers(-9, 9, (8, 128)).astype(F)
    return Case([x, np.zeros(128, F), np.zeros(1, D), np.zeros(1, D)], 8, 1, x.sum(0))


def reverse_of_waves(rng: np.random.Generator) -> Case:
    return Case([rng.standard_normal(256, F), 256], 1, 0, np.zeros(0))


def first_sums(rng: np.random.Generator) -> Case:
    return Case([rng.standard_normal((8, 128), F), np.zeros(8, F), np.zeros(1, F)], 8, 2, np.zeros(0))


def last_wins(rng: np.random.Generator) -> Case:
    return Case([np.zeros(1, D), 0], 8, 0, np.zeros(0))


CASES: dict[str, Callable[[np.random.Generator], Case]] = {
    each.__name__: each
    for each in (
        add, softmax, layernorm, reductions, float_sum, histogram, lock, scan, sort, gelu, matrix_sums, matmul,
        in_place, reverse, rotary, products, guarded,
    )
}  # fmt: skip
RACING: dict[str, tuple[Callable[[np.random.Generator], Case], set[str]]] = {
    "reverse_of_waves": (reverse_of_waves, {"races/write-read", "races/read-write"}),
    "first_sums": (first_sums, {"races/write-read"}),
    "last_wins": (last_wins, {"races/write-write"}),
}
"""The kernels that race, and what is found."""
every_kernel = pytest.mark.parametrize("name", CASES)
ALL = [(processor, name) for processor in PROCESSORS for name in CASES]


@cache
def launch_sizes() -> dict[str, int]:
    """The LDS of the launches by processor and kernel."""
    sizes: dict[str, int] = json.loads((COMPILED / "shared.json").read_text("utf-8"))
    return sizes


def code_object(processor: str, name: str) -> bytes:
    return (COMPILED / processor / f"{name}.co").read_bytes()


def check(processor: str, name: str, launches: int | None = None, **settings: Any) -> list[Any]:
    """Launch a kernel several times, compare its results, and return the findings.

    Translated code does not do the same in each launch: it is made, then knows memory, then is better code. The
    reference engine does, so that it launches once."""
    launches = launches or (1 if settings.get("engine") == "reference" else 3)
    case = (RACING[name][0] if name in RACING else CASES[name])(np.random.default_rng(7))
    with Gpu.open(processor, **settings) as gpu:
        code = gpu.load(code_object(processor, name))
        given = [gpu.array(each) if isinstance(each, np.ndarray) else each for each in case.arguments]
        metadata = code.kernel(name).image.metadata
        assert metadata is not None
        given += [0] * (len(metadata.explicit) - len(given))  # pointers to scratch memory, which are not used
        for _ in range(launches):
            for argument, values in zip(given, case.arguments, strict=False):
                if isinstance(values, np.ndarray):
                    argument[...] = values
            sizes = {"grid": 64 * WAVES * case.programs, "group": 64 * WAVES}
            gpu.run(code, name, args=given, group_bytes=launch_sizes()[f"{processor}/{name}"], **sizes)
            if name in RACING:
                continue
            found = given[case.result].reshape(case.expected.shape).astype(float)
            np.testing.assert_allclose(found, case.expected, rtol=case.error, atol=case.error)
        return list(gpu.findings)


@pytest.mark.parametrize(("processor", "name"), ALL)
def test_kernels_of_triton(processor: str, name: str) -> None:
    check(processor, name)


@pytest.mark.one_in(3)
@pytest.mark.parametrize(("processor", "name"), ALL)
@pytest.mark.parametrize("tier", ["first", "optimised", "reference"])
def test_each_tier(processor: str, name: str, tier: str) -> None:
    check(processor, name, **({"engine": "reference"} if tier == "reference" else {"tier": tier}))


@pytest.mark.one_in(6)
@every_kernel
@pytest.mark.parametrize("processor", ["gfx90a", "gfx942"])
def test_the_strict_memory_finds_nothing(processor: str, name: str) -> None:
    """Compute units and accelerator dies that see each other's stores only where the code says so."""
    assert check(processor, name, launches=1, coherence="strict") == []


@pytest.mark.one_in(3)
@every_kernel
@pytest.mark.parametrize("processor", ["gfx90a", "gfx942"])
def test_checks_find_nothing(processor: str, name: str) -> None:
    assert check(processor, name, launches=1, check="memory,init,races,waits,sync") == []


@pytest.mark.parametrize("engine", ["jit", "reference"])
@pytest.mark.parametrize("processor", PROCESSORS)
@pytest.mark.parametrize("name", RACING)
def test_races_are_found(processor: str, name: str, engine: str) -> None:
    found = check(processor, name, check="races", engine=engine)
    assert {each.name for each in found} == RACING[name][1]


@pytest.mark.one_in(3)
@pytest.mark.parametrize("engine", ["jit", "reference"])
@pytest.mark.parametrize("processor", PROCESSORS)
@pytest.mark.parametrize("name", ["in_place", "reverse", "rotary", "products", "guarded", "float_sum", "softmax"])
def test_loads_that_waves_repeat_do_not_race(processor: str, name: str, engine: str) -> None:
    """Nobody uses what the other waves load; lanes whose sums differ by rounding leave equal words in LDS."""
    assert check(processor, name, check="memory,init,races", engine=engine) == []


@pytest.mark.parametrize("processor", ["gfx90a", "gfx942", "gfx950"])
def test_their_descriptors_preload_arguments(processor: str) -> None:
    for name in CASES:
        code = read_code_object(code_object(processor, name))
        header = code.kernel(name).header
        assert isinstance(header, KernelDescriptor)
        assert (code.version, code.target, code.warnings) == ("V5", processor, ())
        assert header.kernarg_preload_length > 0
        assert header.compute_pgm_rsrc2.user_sgpr_count <= 16
