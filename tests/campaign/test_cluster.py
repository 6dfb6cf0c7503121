"""What ends a campaign: workers that lack something, and what its file asks for in vain."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from softcard.campaign import cluster
from softcard.campaign.dataset import FOLDER, Dataset
from softcard.campaign.plan import parse_plan
from softcard.campaign.task import CampaignError
from softcard.cli import main, progress
from softcard.cli.campaign import _shown_progress

pytest.importorskip("distributed")
Capture = pytest.CaptureFixture[str]


class Workers:
    """A client whose workers answer this."""

    dashboard_link = "http://nowhere"

    def __init__(self, **answers: Any) -> None:
        self._answers = answers

    def wait_for_workers(self, count: int, timeout: float) -> None:
        if not self._answers:
            raise TimeoutError("none came")

    def run(self, function: Any, compilers: Any, on_error: str) -> dict[str, Any]:
        assert compilers == ("clang-19",)
        return self._answers


@pytest.mark.parametrize(
    ("workers", "message"),
    [
        (Workers(), "no worker has connected to the scheduler within 30 s: none came"),
        (Workers(a=(), b=("clang-19",)), "worker b has no compiler clang-19"),
        (Workers(a=(), b=ImportError("no softcard")), "worker b cannot run tasks: ImportError: no softcard"),
    ],
)
def test_a_worker_that_lacks_something_is_named(workers: Workers, message: str, tmp_path: Path) -> None:
    text = "[[matrix]]\nprograms = ['generate:rv64']\ncompilers = ['clang-19']"
    with pytest.raises(CampaignError) as caught:
        cluster.run(parse_plan(text, "c.toml", tmp_path), Dataset(tmp_path), workers, ("python",))
    assert str(caught.value) == message


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:9", "nonsense://x"])
def test_a_scheduler_that_is_not_there(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "CONNECT_SECONDS", 0.5)
    before = threading.enumerate()
    with pytest.raises(CampaignError, match=f"cannot reach the scheduler {address}: "), cluster.connected(address, 1):
        pass
    assert not set(threading.enumerate()) - set(before)  # (one of before may have ended)


class Lost:
    """A batch that did not come back."""

    status = "error"

    def __init__(self, error: Exception) -> None:
        self._error = error

    def exception(self) -> Exception:
        return self._error


class KilledWorker(Exception):
    """As Dask's: so many workers ended during a batch."""


def test_tasks_of_lost_workers_are_tried_alone_and_then_blamed(tmp_path: Path) -> None:
    plan = parse_plan("[[matrix]]\nprograms = ['generate:gcn']\nseeds = '0..2'", "c.toml", tmp_path)
    tasks = list(plan.tasks())
    runner = cluster._Runner(plan, Dataset(tmp_path), None, ("python",), cluster.Progress(3), lambda progress: None)
    assert runner._lost(Lost(KilledWorker()), tasks) == ([], tasks)
    [row], again = runner._lost(Lost(KilledWorker()), tasks[1:2])
    assert (row["seed"], row["outcome"], row["signature"], again) == (1, "died", "died worker", [])
    assert row["message"] == "10 workers ended while this task ran"
    with pytest.raises(CampaignError, match="a worker cannot run tasks: ImportError: no numpy"):
        runner._lost(Lost(ImportError("no numpy")), tasks)


@pytest.mark.parametrize("is_terminal", [False, True])
def test_how_far_it_is_is_shown(
    is_terminal: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    """The dashboard once; a bar with counts on a terminal, and nothing else elsewhere."""
    monkeypatch.setenv("COLUMNS", "160")
    if is_terminal:
        monkeypatch.setenv("FORCE_COLOR", "1")
        monkeypatch.setattr(progress, "is_terminal", lambda: True)
    monkeypatch.setattr(progress, "DELAY_S", 0)
    plan = parse_plan("[[matrix]]\nprograms = ['generate:gcn']\nseeds = '0..39'", "c.toml", tmp_path)
    with _shown_progress(plan) as show:
        for done in range(4, 41, 2):
            show(cluster.Progress(40, done, 4, {"ok": done - 1, "fault": 1}, 2, "http://here/status"))
        reported = capsys.readouterr().err
        while is_terminal and "on 2 workers" not in reported:
            reported += capsys.readouterr().err
    reported += capsys.readouterr().err
    assert reported.count("dashboard: http://here/status") == 1
    if is_terminal:
        assert "ok 39 fault 1 on 2 workers" in reported
        assert "40/40 tasks" in re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", reported)
    else:
        assert reported == "dashboard: http://here/status\n"


@pytest.mark.slow
def test_a_cluster_that_is_there_is_used(tmp_path: Path) -> None:
    """By its scheduler's address, however it was started: here by Dask's commands."""
    file, address, output = tmp_path / "c.toml", tmp_path / "scheduler.json", tmp_path / "out"
    file.write_text("[[matrix]]\nprograms = ['generate:gcn']\nengines = ['jit', 'reference']\nseeds = '0..2'")

    def start(command: str, *more: str) -> subprocess.Popen[bytes]:
        words = [sys.executable, "-m", f"distributed.cli.dask_{command}", "--scheduler-file", str(address), *more]
        return subprocess.Popen(words, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    with (
        ended(start("scheduler", "--port", "0", "--host", "127.0.0.1", "--no-dashboard")),
        ended(start("worker", "--nthreads", "1", "--name", "ours", "--no-dashboard")),
    ):
        end = time.monotonic() + 60
        while not (address.exists() and address.stat().st_size):
            assert time.monotonic() < end
            time.sleep(0.05)
        scheduler = json.loads(address.read_text())["address"]
        command = ["campaign", str(file), "--output", str(output), "--scheduler", scheduler]
        done = subprocess.run([sys.executable, "-m", "softcard", *command], capture_output=True, text=True)
    assert "c: 6 tasks: 6 ok" in done.stdout, done.stderr
    assert len({row["worker"] for row in Dataset(output).rows()}) == 1


@contextmanager
def ended(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """Have it, then end it."""
    with process:
        try:
            yield
        finally:
            process.terminate()


def test_a_kernel_that_there_is_not_is_reported_with_its_line(tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "k.s").write_text(
        (Path(__file__).parents[2] / "examples" / "campaigns" / "kernels" / "scale.s").read_text()
    )
    file = tmp_path / "c.toml"
    file.write_text('[[matrix]]\nprograms = ["k.s"]\n\nkernels = ["scal"]')
    task = next(parse_plan(file.read_text(), str(file), tmp_path).tasks())
    assert main(["campaign", str(file), "--only", task.id]) == 2
    err = capsys.readouterr().err
    assert err == f"{file}:4: error: unknown kernel 'scal'; did you mean 'scale'?\n   |\n 4 | kernels = [\"scal\"]\n"
    assert main(["campaign", str(file)]) == 2
    assert capsys.readouterr().err == "error: --output is missing: give the folder for the results\n"
    file.write_text("[[matrix]\n")
    assert main(["campaign", str(file)]) == 2
    assert capsys.readouterr().err.startswith(f"{file}:1:9: error: ")


# ---- a cluster of its own --------------------------------------------------------------------------------------------


def test_without_cryptography_no_cluster_is_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cryptography", None)
    with (
        pytest.raises(CampaignError, match=r"campaigns need cryptography: pip install 'softcard\[dask\]'"),
        cluster.connected("", 1),
    ):
        pass


def processes() -> dict[str, list[str]]:
    """All processes: state, parent, group, and what else Linux says of them."""
    found = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            found[path.parent.name] = path.read_text().rpartition(") ")[2].split()
    return found


def listening() -> set[str]:
    """Addresses in hexadecimal at which this process and its children listen."""
    me = str(os.getpid())
    mine = {me} | {each for each, words in processes().items() if words[1] == me}
    sockets = set()
    for path in (each for pid in mine for each in Path("/proc", pid, "fd").glob("*")):
        with suppress(OSError):
            sockets.add(os.readlink(path))
    rows = [line.split() for name in ("tcp", "tcp6") for line in Path("/proc/net", name).read_text().splitlines()[1:]]
    return {row[1].partition(":")[0] for row in rows if row[3] == "0A" and f"socket:[{row[9]}]" in sockets}


def tls_settings(security: Any) -> dict[str, str]:
    """Dask's settings that give a client these certificates."""
    return {
        "distributed.comm.tls.ca-file": security.tls_ca_file,
        "distributed.comm.tls.client.key": security.tls_client_key,
        "distributed.comm.tls.client.cert": security.tls_client_cert,
    }


@pytest.mark.slow
def test_nobody_else_can_connect_to_a_cluster_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without TLS, with another certificate, or from another machine; with its certificate one can."""
    pytest.importorskip("cryptography")
    distributed, dask = cluster.need("distributed"), cluster.need("dask")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(cluster, "CONNECT_SECONDS", 2)
    with cluster.connected("", 1) as client:
        address = client.scheduler.address
        assert address.startswith("tls://127.0.0.1:")
        assert client.run_on_scheduler(os.getpid) == os.getpid()
        assert listening() == {"0100007F"}
        [worker] = client.scheduler_info(n_workers=-1)["workers"]
        for place in (address, worker):
            with pytest.raises(OSError, match=r"imed out|closed"):
                cluster._probe(distributed, place.replace("tls:", "tcp:"))
            wrong = tls_settings(distributed.Security.temporary())
            with dask.config.set(wrong), pytest.raises(OSError, match=r"imed out|certificate"):
                cluster._probe(distributed, place)
        with dask.config.set(tls_settings(client.security)), cluster.connected(address, 1) as another:
            assert another.submit(sum, [3, 4]).result() == 7
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_to_all_its_processes_leaves_nothing(number: signal.Signals, status: int, tmp_path: Path) -> None:
    """No tracebacks of workers, no files of Dask, and no processes."""
    pytest.importorskip("cryptography")
    file, temporary = tmp_path / "c.toml", tmp_path / "tmp"
    temporary.mkdir()
    file.write_text("[[matrix]]\nprograms = ['generate:gcn']\nseeds = '0..9999'\n[campaign]\nbatch = 1")
    command = [sys.executable, "-m", "softcard", "campaign", str(file), "-o", str(tmp_path / "out"), "--workers", "1"]
    environment = os.environ | {"TMPDIR": str(temporary)}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True, env=environment
    ) as process:
        assert process.stderr is not None
        while not (tmp_path / "out" / FOLDER).is_dir() or not any((tmp_path / "out" / FOLDER).iterdir()):
            assert process.poll() is None
            time.sleep(0.01)
        os.killpg(process.pid, number)
        out, err = process.communicate(timeout=120)
    assert (process.returncode, out) == (status, "")
    assert [line for line in err.splitlines() if line and not line.startswith("dashboard: ")] == []
    assert list(temporary.iterdir()) == []
    end = time.monotonic() + 60  # the last one ends when it sees that the others have
    while living := [each for each, words in processes().items() if words[2] == str(process.pid) and words[0] != "Z"]:
        assert time.monotonic() < end, living
        time.sleep(0.1)
