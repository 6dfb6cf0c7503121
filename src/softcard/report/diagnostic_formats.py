"""Diagnostics as files and output for programs: SARIF, JUnit, GitHub's annotations and JSON.

Sources: OASIS, Static Analysis Results Interchange Format (SARIF) Version 2.1.0; the JUnit XML format as Jenkins and
GitLab read it; GitHub, Workflow commands for GitHub Actions.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Final
from xml.etree import ElementTree

from softcard.core.diagnostics import AnyFinding, Diagnostic, Location, diagnostic_of, diagnostics_of, help_uri
from softcard.core.display import demangled, encodable, shown_path
from softcard.core.findings import Finding, Level
from softcard.report.diagnostic_text import as_text

Document = dict[str, Any]

SCHEMA: Final = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
ROOT: Final = "SRCROOT"
"""The name of the folder to which SARIF's relative paths refer: the working folder of the command."""
FINGERPRINT: Final = "softcard/v1"
"""The name and version of the fingerprints, by which code hosts recognise a finding whose line has moved."""
MOST_RELATED: Final = 1000


# ---- SARIF -----------------------------------------------------------------------------------------------------------


def to_sarif(path: Path, findings: Iterable[AnyFinding], version: str) -> Document:
    """Return the SARIF log of one run: the findings in the program or file at `path`. `version` is Softcard's."""
    found = diagnostics_of(findings)
    rules: dict[str, Document] = {}
    for each in found:
        rules.setdefault(rule_id(each), _rule(each))
    numbers = {name: number for number, name in enumerate(rules)}
    driver = {"name": "softcard", "version": version, "rules": list(rules.values())}
    results = [_result(each, str(path), numbers[rule_id(each)]) for each in found]
    run: Document = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "originalUriBaseIds": {ROOT: {"uri": f"{Path.cwd().as_uri()}/"}},
        "artifacts": [{"location": _artifact(str(path))}],
        "results": results,
    }
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}


def rule_id(found: Diagnostic) -> str:
    """Return the id of a diagnostic's rule, or else the name of the check that reported it."""
    if found.rule is not None:
        return found.rule.id
    return found.id if "/" in found.id else f"check/{found.id or 'error'}"


def _rule(found: Diagnostic) -> Document:
    made: Document = {"id": rule_id(found), "name": found.check or "error"}
    if found.rule:
        made["shortDescription"] = {"text": encodable(found.rule.text)}
        made["help"] = {"text": encodable(f"{found.rule.text} ({found.rule.clause})")}
    if uri := help_uri(found):
        made["helpUri"] = uri
    return made


def _result(found: Diagnostic, path: str, index: int) -> Document:
    position = found.position
    where = found.place if found.is_text_input or not found.location else ""
    other = found.other if found.access is None else str(found.access.location)
    more = filter(None, (where and f"at {where}", found.label, other and f"see {other}"))
    text = ", ".join((found.message, *more)) + (f"; {found.suggestion}" if found.suggestion else "")
    made: Document = {
        "ruleId": rule_id(found),
        "ruleIndex": index,
        "level": found.level.value,
        "message": {"text": encodable(text)},
        "locations": [_location(position, path, found.kernel)],
        "occurrenceCount": max(1, found.count),
        "partialFingerprints": {FINGERPRINT: fingerprint(found)},
    }
    related = [
        {
            **_location(each.location, path),
            "message": {"text": encodable(", ".join(filter(None, (each.text, each.label))))},
        }
        for each in found.notes
        if each.location
    ]
    if related:
        made["relatedLocations"] = related[:MOST_RELATED]
    return made


def _location(position: Location, path: str, kernel: str = "") -> Document:
    """Return a location in SARIF; a position without a file is in the program or file at `path`."""
    physical: Document = {"artifactLocation": _artifact(position.file or path)}
    if position.file in ("", path):
        physical["artifactLocation"]["index"] = 0
    if position.line:
        physical["region"] = _region(position)
    elif position.byte is not None:
        physical["region"] = {"byteOffset": position.byte}
    if position.pc is not None:
        physical["address"] = {"absoluteAddress": position.pc}
    made: Document = {"physicalLocation": physical}
    if name := demangled(position.code or kernel):
        made["logicalLocations"] = [
            {"fullyQualifiedName": encodable(name), "kind": "function" if position.code else "member"}
        ]
    return made


def _region(position: Location) -> Document:
    made: Document = {"startLine": position.line}
    start, end = position.span()
    if end:
        made |= {"startColumn": start + 1, "endColumn": end + 1}
    if line := position.source_line():
        made["snippet"] = {"text": encodable(line)}
    return made


def _artifact(path: str) -> Document:
    shown = Path(shown_path(path))
    return {"uri": shown.as_uri()} if shown.is_absolute() else {"uri": _relative(shown), "uriBaseId": ROOT}


def _relative(path: Path) -> str:
    from urllib.parse import quote

    return quote(path.as_posix())


def fingerprint(found: Diagnostic) -> str:
    """Return a hash that stays the same if the lines around a finding change: of its id, file, line text and sentence.

    Numbers are left out, since addresses and sizes differ from run to run.
    """
    position = found.position
    line = position.source_line().strip() or position.insn or found.place
    other = "" if found.access is None else found.access.location.source_line().strip()
    parts = (found.id, shown_path(position.file), line, other, re.sub(r"0x[0-9a-f]+|\d+", "N", found.message))
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()[:32]


# ---- JUnit -----------------------------------------------------------------------------------------------------------


def to_junit(path: Path, findings: Iterable[AnyFinding], version: str) -> str:
    """Return a JUnit report: a test case for each diagnostic, a failed one for errors, and one that passed for none."""
    found = diagnostics_of(findings)
    errors = sum(each.level is Level.ERROR for each in found)
    name = f"softcard {encodable(path.name)}"
    counts = {"tests": str(max(1, len(found))), "failures": str(errors), "errors": "0", "skipped": "0"}
    suites = ElementTree.Element("testsuites", counts)
    suite = ElementTree.SubElement(suites, "testsuite", {"name": name, **counts})
    properties = ElementTree.SubElement(suite, "properties")
    ElementTree.SubElement(properties, "property", {"name": "softcard", "value": version})
    for each in found:
        about = {"classname": rule_id(each), "name": encodable(f"{each.position}: {each.message}")}
        if each.position.file:
            about["file"] = encodable(shown_path(each.position.file))
        if each.position.line:
            about["line"] = str(each.position.line)
        case = ElementTree.SubElement(suite, "testcase", about)
        text = encodable(as_text([each]))
        if each.level is Level.ERROR:
            ElementTree.SubElement(
                case, "failure", {"message": encodable(each.message), "type": rule_id(each)}
            ).text = text
        else:
            ElementTree.SubElement(case, "system-out").text = text
    if not found:
        ElementTree.SubElement(suite, "testcase", {"classname": name, "name": "no findings"})
    ElementTree.indent(suites)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ElementTree.tostring(suites, "unicode") + "\n"


# ---- GitHub ----------------------------------------------------------------------------------------------------------

_COMMANDS: Final = {Level.ERROR: "error", Level.WARNING: "warning", Level.NOTE: "notice"}


def to_github(path: Path, findings: Iterable[AnyFinding]) -> str:
    """Return a line for each diagnostic that makes GitHub Actions annotate the source line."""
    return "".join(f"{_annotation(str(path), each)}\n" for each in diagnostics_of(findings))


def _annotation(path: str, found: Diagnostic) -> str:
    position = found.position
    about = {"file": shown_path(position.file or path)}
    start, end = position.span()
    about |= {"line": str(position.line)} if position.line else {}
    about |= {"col": str(start + 1), "endColumn": str(end)} if end else {}
    about |= {"title": found.id} if found.id else {}
    properties = ",".join(f"{name}={_escaped(value, ':,')}" for name, value in about.items())
    return f"::{_COMMANDS[found.level]} {properties}::{_escaped(as_text([found]))}"


def _escaped(text: str, more: str = "") -> str:
    """Return text with the escapes of workflow commands; `more` characters are escaped too."""
    return "".join(f"%{ord(each):02X}" if each in f"%\r\n{more}" else each for each in encodable(text))


# ---- JSON ------------------------------------------------------------------------------------------------------------


def to_json(path: Path, findings: Iterable[AnyFinding]) -> list[Document]:
    """Return findings of runs and diagnostics of the file at `path` as plain values, with all their fields."""
    return [each.as_dict() if isinstance(each, Finding) else _plain(path, diagnostic_of(each)) for each in findings]


def _plain(path: Path, found: Diagnostic) -> Document:
    return {
        "file": found.position.file or str(path),
        "line": found.position.line or None,
        "column": found.position.column or None,
        "level": found.level.value,
        "check": found.check,
        "message": found.message,
        "place": found.place,
        "byte": found.byte,
        "pc": found.pc,
        "kernel": found.kernel,
        "rule": found.rule.id if found.rule else "",
        "clause": found.rule.clause if found.rule else "",
        "other": found.other,
        "suggestion": found.suggestion,
        "count": found.count,
    }


# ---- by name ---------------------------------------------------------------------------------------------------------

Findings = Sequence[AnyFinding]
FORMATS: Final[dict[str, Callable[[Path, Findings, str], str]]] = {
    "json": lambda path, found, version: json.dumps(to_json(path, found), indent=2) + "\n",
    "sarif": lambda path, found, version: json.dumps(to_sarif(path, found, version), indent=2) + "\n",
    "junit": to_junit,
    "github": lambda path, found, version: to_github(path, found),
}
"""The functions that return findings as text, by format: of the program's path, the findings, Softcard's version."""
SUFFIXES: Final = {".sarif": "sarif", ".json": "json", ".xml": "junit"}
"""The format of a file of findings by the end of its name."""
