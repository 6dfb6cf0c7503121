"""What became of the waves of a dispatch, for whoever draws them: of its first work-groups, so many waves.

Engines write down a group when it is over. None of it is in translated code: what an engine does group by group for the
first ones, it does for all others as ever.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from understudy.isa.gcn.state import ENDED, STATUS

if TYPE_CHECKING:
    import numpy.typing as npt

    from understudy.isa.gcn.state import Wave

FINISHED: Final = "ended"
FAILED: Final = "failed"
STOPPED: Final = "stopped"


class Life(NamedTuple):
    """A wave that is over, and its instructions: it ``ended``, ``failed``, or was ``stopped`` as another one failed.

    What has not ended has no count: translated code counts by blocks.
    """

    instructions: int | None
    how: str


class Moment(NamedTuple):
    """A wave begins (`life` is None) or is over, so many steps after the launch."""

    step: int
    group: int
    wave: int
    life: Life | None


@dataclass(slots=True, eq=False)
class WaveLog:
    """Of groups with so many waves each, the first ones that have `most` waves together, but one group at least."""

    counts: npt.NDArray[np.uint32]
    most: int
    _lives: dict[int, tuple[Life, ...]] = field(default_factory=dict)
    _base: int = 0
    groups: int = field(init=False)
    """How many groups at the beginning are written down."""

    def __post_init__(self) -> None:
        kept = int(np.searchsorted(np.cumsum(self.counts, dtype=np.int64), self.most, "right"))
        self.groups = min(max(kept, 1), len(self.counts))

    @property
    def omitted(self) -> int:
        """Waves of the other groups."""
        return int(self.counts[self.groups :].sum())

    def part(self, first: int, stop: int) -> WaveLog:
        """That of some of the groups, which writes into this one."""
        found = WaveLog(self.counts[first:stop], self.most, self._lives, self._base + first)
        found.groups = min(max(self.groups - first, 0), stop - first)
        return found

    def over(self, group: int, waves: Sequence[Wave], instructions: Sequence[int], failed: int | None = None) -> None:
        """A group is over; `failed` is the wave that failed."""
        if group >= self.groups:
            return
        self._lives[group + self._base] = tuple(
            Life(count, FINISHED)
            if int(wave.words[STATUS]) == ENDED
            else Life(None, FAILED if wave.index == failed else STOPPED)
            for wave, count in zip(waves, instructions, strict=True)
        )

    def moments(self) -> Iterator[Moment]:
        """When waves began and were over, in order, as if groups had run one after the other, those of launches first.

        The waves of a group take turns by one instruction: so times depend neither on threads nor on an engine's turns.
        What comes after a group that failed is left out.
        """
        begin = 0
        for group in range(self.groups):
            lives = self._lives.get(group)
            if lives is None:
                return
            yield from (Moment(begin, group, wave, None) for wave in range(len(lives)))
            counts = np.array([life.instructions or 0 for life in lives], np.int64)
            ends = begin + np.minimum(counts[:, None], counts).sum(axis=1)
            whole = begin + int(counts.sum())
            steps = [int(end) if life.how == FINISHED else whole for end, life in zip(ends, lives, strict=True)]
            for wave in sorted(range(len(lives)), key=steps.__getitem__):
                yield Moment(steps[wave], group, wave, lives[wave])
            if any(life.how != FINISHED for life in lives):
                return
            begin = whole
