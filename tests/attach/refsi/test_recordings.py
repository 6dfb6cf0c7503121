"""A host program in C plays all recordings through the driver library: it prints what it printed on the reference."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.attach.refsi.rig import VECTORS, Served, compiled, needs_compiler, served

pytestmark = needs_compiler
RECORDINGS = sorted(VECTORS.glob("*.json"))


@pytest.fixture(scope="module")
def player(tmp_path_factory: pytest.TempPathFactory) -> str:
    return compiled("player", tmp_path_factory.mktemp("player"))


@pytest.fixture(scope="module", params=[True, False], ids=["shared memory", "messages"])
def server(request: pytest.FixtureRequest) -> Iterator[Served]:
    with served(shared_memory=request.param) as found:
        yield found


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.stem)
def test_recording(player: str, server: Served, path: Path) -> None:
    recording = json.loads(path.read_text())
    done = subprocess.run(
        [player],
        input="\n".join(recording["script"]) + "\n",
        env=server.environment | recording["env"],
        cwd=VECTORS,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    lines = done.stdout.splitlines()
    if recording["rc"] < 0:  # the reference's process died here; this one is told why, and goes on
        assert lines[: len(recording["stdout"])] == recording["stdout"]
        assert len(lines) > len(recording["stdout"])
        assert done.stderr.startswith("error")
        assert done.returncode == 0
    else:
        assert (lines, done.stderr.splitlines()) == (recording["stdout"], recording["stderr"])
        assert done.returncode == recording["rc"]
