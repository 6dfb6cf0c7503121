"""Division of large copies into smaller ones, so that limits can be checked in between."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final

PIECE: Final = 1 << 24
"""The number of bytes to copy between two checks: a few milliseconds, some tens for scattered data."""


def pieces(counts: tuple[int, ...]) -> Iterator[tuple[slice, ...]]:
    """Yield the slices, in order, that divide an array of shape `counts` into parts of at most `PIECE` elements."""
    inner = math.prod(counts[1:])
    step = max(PIECE // inner, 1)
    for first in range(0, counts[0], step):
        part = slice(first, min(first + step, counts[0]))
        if inner <= PIECE:
            yield (part,)
        else:
            yield from ((part, *rest) for rest in pieces(counts[1:]))
