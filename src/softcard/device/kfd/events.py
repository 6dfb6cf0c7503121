"""Events that a `KfdDevice` sends to its probes. Their `time` is the number of calls of the driver."""

from __future__ import annotations

from dataclasses import dataclass

from softcard.core.errors import SoftcardError
from softcard.core.event import Event


@dataclass(frozen=True, slots=True)
class ProcessOpened(Event):
    """The event of a program that opened the driver.

    `process` counts programs from 1; `pid` is the system's process id.
    """

    process: int
    pid: int


@dataclass(frozen=True, slots=True)
class ProcessClosed(Event):
    """The event of the end of a program.

    `queues`, `allocations` and `waitables` (events of the driver) are the numbers of those that it did not release.
    """

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
    """The event that the program's run-time library refused a launch, so that no packet follows.

    `status` is the hipError_t.
    """

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
