"""Random loops of stores: both engines know the same of every parcel that is stored, whoever may not see it."""

from __future__ import annotations

import pytest

from softcard.ir import llvm
from tests.agree.store_loops import agree

PROGRAMS = 60
"""Half of them without ``--exhaustive``."""
TIERS = {"quick": llvm.QUICK, "optimised": llvm.OPTIMISED}


@pytest.mark.slow
@pytest.mark.parametrize("tier", TIERS)
def test_both_engines_know_the_same_stores(tier: str, is_exhaustive: bool) -> None:
    count = PROGRAMS // (1 if is_exhaustive else 2) // (1 if tier == "quick" else 4)
    assert sum(agree(f"{tier}/{number}", TIERS[tier]) for number in range(count)) > 100 * count
