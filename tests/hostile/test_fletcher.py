"""Fletcher hosts of any kind: named errors, nothing overwritten, a device that goes on working."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from tests.hostile import fletcher


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
def test_schemas_of_any_kind(part: int) -> None:
    reported = Counter(fletcher.check_schema(Random(f"schemas/{number}")) for number in range(part, 4000, 4))
    assert reported["mapped"] > 400
    assert reported.total() - reported["mapped"] > 100


@pytest.mark.slow
@pytest.mark.one_in(2)
@pytest.mark.parametrize("part", range(4))
def test_registers_and_buffers_of_any_kind(part: int) -> None:
    reported: Counter[str] = Counter()
    for number in range(part, 2000, 4):
        reported.update(fletcher.check_device(Random(f"devices/{number}")))
    for rule in ("buffer-address", "buffer-format", "index-order", "range-written", "derived-registers"):
        assert reported[f"RuleError fletcher/{rule}"], reported
