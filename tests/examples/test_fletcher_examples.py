"""The Fletcher examples run, and print what they say."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples" / "fletcher"
EXPECTED = {
    "host_sum.py": ["sum of 1,000,000 rows: 499999500000", "status 0b101", "1 <= row < 3: 0"],
    "own_kernel.py": ["largest: 17"],
    "mistakes.py": [
        "1. ExampleBatch_number_values = 0x5000: no device memory is allocated at this address, at register 0x18",
        "2. ExampleBatch_number_values = 0x100000000: rows 0 to 5, 8 bytes each, end at byte 40, but the allocation",
        "3. RecordBatch 0 of the queue is Out{key: int64 not null, text: string not null}, but the design has "
        "In{key: int64 not null, text: string not null} there: queue them in the order In Out",
    ],
}


def test_every_example_is_tested() -> None:
    assert {path.name for path in EXAMPLES.glob("*.py")} == set(EXPECTED)


@pytest.mark.parametrize("name", EXPECTED)
def test_example(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(EXAMPLES / name), run_name="__main__")
    out = capsys.readouterr().out
    for text in EXPECTED[name]:
        assert text in out
