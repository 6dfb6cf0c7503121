"""Events that a Fletcher device sends to its probes. `time` counts register accesses since power-on."""

from __future__ import annotations

from dataclasses import dataclass

from softcard.core.errors import SoftcardError
from softcard.core.event import Event
from softcard.core.lint import Lint as Lint


@dataclass(frozen=True, slots=True)
class RegisterAccess(Event):
    """The event of a read or write of a bus word; `name` contains the names of its fields.

    `response` is 0 (OKAY) or 2 (SLVERR)."""

    address: int
    name: str
    value: int
    write: bool
    response: int


@dataclass(frozen=True, slots=True)
class KernelStarted(Event):
    """The event of a kernel that begins.

    `ranges` has the name, the first and the last index (exclusive) of each RecordBatch."""

    kernel: str
    ranges: tuple[tuple[str, int, int], ...]


@dataclass(frozen=True, slots=True)
class KernelFinished(Event):
    """The event of a kernel that is done, after it has executed `slices` slices."""

    kernel: str
    result: int
    slices: int


@dataclass(frozen=True, slots=True)
class KernelAborted(Event):
    """The event of a running kernel that was ended before it was done.

    `by` is the cause: the stop or reset bit of the control register, a reset of the device, the restoration of a
    snapshot, or the closing of the device.
    """

    kernel: str
    by: str


@dataclass(frozen=True, slots=True)
class KernelFailed(Event):
    """The event of a kernel that has failed with `error` and never finishes; the device stays busy."""

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
    """The event of a line of text from the kernel. A simulation of the Fletcher example would print this line."""

    kernel: str
    text: str


@dataclass(frozen=True, slots=True)
class DeviceReset(Event):
    """The event of a reset of the whole device, including its registers."""
