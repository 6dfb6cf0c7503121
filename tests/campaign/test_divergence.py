"""Where the two engines give one program two results, the instruction is found that they do not agree about."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from softcard.campaign import bisection
from softcard.campaign.bisection import divergence, instructions_of_waves
from softcard.campaign.dataset import Dataset
from softcard.campaign.generators.registry import GENERATORS
from softcard.campaign.perform import GPU_CACHE, assembled, perform, run_generated
from softcard.campaign.task import CampaignError, Task
from softcard.campaign.triage import Failure
from softcard.campaign.worker import row_of
from softcard.cli import campaign, main
from softcard.engine.gcn.threaded import emit
from softcard.engine.gcn.threaded.library import shared_library
from softcard.engine.riscv.jit.emit_integer import Integers
from softcard.isa.gcn.builder import Builder
from softcard.isa.gcn.insn import Insn
from softcard.isa.gcn.operations.table import named


def row(
    seed: int, engine: str = "jit", program: str = "gcn", agent: str = "gfx900", compiler: str = ""
) -> dict[str, Any]:
    task = Task(f"generate:{program}", f"{program} 1", agent=agent, compiler=compiler, engine=engine, seed=seed)
    return row_of(task, 0) | {"outcome": "ok", "digest": engine}


def run(task: Task, data: bytes) -> dict[str, Any]:
    return perform(task, data, run_generated)


@pytest.fixture
def apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nothing that was compiled before or is compiled now serves others."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    GPU_CACHE.drop()
    shared_library.cache_clear()
    yield
    GPU_CACHE.drop()
    shared_library.cache_clear()


@pytest.mark.usefixtures("apart")
@pytest.mark.parametrize(
    ("name", "wrong", "instruction"),
    [("v_not_b32", "v_bfrev_b32", "v_not_b32_e32 v10, v8"), ("v_xor_b32", "v_or_b32", "v_xor_b32_e32 v14, s18, v15")],
)
def test_a_wrong_semantics_of_machine_code_is_found(
    monkeypatch: pytest.MonkeyPatch, name: str, wrong: str, instruction: str
) -> None:
    """Of several places where it stands it is the first one whose result matters."""

    def execute(b: Builder, insn: Insn) -> None:
        meant(b, replace(insn, op=named(insn.target, wrong)[0]) if insn.op.name == name else insn)

    meant = emit.execute
    monkeypatch.setattr(emit, "execute", execute)
    found = divergence(Failure(row(7), None), run, 20.0)
    assert found is not None
    lines, entry = instructions_of_waves(assembled(GENERATORS["gcn"].seeded(7).text(), "gfx900"), "gfx900")
    [place] = {pc - entry for pc, shown in lines if shown == instruction}
    assert str(found) == f"gfx900: {place:#x}: {instruction}"
    assert found.name == f"{name}_e32"


@pytest.mark.oracle
@pytest.mark.usefixtures("apart")
def test_the_command_reports_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of harts, this time; no pass is looked for then."""
    pytest.importorskip("pyarrow")
    monkeypatch.setattr(Integers, "xor", Integers.or_)
    monkeypatch.setattr(campaign, "_performer", lambda: nullcontext(run))
    sides = [row(3, engine, "rv64-small", "", "ziglang") | {"options": "-O1"} for engine in ("jit", "reference")]
    Dataset(tmp_path).append([*sides, sides[1] | {"options": "-O2"}])
    assert main(["triage", str(tmp_path), "--passes"]) == 1
    reported = "\n".join(capsys.readouterr().out.splitlines()[-2:])
    found = r"jit and reference differ in (\S*xor\S*): 1 program\n   seed 3, ziglang -O1: 0x[0-9a-f]+: \1 .*"
    assert re.fullmatch(found, reported)


def test_code_outside_of_the_program_that_makes_the_difference_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """The JIT engine is wrong only without a limit."""
    monkeypatch.setattr(bisection, "outcome_of_row", lambda outcome: outcome)

    def outcome(task: Task, program: bytes) -> str:
        del program
        return "wrong" if task.engine == "jit" and task.limit is None else "right"

    lines, _ = instructions_of_waves(assembled(GENERATORS["gcn"].seeded(3).text(), "gfx900"), "gfx900")
    text = f"right if it translates only the program's {len(lines)} instructions, and wrong if it translates all code"
    with pytest.raises(CampaignError, match=f"cannot find the instruction at which .* begin to differ: .* {text}"):
        divergence(Failure(row(3), None), outcome, 20.0)  # type: ignore[arg-type]


def test_engines_that_agree_have_none() -> None:
    assert divergence(Failure(row(3), None), run, 20.0) is None
    assert divergence(Failure(row(3, program="refsi"), None), run, 20.0) is None
    assert divergence(Failure(row(3) | {"program": "a.cl"}, None), run, 20.0) is None
