"""Events that an HSA device sends to its probes. `time` counts packets completed and wave instructions retired."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from softcard.core.errors import SoftcardError
from softcard.core.event import Event, made_quickly
from softcard.core.lint import Lint as Lint
from softcard.device.hsa.queues.packets import Packet, PacketType
from softcard.engine.gcn.strict.findings import Finding


@made_quickly
@dataclass(frozen=True, slots=True)
class DoorbellRung(Event):
    """The event of a write to a doorbell; packets with indices below `limit` may be processed now."""

    queue: int
    value: int
    limit: int


@dataclass(frozen=True, slots=True)
class CodeLoaded(Event):
    """The event of the host loading code of `size` bytes; `kernels` maps names to the addresses of kernel objects."""

    address: int
    size: int
    kernels: Mapping[str, int]


@made_quickly
@dataclass(frozen=True, slots=True)
class PacketStarted(Event):
    """The event of the packet processor beginning to process packet `index` of a queue."""

    queue: int
    index: int
    type: PacketType
    packet: Packet | None


@dataclass(frozen=True, slots=True)
class PacketBlocked(Event):
    """The event of a packet that has to wait: packet `index` of queue `queue`, for the reason `why`."""

    queue: int
    index: int
    why: str


@made_quickly
@dataclass(frozen=True, slots=True)
class PacketCompleted(Event):
    """The event of a packet that is done and whose slot is free; it has retired `instructions` instructions."""

    queue: int
    index: int
    instructions: int


@made_quickly
@dataclass(frozen=True, slots=True)
class SignalChanged(Event):
    """The event of a completion signal that the packet processor has decremented to `value`."""

    signal: int
    value: int


@dataclass(frozen=True, slots=True)
class InterruptSent(Event):
    """The event of an interrupt that a wave or the packet processor sent.

    The cause is s_sendmsg, or the event of a signal with a mailbox.
    """

    event_id: int


@dataclass(frozen=True, slots=True)
class Trapped(Event):
    """The event of a wave that executed the instruction s_trap `number`; `resumed` is True if the wave continues."""

    queue: int
    index: int
    number: int
    argument: int
    resumed: bool


@dataclass(frozen=True, slots=True)
class QueueErrored(Event):
    """The event of a queue that became inactive because of an error of packet `index`.

    `code` is the value for its queue_inactive_signal.
    """

    queue: int
    index: int
    code: int
    error: SoftcardError


@dataclass(frozen=True, slots=True)
class QueueInactivated(Event):
    """The event of a queue whose processing the host has stopped or resumed."""

    queue: int
    active: bool


@dataclass(frozen=True, slots=True)
class DeviceRestored(Event):
    """The event of a return to a snapshot or to the initial state; `time` continues from the restored value."""


@dataclass(frozen=True, slots=True)
class Incoherent(Event):
    """The event of a read that returned a value on which a correct program must not depend.

    Only a memory that models caches (coherence "strict") emits it.
    """

    finding: Finding

    def __str__(self) -> str:
        return str(self.finding)
