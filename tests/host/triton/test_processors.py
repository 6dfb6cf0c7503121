"""Matrix products of all types, and flash attention, as Triton compiles them for each processor with matrix cores."""

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pytest

from tests.host.triton import load_kernels

k = load_kernels()

import triton  # noqa: E402
from triton.backends.compiler import GPUTarget  # noqa: E402
from triton.compiler import ASTSource  # noqa: E402

from softcard import Gpu  # noqa: E402

pytestmark = [pytest.mark.oracle, pytest.mark.slow(seconds=1)]
Array = np.ndarray[Any, Any]
PROCESSORS = ("gfx908", "gfx90a", "gfx942", "gfx950")
RUNS: dict[str, dict[str, Any]] = {
    "first": {"tier": "first"}, "optimised": {"tier": "optimised"}, "reference": {"engine": "reference"},
    "checked": {"check": "memory,init,races,waits,sync"},
}  # fmt: skip
"""The settings of the tiers, and of a run with checks, which find nothing."""
ALL_TYPES = {"fp16", "bf16", "fp32", "i8"}


@dataclass(frozen=True)
class Small:
    """A format of 8-bit floats: the number of mantissa bits, the bias, and the code of negative zero, if it has one."""

    mantissa: int
    bias: int
    has_negative_zero: bool

    def value(self, code: int) -> float:
        """Return the number that a code stands for; codes of NaN and infinity are not decoded."""
        exponent, fraction = code >> self.mantissa & (0x7F >> self.mantissa), code & (1 << self.mantissa) - 1
        size = (bool(exponent) + fraction / (1 << self.mantissa)) * 2.0 ** (max(exponent, 1) - self.bias)
        return -size if code & 0x80 else size

    def coded(self, numbers: Array) -> Array:
        """Return the codes of small integers."""
        codes = {self.value(code): code for code in range(256) if self.has_negative_zero or code != 0x80}
        return np.array([codes[each] for each in numbers.ravel().tolist()], np.uint8).reshape(numbers.shape)


SMALL = {
    "fp8e4b8": Small(3, 8, False), "fp8e5b16": Small(2, 16, False),
    "fp8e4nv": Small(3, 7, True), "fp8e5": Small(2, 15, True),
}  # fmt: skip
TYPES = {
    "gfx908": ALL_TYPES,
    "gfx90a": ALL_TYPES | {"fp64"},
    "gfx942": ALL_TYPES | {"fp64", "fp8e4b8", "fp8e5b16"},
    "gfx950": ALL_TYPES | {"fp64", "fp8e4nv", "fp8e5"},
}
RESULTS = {"i8": ("i32", np.int32), "fp64": ("fp64", np.float64)}
MATRICES = {"fp16": np.float16, "fp32": np.float32, "fp64": np.float64, "i8": np.int8}
PRODUCTS = [(processor, kind) for processor in PROCESSORS for kind in sorted(TYPES[processor])]


@cache
def compiled(kernel: str, processor: str, signature: tuple[str, ...], constants: tuple[int, ...]) -> Any:
    """Return what Triton's compiler makes of a kernel; the constants are its last parameters."""
    function = getattr(k, kernel)
    names = function.arg_names
    types = dict(zip(names, (*signature, *["constexpr"] * len(constants)), strict=True))
    values = dict(zip(names[len(signature) :], constants, strict=True))
    return triton.compile(ASTSource(function, types, values), target=GPUTarget("hip", processor, 64))


def run(processor: str, made: Any, programs: int, *arguments: Any, **settings: Any) -> None:
    """Run a compiled kernel over arrays of the host."""
    threads = made.metadata.num_warps * 64
    with Gpu.open(processor, **settings) as gpu:
        code = gpu.load(made.asm["hsaco"])
        metadata = code.kernel(made.metadata.name).image.metadata
        assert metadata is not None
        given = [*arguments, *[0] * (len(metadata.explicit) - len(arguments))]  # pointers to scratch memory
        sizes = {"grid": threads * programs, "group": threads, "group_bytes": made.metadata.shared}
        gpu.run(code, made.metadata.name, args=given, **sizes)
        assert list(gpu.findings) == []


def as_type(numbers: Array, kind: str) -> Array:
    """Return small integers as an array of a type of Triton; NumPy lacks bf16 and the floats of 8 bits."""
    if kind == "bf16":
        return (numbers.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
    return SMALL[kind].coded(numbers) if kind in SMALL else numbers.astype(MATRICES[kind])


@pytest.mark.one_in(4)  # each type of each processor once, since their number is odd
@pytest.mark.parametrize("settings", RUNS)
@pytest.mark.parametrize(("processor", "kind"), PRODUCTS)
def test_products_are_exact(processor: str, kind: str, settings: str) -> None:
    """Sums of products of small integers have no rounding error in any type."""
    rng = np.random.default_rng(11)
    a, b = rng.integers(-4, 5, (32, 128)), rng.integers(-4, 5, (128, 32))
    result, dtype = RESULTS.get(kind, ("fp32", np.float32))
    made = compiled("product", processor, (f"*{kind}", f"*{kind}", f"*{result}"), (32, 32, 128, 64))
    assert "mfma" in made.asm["amdgcn"]
    out = np.zeros((32, 32), dtype)
    run(processor, made, 1, as_type(a, kind), as_type(b, kind), out, **RUNS[settings])
    assert np.array_equal(out, a @ b)


@pytest.mark.parametrize("settings", RUNS)
def test_scaled_products_are_exact(settings: str) -> None:
    """A scale is a power of two: its byte is the exponent, with bias 127."""
    rng = np.random.default_rng(12)
    a, b = rng.integers(-4, 5, (32, 128)), rng.integers(-4, 5, (128, 32))
    scales = rng.integers(125, 130, (32, 4)).astype(np.uint8)
    made = compiled("scaled_product", "gfx950", ("*fp8e4nv", "*fp8e4nv", "*u8", "*fp32"), (32, 32, 128))
    assert "mfma_scale" in made.asm["amdgcn"]
    out = np.zeros((32, 32), np.float32)
    run("gfx950", made, 1, as_type(a, "fp8e4nv"), as_type(b, "fp8e4nv"), scales, out, **RUNS[settings])
    factors = np.repeat(2.0 ** (scales.astype(int) - 127), 32, axis=1)
    assert np.array_equal(out, (a * factors) @ b)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("settings", RUNS)
@pytest.mark.parametrize("processor", PROCESSORS)
def test_flash_attention(processor: str, settings: str) -> None:
    rng = np.random.default_rng(13)
    q, keys, values = (rng.standard_normal((96, 64)).astype(np.float16) for _ in range(3))
    made = compiled("attention", processor, ("*fp16", "*fp16", "*fp16", "*fp16", "i32"), (32, 32, 64))
    assert "mfma" in made.asm["amdgcn"]
    out = np.zeros_like(q)
    run(processor, made, 3, q, keys, values, out, 96, **RUNS[settings])
    scores = q.astype(float) @ keys.astype(float).T / 8
    weights = np.exp(np.where(np.tri(96, dtype=bool), scores, -np.inf))
    np.testing.assert_allclose(out, weights / weights.sum(1, keepdims=True) @ values, rtol=5e-3, atol=5e-3)
