"""What a check tells of: one form for what stands in files, and for what is seen while kernels run."""

from __future__ import annotations

from dataclasses import dataclass

from understudy.core import findings
from understudy.core.findings import Level as Level
from understudy.core.rule import Rule
from understudy.core.shown import Rows, Shown


@dataclass(frozen=True, slots=True)
class Diagnostic(Shown):
    """One of them. `place` says where in words; `byte` counts in the file, `pc` in the loaded image.

    `kernel` is the kernel, field or command that it is about, `other` the place of the other party where it takes two,
    `suggestion` what would mend it, `count` how often it was found there; "" and None where there is none. `source` and
    `line`: of the program's source, `made` and `made_line` of the host's, where what it is about was allocated.
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
    source: str = ""
    line: int = 0
    made: str = ""
    made_line: int = 0

    @classmethod
    def of_run(cls, found: findings.Finding) -> Diagnostic:
        """What a check saw while a kernel ran."""
        source, _, line = found.source.rpartition(":")
        made, _, made_line = (found.allocation.made if found.allocation else "").rpartition(":")
        often = f", {found.count} times" if found.count > 1 else ""
        return cls(
            found.level,
            found.name,
            found.message,
            found.place + often,
            pc=found.pc,
            kernel=found.kernel,
            rule=found.rule,
            other=found.other,
            suggestion=found.suggestion,
            source=source,
            line=int(line or 0),
            made=made,
            made_line=int(made_line or 0),
        )

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
