"""What a vfio-user server tells its observers. `time` counts the messages of the session so far."""

from __future__ import annotations

from dataclasses import dataclass

from understudy.attach.events import Connected as Connected
from understudy.attach.events import TurnedAway as TurnedAway
from understudy.attach.events import Waits as Waits
from understudy.core.errors import UnderstudyError
from understudy.core.event import Event


@dataclass(frozen=True, slots=True)
class Negotiated(Event):
    """Version and capabilities are settled: what the client offers and what the session uses."""

    version: str
    max_data_xfer_size: int
    twin_socket: bool


@dataclass(frozen=True, slots=True)
class Disconnected(Event):
    """The session ended; `error` says why, if not by a plain disconnection between two messages."""

    session: int
    error: UnderstudyError | None


@dataclass(frozen=True, slots=True)
class Refused(Event):
    """A message was answered with an error (or, where it wanted no reply, dropped)."""

    error: UnderstudyError
    errno: int


@dataclass(frozen=True, slots=True)
class Mapped(Event):
    """A DMA region came: `direct` tells shared memory from messages, `reason` why it is not shared memory."""

    address: int
    size: int
    flags: int
    direct: bool
    reason: str


@dataclass(frozen=True, slots=True)
class Unmapped(Event):
    """A DMA region went."""

    address: int
    size: int


@dataclass(frozen=True, slots=True)
class DeviceReset(Event):
    """The client asked for a reset."""


@dataclass(frozen=True, slots=True)
class InterruptSignalled(Event):
    """The interrupt's eventfd was written."""


@dataclass(frozen=True, slots=True)
class DmaFailed(Event):
    """The device's DMA ended in an error."""

    error: UnderstudyError
