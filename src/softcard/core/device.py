"""The base class of all devices, and their output: events for subscribers, and lints for the host program."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from types import TracebackType
from typing import Generic, Self, TypeVar

from softcard.core.display import RichDisplay, Rows, fields_of
from softcard.core.event import Event, Probes
from softcard.core.lint import OFF, Lint, LintDesk
from softcard.core.rule import Rule
from softcard.core.settings import DeviceSettings
from softcard.core.snapshot import Stateful


class Telemetry:
    """The probes (subscribers to events), clock and lints of a device.

    Events are only created if there are subscribers.
    """

    __slots__ = ("clock", "desk", "leaves_out", "probes")

    def __init__(self, probes: Probes | None = None, clock: Callable[[], int] = lambda: 0, lints: str = OFF) -> None:
        self.probes = Probes() if probes is None else probes
        self.clock = clock
        self.desk = LintDesk(lints)
        self.leaves_out: Callable[[Event], bool] | None = None
        """A filter that returns True for events that are omitted because there are too many at the time; or None."""

    @property
    def listened(self) -> bool:
        """True if there are subscribers to any events."""
        return self.probes.active

    @property
    def wants_lints(self) -> bool:
        """True if there are subscribers, or if the setting `lints` reports lints to the host."""
        return self.probes.active or self.desk.policy != OFF

    def wants(self, *kinds: type[Event]) -> bool:
        """Return True if there are subscribers to events of any of these kinds."""
        return self.probes.wants(*kinds)

    def emit(self, make: Callable[[int], Event]) -> None:
        """Emit the event that `make` creates for the present time, if there are subscribers."""
        if self.probes.active:
            event = make(self.clock())
            if self.leaves_out is None or not self.leaves_out(event):
                self.probes.emit(event)

    def wants_lint(self, check: str, kind: type[Event]) -> bool:
        """Return True if one more lint of `check` would be reported, or if events of class `kind` have a subscriber."""
        return self.probes.wants(kind) or self.desk.wants(check)

    def lint(self, check: str, message: str, rule: Rule | None = None, time: int | None = None) -> None:
        """Emit a `Lint` with time `time`, by default the present time, and queue it for the host."""
        if self.wants_lints:
            lint = Lint(self.clock() if time is None else time, check, message, rule)
            self.report(lint, lint)

    def report(self, event: Event, lint: Lint) -> None:
        """Emit `event`, which has more details than a `Lint`, and queue `lint` for the host."""
        self.desk.add(lint)
        if self.probes.active:
            self.probes.emit(event)


class CountingTelemetry(Telemetry, Stateful):
    """A telemetry whose clock is the counter `time`, for a device without a hardware clock.

    The device advances `time`. A snapshot of the telemetry contains it.
    """

    __slots__ = STATE = ("time",)

    def __init__(self, lints: str = OFF) -> None:
        super().__init__(clock=lambda: self.time, lints=lints)
        self.time = 0


Choices = TypeVar("Choices", bound=DeviceSettings)


class Device(RichDisplay, Generic[Choices]):
    """The base class of devices, with `settings`. A device closes at the end of its ``with`` block.

    Pickling stores the constructor's arguments, so unpickling creates a new device without contents or
    subscribers."""

    settings: Choices

    @abstractmethod
    def close(self) -> None:
        """Close the device permanently; further calls of `close` have no effect."""

    @abstractmethod
    def _check_open(self) -> None:
        """Raise a `RuleError` if the device is closed."""

    def __enter__(self) -> Self:
        self._check_open()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def _made_of(self) -> tuple[object, ...]:
        """Return the constructor's positional arguments that precede the settings; pickling stores them."""
        return ()

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (*self._made_of(), self.settings)

    def _rows(self) -> Rows:
        return fields_of(self.settings)
