"""Fletcher hosts of any kind: named errors, nothing overwritten, a device that goes on working."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from tests.hostile import fletcher


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
def test_schemas_of_any_kind(part: int) -> None:
    told = Counter(fletcher.check_schema(Random(f"schemas/{number}")) for number in range(part, 4000, 4))
    assert told["mapped"] > 400
    assert told.total() - told["mapped"] > 100


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
def test_registers_and_buffers_of_any_kind(part: int) -> None:
    told: Counter[str] = Counter()
    for number in range(part, 2000, 4):
        told.update(fletcher.check_device(Random(f"devices/{number}")))
    for rule in ("buffer-address", "buffer-format", "index-order", "range-written", "derived"):
        assert told[f"RuleError fletcher/{rule}"], told
