"""Events that an Acceldev sends to its probes. `time` counts device and user commands processed since reset."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from softcard.core.errors import SoftcardError
from softcard.core.event import Event
from softcard.core.lint import Lint as Lint
from softcard.device.acceldev.commands import DeviceCommand, UserCommand
from softcard.device.acceldev.registers import Interrupt

NONE: Final = Interrupt(0)


@dataclass(frozen=True, slots=True)
class RegisterAccess(Event):
    """A read or write of a register that the Acceldev specification allows."""

    name: str
    value: int
    write: bool


@dataclass(frozen=True, slots=True)
class CommandQueued(Event):
    """The event of a device command that has entered the queue; `index` counts queued commands since reset.

    `free` is the new value of CMD_MANUAL_FREE.
    """

    index: int
    words: tuple[int, ...]
    free: int


@dataclass(frozen=True, slots=True)
class CommandStarted(Event):
    """The event of a device command that was decoded and whose execution begins."""

    index: int
    command: DeviceCommand


@dataclass(frozen=True, slots=True)
class CommandFinished(Event):
    """The event of a device command that has left the queue; `error` is its error, or None.

    If it was a RUN, `fences` is the number of user FENCEs that it counted.
    """

    index: int
    error: SoftcardError | None = None
    fences: int = 0


@dataclass(frozen=True, slots=True)
class UserCommandStarted(Event):
    """A user command of `context` begins; `offset` is its position in the code buffer, in bytes."""

    context: int
    offset: int
    command: UserCommand


@dataclass(frozen=True, slots=True)
class FenceCounted(Event):
    """A user FENCE of `context` was executed; `counter` is the new value in its record."""

    context: int
    counter: int


@dataclass(frozen=True, slots=True)
class ContextErrored(Event):
    """A user command of `context` failed, or its code could not be read; the record's error bit is now set."""

    context: int
    interrupt: Interrupt
    error: SoftcardError


@dataclass(frozen=True, slots=True)
class InterruptRaised(Event):
    """The event of a request for an interrupt.

    `coalesced` is True if the interrupt was active already, so that the driver cannot see two separate requests.
    """

    interrupt: Interrupt
    coalesced: bool


@dataclass(frozen=True, slots=True)
class InterruptCleared(Event):
    """Interrupts became inactive, because a driver cleared them."""

    interrupts: Interrupt


@dataclass(frozen=True, slots=True)
class Coalesced(Lint):
    """The lint "interrupt-coalesced": `interrupt` was requested again before the driver cleared it."""

    interrupt: Interrupt = NONE


@dataclass(frozen=True, slots=True)
class DeviceReset(Event):
    """The device was reset."""
