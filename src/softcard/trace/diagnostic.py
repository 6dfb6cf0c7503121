"""Diagnostics as records of traces, from which a report shows a finding: sentence, source lines, notes, registers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from softcard.core.diagnostics import Diagnostic, Location, Note, lines_of_source, of_error
from softcard.core.display import demangled, shown_path
from softcard.core.errors import SoftcardError
from softcard.core.event import Event
from softcard.trace.code import SOURCES
from softcard.trace.values import DIAGNOSTIC, Record, event_fields, to_object

AROUND: Final = 4
"""The number of source lines before and after the position that a diagnostic's record contains."""
ELSEWHERE: Final = 0
"""The number of source lines before and after the position of a note that a record contains."""

MOST_COLUMNS: Final = 400
"""The maximum number of characters of a source line that a record contains."""
BEFORE: Final = 100
"""The number of characters before the position in a longer line."""


def with_diagnostic(event: Event) -> Record:
    """Return the JSON object for an event; an event with an error also has its diagnostic."""
    record = to_object(event)
    for _, value in event_fields(event):
        if isinstance(value, SoftcardError):
            record[DIAGNOSTIC] = diagnostic_record(of_error(value))
    return record


def finding_record(found: Diagnostic) -> Record:
    """Return the event for the finding of a check, at time 0; a timeline moves it to its kernel."""
    record: Record = {"time": 0, "event": "finding", "check": found.check, "message": found.message}
    if found.rule is not None:
        record["rule"] = found.rule.id
    if found.pc is not None:
        record["pc"] = hex(found.pc)
    record |= {name: text for name, text in _executed_by(found).items() if text}
    if found.registers is not None:
        record["registers"] = found.registers.as_dict() | {"place": found.label}
    record[DIAGNOSTIC] = diagnostic_record(found)
    return record


def _executed_by(found: Diagnostic) -> dict[str, str]:
    return {"kernel": found.kernel, "by": found.unit, "work_group": found.group}


def diagnostic_record(found: Diagnostic) -> dict[str, Any]:
    """Return a diagnostic as a record for JSON; fields that are unknown are left out."""
    position = found.position
    code = position.code or ("" if position.pc is None else f"pc {position.pc:#x}")
    return _known(
        {
            "level": found.level.value,
            "id": found.id,
            "message": found.message,
            "at": _at(position),
            "label": found.label,
            "lanes": list(found.lanes),
            "pc": None if position.pc is None else hex(position.pc),
            "code": demangled(code),
            "insn": position.insn,
            "no_registers": found.no_registers,
            "source": _source(position, AROUND),
            "notes": [_note(each) for each in found.all_notes()],
        }
    )


def _note(note: Note) -> dict[str, Any]:
    return _known(
        {
            "kind": note.kind,
            "text": note.text,
            "at": _at(note.location) if note.location else "",
            "label": note.label,
            "insn": note.location.insn,
            "source": _source(note.location, ELSEWHERE),
        }
    )


def _at(position: Location) -> str:
    return demangled(str(replace(position, file=shown_path(position.file))))


def _source(position: Location, around: int) -> dict[str, Any]:
    """Return the source line at a position, in the parts before, at and after it, with the lines `around` it.

    Return {} if the line is unknown.
    """
    line = position.source_line().rstrip("\r")
    if not line.strip():
        return {}
    start, end = position.span()
    if len(line) > MOST_COLUMNS:  # generated or minified sources
        begin = max(0, start - BEFORE)
        line, start, end = line[begin : begin + MOST_COLUMNS], start - begin, min(end - begin, MOST_COLUMNS)
    whole = lines_of_source(position.file) if Path(position.file).suffix in SOURCES else ()
    first = max(position.line - around, 1)
    lines = {
        number: text.rstrip("\r")[:MOST_COLUMNS]
        for number, text in enumerate(whole[first - 1 : position.line + around], first)
    }
    lines[position.line] = line
    while max(lines) > position.line and not lines[max(lines)].strip():
        del lines[max(lines)]
    while min(lines) < position.line and not lines[min(lines)].strip():
        del lines[min(lines)]
    return {
        "file": shown_path(position.file),
        "line": position.line,
        "parts": [line[:start], line[start:end], line[end:]],
        "lines": [[number, lines[number]] for number in sorted(lines)],
    }


def _known(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value not in ("", None, [], {}, ())}
