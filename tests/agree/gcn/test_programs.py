"""Random programs of many instructions, with branches, loops and changes of MODE, on both engines."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.agree.gcn.bench import engines
from tests.agree.gcn.fuzz import TARGETS, one
from tests.agree.gcn.shrink import report, shrink
from tests.conftest import Seeds


@pytest.mark.slow
@pytest.mark.parametrize("name", TARGETS)
def test_random_programs_agree(name: str, seeds: Seeds) -> None:
    every, tally = engines(), Counter[str]()
    numbers = seeds(12, 6, 3 * TARGETS.index(name))
    for number in numbers:
        failed = one(name, f"100/{number}", every, tally)
        assert failed is None, f"seed 100, number {number}, {failed.engine}\n{report(shrink(failed))}"
    assert tally["end"] > len(numbers), "most of them should not fault"
