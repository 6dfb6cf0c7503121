"""What a RefSi device tells its probes. `time` counts instructions retired by all harts since the device was opened."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from understudy.core.event import Event
from understudy.core.quick import made_quickly
from understudy.core.registers import Registers
from understudy.core.space import Unit
from understudy.device.refsi.commands import Command
from understudy.device.refsi.status import BufferStatus


@dataclass(frozen=True, slots=True)
class BufferSubmitted(Event):
    """The host has submitted a buffer, which runs when somebody waits or looks."""

    ticket: int
    address: int
    size: int


@dataclass(frozen=True, slots=True)
class BufferStarted(Event):
    """The command processor begins a buffer."""

    ticket: int
    address: int
    size: int


@dataclass(frozen=True, slots=True)
class BufferFinished(Event):
    """A buffer is over, well or badly."""

    status: BufferStatus


@made_quickly
@dataclass(frozen=True, slots=True)
class CommandStarted(Event):
    """A command was decoded and begins; `chunk` is the index of its header in the buffer."""

    ticket: int
    index: int
    chunk: int
    command: Command


@made_quickly
@dataclass(frozen=True, slots=True)
class CommandFinished(Event):
    """A command was executed completely."""

    ticket: int
    index: int
    chunk: int
    command: Command


@made_quickly
@dataclass(frozen=True, slots=True)
class RegisterAccess(Event):
    """`unit` read or wrote register `index` of the file ``CMP``, ``DMA`` or ``PERF_COUNTERS``."""

    unit: Unit
    file: str
    index: int
    value: int
    write: bool


@made_quickly
@dataclass(frozen=True, slots=True)
class DmaTransfer(Event):
    """The DMA controller moves `sizes` (bytes, rows, planes) on behalf of `unit`; strides in bytes, per dimension."""

    unit: Unit
    id: int
    source: int
    target: int
    sizes: tuple[int, ...]
    source_strides: tuple[int, ...]
    target_strides: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class KernelLaunch(Event):
    """A kernel command starts `instances` instances in groups of `harts`."""

    entry: int
    instances: int
    harts: int


@dataclass(frozen=True, slots=True)
class KernelsNamed(Event):
    """Somebody knows the names of entries: `kernels` has the entry by name."""

    kernels: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class InstanceStarted(Event):
    """`hart` begins instance `instance`."""

    hart: int
    instance: int


@dataclass(frozen=True, slots=True)
class InstanceEnded(Event):
    """`hart` ended instance `instance`: ``return``, ``exit``, or ``stopped`` because the group failed."""

    hart: int
    instance: int
    how: str
    code: int = 0


@dataclass(frozen=True, slots=True)
class InstancesLeftOut(Event):
    """Of so many more instances of the kernel command there are no events, nor of what their harts did at barriers and
    with registers and DMA, but of faults, findings and output: the setting `trace_instances` bounds them."""

    instances: int


@dataclass(frozen=True, slots=True)
class HartFault(Event):
    """A hart trapped. `text` is the line the reference driver prints on stderr.

    `message` says what was wrong, and `rule` is the id of the rule that was broken; "" where there is none.
    """

    hart: int
    instance: int | None
    pc: int
    cause: int
    value: int
    text: str
    message: str = ""
    rule: str = ""
    registers: Registers | None = None
    """All integer registers of the hart."""


@dataclass(frozen=True, slots=True)
class RegistersTaken(Event):
    """Registers of a hart: ``before`` the instruction, at its ``fault``, at the ``end`` of its instance.

    `vectors` has the vector registers that are not 0, 32 bits after 32 bits.
    """

    hart: int
    why: str
    pc: int
    instruction: str
    scalars: Mapping[str, str]
    vectors: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class RegistersLeftOut(Event):
    """There were `snapshots` such events, the setting's bound: of further moments nothing is told."""

    snapshots: int


@dataclass(frozen=True, slots=True)
class BarrierReached(Event):
    """`hart` waits at the barrier with this link address."""

    hart: int
    link: int


@dataclass(frozen=True, slots=True)
class ConsoleOutput(Event):
    """A kernel wrote bytes to the host's standard output."""

    hart: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Diagnostic(Event):
    """A line that the reference driver prints on stderr, without its newline."""

    text: str
