"""`softcard bench`: this machine beside recorded figures, and a kernel of the user's own."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from softcard.cli import demo_cases, main
from softcard.cli.running import bench, bench_cases, kernel_files
from softcard.hsa import demo_code
from softcard.image import arrow_schema

Capture = pytest.CaptureFixture[str]


def run(capsys: Capture, *arguments: str) -> tuple[int, dict[str, Any]]:
    status = main(["bench", *arguments, "--seconds", "0", "--json"])
    out, err = capsys.readouterr()
    assert not err
    return status, json.loads(out)


def test_every_measurement_has_a_recorded_figure() -> None:
    assert list(bench_cases.recorded()["best"]) == [each.name for each in bench_cases.BENCHES]


def test_more_is_better_also_of_times(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    @contextmanager
    def work() -> Iterator[tuple[float, Callable[[], float]]]:
        seconds = iter([4.0, 2.0, 8.0])
        yield 1.0, lambda: next(seconds)

    cases = [
        bench_cases.Bench("hsa", "rate", "M/s", work),
        bench_cases.Bench("hsa", "time", "us", work, is_time=True),
        bench_cases.Bench("refsi", "other", "M/s", work),
        bench_cases.Bench("hsa", "new", "M/s", work),
    ]
    known = {"machine": "some", "date": "2026-11-23", "best": {"hsa: rate": 0.25, "hsa: time": 1.0}}
    monkeypatch.setattr(bench, "BENCHES", cases)
    monkeypatch.setattr(bench, "recorded", lambda: known)
    status, found = run(capsys, "hsa")
    assert (status, found["recorded_on"]) == (0, "some")
    numbers = [(each["what"], each["best"], each["median"], each["recorded"], each["ratio"]) for each in found["rows"]]
    assert numbers == [("rate", 0.5, 0.25, 0.25, 2.0), ("time", 2.0, 4.0, 1.0, 0.5), ("new", 0.5, 0.25, None, None)]
    assert main(["bench", "hsa", "--seconds", "0"]) == 0
    assert capsys.readouterr().out.splitlines()[1].split() == ["hsa", "rate", "0.5", "0.25", "M/s", "0.25", "2.00x"]


@pytest.mark.parametrize("interface", ["acceldev", "amdcl2"])
def test_real_measurements(capsys: Capture, interface: str) -> None:
    status, found = run(capsys, interface)
    assert status == 0
    assert found["rows"]
    assert all(each["best"] >= each["median"] > 0 and each["ratio"] > 0 for each in found["rows"])


def test_wrong_results_are_no_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo_cases, "fletcher_sum", lambda rows: (1.0, False))
    assert main(["bench", "fletcher"]) == 4


def test_what_needs_an_extra_is_skipped(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> None:
        raise arrow_schema.ArrowMissing("pip install 'softcard[arrow]'")

    monkeypatch.setattr(arrow_schema, "pyarrow", missing)
    status, found = run(capsys, "fletcher")
    assert (status, found["rows"][0]["skipped"]) == (0, "pip install 'softcard[arrow]'")
    assert main(["bench", "fletcher"]) == 0
    assert "pip install 'softcard[arrow]'" in capsys.readouterr().out


# ---- a kernel --------------------------------------------------------------------------------------------------------


@pytest.fixture
def code(tmp_path: Path) -> str:
    path = tmp_path / "kernels.co"
    path.write_bytes(demo_code("gfx900"))
    return str(path)


SAXPY = ["saxpy", "--arg", "2.5", "--arg", "f32:4096:range", "--arg", "f32:4096", "--group", "128"]


def test_a_kernel(capsys: Capture, code: str) -> None:
    """First results are those of real processes, which read the same options."""
    status, found = run(capsys, "--kernel", code, *SAXPY)
    assert status == 0
    assert (found["kernel"], found["agent"], found["launches"]) == ("saxpy", "gfx900", 3)
    assert found["first_cold_seconds"] > found["first_warm_seconds"] > found["median_seconds"] >= found["best_seconds"]
    assert (found["bytes"], found["interpreted"]) == (2 * 4 * 4096, 0)
    assert found["rate"] == pytest.approx(found["instructions"] / found["best_seconds"])
    assert found["bandwidth"] == pytest.approx(found["bytes"] / found["best_seconds"])


def test_what_is_interpreted_is_reported(capsys: Capture, code: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "_first_results", lambda file, name, options: [2.0, 1.0])
    arguments = ["bench", "--kernel", code, *SAXPY, "--engine", "reference", "--seconds", "0"]
    assert main(arguments) == 0
    lines = [line.split("  ") for line in capsys.readouterr().out.splitlines()]
    assert lines[0][0] == "saxpy (AMD HSA, V2, gfx900, reference)"
    assert lines[-1][0] == "one by one"
    assert "100.00%" in lines[-1]


def test_each_launch_gets_the_arrays_as_they_were_given(
    capsys: Capture, code: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []

    @contextmanager
    def opened(how: kernel_files.Options) -> Iterator[kernel_files.Launch]:
        def launch(kernel: str, grid: Any, group: Any, args: Sequence[Any]) -> kernel_files.Outcome:
            seen.append((kernel, grid, group, args[0], args[1].tolist()))
            args[1][...] = -1
            return kernel_files.Outcome(took)

        yield launch

    from softcard.host.hsa.launch import Result

    took = Result("k", 0, 11, b"", 8, 0.5, 3)
    made = kernel_files.KernelFile("AMD HSA", "gfx900", ("k",), opened)
    monkeypatch.setattr(kernel_files, "read_kernels", lambda *_: made)
    monkeypatch.setattr(bench, "_first_results", lambda file, name, options: [2.0, 1.0])
    status, found = run(capsys, "--kernel", code, "--arg", "7", "--arg", "i32:3:1,2,3")
    assert (status, found["instructions"], found["interpreted"]) == (0, 10, 3)
    assert seen == [("k", (3,), None, 7, [1, 2, 3])] * 3
    assert np.isclose(found["bandwidth"], 16)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nonsense"], "unknown interface 'nonsense', expected one of refsi, "),
        (["--arg", "7"], "--arg, --grid, --group, --agent and --time-limit require --kernel FILE"),
        (["--kernel", "-"], "give a file instead of standard input"),
        (["--kernel", "CODE", "a", "b"], "expected one kernel, got a, b"),
        (["--kernel", "CODE", "nope"], "unknown kernel 'nope'"),
    ],
)
def test_usage(capsys: Capture, code: str, arguments: list[str], said: str) -> None:
    assert main(["bench", *(each.replace("CODE", code) for each in arguments)]) == 2
    assert said in capsys.readouterr().err
