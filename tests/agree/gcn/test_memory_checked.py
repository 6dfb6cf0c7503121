"""Random programs, wild ones among them, end the same with the check of memory and without, on every tier."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from softcard.core.findings import FindingLog
from softcard.core.memory_check import MemoryCheck
from softcard.engine.gcn.api import Dispatch
from softcard.engine.gcn.checks.bounds import BoundsCheck
from softcard.engine.gcn.hooks import NO_CHECKS, Checks
from softcard.isa.gcn.state import CHECKED
from softcard.isa.gcn.target import target
from tests.agree.gcn import values
from tests.agree.gcn.bench import DATA, Start, Translated, World, differences, engines, on_reference
from tests.agree.gcn.fuzz import TARGETS
from tests.agree.gcn.programs import Builder, start, weighted

SPARED = 44
"""Bytes of LDS that are allocated, and were not asked for."""


class Checked(World):
    """A world whose memory is looked after: a part of the data is an allocation, and nothing else is."""

    def __init__(self) -> None:
        super().__init__()
        self.findings: list[Any] = []
        self.log = FindingLog(self.findings, limit=1 << 20)
        self.memory.guard = MemoryCheck(self.log)
        self.memory.guard.allocations.add("data", DATA, 1000)

    def dispatch(self, name: str, start: Start, step_limit: int) -> Dispatch:
        """With the bit of MODE, and LDS that is smaller than what is allocated."""
        made = super().dispatch(name, start, step_limit)
        checks = Checks(BoundsCheck(self.memory.guard, self.log)) if self.memory.guard else NO_CHECKS
        return replace(made, checks=checks, mode=made.mode | CHECKED, lds_requested=max(made.lds_bytes - SPARED, 0))


@pytest.mark.slow
@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", TARGETS)
def test_no_result_is_another_one(name: str) -> None:
    tally: Counter[str] = Counter()
    every = engines()
    for number in range(4):
        rng = np.random.default_rng([18, number])
        builder = Builder(rng, target(name))
        builder.maker.wild = values.pick(rng, (0.0, 0.01, 0.05))
        program = builder.program(int(rng.integers(1, 40)), weighted(rng, builder.target))
        engine: Translated = every[int(rng.integers(len(every)))].fresh()
        engine.world = world = Checked()
        for _ in range(4):
            state = start(rng, bad=values.pick(rng, (0.0, 0.3)))
            expected, found = on_reference(name, program.code(), state), engine(name, program.code(), state)
            if "mode" in found.parts:
                found.parts["mode"] &= ~CHECKED
            assert differences(expected, found) == [], f"{number}, {engine}"
            tally["end"] += not expected.error
        tally["findings"] += len(world.findings)
    assert tally["end"] > 0
    assert tally["findings"] > 0
