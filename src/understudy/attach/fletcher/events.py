"""What a Fletcher server tells its observers. `time` counts the requests of the session so far."""

from __future__ import annotations

from dataclasses import dataclass

from understudy.attach.events import Connected as Connected
from understudy.attach.events import TurnedAway as TurnedAway
from understudy.attach.events import Waits as Waits
from understudy.core.errors import UnderstudyError
from understudy.core.event import Event


@dataclass(frozen=True, slots=True)
class Disconnected(Event):
    """It has gone; `error` says why, where it broke the protocol. `freed` allocations it had left behind."""

    session: int
    error: UnderstudyError | None
    freed: int


@dataclass(frozen=True, slots=True)
class Refused(Event):
    """A call was answered with an error, which the host's standard error got too."""

    error: UnderstudyError
