"""Much data, moved in pieces: between them somebody looks whether to go on."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final

PIECE: Final = 1 << 24
"""Bytes of a piece: a few thousandths of a second, some hundredths where they lie apart."""


def pieces(counts: tuple[int, ...]) -> Iterator[tuple[slice, ...]]:
    """Parts of at most `PIECE` elements that an array of these counts falls into, in order."""
    inner = math.prod(counts[1:])
    step = max(PIECE // inner, 1)
    for first in range(0, counts[0], step):
        part = slice(first, min(first + step, counts[0]))
        if inner <= PIECE:
            yield (part,)
        else:
            yield from ((part, *rest) for rest in pieces(counts[1:]))
