"""`understudy run --check`: what is said, what is written, and the exit status."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from understudy.cli import main
from understudy.core.checks import CHECKS
from understudy.host.hsa.gpu import demo_code

ARGUMENTS = ("saxpy", "--grid", "64", "--arg", "2.0", "--arg", "f32:60:ones", "--arg", "f32:60")

STORE = """s_load_dwordx2 s[8:9], s[0:1], 0x0
s_waitcnt lgkmcnt(0)
v_mov_b32 v1, 0
v_mov_b32 v2, 7
global_store_dword v1, v2, s[8:9]
s_endpgm
"""


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "k.co"
    path.write_bytes(demo_code())
    return str(path)


def test_findings_are_said_and_are_a_failure(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", file, *ARGUMENTS, "--check", "memory"]) == 1
    said = capsys.readouterr().out
    assert "error: memory/out-of-bounds: read of 4 bytes at" in said
    assert "right behind the end of argument 1, array float32[60]" in said
    assert said.endswith("3 findings\n")
    assert main(["run", file, *ARGUMENTS[:2], "60", *ARGUMENTS[3:], "--check", "memory"]) == 0
    assert capsys.readouterr().out.endswith("checked: no findings\n")


@pytest.mark.parametrize("agent", ["gfx900", "rv64gc"])
def test_equal_stores(agent: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Waves, or harts, that store the same number in the same place."""
    text, grid = ("sw a2, 0(a1)\nret\n", "4") if agent == "rv64gc" else (STORE, "128")
    (tmp_path / "k.s").write_text(text)
    assert main(["asm", str(tmp_path / "k.s"), "--agent", agent, "-o", str(tmp_path / "k.bin")]) == 0
    command = ["run", str(tmp_path / "k.bin"), "--agent", agent, "--grid", grid, "--arg", "u32:1", "--arg", "u64=7"]
    assert main([*command, "--check", "races"]) == 0
    assert main([*command, "--check", "races", "--equal-stores"]) == 1
    assert "races/write-write: write of 4 bytes at" in capsys.readouterr().out


@pytest.mark.parametrize("suffix", [".json", ".sarif"])
def test_findings_are_written(file: str, tmp_path: Path, suffix: str) -> None:
    path, known = tmp_path / f"found{suffix}", tmp_path / "known"
    known.write_text("memory/* saxpy saxpy+0x?c\n")
    assert main(["run", file, *ARGUMENTS, "--check", "memory", "--findings", str(path)]) == 1
    document = json.loads(path.read_text())
    assert len(document["runs"][0]["results"] if suffix == ".sarif" else document) == 3
    assert main(["run", file, *ARGUMENTS, "--check", "memory", "--suppressions", str(known), "--findings", str(path)])
    document = json.loads(path.read_text())
    assert len(document["runs"][0]["results"] if suffix == ".sarif" else document) == 2


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (
            ["--check", "memroy"],
            f"--check: no check 'memroy', expected some of {', '.join(CHECKS)}, all; close to it: memory",
        ),
        (["--check", "memory", "--findings", "a.txt"], "expected a name that ends in .sarif or .json"),
        (["--findings", "a.json"], "--findings and --suppressions go with --check"),
        (["--check", "memory", "--equal-stores"], "--equal-stores goes with --check races"),
    ],
)
def test_what_is_refused(file: str, options: list[str], text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", file, *ARGUMENTS, *options]) == 2
    assert text in capsys.readouterr().err
