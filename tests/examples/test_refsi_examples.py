"""The example programs run, and print what they say."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
EXPECTED = {
    "refsi_vector_add.py": ["[ 0 11 22 33] 175989", "144096 instructions, right: True"],
    "refsi_command_buffer.py": [
        "RUN_INSTANCES MAX_HARTS=0 NUM_INSTANCES=4",
        ": 22 commands, 312 instructions",
        "48 50 52 54 56 58 60 62]",
        "hart 0 retired 78 instructions",
    ],
    "refsi_fault.py": [
        "1. write of 4 bytes at 0x200000014: no memory there, at pc 0x102f2 (broken+0xe: c.sw a0,0(a1), "
        "a1 = 0x200000014), at hart 1, at instance 5",
        "2. the kernel command has not ended after 100000 instructions",
        "3. WRITE_REG64: count announces 2 payload chunks, expected 1",
        "   error: header-count",
        "4. [2 2 2 2]",
    ],
}


def test_every_example_is_tested() -> None:
    assert {path.name for path in EXAMPLES.glob("refsi_*.py")} == set(EXPECTED)


@pytest.mark.parametrize("name", EXPECTED)
def test_example(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(EXAMPLES / name), run_name="__main__")
    out = capsys.readouterr().out
    for text in EXPECTED[name]:
        assert text in out
    if name == "refsi_command_buffer.py":
        assert "error:" not in out
        assert "warning:" not in out
