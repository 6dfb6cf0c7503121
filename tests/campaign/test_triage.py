"""Failures that are the same come together, and generated programs become small while they fail."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from softcard.campaign.dataset import Dataset
from softcard.campaign.generators.registry import GENERATORS
from softcard.campaign.perform import perform, run_generated
from softcard.campaign.plan import read_plan
from softcard.campaign.reproduce import NotReproduced, Reducer, reduce_failure, write
from softcard.campaign.task import CampaignError, Task
from softcard.campaign.triage import Failure, Group, groups
from softcard.campaign.worker import row_of
from softcard.cli import main

Capture = pytest.CaptureFixture[str]


def row(seed: int, options: str, outcome: str = "ok", digest: str = "d", signature: str = "") -> dict[str, Any]:
    task = Task("generate:gcn", "gcn 1", agent="gfx900", compiler="c", options=options, seed=seed)
    return row_of(task, 0) | {"outcome": outcome, "digest": digest, "signature": signature}


def test_failures_that_are_the_same_come_together() -> None:
    rows = [row(seed, options) for seed in range(4) for options in ("-O0", "-O1", "-O2")]
    rows[3] = row(1, "-O0", digest="x")
    rows[9] = row(3, "-O0", digest="y")
    rows[6] = row(2, "-O0", "fault", "", "fault a")
    first, second = groups(rows)
    assert (first.signature, first.seeds) == ("gcn differs: c -O0", [1, 3])
    assert [each.is_difference for each in first.failures] == [True, True]
    assert first.failures[0].good == rows[4]
    assert (second.signature, second.seeds, second.failures[0].good) == ("fault a", [2], rows[7])
    assert not groups(rows[:3])
    [alone] = groups([row(5, "-O0", "died", "", "died SIGSEGV")])
    assert alone.failures[0].good is None


def test_who_disagrees_is_named() -> None:
    """Generators whose programs have one result everywhere are held together over agents; ties name both sides."""

    def made(agent: str, options: str, digest: str, program: str = "opencl") -> dict[str, Any]:
        task = Task(f"generate:{program}", f"{program} 1", agent=agent, compiler="c", options=options)
        return row_of(task, 0) | {"outcome": "ok", "digest": digest}

    two = [made("gfx700", "-O1", "x"), made("gfx900", "-O2", "y")]
    assert [each.signature for each in groups(two)] == ["opencl differs: gfx900 c -O2 against gfx700 c -O1"]
    third = made("gfx900", "-O3", "y")
    assert [each.signature for each in groups([*two, third])] == ["opencl differs: gfx700 c -O1"]
    assert not groups([made("gfx700", "-O1", "x", "gcn"), made("gfx900", "-O1", "y", "gcn")])


def test_the_native_result_is_right_whatever_most_runs_have() -> None:
    rows = [row(1, options, digest="x") for options in ("-O0", "-O1", "-O2")]
    own = row_of(Task("generate:gcn", "gcn 1", agent="gfx900", engine="native", seed=1), 0) | {
        "outcome": "ok",
        "digest": "y",
    }
    [group] = groups([*rows, own])
    assert group.signature == "gcn differs: c -O0, c -O1, c -O2 against native"
    assert [each.good for each in group.failures] == [own] * 3
    assert not groups([*rows, own | {"digest": "x"}])
    assert (
        not groups([*rows, own | {"outcome": "refused-source", "digest": "", "signature": "s"}])[0]
        .failures[0]
        .is_difference
    )


@pytest.mark.parametrize("name", ["gcn", "opencl", "rv64"])
def test_what_does_not_matter_goes(name: str) -> None:
    program = GENERATORS[name].seeded(11)
    wanted = {"gcn": "v_xor_b32 v7", "opencl": "ulong h = 0", "rv64": "ulong h = 0"}[name]
    reducer = Reducer(program, lambda text: wanted in text)
    small = reducer.run()
    assert wanted in small.text()
    assert small.size() < program.size() / 5
    assert reducer.tries < 400
    assert program.text() == GENERATORS[name].seeded(11).text()


def test_a_reducer_stops_after_so_many_tries() -> None:
    reducer = Reducer(GENERATORS["gcn"].seeded(11), lambda text: "s_endpgm" in text, 3)
    reducer.run()
    assert reducer.tries == 3


def fake(task: Task, data: bytes) -> dict[str, Any]:
    """A compiler that is wrong about multiplications with -O0."""
    found = perform(task, data, run_generated)
    return found | ({"digest": "wrong"} if task.options == "-O0" and b"v_mul_hi" in data else {})


def failure() -> Failure:
    seed = next(n for n in range(100) if "v_mul_hi" in GENERATORS["gcn"].seeded(n).text())
    return Failure(row(seed, "-O0", digest="wrong"), row(seed, "-O2"))


def test_a_failure_is_kept_as_a_campaign(tmp_path: Path, capsys: Capture) -> None:
    found = failure()
    program = reduce_failure(found, fake, 10.0)
    assert "v_mul_hi" in program.text()
    file = write(tmp_path / "one", Group("gcn differs: c -O0", [found]), program, 10.0)
    plan = read_plan(file)
    assert [task.options for task in plan.tasks()] == ["-O0", "-O2"]
    assert f"seed {found.row['seed']}; 1 runs" in plan.text
    assert main(["campaign", str(file), "--only", next(plan.tasks()).id]) == 0
    assert "ok, " in capsys.readouterr().out
    assert main(["campaign", str(file), "--only", "0"]) == 2
    assert f"{file} has no task '0'" in capsys.readouterr().err


def test_what_cannot_be_reduced() -> None:
    with pytest.raises(NotReproduced, match="no longer fails when it is run again"):
        reduce_failure(failure(), lambda task, data: perform(task, data, run_generated), 10.0)
    other = row(1, "-O0") | {"program": "a.cl"}
    with pytest.raises(CampaignError, match=r"cannot reduce a\.cl, expected a generated program \(generate:NAME\)"):
        reduce_failure(Failure(other, None), fake, 10.0)


def test_the_command(tmp_path: Path, capsys: Capture) -> None:
    pytest.importorskip("pyarrow")
    assert main(["triage", str(tmp_path / ("a" * 300))]) == 2  # no folder can have this name
    assert "expected the output of a campaign" in " ".join(capsys.readouterr().err.split())
    assert main(["triage", str(tmp_path)]) == 2
    assert "expected the output of a campaign" in capsys.readouterr().err
    Dataset(tmp_path).append([row(1, "-O0", digest="x"), row(1, "-O2"), row(1, "-O3")])
    assert main(["triage", str(tmp_path), "--only", "nothing has this"]) == 0
    assert capsys.readouterr().out == "nothing failed\n"
    assert main(["triage", str(tmp_path), "--reduce"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "1. gcn differs: c -O0: 1 run of 1 program"
    assert lines[1] == f"   softcard campaign {tmp_path / 'campaign.toml'} --only {row(1, '-O0')['id']}"
    assert lines[2] == f"   not reduced: task {row(1, '-O0')['id']} no longer fails when it is run again"
