"""tinygrad from PyPI with its own run-time library, which calls the driver itself: no part of ROCm is there.

`tools/tinygrad.sh` installs it into build/tinygrad. Its kernels are compiled by LLVM's library, and constants by clang.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from softcard.device.kfd.events import QueueFailed
from tests.attach.rocm.rig import TIMEOUT_S, Served, needs_compiler, served

ROOT = Path(__file__).parents[3]
FOLDER = ROOT / "build" / "tinygrad"
PAGE = ROOT / "docs" / "howto" / "tinygrad.md"
CLANG = "clang-19"
PROGRAM = Path(__file__).parent / "tinygrad_ops.py"
RIGHT = (
    "copy", "large copy", "arithmetic", "matmul", "half", "softmax", "reductions", "convolution", "sort",
    "cumulative sum", "gather", "integers", "double", "gradient", "jit",
)  # fmt: skip
pytestmark = [
    pytest.mark.oracle,
    needs_compiler,
    pytest.mark.skipif(not (FOLDER / "tinygrad").is_dir(), reason="no tinygrad: run sh tools/tinygrad.sh"),
    pytest.mark.skipif(not shutil.which(CLANG), reason=f"no {CLANG}: apt-get install {CLANG}"),
]


def environment(folder: Path, **more: str) -> dict[str, str]:
    """The environment of tinygrad, with a folder for its cache of compiled kernels."""
    return {"PYTHONPATH": str(FOLDER), "CC": CLANG, "DEV": "AMD:LLVM", "CACHEDB": str(folder / "cache.db"), **more}


def lines(there: Served, folder: Path, is_aql: bool, *names: str) -> list[str]:
    """Run the program of operations, and return the lines that it prints."""
    done = there.run(sys.executable, str(PROGRAM), *names, **environment(folder, AMD_AQL=str(int(is_aql))))
    assert not done.returncode, done.stderr
    assert not there.seen(QueueFailed)
    return done.stdout.splitlines()


@pytest.mark.slow
@pytest.mark.parametrize("is_aql", [True, False])
def test_operations(is_aql: bool, tmp_path: Path, is_exhaustive: bool) -> None:
    """In queues of AQL packets, with PM4 commands between them, and some in queues of PM4 commands."""
    names = RIGHT if is_aql or is_exhaustive else ("copy", "large copy", "matmul", "jit")
    with served("gfx942", time_limit_seconds=TIMEOUT_S) as there:
        assert lines(there, tmp_path, is_aql, *names) == ["AMD gfx942", *(f"{name}: right" for name in names)]


def test_page(tmp_path: Path) -> None:
    """The example of the page prints what the page says; counts of instructions depend on the compiler."""
    page = PAGE.read_text("utf-8")
    code, said = (re.findall(rf"```{kind}\n(.*?)```", page, re.DOTALL)[0] for kind in ("py", "plain"))
    (tmp_path / "relu.py").write_text(code)
    command = next(line for line in said.splitlines() if line.startswith("$ softcard ")).split()[2:]
    words = [sys.executable if word == "python" else word for word in command]
    done = subprocess.run(
        [sys.executable, "-m", "softcard", *words], cwd=tmp_path, env={**os.environ, **environment(tmp_path)},
        capture_output=True, text=True, timeout=TIMEOUT_S, check=True,
    )  # fmt: skip
    found = (done.stdout + done.stderr).splitlines()
    assert [re.sub("[0-9,]+ instr", "N instr", line) for line in found] == [
        re.sub("[0-9,]+ instr", "N instr", line) for line in said.splitlines() if not line.startswith("$ ")
    ]
