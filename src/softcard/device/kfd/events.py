"""Events that a `KfdDevice` sends to its probes. Their `time` is the number of calls to the driver so far."""

from __future__ import annotations

from dataclasses import dataclass

from softcard.core.errors import SoftcardError
from softcard.core.event import Event


@dataclass(frozen=True, slots=True)
class ProcessOpened(Event):
    """The event of a program that opened the driver.

    `process` is the number of the program, counted from 1; `pid` is the system's process id."""

    process: int
    pid: int


@dataclass(frozen=True, slots=True)
class ProcessClosed(Event):
    """The event of the end of a program.

    `queues`, `allocations` and `waitables` (events of the driver) are the numbers of objects that the program did
    not release."""

    process: int
    queues: int
    allocations: int
    waitables: int


@dataclass(frozen=True, slots=True)
class Called(Event):
    """The event of an ioctl that the driver has answered. `refused` is the error, with its errno, or None."""

    process: int
    name: str
    refused: str
    errno: int


@dataclass(frozen=True, slots=True)
class LaunchRefused(Event):
    """The event of a launch that the program's run-time library refused, so that no packet is submitted for it.

    `status` is the library's hipError_t."""

    process: int
    status: int


@dataclass(frozen=True, slots=True)
class KernelLint(Event):
    """The lint about a kernel of a program: the agent accepts it, but it most likely contains a mistake."""

    process: int
    agent: str
    check: str
    message: str


@dataclass(frozen=True, slots=True)
class QueueFailed(Event):
    """The event of a queue that has stopped because of an error of a packet or of a kernel's waves."""

    process: int
    agent: str
    queue: int
    error: SoftcardError
