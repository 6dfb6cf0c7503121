"""What the kernels of `understudy demo` have in common, whatever device they run on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

SEED: Final = 2024
Device = TypeVar("Device")
Work = TypeVar("Work")


@dataclass(frozen=True, slots=True)
class Case(Generic[Device, Work]):
    """A kernel, what it shows, how to set it up for `n`, and that number for the JIT and the reference engine."""

    kernel: str
    shows: str
    setup: Callable[[Device, int], Work]
    jit_n: int
    reference_n: int


AnyCase = Case[Any, Any]
Measure = Callable[[AnyCase, str, int], tuple[str, int, float, bool]]
"""A case on an engine, for a number: size, instructions, millions of them per second, and whether all are right."""


def escape_times(n: int, limit: int) -> NDArray[np.uint32]:
    """The Mandelbrot set's picture of n x n points: steps until each escapes, `limit` at most."""
    x, y = np.meshgrid(np.arange(n, dtype=np.float64), np.arange(n, dtype=np.float64))
    cr, ci = 3.0 * x / n - 2.25, 2.5 * y / n - 1.25
    zr, zi, steps = np.zeros_like(cr), np.zeros_like(cr), np.zeros((n, n), np.uint32)
    for _ in range(limit):
        inside = zr * zr + zi * zi < 4.0
        steps += inside
        zr, zi = np.where(inside, zr * zr - zi * zi + cr, zr), np.where(inside, 2 * zr * zi + ci, zi)
    return steps
