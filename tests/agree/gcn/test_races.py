"""Random programs under the check of races do what they do without."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.agree.gcn import values
from tests.agree.gcn.bench import STEP_LIMIT, World, differences, on_reference
from tests.agree.gcn.bench import _error as error_of
from tests.agree.gcn.fuzz import TARGETS
from tests.agree.gcn.programs import Builder, listing, start, weighted
from understudy.core.findings import FindingLog
from understudy.engine.gcn.group import Groups
from understudy.engine.gcn.races.watch import RaceWatch
from understudy.engine.gcn.reference.engine import Stepper
from understudy.isa.gcn.target import target


@pytest.mark.parametrize("name", TARGETS)
def test_random_programs_do_what_they_do_without(name: str) -> None:
    world = World()
    for number in range(3):
        rng = np.random.default_rng([18, number])
        builder = Builder(rng, target(name))
        builder.maker.wild = values.pick(rng, (0.0, 0.0, 0.01))
        made = builder.program(int(rng.integers(1, 30)), weighted(rng, builder.target))
        code = made.code()
        state = start(rng, mode=None, bad=0.0)
        expected = on_reference(name, code, state)
        world.fill(code, state)
        plain = world.dispatch(name, state, STEP_LIMIT)
        watch = RaceWatch(world.memory, FindingLog([]))
        watching = replace(plain, races=watch)
        groups = Groups(watching, Stepper(watching))
        watch.begin()
        error = error_of(lambda groups=groups: groups.run())
        outcome = world.outcome(groups._views[0].wave, groups.lds, groups.statistics.instructions, error)
        assert differences(expected, outcome) == [], listing(made.target, code)
