"""The check of barriers as an option of devices, of programs and of the command line."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from softcard.amdcl2 import Program
from softcard.cli import main
from softcard.core.checks import VARIABLE
from softcard.core.diagnostics import of_finding
from softcard.core.errors import BeyondModel
from softcard.core.findings import FindingError
from softcard.host.hsa.gpu import Gpu, Local, demo_code
from softcard.host.refsi.refsi import RefSi, demo_kernels
from softcard.image.amdcl2.build import pointer
from softcard.image.assembly.files import assemble_code_object
from softcard.report.diagnostic_formats import to_sarif
from tests.host.amdcl2.rig import kernel, program

EARLY = """
.amdgcn_target "amdgcn-amd-amdhsa--gfx900"
.text
early:
    v_readfirstlane_b32 s4, v0
    s_cmp_ge_u32 s4, 64
    {}
    s_barrier
out:
    s_endpgm
.rodata
.p2align 6
.amdhsa_kernel early
  .amdhsa_user_sgpr_kernarg_segment_ptr 1
  .amdhsa_next_free_vgpr 1
  .amdhsa_next_free_sgpr 6
.end_amdhsa_kernel
"""
BAD, GOOD = (assemble_code_object(EARLY.format(text)) for text in ("s_cbranch_scc1 out", "s_nop 0"))
SAID = "wave 1 of 2 ended without reaching this barrier"


@pytest.mark.parametrize("engine", ["jit", "reference"])
def test_a_kernel_is_reported_each_time(engine: str) -> None:
    with Gpu.open("gfx900", check="sync", engine=engine) as gpu:
        for times in range(1, 6):  # launches that are repeated are kept, and processed by machine code
            (found,) = gpu.run(BAD, "early", 1280, 128).findings
            assert found.count == 10 * times
        assert gpu.run(GOOD, "early", 1280, 128).findings == ()
        assert (found.name, found.message, found.kernel) == ("sync/barrier-not-reached", SAID, "early")
        assert (found.at, found.insn) == ("early+0xc", "s_barrier")
        assert len(gpu.findings) == 1


def test_without_the_check_nothing_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    for options, count in (({}, 0), ({"check": "memory"}, 0), ({"check": "all"}, 1), ({"check": "init,sync"}, 1)):
        with Gpu.open("gfx900", **options) as gpu:
            assert len(gpu.run(BAD, "early", 128, 128).findings) == count
    monkeypatch.setenv(VARIABLE, "sync")
    with Gpu.open("gfx900") as gpu:
        assert len(gpu.run(BAD, "early", 128, 128).findings) == 1


@pytest.mark.parametrize("engine", ["jit", "reference"])
def test_the_first_finding_is_raised_where_that_is_asked_for(engine: str) -> None:
    with Gpu.open("gfx900", check="sync", on_finding="raise", engine=engine) as gpu:
        with pytest.raises(FindingError, match=rf"sync/barrier-not-reached: {SAID}"):
            gpu.run(BAD, "early", 1280, 128)
        assert gpu.run(GOOD, "early", 1280, 128).findings == ()


def test_our_own_kernels_are_fine() -> None:
    for agent in ("gfx700", "gfx803", "gfx900"):
        with Gpu.open(agent, check="sync", on_finding="raise") as gpu:
            square, out = np.ones((32, 32), np.float32), np.zeros((32, 32), np.float32)
            gpu.run(demo_code(agent), "matmul", (32, 32), (16, 16), [square, square, out, 32])
            data, bins = np.arange(1000, dtype=np.uint8), np.zeros(256, np.int32)
            gpu.run(demo_code(agent), "histogram", 256, 256, [data, 1000, bins, Local(1024)])
            assert gpu.findings == []


@pytest.mark.parametrize(("lanes", "count"), [(40, 1), (64, 0)])
def test_programs_of_opencl_likewise(lanes: int, count: int) -> None:
    text = f"v_cmp_gt_u32 vcc, {lanes}, v0 | s_and_saveexec_b64 s[12:13], vcc | s_barrier | s_endpgm".replace("|", "\n")
    made = program("gfx900", kernel("gfx900", "some", text, [pointer("x", "uint*")]))
    with Program(made.container, check="sync") as opened:
        opened.kernel("some").run(64, 64, [np.zeros(4, np.uint32)])
        assert [each.kind for each in opened.findings] == ["barrier-divergent"] * count
        assert all(each.kernel == "some" for each in opened.findings)


def test_harts_have_barriers_that_are_errors_in_any_case() -> None:
    with RefSi.open(check="sync") as device:
        device.load_elf(demo_kernels())
        data, total = device.array(np.arange(64, dtype=np.int32)), device.zeros(1, np.int64)
        device.launch("barrier_sum", 4, [data, 64, device.zeros(4, np.int64), total, 4])
        assert total.array[0] == 2016
        assert device.findings == []
    with pytest.raises(BeyondModel, match="check 'sync' is not supported in profile refsidrv"):
        RefSi.open(check="sync", profile="refsidrv")


def test_the_command_line(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path, log = tmp_path / "early.co", tmp_path / "found.sarif"
    path.write_bytes(BAD)
    arguments = ["run", str(path), "--grid", "128", "--group", "128", "--check", "sync"]
    assert main([*arguments, "--findings", str(log)]) == 1
    assert f"error[sync/barrier-not-reached]: {SAID}" in capsys.readouterr().out
    [result] = json.loads(log.read_text())["runs"][0]["results"]
    assert result["ruleId"] == "sync/barrier-not-reached"
    path.write_bytes(GOOD)
    assert main(arguments) == 0
    assert capsys.readouterr().out.endswith("checked: no findings\n")


def test_the_other_barrier_is_in_sarif() -> None:
    text = EARLY.format("s_cbranch_scc1 out\n s_barrier\n s_branch on").replace("out:", "on: s_endpgm\nout: s_barrier")
    with Gpu.open("gfx900", check="sync") as gpu:
        (found,) = gpu.run(assemble_code_object(text), "early", 128, 128).findings
    [result] = to_sarif(Path("early.co"), [of_finding(found)], "1")["runs"][0]["results"]
    assert result["message"]["text"].count("see early+0xc (pc 0x") == 1
    assert "(early+0xc, s_barrier)" in found.other
