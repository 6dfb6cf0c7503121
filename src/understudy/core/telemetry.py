"""How the parts of a device reach its probes, and the host that hears of lints."""

from __future__ import annotations

from collections.abc import Callable

from understudy.core.event import Event, Probes
from understudy.core.lint import OFF, Lint, LintDesk
from understudy.core.rule import Rule
from understudy.core.snapshot import Stateful


class Telemetry:
    """The device's probes, its clock, and what becomes of its lints. An event is only made when somebody listens."""

    __slots__ = ("clock", "desk", "leaves_out", "probes")

    def __init__(self, probes: Probes | None = None, clock: Callable[[], int] = lambda: 0, lints: str = OFF) -> None:
        self.probes = Probes() if probes is None else probes
        self.clock = clock
        self.desk = LintDesk(lints)
        self.leaves_out: Callable[[Event], bool] | None = None
        """Which events nobody is told of just now, as there would be too many."""

    @property
    def listened(self) -> bool:
        """Whether anybody listens."""
        return self.probes.active

    @property
    def wants_lints(self) -> bool:
        """Whether anybody hears of lints."""
        return self.probes.active or self.desk.policy != OFF

    def wants(self, *kinds: type[Event]) -> bool:
        """Whether anybody listens to events of these kinds."""
        return self.probes.wants(*kinds)

    def emit(self, make: Callable[[int], Event]) -> None:
        """Emit the event that `make` makes of the time, if anybody listens."""
        if self.probes.active:
            event = make(self.clock())
            if self.leaves_out is None or not self.leaves_out(event):
                self.probes.emit(event)

    def wants_lint(self, check: str, kind: type[Event]) -> bool:
        """Whether anybody would hear of one more lint of a check whose events are of this kind."""
        return self.probes.wants(kind) or self.desk.wants(check)

    def lint(self, check: str, message: str, rule: Rule | None = None, time: int | None = None) -> None:
        """Emit a `Lint`, of now unless `time` says otherwise, and have the host told of it."""
        if self.wants_lints:
            lint = Lint(self.clock() if time is None else time, check, message, rule)
            self.report(lint, lint)

    def report(self, event: Event, lint: Lint) -> None:
        """Likewise, where the event says more than the `Lint`."""
        self.desk.add(lint)
        if self.probes.active:
            self.probes.emit(event)


class CountingTelemetry(Telemetry, Stateful):
    """One whose clock is `time`: the device counts there what it has done."""

    __slots__ = STATE = ("time",)

    def __init__(self, lints: str = OFF) -> None:
        super().__init__(clock=lambda: self.time, lints=lints)
        self.time = 0
