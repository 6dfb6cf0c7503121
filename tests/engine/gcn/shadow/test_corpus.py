"""Nothing is told of the kernels of the corpus, which compilers made and whose results are right."""

from __future__ import annotations

from dataclasses import replace

import pytest

from softcard.engine.gcn.checks.barriers import Barriers
from softcard.engine.gcn.hooks import Checks
from softcard.engine.gcn.reference.engine import ReferenceEngine
from softcard.engine.gcn.shadow.check import EngineShadow
from softcard.engine.gcn.shadow.device_shadow import KINDS, DeviceShadow
from softcard.image.hsa.code_object import read_code_object
from tests.gcn_kernels import (  # noqa: F401 - cases of kernels
    cases_float,
    cases_group,
    cases_integer,
    cases_memory,
    cases_programs,
    cases_resources,
)
from tests.gcn_kernels.bench import CASES, Bench
from tests.gcn_kernels.toolchain import build

PARTS = 6


@pytest.mark.oracle
@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_compiled_kernels_are_fine(part: int) -> None:
    """One target for each kernel, in turn. Nor do compilers leave lanes off where work-items meet at a barrier."""
    reported: list[object] = []
    barriers = Barriers(reported.append)
    for number, case in list(enumerate(CASES.values()))[part::PARTS]:
        gfx = case.targets[number % len(case.targets)]
        code = read_code_object(build(case.source, gfx))
        dispatch, _ = Bench(gfx, code).dispatch(case.kernel, case.grid, case.group, case.arguments())
        device_shadow = DeviceShadow(dispatch.memory, KINDS)
        ReferenceEngine().run(replace(dispatch, checks=Checks(EngineShadow(device_shadow), barriers)))
        reported += [(case.kernel, gfx, *site) for site in device_shadow.uses.counts()]
    assert reported == []
