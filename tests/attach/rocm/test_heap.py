"""Kernels that allocate memory and print, under the check of races: the device library's own heap does not race."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from softcard.cli import main
from tests.attach.rocm.rig import hip_program, needs_compiler, needs_rocm

pytestmark = [pytest.mark.oracle, pytest.mark.slow(seconds=40), needs_compiler, needs_rocm]
AGENT = "gfx900"
RIGHT = ("crowd", "lists", "text")
MISTAKE = "shared"
"""Work-groups that store to one block in no order."""


def test_only_the_race_of_user_code_on_a_block_is_found(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    made = tmp_path / "found.json"
    options = ["--agent", AGENT, "--check", "races", "--findings", str(made)]
    assert main(["exec", *options, "--", hip_program("heap", agents=(AGENT,)), *RIGHT, MISTAKE]) == 0
    lines = capfd.readouterr().out.splitlines()
    assert [line for line in lines if not line.startswith("lane")] == [f"{name}: right" for name in (*RIGHT, MISTAKE)]
    assert sorted(line for line in lines if line.startswith("lane")) == sorted(
        f"lane {i}" for i in range(5, 256, 64) for _ in range(2)
    )
    (found,) = json.loads(made.read_text("utf-8"))
    assert found["kind"] == "write-write"
    assert found["kernel"] == "_Z13shared_kernelPi"
    assert "_Z13shared_kernelPi" in found["other"]
