"""Lints: reports of input that a device accepts and that is most likely a mistake.

Lints are events like all others, but users see them without subscribing: the setting `lints` of every device determines
if they become warnings or errors.
"""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from types import TracebackType
from typing import TYPE_CHECKING, Final

from softcard.core.display import printable
from softcard.core.errors import RuleError, SoftcardError
from softcard.core.event import Event
from softcard.core.rule import Rule
from softcard.core.tracebacks import warn_caller

if TYPE_CHECKING:
    from softcard.core.diagnostics import Diagnostic
    from softcard.core.findings import Finding

OFF: Final = "off"
WARN: Final = "warn"
RAISE: Final = "raise"
LINTS: Final = (WARN, RAISE, OFF)

MOST_WARNED: Final = 5
"""The maximum number of findings of one call for which a separate warning is issued."""
WARNINGS_OF_EACH: Final = 5
"""The maximum number of lints of one check that a device reports to the host; probes get all lints."""


@dataclass(frozen=True, slots=True)
class Lint(Event):
    """An event for input that the device accepts and that is most likely a mistake.

    `check` is the name of the check that found it.
    """

    check: str
    message: str
    rule: Rule | None = None

    def diagnostic(self) -> Diagnostic:
        """Return the lint as a diagnostic."""
        from softcard.core.diagnostics import Diagnostic
        from softcard.core.findings import Level

        return Diagnostic(Level.WARNING, self.check, self.message, rule=self.rule)

    def __str__(self) -> str:
        clause = f" [{self.rule.id}: {self.rule.clause}]" if self.rule else ""
        return printable(f"{self.check}: {self.message}{clause}")


class LintWarning(UserWarning):
    """The warning for a lint of a device whose setting `lints` is "warn".

    It is shown at the line of the host program that caused it.
    """


class FindingWarning(UserWarning):
    """The warning for a finding of a device whose setting `on_finding` is "warn".

    It is shown at the line of the host program that caused it. Warnings are issued only for new findings of level error
    or warning; `result.findings` and the device's `findings` have all findings.
    """


class CoverageWarning(UserWarning):
    """The warning that the kernels of a device are missing in the coverage that is being recorded."""


class LintError(RuleError):
    """The error for a lint of a device whose setting `lints` is "raise"; `check` is the name of the check."""

    def __init__(self, message: str, *, check: str, rule: Rule | None = None) -> None:
        super().__init__(message, rule=rule)
        self.check = check


class _Depth(threading.local):
    """The depth of the present thread's nested host calls to the device."""

    depth = 0


class LintDesk:
    """The queue of a device's lints, which are reported when the host's call ends.

    A device finds lints deep inside its work. An exception there, or a warning that is turned into one, must not
    interrupt the work. So every call by which a host accesses the device is made in this object's context::

        with self._desk:
            ...

    When the outermost call of a thread ends, its lints are reported: as `LintWarning`, or as a `LintError` (the first
    one; the others become its notes). If the call fails, the lints become notes of its error. New findings of checks
    are reported at the same time, as `FindingWarning`.
    """

    __slots__ = ("_count", "_lock", "_thread", "findings", "pending", "policy")

    def __init__(self, policy: str = OFF) -> None:
        self.policy = policy
        self.pending: deque[Lint] = deque()
        """The lints that have not been reported yet."""
        self.findings: deque[Finding] = deque()
        """The findings that have not been reported yet; it stays empty if the host gets no warnings."""
        self._count: Counter[str] = Counter()
        self._lock = threading.Lock()
        self._thread = _Depth()

    def wants(self, check: str) -> bool:
        """Return True if a further lint of the check `check` would be reported."""
        return self.policy != OFF and self._count[check] < WARNINGS_OF_EACH

    def add(self, lint: Lint) -> None:
        """Queue a lint, unless `WARNINGS_OF_EACH` of its check were queued already."""
        with self._lock:
            if not self.wants(lint.check):
                return
            self._count[lint.check] += 1
            if self._count[lint.check] == WARNINGS_OF_EACH:
                lint = replace(lint, message=f"{lint.message} (further ones of the kind {lint.check} are not reported)")
            self.pending.append(lint)

    def found(self, finding: Finding) -> None:
        """Queue a new finding; a warning about it is issued when the host's call ends."""
        self.findings.append(finding)

    def __enter__(self) -> None:
        self._thread.depth += 1

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._thread.depth -= 1
        if self.pending or self.findings:
            self.report(error)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Let this thread report no lints during the block; the host's next call reports them.

        The thread belongs to the device, so a warning or an exception on it would not reach the host."""
        self._thread.depth += 1
        try:
            yield
        finally:
            self._thread.depth -= 1

    def report(self, error: BaseException | None = None, *, with_findings: bool = True) -> None:
        """Report the queued lints and findings, unless another call by the host to the device encloses this one.

        `error` is the exception that ended the call. With `with_findings` False, findings stay queued, since the
        call only began work that the host will wait for later. Calls for which the desk's context manager would be
        too slow test `pending` and call this method instead."""
        if self._thread.depth:
            return
        with self._lock:
            lints = list(self.pending)
            self.pending.clear()
            findings = list(self.findings) if with_findings else []
            if with_findings:
                self.findings.clear()
        if error is None:
            _warn(findings)
        elif isinstance(error, SoftcardError):
            _note_findings(error, findings)
        if not lints:
            return
        if error is not None:
            if isinstance(error, SoftcardError):
                _note(error, lints)
        elif self.policy == RAISE:
            first = lints[0]
            raised = LintError(f"{first.check}: {first.message}", check=first.check, rule=first.rule)
            _note(raised, lints[1:])
            raise raised
        else:
            for lint in lints:
                warn_caller(str(lint), LintWarning)


def _warn(findings: list[Finding]) -> None:
    """Issue a warning for each finding; if there are too many, the last warning has the number of omitted ones."""
    for number, finding in enumerate(findings[:MOST_WARNED], 1):
        more = len(findings) - MOST_WARNED if number == MOST_WARNED else 0
        rest = f" (and {more} more: see `findings` of the device)" if more > 0 else ""
        warn_caller(f"{finding}{rest}", FindingWarning)


def _note_findings(error: SoftcardError, findings: list[Finding]) -> None:
    """Add each of the findings that an error does not show yet to the notes of the error."""
    known = getattr(error, "__notes__", [])
    for finding in findings:
        if str(finding) not in known and getattr(error, "finding", None) is not finding:
            error.add_note(str(finding))


def _note(error: SoftcardError, lints: list[Lint]) -> None:
    for lint in lints:
        error.add_note(f"lint {lint}")
