"""Findings as SARIF 2.1.0, which code hosts and editors show beside the file.

Source: OASIS, Static Analysis Results Interchange Format (SARIF) Version 2.1.0. Places are bytes of the file (region,
3.30) or lines of its source where a finding has one, else names of kernels, fields or commands (logicalLocation, 3.33).
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from understudy.core.diagnostic import Diagnostic

Document = dict[str, Any]

SCHEMA: Final = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"


def to_sarif(path: Path, findings: Iterable[Diagnostic], version: str) -> Document:
    """The log of one run: findings in the file at `path`; `version` is ours."""
    found = list(findings)
    rules: dict[str, Document] = {}
    for each in found:
        rules.setdefault(rule_id(each), _rule(each))
    numbers = {name: number for number, name in enumerate(rules)}
    uri = path.as_posix() if not path.is_absolute() else path.as_uri()
    driver = {"name": "understudy", "version": version, "rules": list(rules.values())}
    results = [_result(each, uri, numbers[rule_id(each)]) for each in found]
    run: Document = {"tool": {"driver": driver}, "artifacts": [{"location": {"uri": uri}}], "results": results}
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}


def rule_id(finding: Diagnostic) -> str:
    """The rule of the document that a finding is about, or the check that made it."""
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
    if finding.made:
        related = {"physicalLocation": _line(finding.made, finding.made_line), "message": {"text": "allocated here"}}
        made["relatedLocations"] = [related]
    return made


def _line(path: str, line: int) -> Document:
    """A line of a source."""
    file = Path(path)
    uri = file.as_uri() if file.is_absolute() else file.as_posix()
    return {"artifactLocation": {"uri": uri}, "region": {"startLine": max(line, 1)}}
