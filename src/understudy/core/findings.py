"""What checks tell of running kernels: findings, deduplicated by site and counted."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Any, Final

from understudy.core.allocations import Allocation
from understudy.core.checks import FINDINGS
from understudy.core.errors import GuestFault
from understudy.core.rule import Rule
from understudy.core.shown import Rows, Shown

MOST_LANES: Final = 8
"""Lanes that a finding names one by one."""


class Level(StrEnum):
    """How bad a finding is; the words of SARIF."""

    ERROR = "error"
    """Breaks a rule, or cannot run."""
    WARNING = "warning"
    """Most likely a mistake."""
    NOTE = "note"
    """Worth a look."""


@dataclass(slots=True, eq=False)
class Finding(Shown):
    """One mistake of a kernel, or of the host, by a check: where it is, what it concerns, how often it was seen.

    `kind` is a word that does not change between versions ("out-of-bounds"). `access` of `size` bytes at `address`;
    `distance`: bytes from the end of `allocation` (or of the memory that `space` names) to the access, negative before
    its start, 0 where it begins inside. `lanes` are those of the first sight; `unit` is the wave or hart, `group` the
    work-group. `pc` counts in device memory, `at` is the same as kernel and offset, `source` file and line where
    the object tells. `other` is the place of the other party where it takes two, `other_pc` its pc where code is meant
    that somebody may know by name, `rule` the sentence that is broken. `count` counts accesses, lane by lane.
    """

    check: str
    kind: str
    message: str
    level: Level = Level.ERROR
    access: str = ""
    space: str = ""
    address: int = 0
    size: int = 0
    distance: int = 0
    allocation: Allocation | None = None
    lanes: tuple[int, ...] = ()
    unit: str = ""
    group: str = ""
    pc: int | None = None
    insn: str = ""
    kernel: str = ""
    at: str = ""
    source: str = ""
    other: str = ""
    other_pc: int | None = None
    rule: Rule | None = None
    suggestion: str = ""
    count: int = 1
    seen: int = field(default=0, repr=False)
    """Number of the last sight, of all sights of the device."""

    @property
    def name(self) -> str:
        """The check and the kind: ``memory/out-of-bounds``."""
        return f"{self.check}/{self.kind}"

    @property
    def key(self) -> tuple[object, ...]:
        """What makes two sights one finding: the same mistake at the same instruction, with the same allocation."""
        about = id(self.allocation) if self.allocation else self.space
        other = self.other if self.other_pc is None else self.other_pc
        return self.check, self.kind, self.pc, other, self.access, about

    @property
    def place(self) -> str:
        """Where it is, in words."""
        code = f"pc {self.pc:#x}" if self.pc is not None else ""
        inside = ", ".join(each for each in (self.at, self.insn, self.source) if each)
        lanes = ", ".join(map(str, self.lanes[:MOST_LANES]))
        more = f" and {len(self.lanes) - MOST_LANES} more" if len(self.lanes) > MOST_LANES else ""
        parts = (
            f"{code} ({inside})" if code and inside else code or inside,
            f"lane{'s' * (len(self.lanes) > 1)} {lanes}{more}" if self.lanes else "",
            self.unit,
            f"work-group {self.group}" if self.group else "",
        )
        return ", ".join(part for part in parts if part)

    def matches(self, patterns: Sequence[str]) -> bool:
        """Whether it is what patterns of the shell's kind name: CHECK/KIND, a kernel, a place (function or source)."""
        subjects = ((self.name, self.check), (self.kernel,), (self.at, self.source, self.source.rpartition("/")[2]))
        pairs = zip(patterns, subjects, strict=False)
        return all(any(fnmatchcase(each, pattern) for each in each_of) for pattern, each_of in pairs)

    def as_dict(self) -> dict[str, Any]:
        """All of it as plain values, for JSON."""
        made = self.allocation
        return {
            "check": self.check,
            "kind": self.kind,
            "level": self.level.value,
            "message": self.message,
            "count": self.count,
            "kernel": self.kernel,
            "pc": self.pc,
            "at": self.at,
            "insn": self.insn,
            "source": self.source,
            "lanes": list(self.lanes),
            "unit": self.unit,
            "group": self.group,
            "access": self.access,
            "address": self.address,
            "size": self.size,
            "distance": self.distance,
            "allocation": None
            if made is None
            else {
                "name": made.name,
                "address": made.base,
                "size": made.size,
                "made": made.made,
                "freed": made.freed,
            },
            "other": self.other,
            "rule": self.rule.id if self.rule else None,
            "suggestion": self.suggestion,
        }

    def __repr__(self) -> str:
        return f"<{self}>"

    def _rows(self) -> Rows:
        yield ()
        yield "level", self.level.value
        yield "check", self.name
        yield "place", self.place
        if self.other:
            yield "other place", self.other
        if self.allocation is not None:
            yield "allocation", f"{self.allocation}"
        yield "count", self.count
        if self.suggestion:
            yield "suggestion", self.suggestion
        if self.rule is not None:
            yield "rule", f"{self.rule.id}: {self.rule.text} ({self.rule.clause})"

    def __str__(self) -> str:
        where = f", at {self.place}" if self.place else ""
        other = f", see {self.other}" if self.other else ""
        often = f", {self.count} times" if self.count > 1 else ""
        return f"{self.level.value}: {self.name}: {self.message}{where}{other}{often}"


class FindingError(GuestFault):
    """A check found a mistake, and its device was told to raise the first one; `finding` is it."""

    def __init__(self, message: str, finding: Finding | None = None) -> None:
        super().__init__(message)
        self.finding = finding


class FindingLog:
    """The findings of a device: `kept` by site, at most `limit` of them; `dropped` and `suppressed` count the others.

    With `raises`, the first one that is kept is raised as well. Safe from several threads.
    """

    def __init__(
        self,
        kept: list[Any],
        limit: int = FINDINGS,
        suppressions: Iterable[Sequence[str]] = (),
        raises: bool = False,
    ) -> None:
        self.kept = kept
        self.limit = limit
        self.suppressions = tuple(suppressions)
        self.raises = raises
        self.sights = 0
        self.suppressed = 0
        self.dropped = 0
        self.namers: list[Callable[[Finding], None]] = []
        """Each completes findings in the code that it knows with the kernel, the place in it and the source line."""
        self._lock = threading.RLock()

    def note(self, finding: Finding) -> None:
        """One more sight; a `FindingError` for the first where that is asked for."""
        with self._lock:
            self.sights += 1
            for each in self.kept:
                if isinstance(each, Finding) and each.key == finding.key:
                    each.count += finding.count
                    each.seen = self.sights
                    return
            self._name(finding)
            if finding.other_pc is not None:
                there = Finding(finding.check, finding.kind, "", pc=finding.other_pc)
                self._name(there)
                finding.other = there.place if there.at else finding.other
            if any(finding.matches(patterns) for patterns in self.suppressions):
                self.suppressed += finding.count
                return
            if len(self.kept) >= self.limit:
                self.dropped += finding.count
                return
            finding.seen = self.sights
            self.kept.append(finding)
        if self.raises:
            raise FindingError(f"{finding.name}: {finding.message}", finding)

    def _name(self, finding: Finding) -> None:
        for namer in self.namers:
            namer(finding)

    def since(self, sights: int) -> tuple[Finding, ...]:
        """Those that were seen behind so many sights."""
        with self._lock:
            return tuple(each for each in self.kept if isinstance(each, Finding) and each.seen > sights)
