"""Kernels of rocRAND and rocSPARSE, as Debian's compilers made them: all of it is translated, and engines agree."""

from __future__ import annotations

from collections import Counter
from functools import cache

import numpy as np
import pytest

from softcard.engine.gcn.api import Engine
from softcard.engine.gcn.reference.engine import ReferenceEngine
from softcard.engine.gcn.threaded.emit import HandlerEmitter
from softcard.engine.gcn.threaded.frontend import Frontend
from softcard.engine.gcn.threaded.kind import Kind
from softcard.engine.gcn.tiered.engine import JitEngine
from softcard.engine.gcn.tiered.translation import Tier
from tests.gcn_kernels.bench import cached_engine
from tests.rocm.exam import MANNERS, Outcome, take
from tests.rocm.libraries import PROCESSORS, SMALL, Chosen, flow, kernels

pytestmark = [
    pytest.mark.oracle,
    pytest.mark.skipif(not SMALL.exists(), reason="tools/rocm-kernels.sh has not made build/rocm-kernels"),
]
LONG = 1500
"""Instructions of a run from which optimising the kernel would take too much of a test's time."""


@cache
def engine(tier: Tier) -> JitEngine:
    """One of each, with what it has compiled."""
    return cached_engine(threads=1, tier=tier)


@pytest.mark.slow
@pytest.mark.parametrize("processor", PROCESSORS)
def test_no_instruction_of_any_kernel_leaves_translated_code(processor: str) -> None:
    frontends: dict[int, Frontend] = {}
    kinds: dict[str, Kind] = {}
    left: Counter[str] = Counter()
    count = 0
    for chosen in kernels(SMALL, processor, 5, 16):
        found = flow(chosen, frontends)
        for (_, mode), block in found.blocks.items():
            plans = found.frontend(mode).plans
            for number in np.unique(found.plans[mode][block.first : block.last]).tolist():
                kind = plans[number].kind
                if kind is None:
                    insn = plans[number].insn
                    left[f"{chosen}: {insn.op.name if insn else 'no instruction'}"] += 1
                else:
                    kinds[kind.key] = kind
            count += block.last - block.first
    assert not left
    assert count > 20_000
    for kind in kinds.values():
        HandlerEmitter(kind, 16).emit("handler")  # raises where it has to be left to the reference engine


def finished(chosen: Chosen) -> tuple[str, Outcome] | None:
    """The first manner in which a kernel comes to its end, and what it made."""
    for manner in MANNERS:
        outcome = take(chosen, manner, engine(Tier.THREADED))
        if not outcome.error:
            return manner, outcome
    return None


@pytest.mark.slow
@pytest.mark.parametrize("processor", PROCESSORS)
def test_engines_make_the_same_of_memory(processor: str) -> None:
    done = compiled = 0
    for chosen in kernels(SMALL, processor, 16, 24):
        found = finished(chosen)
        if found is None:
            continue
        manner, first = found
        others: list[Engine] = [ReferenceEngine()]
        if first.instructions < LONG:
            others.append(engine(Tier.OPTIMISED))
        for other in others:
            outcome = take(chosen, manner, other)
            assert outcome.error == "", chosen
            assert outcome.instructions == first.instructions, chosen
            assert outcome.memory == first.memory, chosen
            assert not outcome.left, chosen
        assert not first.left, chosen
        done, compiled = done + 1, compiled + len(others) - 1
    assert done >= 12
    assert compiled >= 4
