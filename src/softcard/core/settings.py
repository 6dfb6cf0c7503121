"""The settings that users can choose for any device, and the errors for invalid settings."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from numbers import Real
from typing import Any, ClassVar, Final, Self, TypedDict, TypeVar

from softcard.core.checks import (
    ALL,
    CHECKS,
    FINDINGS,
    ON_FINDING,
    RAISE,
    are_set,
    as_text,
    checks_of,
    default_checks,
    having,
    read_suppressions,
)
from softcard.core.checks import WARN as WARN_OF_FINDINGS
from softcard.core.errors import BeyondModel, WireError, close_to
from softcard.core.findings import Finding, FindingLog
from softcard.core.limits import checked_time_limit, default_time_limit
from softcard.core.lint import LINTS, WARN, CoverageWarning

FoundT = TypeVar("FoundT", bound=Finding)

SYNCHRONOUS: Final = "synchronous"
THREADED: Final = "threaded"
JIT: Final = "jit"
REFERENCE: Final = "reference"
AUTO: Final = "auto"
FIRST: Final = "first"
OPTIMISED: Final = "optimised"
_USUAL: Final[dict[str, str]] = {}
_COUNTING: Final[list[bool]] = []
NOT_COUNTED: Final = "instructions are not counted: open the device with count_instructions=True"


def set_usual(settings: Mapping[str, str]) -> None:
    """Set default values of settings, by name, for new devices that have these settings; {} removes the defaults."""
    _USUAL.clear()
    _USUAL.update(settings)


def count_by_default(enabled: bool) -> None:
    """Set whether new devices count instructions although their settings do not request it.

    Devices whose kernels' coverage cannot be recorded are not affected.
    """
    _COUNTING[:] = [True] if enabled else []


class DeviceOptions(TypedDict, total=False):
    """The settings of every device, as keyword arguments; `DeviceSettings` describes them.

    A test checks that both classes have equal fields.
    """

    lints: str
    on_finding: str


class KernelOptions(DeviceOptions, total=False):
    """The settings of devices that run kernels, as keyword arguments; `KernelSettings` describes them."""

    tier: str
    count_instructions: bool
    time_limit_seconds: float | None
    check: str | Iterable[str]
    finding_limit: int
    suppressions: str | None
    equal_stores: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceSettings:
    """The settings of every device; an invalid value raises a `WireError`.

    `lints` determines the handling of lints, which are likely mistakes that the device accepts. "warn" issues a
    `LintWarning` when the host's call ends, "raise" raises a `LintError` when it ends, and "off" does nothing.
    Probes receive the lints in any case.

    `on_finding` determines the handling of findings of checks, which are errors of kernels that the hardware accepts.
    "warn" issues a `FindingWarning` for each new finding when the host's call ends, "keep" only adds findings to the
    list of the device, and "raise" ends the kernel with the first one as a `FindingError`. Devices without checks
    accept the setting, so that the same settings open every device; they have no findings.

    Subclasses add fields. `CHOICES` has the words that a field accepts, and `LEAST` the smallest number."""

    CHOICES: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    LEAST: ClassVar[Mapping[str, int]] = {}

    lints: str = WARN
    on_finding: str = WARN_OF_FINDINGS

    def __post_init__(self) -> None:
        self.complete()
        for name, known in {"lints": LINTS, "on_finding": ON_FINDING, **self.CHOICES}.items():
            if getattr(self, name) not in known:
                raise WireError(f"{name} is {getattr(self, name)!r}, expected one of {', '.join(known)}")
        for name, least in self.LEAST.items():
            value = getattr(self, name)
            if value is None:
                continue
            if not isinstance(value, Real):
                raise WireError(f"{name} is {value!r}, expected a number of {least} or more")
            if value < least:
                raise WireError(f"{name} is {value}, expected {least} or more")
        self.verify()

    def complete(self) -> None:
        """Convert settings that accept several types or spellings to one representation."""

    def verify(self) -> None:
        """Raise a `WireError` if settings contradict each other."""

    @classmethod
    def of(cls, given: Self | None, options: Mapping[str, object]) -> Self:
        """Return a device's settings: the object `given`, or a new object with the values in `options`, by name.

        Raise `WireError` if both are given."""
        if given is not None:
            if options:
                raise WireError(
                    f"settings were given twice, as {cls.__name__} and by name ({', '.join(options)}): give them in "
                    "one way"
                )
            return given
        known = [each.name for each in fields(cls)]
        for name in options:
            if name not in known:
                meant = close_to(name, known) or f", expected one of {', '.join(known)}"
                raise WireError(f"unknown setting {name}{meant}")
        usual: dict[str, object] = {name: value for name, value in _USUAL.items() if name in known}
        chosen: dict[str, Any] = usual | dict(options)
        return cls(**chosen)


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelSettings(DeviceSettings):
    """The settings of devices that run kernels of their users, which may never end.

    `time_limit_seconds`: the maximum time of one kernel, without compile time; None for no limit.
    `core.limits.default_time_limit` has the default.

    `tier`: the tier of the engine "jit": "auto" (first tier at once, optimised for hot code), "first" (always the first
    tier) or "optimised" (always optimised, compiled before the code runs). Results are the same.

    `count_instructions`: count how often each instruction is executed (`instruction_counts`); waves then run without
    optimised code.

    `check`: the checks of running kernels, for instance "memory" (`core.checks.CHECKS` has all); several as
    "memory,races" or a list of names; the environment variable ``SOFTCARD_CHECK`` has the default.

    `finding_limit`: the maximum number of stored findings. `suppressions`: a file that lists findings to omit.
    `equal_stores`: True if the check "races" also reports stores that leave memory unchanged.
    """

    CHOICES: ClassVar[Mapping[str, tuple[str, ...]]] = {"tier": (AUTO, FIRST, OPTIMISED)}
    RUNS_HARTS: ClassVar[bool] = False
    """True if the device runs RISC-V harts, False if it runs GCN waves; this determines the checks that it supports."""

    tier: str = AUTO
    count_instructions: bool = False
    time_limit_seconds: float | None = field(default_factory=default_time_limit)
    check: str | Iterable[str] = field(default_factory=default_checks)
    finding_limit: int = FINDINGS
    suppressions: str | None = None
    equal_stores: bool = False

    def complete(self) -> None:
        """Convert `check` from a list of names to text.

        If coverage is being recorded, set `count_instructions`, or warn if the settings prevent that.
        """
        object.__setattr__(self, "check", as_text(self.check))
        if not _COUNTING or self.count_instructions or (why := self.why_not_covered()) is None:
            return
        if why:
            text = f"the coverage lacks the kernels of a device with {why}: record it in a run without this setting"
            warnings.warn(text, CoverageWarning, stacklevel=2)
        else:
            object.__setattr__(self, "count_instructions", True)

    def verify(self) -> None:
        """Raise an error for an invalid time limit, check, finding limit or combination of settings.

        The error is a `BeyondModel` for a check that the device does not support, and otherwise a `WireError`."""
        checked_time_limit(self.time_limit_seconds)
        missing = self.checks & self.unchecked()
        if missing:
            known = ", ".join(name for name in CHECKS if name not in self.unchecked())
            raise BeyondModel(
                f"the device does not support check {', '.join(sorted(missing))!r}, expected only some of {known}"
            )
        for name in sorted(self.checks):
            other = CHECKS[name].requires
            if other and other not in self.checks:
                raise WireError(f"check {name!r} requires check {other!r}: use check={other + ',' + name!r}")
        if self.equal_stores and not having(self.checks, lambda kind: kind.takes_equal_stores):
            (name, *_) = having(CHECKS, lambda kind: kind.takes_equal_stores)
            raise WireError(f"equal_stores requires check={name!r}")
        if self.finding_limit < 1:
            raise WireError(f"finding_limit is {self.finding_limit}, expected 1 or more")

    def why_not_covered(self) -> str | None:
        """Return the setting with which the coverage of kernels cannot be recorded; "" if it can be recorded.

        Return None if the device's code has no line tables."""
        return None

    @classmethod
    def unchecked(cls) -> frozenset[str]:
        """Return the checks that devices with this class of settings do not support; "all" does not select them."""
        return having(CHECKS, lambda kind: not (kind.harts if cls.RUNS_HARTS else kind.waves))

    @property
    def checks(self) -> frozenset[str]:
        """The names of the checks in `check`, as a set."""
        found = checks_of(self.check)
        unchecked = self.unchecked()
        left_out = found & unchecked
        return found - unchecked if left_out and (found == ALL or are_set(as_text(self.check))) else found

    @property
    def counts_races_too(self) -> bool:
        """True if instruction counts and the check "races" are both requested.

        For waves, only the reference engine supports this combination."""
        return self.count_instructions and bool(having(self.checks, lambda kind: kind.orders_accesses))

    @property
    def warns(self) -> bool:
        """True if findings are reported as warnings."""
        return self.on_finding == WARN_OF_FINDINGS

    @property
    def raises(self) -> bool:
        """True if the first finding ends the kernel."""
        return self.on_finding == RAISE

    def log(self, findings: list[FoundT]) -> FindingLog | None:
        """Return a log of findings with these settings, which adds to `findings`; None without checks."""
        if not self.checks:
            return None
        suppressions = read_suppressions(self.suppressions) if self.suppressions else ()
        log = FindingLog(findings, self.finding_limit, suppressions, self.raises)
        log.warns = self.warns
        return log
