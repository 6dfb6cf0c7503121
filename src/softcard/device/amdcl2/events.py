"""The events that the device of an AMD OpenCL 2.0 program sends to its probes.

`time` counts retired wave instructions.
"""

from __future__ import annotations

from dataclasses import dataclass

from softcard.core.errors import SoftcardError
from softcard.core.event import Event


@dataclass(frozen=True, slots=True)
class KernelStarted(Event):
    """The event of the start of a kernel that the host launched or that another kernel enqueued.

    `grid` and `group` are in work-items."""

    kernel_object: int
    grid: tuple[int, int, int]
    group: tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class KernelFinished(Event):
    """The event of the end of a kernel, with the numbers of waves and wave instructions that it executed.

    Kernels that it enqueued start after this event."""

    kernel_object: int
    waves: int
    instructions: int


@dataclass(frozen=True, slots=True)
class KernelFailed(Event):
    """The event of a kernel that has failed with `error`."""

    kernel_object: int
    error: SoftcardError
