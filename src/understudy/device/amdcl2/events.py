"""What the device of an AMD OpenCL 2.0 program tells its probes. `time` counts wave instructions retired."""

from __future__ import annotations

from dataclasses import dataclass

from understudy.core.errors import UnderstudyError
from understudy.core.event import Event


@dataclass(frozen=True, slots=True)
class KernelStarted(Event):
    """A kernel begins: of the host, or one that another has enqueued. `grid` and `group` are in work-items."""

    kernel_object: int
    grid: tuple[int, int, int]
    group: tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class KernelFinished(Event):
    """A kernel is done, with so many waves and wave instructions; what it has enqueued comes after it."""

    kernel_object: int
    waves: int
    instructions: int


@dataclass(frozen=True, slots=True)
class KernelFailed(Event):
    """A kernel has met `error`."""

    kernel_object: int
    error: UnderstudyError
