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
    """The event of a read or write of a register that the Acceldev specification allows."""

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

    For a RUN, `fences` is the number of user FENCEs that were executed and counted."""

    index: int
    error: SoftcardError | None = None
    fences: int = 0


@dataclass(frozen=True, slots=True)
class UserCommandStarted(Event):
    """The event of a user command of `context` that begins; `offset` is its position in the code buffer, in bytes."""

    context: int
    offset: int
    command: UserCommand


@dataclass(frozen=True, slots=True)
class FenceCounted(Event):
    """The event of a user FENCE of `context` that was executed.

    `counter` is the new value of ``fence_counter`` in the record of the context."""

    context: int
    counter: int


@dataclass(frozen=True, slots=True)
class ContextErrored(Event):
    """The event of a failed user command of `context`, or of a code buffer of `context` that could not be read.

    The error bit in the context's record is now set."""

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
    """The event of active interrupts that a driver has cleared."""

    interrupts: Interrupt


@dataclass(frozen=True, slots=True)
class Coalesced(Lint):
    """The lint "interrupt-coalesced": `interrupt` was requested again before the driver cleared it."""

    interrupt: Interrupt = NONE


@dataclass(frozen=True, slots=True)
class DeviceReset(Event):
    """The event of a device reset."""
