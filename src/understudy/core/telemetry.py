"""How the parts of a device reach its probes."""

from __future__ import annotations

from collections.abc import Callable

from understudy.core.event import Event, Probes


class Telemetry:
    """The device's probes and its clock. An event is only made when somebody listens."""

    __slots__ = ("clock", "probes")

    def __init__(self, probes: Probes | None = None, clock: Callable[[], int] = lambda: 0) -> None:
        self.probes = Probes() if probes is None else probes
        self.clock = clock

    @property
    def listened(self) -> bool:
        """Whether anybody listens."""
        return self.probes.active

    def emit(self, make: Callable[[int], Event]) -> None:
        """Emit the event that `make` makes of the time, if anybody listens."""
        if self.probes.active:
            self.probes.emit(make(self.clock()))
