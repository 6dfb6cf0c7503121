"""The same sources on another OpenCL implementation: its results and those of the engines are compared, and with NumPy.

Only what OpenCL defines to the bit takes part, and no partial work-groups.
"""

import pytest

from softcard.engine.gcn.tiered.translation import Tier
from tests.gcn_kernels import opencl, test_kernels
from tests.gcn_kernels.bench import CASES, Out, cached_engine, check, run

pytestmark = pytest.mark.oracle
PORTABLE = [
    name
    for name, each in CASES.items()
    if each.portable and all(grid % group == 0 for grid, group in zip(each.grid, each.group, strict=True))
]


@pytest.fixture(scope="module")
def jit():
    engine = cached_engine(threads=1, tier=Tier.THREADED)
    yield engine
    engine.close()


@pytest.mark.parametrize("name", PORTABLE)
def test_pocl_gets_the_same(name, jit):
    case = CASES[name]
    there = opencl.run(case)
    check(case, there, "pocl")
    here, _ = run(jit, "gfx900", test_kernels.code_object(case.source, "gfx900", "-O2"), case)
    exact = all(not (argument.ulps or argument.absolute) for argument in case.arguments() if isinstance(argument, Out))
    for number, (expected, got) in enumerate(zip(there, here, strict=True)):
        if exact and expected.dtype.names is None:
            assert got.tobytes() == expected.tobytes(), f"buffer {number}"
