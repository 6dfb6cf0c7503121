"""Formats of memory on arrays of any length, computed on the reference engine's lanes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

import numpy as np

from softcard.engine.gcn.memory import GpuMemory
from softcard.engine.gcn.reference.lane_float import quiet
from softcard.engine.gcn.reference.lanes import Lanes
from softcard.isa.gcn.semantics import memory_formats
from softcard.isa.gcn.semantics.memory_formats import Lanes as Array
from softcard.isa.gcn.semantics.memory_formats import lanes
from softcard.isa.gcn.word import Word
from softcard.isa.word import Value

_ALGEBRA = Lanes(GpuMemory())


def through(function: Callable[[list[Word]], list[Word]], arrays: Sequence[Array]) -> list[Array]:
    """Apply a function of 32-bit words to arrays, 64 items at a time."""
    size = len(arrays[0])
    parts = []
    for start in range(0, size, 64):
        padded = [np.resize(array[start : start + 64], 64) for array in arrays]
        given = [Word(_ALGEBRA, 32, cast("Value", array)) for array in padded]
        with quiet():
            parts.append([lanes(v) for v in function(given)])
    return [np.concatenate(row)[:size] for row in zip(*parts, strict=True)]


def read_component(a: Array, width: int, nfmt: int, position: int) -> Array:
    """See `memory_formats`."""
    return through(lambda v: [memory_formats.read_component(v[0], width, nfmt, position)], [a])[0]


def write_component(a: Array, width: int, nfmt: int, position: int) -> Array:
    """See `memory_formats`; the bits that memory gets."""
    (found,) = through(lambda v: [memory_formats.write_component(v[0], width, nfmt, position)], [a])
    return found & np.uint32((1 << width) - 1)


def read(dfmt: int, nfmt: int, words: Sequence[Array], *, image: bool) -> list[Array]:
    """See `memory_formats`."""
    return through(lambda v: memory_formats.read(dfmt, nfmt, v, image=image), words)


def write(dfmt: int, nfmt: int, components: Sequence[Array], *, image: bool) -> list[Array]:
    """See `memory_formats`."""
    return through(lambda v: memory_formats.write(dfmt, nfmt, v, image=image), components)


def to_d16(nfmt: int, a: Array) -> Array:
    """See `memory_formats`."""
    return through(lambda v: [memory_formats.to_d16(nfmt, v[0])], [a])[0]


def from_d16(nfmt: int, a: Array) -> Array:
    """See `memory_formats`."""
    return through(lambda v: [memory_formats.from_d16(nfmt, v[0])], [a])[0]
