"""What checks found while kernels ran, for people and for files."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from understudy import __version__
from understudy.cli.files import writing
from understudy.core.shown import count

if TYPE_CHECKING:
    from understudy.core.findings import Finding


def tell_findings(findings: Sequence[Finding], to: TextIO) -> None:
    """Each in a line, with what is advised in one of its own; how many there are."""
    for each in findings:
        print(each, file=to)
        if each.suggestion:
            print(f"  {each.suggestion}", file=to)
    print(count(len(findings), "finding") if findings else "checked: no findings", file=to)


def write_findings(path: Path, program: Path, findings: Sequence[Finding]) -> None:
    """As SARIF 2.1.0 where the file is called so, else as JSON."""
    if path.suffix == ".sarif":
        from understudy.check.sarif import to_sarif
        from understudy.core.diagnostic import Diagnostic

        document: object = to_sarif(program, map(Diagnostic.of_run, findings), __version__)
    else:
        document = [each.as_dict() for each in findings]
    with writing(path):
        path.write_text(json.dumps(document, indent=2) + "\n", "utf-8")
