"""The events that a vfio-user server sends to its observers.

An event's `time` is the number of messages received so far in the session.
"""

from __future__ import annotations

from dataclasses import dataclass

from softcard.attach.server import Connected as Connected
from softcard.attach.server import TurnedAway as TurnedAway
from softcard.attach.server import Waits as Waits
from softcard.core.errors import SoftcardError
from softcard.core.event import Event


@dataclass(frozen=True, slots=True)
class Negotiated(Event):
    """The event for the agreement of client and server on a version and on capabilities.

    It has the values that both use from then on."""

    version: str
    max_data_xfer_size: int
    twin_socket: bool


@dataclass(frozen=True, slots=True)
class Disconnected(Event):
    """The event for the end of the session.

    `error` is its cause, or None if the client disconnected between two messages.
    """

    session: int
    error: SoftcardError | None


@dataclass(frozen=True, slots=True)
class Refused(Event):
    """The event for a message that was rejected with an error reply, or dropped if its sender wanted no reply."""

    error: SoftcardError
    errno: int


@dataclass(frozen=True, slots=True)
class Mapped(Event):
    """The event for a newly mapped DMA region.

    `direct` is True if the region is shared memory mapped into this process; otherwise `reason` is the reason why not.
    """

    address: int
    size: int
    flags: int
    direct: bool
    reason: str


@dataclass(frozen=True, slots=True)
class Unmapped(Event):
    """The event for a DMA region that the client has unmapped."""

    address: int
    size: int


@dataclass(frozen=True, slots=True)
class DeviceReset(Event):
    """The event for a device reset that the client has requested."""


@dataclass(frozen=True, slots=True)
class InterruptSignalled(Event):
    """The event for an interrupt that was signalled through its eventfd."""


@dataclass(frozen=True, slots=True)
class DmaFailed(Event):
    """The event for a DMA access of the device that failed."""

    error: SoftcardError
