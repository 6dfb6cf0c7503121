"""Events that a Fletcher device sends to its probes. `time` counts register accesses since power-on."""

from __future__ import annotations

from dataclasses import dataclass

from softcard.core.errors import SoftcardError
from softcard.core.event import Event
from softcard.core.lint import Lint as Lint


@dataclass(frozen=True, slots=True)
class RegisterAccess(Event):
    """A word of the bus was read or written; `name` names its fields.

    `response` is 0 (OKAY) or 2 (SLVERR).
    """

    address: int
    name: str
    value: int
    write: bool
    response: int


@dataclass(frozen=True, slots=True)
class KernelStarted(Event):
    """The event of a kernel that begins.

    `ranges` has the name of each RecordBatch with its first and last index (exclusive).
    """

    kernel: str
    ranges: tuple[tuple[str, int, int], ...]


@dataclass(frozen=True, slots=True)
class KernelFinished(Event):
    """The kernel is done; its work had `slices` slices."""

    kernel: str
    result: int
    slices: int


@dataclass(frozen=True, slots=True)
class KernelAborted(Event):
    """The event of a kernel that the host has ended.

    `by` is the cause: control stop, control reset, or a reset of the device.
    """

    kernel: str
    by: str


@dataclass(frozen=True, slots=True)
class KernelFailed(Event):
    """The kernel has failed with `error` and never finishes; the device stays busy."""

    kernel: str
    error: SoftcardError


@dataclass(frozen=True, slots=True)
class RowsMoved(Event):
    """The event of rows of a RecordBatch that the kernel has read from or written to device memory."""

    batch: str
    rows: int
    write: bool


@dataclass(frozen=True, slots=True)
class KernelText(Event):
    """A line of text from the kernel, which the simulation of a Fletcher example would print."""

    kernel: str
    text: str


@dataclass(frozen=True, slots=True)
class DeviceReset(Event):
    """The whole device was reset, including its registers."""
