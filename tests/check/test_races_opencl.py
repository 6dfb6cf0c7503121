"""Every planted race is found at its instruction, and nothing is told of the corrected twins."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from softcard.host.hsa.compile import compile_opencl, compilers
from softcard.host.hsa.gpu import Executable, Gpu
from tests.check.races_cases import CASES, GROUP, SOURCE, Case, marked

pytestmark = [pytest.mark.oracle, pytest.mark.slow]
Device = tuple[Gpu, dict[int, Executable]]


@pytest.fixture(scope="module")
def device(request: pytest.FixtureRequest) -> Iterator[Device]:
    """A device, and the kernels with their races (1) and without (0)."""
    if not compilers():
        pytest.skip("no compiler for OpenCL C is installed")
    options = ["-g", "-cl-std=CL2.0"]
    made = {bug: compile_opencl(SOURCE, request.param, options=[*options, f"-DB={bug}"]) for bug in (0, 1)}
    with Gpu.open(request.param, check="races") as gpu:
        yield gpu, {bug: gpu.load(code, any_target=True) for bug, code in made.items()}


every_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


@every_case
@pytest.mark.parametrize("device", ["gfx900"], indirect=True)
def test_a_race_is_found_and_its_corrected_version_is_none(device: Device, case: Case) -> None:
    found_and_not(device, case)


@pytest.mark.one_in(17)  # what differs between generations is the compiler's work more than ours
@every_case
@pytest.mark.parametrize("device", ["gfx700", "gfx803"], indirect=True)
def test_likewise_on_older_generations(device: Device, case: Case) -> None:
    found_and_not(device, case)


def found_and_not(device: Device, case: Case) -> None:
    """Run both."""
    gpu, codes = device
    assert gpu.run(codes[0], case.name, 1024, GROUP, case.arguments(gpu)).findings == ()
    found = gpu.run(codes[1], case.name, 1024, GROUP, case.arguments(gpu)).findings
    place = f"kernel.cl:{marked(case.name)}"
    assert {each.check for each in found} == {"races"}
    assert case.kind in {each.kind for each in found}
    assert {each.space for each in found} == {case.space}
    assert any(each.source.endswith(place) or f"{place})" in each.other for each in found)
    for each in found:
        assert each.kernel == case.name
        assert each.at.startswith(f"{case.name}+")
        assert f"({case.name}+" in each.other
        assert "wave" in each.other
        assert "work-group" in each.other
    gpu.findings.clear()
