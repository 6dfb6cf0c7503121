"""The log of the times at which waves end, for drawing; it covers the first work-groups of a dispatch.

Engines log a work-group when it has ended. Translated code does no logging: engines run the logged work-groups one by
one, and all others as usual.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from softcard.isa.gcn.state import ENDED, STATUS

if TYPE_CHECKING:
    import numpy.typing as npt

    from softcard.isa.gcn.state import Wave

FINISHED: Final = "ended"
FAILED: Final = "failed"
STOPPED: Final = "stopped"


class Life(NamedTuple):
    """The end of a wave, and the number of instructions that it executed.

    The wave ``ended``, ``failed``, or was ``stopped`` because another wave of its work-group failed. The number
    of instructions is None unless the wave ended, since translated code counts by blocks."""

    instructions: int | None
    how: str


class WaveLifeEvent(NamedTuple):
    """The beginning or the end of a wave, with its time as a number of steps after the launch.

    `life` is None for the beginning of a wave.
    """

    step: int
    group: int
    wave: int
    life: Life | None


@dataclass(slots=True, eq=False)
class WaveLog:
    """The log of the first work-groups with at most `most` waves in total, but of at least one work-group.

    `counts`: the number of waves of each work-group.
    """

    counts: npt.NDArray[np.uint32]
    most: int
    _lives: dict[int, tuple[Life, ...]] = field(default_factory=dict)
    _base: int = 0
    groups: int = field(init=False)
    """The number of leading work-groups that are logged."""

    def __post_init__(self) -> None:
        kept = int(np.searchsorted(np.cumsum(self.counts, dtype=np.int64), self.most, "right"))
        self.groups = min(max(kept, 1), len(self.counts))

    @property
    def omitted(self) -> int:
        """The number of waves of the work-groups that are not logged."""
        return int(self.counts[self.groups :].sum())

    def part(self, first: int, stop: int) -> WaveLog:
        """Return a log of the work-groups `first` to `stop` - 1 that records its entries in this log."""
        found = WaveLog(self.counts[first:stop], self.most, self._lives, self._base + first)
        found.groups = min(max(self.groups - first, 0), stop - first)
        return found

    def over(self, group: int, waves: Sequence[Wave], instructions: Sequence[int], failed: int | None = None) -> None:
        """Log the end of a work-group. `instructions` has the number of instructions that each wave has executed.

        `failed` is the number of the wave that failed, or None."""
        if group >= self.groups:
            return
        self._lives[group + self._base] = tuple(
            Life(count, FINISHED)
            if int(wave.words[STATUS]) == ENDED
            else Life(None, FAILED if wave.index == failed else STOPPED)
            for wave, count in zip(waves, instructions, strict=True)
        )

    def life_events(self) -> Iterator[WaveLifeEvent]:
        """Yield beginnings and ends of waves in order, as if work-groups had run one after the other.

        At equal times beginnings come first. The waves of a work-group run round-robin with slices of one instruction:
        so times depend neither on threads nor on an engine's time slices. Work-groups after one that failed are
        omitted.
        """
        begin = 0
        for group in range(self.groups):
            lives = self._lives.get(group)
            if lives is None:
                return
            yield from (WaveLifeEvent(begin, group, wave, None) for wave in range(len(lives)))
            counts = np.array([life.instructions or 0 for life in lives], np.int64)
            ends = begin + np.minimum(counts[:, None], counts).sum(axis=1)
            whole = begin + int(counts.sum())
            steps = [int(end) if life.how == FINISHED else whole for end, life in zip(ends, lives, strict=True)]
            for wave in sorted(range(len(lives)), key=steps.__getitem__):
                yield WaveLifeEvent(steps[wave], group, wave, lives[wave])
            if any(life.how != FINISHED for life in lives):
                return
            begin = whole
