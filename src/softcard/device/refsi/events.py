"""Events that a RefSi device sends to its probes.

Their `time` is the number of instructions that all harts have retired since the device was opened.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from softcard.core.device import Telemetry
from softcard.core.errors import Registers
from softcard.core.event import Event, made_quickly
from softcard.core.space import Unit
from softcard.device.refsi.commands import BufferStatus, Command
from softcard.device.refsi.interfaces import HART

TRACED: Final = 10_000
"""The default number of instances of a kernel command that emit events: some 20 MB of a trace in memory."""


@dataclass(frozen=True, slots=True)
class BufferSubmitted(Event):
    """The event that the host has submitted a buffer. The buffer runs when the host waits or accesses the device."""

    ticket: int
    address: int
    size: int


@dataclass(frozen=True, slots=True)
class BufferStarted(Event):
    """The event that the command processor begins a buffer."""

    ticket: int
    address: int
    size: int


@dataclass(frozen=True, slots=True)
class BufferFinished(Event):
    """The event that a buffer has ended, with success or an error."""

    status: BufferStatus


@made_quickly
@dataclass(frozen=True, slots=True)
class CommandStarted(Event):
    """The event that a command begins; `chunk` is the index of its header in the buffer."""

    ticket: int
    index: int
    chunk: int
    command: Command


@made_quickly
@dataclass(frozen=True, slots=True)
class CommandFinished(Event):
    """The event that a command was executed completely."""

    ticket: int
    index: int
    chunk: int
    command: Command


@made_quickly
@dataclass(frozen=True, slots=True)
class RegisterAccess(Event):
    """The event that `unit` read or wrote register `index` of ``CMP``, ``DMA`` or ``PERF_COUNTERS``."""

    unit: Unit
    file: str
    index: int
    value: int
    write: bool


@made_quickly
@dataclass(frozen=True, slots=True)
class DmaTransfer(Event):
    """The event that the DMA controller moves data for `unit`.

    `sizes` are bytes, rows and planes; strides are in bytes, one for each dimension.
    """

    unit: Unit
    id: int
    source: int
    target: int
    sizes: tuple[int, ...]
    source_strides: tuple[int, ...]
    target_strides: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class KernelLaunch(Event):
    """The event that a kernel command starts `instances` instances in groups of `harts`."""

    entry: int
    instances: int
    harts: int


@dataclass(frozen=True, slots=True)
class KernelsNamed(Event):
    """The event that names of kernels became known: `kernels` maps a name to the kernel's entry address."""

    kernels: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class InstanceStarted(Event):
    """The event that `hart` begins instance `instance`."""

    hart: int
    instance: int


@dataclass(frozen=True, slots=True)
class InstanceEnded(Event):
    """The event that `hart` ended an instance: by ``return`` or ``exit``, or ``stopped`` because the group failed."""

    hart: int
    instance: int
    how: str
    code: int = 0


@dataclass(frozen=True, slots=True)
class InstancesLeftOut(Event):
    """The event that `instances` instances of a command exceed the limit in the setting `trace_instances`.

    Those instances emit only events for faults, findings and output, not for barriers, registers and DMA."""

    instances: int


@dataclass(frozen=True, slots=True)
class HartFault(Event):
    """The event that a hart trapped. `text` is the line that the reference driver prints on stderr.

    `message` describes the error. `rule` is the id of the rule that was violated, or "" if there is none."""

    hart: int
    instance: int | None
    pc: int
    cause: int
    value: int
    text: str
    message: str = ""
    rule: str = ""
    registers: Registers | None = None
    """All integer registers of the hart; None if they were not recorded."""


@dataclass(frozen=True, slots=True)
class RegistersTaken(Event):
    """The event that a snapshot of a hart's registers was taken at a point of execution.

    The point is ``before`` an instruction, at its ``fault``, or at the ``end`` of its instance. `vectors` has the
    vector registers that are not 0, as 32-bit words.
    """

    hart: int
    why: str
    pc: int
    instruction: str
    scalars: Mapping[str, str]
    vectors: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class RegistersLeftOut(Event):
    """The event that the limit `snapshots` is reached: no further register snapshots are emitted."""

    snapshots: int


@dataclass(frozen=True, slots=True)
class BarrierReached(Event):
    """The event that `hart` waits at the barrier with this link address."""

    hart: int
    link: int


@dataclass(frozen=True, slots=True)
class ConsoleOutput(Event):
    """The event that a kernel wrote bytes to the host's standard output."""

    hart: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Diagnostic(Event):
    """The event that the reference driver would print a line on stderr; the text is without the newline."""

    text: str


# ---- events of kernel instances --------------------------------------------------------------------------------------
# A filter that limits the events of a kernel command to its first instances: there may be millions of them.


def is_of_a_hart(event: Event) -> bool:
    """Return True for an event about an ordinary step of an instance, such as a barrier or a register access.

    Errors and output are not ordinary steps.
    """
    if isinstance(event, RegisterAccess | DmaTransfer):
        return event.unit.kind == HART
    return isinstance(event, InstanceStarted | InstanceEnded | BarrierReached)


class InstanceFilter:
    """A filter that passes the events of the first `most` instances of each kernel command.

    It passes only the events of whole groups of harts, and those of at least one group unless `most` is 0."""

    def __init__(self, telemetry: Telemetry, most: int) -> None:
        self._telemetry = telemetry
        self._most = most
        self._instances = self.traced = 0

    def begin(self, instances: int, width: int) -> None:
        """Begin a kernel command with `instances` instances, which run in groups of `width`."""
        most = self._most
        whole = max(most // width, 1) * width if most else 0
        self._instances, self.traced = instances, instances if instances <= most else min(instances, whole)

    def begin_group(self, first: int) -> None:
        """Begin the group of harts that runs instance `first` and the instances after it."""
        self._telemetry.leaves_out = None if first < self.traced else is_of_a_hart

    def end(self) -> None:
        """End the kernel command, whether it has succeeded or failed."""
        self._telemetry.leaves_out = None
        more = self._instances - self.traced
        if more:
            self._telemetry.emit(lambda time: InstancesLeftOut(time, more))
