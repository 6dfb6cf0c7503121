"""Where generators take their decisions from: a seed, or whoever else decides (hypothesis does)."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Final, Protocol, TypeVar

T = TypeVar("T")
_MASK: Final = (1 << 64) - 1


class Choices(Protocol):
    """Decides."""

    def integer(self, low: int, high: int) -> int:
        """A number from `low` to `high`."""
        ...


class Seeded:
    """Decisions that follow from a text: SplitMix64, which is the same everywhere and always."""

    def __init__(self, seed: str) -> None:
        self._state = int.from_bytes(hashlib.sha256(seed.encode()).digest()[:8], "little")

    def integer(self, low: int, high: int) -> int:
        """A number from `low` to `high`; up to 64 bits between them."""
        return low + self._next() % (high - low + 1)

    def _next(self) -> int:
        self._state = (self._state + 0x9E37_79B9_7F4A_7C15) & _MASK
        word = self._state
        word = (word ^ word >> 30) * 0xBF58_476D_1CE4_E5B9 & _MASK
        word = (word ^ word >> 27) * 0x94D0_49BB_1331_11EB & _MASK
        return word ^ word >> 31


def pick(choices: Choices, values: Sequence[T]) -> T:
    """One of these."""
    return values[choices.integer(0, len(values) - 1)]


def chance(choices: Choices, percent: int) -> bool:
    """True in so many of a hundred."""
    return choices.integer(0, 99) >= 100 - percent
