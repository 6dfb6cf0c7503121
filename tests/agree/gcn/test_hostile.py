"""Whatever the code is, both engines end with the same state, fault or step limit, and the process lives."""

from __future__ import annotations

import numpy as np
import pytest

from softcard.engine.gcn.jit.basics import Observed
from softcard.engine.gcn.tiered.translation import Tier
from softcard.isa.gcn.target import target
from tests.agree.gcn import hostile
from tests.agree.gcn.bench import Translated, differences, on_reference, widths
from tests.agree.gcn.fuzz import TARGETS
from tests.agree.gcn.programs import listing, start

LIMIT = 150
TYPED = ("AccessFault", "BeyondModel", "GuestFault", "IllegalInstruction", "StepLimit", "WireError")


@pytest.mark.slow
@pytest.mark.one_in(2)
@pytest.mark.parametrize("part", [0, 1])
@pytest.mark.parametrize("name_of_attack", sorted({attack.__name__ for attack in hostile.ATTACKS}))
def test_hostile_code_ends_alike(name_of_attack: str, part: int) -> None:
    attack: hostile.Attack = getattr(hostile, name_of_attack)
    engines = [Translated(lanes, Tier.THREADED, Observed.ALWAYS) for lanes in widths()]
    for number in range(4 * part, 4 * part + 4):
        name = TARGETS[number % len(TARGETS)]
        rng = np.random.default_rng([number, len(name_of_attack)])
        code, state = attack(rng, target(name)), start(rng)
        expected = on_reference(name, code, state, LIMIT)
        engine = engines[number % len(engines)]
        lines = differences(expected, engine(name, code, state, LIMIT))
        assert not lines, "\n".join([f"{name}, {number}, {engine}", listing(target(name), code[:400]), *lines])
        assert not expected.error or expected.error.startswith(TYPED), expected.error
