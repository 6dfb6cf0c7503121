"""What the documentation says of the planted mistakes: how many there are, of which check and for whom."""

from __future__ import annotations

import re
from pathlib import Path

from tests.check import (
    memory_cases,
    races_cases,
    sync_planted,
    test_init_rv64,
    test_lanes_opencl,
    test_memory_rv64,
    test_races_rv64,
)
from tests.engine.gcn.shadow import planted as marks
from tests.engine.gcn.waits import planted as waits

PAGE = Path(__file__).parents[2] / "docs" / "checks" / "index.md"
KERNELS = {
    ("memory", "gfx700"): [case.name for case in memory_cases.CASES],
    ("memory", "RV64"): [case.name for case in test_memory_rv64.CASES],
    ("init", "gfx700"): [case.name for case in marks.CASES if case.check == "init"],
    ("init", "RV64"): list(test_init_rv64.CASES),
    ("fidelity", "gfx700"): [case.name for case in marks.CASES if case.check == "fidelity"],
    ("waits", "gfx700"): [case.name for case in waits.PLANTED],
    ("races", "gfx700"): [case.name for case in races_cases.CASES],
    ("races", "RV64"): list(test_races_rv64.CASES),
    ("lanes", "gfx700"): list(test_lanes_opencl.KERNELS),
    ("sync", "gfx700"): [case.name for case in sync_planted.PLANTED],
}


def test_the_page_counts_planted_mistakes() -> None:
    rows = re.findall(r"^\| (\w+) \| (\d+) \| (\w+)", PAGE.read_text("utf-8"), re.MULTILINE)
    assert {(check, machine): int(count) for check, count, machine in rows} == {
        key: len(set(names)) for key, names in KERNELS.items()
    }
    assert sum(map(len, KERNELS.values())) >= 120
