"""Diagnostics: findings, errors and lints in one form, for all outputs that people or programs read.

A `Diagnostic` has a severity, the id of its rule or check, one sentence, a position, and notes with positions of their
own. `of_finding` and `of_error` make diagnostics; `grouped` merges those of the same source positions.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Final, Protocol
from urllib.parse import quote

from softcard.core.display import RichDisplay, Rows, count, printable
from softcard.core.errors import BeyondModel, ModelBug, Registers, SoftcardError
from softcard.core.errors import Place as ErrorPlace
from softcard.core.findings import MOST_LANES, Finding, FindingError, Level
from softcard.core.rule import Rule

MOST_SOURCE_BYTES: Final = 16 << 20
"""The size above which a source file is not read for an excerpt."""
UNITS: Final = ("lane", "wave", "hart", "instance", "work-group")
"""The kinds of places in an error's path that name the unit which executed the instruction."""
STDIN: Final = "<stdin>"
"""The name of standard input in messages."""
FREED: Final = ("use-after-free", "double-free", "invalid-free")
"""The kinds of findings for which it matters where the allocation was freed."""
NO_CODE: Final = "The finding concerns no single instruction of a kernel, so it has no registers."
"""The usual reason why a finding without an instruction has no registers."""
WENT_ON: Final = "The check reports after the wave or hart has gone on, so the registers at the instruction are lost."
"""The usual reason why the registers of a finding with an instruction are unknown."""
RACES: Final = ("races", "lanes")
"""The checks whose findings are about a pair of accesses, in either order."""


_ACCESS: Final = re.compile(r"\.?\w+(\[[^\[\]]*\])*|.", re.DOTALL)
"""A name, with the indices of an array access, or any other character."""


# ---- the model -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Location:
    """A position in a source file, in machine code or in a binary file; unknown fields are "", 0 or None.

    `line` and `column` count from 1; columns count bytes in UTF-8, as in DWARF. `code` is a function and offset, `insn`
    the disassembled instruction at `pc`, `byte` an offset in the file. `text` describes a position that has none of
    these.
    """

    file: str = ""
    line: int = 0
    column: int = 0
    code: str = ""
    insn: str = ""
    pc: int | None = None
    byte: int | None = None
    text: str = ""
    line_text: str = field(default="", repr=False)
    """The line of a source that has no file; "" to read it from the file."""
    width: int = 0
    """The number of characters that the position covers; 0 if it covers the name or access at the column."""

    @classmethod
    def of_source(cls, source: str, column: int = 0, line_text: str = "") -> Location:
        """Return the location of ``file:line``."""
        file, _, line = source.rpartition(":")
        return cls(file, int(line), column, line_text=line_text) if file and line.isdecimal() else cls(text=source)

    def __bool__(self) -> bool:
        return bool(str(self))

    def __str__(self) -> str:
        if self.file:
            numbers = (str(each) for each in (self.line, self.column) if each)
            return ":".join((self.file, *numbers)) if self.line else ": ".join(filter(None, (self.file, self.text)))
        if self.code:
            return self.code if self.pc is None else f"{self.code} (pc {self.pc:#x})"
        if self.pc is not None:
            return f"pc {self.pc:#x}"
        return self.text or ("" if self.byte is None else f"byte {self.byte:#x}")

    @property
    def is_code(self) -> bool:
        """True if the position is in machine code, whether its source is known or not."""
        return self.pc is not None or bool(self.code)

    def source_line(self) -> str:
        """Return the line of the source; "" if it is unknown or cannot be read."""
        if self.line_text:
            return self.line_text
        lines = lines_of_source(self.file) if self.file and self.line else ()
        return lines[self.line - 1] if 0 < self.line <= len(lines) else ""

    def span(self) -> tuple[int, int]:
        """Return the start of the position in its line, counted from 0, and the end of the name or access there.

        If `width` is set, the end is `width` characters after the start. Return (0, 0) if the column is not in the
        line.
        """
        line = self.source_line()
        size = len(line.encode("utf-8", "surrogateescape"))
        if not self.column or self.column > size + 1:
            return 0, 0
        if self.column == size + 1:  # something is missing at the end of the line
            return len(line), len(line) + 1
        start = len(line.encode("utf-8", "surrogateescape")[: self.column - 1].decode("utf-8", "ignore"))
        if self.width:
            return start, min(start + self.width, len(line))
        word = _ACCESS.match(line, start)
        return start, start + 1 if word is None else word.end()


@dataclass(frozen=True, slots=True)
class Note:
    """An addition to a diagnostic, with a position of its own if it has one.

    `kind` is "note", "help" (a suggestion) or "rule".
    """

    text: str
    location: Location = field(default_factory=Location)
    kind: str = "note"
    label: str = ""
    """The lanes, wave and work-group, or hart, of another access."""


@dataclass(frozen=True, slots=True)
class Diagnostic(RichDisplay):
    """A mistake in a file or in a run.

    `check` is the name of the check that reported it, with the kind of finding in a run (``memory/out-of-bounds``).
    `message` is one sentence, `location` the position, `label` the lanes, wave and work-group, or hart. `kernel` is the
    kernel, field or command concerned. `notes` are further positions and facts, `suggestion` a remedy, `count` the
    number of occurrences. Unknown fields are "" or None.

    Checks of files describe the position in words (`place`), with an offset in the file (`byte`) or an address in the
    loaded image (`pc`); `other` is the position of the conflicting access in words.
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
    location: Location = field(default_factory=Location)
    label: str = ""
    notes: tuple[Note, ...] = ()
    unit: str = ""
    """The wave or hart, also a part of `label`."""
    group: str = ""
    """The coordinates of the work-group, also a part of `label`."""
    lanes: tuple[int, ...] = ()
    registers: Registers | None = field(default=None, repr=False)
    """The registers before the instruction; None if they are unknown."""
    no_registers: str = ""
    """The reason why the registers of a finding's instruction are unknown, as a sentence."""
    is_text_input: bool = False
    """True if the position is in a text that the user wrote for Softcard, so that it comes first in messages."""

    @property
    def id(self) -> str:
        """The id of the diagnostic: the check, with the kind of a finding, or else the rule's id."""
        return self.check or ("" if self.rule is None else self.rule.id)

    @property
    def position(self) -> Location:
        """The position: `location`, or else the one that `byte`, `pc` and `place` describe."""
        return self.location or Location(byte=self.byte, text=self.place)

    @property
    def access(self) -> Note | None:
        """The first note about another access or instruction, or None if there is no such note."""
        return next((each for each in self.notes if each.label or each.location.is_code), None)

    def all_notes(self) -> Iterator[Note]:
        """Yield the notes, with the other access, the number of occurrences, the rule and the suggestion."""
        yield from self.notes
        if self.other and self.access is None:
            yield Note(f"the other instruction is at {self.other}")
        if self.rule is not None:
            yield Note(f"{self.rule.id}: {self.rule.text} ({self.rule.clause})", kind="rule")
        if self.count > 1:
            yield Note(f"{self.count:,} occurrences")
        if self.suggestion:
            yield Note(self.suggestion, kind="help")

    def __repr__(self) -> str:
        return f"<{self}>"

    def _rows(self) -> Rows:
        yield ()
        yield "level", self.level.value
        yield "check", self.id
        yield "place", str(self.position)
        yield from ((each.kind, f"{each.text}{f', {each.location}' if each.location else ''}") for each in self.notes)
        yield "other place", self.other
        yield "suggestion", self.suggestion
        yield "count", self.count if self.count > 1 else ""
        yield "rule", f"{self.rule.id}: {self.rule.text} ({self.rule.clause})" if self.rule else ""

    def __str__(self) -> str:
        where = f"{self.position}: " if self.position else ""
        often = f", {self.count} times" if self.count > 1 else ""
        name = f"[{self.id}]" if self.id else ""
        other = "" if self.access is None else f"; {self.access.text}: {self.access.location or self.access.label}"
        return printable(f"{where}{self.level.value}{name}: {self.message}{often}{other}")


# ---- from findings, errors and lints ---------------------------------------------------------------------------------


def of_finding(found: Finding) -> Diagnostic:
    """Return the diagnostic of a finding of a running kernel."""
    notes = [Note(side, Location.of_source(frame)) for frame, side in _inlined(found)]
    if found.origin:
        notes.insert(0, Note(found.origin))
    if found.conflict is not None:
        notes.insert(0, Note(_conflicting(found), _location(found.conflict), label=_units(found.conflict)))
    elif found.other:
        notes.insert(0, Note(f"the other access: {found.other}"))
    made = found.allocation
    if made is not None:
        text = f"{made.name}{', allocated here' if made.made else ''}: {count(made.size, 'byte')} at {made.base:#x}"
        text += f"; the access is at {found.address:#x}" if found.access not in ("", "free") else ""
        notes.append(Note(text, Location.of_source(made.made)))
        if made.freed and found.kind in FREED:
            line = Location.of_source(made.freed)
            notes.append(Note("freed here", line) if line.line else Note(f"freed at {made.freed}"))
    return Diagnostic(
        found.level,
        found.name,
        _sentence(found),
        pc=found.pc,
        kernel=found.kernel,
        rule=found.rule,
        suggestion=found.suggestion,
        count=found.count,
        location=_location(found),
        label=_units(found),
        notes=tuple(notes),
        unit=found.unit,
        group=found.group,
        lanes=found.lanes,
        registers=found.registers,
        no_registers="" if found.registers is not None else found.no_registers or (WENT_ON if found.pc else NO_CODE),
    )


def _sentence(found: Finding) -> str:
    """Return the message of a finding without the parts that are notes: origin, allocation and its address."""
    text = found.message.removesuffix(found.origin).removesuffix(": ") if found.origin else found.message
    if found.allocation is not None:
        name = found.allocation.name
        text = re.sub(rf"{re.escape(name)} \(\d+ bytes at 0x[^)]*\)", lambda _: name.partition(",")[0], text)
        at = f" at {found.address:#x}"
        text = text.replace(f"{at}: ", ", ", 1).replace(f"{at} in ", " in ", 1)
    return text


def _conflicting(found: Finding) -> str:
    if found.check not in RACES:
        return "the other instruction"
    first = found.kind.partition("-")[0]
    return f"the conflicting {first if first in ('read', 'write', 'atomic') else 'access'}"


def _location(found: Finding) -> Location:
    known = Location.of_source(found.source, found.column, found.line_text) if found.source else Location()
    return replace(known, code=found.at, insn=found.insn, pc=found.pc)


def _inlined(found: Finding) -> Iterator[tuple[str, str]]:
    """Yield the other source lines of inlined code: those inside, from which it comes, and those of the calls."""
    if found.source in found.frames:
        own = found.frames.index(found.source)
        yield from ((frame, "the inlined code") for frame in reversed(found.frames[:own]))
        yield from ((frame, "inlined here") for frame in found.frames[own + 1 :])


def _units(found: Finding) -> str:
    group = f"work-group {found.group}" if found.group else ""
    return ", ".join(each for each in (_lanes(found.lanes), found.unit, group) if each)


def _lanes(lanes: Sequence[int]) -> str:
    """Return lanes as text: a range if they are contiguous, or else the first few of them."""
    if not lanes:
        return ""
    if len(lanes) > 2 and lanes[-1] - lanes[0] == len(lanes) - 1 == len(set(lanes)) - 1:
        return f"lanes {lanes[0]} to {lanes[-1]}"
    more = f" and {len(lanes) - MOST_LANES} more" if len(lanes) > MOST_LANES else ""
    return f"lane{'s' * (len(lanes) > 1)} {', '.join(map(str, lanes[:MOST_LANES]))}{more}"


def of_error(error: SoftcardError, file: str = "") -> Diagnostic:
    """Return the diagnostic of an error; `file` is the text input that it is about, if the error does not name it."""
    if isinstance(error, FindingError) and error.finding is not None:
        return of_finding(error.finding)
    location, is_text_input, used = _error_location(error, file)
    rest = [place for place in error.path if place not in used]
    units = [f"{place.kind} {place.where}" for place in rest if place.kind in UNITS]
    context = [str(place).removeprefix("at ") for place in rest if place.kind not in UNITS]
    notes = [Note(f"at {', '.join(context)}")] if context else []
    if error.registers is not None:
        notes.append(Note(" ".join(str(error.registers).split())))
    name = {BeyondModel: "not modelled", ModelBug: "bug in softcard"}
    head = next((text for kind, text in name.items() if isinstance(error, kind)), "")
    return Diagnostic(
        Level.ERROR,
        head or ("" if error.rule is None else error.rule.id),
        error.message,
        rule=error.rule,
        pc=location.pc,
        location=location,
        label=", ".join(units),
        notes=tuple(notes),
        unit=next((f"{place.kind} {place.where}" for place in rest if place.kind in ("wave", "hart")), ""),
        group=next((place.where for place in rest if place.kind == "work-group"), ""),
        lanes=tuple(int(place.where) for place in rest if place.kind == "lane" and place.where.isdecimal()),
        registers=error.registers,
        is_text_input=is_text_input,
    )


_POSITION: Final = re.compile(r"(?P<file>.+?):(?P<line>\d+)(:(?P<column>\d+))?")
_DOTTED: Final = re.compile(r"\w+(\.\w+)+(?!\S)")
_LINE_OF: Final = re.compile(r"(?P<line>\d+) of (?P<file>.+)")
"""The location of a line of a Python kernel."""


def _error_location(error: SoftcardError, file: str) -> tuple[Location, bool, list[ErrorPlace]]:
    """Return the position of an error, True for a position in a text input, and the places that it consists of."""
    path = error.path
    kinds = {place.kind: place for place in reversed(path)}
    if (line := kinds.get("line")) is not None:
        if of_kernel := _LINE_OF.fullmatch(line.where):
            code = "" if "kernel" in kinds else line.what
            return Location(of_kernel["file"], int(of_kernel["line"]), code=code), False, [line]
        of_file = kinds.get("file")
        found = _POSITION.fullmatch(line.where)
        name = found["file"] if found else of_file.where if of_file else file
        name = STDIN if name == "-" else name
        number = int(found["line"]) if found else int(line.where) if line.where.isdecimal() else 0
        if name and number:
            location = Location(name, number, text=line.what, line_text=line.line_text)
            text = location.source_line()
            start, end = _statement_span(text, line.what, error.operands)
            column = len(text[:start].encode("utf-8", "surrogateescape")) + 1 if end else 0
            if not column:
                column = int(found["column"] or 0) if found else line.column
            return (
                replace(location, column=column, width=end - start if error.operands else _word_size(text, start)),
                True,
                [line, *([of_file] if of_file and not found else [])],
            )
    if (pc := kinds.get("pc")) is not None and (address := _number(pc.where)) is not None:
        known = Location.of_source(pc.source, pc.column, pc.line_text) if pc.source else Location()
        insn = pc.insn or ("" if pc.code else pc.what)
        return replace(known, code=pc.code, insn=insn, pc=address), False, [pc]
    of_file, at = kinds.get("file"), kinds.get("byte")
    used = [place for place in (of_file, at) if place is not None]
    text, offset = ("", None) if at is None else (str(at).removeprefix("at "), _number(at.where))
    return Location(file if of_file is None else of_file.where, byte=offset, text=text), False, used


def _statement_span(line: str, statement: str, operands: Sequence[tuple[str, int]]) -> tuple[int, int]:
    """Return the first character and the end of the wrong part of a statement in its line; (0, 0) if it is not found.

    `operands` are the wrong parts, innermost first (see `SoftcardError.in_operand`); without them the whole statement
    is wrong.
    """
    words = statement.split()
    found = re.search(r"\s+".join(map(re.escape, words)), line) if words else None
    first, last = (found.start(), len(line)) if found else (0, len(line) if operands else 0)
    span = first, found.end() if found else 0
    after_name = first + len(words[0]) if found else first
    for text, number in reversed(operands):
        parts = _operand_spans(line, after_name, last)
        if 0 <= number < len(parts):
            first, last = span = parts[number]
        whole = r"(?<![\w.$])" * text[:1].isalnum() + re.escape(text) + r"(?![\w$])" * text[-1:].isalnum()
        part = re.compile(whole).search(line, max(first, after_name), last) if text else None
        if part is not None:
            first, last = span = part.span()
    return span


def _word_size(line: str, start: int) -> int:
    """Return the size of a mnemonic, such as ``vle32.v``, or of another word with dots; 0 for other text."""
    found = _DOTTED.match(line, start)
    return 0 if found is None else len(found[0])


def _operand_spans(line: str, start: int, end: int) -> list[tuple[int, int]]:
    """Return the operands between two characters of a line: the parts between commas outside of brackets and quotes."""
    spans, depth, quote = [], 0, ""
    for at in range(start, end):
        letter = line[at]
        if quote:
            quote = "" if letter == quote else quote
        elif letter == '"':
            quote = letter
        elif letter == "," and not depth:
            spans.append((start, at))
            start = at + 1
        else:
            depth += (letter in "([{") - (letter in ")]}")
    return [_stripped(line, *span) for span in (*spans, (start, end))]


def _stripped(line: str, start: int, end: int) -> tuple[int, int]:
    text = line[start:end]
    return start + len(text) - len(text.lstrip()), start + len(text.rstrip())


def _number(text: str) -> int | None:
    try:
        return int(text, 0)
    except ValueError:
        return None


class HasDiagnostic(Protocol):
    """An object with a diagnostic of its own, such as a finding of a command buffer's lint."""

    def diagnostic(self) -> Diagnostic:
        """Return the diagnostic."""


AnyFinding = Finding | Diagnostic | HasDiagnostic


def diagnostic_of(found: AnyFinding) -> Diagnostic:
    """Return the diagnostic of any kind of finding."""
    if isinstance(found, Finding):
        return of_finding(found)
    return found if isinstance(found, Diagnostic) else found.diagnostic()


def diagnostics_of(findings: Iterable[AnyFinding]) -> list[Diagnostic]:
    """Return the diagnostics of findings: one for each pair of source positions, with a count."""
    return grouped(map(diagnostic_of, findings))


# ---- groups ----------------------------------------------------------------------------------------------------------


def grouped(diagnostics: Iterable[Diagnostic]) -> list[Diagnostic]:
    """Merge the diagnostics about the same source positions; the first of a group stays, with the sum of the counts.

    Races between the same two source lines, or instructions if their lines are unknown, are one mistake, whichever
    access came first. Other findings are the same mistake if check, kind, sentence, position and position of the other
    access are equal; how far an access of one source position is out of bounds does not matter.
    """
    groups: dict[object, list[Diagnostic]] = {}
    for each in diagnostics:
        groups.setdefault(_key(each), []).append(each)
    return [_merged(group) for group in groups.values()]


def _key(found: Diagnostic) -> object:
    other = _other_of(found)
    check = found.check.partition("/")[0]
    if check in RACES and found.location.is_code and other.is_code:
        return check, frozenset(map(_spot, (found.location, other)))
    position = (
        str(found.location) if found.location.line else (found.pc, str(found.position), found.label * (not found.pc))
    )
    message = _DISTANCE.sub("", found.message) if found.location.line else found.message
    return found.check, found.level, message, position, str(other), found.other


_DISTANCE: Final = re.compile(r" at LDS offset \w+| \d+ bytes (?=past|before)")
"""The parts of a message about an access out of bounds that differ between the instructions of one source position."""


def _other_of(found: Diagnostic) -> Location:
    return Location() if found.access is None else found.access.location


def _spot(location: Location) -> object:
    """Return the source line of a location, or else the address of its instruction."""
    return (location.file, location.line) if location.line else location.pc


def _merged(group: Sequence[Diagnostic]) -> Diagnostic:
    first = group[0]
    if len(group) == 1:
        return first
    worst = next((level for level in Level if any(each.level is level for each in group)), first.level)
    notes = first.notes
    if kinds := sorted({each.check for each in group} - {first.check}):
        notes = (*notes, Note(f"also {', '.join(kinds)} between these positions"))
    sites = {frozenset((each.location.pc, _other_of(each).pc)) for each in group}
    if len(sites) > 1:
        what = "instructions" if first.access is None else "pairs of instructions"
        notes = (*notes, Note(f"at {len(sites)} {what} in the compiled code"))
    return replace(first, level=worst, count=sum(each.count for each in group), notes=notes)


# ---- sources ---------------------------------------------------------------------------------------------------------


@lru_cache(64)
def _read_source(path: str, size: int, changed: int) -> tuple[str, ...]:
    return tuple(Path(path).read_text(encoding="utf-8", errors="replace").split("\n"))


def lines_of_source(path: str) -> tuple[str, ...]:
    """Return the lines of a source file; () if it cannot be read or is not a regular file of moderate size."""
    try:
        if not os.path.isfile(path) or (about := os.stat(path)).st_size > MOST_SOURCE_BYTES:
            return ()
        return _read_source(path, about.st_size, about.st_mtime_ns)
    except (OSError, ValueError):
        return ()


# ---- documentation ---------------------------------------------------------------------------------------------------

PAGES: Final = {
    "acceldev": "acceldev",
    "amdcl2": "amdcl2",
    "fidelity": "checks/values",
    "fletcher": "fletcher",
    "gcn": "checks/waits",
    "hsa": "hsa",
    "init": "checks/values",
    "lanes": "checks/races",
    "leaks": "checks/memory",
    "memory": "checks/memory",
    "races": "checks/races",
    "refsi": "refsi",
    "sync": "checks/sync",
    "vector": "riscv-vectors",
    "vfio-user": "acceldev",
    "waits": "checks/waits",
}
"""The documentation page of each interface's rules and of each check, by the first part of their ids."""
DOCS_VARIABLE: Final = "SOFTCARD_DOCS"
"""The environment variable with the address of the documentation."""


def page_of(name: str) -> str:
    """Return the documentation page of a rule or check; "" without one."""
    return PAGES.get(name.partition("/")[0], "")


def link(docs: str, document: str, name: str = "") -> str:
    """Return a link to a documentation page, at the rule or kind of finding `name`; "" without `docs`.

    If `docs` is on a code forge or a folder of Markdown, the page is Markdown, and the link leads to the first
    occurrence of the name. Elsewhere it is HTML, where each name has an anchor.
    """
    if not docs or not document:
        return ""
    is_source = "/blob/" in docs or "/tree/" in docs or os.path.isfile(os.path.join(docs, "index.md"))
    text = ":~:text=" + quote(name, safe="").replace("-", "%2D") if is_source else quote(name)
    fragment = f"#{text}" if name else ""
    return f"{docs.rstrip('/')}/{document}.{'md' if is_source else 'html'}{fragment}"


def help_uri(found: Diagnostic) -> str:
    """Return the address of the documentation of a diagnostic's rule or check; "" if it is unknown."""
    name = found.rule.id if found.rule is not None else found.check
    text = name if found.rule is not None else name.rpartition("/")[2]
    return link(os.environ.get(DOCS_VARIABLE, ""), page_of(name), text)
