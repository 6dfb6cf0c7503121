"""Every planted race of lanes is found at its line, by this check alone; nothing is told of the corrected twins."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from softcard.host.hsa.compile import compile_opencl, compilers
from softcard.hsa import Gpu

pytestmark = [pytest.mark.oracle, pytest.mark.slow]
SOURCE = (Path(__file__).parent / "lanes.cl").read_text("utf-8")
LINES = SOURCE.splitlines()
KERNELS = {
    "shift": "read-write", "reduce": "write-read", "first_sets": "write-read", "all_set": "write-write",
    "histogram": "read-write", "reset": "write-atomic", "result": "atomic-read", "overlap": "write-write",
    "turn": "write-read", "own_halves": "write-write",
}  # fmt: skip


def marked(kernel: str) -> int:
    """The line with the mistake."""
    begin = next(n for n, line in enumerate(LINES) if f"void {kernel}(" in line)
    return next(n for n, line in enumerate(LINES[begin:], begin + 1) if "/* here */" in line)


@pytest.mark.parametrize("target", ["gfx700", "gfx803", "gfx900"])
@pytest.mark.parametrize("engine", ["jit", "reference"])
@pytest.mark.parametrize("check", ["races,lanes", "all,lanes"])
def test_found(target: str, engine: str, check: str) -> None:
    if not compilers():
        pytest.skip("no compiler for OpenCL C is installed")
    assert set(re.findall(r"kernel void (\w+)", SOURCE)) == set(KERNELS)
    options = ["-g", "-O1"]
    with Gpu.open(target, check=check, engine=engine) as gpu:
        codes = [gpu.load(compile_opencl(SOURCE, target, options=[*options, f"-DB={bug}"])) for bug in (0, 1)]
        for name, kind in KERNELS.items():
            given = [gpu.zeros(256, np.int32), gpu.array(np.arange(64, dtype=np.int32) * 3)]
            assert gpu.run(codes[0], name, 64, 64, given).findings == (), name
            found = gpu.run(codes[1], name, 64, 64, given).findings
            assert {each.check for each in found} == {"lanes"}, name
            assert kind in {each.kind for each in found}, name
            place = f"kernel.cl:{marked(name)}"
            assert any(each.source.endswith(place) or f"{place})" in each.other for each in found), name
            gpu.findings.clear()
