"""Event records and probes: the only way out of a device.

A device never prints. It emits frozen records; tracing, statistics, lints, progress bars and reports subscribe.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Event:
    """Base of all event records. `time` counts guest steps (retired instructions), never seconds."""

    time: int


Probe = Callable[[Event], None]


class Probes:
    """The subscribers of one device. Emitting costs one attribute test while nobody listens."""

    __slots__ = ("_probes", "active")

    def __init__(self) -> None:
        self._probes: list[Probe] = []
        self.active = False

    def subscribe(self, probe: Probe) -> Callable[[], None]:
        """Call `probe` with every event from now on; the result cancels that."""
        self._probes.append(probe)
        self.active = True

        def cancel() -> None:
            if probe in self._probes:
                self._probes.remove(probe)
            self.active = bool(self._probes)

        return cancel

    def emit(self, event: Event) -> None:
        """Hand one record to every subscriber, in the order they came."""
        for probe in tuple(self._probes):
            probe(event)
