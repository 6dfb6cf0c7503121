"""Tasks that hang or end their process are outcomes, and the next task is run."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from softcard.campaign import worker
from softcard.campaign.task import Task
from softcard.campaign.worker import lacking, run_batch

COMMAND = (sys.executable, "-m", "tests.campaign.hostile_child")


def batch(*options: str, time_limit: float = 60.0) -> list[dict[str, Any]]:
    tasks = [Task("a.cl", "0", options=each, seed=n, time_limit=time_limit) for n, each in enumerate(options)]
    return run_batch(tasks, {"a.cl": b"four"}, COMMAND)


def until(found: Callable[[], Any]) -> Any:
    end = time.monotonic() + 60
    while not (value := found()):
        assert time.monotonic() < end
        time.sleep(0.05)
    return value


def test_tasks_are_run_in_one_process() -> None:
    rows = batch("", "")
    assert [(row["outcome"], row["digest"], row["seed"]) for row in rows] == [("ok", "0 4", 0), ("ok", "1 4", 1)]
    assert rows[0]["message"] == rows[1]["message"]
    assert all(row["version"] and row["machine"] and row["worker"] and row["started"] for row in rows)


def test_whatever_a_task_does_the_next_is_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "GRACE_S", 5.0)
    rows = batch("end", "", "crash", "", "hang", "", time_limit=0.1)
    assert [(row["outcome"], row["signature"]) for row in rows] == [
        ("died", "died 3"), ("ok", ""), ("died", "died SIGSEGV"), ("ok", ""), ("timeout", "timeout"), ("ok", ""),
    ]  # fmt: skip
    assert rows[2]["message"] == "the process of the task was ended by SIGSEGV"
    assert rows[4]["message"] == "the task did not end within 0.1 s"


def test_nothing_stays_of_a_worker_that_is_killed(tmp_path: Path) -> None:
    """Not even what its child had started, and waited for."""
    note = tmp_path / "number"
    text = f"""
from tests.campaign.test_worker import COMMAND
from softcard.campaign.worker import Child
from softcard.campaign.task import Task
Child(COMMAND).run([Task("a.cl", "0", options="compile {note}")], b"", 100)
"""
    with subprocess.Popen([sys.executable, "-c", text]) as worker:
        number = int(until(lambda: note.exists() and note.read_text()))
        assert Path(f"/proc/{number}").exists()
        worker.kill()
    until(lambda: not Path(f"/proc/{number}").exists() or "Z" in Path(f"/proc/{number}/stat").read_text().split()[2])


def test_one_of_several_that_ends_the_process_is_found() -> None:
    some = [Task("generate:rv64", "rv64 1", options="seed 2 crashes", seed=n) for n in range(5)]
    others = [Task("a.cl", "0", seed=n) for n in range(2)]
    rows = run_batch([*some, *others], {"a.cl": b""}, COMMAND, together=4)
    assert [(row["outcome"], row["seed"], row["instructions"]) for row in rows] == [
        ("ok", 0, 2), ("ok", 1, 2), ("died", 2, 0), ("ok", 3, 1), ("ok", 4, 1), ("ok", 0, 1), ("ok", 1, 1),
    ]  # fmt: skip
    assert rows[2]["message"] == "the process of the task was ended by SIGSEGV"
    assert [row["instructions"] for row in run_batch(some[:2], {}, COMMAND)] == [1, 1]


def test_compilers_that_a_machine_lacks() -> None:
    assert lacking(("clang-7", "gcc-x")) == ("clang-7", "gcc-x")
