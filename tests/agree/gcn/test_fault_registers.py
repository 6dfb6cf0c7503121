"""Registers of errors are the same on both engines, where translated code keeps nothing for anybody to look at."""

from __future__ import annotations

import re

import numpy as np
import pytest

from softcard.engine.gcn.jit.basics import Observed
from softcard.engine.gcn.tiered.translation import Tier
from softcard.isa.gcn.target import target
from tests.agree.gcn.bench import Translated, on_reference, widths
from tests.agree.gcn.fuzz import TARGETS
from tests.agree.gcn.programs import Builder, listing, start, weighted
from tests.conftest import Seeds

COUNT = 16
"""Half of them without ``--exhaustive``."""


@pytest.mark.slow
@pytest.mark.parametrize("tier", [Tier.THREADED, Tier.OPTIMISED])
@pytest.mark.parametrize("name", TARGETS)
def test_random_programs_that_fail(name: str, tier: Tier, seeds: Seeds) -> None:
    faults = of_lanes = 0
    numbers = seeds(COUNT, COUNT // 2, COUNT // 2 * (TARGETS.index(name) % 2))
    for number in numbers:
        rng = np.random.default_rng([7, number])
        builder = Builder(rng, target(name))
        builder.maker.wild = 1.0
        code = builder.program(int(rng.integers(5, 30)), weighted(rng, builder.target)).code()
        state = start(rng, bad=0.3)
        expected = on_reference(name, code, state)
        engine = Translated(widths()[number % len(widths())], tier, Observed.NEVER)
        actual = engine(name, code, state)
        assert actual.error == expected.error, f"{number}, {engine}\n{listing(target(name), code)}"
        faults += "registers: exec = 0x" in expected.error
        of_lanes += re.search(r"lane \d+: v\d+ = ", expected.error) is not None
    assert faults > len(numbers) // 5
    assert of_lanes > len(numbers) // 10
