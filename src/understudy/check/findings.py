"""What a static check found: one form for all of them."""

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
    """A finding of `check`. `place` says where in words; `byte` counts in the file, `pc` in the loaded image.

    `kernel` is the kernel, field or command that it is about; "" and None where there is none.
    """

    level: Level
    check: str
    message: str
    place: str = ""
    byte: int | None = None
    pc: int | None = None
    kernel: str = ""
    rule: Rule | None = None

    def __repr__(self) -> str:
        return f"<{self}>"

    def _rows(self) -> Rows:
        yield ()
        yield "level", self.level.value
        yield "check", self.check
        yield "place", self.place
        yield "rule", f"{self.rule.id}: {self.rule.text} ({self.rule.clause})" if self.rule else ""

    def __str__(self) -> str:
        where = f", at {self.place}" if self.place else ""
        clause = f" [{self.rule.id}: {self.rule.clause}]" if self.rule else ""
        return f"{self.level.value}: {self.check}: {self.message}{where}{clause}"
