"""What a Fletcher device tells its probes. `time` counts register accesses since power-on."""

from __future__ import annotations

from dataclasses import dataclass

from understudy.core.errors import UnderstudyError
from understudy.core.event import Event
from understudy.core.lint import Lint as Lint


@dataclass(frozen=True, slots=True)
class RegisterAccess(Event):
    """A word of the bus was read or written; `name` is that of the fields in it, `response` 0 (OKAY) or 2 (SLVERR)."""

    address: int
    name: str
    value: int
    write: bool
    response: int


@dataclass(frozen=True, slots=True)
class KernelStarted(Event):
    """The kernel begins; `ranges` are (RecordBatch, first index, last index)."""

    kernel: str
    ranges: tuple[tuple[str, int, int], ...]


@dataclass(frozen=True, slots=True)
class KernelFinished(Event):
    """The kernel is done, after `slices` slices."""

    kernel: str
    result: int
    slices: int


@dataclass(frozen=True, slots=True)
class KernelAborted(Event):
    """The host has ended the kernel by `by`: control stop, control reset or a reset of the device."""

    kernel: str
    by: str


@dataclass(frozen=True, slots=True)
class KernelFailed(Event):
    """The kernel has met `error` and never finishes; the device stays busy."""

    kernel: str
    error: UnderstudyError


@dataclass(frozen=True, slots=True)
class RowsMoved(Event):
    """The kernel has read (or written) rows of a RecordBatch."""

    batch: str
    rows: int
    write: bool


@dataclass(frozen=True, slots=True)
class KernelText(Event):
    """A line that the kernel says, where an example's simulation prints one."""

    kernel: str
    text: str


@dataclass(frozen=True, slots=True)
class DeviceReset(Event):
    """The whole device was reset, registers and all."""
