"""Of which instances of a kernel command events tell: there may be millions, and of each a dozen events."""

from __future__ import annotations

from understudy.core.event import Event
from understudy.core.telemetry import Telemetry
from understudy.device.refsi.events import (
    BarrierReached,
    DmaTransfer,
    InstanceEnded,
    InstancesLeftOut,
    InstanceStarted,
    RegisterAccess,
)
from understudy.device.refsi.interfaces import HART


def is_of_a_hart(event: Event) -> bool:
    """Whether an event is about an ordinary step of an instance: none that tells of a mistake, and no output."""
    if isinstance(event, RegisterAccess | DmaTransfer):
        return event.unit.kind == HART
    return isinstance(event, InstanceStarted | InstanceEnded | BarrierReached)


class InstanceTeller:
    """Has events tell of the first instances of each kernel command, `most` of them: whole groups, and one at least."""

    def __init__(self, telemetry: Telemetry, most: int) -> None:
        self._telemetry = telemetry
        self._most = most
        self._instances = self.told = 0

    def begin(self, instances: int, width: int) -> None:
        """A kernel command begins, with groups of `width` instances."""
        most = self._most
        whole = max(most // width, 1) * width if most else 0
        self._instances, self.told = instances, instances if instances <= most else min(instances, whole)

    def begin_group(self, first: int) -> None:
        """So does its group that has instance `first`."""
        self._telemetry.leaves_out = None if first < self.told else is_of_a_hart

    def end(self) -> None:
        """It is over, or has failed."""
        self._telemetry.leaves_out = None
        more = self._instances - self.told
        if more:
            self._telemetry.emit(lambda time: InstancesLeftOut(time, more))
