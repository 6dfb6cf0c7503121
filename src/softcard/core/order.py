"""Scheduling decisions from a seed: equal seeds give equal orders on every Python version and every machine."""

from __future__ import annotations

from collections.abc import MutableSequence, Sequence
from typing import Any, TypeVar

from softcard.core.errors import ModelBug
from softcard.core.snapshot import Stateful
from softcard.core.words import U64

T = TypeVar("T")

# The constants of SplitMix64: Steele, Lea, Flood, "Fast splittable pseudorandom number generators" (2014).
_GAMMA = 0x9E37_79B9_7F4A_7C15
_MIX_1 = 0xBF58_476D_1CE4_E5B9
_MIX_2 = 0x94D0_49BB_1331_11EB


class Prng(Stateful):
    """A small generator of random 64-bit numbers (SplitMix64); `state` is its whole state.

    Python's own `random` guarantees the same sequence for only a few of its methods, so it is not used.
    """

    __slots__ = STATE = ("state",)

    def __init__(self, seed: int) -> None:
        self.state = seed & U64

    def next_u64(self) -> int:
        """Return the next number from 0 to 2**64 - 1."""
        self.state = (self.state + _GAMMA) & U64
        word = self.state
        word = ((word ^ word >> 30) * _MIX_1) & U64
        word = ((word ^ word >> 27) * _MIX_2) & U64
        return word ^ word >> 31

    def below(self, limit: int) -> int:
        """Return a number from 0 to `limit` - 1, each equally likely; `limit` is 1 to 2**64."""
        if not 1 <= limit <= U64 + 1:
            raise ModelBug(f"a limit must lie in 1..2**64, not {limit}")
        fair = (U64 + 1) // limit * limit
        while (word := self.next_u64()) >= fair:
            pass
        return word % limit

    def shuffle(self, items: MutableSequence[T]) -> None:
        """Put `items` in random order, in place."""
        for index in range(len(items) - 1, 0, -1):
            other = self.below(index + 1)
            items[index], items[other] = items[other], items[index]


class Arbiter(Stateful):
    """A scheduler that chooses among ready units: the first one if it has no seed, or else a random one.

    `snapshot` and `restore` cover everything that later choices depend on.
    """

    STATE = ("_prng",)
    __slots__ = (*STATE, "seed")

    def __init__(self, seed: int | None = None) -> None:
        self.seed = seed
        self._prng: Prng | None = None
        self.reset()

    def reset(self) -> None:
        """Restart the random choices from the seed."""
        self._prng = None if self.seed is None else Prng(self.seed)

    def pick(self, ready: Sequence[T]) -> T:
        """Return one of `ready`, which must not be empty: the first if there is no seed, or else a random one."""
        if not ready:
            raise ModelBug("an arbiter must have at least one unit to choose from")
        if self._prng is None or len(ready) == 1:
            return ready[0]
        return ready[self._prng.below(len(ready))]

    def order(self, items: Sequence[T]) -> list[T]:
        """Return all of `items` in the order in which they run: unchanged if there is no seed, or else shuffled."""
        result = list(items)
        if self._prng is not None:
            self._prng.shuffle(result)
        return result

    def restore(self, state: Any) -> None:
        """Return to a state that `snapshot` returned."""
        if (state == (None,)) != (self._prng is None):
            raise ModelBug("the snapshot and the arbiter must both have a seed, or both have none")
        super().restore(state)
