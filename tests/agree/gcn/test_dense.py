"""Programs over few registers and known numbers do on optimised code what they do on the reference engine."""

from __future__ import annotations

import numpy as np
import pytest

from softcard.engine.gcn.tiered.translation import Tier
from tests.agree.gcn.bench import Translated, widths
from tests.agree.gcn.dense import dense
from tests.agree.gcn.fuzz import TARGETS, check
from tests.agree.gcn.shrink import report, shrink
from tests.conftest import Seeds


@pytest.mark.slow
@pytest.mark.parametrize("name", TARGETS)
def test_dense_programs_agree(name: str, seeds: Seeds) -> None:
    engines = [Translated(lanes, Tier.OPTIMISED) for lanes in widths()]
    for number in seeds(40, 20, 10 * TARGETS.index(name)):
        rng = np.random.default_rng([102, number])
        program, state = dense(rng, name, int(rng.integers(6, 30)))
        failed = check(program, state, [engines[-1 - number % 4 % len(engines)]])
        assert failed is None, f"seed 102, number {number}, {failed.engine}\n{report(shrink(failed))}"
