"""The profile refsidrv plays every recording of the reference driver line by line."""

from pathlib import Path

import pytest

from tests.device.refsi.recordings import FOLDER, Crashed, Player, load

RECORDINGS = sorted(FOLDER.glob("*.json"))


@pytest.mark.parametrize("engine", ["reference", "jit"])
@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.stem)
def test_recording(path: Path, engine: str) -> None:
    recording = load(path)
    player = Player(engine, recording["env"])
    crashed = False
    try:
        player.play(recording["script"])
    except Crashed:
        crashed = True
    assert player.stdout.splitlines() == recording["stdout"]
    assert player.stderr == recording["stderr"]
    assert crashed == (recording["rc"] < 0)
