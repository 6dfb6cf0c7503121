"""The campaigns of examples/campaigns; the smallest is run, with a worker that is killed in the middle."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from softcard.campaign.dataset import Dataset
from softcard.campaign.plan import read_plan

FOLDER = Path(__file__).parents[2] / "examples" / "campaigns"
COUNTS = {
    "smallest.toml": 92,
    "many.toml": 100_000,
    "nightly.toml": 128,
    "compilers.toml": 60_000,
    "findings.toml": 854,
}
TIMEOUT_S = 300.0


def test_every_campaign_can_be_read() -> None:
    assert {path.name: len(read_plan(path)) for path in FOLDER.glob("*.toml")} == COUNTS


def start(output: Path, folder: Path, *more: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "softcard", "campaign", str(FOLDER / "smallest.toml"), "--output", str(output)]
    return subprocess.Popen([*command, *more], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=folder)


def until_reported(output: Path, client: subprocess.Popen[str], count: int) -> None:
    """Wait until so many results are on disk."""
    end = time.monotonic() + TIMEOUT_S
    while not (output / "results").is_dir() or len(Dataset(output).outcomes()) < count:
        assert client.poll() is None, client.communicate()
        assert time.monotonic() < end
        time.sleep(0.02)


@pytest.mark.slow
def test_the_smallest_with_a_worker_and_then_the_client_killed(tmp_path: Path) -> None:
    psutil = pytest.importorskip("psutil")
    pytest.importorskip("distributed")
    output = tmp_path / "smallest"
    client = start(output, tmp_path, "--workers", "2")
    until_reported(output, client, 4)
    workers = [each for each in psutil.Process(client.pid).children() if "spawn_main" in " ".join(each.cmdline())]
    assert len(workers) == 2
    workers[0].kill()
    until_reported(output, client, 24)
    everything = [*psutil.Process(client.pid).children(recursive=True)]
    client.kill()
    client.communicate()
    psutil.wait_procs(everything, timeout=TIMEOUT_S)  # workers and their children notice
    before = Dataset(output).rows()
    assert 24 <= len(before) < COUNTS["smallest.toml"]

    again = start(output, tmp_path, "--workers", "1")
    said, errors = again.communicate(timeout=TIMEOUT_S)
    assert again.returncode == 0, errors
    assert f"smallest: 92 tasks ({len(before)} of them before): 92 ok" in said
    rows = Dataset(output).rows()
    assert len(rows) == len({row["id"] for row in rows}) == 92
    assert [row for row in rows if row["id"] in {each["id"] for each in before}] == before
    assert len({row["digest"] for row in rows if row["program"] == "generate:gcn"}) >= 20
    by_engine = {engine: {} for engine in ("jit", "reference")}
    for row in rows:
        by_engine[row["engine"]][row["program"], row["input"], row["agent"], row["check"], row["seed"]] = row["digest"]
    assert by_engine["jit"] == by_engine["reference"]
