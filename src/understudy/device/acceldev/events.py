"""What an Acceldev tells its probes. `time` counts commands, of the device and of users, processed since reset."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from understudy.core.errors import UnderstudyError
from understudy.core.event import Event
from understudy.core.lint import Lint as Lint
from understudy.device.acceldev.commands import DeviceCommand, UserCommand
from understudy.device.acceldev.registers import Interrupt

NONE: Final = Interrupt(0)


@dataclass(frozen=True, slots=True)
class RegisterAccess(Event):
    """A register was read or written, as the document wants it."""

    name: str
    value: int
    write: bool


@dataclass(frozen=True, slots=True)
class CommandQueued(Event):
    """A device command entered the queue as number `index` since reset; `free` is what CMD_MANUAL_FREE shows now."""

    index: int
    words: tuple[int, ...]
    free: int


@dataclass(frozen=True, slots=True)
class CommandStarted(Event):
    """A device command was decoded and begins."""

    index: int
    command: DeviceCommand


@dataclass(frozen=True, slots=True)
class CommandFinished(Event):
    """The device command left the queue; `error` says what went wrong, if anything did.

    `fences` user FENCEs were counted, if it is a RUN.
    """

    index: int
    error: UnderstudyError | None = None
    fences: int = 0


@dataclass(frozen=True, slots=True)
class UserCommandStarted(Event):
    """A user command of `context` begins; `offset` is its place in the code buffer, in bytes."""

    context: int
    offset: int
    command: UserCommand


@dataclass(frozen=True, slots=True)
class FenceCounted(Event):
    """A user FENCE of `context`; `counter` is what its record holds now."""

    context: int
    counter: int


@dataclass(frozen=True, slots=True)
class ContextErrored(Event):
    """A user command of `context` failed, or its code could not be read; the record's error bit is set now."""

    context: int
    interrupt: Interrupt
    error: UnderstudyError


@dataclass(frozen=True, slots=True)
class InterruptRaised(Event):
    """An interrupt became active, or was so already (`coalesced`)."""

    interrupt: Interrupt
    coalesced: bool


@dataclass(frozen=True, slots=True)
class InterruptCleared(Event):
    """Interrupts became inactive."""

    interrupts: Interrupt


@dataclass(frozen=True, slots=True)
class Coalesced(Lint):
    """The lint "interrupt-coalesced", and of which interrupt."""

    interrupt: Interrupt = NONE


@dataclass(frozen=True, slots=True)
class DeviceReset(Event):
    """The device was reset."""
