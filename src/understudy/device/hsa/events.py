"""What an HSA device tells its probes. `time` counts packets completed and wave instructions retired."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from understudy.core.errors import UnderstudyError
from understudy.core.event import Event
from understudy.core.lint import Lint as Lint
from understudy.core.quick import made_quickly
from understudy.device.hsa.packets import Packet, PacketType
from understudy.engine.gcn.strict.findings import Finding


@made_quickly
@dataclass(frozen=True, slots=True)
class DoorbellRung(Event):
    """A doorbell was stored to; packets below `limit` may be processed now."""

    queue: int
    value: int
    limit: int


@dataclass(frozen=True, slots=True)
class CodeLoaded(Event):
    """The host loaded code of `size` bytes: `kernels` has the kernel objects in it, by name."""

    address: int
    size: int
    kernels: Mapping[str, int]


@made_quickly
@dataclass(frozen=True, slots=True)
class PacketStarted(Event):
    """The packet processor took packet `index` of a queue."""

    queue: int
    index: int
    type: PacketType
    packet: Packet | None


@dataclass(frozen=True, slots=True)
class PacketBlocked(Event):
    """Packet `index` of a queue has to wait: `why` says for what."""

    queue: int
    index: int
    why: str


@made_quickly
@dataclass(frozen=True, slots=True)
class PacketCompleted(Event):
    """A packet is done and its slot free; `instructions` were retired for it."""

    queue: int
    index: int
    instructions: int


@made_quickly
@dataclass(frozen=True, slots=True)
class SignalChanged(Event):
    """The packet processor decremented a completion signal, to `value`."""

    signal: int
    value: int


@dataclass(frozen=True, slots=True)
class InterruptSent(Event):
    """A wave or the packet processor sent an interrupt: s_sendmsg, or the event of a signal with a mailbox."""

    event_id: int


@dataclass(frozen=True, slots=True)
class Trapped(Event):
    """A wave executed s_trap `number`; `resumed` where it went on."""

    queue: int
    index: int
    number: int
    argument: int
    resumed: bool


@dataclass(frozen=True, slots=True)
class QueueErrored(Event):
    """A queue became inactive because of packet `index`; `code` are the bits of its queue_inactive_signal."""

    queue: int
    index: int
    code: int
    error: UnderstudyError


@dataclass(frozen=True, slots=True)
class QueueInactivated(Event):
    """A queue was made inactive by the host, or resumed."""

    queue: int
    active: bool


@dataclass(frozen=True, slots=True)
class DeviceRestored(Event):
    """The host went back to a snapshot, or to the fresh device: time goes on from there."""


@dataclass(frozen=True, slots=True)
class Incoherent(Event):
    """A strict memory gave a value that a correct program may not depend on."""

    finding: Finding

    def __str__(self) -> str:
        return str(self.finding)
