"""tinygrad from PyPI with its own run-time library, which calls the driver itself: no part of ROCm is there.

`tools/tinygrad.sh` installs it into build/tinygrad. Its kernels are compiled by LLVM's library, and constants by clang.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from softcard.device.kfd.events import QueueFailed
from tests.attach.rocm.rig import TIMEOUT_S, Served, needs_compiler, served

FOLDER = Path(__file__).parents[3] / "build" / "tinygrad"
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


def lines(there: Served, folder: Path, is_aql: bool) -> list[str]:
    """What the program of all operations prints."""
    done = there.run(
        sys.executable, str(PROGRAM), PYTHONPATH=str(FOLDER), CC=CLANG, DEV="AMD:LLVM", AMD_AQL=str(int(is_aql)),
        CACHEDB=str(folder / "cache.db"),
    )  # fmt: skip
    assert not done.returncode, done.stderr
    assert not there.seen(QueueFailed)
    return done.stdout.splitlines()


@pytest.mark.slow
@pytest.mark.parametrize("is_aql", [True, False])
def test_operations(is_aql: bool, tmp_path: Path) -> None:
    """In queues of AQL packets, with PM4 commands between them, and in queues of PM4 commands."""
    with served("gfx942", time_limit_seconds=TIMEOUT_S) as there:
        assert lines(there, tmp_path, is_aql) == ["AMD gfx942", *(f"{name}: right" for name in RIGHT)]
