"""What a RefSi server tells its observers. `time` counts the requests of the session so far."""

from __future__ import annotations

from dataclasses import dataclass

from understudy.attach.events import Connected as Connected
from understudy.attach.events import TurnedAway as TurnedAway
from understudy.attach.events import Waits as Waits
from understudy.core.errors import UnderstudyError
from understudy.core.event import Event
from understudy.core.findings import Finding


@dataclass(frozen=True, slots=True)
class Opened(Event):
    """A device was opened for the host, "m" or "g"."""

    family: str


@dataclass(frozen=True, slots=True)
class Told(Event):
    """What became of a command buffer, kernel or call was an error; the host's standard error has it too."""

    error: UnderstudyError


@dataclass(frozen=True, slots=True)
class Checked(Event):
    """A device with checks was closed, by its host or because that has gone: what they found, by site."""

    findings: tuple[Finding, ...]


@dataclass(frozen=True, slots=True)
class Disconnected(Event):
    """It has gone; `error` says why, where it broke the protocol. `devices` it had left open."""

    session: int
    error: UnderstudyError | None
    devices: int
