"""What a check found, in a file or while something ran: one form for all of them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from understudy.core.rule import Rule
from understudy.core.shown import Rows, Shown


class Level(StrEnum):
    """How bad a finding is; the words of SARIF."""

    ERROR = "error"
    """Breaks a rule, or cannot run."""
    WARNING = "warning"
    """Most likely a mistake."""
    NOTE = "note"
    """Worth a look."""


@dataclass(frozen=True, slots=True)
class Finding(Shown):
    """A finding. `place` says where in words; `byte` counts in the file, `pc` in the loaded image.

    `kernel` is the kernel, field or command that it is about, `other` the place of the other party where it takes two,
    `suggestion` what would mend it, `count` how often it was found there; "" and None where there is none.
    """

    level: Level
    check: str
    message: str
    place: str = ""
    byte: int | None = None
    pc: int | None = None
    kernel: str = ""
    rule: Rule | None = None
    other: str = ""
    suggestion: str = ""
    count: int = 1

    def __repr__(self) -> str:
        return f"<{self}>"

    def _rows(self) -> Rows:
        yield ()
        yield "level", self.level.value
        yield "check", self.check
        yield "place", self.place
        yield "other place", self.other
        yield "suggestion", self.suggestion
        yield "count", self.count if self.count > 1 else ""
        yield "rule", f"{self.rule.id}: {self.rule.text} ({self.rule.clause})" if self.rule else ""

    def __str__(self) -> str:
        where = f", at {self.place}" if self.place else ""
        other = f", see {self.other}" if self.other else ""
        mended = f"; {self.suggestion}" if self.suggestion else ""
        often = f" ({self.count} times)" if self.count > 1 else ""
        clause = f" [{self.rule.id}: {self.rule.clause}]" if self.rule else ""
        return f"{self.level.value}: {self.check}: {self.message}{where}{other}{mended}{often}{clause}"
