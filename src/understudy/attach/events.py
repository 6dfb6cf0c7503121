"""What every server tells its observers. `time` counts the messages of the session so far."""

from __future__ import annotations

from dataclasses import dataclass

from understudy.core.event import Event


@dataclass(frozen=True, slots=True)
class Connected(Event):
    """Somebody came; sessions count from 1."""

    session: int


@dataclass(frozen=True, slots=True)
class Waits(Event):
    """Somebody else has connected, and waits until that of `session` has gone. At time 0 that said nothing."""

    session: int


@dataclass(frozen=True, slots=True)
class TurnedAway(Event):
    """Somebody who connected was disconnected at once, and why."""

    reason: str
