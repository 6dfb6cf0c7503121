"""What the user of any device can choose, and how a choice that is none is told."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Final, Self

from understudy.core.checks import ALL, FINDINGS, KEEP, LANES, ON_FINDING, RACES, RAISE, checks_of, default_checks
from understudy.core.errors import BeyondModel, WireError
from understudy.core.limits import checked_time_limit, default_time_limit
from understudy.core.lint import LINTS, WARN

SYNCHRONOUS: Final = "synchronous"
THREADED: Final = "threaded"
JIT: Final = "jit"
REFERENCE: Final = "reference"
AUTO: Final = "auto"
FIRST: Final = "first"
OPTIMISED: Final = "optimised"
NOT_COUNTED: Final = "instructions are not counted: open the device with count_instructions=True"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceSettings:
    """Choices that every device has; a value that is none of the possible ones is a `WireError`.

    `lints`: what becomes of the hints at mistakes that the device accepts: "warn" (a `LintWarning` when the host's
    call ends), "raise" (a `LintError` then) or "off". Probes hear of them in any case.

    A device's own settings add fields, and say which words (`CHOICES`) and least numbers (`LEAST`) they may be.
    """

    CHOICES: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    LEAST: ClassVar[Mapping[str, int]] = {}

    lints: str = WARN

    def __post_init__(self) -> None:
        for name, known in {"lints": LINTS, **self.CHOICES}.items():
            if getattr(self, name) not in known:
                raise WireError(f"{name} {getattr(self, name)!r}, expected one of {', '.join(known)}")
        for name, least in self.LEAST.items():
            value = getattr(self, name)
            if value is not None and value < least:
                raise WireError(f"{name} {value}, expected {least} or more")
        self.verify()

    def verify(self) -> None:
        """`WireError` where choices do not go together."""

    @classmethod
    def of(cls, given: Self | None, options: Mapping[str, Any]) -> Self:
        """The settings that a device was given: whole, or as single `options` by name."""
        if given is not None:
            if options:
                raise WireError(f"settings were given twice: as {cls.__name__}, and {', '.join(options)} by name")
            return given
        known = [each.name for each in fields(cls)]
        for name in options:
            if name not in known:
                from difflib import get_close_matches

                near = get_close_matches(name, known, 1)
                meant = f"did you mean {near[0]}?" if near else f"expected one of {', '.join(known)}"
                raise WireError(f"no such setting: {name}, {meant}")
        return cls(**options)


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelSettings(DeviceSettings):
    """Choices of devices that run kernels of their users, which may never end.

    `time_limit_seconds`: how long one kernel may run, None for any time; `core.limits.default_time_limit` tells what
    it is by default.
    `tier`: how the engine "jit" makes machine code: "auto" (at once, and well where it is hot), "first" (only as what
    has to start at once) or "optimised" (well, before it runs). Results are the same.
    `count_instructions`: the device's `instruction_counts` tells how often each was executed; nothing is optimised for
    waves then.
    `check`: what to look for while kernels run, "memory" for one (`core.checks.CHECKS` has all); the environment
    variable ``UNDERSTUDY_CHECK`` says what it is by default. `on_finding`: "keep" (findings are in a list) or "raise"
    (the first one ends the kernel). `finding_limit`: how many are kept. `suppressions`: a file of those to leave out.
    `equal_stores`: whether the check "races" tells of stores that leave memory as it is, too.
    """

    CHOICES: ClassVar[Mapping[str, tuple[str, ...]]] = {"tier": (AUTO, FIRST, OPTIMISED), "on_finding": ON_FINDING}
    UNCHECKED: ClassVar[frozenset[str]] = frozenset()
    """Checks that this device does not have; "all" are the others."""

    tier: str = AUTO
    count_instructions: bool = False
    time_limit_seconds: float | None = field(default_factory=default_time_limit)
    check: str = field(default_factory=default_checks)
    on_finding: str = KEEP
    finding_limit: int = FINDINGS
    suppressions: str | None = None
    equal_stores: bool = False

    def verify(self) -> None:
        """The time limit is a number of seconds, checks are known ones."""
        checked_time_limit(self.time_limit_seconds)
        missing = self.checks & self.UNCHECKED
        if missing:
            raise BeyondModel(f"check {', '.join(sorted(missing))} on this device, which has the others")
        if LANES in self.checks and RACES not in self.checks:
            raise WireError(f"check {LANES!r} without {RACES!r}, which it goes with")
        if self.equal_stores and RACES not in self.checks:
            raise WireError(f"equal_stores without check {RACES!r}, which it is for")
        if self.finding_limit < 1:
            raise WireError(f"finding_limit {self.finding_limit}, expected 1 or more")

    @property
    def checks(self) -> frozenset[str]:
        """The names in `check`."""
        found = checks_of(self.check)
        return found - self.UNCHECKED if found == ALL else found

    @property
    def counts_races_too(self) -> bool:
        """Whether instructions are counted while races are looked for: of waves only the reference engine does both."""
        return self.count_instructions and RACES in self.checks

    @property
    def raises(self) -> bool:
        """Whether the first finding ends the kernel."""
        return self.on_finding == RAISE
