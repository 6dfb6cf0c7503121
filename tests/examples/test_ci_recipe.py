"""The workflow of the page "Test AMD kernels without a GPU": its steps run as they are on a small project."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.host.triton import FOLDER, environment

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "howto" / "triton.md").read_text(encoding="utf-8")
SCALE = """    .amdgcn_target "amdgcn-amd-amdhsa--gfx900"
    .text
    .globl scale
    .p2align 8
    .type scale,@function
scale:                                  ; x[i] *= 2 for 1,024 items
    s_load_dwordx2 s[0:1], s[0:1], 0x0
    v_lshlrev_b32_e32 v0, 2, v0
    s_lshl_b32 s2, s2, 8
    v_add_u32_e32 v0, s2, v0
    s_waitcnt lgkmcnt(0)
    v_mov_b32_e32 v1, s1
    v_add_co_u32_e32 v0, vcc, s0, v0
    v_addc_co_u32_e32 v1, vcc, 0, v1, vcc
    global_load_dword v2, v[0:1], off
    s_waitcnt vmcnt(0)
    v_add_f32_e32 v2, v2, v2
    global_store_dword v[0:1], v2, off
    s_endpgm
    .section .rodata,"a"
    .p2align 6
    .amdhsa_kernel scale
      .amdhsa_user_sgpr_kernarg_segment_ptr 1
      .amdhsa_system_sgpr_workgroup_id_x 1
      .amdhsa_kernarg_size 8
      .amdhsa_next_free_vgpr 4
      .amdhsa_next_free_sgpr 8
    .end_amdhsa_kernel
"""
TESTS = """
from pathlib import Path
import numpy as np
from softcard.image.assembly.program import assemble

SOURCE = Path(__file__).parents[1] / "kernels" / "scale.s"

def test_scale(softcard_gpu):
    x = np.arange(1024, dtype=np.float32)
    softcard_gpu.run(assemble(SOURCE.read_text()).elf(str(SOURCE)), "scale", grid=1024, group=64, args=[x])
    assert (x == 2 * np.arange(1024)).all()
"""
TRITON = '''
import numpy as np
import softcard.triton
import triton
import triton.language as tl

@triton.jit
def add_or_not(x, y, n, ADD: tl.constexpr, BLOCK: tl.constexpr):
    """Add one tensor to another one."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i, mask=i < n)
    if ADD:
        v += tl.load(y + i, mask=i < n)
    else:
        v = v * 3
    if n > 1000:
        v = v + tl.sum(v)
    tl.store(x + i, v, mask=i < n)

def test_add():
    x, y = np.ones(500, np.float32), np.ones(500, np.float32)
    add_or_not[(4,)](x, y, 500, True, BLOCK=128)
    assert (x == 2).all()
'''
TOML = re.search(r"^```toml\n(\[tool\.coverage\.run\].*?)^```$", PAGE, re.DOTALL | re.MULTILINE)


def workflow() -> dict[str, Any]:
    texts = re.findall(r"^```yaml\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    (found,) = [yaml.safe_load(text) for text in texts]
    assert isinstance(found, dict)
    return found


def commands() -> dict[str, str]:
    """The shell steps of the job by name."""
    return {step["name"]: step["run"] for step in workflow()["jobs"]["kernels"]["steps"] if "run" in step}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for name, text in (("kernels/scale.s", SCALE), ("tests/test_scale.py", TESTS)):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    assert TOML is not None
    (tmp_path / "pyproject.toml").write_text(TOML[1])
    return tmp_path


def run(project: Path, command: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a step as GitHub does."""
    paths = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "PYTHONPATH": str(FOLDER)}
    words = ["bash", "-e", "-c", command]
    every = {**os.environ, **environment(), **paths, **variables}
    return subprocess.run(words, cwd=project, env=every, capture_output=True, text=True, check=False)


def test_the_workflow() -> None:
    steps = workflow()["jobs"]["kernels"]["steps"]
    assert list(commands()) == [
        "Install",
        "Tests with coverage",
        "Tests with the checks that coverage excludes",
        "A kernel by itself, with annotations",
    ]
    assert "requirements-test.txt" in commands()["Install"]
    cached = next(step["with"]["path"].split() for step in steps if step.get("uses", "").startswith("actions/cache@"))
    assert cached == ["~/.cache/softcard", "~/.triton/cache"]
    assert all(re.fullmatch(r"[\w./-]+@v\d+", step["uses"]) for step in steps if "uses" in step)


@pytest.mark.slow(seconds=20)
def test_its_steps_pass_and_write_their_files(project: Path) -> None:
    if (FOLDER / "triton").is_dir():
        (project / "tests" / "test_add.py").write_text(TRITON)
    for name, command in commands().items():
        if name != "Install":
            result = run(project, command)
            assert result.returncode == 0, (name, result.stdout, result.stderr)
    files: dict[str, dict[int, int]] = {}
    for record in (project / "coverage.info").read_text().split("end_of_record"):
        if source := re.search(r"^SF:(.*)$", record, re.MULTILINE):
            lines = re.findall(r"^DA:(\d+),(\d+)", record, re.MULTILINE)
            files[Path(source[1]).name] = {int(line): int(count) for line, count in lines}
    assert all(files["scale.s"].values())
    assert len(files["scale.s"]) == 13
    assert all(files["test_scale.py"].values())
    if "test_add.py" in files:
        missing = [line for line, count in files["test_add.py"].items() if not count]
        assert missing == [15, 17]  # the other branch of the constant, and the sum
    assert (project / "findings.sarif").is_file()
    assert (project / "tests.xml").is_file()


@pytest.mark.slow(seconds=3)
def test_a_finding_annotates_its_line(project: Path) -> None:
    source = project / "kernels" / "scale.s"
    source.write_text(SCALE.replace("global_load_dword v2, v[0:1], off", "global_load_dword v2, v[0:1], off offset:4"))
    result = run(project, commands()["A kernel by itself, with annotations"])
    assert result.returncode == 1, (result.stdout, result.stderr)
    assert re.search(r"^::error .*file=kernels/scale.s,.*line=15", result.stdout, re.MULTILINE), result.stdout
    assert "memory/out-of-bounds" in (project / "findings.sarif").read_text()
