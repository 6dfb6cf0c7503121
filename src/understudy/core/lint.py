"""A hint at a mistake: what a device accepts, and what its user most likely did not mean."""

from __future__ import annotations

from dataclasses import dataclass

from understudy.core.event import Event
from understudy.core.rule import Rule


@dataclass(frozen=True, slots=True)
class Lint(Event):
    """Something that the device accepts and that is most likely a mistake; `check` is the name of what found it."""

    check: str
    message: str
    rule: Rule | None = None

    def __str__(self) -> str:
        clause = f" [{self.rule.id}: {self.rule.clause}]" if self.rule else ""
        return f"{self.check}: {self.message}{clause}"
