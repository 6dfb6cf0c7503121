"""What a Fletcher server tells its observers. `time` counts the requests of the session so far."""

from __future__ import annotations

from dataclasses import dataclass

from understudy.core.errors import UnderstudyError
from understudy.core.event import Event


@dataclass(frozen=True, slots=True)
class Connected(Event):
    """A host program came; sessions count from 1."""

    session: int


@dataclass(frozen=True, slots=True)
class Disconnected(Event):
    """It has gone; `error` says why, where it broke the protocol. `freed` allocations it had left behind."""

    session: int
    error: UnderstudyError | None
    freed: int


@dataclass(frozen=True, slots=True)
class Waits(Event):
    """Another host program has connected, and waits until that of `session` has gone. At time 0 that said nothing."""

    session: int


@dataclass(frozen=True, slots=True)
class TurnedAway(Event):
    """Somebody who connected was disconnected at once, and why."""

    reason: str


@dataclass(frozen=True, slots=True)
class Refused(Event):
    """A call was answered with an error, which the host's standard error got too."""

    error: UnderstudyError
