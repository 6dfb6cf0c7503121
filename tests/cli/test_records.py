"""The summary after a checked run: a run of nothing must not read like one without mistakes."""

from __future__ import annotations

import io

import pytest

from softcard.cli.records import RunSummary, print_findings
from softcard.core.findings import Finding

FINDINGS = [
    Finding("memory", kind, "read", pc=pc) for pc, kind in enumerate(("out-of-bounds", "wild-address", "out-of-bounds"))
]


def lines(ran: RunSummary, findings: list[Finding] | None = None) -> list[str]:
    to = io.StringIO()
    print_findings(findings or [], to, ran)
    return to.getvalue().splitlines()


@pytest.mark.parametrize(
    ("ran", "expected"),
    [
        (RunSummary(1, 1234), ["1 kernel ran; 1,234 instructions", "checked: no findings"]),
        (RunSummary(2, None), ["2 kernels ran", "checked: no findings"]),
        (
            RunSummary(2, 7, refused=0, others=1, unfinished=1),
            [
                "2 kernels ran (and 1 of the run-time library), 1 did not finish; "
                "0 launches refused by the run-time library",
                "checked in part: 1 kernel did not finish; there were no findings until then",
            ],
        ),
        (
            RunSummary(3, 10, refused=0, others=2),
            [
                "3 kernels ran (and 2 of the run-time library); 0 launches refused by the run-time library; "
                "10 instructions",
                "checked: no findings",
            ],
        ),
        (
            RunSummary(0, 0, refused=1),
            [
                "warning: the run-time library refused 1 launch: no kernel ran for it; check hipGetLastError "
                "after each launch",
                "warning: no kernel of the program ran, so nothing was checked",
                "0 kernels ran; 1 launch refused by the run-time library; 0 instructions",
                "checked: nothing, since no kernel ran",
            ],
        ),
    ],
)
def test_without_findings(ran: RunSummary, expected: list[str]) -> None:
    assert lines(ran) == expected


def test_findings_by_kind() -> None:
    said = lines(RunSummary(1, 7), FINDINGS)
    assert said[-2:] == [
        "1 kernel ran; 7 instructions; findings: memory/out-of-bounds 2, memory/wild-address 1",
        "3 findings",
    ]
