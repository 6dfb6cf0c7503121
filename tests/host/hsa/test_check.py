"""Checks of kernels as an option: ``Gpu.open(check="waits")``, programs, the environment, the command line."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

from softcard.amdcl2 import Program
from softcard.cli import main
from softcard.core.checks import VARIABLE
from softcard.core.diagnostics import of_finding
from softcard.core.errors import BeyondModel
from softcard.core.findings import FindingError
from softcard.host.hsa.gpu import Gpu
from softcard.hsa import demo_code
from softcard.image.amdcl2.build import pointer
from softcard.image.assembly.files import assemble_code_object
from softcard.report.diagnostic_formats import to_sarif
from tests.host.amdcl2.rig import kernel, program

Capture = pytest.CaptureFixture[str]
DOUBLE = """
.amdgcn_target "amdgcn-amd-amdhsa--gfx900"
.text
double:
    s_load_dwordx2 s[4:5], s[0:1], 0x0
    v_lshlrev_b32_e32 v1, 2, v0
    s_waitcnt lgkmcnt(0)
    global_load_dword v2, v1, s[4:5]
    {}
    v_add_u32_e32 v2, v2, v2
    global_store_dword v1, v2, s[4:5]
    s_endpgm
.rodata
.p2align 6
.amdhsa_kernel double
  .amdhsa_user_sgpr_kernarg_segment_ptr 1
  .amdhsa_next_free_vgpr 3
  .amdhsa_next_free_sgpr 6
  .amdhsa_kernarg_size 8
.end_amdhsa_kernel
"""
SAID = "v_add_u32_e32 v2, v2, v2 reads v2 before global_load_dword v2, v1, s[4:5] has written it"


def double(wait: str = "") -> bytes:
    return assemble_code_object(DOUBLE.format(wait))


def run(code: bytes, times: int = 1, **options: str) -> tuple[list[str], list[int]]:
    """The findings of a kernel that was run, and its results."""
    with Gpu.open("gfx900", **options) as gpu:
        x = np.arange(64, dtype=np.uint32)
        for _ in range(times):
            gpu.run(code, "double", grid=64, group=64, args=[x])
        return [str(each) for each in gpu.device.findings], x.tolist()


@pytest.mark.parametrize("engine", ["jit", "reference"])
def test_a_kernel_is_run_once_with_its_findings(engine: str) -> None:
    found, results = run(double(), 5, check="waits", engine=engine)
    [each] = found
    head, place = f"error[waits/vector-result-read]: {SAID}", r"\(pc 0x1f+e0\w+\)"
    assert re.fullmatch(rf"double\+0x18 {place}: {re.escape(head)}; the other instruction: double\+0x10 {place}", each)
    assert results == run(double(), 5)[1] == [32 * n for n in range(64)]
    assert run(double("s_waitcnt vmcnt(0)"), 5, check="waits", engine=engine)[0] == []


def test_the_first_finding_is_raised_where_that_is_asked_for() -> None:
    with pytest.raises(FindingError, match=r"waits/vector-result-read: .* reads v2 before"):
        run(double(), check="waits", on_finding="raise")


def test_findings_are_suppressed_by_their_names(tmp_path: Path) -> None:
    path = tmp_path / "known"
    path.write_text("waits/vector-result-read double\n")
    assert run(double(), check="waits", suppressions=str(path))[0] == []


def test_findings_have_the_other_place_the_rule_and_a_suggestion() -> None:
    with Gpu.open("gfx900", check="waits") as gpu:
        gpu.run(double(), "double", grid=64, group=64, args=[np.arange(64, dtype=np.uint32)])
        [each] = gpu.findings
    plain = each.as_dict()
    assert (plain["rule"], plain["suggestion"]) == (
        "gcn/vector-result-read",
        "add s_waitcnt vmcnt(0) between the two instructions",
    )
    [result] = to_sarif(Path("double.co"), [of_finding(each)], "1")["runs"][0]["results"]
    assert result["ruleId"] == "gcn/vector-result-read"
    assert "see double+0x10 (pc 0x" in result["message"]["text"]
    assert result["message"]["text"].endswith(f"; {plain['suggestion']}")


def test_without_the_check_nothing_is_checked() -> None:
    assert run(double())[0] == []
    assert run(double(), check="")[0] == []


def test_the_environment_turns_it_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "waits")
    assert len(run(double())[0]) == 1
    assert run(double(), check="")[0] == []


def test_a_strict_memory_looks_itself() -> None:
    with pytest.raises(
        BeyondModel, match="check 'waits' cannot be used with coherence 'strict': set only one of the two"
    ):
        run(double(), check="waits", coherence="strict")


def test_with_the_other_checks_each_finds_its_own() -> None:
    for engine in ("jit", "reference"):
        with Gpu.open("gfx900", check="memory,init,fidelity,waits", engine=engine) as gpu:
            gpu.run(double(), "double", grid=64, group=64, args=[gpu.array(np.arange(32, dtype=np.uint32))])
            kinds = {(each.name, each.access, each.count) for each in gpu.findings}
        assert ("waits/vector-result-read", "", 1) in kinds
        assert ("memory/out-of-bounds", "read", 32) in kinds
        assert ("memory/out-of-bounds", "write", 32) in kinds


@pytest.mark.parametrize("engine", ["jit", "reference"])
def test_instructions_are_counted_alike(engine: str) -> None:
    counts = []
    for check in ("", "waits"):
        with Gpu.open("gfx900", check=check, engine=engine, count_instructions=True) as gpu:
            gpu.run(double(), "double", grid=640, group=64, args=[np.arange(640, dtype=np.uint32)])
            counts.append(sorted(gpu.instruction_counts().values()))
    assert counts[0] == counts[1]
    assert set(counts[0]) == {10}


def test_our_own_kernels_miss_nothing() -> None:
    for agent in ("gfx700", "gfx803", "gfx900"):
        with Gpu.open(agent, check="waits", on_finding="raise") as gpu:
            x, y = np.arange(512, dtype=np.float32), np.zeros(512, np.float32)
            gpu.run(demo_code(agent), "saxpy", grid=512, group=64, args=[1.0, x, y])
            assert gpu.device.findings == []


TWICE = """
s_load_dwordx2 s[12:13], s[6:7], {o:12}
v_mov_b32_e32 v2, 7
s_waitcnt lgkmcnt(0)
v_mov_b32_e32 v3, s12
v_mov_b32_e32 v4, s13
flat_load_dword v2, v[3:4]
%s
flat_store_dword v[3:4], v2
s_endpgm
"""


@pytest.mark.parametrize(("wait", "count"), [("", 1), ("s_waitcnt 0", 0)])
def test_programs_of_opencl_likewise(wait: str, count: int) -> None:
    made = program("gfx900", kernel("gfx900", "twice", TWICE % wait, [pointer("x", "uint*")]))
    with Program(made.container, check="waits") as opened:
        opened.kernel("twice").run(1, 1, [np.zeros(4, np.uint32)])
        assert len(opened.findings) == count


def test_the_command_line_runs_a_kernel_with_its_checks(capsys: Capture, tmp_path: Path) -> None:
    path = tmp_path / "double.co"
    path.write_bytes(double())
    arguments = ["run", str(path), "--arg", "u32:64:range", "--check", "waits"]
    assert main(arguments) == 1
    assert f"error[waits/vector-result-read]: {SAID}" in capsys.readouterr().out
    assert main([*arguments, "--json"]) == 1
    [found] = json.loads(capsys.readouterr().out)["findings"]
    assert (found["check"], found["rule"], found["level"]) == ("waits", "gcn/vector-result-read", "error")
    path.write_bytes(double("s_waitcnt vmcnt(0)"))
    assert main(arguments) == 0
