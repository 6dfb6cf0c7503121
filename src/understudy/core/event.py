"""Event records and probes: the only way out of a device.

A device never prints. It emits frozen records; tracing, statistics, lints, progress bars and reports subscribe.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Event:
    """Base of all event records. `time` counts guest steps (retired instructions), never seconds."""

    time: int


Probe = Callable[[Event], None]


class Probes:
    """The subscribers of one device. Emitting costs one attribute test while nobody listens."""

    __slots__ = ("_probes", "_wanted", "active")

    def __init__(self) -> None:
        self._probes: tuple[tuple[Probe, tuple[type[Event], ...], bool], ...] = ()
        self._wanted: dict[tuple[bool, tuple[type[Event], ...]], bool] = {}
        """What `wants` and `wants_at_once` have answered since somebody came or went."""
        self.active = False

    def subscribe(self, probe: Probe, *wanted: type[Event], later: bool = False) -> Callable[[], None]:
        """Call `probe` with every event of the kinds `wanted` from now on, with all events where none is named.

        A device may work faster where nobody wants what it would have to stop for, and where those who do take it
        `later`, all at once and in order: they must not expect to see the device as it was at the event. The result
        cancels the subscription.
        """
        entry = (probe, wanted or (Event,), later)
        self._probes += (entry,)
        self._wanted = {}
        self.active = True

        def cancel() -> None:
            self._probes = tuple(each for each in self._probes if each is not entry)
            self._wanted = {}
            self.active = bool(self._probes)

        return cancel

    def wants(self, *kinds: type[Event]) -> bool:
        """Whether somebody subscribed to events of any of these kinds."""
        return self.active and self._wants(False, kinds)

    def wants_at_once(self, *kinds: type[Event]) -> bool:
        """Whether one of them looks at the device when it hears of an event."""
        return self.active and self._wants(True, kinds)

    def _wants(self, at_once: bool, kinds: tuple[type[Event], ...]) -> bool:
        answers = self._wanted  # of these probes: another thread may subscribe meanwhile
        found = answers.get((at_once, kinds))
        if found is None:
            probes = [wanted for _, wanted, later in self._probes if not (at_once and later)]
            found = answers[at_once, kinds] = any(issubclass(kind, wanted) for wanted in probes for kind in kinds)
        return found

    def emit(self, event: Event) -> None:
        """Hand one record to every subscriber that wants it, in the order they came."""
        for probe, wanted, _ in self._probes:
            if isinstance(event, wanted):
                probe(event)

    def emit_all(self, events: Iterable[Event]) -> None:
        """Likewise many records, one after the other."""
        for event in events:
            for probe, wanted, _ in self._probes:
                if isinstance(event, wanted):
                    probe(event)
