"""The findings of checks on running kernels, the symbolizers that locate them, and diagnostics about files."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Any, Final

from softcard.core.allocations import Allocation
from softcard.core.checks import FINDINGS
from softcard.core.display import RichDisplay, Rows, html_table
from softcard.core.errors import GuestFault, Place, Registers, SoftcardError
from softcard.core.rule import Rule

MOST_LANES: Final = 8
"""The maximum number of lanes that a finding lists."""


class Level(StrEnum):
    """The severity of a finding, in the terms of SARIF."""

    ERROR = "error"
    """The level of a broken rule, or of something that cannot run."""
    WARNING = "warning"
    """The level of something that is most likely a mistake."""
    NOTE = "note"
    """The level of a remark that need not concern a mistake."""


Capture = Callable[[int | None], Registers | None]
"""The type of a function that returns the registers before an instruction; its argument is the lane of vectors."""


@dataclass(slots=True, eq=False)
class Finding(RichDisplay):
    """A mistake of a kernel or of the host that a check found, with its location and number of occurrences.

    `kind` is a stable word such as "out-of-bounds". The access has `size` bytes at `address`. `distance` is the
    distance in bytes from `allocation` (or from the memory that `space` names) to the access: positive past its
    end, negative before its start, and 0 if the access begins inside.

    `lanes` are those of the first occurrence; `unit` is the wave or hart, `group` the work-group. `pc` is an address in
    device memory, `at` is the pc as kernel and offset, and `source` is its file and line if the code object has them;
    `column` counts from 1 in that line and is 0 if it is unknown. `frames` are all source lines that the code was
    inlined into, innermost first. `other` is the location of the conflicting access as text, `conflict` the same as a
    finding without a message, and `other_pc` its pc if a symbolizer can name it. `rule` is the violated rule. `count`
    is the number of accesses, where each lane counts as one. `origin` is the end of `message` that describes the origin
    of an undefined value.
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
    column: int = 0
    line_text: str = field(default="", repr=False)
    """The text of the source line, if the source has no file."""
    frames: tuple[str, ...] = ()
    other: str = ""
    other_pc: int | None = None
    conflict: Finding | None = field(default=None, repr=False)
    rule: Rule | None = None
    suggestion: str = ""
    origin: str = ""
    count: int = 1
    registers: Registers | None = field(default=None, repr=False)
    """The registers before the instruction of the first occurrence; None if they are unknown."""
    capture: Capture | None = field(default=None, repr=False)
    """A function that returns the registers; `FindingLog.note` calls it for new findings, with the first lane."""
    no_registers: str = field(default="", repr=False)
    """The reason why the registers are unknown, as a sentence; "" if they are known or no instruction is concerned."""
    seen: int = field(default=0, repr=False)
    """The number of the finding's latest occurrence, counted over all occurrences of the device's findings."""

    @property
    def name(self) -> str:
        """The check and the kind as one text, such as ``memory/out-of-bounds``."""
        return f"{self.check}/{self.kind}"

    @property
    def key(self) -> tuple[object, ...]:
        """The identity of a finding.

        Occurrences of the same mistake at one instruction with one allocation have the same key and are counted
        together.
        """
        about = id(self.allocation) if self.allocation else self.space
        other = self.other if self.other_pc is None else self.other_pc
        return self.check, self.kind, self.pc, other, self.access, about

    @property
    def place(self) -> str:
        """The location of the finding as text."""
        code = f"pc {self.pc:#x}" if self.pc is not None else ""
        inside = ", ".join(each for each in (self.at, self.insn, through(self.source, self.frames)) if each)
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
        """Return True if the finding matches all shell-style patterns.

        The first pattern is for CHECK/KIND or the check, the second for the kernel, the third for a function or source
        line.
        """
        lines = [name for each in self.frames or (self.source,) for name in (each, each.rpartition("/")[2])]
        subjects = ((self.name, self.check), (self.kernel,), (self.at, *lines))
        pairs = zip(patterns, subjects, strict=False)
        return all(any(fnmatchcase(each, pattern) for each in each_of) for pattern, each_of in pairs)

    def as_dict(self) -> dict[str, Any]:
        """Return all fields as plain values, for JSON."""
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
            "inlined": list(self.frames),
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
        from softcard.core.diagnostics import of_finding

        return str(of_finding(self))


def through(source: str, frames: Sequence[str]) -> str:
    """Return the source line `source` as text, together with the other lines in `frames` if its code was inlined.

    `frames` has the lines from the innermost call to the outermost."""
    if source not in frames:
        return source
    at = frames.index(source)
    inner, outer = ", ".join(reversed(frames[:at])), ", ".join(frames[at + 1 :])
    parts = source, inner and f"inlined from {inner}", outer and f"inlined at {outer}"
    return ", ".join(part for part in parts if part)


class Findings(list[Any]):
    """The list of a device's findings. The constructor calls every function in `OBSERVERS` with the new list."""

    def __init__(self) -> None:
        super().__init__()
        self.log: FindingLog | None = None
        """The log that adds to the list; None if the device has no checks."""
        for observe in tuple(OBSERVERS):
            observe(self)

    def since(self, mark: Mark) -> tuple[list[Any], Mark]:
        """Return the findings that occurred after `mark`, and the mark of this call.

        They include stored findings that occurred again, and the latest finding of each level that the log has not
        stored because it is full."""
        if self.log is None:
            return self[mark.length :], Mark(len(self))
        with self.log.lock:
            found = [
                each
                for number, each in enumerate(self)
                if number >= mark.length or (isinstance(each, Finding) and each.seen > mark.occurrences)
            ]
            found += [each for each in self.log.latest_dropped.values() if each.seen > mark.occurrences]
            return found, Mark(len(self), self.log.occurrences)

    def _repr_html_(self) -> str:
        from softcard.core.diagnostics import diagnostics_of

        return "".join(each._repr_html_() for each in diagnostics_of(self)) or html_table("no findings", [()])


@dataclass(frozen=True, slots=True)
class Mark:
    """A point in time in a list of findings: the length of the list and the occurrences that its log had counted."""

    length: int = 0
    occurrences: int = 0


OBSERVERS: Final[list[Callable[[Findings], object]]] = []
"""The functions that are called with the list of findings of each new device."""


class FindingError(GuestFault):
    """The error for the first finding of a device whose setting `on_finding` is "raise".

    `finding` is the finding itself.
    """

    def __init__(self, message: str, finding: Finding | None = None) -> None:
        super().__init__(message)
        self.finding = finding


class FindingLog:
    """The log of a device's findings.

    `kept` has one finding for each `Finding.key`, up to `limit` findings. `dropped` counts the occurrences of
    findings beyond that limit, and `latest_dropped` has the latest of these findings of each level. `suppressed`
    counts the occurrences that match a pattern in `suppressions`. With `raises`, the first finding is also raised as
    an error. All methods are thread-safe."""

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
        self.occurrences = 0
        self.suppressed = 0
        self.dropped = 0
        self.latest_dropped: dict[Level, Finding] = {}
        self.namers: list[Callable[[Finding], None]] = []
        """The symbolizers: functions that add kernel, offset and source line to findings in the code that they know."""
        self.warns = False
        """True if the host gets a warning for each new finding."""
        self._on_new: Callable[[Finding], None] | None = None
        self.lock = threading.RLock()
        if isinstance(kept, Findings):
            kept.log = self

    def report_to(self, on_new: Callable[[Finding], None]) -> None:
        """Call `on_new` with each later new finding of level error or warning. Do nothing if `warns` is False."""
        if self.warns:
            self._on_new = on_new

    def note(self, finding: Finding) -> None:
        """Record one occurrence of a finding; raise a `FindingError` if the finding is new and `raises` is True."""
        try:
            self._note(finding)
        finally:
            finding.capture = None  # the wave or hart goes on

    def _note(self, finding: Finding) -> None:
        with self.lock:
            self.occurrences += 1
            for each in self.kept:
                if isinstance(each, Finding) and each.key == finding.key:
                    each.count += finding.count
                    each.seen = self.occurrences
                    return
            self._name(finding)
            if finding.other_pc is not None:
                there = finding.conflict or Finding(finding.check, finding.kind, "", pc=finding.other_pc)
                self._name(there)
                finding.conflict = there
                finding.other = there.place if there.at else finding.other
            if any(finding.matches(patterns) for patterns in self.suppressions):
                self.suppressed += finding.count
                return
            finding.seen = self.occurrences
            if len(self.kept) >= self.limit:
                self.dropped += finding.count
                self.latest_dropped[finding.level] = finding
                return
            if finding.capture is not None:
                held = finding.capture(finding.lanes[0] if finding.lanes else None)
                finding.registers = held and (held if held.instruction else replace(held, instruction=finding.insn))
            self.kept.append(finding)
        if self._on_new is not None and finding.level is not Level.NOTE:
            self._on_new(finding)
        if self.raises:
            raise FindingError(f"{finding.name}: {finding.message}", finding)

    def _name(self, finding: Finding) -> None:
        for namer in self.namers:
            namer(finding)

    def since(self, occurrences: int) -> tuple[Finding, ...]:
        """Return the stored findings that occurred after the log had counted its first `occurrences` occurrences.

        `occurrences` is an earlier value of the attribute `occurrences`, which counts all calls of `note`."""
        with self.lock:
            return tuple(each for each in self.kept if isinstance(each, Finding) and each.seen > occurrences)


@dataclass(frozen=True, slots=True)
class CodePlace:
    """The code location of an instruction; unknown fields are "".

    `at` is the function and offset, `kernel` the function if it is a kernel, and `source` the file and line. `frames`
    are the lines that the code was inlined into, innermost first; `source` is one of them. `frames` is () without
    inlining. `column` counts from 1 in the line `source`, and is 0 if it is unknown.
    """

    at: str = ""
    kernel: str = ""
    source: str = ""
    frames: tuple[str, ...] = ()
    column: int = 0
    line_text: str = ""
    """The text of the source line, if the source has no file."""


def in_function(name: str, offset: int) -> str:
    """Return a function and offset as text, such as ``kernel+0x10``."""
    return f"{name}+{offset:#x}" if offset else name


Locator = Callable[[int], CodePlace | None]
"""The type of a function that returns the location of the instruction at an address, or None for unknown code."""


class Locators:
    """The symbolizers of a device. Each symbolizer is in `known` as long as its code is in device memory."""

    def __init__(self) -> None:
        self.known: list[Locator] = []

    def at(self, pc: int) -> CodePlace:
        """Return the location of the instruction at an address, with "" for unknown fields."""
        return next((found for each in tuple(self.known) if (found := each(pc)) is not None), CodePlace())

    def complete(self, finding: Finding) -> None:
        """Add the code location to a finding, from its pc."""
        if finding.pc is None:
            return
        found = self.at(finding.pc)
        finding.at = found.at or finding.at
        if found.source:
            finding.source, finding.column, finding.line_text = found.source, found.column, found.line_text
        finding.frames = found.frames or finding.frames
        finding.kernel = found.kernel or finding.kernel

    def place(self, error: SoftcardError) -> None:
        """Add the code location to each pc in an error's path."""
        error.path = tuple(self._placed(place) if place.kind == "pc" else place for place in error.path)

    def _placed(self, place: Place) -> Place:
        found = self.at(int(place.where, 16))
        parts = found.at, place.what, through(found.source, found.frames)
        text = ", ".join(filter(None, parts))
        code = found.at, place.what, found.source, found.column, found.line_text
        return Place(place.kind, place.where, text, *code)
