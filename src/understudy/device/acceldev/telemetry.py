"""How the parts of the device reach its probes, and the time that events carry."""

from __future__ import annotations

from collections.abc import Callable

from understudy.core.event import Event, Probes


class Telemetry:
    """The device's probes, and its clock: commands of the device and of users processed since reset."""

    __slots__ = ("probes", "time")

    def __init__(self) -> None:
        self.probes = Probes()
        self.time = 0

    @property
    def listened(self) -> bool:
        """Whether anybody listens."""
        return self.probes.active

    def emit(self, make: Callable[[int], Event]) -> None:
        """Emit the event that `make` makes of the time, if anybody listens."""
        if self.probes.active:
            self.probes.emit(make(self.time))
