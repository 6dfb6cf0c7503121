"""What happens in a device-side queue, for those who listen."""

from __future__ import annotations

from dataclasses import dataclass

from understudy.core.event import Event


@dataclass(frozen=True, slots=True)
class ChildLaunched(Event):
    """A kernel that another one enqueued starts."""

    slot: int
    command_id: int
    kernel_object: int


@dataclass(frozen=True, slots=True)
class ChildCompleted(Event):
    """A slot is free again: its kernel and all that it enqueued have ended."""

    slot: int
    command_id: int
