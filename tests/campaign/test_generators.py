"""Generated programs: the same for a seed everywhere, without undefined behaviour, with one result."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from softcard.campaign.generators.registry import GENERATORS
from softcard.campaign.perform import perform, run_generated
from softcard.campaign.task import Task
from softcard.core.errors import WireError
from softcard.core.lint import FindingWarning, LintWarning
from softcard.host.compiling import named
from softcard.testing import generated_programs

PINNED = {
    "opencl 1": "1cadecff7e90a80f",
    "opencl-small 1": "b5d4b8b02e78daa8",
    "gcn 1": "7360504d3b6b213c",
    "refsi 1": "2f68f1fc528d5415",
    "acceldev 1": "af3b461cc384db0c",
    "aql 1": "7a145cba138e8a59",
    "rv64 1": "c6186b4a47369c92",
    "rv64-small 1": "d6b3de081ea71a8a",
}
"""Digests of the first programs of each generator's version: another program for a seed is another version."""
every = pytest.mark.parametrize("name", GENERATORS)


@every
def test_a_seed_is_a_program(name: str) -> None:
    generator = GENERATORS[name]
    texts = [generator.seeded(seed).text() for seed in range(20)]
    assert len(set(texts)) == 20
    assert texts == [generator.seeded(seed).text() for seed in range(20)]
    digest = hashlib.sha256("".join(texts).encode()).hexdigest()[:16]
    assert digest == PINNED[f"{name} {generator.version}"]


def outcome(name: str, seed: int, **how: str) -> tuple[str, str]:
    found = perform(Task(f"generate:{name}", "", seed=seed, time_limit=60.0, **how), b"", run_generated)  # type: ignore[arg-type]
    return found["outcome"], found.get("digest") or found["message"]


@pytest.mark.parametrize("seed", range(8))
def test_assembly_gives_the_same_on_both_engines(seed: int) -> None:
    for agent in ("gfx700", "gfx803", "gfx906"):
        found = {engine: outcome("gcn", seed, agent=agent, engine=engine) for engine in ("jit", "reference")}
        assert found["jit"] == found["reference"]
        assert found["jit"][0] == "ok"


@pytest.mark.parametrize("name", ["refsi", "acceldev", "aql"])
def test_commands_do_the_same_on_both_engines(name: str) -> None:
    for seed in range(6):
        found = {engine: outcome(name, seed, engine=engine) for engine in ("jit", "reference")}
        assert found["jit"] == found["reference"]
        assert found["jit"][0] == "ok"


@pytest.mark.parametrize(
    ("program", "text", "message"),
    [
        ("a.refsi.txt", b"COPY", "unknown command 'COPY'"),
        (
            "a.acceldev.txt",
            b"fill 1 2",
            "'fill 1 2' is not a user command, expected fill SLOT VALUE START LENGTH, fence or nop",
        ),
        ("a.acceldev.txt", b"fill 1 2 x 4", "'fill 1 2 x 4' has 'x', expected a number from 0 to 2^32 - 1"),
        (
            "a.aql.txt",
            b"add 1 2 3 4 0x100000000\n",
            "'add 1 2 3 4 0x100000000' has '0x100000000', expected a number from 0 to 2^32 - 1",
        ),
        ("a.aql.txt", b"add 1\n", "'add 1' is not a packet, expected add CELL VALUE GRID GROUP BARRIER, and, or or"),
        ("a.gcn.s", b"v_nothing v0", "v_nothing"),
    ],
)
def test_files_that_are_none(program: str, text: bytes, message: str) -> None:
    found = perform(Task(program, ""), text, run_generated)
    assert found["outcome"] == "fault"
    assert message in found["message"]


def test_more_packets_than_the_ring_holds_are_all_processed() -> None:
    lines = [f"add {number % 16} {number:#x} 1 1 0" for number in range(130)]
    found = perform(Task("a.aql.txt", ""), "\n".join([*lines, ""]).encode(), run_generated)
    cells = np.zeros(16, np.uint32)
    np.add.at(cells, np.arange(130) % 16, np.arange(130, dtype=np.uint32))
    assert (found["outcome"], found["digest"]) == ("ok", hashlib.sha256(cells.tobytes()).hexdigest()[:16])


@pytest.mark.parametrize("before", [0, 70])
def test_what_stops_the_queue_is_raised_with_its_packet(before: int) -> None:
    lines = [*["add 1 1 1 1 0"] * before, "add 1 1 100 2000 0", *["add 1 1 1 1 0"] * 100]
    found = perform(Task("a.aql.txt", ""), "\n".join([*lines, ""]).encode(), run_generated)
    assert found["outcome"] == "fault"
    assert f"AQL packet {before}" in found["message"]
    assert "the work-group has 2000 work-items" in found["message"]


@given(st.data())
@settings(max_examples=15)
def test_hypothesis_decides_instead_of_a_seed(data: st.DataObject) -> None:
    for name, ending in (("refsi", "FINISH\n"), ("gcn", "s_endpgm\n")):
        text = data.draw(generated_programs(name))
        assert text.endswith(ending)
    found = perform(Task("a.refsi.txt", ""), data.draw(generated_programs("refsi")).encode(), run_generated)
    assert found["outcome"] == "ok"


def test_a_strategy_of_no_generator() -> None:
    with pytest.raises(WireError, match="unknown generator 'opncl'; did you mean 'opencl'"):
        generated_programs("opncl")


@pytest.mark.slow
@pytest.mark.oracle
@pytest.mark.parametrize("name", ["opencl", "rv64"])
def test_sources_give_the_same_with_and_without_optimisation(name: str) -> None:
    if named("ziglang") is None:
        pytest.skip("ziglang is not installed")
    for seed in (4, 8):
        found = {options: outcome(name, seed, compiler="ziglang", options=options) for options in ("-O0", "-O1")}
        assert found["-O0"] == found["-O1"]
        assert found["-O0"][0] == "ok"


MAIN = """
int printf(const char *, ...);
int main(void)
{
    uint state = 12345;
    for (uint gid = 0; gid < 16; gid++) {
        uint x0 = state = state * 1664525u + 1013904223u;
        uint x1 = state = state * 1664525u + 1013904223u;
        printf("%016lx ", k(gid, x0, x1));
    }
}
"""


@pytest.mark.slow
@pytest.mark.oracle
def test_programs_have_no_undefined_behaviour(tmp_path: Path) -> None:
    clang = shutil.which("clang-16") or shutil.which("clang-15")
    if clang is None:
        pytest.skip("clang-16 is not installed")
    for seed in range(6):
        text = GENERATORS["rv64"].seeded(seed).text()
        text = text[: text.index("#define __OWN")] + text[text.index("/* ---- the program ---- */") :]
        (tmp_path / "p.c").write_text(text[: text.index("static long call(long")] + MAIN)
        said = set()
        for flags in (["-fsanitize=undefined,float-cast-overflow", "-fsanitize-trap=all"], ["-O1"]):
            command = [clang, "-w", "-fsigned-char", "-ffp-contract=off", *flags, "p.c", "-o", "p"]
            subprocess.run(command, cwd=tmp_path, check=True, timeout=120)
            said.add(subprocess.run([tmp_path / "p"], capture_output=True, check=True, timeout=60).stdout)
        assert len(said) == 1


def test_what_a_task_is_warned_of_is_a_finding() -> None:
    def run(task: Task, data: bytes) -> Any:
        warnings.warn("error: memory/out-of-bounds: read", FindingWarning, stacklevel=1)
        warnings.warn("odd: it is so", LintWarning, stacklevel=1)
        raise WireError("no result")

    found = perform(Task("a", ""), b"", run)
    assert found["findings"] == ["error: memory/out-of-bounds: read", "odd: it is so"]
