"""Random programs with marks and without: equal results, and equal marks on both engines."""

from __future__ import annotations

import pytest

from tests.agree.gcn.fuzz import TARGETS
from tests.agree.gcn.marked import one


@pytest.mark.slow
@pytest.mark.parametrize("name", TARGETS)
def test_marks_change_nothing(name: str) -> None:
    for number in range(2):
        assert one(name, f"300/{number}") == []
