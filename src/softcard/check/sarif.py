"""The output of findings as SARIF 2.1.0, which code hosts and editors show at the lines of the file.

Source: OASIS, Static Analysis Results Interchange Format (SARIF) Version 2.1.0. A location is a byte of the file or a
line of its source (region, 3.30), or else the name of a kernel, field or command (logicalLocation, 3.33).
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from softcard.core.findings import Diagnostic

Document = dict[str, Any]

SCHEMA: Final = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"


def to_sarif(path: Path, findings: Iterable[Diagnostic], version: str) -> Document:
    """Return the SARIF log of one run: the findings in the file at `path`. `version` is Softcard's version."""
    found = list(findings)
    rules: dict[str, Document] = {}
    for each in found:
        rules.setdefault(rule_id(each), _rule(each))
    numbers = {name: number for number, name in enumerate(rules)}
    uri = path.as_posix() if not path.is_absolute() else path.as_uri()
    driver = {"name": "softcard", "version": version, "rules": list(rules.values())}
    results = [_result(each, uri, numbers[rule_id(each)]) for each in found]
    run: Document = {"tool": {"driver": driver}, "artifacts": [{"location": {"uri": uri}}], "results": results}
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}


def rule_id(finding: Diagnostic) -> str:
    """Return the id of the rule that a finding is about, or else the name of the check that reported it."""
    return finding.rule.id if finding.rule else f"check/{finding.check}"


def _rule(finding: Diagnostic) -> Document:
    made: Document = {"id": rule_id(finding), "name": finding.check}
    if finding.rule:
        made["shortDescription"] = {"text": finding.rule.text}
        made["help"] = {"text": f"{finding.rule.text} ({finding.rule.clause})"}
    return made


def _result(finding: Diagnostic, uri: str, index: int) -> Document:
    place: Document = {"physicalLocation": {"artifactLocation": {"uri": uri, "index": 0}}}
    if finding.source:
        place["physicalLocation"] = _line(finding.source, finding.line)
    elif finding.byte is not None:
        place["physicalLocation"]["region"] = {"byteOffset": finding.byte}
    if finding.kernel:
        place["logicalLocations"] = [{"fullyQualifiedName": finding.kernel}]
    where = f", at {finding.place}" if finding.place else ""
    where += f", see {finding.other}" if finding.other else ""
    where += f"; {finding.suggestion}" if finding.suggestion else ""
    made: Document = {
        "ruleId": rule_id(finding),
        "ruleIndex": index,
        "level": finding.level.value,
        "message": {"text": f"{finding.message}{where}"},
        "locations": [place],
    }
    related = [_related(finding.made, finding.made_line, "allocated here")] if finding.made else []
    source = f"{finding.source}:{finding.line}"
    own = finding.frames.index(source) if source in finding.frames else 0
    for number, frame in enumerate(finding.frames):
        if frame != source:
            file, _, line = frame.rpartition(":")
            related.append(_related(file, int(line), "inlined from here" if number < own else "inlined here"))
    if related:
        made["relatedLocations"] = related
    return made


def _related(path: str, line: int, text: str) -> Document:
    """Return a related location of a finding (SARIF 3.27.22): a line of the source file at `path`, with a text."""
    return {"physicalLocation": _line(path, line), "message": {"text": text}}


def _line(path: str, line: int) -> Document:
    """Return a physical location in SARIF: a line of a source file."""
    file = Path(path)
    uri = file.as_uri() if file.is_absolute() else file.as_posix()
    return {"artifactLocation": {"uri": uri}, "region": {"startLine": max(line, 1)}}
