"""Event records, and the probes that receive them: the only output of a device.

A device never prints. It emits frozen records; tracing, statistics, lints, progress bars and reports subscribe to them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import MISSING, dataclass, fields
from typing import Any, TypeVar


@dataclass(frozen=True, slots=True)
class Event:
    """The base of all event records. `time` is the value of the device's clock, whose unit depends on the device."""

    time: int


Probe = Callable[[Event], None]


class Probes:
    """The subscribers of one device. Without subscribers, emitting an event costs one attribute test."""

    __slots__ = ("_probes", "_wanted", "active")

    def __init__(self) -> None:
        self._probes: tuple[tuple[Probe, tuple[type[Event], ...], bool], ...] = ()
        self._wanted: dict[tuple[bool, tuple[type[Event], ...]], bool] = {}
        """Cached results of `wants` and `wants_at_once`; a new or cancelled subscription clears them."""
        self.active = False

    def subscribe(self, probe: Probe, *wanted: type[Event], later: bool = False) -> Callable[[], None]:
        """Call `probe` with each later event of the classes `wanted`, or with all events if `wanted` is empty.

        With `later`, the device may deliver events late: in batches, in order, and when its state has changed since
        the event. The device may run faster if all subscribers permit this. The returned function cancels the
        subscription."""
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
        """Return True if there is a subscriber to any of these kinds of events."""
        return self.active and self._wants(False, kinds)

    def wants_at_once(self, *kinds: type[Event]) -> bool:
        """Return True if a subscriber to these kinds needs each event at once, because it inspects the device then.

        Such events must not be batched.
        """
        return self.active and self._wants(True, kinds)

    def _wants(self, at_once: bool, kinds: tuple[type[Event], ...]) -> bool:
        answers = self._wanted  # of these probes: another thread may subscribe meanwhile
        found = answers.get((at_once, kinds))
        if found is None:
            probes = [wanted for _, wanted, later in self._probes if not (at_once and later)]
            found = answers[at_once, kinds] = any(issubclass(kind, wanted) for wanted in probes for kind in kinds)
        return found

    def emit(self, event: Event) -> None:
        """Pass one event to every subscriber that wants it, in the order of subscription."""
        for probe, wanted, _ in self._probes:
            if isinstance(event, wanted):
                probe(event)

    def emit_all(self, events: Iterable[Event]) -> None:
        """Pass events to the subscribers that want them, one event after another."""
        for event in events:
            for probe, wanted, _ in self._probes:
                if isinstance(event, wanted):
                    probe(event)


T = TypeVar("T")


def made_quickly(kind: type[T]) -> type[T]:
    """Speed up the constructor of `kind`, a frozen dataclass with slots, and return the class; use as a decorator.

    The constructor then takes two thirds of the time: it sets fields through their slot descriptors, without the lookup
    by name of `object.__setattr__`. Raise `TypeError` for a class with default factories, `__post_init__` or
    keyword-only fields.
    """
    own: Any = kind
    names = [field.name for field in fields(own)]
    is_plain = all(each.init and not each.kw_only and each.default_factory is MISSING for each in fields(own))
    if not is_plain or hasattr(kind, "__post_init__"):
        raise TypeError(f"{kind.__name__} must have only plain fields (no default factory, __post_init__ or kw_only)")
    slots = {f"_set_{name}": getattr(kind, name).__set__ for name in names}
    body = "".join(f"\n    _set_{name}(self, {name})" for name in names)
    space: dict[str, Any] = dict(slots)
    exec(f"def __init__(self, {', '.join(names)}):{body}", space)
    made = space["__init__"]
    made.__defaults__, made.__annotations__ = own.__init__.__defaults__, own.__init__.__annotations__
    made.__qualname__, made.__module__ = f"{kind.__qualname__}.__init__", kind.__module__
    own.__init__ = made
    return kind
