"""Events that a RefSi server sends to its observers.

An event's `time` is the number of requests received so far in the session.
"""

from __future__ import annotations

from dataclasses import dataclass

from softcard.attach.server import Connected as Connected
from softcard.attach.server import TurnedAway as TurnedAway
from softcard.attach.server import Waits as Waits
from softcard.core.errors import SoftcardError
from softcard.core.event import Event
from softcard.core.findings import Finding


@dataclass(frozen=True, slots=True)
class Opened(Event):
    """The event for a RefSi device that the host has opened; `family` is its device family, "m" or "g"."""

    family: str


@dataclass(frozen=True, slots=True)
class Told(Event):
    """The event for an error that the user was told about on the host's standard error.

    It is an error of a command buffer, of a kernel or of a call of the driver library."""

    error: SoftcardError


@dataclass(frozen=True, slots=True)
class Checked(Event):
    """The event for a closed device that ran with checks; `findings` has the checks' findings.

    The device was closed by its host, or by the server when the host ended."""

    findings: tuple[Finding, ...]


@dataclass(frozen=True, slots=True)
class Disconnected(Event):
    """The event for a host that has disconnected. `error` is the host's violation of the protocol, or None.

    `devices` is the number of devices that the host had not shut down.
    """

    session: int
    error: SoftcardError | None
    devices: int
