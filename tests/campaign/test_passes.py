"""The pass of a compiler that changes a result is found, and the first instruction that is different with it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from softcard.campaign.bisection import NO_PASS, Change, blamed, grouped, listed
from softcard.campaign.dataset import Dataset
from softcard.campaign.perform import perform, run_generated
from softcard.campaign.task import CampaignError, Task
from softcard.campaign.triage import Failure
from softcard.campaign.worker import row_of
from softcard.cli import main

SWITCH = 398
"""A program whose value behind a `switch` is lost with optimisations: see docs/findings.md."""


def row(options: str, digest: str, program: str = "opencl-small", seed: int = SWITCH) -> dict[str, Any]:
    task = Task(f"generate:{program}", f"{program} 1", agent="gfx900", compiler="ziglang", options=options, seed=seed)
    return row_of(task, 0) | {"outcome": "ok", "digest": digest}


def run(task: Task, data: bytes) -> dict[str, Any]:
    return perform(task, data, run_generated)


@pytest.mark.oracle
def test_the_pass_is_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("pyarrow")
    rows = [row("-O1", "x"), row("-O0", "y"), row("-O0", "y") | {"engine": "reference"}]
    Dataset(tmp_path).append(rows)
    assert main(["triage", str(tmp_path), "--passes"]) == 1
    found = re.fullmatch(
        rf"(\S.*): 1 program ziglang -O1\n   seed {SWITCH}, ziglang -O1: pass \d+, (.*) on function \(k\); "
        r"code differs from 0x[0-9a-f]+ on: (.*) became (.*)",
        "\n".join(capsys.readouterr().out.splitlines()[-2:]),
    )
    assert found is not None
    assert found[1] == found[2] != NO_PASS
    assert found[3] != found[4]


def test_passes_that_change_nothing_are_not_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Halving asks about the one pass before it is told of; a side that is the same without all passes is right."""
    reported = "\n".join(f"BISECT: running pass ({number}) pass {number} on function (k)" for number in range(1, 11))
    asked: list[str] = []

    def compiled(source: bytes, language: str, agent: str, compiler: str, options: str) -> Any:
        code = b"after" if options.endswith(("=7", "=-1")) else b"before"
        return type("Compiled", (), {"diagnostics": reported, "code": code})

    def outcome(task: Task, data: bytes) -> dict[str, Any]:
        asked.append(task.options)
        limit = int(task.options.rpartition("=")[2]) if "=" in task.options else 10
        return {"outcome": "ok", "digest": "wrong" if limit >= 7 and "-O1" in task.options else "right"}

    monkeypatch.setattr("softcard.campaign.bisection.compile_generated", compiled)
    monkeypatch.setattr(
        "softcard.campaign.bisection.listed", lambda code, language: iter([(0, "s_nop 0"), (4, str(code))])
    )
    failure = Failure(row("-O1", "x"), row("-O0", "y"))
    changes = blamed(failure, outcome, 20.0)
    assert changes == [Change(failure.row, "pass 7", "function (k)", 7, 4, "b'before'", "b'after'")]
    assert sorted({int(each.rpartition("=")[2]) for each in asked if "-O1" in each and "=" in each}) == [0, 5, 6, 7]
    assert str(changes[0]) == (
        "ziglang -O1: pass 7, pass 7 on function (k); code differs from 0x4 on: b'before' became b'after'"
    )
    [blame] = grouped([(failure, changes)])
    assert (blame.signature, blame.seeds, blame.makers) == ("pass 7", [SWITCH], ["ziglang -O1"])
    assert [each.signature for each in grouped([(failure, []), (failure, [])])] == [NO_PASS]


@pytest.mark.parametrize(
    ("failure", "message"),
    [
        (Failure(row("-O1", "x"), None), "expected a generated program whose runs disagree"),
        (
            Failure(row("", "x", "gcn"), row("", "y", "gcn")),
            "generate:gcn is not compiled: only compiled programs can be searched for a compiler pass",
        ),
        (Failure(row("-O1", "x"), row("-O1", "y")), "has the same results on both sides when it is run again"),
    ],
)
def test_what_has_no_pass(failure: Failure, message: str) -> None:
    with pytest.raises(CampaignError, match=message):
        blamed(failure, lambda task, data: {"outcome": "ok", "digest": "same"}, 20.0)


def test_what_a_compiler_cannot_do_is_reported() -> None:
    failure = Failure(row("-O1 --no-such-option", "x"), row("-O0", "y"))
    with pytest.raises(CampaignError, match=f"task {failure.row['id']}: ziglang refused the source"):
        blamed(failure, lambda task, data: {"outcome": "ok", "digest": task.options}, 20.0)


@pytest.mark.oracle
def test_code_of_both_kinds_is_listed() -> None:
    from softcard.campaign.compilation import compile_generated
    from softcard.campaign.generators.registry import GENERATORS

    for name, last in (("opencl-small", "s_endpgm"), ("rv64-small", "jalr")):
        generator = GENERATORS[name]
        source = generator.seeded(1).text().encode()
        code = compile_generated(source, generator.runs_as, "gfx900", "ziglang", "-O1").code
        lines = list(listed(code, generator.runs_as))
        assert lines[0][0] % 2 == 0
        assert any(last in text for _, text in lines)
