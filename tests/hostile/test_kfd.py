"""Hostile programs at the kernel driver: calls fail as calls do, and the driver goes on."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from tests.hostile import kfd


@pytest.mark.slow
def test_calls_of_any_kind() -> None:
    reported: Counter[str] = Counter()
    for number in range(20):
        reported.update(kfd.check(Random(f"kfd/{number}")))
    assert min(reported[name] for name in ("done", "EINVAL", "EFAULT", "EBUSY")), reported
