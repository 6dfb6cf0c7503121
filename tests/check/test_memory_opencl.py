"""Every planted bug is found at its instruction, on both engines, and nothing in the corrected twins."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from softcard.core.errors import AccessFault
from softcard.host.hsa.compile import compile_opencl, compilers
from softcard.host.hsa.gpu import Executable, Gpu
from tests.check.memory_cases import CASES, SOURCE, Case, marked

pytestmark = [pytest.mark.oracle, pytest.mark.slow]
ENGINES = {"gfx700": ("jit",), "gfx803": ("jit",), "gfx900": ("jit", "reference")}
Devices = dict[str, tuple[Gpu, dict[int, Executable]]]


@pytest.fixture(scope="module")
def devices(request: pytest.FixtureRequest) -> Iterator[Devices]:
    """By engine: a device, and the kernels with their mistakes (1) and without (0)."""
    if not compilers():
        pytest.skip("no compiler for OpenCL C is installed")
    agent = request.param
    made = {bug: compile_opencl(SOURCE, agent, options=["-g", f"-DB={bug}"]) for bug in (0, 1)}
    gpus = {engine: Gpu.open(agent, check="memory", engine=engine, threads=1) for engine in ENGINES[agent]}
    yield {
        engine: (gpu, {bug: gpu.load(code, any_target=True) for bug, code in made.items()})
        for engine, gpu in gpus.items()
    }
    for gpu in gpus.values():
        gpu.close()


def run(gpu: Gpu, code: Executable, case: Case, faults: bool) -> None:
    arguments = case.arguments(gpu)
    if faults:
        with pytest.raises(AccessFault) as caught:
            gpu.run(code, case.name, case.grid, args=arguments)
        assert any("memory/" in note for note in caught.value.__notes__)
    else:
        result = gpu.run(code, case.name, case.grid, args=arguments)
        assert list(result.findings) == gpu.findings


every_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


@every_case
@pytest.mark.parametrize("devices", ["gfx900"], indirect=True)
def test_a_bug_is_found_and_its_corrected_version_is_not(devices: Devices, case: Case) -> None:
    found_and_not(devices, case)


@pytest.mark.one_in(61)  # what differs between generations is the compiler's work more than ours
@every_case
@pytest.mark.parametrize("devices", ["gfx700", "gfx803"], indirect=True)
def test_likewise_on_older_generations(devices: Devices, case: Case) -> None:
    found_and_not(devices, case)


def found_and_not(devices: Devices, case: Case) -> None:
    """Run both, on each engine."""
    reported = []
    for gpu, codes in devices.values():
        run(gpu, codes[0], case, False)
        assert gpu.findings == []
        run(gpu, codes[1], case, case.faults)
        first = gpu.findings[0]
        reported.append([_facts(each) for each in gpu.findings])
        gpu.findings.clear()
        assert (first.kind, first.access, first.lanes) == (case.kind, case.access, case.lanes)
        assert first.kernel == case.name
        assert case.distance is None or first.distance == case.distance
        assert first.source.endswith(f"kernel.cl:{marked(case.name)}")
        assert first.at.startswith(f"{case.name}+")
        assert {"read": "load", "write": "store", "atomic": "a"}[case.access] in first.insn or "ds_" in first.insn
        if first.allocation is not None and case.kind != "private-out-of-bounds":
            assert "memory_cases.py:" in first.allocation.made
    assert all(each == reported[0] for each in reported)


def _facts(finding: Any) -> tuple[Any, ...]:
    return finding.name, finding.at, finding.lanes, finding.unit, finding.group, finding.count, finding.distance


@pytest.mark.parametrize("engine", ["jit", "reference"])
def test_an_index_below_zero_is_before_lds(engine: str) -> None:
    if not compilers():
        pytest.skip("no compiler for OpenCL C is installed")
    source = """kernel void k(global int *x) {
        local int t[64];
        int i = get_local_id(0);
        t[i - 2] = i;
        barrier(CLK_LOCAL_MEM_FENCE);
        x[i] = t[i & 31];
    }"""
    with Gpu.open("gfx900", check="memory", engine=engine) as gpu:
        (found,) = gpu.run(gpu.compile(source), "k", 64, 64, [gpu.zeros(64, np.int32)]).findings
    assert (
        found.message
        == "write of 4 bytes at LDS offset 0xfffffff8: 8 bytes before the 256 bytes of LDS of the work-group"
    )
    assert (found.lanes, found.distance) == ((0, 1), -8)
