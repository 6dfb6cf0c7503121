"""A hint at a mistake: what a device accepts, and what its user most likely did not mean.

Lints are events like all others, and their users hear of them without subscribing: what becomes of them is the setting
`lints` of every device.
"""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Final

from understudy.core.caller import warn_caller
from understudy.core.errors import RuleError, UnderstudyError
from understudy.core.event import Event
from understudy.core.rule import Rule

OFF: Final = "off"
WARN: Final = "warn"
RAISE: Final = "raise"
LINTS: Final = (WARN, RAISE, OFF)

TOLD_OF_EACH: Final = 5
"""Lints of one check that a device warns of; probes hear of all."""


@dataclass(frozen=True, slots=True)
class Lint(Event):
    """Something that the device accepts and that is most likely a mistake; `check` is the name of what found it."""

    check: str
    message: str
    rule: Rule | None = None

    def __str__(self) -> str:
        clause = f" [{self.rule.id}: {self.rule.clause}]" if self.rule else ""
        return f"{self.check}: {self.message}{clause}"


class LintWarning(UserWarning):
    """A lint, where the device's setting `lints` is "warn"; it shows the line of the host's that led to it."""


class LintError(RuleError):
    """A lint, where the device's setting `lints` is "raise"; `check` is the name of what found it."""

    def __init__(self, message: str, *, check: str, rule: Rule | None = None) -> None:
        super().__init__(message, rule=rule)
        self.check = check


class _Depth(threading.local):
    """Calls of the host that this thread is in."""

    depth = 0


class LintDesk:
    """Keeps a device's lints until the host's call ends, and tells them then.

    A device finds lints deep inside its work, which neither an exception nor a warning that has been turned into one
    may tear apart. So every call by which a host reaches the device is made inside of the desk::

        with self._desk:
            ...

    and when the outermost one of a thread ends, lints are told: as `LintWarning`, or as a `LintError` (the first one;
    those that follow it are its notes). Where that call fails, they are notes of its error.
    """

    __slots__ = ("_count", "_lock", "_thread", "pending", "policy")

    def __init__(self, policy: str = OFF) -> None:
        self.policy = policy
        self.pending: deque[Lint] = deque()
        """What is to be told."""
        self._count: Counter[str] = Counter()
        self._lock = threading.Lock()
        self._thread = _Depth()

    def wants(self, check: str) -> bool:
        """Whether one more lint of that check would be told."""
        return self.policy != OFF and self._count[check] < TOLD_OF_EACH

    def add(self, lint: Lint) -> None:
        """Keep a lint; beyond `TOLD_OF_EACH` of one check they are not told."""
        with self._lock:
            if not self.wants(lint.check):
                return
            self._count[lint.check] += 1
            if self._count[lint.check] == TOLD_OF_EACH:
                lint = replace(lint, message=f"{lint.message} (no more of {lint.check} is told)")
            self.pending.append(lint)

    def __enter__(self) -> None:
        self._thread.depth += 1

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._thread.depth -= 1
        if self.pending:
            self.tell(error)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Tell nothing on this thread: it is the device's own, and the host's next call tells."""
        self._thread.depth += 1
        try:
            yield
        finally:
            self._thread.depth -= 1

    def tell(self, error: BaseException | None = None) -> None:
        """Tell what is kept, unless a call of the host that this thread is in goes on; `error` is what made it fail.

        For calls that cannot afford to be made inside of the desk: they look at `pending`, and are none of a device.
        """
        if self._thread.depth:
            return
        with self._lock:
            lints = list(self.pending)
            self.pending.clear()
        if not lints:
            return
        if error is not None:
            if isinstance(error, UnderstudyError):
                _note(error, lints)
        elif self.policy == RAISE:
            first = lints[0]
            raised = LintError(f"{first.check}: {first.message}", check=first.check, rule=first.rule)
            _note(raised, lints[1:])
            raise raised
        else:
            for lint in lints:
                warn_caller(str(lint), LintWarning)


def _note(error: UnderstudyError, lints: list[Lint]) -> None:
    for lint in lints:
        error.add_note(f"lint {lint}")
