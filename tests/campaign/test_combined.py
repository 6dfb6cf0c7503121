"""Programs in one source are what they are alone, and one that a compiler fails on is found among them."""

from __future__ import annotations

import re
from typing import Any

import pytest

from softcard.campaign import combined as performing
from softcard.campaign.combined import combined_source, perform_combined
from softcard.campaign.compilation import Compiled, CompilerCrash
from softcard.campaign.generators import opencl, rv64
from softcard.campaign.generators.registry import GENERATORS
from softcard.campaign.perform import RunResult, perform, run_generated
from softcard.campaign.task import Task
from softcard.core.errors import BeyondModel
from softcard.core.limits import TimeLimit
from softcard.host.compiling import CompileError, named


def tasks(name: str, seeds: range, **how: Any) -> list[Task]:
    return [Task(f"generate:{name}", "1", seed=seed, **how) for seed in seeds]


@pytest.mark.parametrize(("name", "head"), [("opencl", opencl.HEAD), ("rv64", rv64.HEAD)])
def test_a_program_keeps_its_text_but_for_its_number(name: str, head: str) -> None:
    texts = [GENERATORS[name].seeded(seed).text() for seed in range(5)]
    whole = combined_source(name, texts)
    assert whole.count(head) == 1
    for number, text in enumerate(texts):
        own = text.removeprefix(head).removesuffix(rv64.TAIL)
        numbered = re.sub(r"\b(func_\d|S\d)\b", rf"\1_{number}", own).replace(" k(", f" k_{number}(")
        assert numbered in whole
    assert not re.search(r"\b(?:func_\d|S\d)\b|\bk\(", whole)


@pytest.mark.slow
@pytest.mark.oracle
@pytest.mark.parametrize(("name", "agent"), [("opencl-small", "gfx803"), ("rv64-small", "")])
def test_programs_give_together_what_they_give_alone(name: str, agent: str) -> None:
    if named("ziglang") is None:
        pytest.skip("ziglang is not installed")
    some = tasks(name, range(3), agent=agent, compiler="ziglang", options="-O1")
    found = perform_combined(some, lambda task: pytest.fail(f"{task} was compiled alone"))
    alone = perform(some[2], b"", run_generated)
    assert [row["outcome"] for row in found] == ["ok"] * 3
    assert len({row["digest"] for row in found}) == 3
    assert found[2]["digest"] == alone["digest"]
    assert found[0]["compile_seconds"] == found[1]["compile_seconds"] > 0


@pytest.mark.parametrize("error", [CompilerCrash("it failed", "there"), CompileError("it was refused")])
def test_a_program_that_stops_the_compiler_is_found(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    bad = GENERATORS["opencl-small"].seeded(5).text().removeprefix(opencl.HEAD)
    sizes, alone = [], []

    def compiled(source: bytes, *_: object) -> Compiled:
        kernels = source.decode().count("__kernel")
        if any(re.sub(r"\b(func_\d|S\d)\b|\bk\b(?=\()", rf"\g<0>_{n}", bad) in source.decode() for n in range(8)):
            raise error
        sizes.append(kernels)
        return Compiled(b"code", 8.0, "a compiler")

    def one(task: Task) -> dict[str, Any]:
        alone.append(task.seed)
        return {"outcome": "crash" if task.seed == 5 else "ok"}

    monkeypatch.setattr(performing, "compile_generated", compiled)
    monkeypatch.setattr(performing, "run_kernel", lambda code, agent, task, name: RunResult(name.encode(), 1, 0.5))
    found = perform_combined(tasks("opencl-small", range(8)), one)
    assert [row["outcome"] for row in found] == ["ok"] * 5 + ["crash"] + ["ok"] * 2
    assert (sorted(alone), sizes) == ([4, 5], [4, 2])
    assert found[0]["compile_seconds"] == 2.0
    assert len({row["digest"] for row in found[:4]}) == 4


@pytest.mark.parametrize("stops", [TimeLimit("it hangs"), BeyondModel("what is that"), None])
def test_a_program_that_stops_the_others_is_found(monkeypatch: pytest.MonkeyPatch, stops: Exception | None) -> None:
    """Of RV64, where all run as one program: whether it is stopped or prints too little."""

    def run(code: bytes, task: Task) -> RunResult:
        if int(code) < 4:
            return RunResult(b"12345678" * 16 * int(code), 30, 1.0)
        if stops is None:
            return RunResult(b"12", 0, 0.0)
        raise stops

    monkeypatch.setattr(performing, "run_rv64", run)
    count = lambda source: str(source.count(b"__attribute__((noinline)) static ulong k_")).encode()  # noqa: E731
    monkeypatch.setattr(performing, "compile_generated", lambda source, *_: Compiled(count(source), 1.0, ""))
    found = perform_combined(tasks("rv64-small", range(6)), lambda task: {"outcome": "alone"})
    assert [row["outcome"] for row in found] == ["ok"] * 6
    assert {row["instructions"] for row in found} == {10}
