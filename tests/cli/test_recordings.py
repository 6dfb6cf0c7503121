"""The player prints what the reference driver printed, line by line, for every recording."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import softcard
from softcard.cli.recordings import Player, Settings

FOLDER = Path(__file__).parents[1] / "vectors" / "refsi"
RECORDINGS = sorted(FOLDER.glob("*.json"))


def load(path: Path) -> dict[str, Any]:
    recording: dict[str, Any] = json.loads(path.read_text())
    return recording


def test_there_are_recordings() -> None:
    assert len(RECORDINGS) > 100


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.stem)
def test_recording(path: Path) -> None:
    recording = load(path)
    out, err = io.BytesIO(), io.StringIO()
    settings = Settings(profile_level=int(recording["env"].get("CA_PROFILE_LEVEL", 0)))
    code = Player(settings, out, err, FOLDER).play(recording["script"])
    assert out.getvalue().decode().splitlines() == recording["stdout"]
    if recording["rc"] < 0:
        assert code == 1
        assert err.getvalue().startswith("error: the reference driver crashes here: ")
        assert "line 6 (cb)" in err.getvalue()
    else:
        assert code == recording["rc"]
        assert err.getvalue().splitlines() == recording["stderr"]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["puts", "profile_level_3", "MAX_HARTS_8_dump_5_inst", "kernel_k_badecall"])
@pytest.mark.parametrize("from_file", [True, False], ids=["file", "stdin"])
def test_the_command_itself(name: str, from_file: bool, tmp_path: Path) -> None:
    recording = load(FOLDER / f"{name}.json")
    script = "\n".join(recording["script"]) + "\n"
    (tmp_path / "script.txt").write_text(script)
    (tmp_path / "kernels.elf").write_bytes((FOLDER / "kernels.elf").read_bytes())
    code = "import sys; from softcard.cli import main; sys.exit(main())"
    result = subprocess.run(
        [sys.executable, "-c", code, "refsi", "play", *(["script.txt"] if from_file else [])],
        input=None if from_file else script,
        cwd=tmp_path,
        env={**os.environ, **recording["env"], "PYTHONPATH": str(Path(softcard.__file__).parents[1])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.stdout.splitlines() == recording["stdout"]
    assert result.returncode == (1 if recording["rc"] < 0 else 0)
    if recording["rc"] >= 0:
        assert result.stderr.splitlines() == recording["stderr"]
