"""What a `KfdDevice` tells its probes. `time` counts calls of the driver."""

from __future__ import annotations

from dataclasses import dataclass

from understudy.core.errors import UnderstudyError
from understudy.core.event import Event


@dataclass(frozen=True, slots=True)
class ProcessOpened(Event):
    """A program opened the driver; `process` counts from 1, `pid` is the system's."""

    process: int
    pid: int


@dataclass(frozen=True, slots=True)
class ProcessClosed(Event):
    """It is gone: `queues`, `allocations` and `waitables` (events) are what it had not given back."""

    process: int
    queues: int
    allocations: int
    waitables: int


@dataclass(frozen=True, slots=True)
class Called(Event):
    """An ioctl was answered; `refused` says why not, with the system's number of that."""

    process: int
    name: str
    refused: str
    errno: int


@dataclass(frozen=True, slots=True)
class QueueMade(Event):
    """A ring of a program became a queue of an agent."""

    process: int
    agent: str
    queue: int
    kind: str


@dataclass(frozen=True, slots=True)
class QueueFailed(Event):
    """A queue has stopped: what its packets, or the waves of its kernels, did wrong."""

    process: int
    agent: str
    queue: int
    error: UnderstudyError
