"""Vector clocks, of waves and of harts: up to which tick of each other party all that it did came before."""

from __future__ import annotations

from collections.abc import Mapping

Clock = Mapping[int, int]
"""By the number of a wave, hart or transfer: the last of its ticks that came before."""


def join(clock: dict[int, int], other: Clock) -> None:
    """Have a clock say what another one says, too."""
    for uid, tick in other.items():
        if clock.get(uid, 0) < tick:
            clock[uid] = tick
