"""No races are told of in the kernels of the corpus, which compilers made and whose results are right."""

from __future__ import annotations

from dataclasses import replace

import pytest

from softcard.core.findings import Finding, FindingLog
from softcard.engine.gcn.hooks import Checks
from softcard.engine.gcn.races.watch import RaceWatch
from softcard.engine.gcn.tiered.engine import JitEngine
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
@pytest.mark.slow(seconds=5)
@pytest.mark.parametrize("part", range(PARTS))
def test_compiled_kernels_are_fine(part: int) -> None:
    """One target for each kernel, in turn."""
    reported: list[Finding] = []
    engine = JitEngine(threads=1)
    for number, case in list(enumerate(CASES.values()))[part::PARTS]:
        gfx = case.targets[number % len(case.targets)]
        code = read_code_object(build(case.source, gfx))
        dispatch, _ = Bench(gfx, code).dispatch(case.kernel, case.grid, case.group, case.arguments())
        watch = RaceWatch(dispatch.memory, FindingLog(found := []))
        watch.begin()
        engine.run(replace(dispatch, checks=Checks(watch)))
        for each in found:
            each.kernel = f"{case.kernel} {gfx}"
        reported += found
    assert reported == []
