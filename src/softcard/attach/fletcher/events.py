"""Events that a Fletcher server sends to its observers.

An event's `time` is the number of requests received so far in the session.
"""

from __future__ import annotations

from dataclasses import dataclass

from softcard.attach.server import Connected as Connected
from softcard.attach.server import TurnedAway as TurnedAway
from softcard.attach.server import Waits as Waits
from softcard.core.errors import SoftcardError
from softcard.core.event import Event


@dataclass(frozen=True, slots=True)
class Disconnected(Event):
    """The event for a host that has disconnected. `error` is the host's violation of the protocol, or None.

    `freed` is the number of allocations that the host had not freed and that the server freed.
    """

    session: int
    error: SoftcardError | None
    freed: int


@dataclass(frozen=True, slots=True)
class Refused(Event):
    """The event for a request of the host that ended in an error.

    The error was also written to the host's standard error."""

    error: SoftcardError
